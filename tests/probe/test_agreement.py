import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions.schema import Verdict
from autotune.probe.agreement import (
    OVERALL,
    Rate,
    Setting,
    judge_rate,
    judge_steadiness,
    rate_of,
    settings_of,
)
from autotune.probe.answers import Walk
from autotune.probe.schema import Finding
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import ProbeMode
from tests.probe.builders import (
    KINDS,
    LADDER,
    TOKENS,
    Asked,
    Server,
    fixed,
    one_in,
    other,
    right,
    spoilt,
    sweep,
    truth,
    walks_of,
    wandering,
)

RULE = CorrectnessRule()


def walk(
    prompt: str = "capital",
    *,
    agreed: float = 32,
    parted: bool = False,
    mode: ProbeMode = "single",
    concurrency: int = 1,
    stray: bool = False,
) -> Walk:
    return Walk(
        prompt=prompt,
        mode=mode,
        concurrency=concurrency,
        round=1,
        agreed_tokens=agreed,
        parted=parted,
        share=agreed / 32,
        stray=stray,
        changed=stray,
        text="",
    )


def rate(value: float, tokens: float = 800) -> Rate:
    return Rate(events=value * tokens, tokens=tokens, prompts=25)


def judge(candidate: Rate, own: Rate, *, scored: bool = False, where: str = "alone") -> Finding:
    setting = Setting(where=where, candidate=candidate, reference=own)
    return judge_rate([setting], reference="ref", rule=RULE, scored=scored)


def texts_of(
    reference: Server, candidate: Server, *, ladder: tuple[int, ...] = LADDER
) -> tuple[Finding, Finding]:
    """What is said of a sweep of one round."""
    records = sweep(reference, candidate, rounds=(1,), ladder=ladder)
    mine, own = walks_of(records, "x"), walks_of(records, "ref")
    return (
        judge_rate(settings_of(mine, own, KINDS), reference="ref", rule=RULE, scored=False),
        judge_steadiness(mine, own, reference="ref", rule=RULE),
    )


def test_a_rate_is_parted_walks_over_the_tokens_that_were_seen() -> None:
    found = rate_of([walk("a"), walk("b", agreed=9, parted=True)])
    assert (found.events, found.tokens, found.prompts) == (1, 42, 2)
    assert found.value == pytest.approx(1 / 42)
    assert rate_of([]).value == 0


def test_a_prompt_counts_once_however_often_it_was_asked() -> None:
    once = [walk("a"), walk("b", agreed=9, parted=True)]
    assert rate_of(once * 50) == rate_of(once)
    mixed = rate_of([walk("a"), walk("a", agreed=9, parted=True)])
    assert (mixed.events, mixed.tokens, mixed.prompts) == (0.5, 21, 1)


def test_each_way_of_asking_is_a_part_with_the_references_own_beside_it() -> None:
    mine = [
        walk(),
        walk(mode="crowd", concurrency=64),
        walk(mode="load", concurrency=64),
        walk(mode="load", concurrency=4),
        walk("long_code"),
    ]
    own = [walk(agreed=3, parted=True), walk(mode="crowd", concurrency=64)]
    found = {setting.where: setting for setting in settings_of(mine, own, KINDS)}
    assert list(found) == [
        "alone",
        "at concurrency 4",
        "at concurrency 64",
        "at long prompts",
        OVERALL,
    ]
    assert found[OVERALL].candidate.prompts == 2
    assert found["at concurrency 64"].candidate.prompts == 1
    assert found["at concurrency 64"].reference.events == 0
    # It wasn't asked under that one: all of its own stand in.
    assert found["at concurrency 4"].reference == rate_of(own)
    assert settings_of([], own, KINDS) == []


