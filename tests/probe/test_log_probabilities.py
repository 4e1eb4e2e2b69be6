import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions.schema import Verdict
from autotune.probe.log_probabilities import (
    Scored,
    continuations,
    judge_scores,
    read_scores,
)
from autotune.probe.schema import Finding
from autotune.probe.verdict import judge_probes
from autotune.records.rule import CorrectnessRule, Rule
from autotune.records.schema import Continuation, ProbeMode, ProbeRecord, ScoredContinuation
from tests.probe.builders import PROMPTS, fixed, judge, right, sweep

RULE = CorrectnessRule()
TOKENS = 32
IDS = tuple(range(TOKENS))


def written(prompt: str) -> Continuation:
    draw = random.Random(prompt)
    return Continuation(
        prompt=prompt,
        prompt_token_ids=(1, 2),
        token_ids=IDS,
        log_probabilities=tuple(-draw.expovariate(2) for _ in range(TOKENS)),
    )


WRITTEN = tuple(written(prompt.name) for prompt in PROMPTS)


def scores(
    *,
    drop: float = 0.0,
    sd: float = 0.0,
    seed: object = 0,
    mode: ProbeMode = "single",
    concurrency: int = 1,
    repeats: int = 1,
) -> list[ScoredContinuation]:
    """A server's view: lower by ``drop`` on average, with noise of ``sd`` from token to token."""
    draw = random.Random(repr((seed, mode)))
    return [
        ScoredContinuation(
            prompt=one.prompt,
            mode=mode,
            concurrency=concurrency,
            repeat=repeat + 1,
            outcome="ok",
            log_probabilities=tuple(
                (value or 0.0) - drop + draw.gauss(0, sd) for value in one.log_probabilities
            ),
            top_token_ids=IDS,
        )
        for repeat in range(repeats)
        for one in WRITTEN
    ]


def read(some: list[ScoredContinuation], own: list[ScoredContinuation]) -> list[Scored]:
    return read_scores(some, own, WRITTEN)


def told(candidate: list[ScoredContinuation], own: list[ScoredContinuation]) -> Finding:
    found = judge_scores(read(candidate, own), read(own, own), reference="ref", rule=RULE)
    assert found is not None
    return found


def noisy(sd: float, seed: object) -> list[ScoredContinuation]:
    crowd = scores(sd=sd, seed=seed, mode="crowd", concurrency=8, repeats=2)
    return scores(sd=sd, seed=seed, repeats=2) + crowd


@pytest.mark.parametrize(
    ("drop", "sd", "verdict"),
    [
        (0, 0, "pass"),
        (0, 0.01, "pass"),
        (-0.5, 0.01, "pass"),  # it finds the reference's words likelier: no harm
        (0.005, 0.01, "pass"),
        (0.07, 0.05, "inconclusive"),
        (0.19, 0.05, "inconclusive"),
        (0.3, 0.05, "fail"),
        (1.0, 0.05, "fail"),
        (20.0, 3.0, "fail"),
    ],
)
def test_a_mean_drop_is_judged_by_what_rounding_does(
    drop: float, sd: float, verdict: Verdict
) -> None:
    for mode in ("single", "crowd"):
        candidate = scores(drop=drop, sd=sd, seed="x", mode=mode, concurrency=4)
        found = told(candidate, scores())
        assert (found.kind, found.verdict) == ("log_probabilities", verdict), found.sentence
        assert found.figures["drop_mean"] == pytest.approx(-drop, abs=0.05 + 0.3 * (sd > 1))
        assert found.figures["prompts"] == len(PROMPTS)
        assert ("at concurrency 4" if mode == "crowd" else "alone") in found.sentence


def test_tokens_lost_here_and_there_are_not_lost_in_the_mean() -> None:
    """One token in eight becomes impossible, all others a little likelier: the mean stays."""

    def spoilt(one: ScoredContinuation) -> ScoredContinuation:
        values = tuple(
            (value or 0.0) + (-2.0 if i % 8 == 0 else 2 / 7)
            for i, value in enumerate(one.log_probabilities)
        )
        return msgspec.structs.replace(one, log_probabilities=values)

    found = told([spoilt(one) for one in scores()], scores())
    assert found.figures["drop_mean"] == pytest.approx(0, abs=1e-9)
    assert found.figures["lost_share"] == pytest.approx(1 / 8)
    assert found.verdict == "inconclusive"


def test_the_references_own_spread_widens_what_is_tolerated() -> None:
    own = scores() + scores(drop=0.1, sd=0.05, mode="crowd", concurrency=8)
    candidate = scores(drop=0.09, sd=0.05, seed="x", mode="crowd", concurrency=8)
    assert told(candidate, scores()).verdict == "inconclusive"
    found = told(candidate, own)
    assert found.verdict == "pass" and found.figures["reference_spread"] > 0.09
    assert told(scores(drop=1.0, sd=0.05, seed="x"), own).verdict == "fail"


def test_honest_copies_of_a_noisy_reference_pass() -> None:
    """No more alarms than false_alarm says: of 200, 2 are expected and 7 are more than chance."""
    alarms = [
        seed for seed in range(200) if told(noisy(0.1, seed), noisy(0.1, -1)).verdict != "pass"
    ]
    assert len(alarms) <= 6


def test_the_worst_part_decides() -> None:
    crowd = scores(drop=1.0, seed="x", mode="crowd", concurrency=8)
    found = told(scores() + crowd, scores())
    assert found.verdict == "fail" and found.sentence.startswith("at concurrency 8 ")
    assert found.figures["alpha"] == pytest.approx(RULE.false_alarm / 4)


