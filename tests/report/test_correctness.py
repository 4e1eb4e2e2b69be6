"""The section on correctness: reasons, the worst answer beside the reference's, honest odds."""

import io
import re

import msgspec
import pandas as pd
import pytest

from autotune.probe.schema import CandidateVerdict, Example, Finding, MissOdds
from autotune.probe.verdict import judge_probes
from autotune.records.folder import LoadedRun
from autotune.records.schema import (
    Continuation,
    ProbeAnswer,
    ProbeMode,
    ProbePrompt,
    ProbeRecord,
    RequestOutcome,
    ScoredContinuation,
    TaskAnswer,
)
from autotune.report import tables
from autotune.report.correctness import how_asked, probability
from tests.records.builders import make_judgement, make_run, make_verdicts
from tests.report.test_write import HOSTILE, report_of, row

FAILED = CandidateVerdict(
    candidate="grouped_mm",
    verdict="fail",
    reason="3 of 40 answers are garbled where eager's aren't",
    agreement=0.412,
    answers=40,
    findings=(
        Finding(
            kind="health",
            verdict="fail",
            sentence="3 of 40 answers are garbled where eager's aren't",
            figures={"answers": 40.0, "garbled": 3.0},
        ),
        Finding(
            kind="agreement",
            verdict="pass",
            sentence="alone it writes another token at 1.2% of tokens",
            figures={"rate": 0.012, "rate_low": 0.001, "rate_high": 0.1 + 0.2},
        ),
    ),
    example=Example(
        prompt="capital", mode="load", concurrency=64, text="!!!!!!", reference_text="Paris."
    ),
    odds=(
        MissOdds(
            defect="spoils one answer in eight, whenever",
            size=1 / 8,
            answers=40,
            probability=0.0048,
        ),
        MissOdds(
            defect="spoils one long prompt in eight", size=1 / 8, answers=4, probability=0.586
        ),
    ),
)


def section(report: str) -> str:
    """Both sections on correctness, the first of them folded or not."""
    first = re.split(r"(?:## |<summary>)Correctness(?:\n|</summary>)", report)[1]
    details = report.partition("<summary>Correctness by each kind of evidence</summary>")[2]
    return "\n".join(re.split(r"\n##|\n<|\Z", part)[0] for part in (first, details))


def report_with(verdict: CandidateVerdict, run: LoadedRun | None = None) -> str:
    run = run or make_run(rounds=1)
    return section(report_of(run, verdicts=make_verdicts(run) | {verdict.candidate: verdict}))


def with_example(**changes: object) -> CandidateVerdict:
    assert FAILED.example is not None
    return msgspec.structs.replace(
        FAILED, example=msgspec.structs.replace(FAILED.example, **changes)
    )


def test_each_candidate_has_its_verdict_and_the_sentence_that_decided() -> None:
    shown = report_with(FAILED)
    assert row(shown, "`grouped_mm`", "fail", "0.412", "40").endswith(
        "| 3 of 40 answers are garbled where eager's aren't |"
    )
    assert row(shown, "`eager`", "pass", "0.980", "24").endswith("| answers agree |")
    assert "held against those of eager" in shown
    assert "small loss of quality, unless the score of a task says so" in shown


def test_only_what_stands_out_is_shown_unasked() -> None:
    run = make_run(rounds=1)
    failed = report_of(run, verdicts=make_verdicts(run) | {"grouped_mm": FAILED})
    assert failed.index("## Correctness\n") < failed.index("<details>")
    assert "<summary>Correctness</summary>" in report_of(run)


def test_what_decided_is_told_once() -> None:
    run = make_run(rounds=1)
    passed = msgspec.structs.replace(FAILED, verdict="pass", findings=())
    report = report_of(run, verdicts=make_verdicts(run) | {"grouped_mm": passed})
    assert report.count(FAILED.reason) == 1


def test_each_finding_is_a_row() -> None:
    shown = report_with(FAILED)
    assert row(shown, "`grouped_mm`", "`health`", "fail")
    assert row(shown, "`grouped_mm`", "`agreement`", "pass").endswith("at 1.2% of tokens |")


def test_the_worst_answer_lies_beside_the_references() -> None:
    shown = report_with(FAILED)
    assert "Worst answer of grouped_mm: prompt capital, asked under load at 64:" in shown
    assert "| eager (reference) | grouped_mm |\n| --- | --- |\n| Paris. | !!!!!! |" in shown


def test_a_pass_needs_no_example() -> None:
    assert "Worst answer" not in report_with(msgspec.structs.replace(FAILED, verdict="pass"))


def test_an_answer_without_text_says_so() -> None:
    assert "| Paris. | (no text) |" in report_with(with_example(text=" \x00\n"))


def test_of_long_answers_the_place_where_they_part_is_shown() -> None:
    shown = report_with(with_example(text="a" * 500 + "left", reference_text="a" * 500 + "right"))
    assert "the first 460 characters, which are the same, are left out" in shown
    assert f"| …{'a' * 40}right | …{'a' * 40}left |" in shown
    longer = report_with(with_example(text="a" * 400, reference_text="a" * 350))
    assert f"| …{'a' * 40} | …{'a' * 90} |" in longer


