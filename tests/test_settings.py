"""Every setting is explained, bounded and documented; later sources win; mistakes are named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.settings import settings_page
from penstock.errors import InvalidSettingError
from penstock.settings import Settings, allowed_values, environment_variable, load_settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "settings.md"
FILE_ENDINGS = {"db", "toml", "py", "log"}
OPTIONS = {key: option for key, option, _ in Settings().options()}
NUMBERS = [key for key, option in OPTIONS.items() if type(option.default) in (int, float)]


@pytest.mark.parametrize("key", OPTIONS)
def test_option_is_explained(key: str) -> None:
    """An option has a sentence; a number has a unit and bounds that hold its default."""
    facts, default = OPTIONS[key].metadata, OPTIONS[key].default
    assert facts["help"].endswith(".")
    assert len(facts["help"]) > 20
    if key in NUMBERS:
        assert facts["unit"]
        assert facts["low"] <= default <= facts["high"]
        assert facts["low"] < facts["high"]


def test_guides_name_only_settings_that_there_are() -> None:
    """A reader who sets one that is gone is refused: the pages go with the settings."""
    known = {key for key, _, _ in Settings().options()}
    sections = {key.partition(".")[0] for key in known}
    guides = sorted((ROOT / "docs" / "guide").glob("*.md"))
    assert guides
    unknown = []
    for page in guides:
        for quoted in re.findall(r"[`\"']([a-z_]+\.[a-z_]+)\b(?!\()", page.read_text(encoding="utf-8")):
            section, _, name = quoted.partition(".")
            if section in sections and name not in FILE_ENDINGS and quoted not in known:
                unknown.append(f"{page.name}: {quoted}")
    assert unknown == []


def test_reference_page_is_current() -> None:
    """docs/reference/settings.md is what the code says; 'make docs' writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == settings_page()


@pytest.mark.parametrize("key", OPTIONS)
def test_option_is_documented(key: str) -> None:
    """The page has one row for the option, with its variable, its bounds and its sentence."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if f"`{environment_variable(key)}`" in line]
    assert len(rows) == 1
    assert f"| `{key.split('.')[1]}` |" in rows[0]
    assert allowed_values(OPTIONS[key]) in rows[0]
    assert OPTIONS[key].metadata["help"] in rows[0]


def test_page_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page tells defaults, whatever is set where it is written."""
    monkeypatch.setenv("PENSTOCK_STORE_PATH", "elsewhere.db")
    assert "elsewhere.db" not in settings_page()


def test_environment_variables_are_distinct() -> None:
    """No two settings share a variable."""
    assert len({environment_variable(key) for key in OPTIONS}) == len(OPTIONS)


def in_bounds(key: str) -> st.SearchStrategy[Any]:
    facts = OPTIONS[key].metadata
    if isinstance(OPTIONS[key].default, int):
        return st.integers(int(facts["low"]), int(facts["high"]))
    return st.floats(facts["low"], facts["high"])


@given(st.sampled_from(NUMBERS).flatmap(lambda key: st.tuples(st.just(key), in_bounds(key))))
def test_value_in_bounds_survives_every_source(choice: tuple[str, Any]) -> None:
    """A value in bounds means the same as an argument and as the text of a variable."""
    key, value = choice
    section, name = key.split(".")
    by_argument = load_settings(arguments={key: value})
    by_variable = load_settings(environment={environment_variable(key): repr(value)})
    assert by_argument == by_variable
    assert getattr(getattr(by_argument, section), name) == value


@given(st.sampled_from(NUMBERS), st.sampled_from([-1, 1]), st.floats(1e-6, 1e6))
def test_value_out_of_bounds_is_refused(key: str, side: int, distance: float) -> None:
    """A value beyond a bound is an error that names the setting and the bounds."""
    facts = OPTIONS[key].metadata
    value = facts["low"] - distance if side < 0 else facts["high"] * (1 + distance)
    with pytest.raises(InvalidSettingError) as caught:
        load_settings(arguments={key: value})
    assert caught.value.key == key
    assert allowed_values(OPTIONS[key]) in str(caught.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "many", "", None, [1], True, 10**400])
