"""What a server may reply is either refused or read into lists that fit the tokens."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.teacher_protocols import (
    MalformedReply,
    Scoring,
    read_scores,
    read_text,
    scoring_body,
)

from .toy_teacher import MODEL, Toy, continuation

ways = pytest.mark.parametrize("scoring", ["generate", "echo"])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything inside a JSON value."""
    if isinstance(value, dict):
        inner = [(*path, key) for key in value]
    else:
        inner = [(*path, place) for place in range(len(value))] if isinstance(value, list) else []
    return [found for each in inner for found in (each, *leaves(reach(value, each[-1:]), each))]


def reach(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=6,
)


@ways
@given(data=st.data())
def test_any_damage_is_refused_or_aligned(scoring: Scoring, data: st.DataObject) -> None:
    made = continuation(tokens=3)
    body = json.loads(scoring_body(scoring, made, model=MODEL))
    reply = Toy().generate(body) if scoring == "generate" else Toy().completion(body)
    path = data.draw(st.sampled_from(leaves(reply)))
    reach(reply, path[:-1])[path[-1]] = data.draw(json_values)
    try:
        scores = read_scores(scoring, json.dumps(reply).encode(), made)
    except MalformedReply as error:
        assert str(error).isprintable() and len(str(error)) < 400
        return
    assert len(scores.log_probabilities) == len(scores.top_token_ids) == 3
    assert all(n is None or -9999 < n <= 1e-3 for n in scores.log_probabilities)
    assert all(t is None or 0 <= t < 2**31 for t in scores.top_token_ids)


@ways
@given(reply=st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused(scoring: Scoring, reply: bytes) -> None:
    with pytest.raises(MalformedReply):
        read_scores(scoring, reply, continuation())
    with pytest.raises(MalformedReply):
        read_text(scoring, reply)
