"""Generated rows as records: JSON texts with their keys, a whole array at a time.

The texts are joined by Arrow, column by column: one Python call per record would take longer than sending it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.key_table import KeyTableContent
from penstock.model.rows import ClicksContent, PlainContent

if TYPE_CHECKING:
    from numpy.typing import NDArray

Content = PlainContent | KeyTableContent | ClicksContent

SCHEMAS: dict[type[Content], str] = {
    PlainContent: "offset long, timestamp_us long, key long, value double",
    KeyTableContent: "offset long, timestamp_us long, key string, value double",
    ClicksContent: "offset long, timestamp_us long, ip string, userID string, eventType string",
}
"""What ``from_json`` needs to know of each content, as Spark writes schemas."""

_EVENT_TYPES = pa.array(["display", "click"])


def json_records(
    content: Content, offsets: NDArray[np.int64], arrival_us: NDArray[np.int64]
) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of the records at these offsets, which arrive at these microseconds since 1970.

    Examples
    --------
    >>> keys, values = json_records(PlainContent(keys=9), np.array([7]), np.array([1_700_000_000_000_000]))
    >>> keys[0], values[0]
    (b'6', b'{"offset":7,"timestamp_us":1700000000000000,"key":6,"value":0.46158849555339787}')
    """
    start = ['{"offset":', _text(offsets), ',"timestamp_us":', _text(arrival_us)]
    if isinstance(content, ClicksContent):
        ips, users = _pools(content)
        rows = content.columns(offsets)
        key = users.take(pa.array(rows.user))
        events = _EVENT_TYPES.take(pa.array(rows.is_click.view(np.int8)))
        ends = [',"ip":"', ips.take(pa.array(rows.ip)), '","userID":"', key, '","eventType":"', events, '"}']
    elif isinstance(content, KeyTableContent):
        places = pa.array(content.places_of(offsets))
        names, quoted = _names(content)
        key = names.take(places)
        ends = [',"key":', quoted.take(places), ',"value":', _text(content.values_of(offsets)), "}"]
    else:
        key = _text(content.keys_of(offsets))
        ends = [',"key":', key, ',"value":', _text(content.values_of(offsets)), "}"]
    values = pc.binary_join_element_wise(*start, *ends, "")
    return key.cast(pa.binary()).to_pylist(), values.cast(pa.binary()).to_pylist()


def _text(numbers: NDArray[np.int64] | NDArray[np.float64]) -> pa.StringArray:
    return pa.array(numbers).cast(pa.string())


@lru_cache(maxsize=4)
def _pools(content: ClicksContent) -> tuple[pa.StringArray, pa.StringArray]:
    return pa.array(content.ip_pool()), pa.array(content.user_pool())


@lru_cache(maxsize=4)
def _names(content: KeyTableContent) -> tuple[pa.StringArray, pa.StringArray]:
    import json  # noqa: PLC0415 - only these keys may hold signs that JSON must escape

    return pa.array(content.names), pa.array([json.dumps(name) for name in content.names])