def test_odds_are_a_row_each() -> None:
    shown = report_with(FAILED)
    assert row(
        shown, "`grouped_mm`", "spoils one answer in eight, whenever", "12.5%", "0.48%", "40"
    )
    assert row(shown, "`grouped_mm`", "spoils one long prompt in eight", "12.5%", "59%", "4")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "under 1 in a million"),
        (1e-7, "under 1 in a million"),
        (1.2e-6, "1 in 830,000"),
        (0.00025, "1 in 4,000"),
        (0.001, "0.1%"),
        (0.034, "3.4%"),
        (0.344, "34%"),
        (0.989, "99%"),
        (0.99999, "over 99%"),
        (1.0, "100%"),
        (float("nan"), "n/a"),
    ],
)
def test_a_small_chance_is_not_none_and_a_large_one_not_certain(value: float, shown: str) -> None:
    assert probability(value) == shown


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("single", "alone"), ("crowd", "among 8"), ("load", "under load at 8")],
)
def test_how_an_answer_was_asked(mode: ProbeMode, shown: str) -> None:
    assert how_asked(mode, 8) == shown


def test_hostile_answers_stay_in_their_cells() -> None:
    hostile = HOSTILE + "\n</details>\n| a | b |\n" + "x" * 1000
    verdict = msgspec.structs.replace(
        with_example(text=hostile, reference_text=hostile[1:], prompt=hostile),
        reason=hostile,
        findings=(Finding(kind="requests", verdict="fail", sentence=hostile),),
        odds=(MissOdds(defect=hostile, size=0.1, answers=1, probability=0.9),),
    )
    shown = report_with(verdict)
    assert not set(shown) & set("\x1b\x00\r")
    lines = shown.splitlines()
    assert not [line for line in lines if line.startswith(("<", "#"))]
    # Cells are escaped: a table's row has its own borders and no more.
    borders = {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")}
    assert borders == {6, 5, 3}
    assert max(map(len, lines)) < 1500


def test_without_verdicts_there_is_no_section() -> None:
    assert "Correctness" not in report_of(make_run(rounds=1), verdicts={})


def test_without_a_reference_nothing_was_compared() -> None:
    run = make_run(rounds=1)
    run = msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, reference=None))
    shown = report_with(FAILED, run)
    assert "names no reference" in shown
    assert "| reference | grouped_mm |" in shown


def test_the_table_holds_each_findings_figures_exactly() -> None:
    run = make_run(rounds=1)
    verdicts = make_verdicts(run) | {"grouped_mm": FAILED}
    made = tables.render_tables(run, make_judgement(run), verdicts)
    table = pd.read_csv(io.BytesIO(made["correctness.csv"]))
    own = table[table["candidate"] == "grouped_mm"].set_index("kind")
    assert own.loc["agreement", "rate_high"] == 0.1 + 0.2
    assert pd.isna(own.loc["agreement", "garbled"])
    assert own.loc["health", "garbled"] == 3
    assert set(own["candidate_agreement"]) == {0.412}
    # A candidate without findings still has its row.
    bare = table[table["candidate"] == "eager"]
    assert list(bare["sentence"]) == ["answers agree"] and bare["kind"].isna().all()


def test_every_figure_that_a_judge_gives_has_a_column() -> None:
    run = make_run({"eager": 1.0, "other": 1.1}, rounds=1)
    probes = [
        probe("eager", 0), probe("eager", 1), probe("eager", 2),
        probe("other", 1), probe("other", 2, failing=True),
    ]  # fmt: skip
    verdicts = judge_probes(
        probes, candidates=["eager", "other"], reference="eager", rule=run.run.rule
    )
    findings = [finding for verdict in verdicts.values() for finding in verdict.findings]
    assert {finding.kind for finding in findings} == {
        "requests", "health", "agreement", "load", "log_probabilities", "task",
    }  # fmt: skip
    figures = {name for finding in findings for name in finding.figures}
    assert figures <= set(tables.CORRECTNESS_COLUMNS)
    run = msgspec.structs.replace(run, probes=tuple(probes))
    table = tables.correctness_table(run, verdicts)
    assert len(table) == len(findings)
    given = dict(zip(table["candidate"] + table["kind"], table.to_dict("records"), strict=True))
    for candidate, verdict in verdicts.items():
        for finding in verdict.findings:
            shown = given[candidate + finding.kind]
            assert {name: shown[name] for name in finding.figures} == finding.figures


def probe(candidate: str, round_number: int, *, failing: bool = False) -> ProbeRecord:
    """A launch's record with every kind of evidence in it."""
    texts = {f"p{n}": f"{n} is how the answer begins, and on it goes." for n in range(12)}
    answers = [
        ProbeAnswer(
            prompt=name, mode=mode, concurrency=count, repeat=1, outcome="ok", text=text,
            output_tokens=20, finish_reason="length",
        )
        for mode, count in (("single", 1), ("crowd", 8))
        for name, text in texts.items()
    ]  # fmt: skip
    outcome: RequestOutcome = "http_error" if failing else "ok"
    answers.append(msgspec.structs.replace(answers[0], repeat=2, outcome=outcome))
    asked = [Continuation(prompt=name, prompt_token_ids=(1,), token_ids=(2, 3),
                          log_probabilities=(-0.1, -0.2)) for name in texts]  # fmt: skip
    return ProbeRecord(
        candidate=candidate,
        round=round_number,
        prompts_digest="d" * 64,
        prompts=tuple(ProbePrompt(name=name, kind="short", text=name) for name in texts),
        max_tokens=20,
        answers=tuple(answers),
        continuations=tuple(asked) if round_number == 0 else (),
        scores=tuple(
            ScoredContinuation(prompt=name, mode="single", repeat=1, outcome="ok",
                               log_probabilities=(-0.1, -0.2), top_token_ids=(2, 3))
            for name in texts
        ),
        task=tuple(
            TaskAnswer(item=f"q{n}", outcome="ok", text="4", correct=n > 2) for n in range(30)
        ),
    )  # fmt: skip
