from collections.abc import Callable

import pytest

from autotune.probe.verdict import CandidateVerdict, judge_probes
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbeRecord, RequestOutcome, Rule

PROMPTS = ("capital", "sum", "count", "code", "list", "german", "json", "long")
LOADED = 16
RULE = Rule(min_agreement=0.5, max_disagreement=0.1)
# (prompt, mode, index) to what was said, and how the request ended.
Said = Callable[[str, ProbeMode, int], str]


def right(prompt: str, mode: ProbeMode, index: int) -> str:
    """What the reference says: different for each prompt from the first character on."""
    return f"{PROMPTS.index(prompt)} is how the answer about {prompt} begins, and it goes on."


def garbage(prompt: str, mode: ProbeMode, index: int) -> str:
    return "\ufffd" * 40


def fluent_but_other(prompt: str, mode: ProbeMode, index: int) -> str:
    return f"Nobody knows anything about {prompt} these days, so they say in town."


def probe(
    candidate: str,
    said: Said,
    *,
    round_number: int = 1,
    outcome: Callable[[str, ProbeMode, int], RequestOutcome] = lambda *_: "ok",
) -> ProbeRecord:
    parts: tuple[tuple[ProbeMode, int], ...] = (("single", len(PROMPTS)), ("loaded", LOADED))
    answers = []
    for mode, count in parts:
        for index in range(count):
            prompt = PROMPTS[index % len(PROMPTS)]
            ended = outcome(prompt, mode, index)
            answers.append(
                ProbeAnswer(
                    prompt=prompt,
                    mode=mode,
                    repeat=1 + index // len(PROMPTS),
                    outcome=ended,
                    text=said(prompt, mode, index) if ended == "ok" else "",
                    error=None if ended == "ok" else "HTTP 500: kernel launch failed",
                )
            )
    return ProbeRecord(
        candidate=candidate,
        round=round_number,
        prompts_digest="d" * 64,
        max_tokens=16,
        answers=tuple(answers),
    )


def judge(*probes: ProbeRecord, reference: str | None = "ref") -> CandidateVerdict:
    """The verdict on candidate ``x``."""
    return judge_probes(probes, candidates=["ref", "x"], reference=reference, rule=RULE)["x"]


def test_the_same_answers_pass() -> None:
    verdict = judge(probe("ref", right), probe("x", right))
    assert verdict.verdict == "pass"
    assert verdict.agreement == 1
    assert verdict.answers == len(PROMPTS) + LOADED
    assert "not a small loss of quality" in verdict.reason


def test_the_reference_passes_its_own_test() -> None:
    verdicts = judge_probes(
        [probe("ref", right, round_number=n) for n in (1, 2, 3)],
        candidates=["ref"],
        reference="ref",
        rule=RULE,
    )
    assert verdicts["ref"].verdict == "pass"


@pytest.mark.parametrize("rounds", [1, 3])
def test_deterministic_garbage_fails_however_consistent(rounds: int) -> None:
    numbers = range(1, rounds + 1)
    probes = [probe("x", garbage, round_number=n) for n in numbers]
    verdict = judge(*probes, *(probe("ref", right, round_number=n) for n in numbers))
    assert verdict.verdict == "fail" and "garbled" in verdict.reason


@pytest.mark.parametrize("text", ["", " \n", "!" * 60, "\ufffd" * 40, "ab" * 40])
def test_one_ill_answer_among_right_ones_fails(text: str) -> None:
    def said(prompt: str, mode: ProbeMode, index: int) -> str:
        return text if prompt == "long" else right(prompt, mode, index)

    verdict = judge(probe("ref", right), probe("x", said))
    assert verdict.verdict == "fail" and verdict.worst_prompt == "long"


def test_a_candidate_is_not_called_garbled_for_what_the_reference_writes_too() -> None:
    """A reference that is as ill itself gives no ground to call a candidate ill."""
    verdict = judge(probe("ref", garbage), probe("x", garbage))
    assert "garbled" not in verdict.reason


def test_fluent_answers_to_something_else_fail() -> None:
    verdict = judge(probe("ref", right), probe("x", fluent_but_other))
    assert verdict.verdict == "fail" and "nothing in common" in verdict.reason


@pytest.mark.parametrize("failing", ["every request", "one under load"])
def test_failed_requests_fail(failing: str) -> None:
    def outcome(prompt: str, mode: ProbeMode, index: int) -> RequestOutcome:
        one = mode == "loaded" and index == 5
        return "http_error" if one or failing == "every request" else "ok"

    verdict = judge(probe("ref", right), probe("x", right, outcome=outcome))
    assert verdict.verdict == "fail"
    assert "probe requests failed" in verdict.reason and "kernel launch failed" in verdict.reason


def test_a_request_that_the_reference_fails_too_is_not_held_against_a_candidate() -> None:
    def outcome(prompt: str, mode: ProbeMode, index: int) -> RequestOutcome:
        return "http_error" if prompt == "long" else "ok"

    probes = (probe("ref", right, outcome=outcome), probe("x", right, outcome=outcome))
    assert judge(*probes).verdict != "fail"


def test_an_answer_that_is_empty_for_the_reference_too_is_not_garbled() -> None:
    def said(prompt: str, mode: ProbeMode, index: int) -> str:
        return "" if prompt == "json" else right(prompt, mode, index)

    assert judge(probe("ref", said), probe("x", said)).verdict != "fail"


def test_a_reference_that_does_not_repeat_itself_proves_nothing() -> None:
    def said(prompt: str, mode: ProbeMode, index: int) -> str:
        return right(prompt, mode, index) if mode == "single" else f"{index} times {prompt}"

    verdict = judge(probe("ref", said), probe("x", right))
    assert verdict.verdict == "inconclusive"
    assert "ref doesn't repeat its own answers" in verdict.reason


@pytest.mark.parametrize("wrong", [garbage, fluent_but_other])
def test_one_bad_answer_in_8_under_load_does_not_pass(wrong: Said) -> None:
    def said(prompt: str, mode: ProbeMode, index: int) -> str:
        bad = mode == "loaded" and index % 8 == 3
        return wrong(prompt, mode, index) if bad else right(prompt, mode, index)

    verdict = judge(probe("ref", right), probe("x", said))
    assert verdict.verdict == ("fail" if wrong is garbage else "inconclusive")
    assert verdict.worst_prompt == PROMPTS[3]


def test_half_an_agreement_is_inconclusive() -> None:
    def said(prompt: str, mode: ProbeMode, index: int) -> str:
        text = right(prompt, mode, index)
        return text[: len(text) // 3] + "#" + text[len(text) // 3 :]

    verdict = judge(probe("ref", right), probe("x", said))
    assert verdict.verdict == "inconclusive" and "too little to trust" in verdict.reason
    assert verdict.agreement is not None and 0.1 < verdict.agreement < 0.5


@pytest.mark.parametrize("reference", [None, "ref", "stranger"])
def test_without_the_references_answers_nothing_is_concluded(reference: str | None) -> None:
    verdict = judge(probe("x", right), reference=reference)
    assert verdict.verdict == "inconclusive" and "no reference answers" in verdict.reason


def test_without_a_candidates_answers_nothing_is_concluded() -> None:
    verdict = judge(probe("ref", right))
    assert verdict.verdict == "inconclusive" and "no correctness evidence" in verdict.reason
    assert verdict.answers == 0 and verdict.agreement is None


def test_a_bad_round_is_not_forgotten() -> None:
    verdict = judge(probe("ref", right), probe("x", right), probe("x", garbage, round_number=2))
    assert verdict.verdict == "fail"
