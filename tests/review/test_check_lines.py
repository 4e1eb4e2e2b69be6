"""Lines of JSON values, held against how Python's own writer lays JSON out."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autotune.review.check_lines import error_line, read_lines
from autotune.review.findings import Place

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def expected(value: Any, place: Place, line: int) -> tuple[dict[Place, int], int]:
    """The line of each place when every value stands on a line of its own, and the last line."""
    lines = {place: line}
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for part, inner in parts:
            below, line = expected(inner, (*place, part), line + 1)
            lines |= below
        line += 1
    return lines, line


@given(_DOCUMENTS)
def test_each_value_is_on_its_line(document: Any) -> None:
    text = json.dumps(document, indent=2)
    assert read_lines(text.encode()).lines == expected(document, (), 1)[0]
    assert read_lines(text.encode()).twice == ()


@given(st.binary(max_size=200) | st.text('{}[]",:\\\n 1a', max_size=200).map(str.encode))
def test_what_isnt_json_breaks_nothing(data: bytes) -> None:
    read_lines(data)


def test_depth_is_bounded() -> None:
    assert len(read_lines(b"[" * 1_000_000).lines) < 100


def test_a_key_that_is_written_twice() -> None:
    found = read_lines(b'{"a": [\n{"b": 1,\n"c": {"b": 2},\n"b": 3}]}')
    assert found.twice == (("a", 0, "b"),)
    assert found.lines["a", 0, "c", "b"] == 3


def test_lines_of_a_decoders_messages() -> None:
    data = b'{\n"a": {\n"b": [0,\n1]},\n"x": 1\n}'
    assert error_line("JSON is malformed: invalid character (byte 10)", data) == 3
    assert error_line("Expected `str`, got `int` - at `$.a.b[1]`", data) == 4
    assert error_line("Expected `str`, got `int` - at `$.a.c`", data) == 2
    assert error_line("Object contains unknown field `x`", data) == 5
    assert error_line("something else", data) is None