@pytest.mark.parametrize(
    ("candidate", "own", "verdict", "said"),
    [
        (rate(0), rate(0), "pass", "alone it writes another token than ref at 0.0% of tokens"),
        (rate(0.01), rate(0), "pass", "at most"),
        (rate(0.05), rate(0), "pass", "at most"),
        (rate(0.12), rate(0), "inconclusive", "more than rounding is known to do"),
        (rate(0.5), rate(0), "fail", "no rounding does that; ref itself at 0.0%"),
        (rate(0.5), Rate(events=0, tokens=0, prompts=0), "fail", "no rounding"),
        # The reference is as bad: nobody is to blame.
        (rate(0.12), rate(0.11), "pass", "ref itself at 11.0%"),
        (rate(0.5), rate(0.5), "inconclusive", "ref doesn't repeat its own answers"),
        (rate(0.9), rate(0.3), "fail", "no rounding"),
        (rate(0), rate(0.3), "inconclusive", "ref doesn't repeat its own answers"),
        (rate(0, 9), rate(0), "inconclusive", "9 tokens of 25 prompts are too few"),
    ],
)
def test_a_rate_is_judged_by_what_rounding_does(
    candidate: Rate, own: Rate, verdict: Verdict, said: str
) -> None:
    found = judge(candidate, own)
    assert (found.kind, found.verdict) == ("agreement", verdict)
    assert said in found.sentence
    assert found.figures["rate_low"] <= candidate.value <= found.figures["rate_high"]


def test_beside_log_probabilities_too_few_tokens_are_no_doubt() -> None:
    assert judge(rate(0, 9), rate(0)).verdict == "inconclusive"
    assert judge(rate(0, 9), rate(0), scored=True).verdict == "pass"
    # They are those of a prompt: what texts surely show isn't outweighed.
    assert judge(rate(0.12), rate(0), scored=True).verdict == "inconclusive"
    assert judge(rate(0.5), rate(0), scored=True).verdict == "fail"


def test_the_worst_part_decides() -> None:
    parts = [
        Setting(where=where, candidate=rate(value), reference=rate(0))
        for where, value in (("alone", 0.0), ("at concurrency 4", 0.5), ("at long prompts", 0.12))
    ]
    found = judge_rate(parts, reference="ref", rule=RULE, scored=False)
    assert found.verdict == "fail" and found.sentence.startswith("at concurrency 4 ")
    assert found.figures["alpha"] == pytest.approx(RULE.false_alarm / 3)


@given(st.floats(0, 1), st.floats(1, 5000), st.floats(0, 1), st.floats(0, 5000), st.booleans())
def test_any_rates_can_be_judged(
    value: float, tokens: float, own: float, own_tokens: float, scored: bool
) -> None:
    found = judge(rate(value, tokens), rate(own, own_tokens), scored=scored)
    assert found.sentence.isprintable()


def strays(
    count: int, answers: int, *, own: int = 0, concurrency: int = 64, others: int = 0
) -> Finding:
    """``count`` of ``answers`` at one concurrency are strays, and none of ``others`` at 4."""

    def some(hits: int, n: int, at: int) -> list[Walk]:
        return [
            walk(agreed=0, parted=True, mode="crowd", concurrency=at, stray=True)
            if i < hits
            else walk(mode="crowd", concurrency=at)
            for i in range(n)
        ]

    mine = [*some(count, answers, concurrency), *some(0, others, 4)]
    return judge_steadiness(mine, some(own, 256, concurrency), reference="ref", rule=RULE)


def test_strays_among_right_answers_are_no_rounding() -> None:
    assert strays(0, 64).verdict == "pass"
    assert strays(1, 64).verdict == "pass"
    assert strays(8, 64).verdict != "pass"
    found = strays(16, 128)
    assert found.verdict == "fail" and "16 of 128 answers" in found.sentence


def test_strays_of_one_concurrency_are_not_lost_among_the_others() -> None:
    found = strays(16, 128, others=2000)
    assert found.verdict == "fail" and "at concurrency 64" in found.sentence


def test_a_reference_that_strays_as_often_excuses_them() -> None:
    assert strays(16, 128, own=32).verdict == "pass"
    assert strays(60, 128, own=32).verdict == "fail"


def test_a_deterministic_server_that_parts_early_strays_nowhere() -> None:
    _, found = texts_of(right, fixed(0.2, seed=1))
    assert found.verdict == "pass" and found.figures["strays"] == 0