@pytest.mark.parametrize("key", NUMBERS)
def test_what_is_no_number_is_refused(key: str, value: object) -> None:
    """NaN, infinity, words and booleans are not numbers for any setting."""
    with pytest.raises(InvalidSettingError):
        load_settings(arguments={key: value})


@pytest.mark.parametrize(
    ("written", "meant"), [("true", True), ("YES", True), ("1", True), ("false", False), ("no", False), (False, False)]
)
def test_booleans_as_people_write_them(written: object, meant: bool) -> None:  # noqa: FBT001 - a test's parameter
    """A boolean may be written in the usual ways."""
    assert load_settings(arguments={"observe.only": written}).observe.only is meant


@pytest.mark.parametrize("value", ["maybe", "", 2, None])
def test_other_words_are_no_booleans(value: object) -> None:
    """Anything else is refused, rather than taken for true."""
    with pytest.raises(InvalidSettingError, match="true or false"):
        load_settings(arguments={"observe.only": value})


def test_later_sources_win(tmp_path: Path) -> None:
    """File over default, variable over file, argument over variable; what is left out falls through."""
    file = tmp_path / "penstock.toml"
    file.write_text('[store]\npath = "file.db"\nseries_days = 3\n[admission]\ngrowth_factor = 3\ndead_band = 0.1\n')
    environment = {"PENSTOCK_STORE_PATH": "variable.db", "PENSTOCK_ADMISSION_GROWTH_FACTOR": "5", "HOME": "x"}
    settings = load_settings(file, environment=environment, arguments={"store.path": "argument.db"})
    assert settings.store.path == "argument.db"
    assert settings.admission.growth_factor == 5
    assert settings.admission.dead_band == 0.1
    assert settings.store.series_days == 3
    assert settings.admission.cost_drift == Settings().admission.cost_drift


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[store]\npat = 1\n", "did you mean 'store.path'"),
        ("[nothing]\nx = 1\n", "no such section; known: queries, executors, engines, applications, admission"),
        ("[stor]\n", r"no such section; did you mean 'store'\?"),
        ("path = 1\n", r"must be a section: \[path\]"),
        ("[store\n", "not valid TOML"),
        ('[store]\npath = " "\n', "a text that is not empty"),
        ("[admission]\nfirst_batch_rows = 1.5\n", "a whole number"),
    ],
)
def test_mistakes_in_a_file_are_named(text: str, message: str, tmp_path: Path) -> None:
    """A file with a mistake is refused as a whole, and the message says what to write."""
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettingError, match=message):
        load_settings(file)


def test_a_declaration_may_stand_in_the_same_file(tmp_path: Path) -> None:
    """The sections of queries and executors are somebody else's to read, and no mistake."""
    file = tmp_path / "penstock.toml"
    file.write_text('[queries.clicks]\nlatency = "5 seconds"\n[executors]\nmaximum = 8\n[store]\npath = "a.db"\n')
    assert load_settings(file) == load_settings(arguments={"store.path": "a.db"})


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PENSTOCK_STORE_PAHT", "did you mean 'PENSTOCK_STORE_PATH'?"),
        ("PENSTOCK_X", "'penstock settings --json' lists all variables"),
    ],
)
def test_a_variable_that_is_no_setting_is_told(variable: str, hint: str, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody else's variable stops nothing; a mistyped one is told, with the name that was meant."""
    settings = load_settings(environment={variable: "x.db", "PENSTOCK_GRAPH_BATCH_S": "3"})
    assert settings == load_settings(arguments={"graph.batch_s": 3})
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("penstock", "WARNING", f"environment variable {variable!r} is no setting and is ignored; {hint}")
    ]


def test_a_variable_of_a_command_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """What a command of Penstock reads itself is no mistake."""
    assert load_settings(environment={"PENSTOCK_TRACES": "traces"}) == Settings()
    assert caplog.records == []


def test_a_known_variable_with_a_bad_value_is_refused() -> None:
    """A value that cannot be meant stays an error, though an unknown name is none."""
    with pytest.raises(InvalidSettingError, match=r"'scaling\.every_s' = 'often' is not allowed: a number from 0\.1"):
        load_settings(environment={"PENSTOCK_SCALING_EVERY_S": "often"})


def test_file_that_is_not_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are an error of the file, not a crash."""
    file = tmp_path / "penstock.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSettingError, match="not valid TOML"):
        load_settings(file)
