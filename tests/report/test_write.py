"""A report says what was decided, how sure, why others can't win, and what isn't known."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autotune.decide.schema import Judgement, RatioEstimate
from autotune.errors import RunFolderError
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun, RunFolder
from autotune.records.rule import Limit
from autotune.records.schema import MeasurementWarning
from autotune.report.markdown import render
from autotune.report.subject import Subject
from autotune.report.write import build_report, write_report
from tests.records.builders import launch, make_judgement, make_run, make_verdicts
from tests.report.test_figures import without_times

HOSTILE = "bad\x1b[31m | <img src=x>\n# heading @team"


def report_of(
    run: LoadedRun,
    judgement: Judgement | None = None,
    *,
    verdicts: Mapping[str, CandidateVerdict] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> str:
    """The report's Markdown, without drawing plots."""
    if verdicts is None:
        verdicts = make_verdicts(run)
    subject = Subject.of(run, judgement or make_judgement(run), verdicts=verdicts)
    return render(build_report(subject, plots=(), folder_name="demo", environment=environment))


def write(folder: Path, run: LoadedRun) -> list[Path]:
    subject = Subject.of(run, make_judgement(run), verdicts=make_verdicts(run))
    return write_report(RunFolder(folder), subject, environment=None)


def row(report: str, *cells: str) -> str:
    """The first table row that begins with these cells."""
    start = "| " + " | ".join(cells) + " |"
    return next(line for line in report.splitlines() if line.startswith(start))


def test_the_verdict_comes_first_and_says_how_sure() -> None:
    run = make_run()
    judgement = make_judgement(run, notes=("at concurrency 1 another is ahead",))
    lines = [line for line in report_of(run, judgement).splitlines() if line]
    assert lines[0] == "# demo: (MiniMaxM2ForCausalLM, modelopt_fp4, sm90)"
    assert lines[2] == "**grouped_mm is the fastest**"
    assert lines[3].startswith("Outcome decisive, from 3 complete rounds: ")
    assert "at most 5% chance" in lines[3]
    assert lines[4] == "- at concurrency 1 another is ahead"


def test_figures_have_units_intervals_and_n() -> None:
    run = make_run()
    report = report_of(run)
    head = row(report, "concurrency", "candidate", "output tokens/s")
    assert "TTFT p50 (ms) | TTFT p99 (ms) | latency p50 (ms) | latency p99 (ms)" in head
    assert "ratio to eager | n |" in head
    assert row(report, "1", "`eager`").endswith("| n/a | incumbent | 3 |")
    high = row(report, "64", "`grouped_mm`")
    assert "n/a" not in high
    assert "[1." in high
    assert "95% interval" in report
    assert "c busy users" in report


def test_an_open_judgement_names_its_blockers() -> None:
    run = without_times(make_run(rounds=1))
    about = msgspec.structs.replace(run.run, source="https://example.org/pull/1")
    run = msgspec.structs.replace(run, run=about)
    judgement = make_judgement(run, outcome="open", blockers=("one round gives no interval",))
    report = report_of(run, judgement, verdicts={})
    assert "Outcome open, from 1 complete round:" in report
    assert "- one round gives no interval" in report
    assert "Time to first token: no figure was imported." in report
    assert "TTFT p50" not in report
    assert "imported from https://example.org/pull/1." in report
    assert re.search(r" \| 1\.\d{3} \| 1 \|$", row(report, "1", "`grouped_mm`"))
    assert "autotune decide" in report
    assert "autotune sweep" not in report


