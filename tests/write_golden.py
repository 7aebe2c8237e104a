"""Write the golden traces anew, after a change of decisions that is meant."""

from __future__ import annotations

import json
from pathlib import Path

from golden_scenarios import SCENARIOS, trace_of

if __name__ == "__main__":
    directory = Path(__file__).parent / "golden"
    directory.mkdir(exist_ok=True)
    for name, run in SCENARIOS.items():
        entries = ",\n".join(json.dumps(entry) for entry in trace_of(run()))
        (directory / f"{name.replace(',', '').replace(' ', '_')}.json").write_text(f"[\n{entries}\n]\n")
