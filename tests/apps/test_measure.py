"""Measuring runs from batches and true arrival times."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock.apps.measure import BatchRecord, measure, weighted_quantile
from penstock.apps.report import write_report
from penstock.model.profile import LoadProfile
from penstock.spark.load_rows import LoadTruth

EPOCH_S = 1_700_000_000.0


def truth() -> LoadTruth:
    return LoadTruth(LoadProfile.constant(100.0), round(EPOCH_S * 1000))


def batch(batch_id: int, first: int, end: int, *, started_s: float, duration_s: float, kept: int) -> BatchRecord:
    return BatchRecord(batch_id, first, end, kept, EPOCH_S + started_s, duration_s)


def test_latency_is_from_arrival_to_the_end_of_the_batch() -> None:
    """Rows that arrive in the first second and are out after three are two to three seconds old."""
    batches = [batch(0, 0, 100, started_s=1.0, duration_s=2.0, kept=100)]
    found = measure("run", batches, truth(), goal_s=2.5, began_s=EPOCH_S, ended_s=EPOCH_S + 4)
    assert found.latency.p50_s == pytest.approx(2.5, abs=0.03)
    assert found.latency.max_s == pytest.approx(2.99, abs=0.02)
    assert found.useful_rows == pytest.approx(50, abs=2)
    assert (found.offered_rows, found.processed_rows, found.lag_end_rows) == (400, 100, 300)


def test_dropped_rows_count_as_read_but_not_as_processed() -> None:
    """Accuracy is kept over read, and only kept rows can be useful."""
    batches = [batch(0, 0, 200, started_s=2.0, duration_s=0.5, kept=50)]
    found = measure("run", batches, truth(), goal_s=10.0, began_s=EPOCH_S, ended_s=EPOCH_S + 2.5)
    assert found.accuracy == 0.25
    assert found.useful_rows_per_s == pytest.approx(50 / 2.5)


def test_late_rows_that_went_first_weigh_little() -> None:
    """Half of the batch was late and nine tenths of that went: the kept rows are mostly the younger half."""
    batches = [BatchRecord(0, 0, 200, 110, EPOCH_S + 2.0, 0.5, late_rows=100, kept_late_rows=10)]
    found = measure("run", batches, truth(), goal_s=1.5, began_s=EPOCH_S, ended_s=EPOCH_S + 2.5)
    assert found.latency.p50_s == pytest.approx(1.0 - 5 / 110 + 0.09, abs=0.1)
    assert found.latency.max_s == pytest.approx(2.49, abs=0.02)
    assert found.useful_rows == pytest.approx(100, abs=3)


def test_rows_before_the_beginning_count_for_nothing() -> None:
    """From the second second on: one and a half of three batches, and their share of the kept rows."""
    batches = [batch(i, i * 100, (i + 1) * 100, started_s=i + 1, duration_s=0.5, kept=50) for i in range(3)]
    found = measure("run", batches, truth(), goal_s=9.0, began_s=EPOCH_S + 1.5, ended_s=EPOCH_S + 4)
    assert (found.offered_rows, found.read_rows, found.processed_rows, found.lag_end_rows) == (250, 150, 75, 100)


def test_control_is_reached_with_the_first_batch_in_time() -> None:
    """One batch is late, the second is not, and a third that is late again counts as out of control."""
    batches = [
        batch(0, 0, 100, started_s=3.0, duration_s=1.0, kept=100),
        batch(1, 100, 400, started_s=4.0, duration_s=0.5, kept=60),
        batch(2, 400, 450, started_s=9.0, duration_s=0.5, kept=50),
    ]
    row = measure("run", batches, truth(), goal_s=3.6, began_s=EPOCH_S, ended_s=EPOCH_S + 9.5).row()
    assert (row["batches_to_control"], row["batches_out_of_control"]) == (1, 2)
    assert json.loads(json.dumps(row)) == row


def test_a_run_without_batches_has_only_lag() -> None:
    """Nothing finished: everything offered waits."""
    found = measure("run", [], truth(), goal_s=1.0, began_s=EPOCH_S, ended_s=EPOCH_S + 3)
    assert (found.processed_rows, found.lag_end_rows, found.latency.max_s) == (0, 300, 0.0)


def test_weighted_quantile_follows_the_weights() -> None:
    """Against the plain quantile of the repeated values."""
    rng = np.random.default_rng(5)
    values, weights = rng.random(50), rng.integers(1, 20, 50)
    repeated = np.sort(np.repeat(values, weights))
    for share in (0.1, 0.5, 0.95):
        expected = repeated[int(np.ceil(share * len(repeated))) - 1]
        assert weighted_quantile(values, weights.astype(float), share) == pytest.approx(expected)


def test_the_report_is_one_file_with_figures_and_charts(tmp_path) -> None:  # noqa: ANN001 - pytest's own
    """All charts are inside the file, texts are escaped, nothing is loaded from elsewhere."""
    batches = [batch(i, i * 100, (i + 1) * 100, started_s=i, duration_s=0.9, kept=100) for i in range(5)]
    runs = [measure(name, batches, truth(), goal_s=2.0, began_s=EPOCH_S, ended_s=EPOCH_S + 6) for name in ("a<b", "c")]
    path = tmp_path / "sub" / "report.html"
    write_report(path, title="T & T", introduction="intro", rows=[("rows", ["1", "2"])], runs=runs, notes=["note"])
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 4
    assert "a&lt;b" in text
    assert "T &amp; T" in text
    assert "<script" not in text
    assert "src=" not in text