def test_rejected_candidates_and_correctness_have_reasons() -> None:
    run = make_run()
    judgement = make_judgement(run, rejected={"grouped_mm": "its answers are garbage"})
    verdicts = make_verdicts(run)
    verdicts["grouped_mm"] = CandidateVerdict(
        candidate="grouped_mm", verdict="fail", reason="agreement 0.01", agreement=0.01, answers=24
    )
    report = report_of(run, judgement, verdicts=verdicts)
    rejected = report.partition("## Rejected candidates\n")[2].partition("\n## ")[0]
    line = row(rejected, "`grouped_mm`", "`grouped_mm`")
    assert line.endswith("| its answers are garbage |")
    assert "`eager`" not in rejected
    assert row(report, "`grouped_mm`", "fail", "0.010", "24").endswith("| agreement 0.01 |")
    # Its figures may be the best: they aren't shown without that.
    figures = report.partition("## Figures\n")[2].partition("\n## ")[0]
    assert row(figures, "1", "`grouped_mm`", "no")
    assert row(figures, "1", "`eager`", "yes")


def test_without_a_rejected_candidate_there_is_no_word_of_it() -> None:
    report = report_of(make_run())
    assert "Rejected" not in report
    assert "| candidate | output tokens/s |" in report


def test_what_a_reviewer_needs_comes_first_and_what_is_long_is_folded() -> None:
    run = make_run()
    verdicts = make_verdicts(run)
    subject = Subject.of(run, make_judgement(run, rejected={"eager": "slow"}), verdicts=verdicts)
    files = ("overview.png", "overview.svg")
    report = render(
        build_report(subject, plots=files, folder_name="demo", environment={"cores": 2})
    )
    order = [
        "**grouped_mm is the fastest**", "![overview of 3 candidates", "| concurrency |",
        "## Rejected candidates", "## Candidates", "<summary>How to reproduce",
        "<summary>Launches", "<summary>Environment",
    ]  # fmt: skip
    places = [report.index(text) for text in order]
    assert places == sorted(places)
    assert "report.html" in report
    assert "\n## " not in report[report.index("<summary>How to read") :]


def test_doubts_about_a_candidate_that_may_win_are_told_with_it() -> None:
    run = make_run()
    verdicts = make_verdicts(run) | {
        name: CandidateVerdict(
            candidate=name, verdict="inconclusive", reason="no probe was answered", answers=0
        )
        for name in ("eager", "grouped_mm")
    }
    candidates = report_of(run, verdicts=verdicts).partition("## Candidates\n")[2]
    assert "- eager, grouped_mm: inconclusive: no probe was answered" in candidates


def test_the_leader_is_named_where_an_equal_incumbent_is_chosen() -> None:
    run = make_run()
    standings = tuple(
        msgspec.structs.replace(s, behind=RatioEstimate(ratio=1.01, n=3))
        if s.candidate == "eager"
        else s
        for s in make_judgement(run, rejected={"batched_mm": "slow"}).standings
    )
    judgement = make_judgement(run, outcome="within_delta", choice="eager", standings=standings)
    report = report_of(run, judgement)
    line = row(report, "`eager`", "`eager`", "pass")
    assert line.endswith("| yes, chosen | 3 | incumbent | 1.010, n = 3 |")
    assert row(report, "`grouped_mm`", "`grouped_mm`", "pass").endswith("| leader |")
    candidates = report.partition("## Candidates\n")[2]
    assert row(candidates, "`batched_mm`", "`batched_mm`", "pass").endswith("| n/a |")
    assert "faster than the choice by more than 2%" in report


def test_failed_launches_invalid_points_and_warnings_are_listed() -> None:
    run = make_run(rounds=2)
    warning = MeasurementWarning(
        code="low_concurrency", observed="0.93", threshold="0.95 to 1.02", remedy="raise the cap"
    )
    points = [msgspec.structs.replace(p, warnings=(warning,)) for p in run.points]
    points[0] = msgspec.structs.replace(points[0], status="crashed", reason="exit code -9")
    launches = (
        *run.launches,
        launch("eager", 3, 0, status="oom", reason="no memory", ready_s=None),
    )
    run = msgspec.structs.replace(run, points=tuple(points), launches=launches)
    report = report_of(run)
    assert row(report, "`eager`", "1", "1", "`crashed`").endswith("| exit code -9 |")
    line = row(report, "`low_concurrency`", "eager: c1 round 1; c4 round 1; c16 round 1; "
               "c64 round 1; and 4 more")  # fmt: skip
    assert line.endswith("| 0.93 | 0.95 to 1.02 | raise the cap |")
    assert row(report, "3", "`eager`", "`oom`", "n/a").endswith("| no memory |")