def test_repeats_are_no_new_evidence() -> None:
    once, often = scores(drop=0.07, sd=0.2), scores(drop=0.07, sd=0.2)
    assert told(often * 50, scores()).figures == pytest.approx(
        told(once, scores()).figures | {"tokens": 50 * 25 * TOKENS}
    )


def test_one_prompt_is_too_little_to_pass() -> None:
    found = told(scores()[:1], scores())
    assert found.verdict == "inconclusive"
    assert "inf" not in found.sentence and "nan" not in found.sentence


def test_nothing_is_said_where_nothing_was_asked() -> None:
    assert judge_scores([], read(scores(), scores()), reference="ref", rule=RULE) is None
    bad = [msgspec.structs.replace(one, outcome="timeout") for one in scores()]
    assert read(bad, scores()) == []


def test_the_view_is_the_mean_of_what_the_reference_says_alone() -> None:
    own = scores(drop=0.2) + scores(drop=0.4) + scores(drop=9, mode="crowd", concurrency=8)
    first = read(scores(drop=0.3), own)[0]
    assert first.drops == pytest.approx((0.0,) * TOKENS)
    # What it wrote while generating stands in where it said nothing.
    assert read(scores(drop=0.3), [])[0].drops == pytest.approx((-0.3,) * TOKENS)


def test_tokens_without_a_number_are_left_out() -> None:
    one = scores(drop=0.5)[0]
    half = msgspec.structs.replace(
        one,
        log_probabilities=(None, *one.log_probabilities[1:]),
        top_token_ids=(None, 99, *IDS[2:]),
    )
    (found,) = read([half], scores())
    assert len(found.drops) == TOKENS - 1
    assert (found.known, found.other_tokens) == (TOKENS - 1, 1)


def records(
    candidate: list[ScoredContinuation], own: list[ScoredContinuation] | None = None
) -> list[ProbeRecord]:
    """A sweep of one round whose texts are equal, with scores."""
    found = []
    for probe in sweep(rounds=(1,)):
        fields: dict[str, object] = {}
        if probe.concurrency is None:
            mine = probe.candidate == "ref"
            fields["scores"] = tuple((scores() if own is None else own) if mine else candidate)
            fields["continuations"] = WRITTEN if probe.round == 0 else ()
        found.append(msgspec.structs.replace(probe, **fields))  # type: ignore[arg-type]
    return found


def test_the_references_first_words_are_what_is_scored() -> None:
    probes = records(scores())
    late = msgspec.structs.replace(probes[0], round=5, continuations=WRITTEN[:1])
    assert continuations([late, *probes], reference="ref") == list(WRITTEN)
    assert continuations(probes, reference="x") == []
    assert continuations([], reference=None) == []


@pytest.mark.parametrize(
    ("candidate", "verdict", "kind"),
    [
        (scores(sd=0.01, seed="x"), "pass", None),
        (scores(drop=0.07, sd=0.05, seed="x"), "inconclusive", "log_probabilities"),
        (scores(drop=1.0, sd=0.05, seed="x"), "fail", "log_probabilities"),
    ],
)
def test_the_verdict_rests_on_the_scores(
    candidate: list[ScoredContinuation], verdict: Verdict, kind: str | None
) -> None:
    found = judge(records(candidate))
    assert found.verdict == verdict
    if kind is None:
        assert "nats a token" in found.reason
    else:
        (worst,) = [finding for finding in found.findings if finding.verdict == verdict]
        assert worst.kind == kind and found.reason == worst.sentence


def test_scores_of_a_prompt_do_not_outweigh_texts_that_surely_part_too_often() -> None:
    probes = records(scores(sd=0.01, seed="x"))
    parted = sweep(right, fixed(0.1, seed=1), rounds=(1,))
    mixed = [
        msgspec.structs.replace(probe, answers=other.answers) if probe.candidate == "x" else probe
        for probe, other in zip(probes, parted, strict=True)
    ]
    assert judge(parted).verdict == "inconclusive"
    assert judge(mixed).verdict == "inconclusive"


def test_numbers_that_are_none_fail() -> None:
    one = scores()[3]
    nans = msgspec.structs.replace(one, log_probabilities=(None,) * TOKENS)
    found = judge(records([*scores()[:3], nans]))
    assert found.verdict == "fail" and "log-probabilities are no number" in found.reason


def test_scores_that_fail_fail_unless_the_references_do_too() -> None:
    def failing(some: list[ScoredContinuation]) -> list[ScoredContinuation]:
        return [
            msgspec.structs.replace(
                one,
                outcome="http_error",
                error="HTTP 500: out of memory",
                log_probabilities=(),
                top_token_ids=(),
            )
            if one.prompt == "long_code"
            else one
            for one in some
        ]

    found = judge(records(failing(scores())))
    assert found.verdict == "fail" and "out of memory" in found.reason
    probes = records(failing(scores()), failing(scores()))
    verdicts = judge_probes(probes, candidates=["ref", "x"], reference="ref", rule=Rule())
    assert {one.verdict for one in verdicts.values()} == {"pass"}


@given(
    st.lists(st.lists(st.floats(-700, 0), max_size=3), max_size=4),
    st.lists(st.lists(st.floats(-700, 0), max_size=3), max_size=4),
)
def test_any_scores_can_be_judged(one: list[list[float]], other: list[list[float]]) -> None:
    def made(lists: list[list[float]]) -> list[Scored]:
        return [
            Scored(
                prompt=str(n % 2),
                mode="single",
                concurrency=1,
                drops=tuple(drops),
                other_tokens=0,
                known=0,
            )
            for n, drops in enumerate(lists)
        ]

    found = judge_scores(made(one), made(other), reference="ref", rule=RULE)
    assert (found is None) == (not any(one))
    assert found is None or found.sentence.isprintable()
