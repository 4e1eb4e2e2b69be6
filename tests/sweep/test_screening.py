"""What a layer sweep says of candidates, and what follows: who is first, last, or left out."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.config import SweepConfig
from autotune.config.schema import CandidateConfig
from autotune.kernels.ranking import screen as screen_of
from autotune.kernels.schema import BackendSummary
from autotune.records.schema import Candidate, Tunable
from autotune.sweep.plan import PlannedLaunch, plan_round
from autotune.sweep.screening import Opinion, Screening
from tests.kernels.records import config as kernel_config
from tests.kernels.records import point, run
from tests.sweep.screens import Verdict, config, screen, summary

NAMES = ("b0", "b1", "b2", "b3", "b4", "b5")


def screening(asked: SweepConfig, *summaries: BackendSummary) -> Screening:
    return Screening(config=asked, screen=screen(*summaries))


def candidate(backend: str, *, name: str | None = None) -> Candidate:
    return Candidate(name=name or backend, engine="transformers", backend=backend)


def left_out(found: Screening) -> set[str]:
    return {one.candidate for one in found.candidates() if one.left_out is not None}


# -- opinions


def test_a_candidate_is_matched_by_engine_and_backend() -> None:
    found = screening(
        config("b0", "b1"),
        summary("here", "b1", ratio=1.5),
        summary("elsewhere", "b0", ratio=1.0, engine="sglang"),
        summary("nobodys", ratio=1.0),
    )
    assert found.opinion("b1") == Opinion(kernels=("here",), ratio=1.5)
    assert found.opinion("b0") == Opinion()
    assert [one.kernels for one in found.candidates()] == [(), ("here",)]


def test_of_several_kernels_the_fastest_counts_and_any_wrong_one() -> None:
    found = screening(
        config("b0", "b1"),
        summary("slow", "b1", "b9", ratio=4.0),
        summary("fast", "b1", ratio=2.0),
        summary("off", "b1", verdict="wrong", reason="relative RMS 0.9"),
        summary("absent", "b1", verdict="unknown", reason="no GPU"),
    )
    assert found.opinion("b1") == Opinion(
        kernels=("slow", "fast", "off", "absent"), ratio=2.0, wrong=("off (relative RMS 0.9)",)
    )


def test_what_a_layer_sweep_writes_is_what_is_read() -> None:
    """From records, by the layer sweep's own ranking."""
    points = [point("fast", tokens, medians=(1e-3, 1e-3, 1e-3)) for tokens in (1, 16)] + [
        point("slow", 1, medians=(2e-3, 2e-3, 2e-3)),
        point("slow", 16, medians=(1e-3, 1e-3, 1e-3), status="wrong", reason="off by 0.4"),
    ]
    made = screen_of(run(kernel_config()), points)
    asked = config("engine_slow", "engine_fast", engine="sglang")
    found = Screening(config=asked, screen=made)
    assert found.opinion("engine_fast") == Opinion(kernels=("fast",), ratio=1.0)
    assert found.opinion("engine_slow") == Opinion(
        kernels=("slow",), wrong=("slow (off by 0.4)",), only_wrong=True
    )


# -- the order of the first round

opinions = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(
        st.sampled_from(("right", "wrong", "unknown")),
        st.none() | st.floats(1, 100) | st.sampled_from((1.0, 2.0)),
    ),
)


def screened(given_opinions: dict[str, tuple[Verdict, float | None]], *, seed: int) -> Screening:
    summaries = [
        summary(f"k_{name}", name, verdict=verdict, ratio=ratio)
        for name, (verdict, ratio) in given_opinions.items()
    ]
    return screening(config(*NAMES, seed=seed), *summaries)


def names(launches: tuple[PlannedLaunch, ...]) -> list[str]:
    return [launch.candidate.name for launch in launches]


def planned(found: Screening, number: int) -> tuple[PlannedLaunch, ...]:
    return plan_round(found.config, number, found.config.candidate_list(), screening=found)