def test_environment_is_flat_and_escaped() -> None:
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"in": deep, "pad": 1}
    environment = {
        "gpu": {"name": HOSTILE, "clocks": [1, 2]},
        "cards": [{"uuid": "a"}, {"uuid": None}],
        "none": {},
        "deep": deep,
        "many": {f"key{n}": n for n in range(300)},
    }
    report = report_of(make_run(rounds=1), environment=environment)
    assert row(report, "`gpu.clocks`") == "| `gpu.clocks` | 1, 2 |"
    assert row(report, "`cards.1.uuid`") == "| `cards.1.uuid` | not known |"
    assert row(report, "`gpu.name`") == (
        "| `gpu.name` | bad \\| &lt;img src=x&gt; # heading `@`team |"
    )
    assert "(more inside)" in report
    assert "more rows aren't shown" in report


def test_hostile_text_changes_nothing_of_the_reports_shape() -> None:
    def headings(hostile: str) -> list[str]:
        run = make_run(rounds=1)
        bad = msgspec.structs.replace(run.points[0], status="crashed", reason=hostile)
        down = msgspec.structs.replace(
            run.launches[0], resolved_backend=hostile, command=(hostile,)
        )
        run = msgspec.structs.replace(
            run, points=(bad, *run.points[1:]), launches=(down, *run.launches[1:])
        )
        judgement = make_judgement(
            run, summary=hostile, notes=(hostile,), rejected={"batched_mm": hostile}
        )
        report = report_of(run, judgement, environment={hostile: hostile})
        assert not set(report) & set("\x1b\x00\r")
        return [line for line in report.splitlines() if line.startswith(("#", "<"))]

    assert headings(HOSTILE + "\n</details>\n```\n| a | b |") == headings("harmless")


def test_an_empty_run_still_has_a_report() -> None:
    report = report_of(make_run(rounds=0))
    assert "No point of this run is valid." in report
    assert "Time to first token: not measured." in report


def test_the_same_run_gives_the_same_bytes_and_no_stale_plot_stays(tmp_path: Path) -> None:
    run = make_run(rounds=1, concurrencies=(1, 4))
    files = write(tmp_path, run)
    assert files[0].name == "report.md"
    assert sorted(files) == sorted(tmp_path.iterdir())
    first = {path.name: path.read_bytes() for path in files}
    assert "![overview of 3 candidates" in first["report.md"].decode()
    assert {path.name: path.read_bytes() for path in write(tmp_path, run)} == first
    assert sorted(write(tmp_path, without_times(run))) == sorted(tmp_path.iterdir())
    assert not (tmp_path / "ttft.png").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunFolderError, match="file"):
        write(tmp_path / "file" / "run", make_run(rounds=0))


def test_limits_are_shown_with_what_each_candidate_showed() -> None:
    run = make_run(concurrencies=(1, 16))
    limits = (
        Limit(figure="latency_p50_s", at_most=0.001, concurrency=(16,)),
        Limit(figure="ttft_p99_s", at_most=9.0),
    )
    rule = msgspec.structs.replace(run.run.rule, limits=limits)
    limited = msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, rule=rule))
    text = report_of(limited)
    assert "Limits, whatever the throughput" in text
    broken = row(text, "`eager`", "latency_p50_s at concurrency 16", "0.001 s")
    assert broken.endswith("| 3 | no |")
    unknown = row(text, "`eager`", "ttft_p99_s at concurrency 1", "9 s")
    assert unknown.endswith("| 0 | not known |")
    assert "Limits" not in report_of(run)
