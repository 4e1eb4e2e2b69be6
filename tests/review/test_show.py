"""One decision or one run in full, on a terminal and in a pipe."""

from pathlib import Path

import msgspec
import pytest

from autotune.decisions import Interval, encode
from autotune.decisions.schema import ConcurrencyWinner
from autotune.errors import DecisionFileError, InputError, RunFolderError
from autotune.judged import Judged, read_judged
from autotune.report.content import Column, Paragraph, Report, Section, Table
from autotune.review.show import ShownDecision, read_shown
from autotune.review.show_decision import decision_report
from autotune.review.show_run import run_data, run_report
from autotune.review.show_text import render_table, render_text
from autotune.review.show_words import age_words, signed_percent, value_words
from tests.decisions.builders import CUTLASS, ROUTED, decision, origin_entry
from tests.records.builders import launch, make_run
from tests.review.run_folders import contents, decide, put_run


def test_a_decision_tells_all_it_holds() -> None:
    winner = ConcurrencyWinner(
        concurrency=64,
        candidate=CUTLASS,
        backend=CUTLASS,
        ratio_to_choice=1.02,
        interval=Interval(0.9, 1.1, 0.95),
    )
    entry = origin_entry(
        choice={
            "winners": (winner,),
            "arguments": ("--tune", "3"),
            "reason": "first (one; two); second",
        },
        evidence={"accepted": ("one round only",), "source": "https://example.org/1"},
    )
    text = render_text(decision_report(decision(entry, origin_entry(scope={"tp": 8}))), width=None)
    lines = text.splitlines()
    for line in (
        "MiniMaxM2ForCausalLM, modelopt_fp4, sm100: 2 measured scopes",
        f"{ROUTED} (candidate sglang-{ROUTED}): decisive over 3 rounds, answers pass",
        "measured with --tune 3",
        f"throughput 1.310 x {CUTLASS}, the reference",
        "- first (one; two)",
        "- second",
        "imported from https://example.org/1",
        "- one round only",
        "- sglang-flashinfer_trtllm: its answers are corrupted text (answers fail)",
        f"- points.csv {'0' * 64}",
    ):
        assert line in lines, text
    assert any(line.split()[:4] == ["64", CUTLASS, "1.020", "[0.900,"] for line in lines)
    assert any(line.split() == ["16", f"sglang-{ROUTED}", "2,101", "3"] for line in lines)
    assert "1. SCOPE" in lines and "2. EVIDENCE" in lines
    assert "TTFT" not in text


def test_times_of_a_decision_are_in_sensible_units() -> None:
    row = msgspec.structs.replace(
        origin_entry().evidence.rows[0], ttft_mean_s=0.0123, latency_p99_s=12.5
    )
    text = render_text(
        decision_report(decision(origin_entry(evidence={"rows": (row,)}))), width=None
    )
    assert "TTFT mean (ms)" in text and "12.30" in text
    assert "latency p99 (s)" in text and "12.50" in text and "latency mean" not in text


def test_a_run_says_what_its_report_says(tmp_path: Path) -> None:
    run = make_run(rounds=4, noise=0.002)
    failed = launch("eager", 5, 0, status="oom", reason="CUDA out of memory")
    path = put_run(tmp_path / "run", msgspec.structs.replace(run, launches=(*run.launches, failed)))
    decide(path)
    (path / "report.md").write_text("")
    before = contents(tmp_path)
    judged = read_judged(path)
    text, data = render_text(run_report(judged), width=None), run_data(judged)
    assert contents(tmp_path) == before
    assert judged.derived.judgement.summary in text
    assert f"Report: {path}/report.md" in text and f"Decision: {path}/decision.json" in text
    assert any(
        line.split()[:5] == ["5", "eager", "oom", "61", "12.50"] for line in text.splitlines()
    ), text
    assert "CUDA out of memory" in text and "14 launches made" in text
    assert data.launches[0].took_s == 61 and data.decision_file == f"{path}/decision.json"
    figures = {(row["candidate"], row["concurrency"]): row for row in data.figures}
    table = judged.derived.tables["summary.csv"].decode()
    assert repr(figures["grouped_mm", 64]["output_tokens_per_s"]) in table
    assert msgspec.json.decode(msgspec.json.encode(data))["judgement"]["choice"] == "grouped_mm"


