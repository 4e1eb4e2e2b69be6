"""What the rule says of small runs: outcomes, choices, and the sentences that go with them."""

from typing import Any

import msgspec
import pytest

from autotune.decide.rule import judge_run
from autotune.probe.verdict import judge_probes
from autotune.records.rule import Rule
from tests.decide.builders import (
    ORIGIN,
    ORIGIN_CONCURRENCIES,
    around,
    judge,
    launch,
    make_run,
    point,
    standing,
    verdicts,
)

SLOW = around(100, 0.001, -0.002, 0.001)
FAST = around(120, -0.001, 0.001, 0.0)


def test_a_clear_lead_is_decisive() -> None:
    judgement = judge(make_run({"slow": SLOW, "fast": FAST}, incumbent="slow"))
    assert (judgement.outcome, judgement.choice, judgement.rounds) == ("decisive", "fast", 3)
    assert judgement.blockers == ()
    assert "fast" in judgement.summary and "decisive" in judgement.summary
    behind = standing(judgement, "slow").behind
    assert behind is not None and behind.ratio == pytest.approx(1.2, rel=1e-3)
    assert behind.interval is not None and behind.interval.low > 1


def test_the_origins_table_is_open_without_interval_and_without_correctness() -> None:
    run = make_run(ORIGIN, concurrencies=ORIGIN_CONCURRENCIES, kind="import")
    unjudged = judge_probes((), candidates=list(ORIGIN), reference=None, rule=run.run.rule)
    judgement = judge_run(run, unjudged)
    assert (judgement.outcome, judgement.rounds) == ("open", 1)
    assert judgement.choice == "flashinfer_trtllm_routed"
    assert "at concurrency 1 flashinfer_cutedsl is ahead by 1.4%" in judgement.notes
    assert any("one round gives no interval" in note for note in judgement.notes)
    interval, correctness = judgement.blockers
    assert "open" in interval and "one round gives no interval" in interval
    assert "no correctness evidence" in correctness
    assert [winner.candidate for winner in judgement.winners] == [
        "flashinfer_cutedsl",
        *["flashinfer_trtllm_routed"] * 3,
    ]
    assert judgement.winners[0].ratio_to_choice == pytest.approx(201.5 / 198.7)
    assert judgement.winners[0].interval is None


def test_the_same_records_give_the_same_judgement_in_any_order() -> None:
    run = make_run({"slow": SLOW, "fast": FAST}, incumbent="slow")
    backwards = make_run({"slow": [], "fast": []}, points=run.points[::-1], incumbent="slow")
    assert judge(run) == judge(backwards)


# -- correctness before speed


def test_wrong_answers_never_win() -> None:
    judgement = judge(make_run({"slow": SLOW, "garbage": FAST}), garbage="fail")
    assert judgement.choice == "slow"
    out = standing(judgement, "garbage")
    assert not out.admissible and out.reason == "wrong answers: garbled answers"
    assert out.to_baseline is None and out.rounds == 3


def test_a_faster_unproven_candidate_is_named_and_doesnt_win() -> None:
    judgement = judge(
        make_run({"slow": SLOW, "other": around(90, 0, 0.001, 0.002), "unproven": FAST}),
        unproven="inconclusive",
    )
    assert (judgement.outcome, judgement.choice) == ("decisive", "slow")
    assert not standing(judgement, "unproven").admissible
    assert any("unproven is faster by 20.0%" in note for note in judgement.notes)


def test_where_nobody_passes_the_unproven_leader_needs_acceptance() -> None:
    judgement = judge(
        make_run({"slow": SLOW, "fast": FAST}), slow="inconclusive", fast="inconclusive"
    )
    assert (judgement.outcome, judgement.choice) == ("decisive", "fast")
    assert judgement.blockers == ("correctness is inconclusive: too little agreement",)


def test_nobody_is_chosen_where_all_fail() -> None:
    judgement = judge(make_run({"a": SLOW, "b": FAST}), a="fail", b="fail")
    assert (judgement.outcome, judgement.choice, judgement.rounds) == ("open", None, 0)
    assert judgement.blockers and judgement.winners == ()
    assert all(one.reason for one in judgement.standings)


# -- candidates that break


