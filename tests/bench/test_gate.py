"""The gate on real servers: what is broken is caught, what is honest isn't failed.

A part of the bench, to keep the time; ``scripts/write_defect_table`` runs all of it, and writes the
table in docs/correctness.md.
"""

import pytest

from tests.bench.cases import CASES, case
from tests.bench.gate import Row, read_rows, sweep
from tests.bench.table import DOCUMENT, read_table

pytestmark = pytest.mark.server

SOME = (
    "bfloat16_server",
    "slow",
    "gate_up_swapped",
    "not_normalised",
    "nan_at_64",
    "garbage_on_long",
    "dead_expert",
    "one_in_eight",
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    run = sweep(tmp_path_factory.mktemp("bench") / "bench", SOME)
    return {row.name: row for row in read_rows(run)}


@pytest.mark.parametrize("name", ("eager", *SOME))
def test_the_verdict_is_right(name: str, rows: dict[str, Row]) -> None:
    assert rows[name].verdict in case(name).allowed, rows[name].reason


@pytest.mark.parametrize("name", [one for one in SOME if case(one).kind == "loud"])
def test_a_loud_defect_is_caught_within_its_first_launch(name: str, rows: dict[str, Row]) -> None:
    assert rows[name].verdict == "fail" and rows[name].after <= rows[name].asked


def test_each_row_says_why(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert row.reason and (row.verdict == "pass") == (row.evidence == "")


def test_the_documents_table_has_every_case_with_a_right_verdict() -> None:
    told = read_table(DOCUMENT.read_text(encoding="utf-8"))
    assert set(told) == {one.name for one in CASES}
    for name, verdict in told.items():
        assert verdict in case(name).allowed
