"""Copies of sources stay inside the run folder, whatever the files are called."""

from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.sources import source_files
from autotune.records.schema import PointFigures


def readings(*names: str) -> Readings:
    reading = Reading(
        where="it", backend=None, concurrency=None, repeat=None, figures=PointFigures()
    )
    return Readings(
        format="x",
        where="it",
        readings=(reading,),
        facts={},
        skipped=(),
        files=dict.fromkeys(names, "00"),
        rows=1,
    )


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/x", "a/../b", "a//b", "./a", "", "a/", "a\\b", "a\x1bb", "x" * 201, "\udcff"],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="can't be kept in a run folder") as caught:
        source_files([(tmp_path, readings(name))])
    assert str(caught.value).isprintable()


def test_names_that_differ_by_case_alone_are_kept_apart(tmp_path: Path) -> None:
    """Some file systems take them for one."""
    found = source_files(
        [(tmp_path / "a", readings("X.json")), (tmp_path / "b", readings("x.json"))]
    )
    assert [each.name for each in found] == ["source/1/X.json", "source/2/x.json"]


def test_facts_that_only_some_say_count_for_all() -> None:
    told = [("a", {"tp": "4", "isl": ""}), ("b", {"isl": "32"})]
    assert shared_facts(told) == {"tp": "4", "isl": "32"}
    with pytest.raises(InputError, match="c: tp is '8' here but '4' in a"):
        shared_facts([*told, ("c", {"tp": "8"})])
