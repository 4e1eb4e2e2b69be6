"""The report's section on a search, and the table of trials beside it."""

import io
import json
import re
import shlex
from pathlib import Path

import msgspec
import pandas as pd
import pytest

import autotune
from autotune.decide.rule import judge_run
from autotune.decide.search import finalists, race_view, trial_results
from autotune.decide.verdicts import judge_answers
from autotune.records.folder import LoadedRun, RunFolder, load_records
from autotune.records.rule import Rule
from autotune.report.markdown import render
from autotune.report.subject import Subject
from autotune.report.tables import TRIALS_COLUMNS, render_tables, trials_table
from autotune.report.write import build_report, write_report
from autotune.search.importance import importances
from autotune.search.study import open_study
from autotune.tunables import Setting
from tests.records.builders import make_judgement, make_run, make_verdicts
from tests.report.test_write import report_of
from tests.search.builders import begin, make_config, measure, search_round, speed, verdicts_of

ROUNDS = (("rounds = 2", 'rounds = 4\nsampler = "random"'),)


def section(report: str) -> str:
    return re.split(r"\n##|\n<", report.partition("## Search\n")[2])[0]


def fill(folder: RunFolder, *, rounds: int = 4) -> None:
    """Make the search rounds; the fastest setting of them all is 3, fused, 4 deep."""
    config = make_config(*ROUNDS)
    with open_study(folder, config, say=lambda line: None) as study:
        for number in range(1, rounds + 1):
            search_round(study, folder, number, throughput=_or_broken)


def _or_broken(values: Setting) -> float | None:
    return None if values["size"] == 1 else speed(values)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    fill(folder)
    loaded = load_records(folder.path)
    best = finalists(loaded, verdicts_of(loaded))
    for number in (5, 6, 7):
        measure(folder, "plain", number, 100.0 + number)
        measure(folder, "tuned", number, 90.0)
        for trial in best:
            measure(folder, trial.candidate.name, number, 115.0)
    return folder


def report(loaded: LoadedRun, **others: str) -> str:
    verdicts = verdicts_of(loaded, **others)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    subject = Subject.of(loaded, judgement, verdicts=verdicts)
    return render(build_report(subject, plots=(), folder_name="demo", environment=None))


def test_every_trial_has_a_row_with_what_became_of_it(run: RunFolder) -> None:
    loaded = load_records(run.path)
    verdicts = verdicts_of(loaded)
    text = section(report(loaded))
    rows = [line for line in text.splitlines() if line.startswith("| `tuned-t")]
    results = trial_results(loaded, verdicts)
    assert len(rows) == len(results) == 8
    (best,) = finalists(loaded, verdicts)
    assert rows[0].startswith(f"| `{best.candidate.name}` |")
    assert "went on to the race" in rows[0] and sum("went on" in row for row in rows) == 1
    for result in results:
        (row,) = (line for line in rows if f"`{result.candidate}`" in line)
        if result.ratio is not None:
            assert f"| {result.ratio:.3f} |" in row
        else:
            assert "oom: out of memory" in row and "| n/a |" in row
    assert "Of one launch each there is no interval" in text
    assert "which alone decides." in text and "and decide nothing." in text


def test_verdict_and_figures_are_about_the_race_alone(run: RunFolder) -> None:
    loaded = load_records(run.path)
    whole = report(loaded)
    (best,) = finalists(loaded, verdicts_of(loaded))
    candidates = re.split(r"\n##|\n<", whole.partition("## Candidates\n")[2])[0]
    names = re.findall(r"^\| `([\w-]+)` \|", candidates, flags=re.MULTILINE)
    assert names == ["plain", "tuned", best.candidate.name]
    launches = whole.partition("<summary>Launches</summary>")[2]
    assert all(trial.candidate.name in launches for trial in loaded.trials)


