from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.answers import Walk, read_trusted, said, unfinished_share, walks
from autotune.probe.answers import given as given_by
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbeRecord
from tests.probe.builders import (
    DIGEST,
    PROMPTS,
    Asked,
    answer,
    fixed,
    other,
    right,
    sweep,
    truth,
    walks_of,
    wandering,
)

PROMPT = PROMPTS[0].name


def asked(
    index: int = 0, *, prompt: str = PROMPT, mode: ProbeMode = "single", concurrency: int = 1
) -> Asked:
    return Asked(prompt, mode, concurrency, 1, index)


def probe(candidate: str, *answers: ProbeAnswer, round_number: int = 1) -> ProbeRecord:
    return ProbeRecord(
        candidate=candidate,
        round=round_number,
        prompts_digest=DIGEST,
        prompts=PROMPTS,
        max_tokens=32,
        answers=answers,
    )


def walk(
    text: str, expected: str, *, mode: ProbeMode = "single", tokens: int | None = 10, **fields: str
) -> Walk:
    """How ``text`` follows a reference that said ``expected``."""
    records = [
        probe("ref", answer(asked(), expected, output_tokens=tokens, **fields), round_number=0),
        probe("x", answer(asked(mode=mode), text)),
    ]
    (found,) = walks_of(records, "x")
    return found


def test_an_equal_answer_agrees_to_its_end() -> None:
    found = walk("one two three", "one two three")
    assert (found.agreed_tokens, found.parted, found.share) == (10, False, 1.0)
    assert not found.stray


def test_an_answer_agrees_up_to_the_first_difference() -> None:
    found = walk("aaaabbbb", "aaaacccc")
    assert (found.agreed_tokens, found.parted, found.share) == (5, True, 0.5)


def test_a_longer_answer_than_the_references_parts_at_the_end() -> None:
    found = walk("aaaaaaaabbbbbbbb", "aaaaaaaa")
    assert (found.agreed_tokens, found.parted, found.share) == (10, True, 0.5)


def test_a_shorter_answer_parts_where_it_ends() -> None:
    found = walk("aaaa", "aaaaaaaa")
    assert (found.agreed_tokens, found.parted, found.share) == (5, True, 0.5)


def test_what_a_load_makes_a_server_write_after_the_natural_end_is_not_compared() -> None:
    found = walk("Paris. And then", "Paris.", mode="load", finish_reason="stop")
    assert (found.agreed_tokens, found.parted, found.share, found.text) == (10, False, 1, "Paris.")
    assert walk("Rome. And then", "Paris.", mode="load", finish_reason="stop").parted
    assert walk("Par", "Paris.", mode="load", finish_reason="stop").parted
    # Where the reference didn't stop by itself, there is no natural end.
    assert walk("Paris. And then", "Paris.", mode="load", finish_reason="length").parted
    assert walk("Paris. And then", "Paris.", mode="crowd", finish_reason="stop").parted


def test_without_counts_a_token_is_taken_to_be_four_characters() -> None:
    assert walk("abcdefgh", "abcdefgh", tokens=None).agreed_tokens == 2
    assert walk("a", "a", tokens=None).agreed_tokens == 1


def test_an_empty_answer_has_nothing_in_common() -> None:
    found = walk("", "Paris")
    assert (found.agreed_tokens, found.parted, found.share) == (0, True, 0)
    assert not walk("", "").parted


@given(st.text(max_size=40), st.text(max_size=40), st.sampled_from(["single", "crowd", "load"]))
def test_any_walk_stays_within_its_bounds(text: str, expected: str, mode: ProbeMode) -> None:
    found = walk(text, expected, mode=mode)
    assert 0 <= found.agreed_tokens <= 10 and 0 <= found.share <= 1
    assert found.parted or found.share == 1
    assert found.stray is False  # its only answer is what it usually says


def test_thinking_is_left_out() -> None:
    found = walk("<think>so</think>\n\nParis", "<think>well, then</think>Paris")
    assert not found.parted and found.text == "Paris"
    assert said(answer(asked(), "4", reasoning="2 and 2")) == "4"


@pytest.mark.parametrize(
    ("text", "fields"),
    [("<think>hm", {}), ("", {"reasoning": "hm"}), (" \n", {"reasoning": "hm"})],
)
def test_who_still_thinks_has_said_nothing(text: str, fields: dict[str, str]) -> None:
    one = answer(asked(), text, **fields)
    assert said(one) is None
    records = [probe("ref", answer(asked(), "Paris"), round_number=0), probe("x", one)]
    assert walks_of(records, "x") == []
    trusted = read_trusted(records, reference="ref")
    assert trusted is not None
    assert unfinished_share(given_by(records, candidate="x"), trusted) == 1.0
    assert unfinished_share(given_by(records, candidate="ref"), trusted) == 0.0


def test_whoever_thinks_and_stops_has_said_nothing_at_all() -> None:
    assert said(answer(asked(), "", reasoning="hm", finish_reason="stop")) == ""


def test_a_reference_that_still_thinks_leaves_nothing_to_compare() -> None:
    records = [
        probe("ref", answer(asked(), "<think>hm"), round_number=0),
        probe("x", answer(asked(), "Paris")),
    ]
    trusted = read_trusted(records, reference="ref")
    assert trusted is not None and trusted.unfinished == (PROMPT,) and trusted.texts == {}
    assert walks(given_by(records, candidate="x"), trusted) == []
    assert unfinished_share(given_by(records, candidate="x"), trusted) == 1.0


