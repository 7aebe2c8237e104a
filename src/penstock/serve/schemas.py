"""What the HTTP API takes and gives; units are in the names, what is unknown is null."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(max_length=500)]


class QueryRow(BaseModel):
    """How one query is doing."""

    engine: str
    query: str
    state: str = Field(description="fault, observed, infeasible, scaling, shedding, catching up or fine.")
    sentence: str = Field(description="The state for a person, to follow the name of the query.")
    since_s: float | None
    latency_s: float | None
    goal_latency_s: float | None
    keep_ratio: float | None
    minimum_accuracy: float | None
    measured_accuracy: float | None
    backlog_rows: float | None
    arrival_rows_per_s: float | None
    read_limit_rows: float | None
    read_limit_files: float | None
    read_limit_bytes: float | None
    priority: int | None
    executors_serving: int | None
    executors_target: int | None
    seen_s: float | None = Field(description="Time of the newest observation.")
    curve: list[float] = Field(description="The newest latencies, oldest first.")


class EngineRow(BaseModel):
    """How one engine is doing."""

    engine: str
    seen_s: float | None
    is_live: bool = Field(description="Whether anything was seen of it within the last minute.")
    executors_serving: int | None
    executors_target: int | None
    is_scaling: bool
    cpu_ratio: float | None
    observe_only: bool | None
    can_change: bool = Field(description="Whether goals can be changed: false for a finished run.")
    infeasible: str | None
    fault: str | None
    problem: str | None = Field(description="Why its store cannot be read, where it cannot.")
    queries: int


class FleetAnswer(BaseModel):
    """Every engine and every query."""

    version: int
    time_s: float
    engines: list[EngineRow]
    queries: list[QueryRow]


class GoalBody(BaseModel):
    """The goal of a query."""

    latency_s: float | None
    minimum_accuracy: float
    priority: int
    weight: float


class ActionRow(BaseModel):
    """A decision as it stands in the log."""

    engine: str
    action_id: int
    time_s: float
    mode: str
    kind: str
    query: str
    cause: str
    reason: str
    target: str
    value: float | None
    previous: float | None
    unit: str
    change: str = Field(description="The change in words.")
    expected: dict[str, float] = Field(description="What it should bring about, by metric.")
    seen: dict[str, float] = Field(description="What was seen of that in the minute after it.")


class ActionsAnswer(BaseModel):
    """Decisions, newest first."""

    rows: list[ActionRow]
    older_exist: bool


class QueryAnswer(BaseModel):
    """One query, with its goal and why it is where it is."""

    row: QueryRow
    goal: GoalBody | None
    sentences: list[str]


class SeriesAnswer(BaseModel):
    """Thinned series: stretch ``n`` begins at ``times_s[n]``; null where nothing was seen."""

    times_s: list[float]
    step_s: float
    mean: dict[str, list[float | None]]
    low: dict[str, list[float | None]]
    high: dict[str, list[float | None]]
    forecast: ForecastBody | None


class ForecastBody(BaseModel):
    """The load to come, and what it does not exceed in 95 of 100 cases, by past errors."""

    times_s: list[float]
    mean: list[float]
    upper: list[float]


class GoalChange(BaseModel):
    """What is to change of a goal; what is left out stays."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    engine: Name
    query: Name
    latency_s: Annotated[float, Field(gt=0, le=1e9)] | None = Field(default=None)
    minimum_accuracy: Annotated[float, Field(ge=0, le=1)] | None = None
    priority: Annotated[int, Field(ge=1, le=100)] | None = None
    weight: Annotated[float, Field(gt=0, le=1e9)] | None = None


class ModeChange(BaseModel):
    """Whether an engine applies what is decided."""

    model_config = ConfigDict(extra="forbid")

    engine: Name
    observe_only: bool


class ChangeAnswer(BaseModel):
    """What came of a wish."""

    outcome: Literal["applied", "accepted", "known"] = Field(
        description="applied: it is in force. accepted: the leader forwards it. known: it was asked for before."
    )
    order_id: int | None = None


class OrderAnswer(BaseModel):
    """A wish that was accepted, and what came of it; null while nothing did."""

    order_id: int
    engine: str
    outcome: str | None


class RunCurves(BaseModel):
    """A load played once more: one value for each of ``times_s``, and sums."""

    latency_s: list[float | None]
    keep_ratio: list[float | None]
    backlog_rows: list[float | None]
    executors: list[float | None]
    late_ratio: float
    kept_ratio: float
    executor_hours: float


class WhatIfAnswer(BaseModel):
    """The last hours under the goal as it is, and under another."""

    times_s: list[float]
    arrival_rows_per_s: list[float]
    goal_latency_s: float
    what_if_latency_s: float
    as_is: RunCurves
    what_if: RunCurves
    notes: list[str] = Field(description="What the simulation had to take for true.")


class ServiceAnswer(BaseModel):
    """What an instance tells of itself."""

    version: str
    is_leading: bool | None = Field(description="null where there is one instance alone.")
    fence: int | None
    policies: list[str]
    details: dict[str, Any] = {}


SeriesAnswer.model_rebuild()
