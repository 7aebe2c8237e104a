"""What the scaler learned outlives its driver, and what cannot be read costs nothing but learning."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.control.scaling_tier import ScalingTier, ScalingTierState
from penstock.control.workload import Workload
from penstock.model import EngineView, Executor, ExecutorBounds, ExecutorsDeclaration
from penstock.settings import ScalingSettings
from penstock.spark.learned_file import LearnedFile
from penstock.store import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

VIEW = EngineView((Executor("0"), Executor("1")), cores=2.0)
SETTINGS = ScalingSettings(warm_up_s=0.0, interval_s=1.0, start_s=5.0)


def _tier(state: ScalingTierState | None = None) -> ScalingTier:
    declared = ExecutorsDeclaration(ExecutorBounds(1, 9, 2))
    return ScalingTier(declared, SETTINGS, goal_s=10.0, trigger_s=2.0, state=state)


def _load(step: int) -> Workload:
    rate = 1_000.0 + 20.0 * step
    return Workload(rate, 0.0, 0.2 + rate / 1_000.0, rate, 0.6, 2.0 * rate, 0.0, batch_rows=2.0 * rate)


def test_the_first_decision_after_a_restart_is_the_same(tmp_path: Path) -> None:
    """A tier that begins with the file decides as one that ran on, where a fresh one does not."""
    ran, fresh = _tier(), _tier()
    for step in range(60):
        ran.observe(VIEW, _load(step), 1_000.0 + step)
    store = SqliteStore(tmp_path / "penstock.db")
    LearnedFile(store).write(ran)
    restarted = _tier(ScalingTierState(learned=LearnedFile(store).read()))
    store.close()
    for tier in (ran, restarted, fresh):
        tier.observe(VIEW, _load(60), 1_060.0)
        tier.observe(VIEW, _load(61), 1_061.0)
    assert restarted.target == ran.target > 2
    answers = [tier.snapshot().answer for tier in (ran, restarted)]
    assert answers[0] is not None
    assert answers[1] is not None
    assert answers[0].executors == answers[1].executors
    assert restarted.remembered() != fresh.remembered()


def test_what_cannot_be_read_is_learned_anew(tmp_path: Path) -> None:
    """Another policy's file, half a file and a field that is missing all begin as if there was none."""
    store = SqliteStore(tmp_path / "penstock.db")
    file = LearnedFile(store)
    assert file.path is not None
    for text in ("{", '{"policy": "hpa", "learned": {}}', '{"policy": "proactive", "learned": {"forecast": 1}}', "[]"):
        file.path.write_text(text, encoding="utf-8")
        tier = _tier(replace(ScalingTierState(), learned=file.read()))
        tier.observe(VIEW, _load(0), 1_000.0)
        assert tier.target == 2
    store.close()
    assert LearnedFile(MemoryStore()).read() is None


def test_it_is_written_once_in_a_while(tmp_path: Path) -> None:
    """Not with every look, and whole: what is being written has another name."""
    store = SqliteStore(tmp_path / "penstock.db")
    file = LearnedFile(store, every_s=60.0)
    assert file.path is not None
    for now_s in (0.0, 59.0):
        file.write_when_due(_tier(), now_s)
    assert not file.path.exists()
    file.write_when_due(_tier(), 60.0)
    assert file.path.exists()
    assert not list(tmp_path.glob("*.new"))
    store.close()


def test_it_is_its_users_own_and_written_through_no_link(tmp_path: Path) -> None:
    """Nobody else reads it, also where it could be read before, and a link beside it or in its place stays unused."""
    letter = tmp_path / "letter"
    letter.write_text("dear", encoding="utf-8")
    letter.chmod(0o644)
    with SqliteStore(tmp_path / "penstock.db") as store:
        file = LearnedFile(store)
        assert file.path is not None
        for link in (file.path, tmp_path / f"{file.path.name}.new"):
            link.symlink_to(letter)
        file.write(_tier())
        file.path.chmod(0o644)
        file.write(_tier())
    assert letter.read_text(encoding="utf-8") == "dear"
    assert not file.path.is_symlink()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