def test_a_start_that_failed_once_rules_out() -> None:
    run = make_run(
        {"slow": SLOW, "fast": [FAST[0], [None, None], FAST[2]]},
        launches=[launch("fast", 2, status="oom", reason="CUDA out of memory\nline 2\x1b[31m")],
    )
    judgement = judge(run)
    assert judgement.choice == "slow"
    reason = standing(judgement, "fast").reason
    assert reason is not None and reason.startswith("oom in round 2: CUDA out of memory line 2")
    assert reason.isprintable()
    assert judgement.rounds == 3, "rounds are counted over those that may win"


@pytest.mark.parametrize("status", ["crashed", "stalled", "request_errors"])
def test_a_point_on_which_it_broke_rules_out(status: str) -> None:
    broken = point("fast", 2, 16, status=status, reason="HTTP 500", figures=None)
    run = make_run({"slow": SLOW, "fast": [FAST[0], [120.0, None], FAST[2]]}, points=[broken])
    judgement = judge(run)
    assert judgement.choice == "slow"
    expected = f"{status} at concurrency 16 in round 2: HTTP 500"
    assert standing(judgement, "fast").reason == expected


def test_the_only_survivor_is_decisive_where_auto_fails_at_start() -> None:
    """The origin's case: what ``auto`` gives doesn't start, one right backend is left."""
    run = make_run(
        {"auto": [], "routed": FAST},
        launches=[launch("auto", number, status="launch_failed") for number in (1, 2, 3)],
        incumbent="auto",
        reference="auto",
    )
    judgement = judge(run, auto="inconclusive")
    assert (judgement.outcome, judgement.choice) == ("decisive", "routed")
    assert any("only admissible candidate" in note for note in judgement.notes)
    assert judgement.baseline is None and standing(judgement, "routed").to_baseline is None


def test_the_only_survivor_of_too_few_rounds_is_open() -> None:
    run = make_run({"auto": [], "routed": FAST[:2]}, launches=[launch("auto", 1, status="oom")])
    judgement = judge(run, auto="inconclusive")
    assert (judgement.outcome, judgement.choice, judgement.rounds) == ("open", "routed", 2)


# -- rounds


@pytest.mark.parametrize("rounds", [1, 2])
def test_too_few_rounds_are_open_however_clear(rounds: int) -> None:
    judgement = judge(make_run({"slow": SLOW[:rounds], "fast": FAST[:rounds]}))
    assert (judgement.outcome, judgement.choice) == ("open", "fast")
    assert len(judgement.blockers) == 1


def test_one_round_gives_no_interval_anywhere() -> None:
    judgement = judge(make_run({"slow": SLOW[:1], "fast": FAST[:1]}, incumbent="slow"))
    for one in judgement.standings:
        estimates = [one.to_baseline, one.behind, *one.to_baseline_at.values()]
        assert all(e.interval is None and e.n == 1 for e in estimates if e is not None)


def test_the_rule_may_ask_for_more_rounds() -> None:
    judgement = judge(make_run({"slow": SLOW, "fast": FAST}, rule=Rule(min_rounds=4, max_rounds=4)))
    assert judgement.outcome == "open"


def test_a_failed_measurement_costs_the_round_not_the_candidate() -> None:
    bad = point("fast", 4, 16, status="not_steady", throughput=1.0)
    run = make_run({"slow": [*SLOW, SLOW[0]], "fast": [*FAST, [120.0, None]]}, points=[bad])
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice, judgement.rounds) == ("decisive", "fast", 3)
    assert any(
        note == "fast isn't compared in round 4: not_steady at concurrency 16"
        for note in judgement.notes
    )


def test_no_round_in_common_is_nothing_to_compare() -> None:
    run = make_run({"a": [[100.0, 100.0], [None, None]], "b": [[None, None], [120.0, 120.0]]})
    judgement = judge(run)
    assert (judgement.outcome, judgement.choice, judgement.rounds) == ("open", None, 0)
    assert judgement.blockers


def test_no_points_at_all() -> None:
    judgement = judge(make_run({"a": [], "b": []}))
    assert (judgement.outcome, judgement.choice) == ("open", None)
    assert [one.reason for one in judgement.standings] == [
        "no valid throughput at concurrency 1",
        "no valid throughput at concurrency 1",
    ]


def test_figures_without_throughput_are_no_throughput() -> None:
    """A table that only published TTFT."""
    ttft_only = [point("a", 1, concurrency, throughput=None) for concurrency in (1, 16)]
    judgement = judge(make_run({"a": []}, points=ttft_only))
    assert judgement.choice is None


