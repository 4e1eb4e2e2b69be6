"""What is said of a candidate, all evidence together: from a sweep's records to one verdict."""

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.probe.schema import CandidateVerdict
from autotune.probe.verdict import judge_probes
from autotune.records.rule import Rule
from autotune.records.schema import ProbeRecord
from tests.probe.builders import (
    KINDS,
    PROMPTS,
    Asked,
    Server,
    answer,
    failed,
    fixed,
    judge,
    one_in,
    other,
    right,
    spoilt,
    sweep,
    truth,
    wandering,
)

GARBAGE = {
    "replaced": "\ufffd" * 60,
    "one character": "!" * 60,
    "one character after a word": "Paris" + "!" * 60,
    "controls": "\x00\x07\x1b" * 20,
}


def same(text: str) -> Server:
    return lambda _: text


def strange(asked: Asked) -> str:
    """Fluent, but of something else: the same each time."""
    return other(asked.prompt)


def strange_anew(asked: Asked) -> str:
    return other(asked)


def at_64(asked: Asked) -> bool:
    return asked.concurrency == 64


def of_kind(kind: str) -> Callable[[Asked], bool]:
    return lambda asked: KINDS[asked.prompt] == kind


def both(probes: list[ProbeRecord]) -> dict[str, CandidateVerdict]:
    return judge_probes(probes, candidates=["ref", "x"], reference="ref", rule=Rule())


def test_the_same_answers_pass_with_honest_odds() -> None:
    found = judge(sweep())
    assert found.verdict == "pass" and found.agreement == 1 and found.example is None
    asked = sum(len(probe.answers) for probe in sweep() if probe.candidate == "x")
    assert found.answers == asked == 3 * (25 + 128 + 8 + 8 + 16)
    assert "a small loss of quality wouldn't show here" in found.reason
    everywhere, crowded, long = found.odds
    assert (everywhere.answers, crowded.answers, long.answers) == (asked, 3 * (128 + 16), 8)
    for odds in found.odds:
        assert odds.probability == pytest.approx((7 / 8) ** odds.answers)
    share = 1 - 0.05 ** (1 / asked)
    assert f"garbage in {share:.1%} of answers would have been seen" in found.reason


@pytest.mark.parametrize("rate", [0, 0.01, 0.03])
def test_the_reference_passes_its_own_test(rate: float) -> None:
    reference = wandering(rate, seed="r") if rate else right
    for rounds in ((), (1,), (1, 2, 3)):
        assert judge(sweep(reference, None, rounds=rounds), "ref").verdict != "fail"
    assert judge(sweep(right, None), "ref").verdict == "pass"


def test_a_reference_with_flaws_of_its_own_passes_its_own_test() -> None:
    """Small models loop; nobody is ill for looping as often as it does itself."""
    looping = spoilt(right, same("the " * 20), lambda asked: KINDS[asked.prompt] == "short")
    verdicts = both(sweep(looping, looping))
    assert {one.verdict for one in verdicts.values()} == {"pass"}


def test_a_reference_that_is_garbled_fails_its_own_test() -> None:
    assert judge(sweep(same("\ufffd" * 60), right), "ref").verdict == "fail"


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("rounds", [(1,), (1, 2, 3)])
def test_garbage_fails_from_the_first_launch_on(text: str, rounds: tuple[int, ...]) -> None:
    found = judge(sweep(right, same(text), rounds=rounds))
    assert found.verdict == "fail" and "garbled" in found.reason
    assert found.example is not None and found.example.text == text
    assert found.example.reference_text == truth(found.example.prompt)


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE)
def test_one_garbled_answer_in_eight_fails(text: str) -> None:
    found = judge(sweep(right, spoilt(right, same(text), one_in(8, seed=text)), rounds=(1,)))
    assert found.verdict == "fail" and "garbled" in found.reason


def test_garbage_on_long_prompts_only_fails() -> None:
    found = judge(sweep(right, spoilt(right, same("!" * 60), of_kind("long")), rounds=(1,)))
    assert found.verdict == "fail"
    assert found.example is not None and KINDS[found.example.prompt] == "long"


def test_an_answer_without_text_fails() -> None:
    found = judge(sweep(right, spoilt(right, same(" \n"), of_kind("code")), rounds=(1,)))
    assert found.verdict == "fail" and "no text where the reference has some" in found.reason


def test_a_nan_that_the_engine_tells_of_fails() -> None:
    def marked(asked: Asked) -> object:
        return answer(asked, truth(asked.prompt), nan_marked=asked.index == 3)

    found = judge(sweep(right, marked, rounds=(1,)))  # type: ignore[arg-type]
    assert found.verdict == "fail" and "NaN" in found.reason