def count(reference_rate: float, rate: float, seeds: int) -> dict[str, int]:
    """Verdicts over ``seeds`` sweeps of two servers that write another token now and then."""
    told: dict[str, int] = {"pass": 0, "inconclusive": 0, "fail": 0}
    order = list(told)
    for seed in range(seeds):
        reference = wandering(reference_rate, seed=("ref", seed)) if reference_rate else right
        findings = texts_of(reference, wandering(rate, seed=("x", seed)), ladder=(1, 4))
        told[max((found.verdict for found in findings), key=order.index)] += 1
    return told


def test_an_honest_copy_of_a_wavering_reference_is_not_failed() -> None:
    """No more than false_alarm says: of 200, 2 are expected and 6 are more than chance."""
    assert count(0.03, 0.03, 200)["fail"] <= 6


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.05])
def test_tolerated_rates_beside_a_steady_reference_are_not_failed(rate: float) -> None:
    assert count(0, rate, 40)["fail"] <= 2


def test_early_partings_of_a_tolerated_rate_are_no_strays() -> None:
    """Of 32 tokens the first 4 make a stray: with many answers that is counted exactly enough."""
    for seed in range(12):
        records = sweep(right, wandering(0.05, seed=seed))
        mine, own = walks_of(records, "x"), walks_of(records, "ref")
        found = judge_steadiness(mine, own, reference="ref", rule=RULE)
        assert found.figures["strays"] > 50 and found.verdict != "fail"


def test_a_server_that_is_less_steady_than_the_reference_is_not_passed() -> None:
    """Rounding that differs from one time to the next looks like a defect that hits some."""
    assert count(0, 0.01, 20) == {"pass": 0, "inconclusive": 20, "fail": 0}
    _, found = texts_of(right, wandering(0.01, seed=1))
    assert "aren't what it usually says" in found.sentence
    _, found = texts_of(wandering(0.01, seed=2), wandering(0.01, seed=1))
    assert found.verdict == "pass"


def test_a_low_rate_passes_and_a_high_one_does_not() -> None:
    low = [texts_of(right, fixed(0.01, seed=seed))[0].verdict for seed in range(40)]
    assert low.count("pass") >= 38
    high = [texts_of(right, fixed(0.1, seed=seed))[0].verdict for seed in range(40)]
    # The rate rests on 25 walks: now and then it looks like less.
    assert high.count("inconclusive") >= 36 and "fail" not in high


def test_a_pass_needs_a_closer_bound_over_all_answers_than_in_a_part() -> None:
    """Of 0.05 tolerated, twice as many mustn't be possible over all, five times in a part."""
    some = rate(0.04, tokens=100)
    assert judge(some, rate(0), where="alone").verdict == "pass"
    found = judge(some, rate(0), where=OVERALL)
    assert found.verdict == "inconclusive" and "too few to rule out" in found.sentence
    assert judge(rate(0.04, tokens=2000), rate(0), where=OVERALL).verdict == "pass"


def test_a_reference_that_does_not_repeat_itself_fails_nobody_for_disagreement() -> None:
    for seed in range(10):
        rates, _ = texts_of(wandering(0.3, seed=seed), right)
        assert rates.verdict == "inconclusive"
        assert "ref doesn't repeat its own answers" in rates.sentence


def test_one_other_answer_in_eight_at_the_highest_concurrency_never_passes() -> None:
    for seed in range(20):
        some = one_in(8, seed=seed, only=lambda asked: asked.concurrency == 64)
        spoilt_ = spoilt(right, lambda asked, seed=seed: other(seed, asked), some)
        assert texts_of(right, spoilt_)[1].verdict != "pass"


def test_wholly_other_texts_are_rejected_by_their_rate() -> None:
    def strange(asked: Asked) -> str:
        return other(asked.prompt)

    rates, found = texts_of(right, strange)
    assert rates.verdict == "fail" and rates.figures["rate"] == 1
    # It always says the same: nothing stands apart.
    assert found.verdict == "pass"
    on_long = spoilt(right, strange, lambda asked: KINDS[asked.prompt] == "long")
    rates, _ = texts_of(right, on_long)
    # Eight prompts are just enough to reject by, where all are wrong.
    assert rates.verdict == "fail"


def test_truths_and_other_texts_begin_differently() -> None:
    assert {truth(name)[0] for name in KINDS} <= set("abcdefghijklm")
    assert other(1)[0] == "n" and len(other(1)) == len(truth("capital")) == 5 * TOKENS - 1
