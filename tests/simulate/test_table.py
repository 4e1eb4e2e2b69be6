"""The tables of docs/simulations.md: a row says what its summary says, and has its place there."""

import pytest

from autotune.simulate import simulate
from tests.simulate import table
from tests.simulate.rows import SPOILT, fixed, scenario


@pytest.mark.parametrize("name", ["gaps", "equals", "assumptions", "drops", "fixed"])
def test_the_document_has_a_place_for_each_table(name: str) -> None:
    text = table.DOCUMENT.read_text(encoding="utf-8")
    written = table.put(text, name, "| a table |\n")
    assert f"<!-- {name}:begin -->\n| a table |\n<!-- {name}:end -->" in written
    assert table.put(written, name, "") != written


def test_a_document_without_the_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for gaps"):
        table.put("# Nothing", "gaps", "")


def test_a_row_says_what_its_summary_says() -> None:
    found = simulate(scenario(sd=0.001), runs=4, seed=1)
    row = table.render({"quiet": found}).splitlines()[-1]
    assert row == (
        "| quiet | 100.0% (51.0% to 100.0%) | 0.00% | 0.0% | 100.0% | 0.00% | 13.0 | 33 | 39% |"
    )
    rows = table.render_fixed({"quiet": (found, [simulate(fixed(scenario(), 3), runs=4, seed=1)])})
    assert rows.splitlines()[2].startswith("| quiet | the race | 100.0% (51.0% to 100.0%) | ")
    assert rows.splitlines()[3].startswith("| quiet | 3 rounds | ")


def test_what_spoils_a_scenario_can_be_asked_for() -> None:
    for fields in SPOILT.values():
        scenario(**fields).check()