def test_the_first_good_answer_alone_is_trusted() -> None:
    crowd = answer(asked(mode="crowd", concurrency=4), "crowd")
    bad = answer(asked(), "", outcome="timeout")
    records = [
        probe("ref", answer(asked(), "later"), round_number=2),
        probe("ref", crowd, bad, answer(asked(1), "first"), answer(asked(2), "second")),
        probe("x", answer(asked(), "not asked"), round_number=0),
    ]
    trusted = read_trusted(records, reference="ref")
    assert trusted is not None and trusted.texts == {PROMPT: "first"}
    # The trusted answer isn't held against itself, all others are.
    assert len(walks_of(records, "ref")) == 3


def test_an_answer_among_others_is_trusted_where_none_alone_is_good() -> None:
    crowd = answer(asked(mode="crowd", concurrency=4), "crowd")
    records = [probe("ref", answer(asked(), "", outcome="timeout"), crowd)]
    trusted = read_trusted(records, reference="ref")
    assert trusted is not None and trusted.texts == {PROMPT: "crowd"}


def test_without_a_good_answer_nothing_is_trusted() -> None:
    records = [probe("ref", answer(asked(), "", outcome="timeout"))]
    assert read_trusted(records, reference="ref") is None
    assert read_trusted([], reference=None) is None
    assert read_trusted(sweep(), reference="stranger") is None


def test_strays_have_nothing_in_common_with_the_reference_nor_with_the_others() -> None:
    same = [answer(asked(i, mode="crowd", concurrency=8), "something else") for i in range(3)]
    stray = answer(asked(3, mode="crowd", concurrency=8), "nobody knows")
    records = [probe("ref", answer(asked(), "Paris"), round_number=0), probe("x", *same, stray)]
    assert [one.stray for one in walks_of(records, "x")] == [False, False, False, True]


def test_each_launch_has_its_own_usual_answers() -> None:
    records = [
        probe("ref", answer(asked(), "Paris"), round_number=0),
        probe("x", answer(asked(), "something else")),
        probe("x", answer(asked(), "nobody knows"), round_number=2),
    ]
    assert [one.stray for one in walks_of(records, "x")] == [False, False]


def test_answers_to_other_prompts_and_failed_ones_are_left_out() -> None:
    records = [
        probe("ref", answer(asked(), "Paris"), round_number=0),
        probe(
            "x",
            answer(asked(prompt=PROMPTS[1].name), "4"),
            answer(asked(), "", outcome="http_error"),
            answer(asked(1), "Paris"),
        ),
    ]
    assert [one.text for one in walks_of(records, "x")] == ["Paris"]


def test_all_that_a_sweep_asked_is_walked() -> None:
    records = sweep()
    asked_of = {name: given_by(records, candidate=name) for name in ("ref", "x")}
    assert len(walks_of(records, "x")) == len(asked_of["x"])
    assert len(walks_of(records, "ref")) == len(asked_of["ref"]) - len(PROMPTS)
    assert not any(one.parted for one in walks_of(records, "x"))
    rounds = [one.round for one in asked_of["ref"]]
    assert rounds == sorted(rounds) and set(rounds) == {0, 1, 2, 3}


def ends(asked_: Asked, *, says: str) -> ProbeAnswer:
    """A server that stops by itself, except under load."""
    if asked_.mode == "load":
        return answer(asked_, says + other(asked_), output_tokens=64)
    return answer(asked_, says, finish_reason="stop")


@pytest.mark.parametrize("says", ["as the reference", "longer", "shorter"])
def test_a_load_that_runs_past_the_natural_end_is_no_change(says: str) -> None:
    """With many concurrencies a prompt is asked more often under load than otherwise."""

    def candidate(one: Asked) -> ProbeAnswer:
        text = {
            "as the reference": truth(one.prompt),
            "longer": truth(one.prompt)[:50] + other(one.prompt, tokens=40),
            "shorter": truth(one.prompt)[:50],
        }[says]
        return ends(one, says=text)

    records = sweep(
        lambda one: ends(one, says=truth(one.prompt)), candidate, ladder=(1, 2, 3, 4, 6, 8)
    )
    for name in ("ref", "x"):
        assert not any(one.changed or one.stray for one in walks_of(records, name))
    parted = {one.parted for one in walks_of(records, "x")}
    assert parted == {says != "as the reference"}


def test_changed_answers_are_not_what_the_server_usually_says() -> None:
    for server, share in ((fixed(0.1, seed=1), 0.0), (wandering(0.03, seed=1), 0.5)):
        found = walks_of(sweep(right, server, rounds=(1,)), "x")
        assert fmean(one.changed for one in found) == pytest.approx(share, abs=0.2)
    assert not any(one.changed for one in walks_of(sweep(), "ref"))


def test_under_load_alone_there_is_something_usual_too() -> None:
    loaded = [answer(asked(i, mode="load", concurrency=8), "abc") for i in range(3)]
    changed = answer(asked(3, mode="load", concurrency=8), "abx")
    records = [probe("ref", answer(asked(), "abc"), round_number=0), probe("x", *loaded, changed)]
    assert [one.changed for one in walks_of(records, "x")] == [False, False, False, True]
