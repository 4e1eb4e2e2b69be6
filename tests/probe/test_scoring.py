import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.scoring import agreement, repetition_share, replacement_share

texts = st.text(max_size=60)
PROSE = "The quick brown fox jumps over the lazy dog while seven wizards brew a potion."


@given(texts, texts)
def test_agreement_is_a_symmetric_share(one: str, other: str) -> None:
    assert 0 <= agreement(one, other) <= 1
    assert agreement(one, other) == agreement(other, one)


@given(texts, texts)
def test_agreement_is_1_for_equal_texts_only(one: str, other: str) -> None:
    assert (agreement(one, other) == 1) == (one == other != "")


@given(texts.filter(bool), texts, st.characters(), st.characters())
def test_what_follows_the_first_difference_does_not_count(
    shared: str, rest: str, left: str, right: str
) -> None:
    if left != right:
        score = agreement(shared + left + rest, shared + right + rest)
        assert score == pytest.approx(len(shared) / (len(shared) + 1 + len(rest)))


def test_empty_texts_show_nothing() -> None:
    assert agreement("", "") == agreement("a", "") == 0


@given(texts)
def test_shares_lie_between_0_and_1(text: str) -> None:
    assert 0 <= replacement_share(text) <= 1
    assert 0 <= repetition_share(text) <= 1


def test_replacement_share_counts_what_could_not_be_decoded() -> None:
    assert replacement_share("\ufffd" * 9) == 1
    assert replacement_share("\ufffdab\ufffd") == 0.5
    assert replacement_share(PROSE) == replacement_share("") == 0


def test_repetition_share_sees_one_piece_over_and_over() -> None:
    assert repetition_share("!" * 100) == 1
    assert repetition_share("ab" * 50) > 0.4
    assert repetition_share(PROSE) < 0.1
    assert repetition_share("!" * 15) == 0