def test_importances_are_those_of_the_trials(run: RunFolder) -> None:
    loaded = load_records(run.path)
    results = trial_results(loaded, verdicts_of(loaded))
    space = loaded.run.tunables["tuned"]
    found = importances("tuned", space, results=results)
    assert set(found) == {"size", "fuse", "depth"} and sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert importances("tuned", space, results=results) == found
    measured = [result for result in results if result.ratio is not None]
    assert importances("tuned", space, results=measured[:3]) == {}
    assert importances("plain", space, results=results) == {}
    equal = [msgspec.structs.replace(result, ratio=1.0) for result in measured]
    assert importances("tuned", space, results=equal) == {}
    text = section(report(loaded))
    for name, share in found.items():
        assert f"| `tuned` | `{name}` | {round(share, 2) * 100:.4g}% |" in text


def test_a_search_under_way_says_so(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    assert "round 1 of 4 isn't complete" in section(report(load_records(folder.path)))
    fill(folder, rounds=1)
    text = section(report(load_records(folder.path)))
    assert "round 2 of 4 isn't complete" in text and "| went on to the race" not in text
    assert "had to do with" not in text


def test_a_candidate_none_of_whose_settings_counts_is_told(run: RunFolder) -> None:
    loaded = load_records(run.path)
    # Before the race: who has been raced stays in it, whatever comes out.
    rounds = loaded.run.search_rounds
    loaded = msgspec.structs.replace(
        loaded,
        launches=tuple(one for one in loaded.launches if one.round <= rounds),
        points=tuple(one for one in loaded.points if one.round <= rounds),
    )
    wrong = {trial.candidate.name.replace("-", "_"): "fail" for trial in loaded.trials}
    text = section(report(loaded, **wrong))
    assert "No setting of tuned counts: it runs in the race as it is." in text
    assert "wrong answers: garbled" in text


def test_a_run_without_a_search_has_no_such_section() -> None:
    plain = make_run()
    assert "## Search" not in report_of(plain)
    assert "trials.csv" not in render_tables(plain, make_judgement(plain), make_verdicts(plain))


def test_trials_are_written_and_derived_again(run: RunFolder) -> None:
    loaded = load_records(run.path)
    verdicts = judge_answers(loaded)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    made = render_tables(loaded, judgement, verdicts)
    written = pd.read_csv(io.BytesIO(made["trials.csv"]))
    again = autotune.load_run(run.path)
    assert list(written.columns) == list(TRIALS_COLUMNS)
    pd.testing.assert_frame_equal(again.trials, trials_table(loaded, verdicts))
    assert set(again.summary["candidate"]) == {one.candidate for one in again.judgement.standings}
    assert list(again.summary["rounds"].unique()) == [3]
    points = again.points.set_index(["candidate", "round", "concurrency"]).sort_index()
    throughput = points["output_tokens_per_s"]
    for row, record in zip(written.to_dict("records"), loaded.trials, strict=True):
        assert json.loads(row["values"]) == record.values
        assert tuple(shlex.split(row["arguments"])) == record.candidate.arguments
        assert json.loads(row["environment"]) == record.candidate.environment
        if row["reason"] == row["reason"]:
            assert row["reason"] == "oom: out of memory" and not row["counts"]
            continue
        own, anchor = (throughput[name, row["round"]] for name in (row["candidate"], "plain"))
        ratio = ((own[1] / anchor[1]) * (own[16] / anchor[16])) ** 0.5
        assert row["ratio_to_anchor"] == pytest.approx(ratio)
    assert written["finalist"].sum() == 1


def test_a_whole_report_is_written(run: RunFolder) -> None:
    loaded = load_records(run.path)
    verdicts = verdicts_of(loaded)
    judgement = judge_run(race_view(loaded, verdicts), verdicts)
    files = write_report(run, Subject.of(loaded, judgement, verdicts=verdicts), environment=None)
    assert (run.path / "report.md") in files and (run.path / "throughput.svg") in files


def test_limits_are_named_in_the_table(tmp_path: Path) -> None:
    folder = begin(tmp_path / "run", make_config(*ROUNDS))
    fill(folder)
    loaded = load_records(folder.path)
    rule = msgspec.convert({"limits": [{"figure": "ttft_mean_s", "at_most": 0.01}]}, type=Rule)
    loaded = msgspec.structs.replace(loaded, run=msgspec.structs.replace(loaded.run, rule=rule))
    text = section(report(loaded))
    assert "over the limit: ttft_mean_s at concurrency 1 by 0.09" in text
    assert "No setting of tuned counts" in text