@given(opinions, st.integers(0, 2**31))
def test_leaders_come_first_and_wrong_ones_last(
    said: dict[str, tuple[Verdict, float | None]], seed: int
) -> None:
    found = screened(said, seed=seed)
    launches = planned(found, 1)
    order = names(launches)
    assert sorted(order) == sorted(NAMES)
    assert [launch.position for launch in launches] == list(range(1, len(NAMES) + 1))
    drawn = names(plan_round(found.config, 1, found.config.candidate_list()))
    wrong = [name for name in drawn if said.get(name, ("", None))[0] == "wrong"]
    unknown = [name for name in drawn if said.get(name, ("", None))[1] is None]
    unknown = [name for name in unknown if name not in wrong]
    leaders = [name for name in drawn if name not in unknown + wrong]
    # Equal ratios keep their drawn order, as do those without one, and the wrong ones.
    leaders.sort(key=lambda name: said[name][1] or 0.0)
    assert order == leaders + unknown + wrong
    plain = plan_round(found.config, 1, found.config.candidate_list())
    assert launches[0].concurrencies == plain[0].concurrencies


@given(opinions, st.integers(0, 2**31), st.data())
def test_who_rests_leaves_the_others_order(
    said: dict[str, tuple[Verdict, float | None]], seed: int, data: st.DataObject
) -> None:
    found = screened(said, seed=seed)
    kept = data.draw(st.sets(st.sampled_from(NAMES), min_size=1))
    some = [one for one in found.config.candidate_list() if one.name in kept]
    order = names(plan_round(found.config, 1, some, screening=found))
    assert order == [name for name in names(planned(found, 1)) if name in kept]


@given(opinions, st.integers(0, 2**31), st.integers(2, 9))
def test_later_rounds_are_drawn_whatever_the_screen_says(
    said: dict[str, tuple[Verdict, float | None]], seed: int, number: int
) -> None:
    found = screened(said, seed=seed)
    plain = plan_round(found.config, number, found.config.candidate_list())
    assert planned(found, number) == plain


def test_a_search_comes_first_and_is_drawn() -> None:
    """The race's first round is the one after the search's; only that one is in order."""
    tuned = CandidateConfig(backend="b5", tunables={"t": Tunable(variable="T", choices=(1, 2))})
    asked = config(*NAMES)
    asked = msgspec.structs.replace(asked, candidates=(*NAMES[:-1], tuned))
    assert asked.search_rounds == 3
    summaries = [summary(name, name, ratio=7.0 - n) for n, name in enumerate(NAMES)]
    found = screening(asked, *summaries)
    everybody = asked.candidate_list()
    for number in (1, 2, 3, 5):
        assert planned(found, number) == plan_round(asked, number, everybody)
    assert names(planned(found, 4)) == list(reversed(NAMES))


def test_without_a_screen_the_order_is_what_it_was() -> None:
    """Pinned, from before there were screens."""
    asked = config("b0", "b1", "b2", "b3")
    orders = [names(plan_round(asked, n, asked.candidate_list())) for n in (1, 2, 3)]
    assert orders == [
        ["b1", "b3", "b2", "b0"],
        ["b3", "b2", "b0", "b1"],
        ["b0", "b1", "b2", "b3"],
    ]


# -- who is left out

WRONG = summary("off", "b1", verdict="wrong", reason="relative RMS 0.9")


def test_nobody_is_left_out_unless_the_config_says_so() -> None:
    found = screening(config("b0", "b1", "b2"), WRONG, summary("slow", "b2", ratio=50.0))
    assert left_out(found) == set()
    assert found.warnings() == (
        "screen: b1 is launched last in round 1: alone, its kernel computes the layer wrong: off "
        "(relative RMS 0.9)",
    )


def test_wrong_ones_are_left_out_where_the_config_drops_them() -> None:
    found = screening(config("b0", "b1", "b2", table='wrong = "drop"'), WRONG)
    assert left_out(found) == {"b1"}
    (warning,) = found.warnings()
    assert warning == f"screen: b1 isn't launched: {found.candidates()[1].left_out}"
    assert "relative RMS 0.9" in warning and "screen.wrong is drop" in warning


