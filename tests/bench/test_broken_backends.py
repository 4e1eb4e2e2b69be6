"""Real servers, one with each of some wrong and honest MoE backends: does the gate tell them apart?

The whole bench is ``scripts/write_defect_table``; this is the part of it that is worth its time at
each test: wrong always, wrong in a crowd only, and honest ones, of which one rounds differently.
"""

import pytest

from tests.bench.cases import CASES, case
from tests.bench.table import DOCUMENT, read_verdicts, render

pytestmark = pytest.mark.server
pytest.importorskip("transformers")

from tests.bench.gate import Row, read_rows, sweep  # noqa: E402

LAUNCHED = (
    "eager",
    "bfloat16_server",
    "not_normalised",
    "nan_at_64",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    run = sweep(tmp_path_factory.mktemp("bench"), LAUNCHED)
    found = read_rows(run)
    (run / "defects.md").write_text(render(found), encoding="utf-8")
    return {row.name: row for row in found}


@pytest.mark.parametrize("name", LAUNCHED)
def test_the_verdict_is_right(rows: dict[str, Row], name: str) -> None:
    row = rows[name]
    assert row.verdict in case(name).allowed, row.reason


def test_what_lives_only_in_a_crowd_is_found_in_one(rows: dict[str, Row]) -> None:
    # Nothing is wrong with it alone, so that a probe without a crowd would have passed it.
    assert rows["nan_at_64"].rate_alone == 0
    assert rows["nan_at_64"].after > 25


def test_the_document_says_the_same(rows: dict[str, Row]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    stated = read_verdicts(text)
    assert [*stated] == [one.name for one in CASES]
    # Where rounding decides, the verdict may differ from one processor to the next.
    sure = [row for row in rows.values() if case(row.name).kind in ("loud", "harmless")]
    assert {row.name: row.verdict for row in sure} == {row.name: stated[row.name] for row in sure}
