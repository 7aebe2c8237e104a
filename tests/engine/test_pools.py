"""Pools of an engine's scheduler by priority."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from penstock.engine.pools import pool_of, write_pools
from penstock.model.goal import MAX_PRIORITY, MIN_PRIORITY

if TYPE_CHECKING:
    from pathlib import Path


def test_pools_sort_by_priority_and_weigh_as_much(tmp_path: Path) -> None:
    """Spark takes the first by name of equal pools: that must be the one of the highest priority."""
    pools = ET.parse(write_pools(tmp_path)).getroot().findall("pool")  # noqa: S314 - written just now
    names = [pool.attrib["name"] for pool in pools]
    assert names == [pool_of(priority) for priority in range(MIN_PRIORITY, MAX_PRIORITY + 1)]
    assert sorted(names, reverse=True) == names
    assert [pool.findtext("weight") for pool in pools] == [str(each) for each in range(MIN_PRIORITY, MAX_PRIORITY + 1)]
    assert {pool.findtext("schedulingMode") for pool in pools} == {"FAIR"}
