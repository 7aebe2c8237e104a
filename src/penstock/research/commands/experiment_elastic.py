"""``penstock experiment elastic``: the experiments of "Supporting elasticity in Flink", and what it left open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.console import AsJson, print_json, print_table
from penstock.errors import InvalidProfileError
from penstock.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Row = dict[str, float | int | str | bool | None]

_WORLD_CUP = "rates/wc98_day73_semifinal_0707.rate.csv"
_TRACES_VARIABLE = "PENSTOCK_TRACES"
_REMEDY = f"with --traces or {_TRACES_VARIABLE}"
_MODEL_HOURS = 24.0
"""Of each load: enough for the model to be trained, and a day."""


def elastic(
    changes: Annotated[bool, typer.Option("--changes", help="Score change detectors on labelled series.")] = False,
    gains: Annotated[bool, typer.Option("--gains", help="Search the gains of the hysteresis by simulation.")] = False,
    load: Annotated[bool, typer.Option("--load", help="Measure what the autoscaler itself costs.")] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Replay recorded loads with and without the performance model.")
    ] = False,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with rates, tcpd and nab; default: PENSTOCK_TRACES, else none."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of arrivals and batch times.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for charts (PNG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the experiments of the thesis on elasticity: exploration, optimal control, World Cup load, own cost.

    Without an option all four run; --changes, --gains, --load and --model run that part alone. The World Cup load is a
    recorded semi-final where the folder of traces has it, and a drawn stand-in elsewhere. --changes and --model need
    that folder.

    For example:
      penstock experiment elastic --out artifacts/elastic
      penstock experiment elastic --changes --traces traces --json
      penstock experiment elastic --gains
      penstock experiment elastic --model --traces traces
    """
    require("research", "penstock experiment")
    told = os.environ.get(_TRACES_VARIABLE)
    folder = traces or (Path(told) if told else None)
    if changes:
        from penstock.research.change_experiment import score_changes  # noqa: PLC0415 - imports river

        _show("changes", {"rows": score_changes(_needed("--changes", folder), say=_say)}, as_json=as_json)
    elif gains:
        _show("gains", {"rows": _gains(seed)}, as_json=as_json)
    elif model:
        _show("model", {"rows": _model(_needed("--model", folder, "rates"), seed)}, as_json=as_json)
    elif load:
        _show("load", {"rows": _cost()}, as_json=as_json)
    else:
        document = _paper(folder, seed, out) | {"cost": _cost()}
        _show("paper", document, as_json=as_json)


def _needed(option: str, folder: Path | None, inside: str = "") -> Path:
    """The folder of traces, of what cannot do without."""
    if folder is None:
        raise InvalidProfileError(
            f"{option} reads recorded series: name their folder with --traces or {_TRACES_VARIABLE}"
        )
    wanted = folder / inside
    if not wanted.is_dir():
        raise InvalidProfileError(f"folder {str(wanted)!r} of recorded series does not exist: name another {_REMEDY}")
    return wanted


def _paper(folder: Path | None, seed: int, out: Path | None) -> dict[str, object]:
    from penstock.research.elastic import (  # noqa: PLC0415 - compiles on first use
        LIMIT,
        compare_gaussian,
        compare_world_cup,
        comparison_rows,
        explore,
    )

    _say("5 h of exploration")
    explored = explore(seed=seed)
    learned = explored.scaler.learned
    _say("gaussian load, optimal control against reactive")
    gaussian = compare_gaussian(explored, seed=seed)
    table = _world_cup(folder)
    missing = "no folder of traces is named (--traces)" if folder is None else f"{folder} has no recording"
    _say("World Cup load, " + ("recorded" if table is not None else f"a stand-in, because {missing}"))
    world_cup = compare_world_cup(table, seed=seed)
    stability = learned.stability
    exploration = {
        "load": "gaussian, 5 h",
        "samples": len(explored.run.demand),
        "violations": explored.run.violations,
        "rescales": explored.run.rescales,
        "executors_max": max(explored.run.executors),
        "capacity_rows_per_s": explored.scaler.reactive.capacity.rows_per_s,
        "degree": learned.model.basis.degree if learned.model else None,
        "deviation": stability.seen if stability else None,
        "deviation_ahead": stability.ahead if stability else None,
        "mode_at_the_end": learned.mode.value,
    }
    charts: list[str] = []
    if out is not None:
        from penstock.research.elastic_charts import draw_experiments  # noqa: PLC0415 - imports matplotlib

        out.mkdir(parents=True, exist_ok=True)
        charts = [str(path.resolve()) for path in draw_experiments(explored, gaussian, world_cup, out, limit=LIMIT)]
    rows = comparison_rows("gaussian", gaussian) + comparison_rows("world cup", world_cup)
    return {"exploration": exploration, "world_cup_recorded": table is not None, "charts": charts, "rows": rows}