def test_strangers_in_the_records_are_ignored() -> None:
    strangers = [point("ghost", 1, 1, throughput=1e6), point("fast", 1, 512, throughput=1.0)]
    plain = judge(make_run({"slow": SLOW, "fast": FAST}))
    assert judge(make_run({"slow": SLOW, "fast": FAST}, points=strangers)) == plain


# -- equals


def test_one_backend_under_two_names_is_no_win() -> None:
    a, b = around(100, 0.004, -0.003, 0.001), around(100, -0.002, 0.003, 0.002)
    judgement = judge(make_run({"a": a, "b": b}, incumbent="a"))
    assert judgement.outcome in ("within_delta", "open")
    assert judgement.choice == "a" or judgement.outcome == "open"


def test_exactly_equal_candidates_keep_the_incumbent() -> None:
    judgement = judge(make_run({"a": SLOW, "b": SLOW, "c": SLOW}, incumbent="b"))
    assert (judgement.outcome, judgement.choice) == ("within_delta", "b")
    assert judgement.blockers == ()
    assert all(winner.candidate == "b" for winner in judgement.winners)


def test_the_incumbent_is_kept_among_equals() -> None:
    a, b = around(100, 0.003, -0.003, 0.0), around(100.5, -0.003, 0.003, 0.0)
    judgement = judge(make_run({"a": a, "b": b}, incumbent="a"))
    assert (judgement.outcome, judgement.choice) == ("within_delta", "a")
    assert "incumbent" in judgement.summary


def test_an_incumbent_that_is_clearly_behind_goes() -> None:
    rounds = {"old": SLOW, "b": FAST, "c": around(120.2, 0.001, -0.001, 0.001)}
    judgement = judge(make_run(rounds, incumbent="old"))
    assert judgement.outcome == "within_delta"
    assert judgement.choice == "c"


def test_noise_larger_than_delta_is_open() -> None:
    a, b = around(100, 0.05, -0.04, 0.03), around(103, -0.06, 0.05, 0.01)
    judgement = judge(make_run({"a": a, "b": b}))
    assert judgement.outcome == "open"
    assert (
        len(judgement.blockers) == 1
        and "may still be better by more than 2.0%" in judgement.blockers[0]
    )


def test_a_drift_that_all_share_doesnt_blur_a_lead() -> None:
    drift = [0.0, -0.2, -0.4]
    rounds = {
        name: around(level, *(d + e for d, e in zip(drift, noise, strict=True)))
        for name, level, noise in (
            ("slow", 100, (0.001, -0.002, 0.001)),
            ("fast", 105, (0.0, 0.001, -0.001)),
        )
    }
    assert judge(make_run(rounds)).outcome == "decisive"


# -- concurrencies, weights, floor


def test_weights_decide_what_counts() -> None:
    rounds = {"low": [[120.0, 100.0]] * 3, "high": [[100.0, 110.0]] * 3}
    assert judge(make_run(rounds, rule=Rule(max_rounds=3, floor=0))).choice == "low"
    weighted = Rule(max_rounds=3, floor=0, weights={1: 0.1, 16: 0.9})
    assert judge(make_run(rounds, rule=weighted)).choice == "high"


def test_score_is_the_geometric_mean_of_ratios() -> None:
    judgement = judge(
        make_run({"a": [[100.0, 1000.0]] * 3, "b": [[200.0, 900.0]] * 3}, reference="a")
    )
    ratio = standing(judgement, "b").to_baseline
    assert ratio is not None and ratio.ratio == pytest.approx((2 * 0.9) ** 0.5)
    at = standing(judgement, "b").to_baseline_at
    assert [at[c].ratio for c in (1, 16)] == [pytest.approx(2), pytest.approx(0.9)]


def test_a_leader_below_the_floor_gives_way() -> None:
    """The steep one has the higher score but only 84% of the best at concurrency 1."""
    noise = (1.0, 1.001, 0.999)
    rounds = {
        "steep": [[84.0 * n, 230.0 * n] for n in noise],
        "even": [[92.0, 205.0]] * 3,
        "single": [[100.0, 50.0]] * 3,
    }
    assert judge(make_run(rounds, rule=Rule(max_rounds=3, floor=0.8))).choice == "steep"
    judgement = judge(make_run(rounds, rule=Rule(max_rounds=3, floor=0.88)))
    assert judgement.choice == "even"
    reason = standing(judgement, "steep").reason
    assert reason is not None and "84%" in reason and "floor of 88%" in reason


