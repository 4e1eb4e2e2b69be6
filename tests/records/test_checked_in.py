"""The runs that are checked in are evidence: this release must be able to read and judge them."""

from pathlib import Path

import pytest

from autotune.config import config_digest, read_config
from autotune.decide.rule import judge_run
from autotune.decide.verdicts import judge_answers
from autotune.decisions.schema import decode
from autotune.records.folder import load_records, sha256_of

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.glob("*/run.json") if path.parent.name != "demo")


def test_there_are_some() -> None:
    assert RUNS


@pytest.mark.parametrize("folder", RUNS, ids=lambda path: path.name)
def test_a_checked_in_run_says_what_its_decision_says(folder: Path) -> None:
    loaded = load_records(folder)
    judgement = judge_run(loaded, judge_answers(loaded))
    (entry,) = decode((folder / "decision.json").read_bytes(), where=str(folder)).entries
    assert entry.choice.candidate == judgement.choice
    assert entry.choice.outcome == judgement.outcome
    assert set(entry.evidence.accepted) >= set(judgement.blockers)
    for name, digest in entry.evidence.tables.items():
        assert sha256_of(folder / name) == digest
    if loaded.run.kind == "sweep":
        assert config_digest(read_config(folder / "run.toml")) == loaded.run.config_digest
