"""Rows that a file sink has committed, read without Spark: what its log names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit


def committed_offsets(out: Path) -> list[int]:
    """The column ``offset`` of every row of a JSON sink, sorted."""
    offsets: list[int] = []
    for path in committed_files(out):
        with path.open(encoding="utf-8") as lines:
            offsets += [int(json.loads(line)["offset"]) for line in lines]
    return sorted(offsets)


def committed_files(out: Path) -> list[Path]:
    """Files of committed batches: those of the newest compacted log, and of all logs after it."""
    logs = [path for path in (out / "_spark_metadata").iterdir() if not path.name.startswith(".")]
    numbers = {int(path.name.removesuffix(".compact")): path for path in logs if path.name[0].isdigit()}
    # A compacted log of the same number holds what the plain one holds and all before it.
    compacted = max((int(path.name.removesuffix(".compact")) for path in logs if path.suffix == ".compact"), default=-1)
    if compacted >= 0:
        numbers[compacted] = out / "_spark_metadata" / f"{compacted}.compact"
    chosen = [path for number, path in sorted(numbers.items()) if number >= compacted]
    entries = [json.loads(line) for path in chosen for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [Path(unquote(urlsplit(entry["path"]).path)) for entry in entries if entry["action"] == "add"]