def _world_cup(folder: Path | None) -> NDArray[np.float64] | None:
    """The three hours around the highest minute of a recorded match day."""
    import numpy as np  # noqa: PLC0415 - help must not wait for numpy

    from penstock.sim.rate_traces import trace_rates  # noqa: PLC0415 - as above
    from penstock.spark.trace import read_trace_text  # noqa: PLC0415 - as above

    path = None if folder is None else folder / _WORLD_CUP
    if path is None or not path.exists():
        return None
    rates = trace_rates("world cup", read_trace_text(str(path))).rates
    peak = int(np.argmax(rates))
    begin = max(0, min(peak - 2 * 3600, rates.size - 3 * 3600))
    return rates[begin : begin + 3 * 3600]


def _gains(seed: int) -> list[Row]:
    from penstock.research.elastic import gaussian_rates  # noqa: PLC0415 - as above
    from penstock.research.gains import search_gains  # noqa: PLC0415 - as above
    from penstock.sim.calibration import Calibration  # noqa: PLC0415 - compiles on first use
    from penstock.sim.replay import ReplaySettings  # noqa: PLC0415 - as above

    rates = gaussian_rates(5.0, peak_rows_per_s=12_000.0, seed=seed)
    found = search_gains(
        rates, Calibration(), ReplaySettings(), progress=lambda done, total: _say(f"{done} of {total} pairs")
    )
    return [
        {
            "gain_up": one.gains.up,
            "gain_down": one.gains.down,
            "violations": one.violations,
            "executor_hours": one.executor_hours,
            "rescales": one.rescales,
            "cost_executor_hours": one.cost_executor_hours,
        }
        for one in found
    ]


def _model(folder: Path, seed: int) -> list[Row]:
    from penstock.research.model_worth import model_worth  # noqa: PLC0415 - help must not wait for numpy
    from penstock.sim.calibration import Calibration  # noqa: PLC0415 - compiles on first use
    from penstock.sim.rate_traces import find_traces, trace_rates  # noqa: PLC0415 - as above
    from penstock.sim.replay import ReplaySettings  # noqa: PLC0415 - as above
    from penstock.spark.trace import read_trace_text  # noqa: PLC0415 - as above

    loads = [
        trace_rates(path.name.split(".")[0], read_trace_text(str(path)), gaps="hold", hours=_MODEL_HOURS)
        for path in find_traces([folder])
    ]
    return model_worth(loads, Calibration(), ReplaySettings(seed=seed), progress=_say)


def _cost() -> list[Row]:
    from penstock.research.autoscaler_load import measure_steady, measure_training  # noqa: PLC0415 - help must not wait

    _say("training, stability check and steady decisions")
    return [measure_training(), measure_steady()]


def _show(part: str, document: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json({"experiment": "elastic", "part": part, **document})
        return
    for name, content in document.items():
        if isinstance(content, dict):
            typer.echo(f"{name}: " + ", ".join(f"{key} {_text(value)}" for key, value in content.items()))
        elif isinstance(content, list) and content and isinstance(content[0], dict):
            for rows in _alike(content):
                typer.echo("")
                print_table(list(rows[0]), [[_text(value) for value in row.values()] for row in rows])
        elif isinstance(content, list):
            for line in content:
                typer.echo(f"{name.removesuffix('s')}: {line}")


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    return list(groups.values())


def _text(value: float | str | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(text: str) -> None:
    typer.echo(text, err=True)