@pytest.mark.parametrize(
    ("beside", "dropped"),
    [
        (summary("right", "b1", verdict="right"), False),
        (summary("absent", "b1", verdict="unknown"), True),
        (summary("off too", "b1", verdict="wrong"), True),
        (summary("elsewhere", "b2", verdict="right"), True),
    ],
    ids=["a right one", "one that wasn't computed", "another wrong one", "another's"],
)
def test_who_has_another_kernel_that_is_right_stays(beside: BackendSummary, dropped: bool) -> None:
    found = screening(config("b0", "b1", "b2", table='wrong = "drop"'), WRONG, beside)
    assert left_out(found) == ({"b1"} if dropped else set())
    (warning,) = found.warnings()
    assert ("another kernel of its own is right" in warning) != dropped


def test_the_slow_are_left_out_from_beyond_the_limit_on() -> None:
    found = screening(
        config("b0", "b1", "b2", "b3", "b4", table="slower_than = 2"),
        summary("fastest", "b1", ratio=1.0),
        summary("at it", "b2", ratio=2.0),
        summary("beyond", "b3", ratio=2.25),
        summary("emulated", "b4", ratio=None),
    )
    assert left_out(found) == {"b3"}
    (warning,) = found.warnings()
    assert "takes 2.25 times as long as the fastest (screen.slower_than is 2)" in warning


def test_the_fastest_of_its_kernels_speaks_for_a_candidate() -> None:
    found = screening(
        config("b0", "b1", table="slower_than = 2"),
        summary("slow", "b1", ratio=9.0),
        summary("fast", "b1", ratio=1.0),
    )
    assert left_out(found) == set()


@pytest.mark.parametrize("table", ['wrong = "drop"', "slower_than = 2"])
@pytest.mark.parametrize(("name", "role"), [("b0", "the reference"), ("b1", "the incumbent")])
def test_reference_and_incumbent_are_launched_in_any_case(table: str, name: str, role: str) -> None:
    verdict: Verdict = "wrong" if "wrong" in table else "right"
    found = screening(
        config("b0", "b1", "b2", incumbent="b1", table=table),
        summary("k", name, verdict=verdict, ratio=None if verdict == "wrong" else 3.0),
    )
    assert left_out(found) == set()
    (warning,) = found.warnings()
    assert f"{name} is launched all the same" in warning and f"since it is {role}" in warning
    assert ("last in round 1" in warning) == (verdict == "wrong")


def test_another_candidate_of_the_references_backend_has_no_role() -> None:
    asked = config("b0", "b1", table='wrong = "drop"')
    other = CandidateConfig(backend="b0", name="b0-b", arguments=("--x",))
    asked = msgspec.structs.replace(asked, candidates=("b0", other, "b1"))
    found = screening(asked, summary("off", "b0", verdict="wrong"))
    assert left_out(found) == {"b0-b"}


def test_a_trial_is_launched_if_its_candidate_is() -> None:
    tunables = {"t": Tunable(variable="T", choices=(1, 2))}
    tuned = tuple(CandidateConfig(backend=name, tunables=tunables) for name in ("b0", "b1"))
    asked = msgspec.structs.replace(config("b0", "b1", table='wrong = "drop"'), candidates=tuned)
    found = screening(asked, summary("off", "b0", "b1", verdict="wrong"))
    assert found.left_out(candidate("b0", name="b0-t0003")) is None
    assert found.left_out(candidate("b1", name="b1-t0003")) is not None


def test_a_screen_of_other_backends_is_told() -> None:
    found = screening(config("b0", "b1"), summary("k", "b9", ratio=1.0))
    assert found.warnings() == (
        "screen: none of its kernels stands for a candidate: nothing is screened",
    )


def test_what_a_file_says_is_one_printable_line_of_bounded_length() -> None:
    hostile = "\x1b]0;owned\x07\x1b[31m" + "evil\n" * 1000 + "\u202e"
    found = screening(
        config("b0", "b1", table='wrong = "drop"'),
        *(summary(hostile, "b1", verdict="wrong", reason=hostile) for _ in range(50)),
    )
    texts = [*found.warnings(), *found.opinion("b1").kernels, *found.opinion("b1").wrong]
    texts += [str(one.left_out) for one in found.candidates()]
    assert all(text.isprintable() and len(text) < 600 for text in texts)
    assert any("and 49 more" in text for text in texts)
