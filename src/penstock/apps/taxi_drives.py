"""Taxi drives: two topics of drives, joined into one stream, and two sinks with much to compute for each drive.

The application of "Stream-Economics" (quality of data): both sinks read the union of both companies' drives; the second
runs in two instances, each over half of the partitions.

1. Landmarks: the distance of the pickup from every landmark of the city, and the nearest one.
2. Detours: the distance of pickup and drop-off over every landmark, and the landmark with the smallest detour.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

TOPICS = ("taxi-yellow", "taxi-green")
LANDMARKS = 120
_EARTH_RADIUS_KM = 6371.0
_LATITUDE, _LONGITUDE, _SPAN = 40.55, -74.15, 0.35


def drives(rows: DataFrame, company: str) -> DataFrame:
    """Drives out of plain rows: where they begin and end follows from key and offset."""
    return rows.withColumns(
        {
            "company": F.lit(company),
            "from_latitude": _place("offset", 1) + _LATITUDE,
            "from_longitude": _place("offset", 2) + _LONGITUDE,
            "to_latitude": _place("key", 3) + _LATITUDE,
            "to_longitude": _place("key", 4) + _LONGITUDE,
        }
    )


def union(yellow: DataFrame, green: DataFrame) -> DataFrame:
    """Drives of both companies."""
    return drives(yellow, "yellow").unionByName(drives(green, "green"))


def nearest_landmarks(taxis: DataFrame) -> DataFrame:
    """The landmark nearest to where each drive begins."""
    found = _smallest(lambda spot: _distance_km("from_latitude", "from_longitude", spot))
    return taxis.withColumn("landmark", found["spot"]).withColumn("distance_km", found["km"])


def smallest_detours(taxis: DataFrame) -> DataFrame:
    """The landmark that lies nearest to the way of each drive."""

    def way(spot: Column) -> Column:
        begin = _distance_km("from_latitude", "from_longitude", spot)
        return begin + _distance_km("to_latitude", "to_longitude", spot)

    found = _smallest(way)
    return taxis.withColumn("landmark", found["spot"]).withColumn("way_km", found["km"])


def landmarks(count: int = LANDMARKS) -> list[tuple[int, float, float]]:
    """Number, latitude and longitude of the city's landmarks: a sunflower of points.

    Examples
    --------
    >>> [(number, round(lat, 3), round(lon, 3)) for number, lat, lon in landmarks(2)]
    [(0, 40.812, -73.975), (1, 40.613, -73.873)]
    """
    golden = math.pi * (3 - math.sqrt(5))
    middle_lat, middle_lon = _LATITUDE + _SPAN / 2, _LONGITUDE + _SPAN / 2
    radii = [_SPAN / 2 * math.sqrt((number + 0.5) / count) for number in range(count)]
    return [
        (number, middle_lat + radius * math.cos(number * golden), middle_lon + radius * math.sin(number * golden))
        for number, radius in enumerate(radii)
    ]


def _place(column: str, stream: int) -> Column:
    return F.pmod(F.xxhash64(F.lit(stream), column), F.lit(1_000_000)) / 1e6 * _SPAN


def _smallest(distance: Callable[[Column], Column]) -> Column:
    """The landmark with the smallest distance, as a struct of ``km`` and ``spot``."""
    # One literal: an array of structs built column by column makes a plan that takes Spark seconds to analyse.
    texts = [{"spot": number, "lat": latitude, "lon": longitude} for number, latitude, longitude in landmarks()]
    spots = F.from_json(F.lit(json.dumps(texts)), "array<struct<spot:int,lat:double,lon:double>>")
    ranked = F.transform(spots, lambda spot: F.struct(distance(spot).alias("km"), spot["spot"].alias("spot")))
    return F.array_min(ranked)


def _distance_km(latitude: str, longitude: str, spot: Column) -> Column:
    """Great-circle distance (haversine)."""
    half_lat = F.radians(spot["lat"] - F.col(latitude)) / 2
    half_lon = F.radians(spot["lon"] - F.col(longitude)) / 2
    chord = F.pow(F.sin(half_lat), 2) + F.cos(F.radians(latitude)) * F.cos(F.radians(spot["lat"])) * F.pow(
        F.sin(half_lon), 2
    )
    return 2 * _EARTH_RADIUS_KM * F.asin(F.sqrt(chord))
