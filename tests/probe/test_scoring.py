import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.scoring import agreement

texts = st.text(max_size=60)


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