@pytest.mark.parametrize("server", [strange, strange_anew])
def test_fluent_answers_to_something_else_fail(server: Server) -> None:
    found = judge(sweep(right, server, rounds=(1,)))
    assert found.verdict == "fail" and "no rounding does that" in found.reason
    assert found.agreement == 0
    assert found.example is not None and found.example.text.startswith("n")


@pytest.mark.parametrize("kind", ["long", "code", "language"])
def test_fluent_answers_to_other_prompts_of_one_kind(kind: str) -> None:
    """The rate over all prompts hardly moves: it takes a count of the prompts to see it."""
    found = judge(sweep(right, spoilt(right, strange, of_kind(kind))))
    assert found.verdict == ("fail" if kind == "long" else "inconclusive")
    assert found.example is not None and KINDS[found.example.prompt] == kind


@pytest.mark.parametrize("seed", range(5))
def test_one_fluent_other_answer_in_eight_at_the_highest_concurrency_never_passes(
    seed: int,
) -> None:
    server = spoilt(right, strange_anew, one_in(8, seed=seed, only=at_64))
    found = judge(sweep(right, server))
    assert found.verdict != "pass" and "nothing in common" in found.reason
    assert found.example is not None and found.example.concurrency == 64


def verdicts_at(rate: float, make: Callable[..., Server], seeds: int = 15) -> list[str]:
    return [
        judge(sweep(right, make(rate, seed=seed), rounds=(1,))).verdict for seed in range(seeds)
    ]


def test_other_tokens_now_and_then_pass_and_often_are_inconclusive() -> None:
    assert verdicts_at(0.01, fixed) == ["pass"] * 15
    often = verdicts_at(0.1, fixed)
    # The rate rests on 25 walks: now and then it looks like less.
    assert often.count("inconclusive") >= 12 and "fail" not in often


def test_a_server_that_wavers_beside_a_steady_reference_is_inconclusive() -> None:
    assert verdicts_at(0.01, wandering) == ["inconclusive"] * 15


def test_a_reference_that_does_not_repeat_itself_fails_nobody_for_disagreement() -> None:
    for candidate in (right, fixed(0.1, seed="x"), strange):
        found = judge(sweep(wandering(0.3, seed="r"), candidate))
        assert found.verdict == "inconclusive"
        rates = next(one for one in found.findings if one.kind == "agreement")
        assert "ref doesn't repeat its own answers" in rates.sentence


@pytest.mark.parametrize("where", ["candidate", "reference", "both"])
@pytest.mark.parametrize("channel", ["text", "reasoning"])
def test_thinking_that_ate_the_budget_leaves_it_open(where: str, channel: str) -> None:
    def thinks(asked: Asked) -> object:
        thought = "Let me see what they want to know of " + asked.prompt
        if channel == "text":
            return answer(asked, f"<think>{thought}")
        return answer(asked, "", reasoning=thought)

    reference = right if where == "candidate" else thinks
    candidate = right if where == "reference" else thinks
    found = judge(sweep(reference, candidate))  # type: ignore[arg-type]
    assert found.verdict == "inconclusive"
    assert "100% of the answers never came to an end of their thinking" in found.reason
    assert "probe.max_tokens" in found.reason


def test_thinking_is_not_compared_but_answers_are() -> None:
    def thinks(asked: Asked) -> object:
        if asked.index % 2:
            return answer(asked, truth(asked.prompt), reasoning=f"Thought {asked}.")
        return answer(asked, f"<think>Thought {asked}.</think>\n\n{truth(asked.prompt)}")

    found = judge(sweep(thinks, thinks))  # type: ignore[arg-type]
    assert found.verdict == "pass" and found.agreement == 1


def test_a_load_runs_on_past_the_natural_end() -> None:
    def stops(asked: Asked) -> object:
        if asked.mode == "load":
            return answer(asked, truth(asked.prompt) + other(asked), output_tokens=64)
        return answer(asked, truth(asked.prompt), finish_reason="stop")

    found = judge(sweep(stops, stops))  # type: ignore[arg-type]
    assert found.verdict == "pass" and found.agreement == 1


@pytest.mark.parametrize("reference", [None, "ref", "stranger"])
def test_without_the_references_answers_nothing_is_concluded(reference: str | None) -> None:
    found = judge(sweep(None, right), reference=reference)
    assert found.verdict == "inconclusive" and "no reference answers" in found.reason
    garbled = judge(sweep(None, same("!" * 60)), reference=reference)
    assert garbled.verdict == "fail" and garbled.example is not None
    assert garbled.example.reference_text == ""


def test_without_a_candidates_answers_nothing_is_concluded() -> None:
    found = judge(sweep(right, None))
    assert found.verdict == "inconclusive" and "no correctness evidence" in found.reason
    assert found.answers == 0 and found.agreement is None