def test_a_run_without_anything_measured(tmp_path: Path) -> None:
    nothing = msgspec.structs.replace(make_run(), points=(), launches=())
    path = put_run(tmp_path / "run", nothing)
    text = render_text(run_report(read_judged(path)), width=80)
    assert "unfinished: round 1 is next" in text and "No point of this run is valid." in text
    assert f"autotune report {path}" in " ".join(text.split()) and "none written" in text
    assert run_data(read_judged(path)).reports == ()


def test_what_is_given_is_told_by_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(encode(decision()))
    shown = read_shown(file)
    assert isinstance(shown, ShownDecision) and shown.decision == decision()
    assert isinstance(read_shown(put_run(tmp_path / "run", make_run(rounds=1))), Judged)
    with pytest.raises(InputError, match="no such file or folder"):
        read_shown(tmp_path / "gone")
    with pytest.raises(RunFolderError, match="not a run folder"):
        read_shown(tmp_path)
    file.write_text("{}")
    with pytest.raises(DecisionFileError, match=r"x\.json"):
        read_shown(file)
    (tmp_path / "run/decision.json").write_text("{")
    with pytest.raises(DecisionFileError, match="delete it"):
        read_shown(tmp_path / "run")


@pytest.mark.parametrize("width", [30, 60, 80, 140])
def test_a_terminal_is_never_overrun(tmp_path: Path, width: int) -> None:
    path = put_run(tmp_path / "r", make_run(rounds=2))
    for report in (decision_report(decision()), run_report(read_judged(path))):
        text = render_text(report, width=width)
        longest = max(len(word) for word in text.split() if "─" not in word)
        assert max(len(line) for line in text.splitlines()) <= max(width, longest + 2)


def test_no_word_of_a_table_is_broken() -> None:
    table = Table(
        (Column("name"), Column("what it says"), Column("n", numeric=True)),
        (("grouped_mm", "a sentence of several words that has to be wrapped", "12"),),
    )
    text = render_table(table, width=40)
    assert max(len(line) for line in text.splitlines()) <= 40
    assert "grouped_mm" in text and "sentence" in text
    # Where the words alone are wider than the terminal, a row becomes a sentence.
    assert render_table(table, width=20).splitlines()[0].startswith("- name: grouped_mm")
    piped = render_table(table, width=None).splitlines()
    assert len(piped) == 2 and "several words that has to be wrapped" in piped[1]


def test_hostile_text_is_shown_as_it_is() -> None:
    evil = "[bold]x[/bold] \x1b[31mred\x1b[0m :smile: a\nb"
    report = Report(evil, (Section("s", (Table((Column("c"),), ((evil,),)), Paragraph(evil))),))
    for width in (None, 80):
        text = render_text(report, width=width)
        assert "\x1b" not in text and text.count("[bold]x[/bold] red :smile: a b") == 3


def test_words() -> None:
    assert [age_words(days) for days in (None, 0, 1, 30, -1)] == [
        "", "today", "1 day ago", "30 days ago", "in 1 day",
    ]  # fmt: skip
    assert [signed_percent(share) for share in (None, 0.0, 0.0314, -0.5, 12.0, 1e-7)] == [
        "n/a", "0%", "+3.1%", "-50.0%", "+1,200%", "+1e-05%",
    ]  # fmt: skip
    assert [value_words(value) for value in (None, "", True, {}, {"b": "1", "a": "2"}, [])] == [
        "not recorded", "(empty)", "yes", "none", "a=2, b=1", "none",
    ]  # fmt: skip


def test_a_reason_is_parted_outside_of_its_brackets() -> None:
    reason = "it leads (by 2%; n = 3); others fell out; (" + "a; " * 200_000
    entry = origin_entry()
    long = msgspec.structs.replace(
        entry, choice=msgspec.structs.replace(entry.choice, reason=reason)
    )
    text = render_text(decision_report(decision(long)), width=None)
    assert "- it leads (by 2%; n = 3)\n" in text and "- others fell out\n" in text
