"""Judging a run folder without writing: the same records, the same answer, and no file touched."""

from pathlib import Path

import pytest

from autotune.decide.entry import merge_entry
from autotune.decisions.schema import encode
from autotune.derive import derive, entry_of
from autotune.records.folder import load_records, sha256_of

RESULTS = Path(__file__).parents[1] / "results"
IMPORTED = RESULTS / "sglang-32229-minimax-m2.7-nvfp4-gb200"
MEASURED = RESULTS / "example-cpu-minimax-m2"


@pytest.mark.parametrize("folder", [IMPORTED, MEASURED], ids=lambda path: path.name)
def test_what_is_derived_is_what_was_written(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    derived = derive(folder)
    assert derived.loaded == load_records(folder)
    for name, data in derived.tables.items():
        assert (folder / name).read_bytes() == data
        assert derived.table_hashes()[name] == sha256_of(folder / name)
    entry = entry_of(derived, accepted=derived.judgement.blockers)
    assert entry is not None
    file = merge_entry(None, derived.loaded.run.key, entry)
    assert (folder / "decision.json").read_bytes() == encode(file)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_nothing_follows_while_a_blocker_stands() -> None:
    derived = derive(IMPORTED)
    first, *others = derived.judgement.blockers
    assert entry_of(derived, accepted=()) is None
    assert entry_of(derived, accepted=others) is None
    entry = entry_of(derived, accepted=["something else", *others, first])
    assert entry is not None and entry.evidence.accepted == (first, *others)


def test_a_run_is_called_after_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(IMPORTED)
    assert derive(Path(".")).run_name == IMPORTED.name
