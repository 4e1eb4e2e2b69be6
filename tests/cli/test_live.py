"""The live view and the plain lines, from events alone: what they say, and that they fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from autotune.cli.live import Look, bar, clock, render, shorten
from autotune.cli.plain import PlainLines
from autotune.cli.view import View, advance, seconds_left
from autotune.decide.schema import RatioEstimate
from autotune.decisions.schema import Interval
from autotune.records.schema import MeasurementWarning
from autotune.sweep.progress import (
    CandidateRests,
    CandidateReturns,
    ConclusionBegan,
    Event,
    LaunchBegan,
    LaunchEnded,
    LeftToDo,
    Noted,
    PhaseBegan,
    PointEnded,
    PointProgress,
    QuestionsProgress,
    Row,
    ServerReady,
    Standings,
    SweepBegan,
    SweepEnded,
)

NAMES = tuple(f"flashinfer_trtllm_routed_with_a_long_name_{number}" for number in range(8))
LEFT = LeftToDo(made=3, fewest=7, most=15, usual_s=60.0, expected_s=420.0, worst_s=1500.0)
BEGAN = SweepBegan(
    name="demo", folder="results/demo", candidates=NAMES, concurrencies=(1, 16), left=LEFT
)
LAUNCH = LaunchBegan(number=4, candidate=NAMES[3], round=2, concurrencies=(16, 1), left=LEFT)
WARMING = PhaseBegan(phase="warming_up", concurrency=16, requests=16)
MEASURING = PhaseBegan(phase="measuring", concurrency=16, requests=320)
HALF = PointProgress(finished=160, failed=2, total=372, measured=320, tokens_per_s=812.4)
SLOW = MeasurementWarning(code="ttft_tail", observed="p99 is 9 x p50", threshold="5", remedy="wait")
POINT = PointEnded(
    candidate=NAMES[3],
    concurrency=16,
    status="ok",
    output_tokens_per_s=1234.56,
    ttft_p50_s=0.012,
    latency_p50_s=0.34,
    warnings=(SLOW,),
)
RACE = Standings(
    stage="race",
    leader=NAMES[1],
    baseline=NAMES[0],
    rows=(
        Row(candidate=NAMES[0], rounds=2, ratio=RatioEstimate(ratio=1, n=2)),
        Row(
            candidate=NAMES[1],
            rounds=2,
            ratio=RatioEstimate(
                ratio=1.132, n=2, interval=Interval(low=1.1, high=1.164, confidence=0.95)
            ),
            throughputs={1: 215.3, 16: 1234.6},
        ),
        Row(candidate=NAMES[2], rounds=1, note="not proven right: too few answers"),
        *(Row(candidate=name) for name in NAMES[3:6]),
        Row(
            candidate=NAMES[6],
            rounds=2,
            ratio=RatioEstimate(ratio=0.7, n=2),
            out="more than 15% behind",
        ),
        Row(candidate=NAMES[7], failed=True, out="oom in round 1: \x1b[31mout of\nmemory"),
    ),
)
EVENTS: tuple[Event, ...] = (BEGAN, RACE, LAUNCH, ServerReady(ready_s=3.2), POINT, MEASURING, HALF)


def seen(*events: Event, at_s: float = 0.0) -> View:
    view = View()
    for event in events:
        view = advance(view, event, at_s=at_s)
    return view


def drawn(view: View, width: int = 79, height: int = 22, *, now_s: float = 41.0) -> list[str]:
    return [line.plain for line in render(view, Look(width=width, height=height), now_s=now_s)]


def line_with(lines: list[str], word: str) -> str:
    (line,) = [line for line in lines if word in line]
    return line


# -- what the view says


def test_eight_candidates_fit_a_small_terminal() -> None:
    lines = drawn(seen(*EVENTS))
    assert len(lines) <= 22 and all(cell_len(line) <= 79 for line in lines)
    # Everybody has a line: the current one is named twice.
    ends = [f"_{number}" for number in range(8)]
    for end in ends:
        assert any(f"{end} " in line for line in lines), end
    assert any("ttft_tail" in line for line in lines)


def test_how_far_and_how_long() -> None:
    head = line_with(drawn(seen(*EVENTS), now_s=41.0), "of 10 launches")
    assert "3 of 10 launches (18 at most), about 6 min left (25 min at worst)" in head
    unknown = seen(
        BEGAN, LaunchBegan(**fields(LAUNCH) | {"left": LeftToDo(made=0, fewest=3, most=3)})
    )
    assert line_with(drawn(unknown), "launches").endswith("0 of 3 launches")


def fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


@pytest.mark.parametrize(("now_s", "left_s"), [(0.0, 420.0), (20.0, 400.0), (900.0, 360.0)])
def test_a_launch_that_takes_longer_counts_as_nearly_over(now_s: float, left_s: float) -> None:
    assert seconds_left(seen(BEGAN, LAUNCH), now_s) == left_s


def test_what_is_on_and_how_fast_it_is() -> None:
    lines = drawn(seen(*EVENTS), width=100)
    assert "launch 4, 0:41" in line_with(lines, "round 2")
    now = line_with(lines, "measuring concurrency 16")
    assert "160/320 requests  2 failed  812 tokens/s so far" in now
    assert "16: 1,234.6  1: -" in line_with(lines, "output tokens/s at")


@pytest.mark.parametrize(
    ("phase", "told"),
    [
        (PhaseBegan(phase="starting", limit_s=600.0), "starting the server, 0:41 of at most 10:00"),
        (PhaseBegan(phase="probing"), "probing its answers, 0:41"),
        (WARMING, "warming up concurrency 16, 16 requests, 0:41"),
        (
            PhaseBegan(phase="measuring", concurrency=16, requests=320, attempt=2),
            "measuring concurrency 16 again, it wasn't steady, 320 requests, 0:41",
        ),
        (PhaseBegan(phase="stopping", limit_s=30.0), "stopping the server, 0:41 of at most 0:30"),
    ],
)
def test_each_phase_has_its_words(phase: PhaseBegan, told: str) -> None:
    assert f"  {told}" in drawn(seen(BEGAN, LAUNCH, phase))


def test_probes_among_load_are_no_measured_requests() -> None:
    probes = PointProgress(finished=330, failed=0, total=372, measured=320)
    now = line_with(drawn(seen(BEGAN, LAUNCH, MEASURING, probes)), "measuring")
    assert "10/52 probes among load" in now and "tokens/s" not in now


def test_how_many_questions_are_answered() -> None:
    asking = PhaseBegan(phase="asking", requests=400)
    begun = line_with(drawn(seen(BEGAN, LAUNCH, asking)), "asking questions")
    assert begun.endswith("─  0/400 answered  0:41") and "━" not in begun
    some = QuestionsProgress(answered=100, failed=3, total=400)
    view = seen(BEGAN, LAUNCH, asking, some)
    line = line_with(drawn(view), "asking questions")
    assert line.endswith("100/400 answered  3 failed  0:41")
    assert line.count("━") == pytest.approx(line.count("─") / 3, abs=1)
    narrow = line_with(drawn(view, width=40), "asking questions")
    assert narrow == "  asking questions    100/400 answered …"
    after = drawn(advance(view, PhaseBegan(phase="probing"), at_s=40.0))
    assert "  probing its answers, 0:01" in after and not any("400" in line for line in after)


def test_who_leads_and_who_is_out() -> None:
    lines = drawn(seen(*EVENTS), width=130)
    first = lines[next(n for n, line in enumerate(lines) if "candidate" in line) + 1]
    assert first.startswith(f"▶ {NAMES[1]}") and first.endswith("leads")
    assert "1.13x (1.10 to 1.16)" in first and "215.3" in first and "1,234.6" in first
    assert "not proven right" in line_with(lines, "_2 ")
    assert line_with(lines, "rests:").endswith("(0.70x)  rests: more than 15% behind")
    assert "failed: oom in round 1: �[31mout of memory" in line_with(lines, "failed:")


def test_before_the_first_launch_everybody_is_listed() -> None:
    assert drawn(View()) == ["starting"]
    assert sum("flashinfer" in line for line in drawn(seen(BEGAN))) == 8


def test_what_belongs_to_a_launch_ends_with_it() -> None:
    ended = seen(*EVENTS, LaunchEnded(candidate=NAMES[3], round=2, status="ok"))
    lines = drawn(ended)
    assert "between launches" in lines[3]
    assert not any("measuring" in line or "1,234" in line for line in lines)
    # It counts as made at once; what is left to do is told anew at the next launch.
    assert "4 of 10 launches (18 at most), about 6 min left (23 min at worst)" in lines[1]
    never = LaunchEnded(candidate=NAMES[7], round=2, status="unsupported")
    assert drawn(advance(ended, never, at_s=9.0))[1] == lines[1]
    over = drawn(advance(ended, SweepEnded(reason="decisive after 3 rounds"), at_s=9.0))
    assert over[3] == "the race is over: decisive after 3 rounds"
    assert over[1].endswith("━  4 of 4 launches")


def test_the_report_is_being_written() -> None:
    view = seen(BEGAN, RACE, SweepEnded(reason="spent", stopped=True))
    assert not any("report" in line for line in drawn(view))
    lines = drawn(advance(view, ConclusionBegan(), at_s=30.0))
    assert lines[3:5] == ["stopped by spent", "  writing tables, plots and report, 0:11"]
    assert any(line.startswith("▶ ") for line in lines)


def test_a_warning_that_comes_again_is_shown_once() -> None:
    other = PointEnded(**fields(POINT) | {"concurrency": 1})
    view = seen(BEGAN, POINT, Noted(text="a note"), Noted(text="a note"), other)
    assert [one.text for one in view.warnings] == [
        "a note",
        "at concurrency 1: ttft_tail: p99 is 9 x p50",
    ]
    many = seen(BEGAN, *(Noted(text=str(number)) for number in range(9)))
    assert [one.text for one in many.warnings] == ["6", "7", "8"]


def test_rows_that_do_not_fit_are_counted() -> None:
    lines = drawn(seen(*EVENTS), height=12)
    assert len(lines) == 12 and lines[-1] == "  and 5 more"
    assert lines[8].startswith("▶ ")


@given(
    width=st.integers(1, 200),
    height=st.integers(1, 60),
    texts=st.lists(st.text(max_size=90), min_size=4, max_size=4),
    ascii_only=st.booleans(),
)
def test_any_text_fits_any_room(
    width: int, height: int, texts: list[str], ascii_only: bool
) -> None:
    name, reason, note, other = texts
    rows = (Row(candidate=name, out=reason), Row(candidate=other, rounds=1, note=note))
    view = seen(
        SweepBegan(**fields(BEGAN) | {"name": name, "folder": reason}),
        Standings(stage="race", rows=rows, leader=name, baseline=other),
        LaunchBegan(**fields(LAUNCH) | {"candidate": name}),
        MEASURING,
        Noted(text=note),
        HALF,
    )
    lines = render(view, Look(width=width, height=height, ascii_only=ascii_only), now_s=1.0)
    assert len(lines) <= height
    for line in lines:
        assert cell_len(line.plain) <= width
        assert all(character.isprintable() for character in line.plain)
        assert line.plain.isascii() or not ascii_only


@given(text=st.text(max_size=60), width=st.integers(0, 40))
def test_a_name_is_cut_in_the_middle(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_len(short) <= width or short == text
    if text.isascii() and text.isprintable() and len(text) > width >= 3:
        assert len(short) == width
        assert short[0] == text[0] and short[-1] == text[-1]


def test_a_bar_is_as_long_as_it_is_asked_to_be() -> None:
    for share in (-1.0, 0.0, 0.33, 1.0, 7.0):
        assert sum(len(part) for part, _ in bar(share, 20)) == 20
    assert bar(0.5, 20)[0][0] == "━" * 10


@pytest.mark.parametrize(("seconds", "shown"), [(-1, "0:00"), (41.9, "0:41"), (3753, "1:02:33")])
def test_clocks(seconds: float, shown: str) -> None:
    assert clock(seconds) == shown


# -- plain lines


def told(*events: Event) -> list[str]:
    plain = PlainLines()
    return [line for event in events for line in plain.lines(event)]


def test_a_sweep_in_plain_lines() -> None:
    rests = CandidateRests(candidate="b", round=2, reason="more than 15% behind a")
    failed = LaunchEnded(candidate=NAMES[3], round=2, status="crashed", reason="exit\x1b[0m code 9")
    assert told(*EVENTS, failed, RACE, rests, SweepEnded(reason="2 rounds", stopped=True)) == [
        "demo: 3 launches are already made, 7 launches to make (15 at most), about 7 min left, "
        "at worst 25 min",
        f"    {NAMES[1]} leads: 1.13x (1.10 to 1.16) of {NAMES[0]}",
        f"[4/10] round 2 {NAMES[3]}: launching, about 7 min left, at worst 25 min",
        "    ready after 3.2 s; probing",
        "    concurrency 16: 1234.6 tokens/s, TTFT 12 ms, latency 340 ms (medians)",
        "      warning: ttft_tail: p99 is 9 x p50",
        r"    crashed: exit\x1b[0m code 9",
        "round 2: b isn't launched: more than 15% behind a",
        "stopped by 2 rounds",
    ]


def test_what_plain_lines_say_once() -> None:
    again = PhaseBegan(phase="warming_up", concurrency=16, attempt=2)
    assert told(LAUNCH, POINT, again, POINT)[1:] == [
        "    concurrency 16: 1234.6 tokens/s, TTFT 12 ms, latency 340 ms (medians)",
        "      warning: ttft_tail: p99 is 9 x p50",
        "    concurrency 16: it wasn't steady, measuring it again",
        "    concurrency 16: 1234.6 tokens/s, TTFT 12 ms, latency 340 ms (medians)",
    ]


def test_a_launch_that_failed_is_told_once() -> None:
    failed = LaunchEnded(candidate=NAMES[3], round=2, status="oom", reason="no memory")
    rests = CandidateRests(candidate=NAMES[3], round=2, reason="oom in round 2: no memory")
    assert told(LAUNCH, failed, rests)[1:] == ["    oom: no memory"]
    unsupported = LaunchEnded(candidate="x", round=1, status="unsupported", reason="needs a GPU")
    out = CandidateRests(candidate="x", round=1, reason="unsupported in round 1: needs a GPU")
    assert told(unsupported, out) == ["round 1 x: unsupported: needs a GPU"]
    # What an earlier start found out wasn't told by this one, nor was what answers showed.
    assert told(rests) == [f"round 2: {NAMES[3]} isn't launched: oom in round 2: no memory"]
    well = LaunchEnded(candidate=NAMES[3], round=2, status="ok")
    wrong = CandidateRests(candidate=NAMES[3], round=2, reason="wrong answers")
    assert told(LAUNCH, well, wrong)[1:] == [f"round 2: {NAMES[3]} isn't launched: wrong answers"]


def test_what_takes_its_time_is_announced_once() -> None:
    asking = PhaseBegan(phase="asking", requests=400)
    some = QuestionsProgress(answered=1, failed=0, total=400)
    assert told(LAUNCH, asking, some, some, PhaseBegan(phase="probing"))[1:] == [
        "    asking 400 questions"
    ]
    assert told(SweepEnded(reason="done"), ConclusionBegan()) == [
        "the race is over: done", "writing tables, plots and report"
    ]  # fmt: skip


def test_what_was_never_launched_names_itself() -> None:
    unsupported = LaunchEnded(candidate="x", round=1, status="unsupported", reason="needs a GPU")
    assert told(unsupported) == ["round 1 x: unsupported: needs a GPU"]
    noted = Noted(text="set aside\nstudy.db")
    assert len(told(noted, LAUNCH, noted)) == 3
    assert told(CandidateReturns(candidate="x", round=3))[0].startswith("round 3: x is launched")
    assert told(SweepBegan(**fields(BEGAN) | {"left": LeftToDo(made=1, fewest=0, most=0)})) == [
        "demo: 1 launch is already made, none is left to make"
    ]