def test_nobody_at_the_floor_takes_the_least_bad_and_says_so() -> None:
    rounds = {"a": [[100.0, 70.0]] * 3, "b": [[80.0, 100.0]] * 3}
    judgement = judge(make_run(rounds))
    assert judgement.choice == "b"
    assert any("no candidate reaches 90%" in note and "80%" in note for note in judgement.notes)


def test_winners_split_alpha_over_the_concurrencies() -> None:
    rounds = {
        "a": [[110.0, 100.0], [111.0, 100.0], [110.5, 100.0]],
        "b": [[100.0, 130.0], [100.0, 131.0], [100.0, 130.5]],
    }
    judgement = judge(make_run(rounds))
    assert [winner.candidate for winner in judgement.winners] == ["a", "b"]
    assert judgement.winners[0].backend == "a_backend"
    assert judgement.winners[0].interval is not None
    assert judgement.winners[0].interval.confidence == pytest.approx(0.975)
    assert any("at concurrency 1 a is ahead by 10.5%" in note for note in judgement.notes)


# -- baseline


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"incumbent": "slow", "reference": "fast"}, ("slow", "incumbent")),
        ({"reference": "slow"}, ("slow", "reference")),
        ({}, (None, None)),
    ],
)
def test_baseline_is_the_incumbent_or_else_the_reference(
    fields: dict[str, Any], expected: tuple[str | None, str | None]
) -> None:
    judgement = judge(make_run({"slow": SLOW, "fast": FAST}, **fields))
    assert (judgement.baseline, judgement.baseline_role) == expected


def test_an_incumbent_without_figures_gives_way_to_the_reference() -> None:
    run = make_run({"auto": [], "slow": SLOW, "fast": FAST}, incumbent="auto", reference="slow")
    judgement = judge(run)
    assert (judgement.baseline, judgement.baseline_role) == ("slow", "reference")


def test_ratios_are_taken_in_the_rounds_that_both_have() -> None:
    run = make_run({"slow": SLOW, "fast": [[120.0, None], *FAST[1:]]}, reference="slow")
    fast = standing(judge(run), "fast")
    assert fast.to_baseline is not None and fast.to_baseline.n == 2
    assert (fast.to_baseline_at[1].n, fast.to_baseline_at[16].n) == (3, 2)


def test_every_candidate_has_a_standing_in_the_runs_order() -> None:
    run = make_run({"c": SLOW, "a": FAST, "b": []})
    judgement = judge_run(run, verdicts(run))
    assert [one.candidate for one in judgement.standings] == ["c", "a", "b"]


def test_a_rival_that_was_never_measured_is_not_beaten() -> None:
    judgement = judge(make_run({"a": FAST, "b": []}))
    assert judgement.outcome == "open"
    assert "b wasn't beaten, only not measured" in judgement.blockers[0]


def test_nobody_reaching_the_floor_is_not_decisive() -> None:
    rounds: dict[str, list[list[float | None]]] = {
        "a": [[89.0, 89.0]] * 3,
        "b": [[100.0, 85.0]] * 3,
        "c": [[85.0, 100.0]] * 3,
    }
    judgement = judge(make_run(rounds))
    assert judgement.outcome == "open"
    assert any("no candidate reaches 90%" in note for note in judgement.notes)


def test_two_rounds_never_decide_whatever_the_rule_asks() -> None:
    run = make_run({"a": FAST[:2], "b": SLOW[:2]})
    rule = msgspec.structs.replace(run.run.rule, min_rounds=2)
    run = msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, rule=rule))
    assert judge(run).outcome == "open"


def test_one_candidate_alone_decides_nothing() -> None:
    judgement = judge(make_run({"a": FAST}))
    assert judgement.outcome == "open"
    assert "nothing to compare" in judgement.blockers[0]


def test_a_race_that_was_ended_early_says_that_it_can_go_on() -> None:
    noisy = {"a": around(100, 0.05, -0.04, 0.03), "b": around(103, -0.06, 0.05, 0.01)}
    early = judge(make_run(noisy, rule=Rule(max_rounds=5)))
    assert (
        "the race isn't over: 3 of at most 5 rounds are measured; run the sweep again to go on"
        in (early.notes)
    )
    over = judge(make_run(noisy, rule=Rule(max_rounds=3)))
    table = judge(make_run(noisy, rule=Rule(max_rounds=5), kind="import"))
    settled = judge(make_run({"slow": SLOW, "fast": FAST}, rule=Rule(max_rounds=5)))
    for judgement in (over, table, settled):
        assert not any("isn't over" in note for note in judgement.notes)
