"""What `autotune show` tells of a search, in a few lines and as data."""

from pathlib import Path

import msgspec

from autotune.decide.search import finalists
from autotune.decisions import encode
from autotune.judged import read_judged
from autotune.records.folder import RunFolder, load_records
from autotune.review.show import ShownDecision, read_shown
from autotune.review.show_decision import decision_report
from autotune.review.show_run import run_data, run_report
from autotune.review.show_search import search_data
from autotune.review.show_text import render_text
from autotune.search.study import open_study
from tests.decisions.builders import decision, origin_entry
from tests.records.builders import make_run
from tests.review.run_folders import put_run
from tests.search.builders import begin, make_config, search_round, speed, verdicts_of

ROUNDS = (("rounds = 2", 'rounds = 3\nsampler = "random"'),)


def text(folder: RunFolder) -> str:
    whole = render_text(run_report(read_judged(folder.path)), width=None)
    return whole.partition("\nSEARCH\n")[2].partition("\n\n")[0]


def search(folder: RunFolder, *numbers: int) -> None:
    with open_study(folder, make_config(*ROUNDS), say=lambda line: None) as study:
        for number in numbers:
            search_round(study, folder, number, throughput=speed)


def test_a_search_in_a_few_lines(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    assert text(folder).splitlines()[1:] == [
        "- tuned (depth, fuse, size): none tried",
        "None is recorded yet.",
    ]
    search(folder, 1, 2)
    assert "4 settings tried by one launch each; round 3 of 3 isn't complete" in text(folder)
    assert ", so far; launched with " in text(folder)
    search(folder, 3)
    loaded = load_records(folder.path)
    (best,) = finalists(loaded, verdicts_of(loaded))
    lines = text(folder).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("Before the race, 6 settings tried") and "plain's launch" in lines[0]
    assert f"best {best.candidate.name} with " in lines[1]
    assert f", {speed(best.values) / 100:.3f}, went on to the race; launched with " in lines[1]
    arguments = " ".join(best.candidate.arguments)
    assert lines[1].endswith(arguments) and "--size" in arguments
    assert lines[2] == f"Each setting: {folder.path}/trials"
    (folder.path / "trials.csv").write_text("")
    (folder.path / "study.db").write_text("")
    assert text(folder).endswith(f"/trials, {folder.path}/trials.csv, {folder.path}/study.db")


def test_a_search_as_data(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    search(folder, 1, 2, 3)
    data = run_data(read_judged(folder.path)).search
    assert data is not None
    assert (data.rounds, data.trials_per_round, data.next_round) == (3, 2, None)
    assert data.tunables == {"tuned": ("depth", "fuse", "size")} and data.anchor == "plain"
    assert [one.result.number for one in data.trials] == list(range(6))
    assert sum(one.finalist for one in data.trials) == 1
    records = load_records(folder.path).trials
    assert [one.arguments for one in data.trials] == [one.candidate.arguments for one in records]
    assert msgspec.json.encode(data)


def test_where_nothing_counts_or_nothing_was_tuned(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    with open_study(folder, make_config(*ROUNDS), say=lambda line: None) as study:
        for number in (1, 2, 3):
            search_round(study, folder, number, throughput=lambda values: None)
    assert "- tuned (depth, fuse, size): none of 6 settings counts" in text(folder)
    other = read_judged(put_run(tmp_path / "other", make_run(rounds=1)))
    assert search_data(other) is None
    assert "SEARCH" not in render_text(run_report(other), width=None)


def test_a_decision_tells_that_there_was_a_search(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    words = "a search came before the race: trials.csv of the run has each setting tried"
    for tables, said in (({"trials.csv": "0" * 64}, True), ({"points.csv": "0" * 64}, False)):
        path.write_bytes(encode(decision(origin_entry(evidence={"tables": tables}))))
        shown = read_shown(path)
        assert isinstance(shown, ShownDecision)
        assert (words in render_text(decision_report(shown.decision), width=None)) is said
