"""Whatever bytes a file holds, it is imported or refused with one printable message."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.importers import write_import
from autotune.importers.tidy_csv import COLUMNS
from autotune.records.folder import load_records
from tests.importers.builders import read, row, table

_CELLS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "nan", "-1", "0", "1e309", "16", "4xGB200", "0xGB200", "ms", "mean_ttft", "../x"]
    ),
)


def _check(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            imported = read(folder, content)
        except InputError as error:
            assert str(error).isprintable()
            return
        assert all(text.isprintable() for text in imported.skipped)
        write_import(imported, folder=folder / "run")
        assert load_records(folder / "run") == imported.run


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(content: bytes) -> None:
    _check(content)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_after_a_header(content: bytes) -> None:
    _check(table(row()).encode() + content)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(COLUMNS), _CELLS, max_size=2), min_size=1, max_size=3)
)
def test_any_cells(changes: list[dict[str, str]]) -> None:
    rows = [row(backend=f"b{number}") | cells for number, cells in enumerate(changes)]
    _check(table(*rows).encode("utf-8", "surrogatepass"))


def test_columns_that_are_none_of_the_forms_say_nothing(tmp_path: Path) -> None:
    """Even where other formats have facts of that name."""
    more = {"dp": "8", "engine_version": "9", "a2a": "deepep", "engine_settings": "{"}
    imported = read(tmp_path, table(row(**more), columns=(*COLUMNS, *more)))
    scope = imported.run.run.scope
    assert (scope.dp, scope.engine_version, scope.a2a_backend) == (None, None, None)
    assert scope.engine_settings == {}
