"""A report as one HTML file: figures side by side, and charts of what happened."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from penstock.extras import is_installed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.apps.fraud_truth import FraudCount
    from penstock.apps.measure import Measured

_NO_CHARTS = "Without charts, which need matplotlib: pip install 'penstock[charts]' and run again."
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .3rem .9rem; border-bottom: 1px solid #ddd }
th { text-align: left } td { text-align: right } td:first-child { text-align: left }
figure { margin: 1.5rem 0 } figcaption { color: #555 } svg { max-width: 100%; height: auto } .note { color: #555 }
"""


def write_report(
    path: Path, *, title: str, introduction: str, rows: Sequence[tuple[str, Sequence[str]]], runs: Sequence[Measured],
    counts: Sequence[FraudCount] = (), notes: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the report; ``rows`` are the figures, each with one text for every run. Charts need matplotlib."""
    heads = "".join(f"<th>{html.escape(run.name)}</th>" for run in runs)
    body = "".join(
        f"<tr><td>{html.escape(label)}</td>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>"
        for label, texts in rows
    )
    if is_installed("matplotlib"):
        from penstock.apps.report_charts import charts_of  # noqa: PLC0415 - only where the extra is installed

        drawn = charts_of(runs, counts)
    else:
        drawn, notes = [], [*notes, _NO_CHARTS]
    charts = "".join(f"<figure>{svg}<figcaption>{html.escape(text)}</figcaption></figure>" for svg, text in drawn)
    remarks = "".join(f"<p class=note>{html.escape(note)}</p>" for note in notes)
    document = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><p>{html.escape(introduction)}</p>"
        f"<table><tr><th></th>{heads}</tr>{body}</table>{remarks}{charts}</html>"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document, encoding="utf-8")