def without(probes: list[ProbeRecord], candidate: str, prompts: set[str]) -> list[ProbeRecord]:
    return [
        msgspec.structs.replace(
            probe, answers=tuple(one for one in probe.answers if one.prompt not in prompts)
        )
        if probe.candidate == candidate
        else probe
        for probe in probes
    ]


def test_prompts_that_the_reference_never_answered_are_left_out() -> None:
    names = {prompt.name for prompt in PROMPTS}
    some = {"story", "long_code"}
    candidate = spoilt(right, strange, lambda asked: asked.prompt in some)
    found = judge(without(sweep(right, candidate), "ref", some))
    assert found.verdict == "pass" and found.agreement == 1
    # None of what it was asked is known: nothing can be said.
    half = without(without(sweep(), "ref", some), "x", names - some)
    found = judge(half)
    assert found.verdict == "inconclusive" and "nothing that ref answered was asked" in found.reason


def test_answers_to_other_prompts_are_ignored() -> None:
    mixed = [
        msgspec.structs.replace(probe, prompts_digest="0" * 64)
        if probe.candidate == "x" and probe.round == 2
        else probe
        for probe in sweep(right, spoilt(right, same("!" * 60), lambda asked: asked.round == 2))
    ]
    assert judge(mixed).verdict == "pass"
    alien = [
        msgspec.structs.replace(probe, prompts_digest="0" * 64) if probe.candidate == "x" else probe
        for probe in sweep()
    ]
    assert "no correctness evidence" in judge(alien).reason


def test_the_references_first_prompts_are_the_ones() -> None:
    """Whatever the order of the records, and whatever the reference was asked later."""
    later = [
        msgspec.structs.replace(probe, prompts_digest="0" * 64, round=9)
        for probe in sweep(strange, None, rounds=())
    ]
    assert judge([*later, *sweep()]) == judge([*sweep(), *later]) == judge(sweep())


@pytest.mark.parametrize("failing", ["every request", "one under load"])
def test_failed_requests_fail_with_their_outcome(failing: str) -> None:
    def some(asked: Asked) -> bool:
        return failing == "every request" or (asked.mode == "load" and asked.index == 5)

    found = judge(sweep(right, spoilt(right, failed, some), rounds=(1,)))  # type: ignore[arg-type]
    assert found.verdict == "fail"
    assert "probe requests failed (http_error: HTTP 500: kernel launch failed)" in found.reason


def test_a_request_that_the_reference_fails_too_is_not_held_against_a_candidate() -> None:
    server = spoilt(right, failed, of_kind("long"))  # type: ignore[arg-type]
    assert {one.verdict for one in both(sweep(server, server)).values()} == {"pass"}
    assert judge(sweep(right, server)).verdict == "fail"


def test_a_bad_round_is_not_forgotten() -> None:
    server = spoilt(right, same("!" * 60), lambda asked: asked.round == 2 and asked.index == 4)
    assert judge(sweep(right, server)).verdict == "fail"


def test_what_steers_a_terminal_breaks_nothing() -> None:
    def steering(asked: Asked) -> object:
        text = "\x1b[2J\x1b]0;title\x07\u202e" + truth(asked.prompt)
        return answer(asked, text, error="\x1b[2J", reasoning="\x1b[31m")

    found = judge(sweep(steering, steering))  # type: ignore[arg-type]
    assert found.verdict != "fail" and "\x1b" not in found.reason
    found = judge(sweep(right, steering))  # type: ignore[arg-type]
    assert found.verdict == "fail" and "\x1b" not in found.reason
    assert msgspec.json.encode(found)


def _mixed() -> list[ProbeRecord]:
    """Records with something of everything: strays, garbage, failures, thinking, other digests."""
    server = spoilt(wandering(0.03, seed="x"), strange_anew, one_in(9))
    server = spoilt(server, failed, one_in(40, seed=1))  # type: ignore[arg-type]
    server = spoilt(server, same("<think>hm"), one_in(30, seed=2))
    server = spoilt(server, same("!" * 60), one_in(50, seed=3))
    probes = sweep(wandering(0.01, seed="r"), server, ladder=(1, 4))
    old = [msgspec.structs.replace(probe, prompts_digest="0" * 64, round=7) for probe in probes[:3]]
    return [*probes, *old]


MIXED = _mixed()


@settings(max_examples=15, deadline=None)
@given(st.integers())
def test_verdicts_do_not_depend_on_the_order_of_the_records(seed: int) -> None:
    shuffled = MIXED.copy()
    random.Random(seed).shuffle(shuffled)
    assert both(shuffled) == both(MIXED)
