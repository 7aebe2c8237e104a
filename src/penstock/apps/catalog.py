"""The applications: what each reads, what it asks for, and the queries that it consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps import click_fraud, mentions, nearest_neighbours, taxi_drives, word_count
from penstock.apps.ages import aged
from penstock.apps.streams import KafkaStream, Stream, instances_of
from penstock.errors import PenstockError
from penstock.model import Goal
from penstock.model.rows import ClicksContent, PlainContent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.attach import Penstock


@dataclass(frozen=True, slots=True)
class AppQuery:
    """One query of an application, or one instance of it; ``streams`` are what it reads."""

    name: str
    frame: DataFrame
    streams: tuple[Stream, ...]
    output_mode: str = "append"


@dataclass(frozen=True, slots=True)
class Setting:
    """What an application is built in; ``pen`` is None for a run without Penstock."""

    spark: SparkSession
    pen: Penstock | None
    goal: Goal
    instances: int
    partitions: int

    def open(self, stream: Stream, *, guarded: bool = True) -> DataFrame:
        """The rows of a stream, behind a guard where rows may be shed, with their ages observed."""
        may_shed = guarded and self.goal.minimum_accuracy < 1.0
        return aged(stream.rows(self.spark, self.pen if may_shed else None))

    def parts(self, stream: Stream) -> list[Stream]:
        """The parts of a stream for the instances of a query."""
        return instances_of(stream, self.instances, self.partitions)


@dataclass(frozen=True, slots=True)
class App:
    """An application by name."""

    name: str
    about: str
    topics: tuple[str, ...]
    content: type[ClicksContent | PlainContent]
    goal: Goal
    instances: int
    rate_rows_per_s: float
    build: Callable[[Setting, Sequence[Stream]], list[AppQuery]]


def app_named(name: str) -> App:
    """The application of that name."""
    if name not in APPS:
        raise PenstockError(f"no application {name!r}; there are: {', '.join(APPS)}")
    return APPS[name]


def _click_fraud(setting: Setting, streams: Sequence[Stream]) -> list[AppQuery]:
    found = click_fraud.suspects(click_fraud.count_patterns(setting.open(streams[0])))
    return [AppQuery("click-fraud", found, tuple(streams), "update")]


def _taxi_drives(setting: Setting, streams: Sequence[Stream]) -> list[AppQuery]:
    yellow, green = streams
    everything = taxi_drives.union(setting.open(yellow), setting.open(green))
    queries = [AppQuery("taxi-landmarks", taxi_drives.nearest_landmarks(everything), (yellow, green))]
    for number, parts in enumerate(zip(setting.parts(yellow), setting.parts(green), strict=True)):
        drives = taxi_drives.union(*(setting.open(part) for part in parts))
        name = _instance("taxi-detours", number, setting)
        queries.append(AppQuery(name, taxi_drives.smallest_detours(drives), parts))
    return queries


def _nearest_neighbours(setting: Setting, streams: Sequence[Stream]) -> list[AppQuery]:
    return [
        AppQuery(_instance("knn", number, setting), nearest_neighbours.classify(setting.open(part)), (part,))
        for number, part in enumerate(setting.parts(streams[0]))
    ]


def _mentions(setting: Setting, streams: Sequence[Stream]) -> list[AppQuery]:
    # The operator sheds by itself: a guard in front of it would drop dear and cheap rows alike.
    rows = mentions.enriched(setting.open(streams[0], guarded=False), setting.pen)
    return [AppQuery("mentions", rows, tuple(streams))]


def _word_count(setting: Setting, streams: Sequence[Stream]) -> list[AppQuery]:
    return [AppQuery("word-count", word_count.count_words(setting.open(streams[0])), tuple(streams), "update")]


def _instance(name: str, number: int, setting: Setting) -> str:
    return name if setting.instances == 1 else f"{name}-{number}"


APPS = {
    app.name: app
    for app in (
        App(
            "click-fraud", "three patterns of cheating in windows of a minute",
            ("clicks",), ClicksContent, Goal(latency="5 seconds", minimum_accuracy=0.1), 1, 5_000, _click_fraud,
        ),
        App(
            "taxi-drives", "two topics, one union, two sinks with much to compute",
            taxi_drives.TOPICS, PlainContent, Goal(latency="5 seconds", minimum_accuracy=0.3), 2, 500, _taxi_drives,
        ),
        App(
            "knn", "k nearest neighbours, in instances that share out the partitions",
            ("points",), PlainContent, Goal(latency="5 seconds", minimum_accuracy=0.3), 2, 1_000, _nearest_neighbours,
        ),
        App(
            "mentions", "rows of 25, 5 or 1 ms, by what they mention",
            ("mentions",), PlainContent, Goal(latency="5 seconds", minimum_accuracy=0.3), 1, 200, _mentions,
        ),
        App(
            "word-count", "minimum accuracy 0.7, priority 5",
            ("lines",), PlainContent, word_count.GOAL, 1, 5_000, _word_count,
        ),
    )
}  # fmt: skip


def topics_of(streams: Sequence[Stream]) -> list[str]:
    """Topics among streams."""
    return [stream.topic for stream in streams if isinstance(stream, KafkaStream)]
