"""How tokens spread, read from what a user writes and from hostile recordings."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError, InputError, UsageError
from autotune.kernels.distribution import (
    UNIFORM,
    Distribution,
    check_recording,
    parse_distribution,
)
from tests.kernels.layers import layer_spec

_texts = st.one_of(
    st.text(),
    st.text().map("zipf:{}".format),
    st.floats().map("zipf:{}".format),
    st.integers().map("zipf:{}".format),
    st.text().map("replay:{}".format),
    st.binary().map(lambda name: "replay:" + os.fsdecode(name)),
)


@given(_texts)
def test_any_text_is_a_distribution_or_refused(text: str) -> None:
    try:
        found = parse_distribution(text)
    except AutotuneError as error:
        assert str(error)
    else:
        assert found.text == text
        assert 0 <= found.exponent <= 10
        text.encode()


def test_reads_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "choices.jsonl"
    file.write_text("[3, 17]\r\n\n  [0,1]\n")
    assert parse_distribution("uniform") == UNIFORM
    assert parse_distribution("zipf") == Distribution(kind="zipf", exponent=1.0, text="zipf")
    assert parse_distribution("zipf:0.8").exponent == 0.8
    assert parse_distribution("zipf:0").exponent == 0
    assert parse_distribution("zipf:10").exponent == 10
    assert parse_distribution(f"replay:{file}").recording == ((3, 17), (0, 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uniform:1",
        "Uniform",
        "zipf:-0.1",
        "zipf:10.1",
        "zipf:nan",
        "zipf:inf",
        "zipf:one",
        "replay",
        "replay:",
        "gauss:1",
        "replay:\udcff",
    ],
)
def test_refuses_other_words(text: str) -> None:
    with pytest.raises(UsageError, match="--distribution"):
        parse_distribution(text)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[1, 2]\nfour\n", "line 2"),
        (b"[1, 2]\n[1, 2", "line 2"),
        (b'{"1": 2}', "line 1"),
        (b"[]", "line 1"),
        (b"[1, 2.0]", "line 1"),
        (b"[1, true]", "line 1"),
        (b'[1, "2"]', "line 1"),
        (b"[1, null]", "line 1"),
        (b"[[1, 2]]", "line 1"),
        (b"NaN", "line 1"),
        (b"[" * 100_000, "line 1"),
        (b"[" * 100_000 + b"]" * 100_000, "line 1"),
        (b"[" + b"9" * 5000 + b"]", "line 1"),
        (b"\xff\xfe\x00\x01", "isn't text"),
        (b"\x00" * 1000, "line 1"),
        (b"", "holds no token"),
        (b"\n \n\n", "holds no token"),
    ],
)
def test_refuses_a_hostile_recording(content: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "choices.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        parse_distribution(f"replay:{file}")
    assert str(file) in str(caught.value)


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent", ".", "pipe", "a\0b", "x" * 5000):
        with pytest.raises(InputError):
            parse_distribution(f"replay:{tmp_path / name}")


@pytest.mark.parametrize(
    "row",
    [(1,), (1, 2, 3), (1, 1), (1, 8), (-1, 2), (1, 10**30)],
    ids=["too few", "too many", "twice", "beyond", "negative", "huge"],
)
def test_refuses_experts_that_the_layer_has_not(row: tuple[int, ...]) -> None:
    recording = Distribution(kind="replay", recording=((0, 1), row), text="replay:file")
    with pytest.raises(InputError, match="token 2: expected 2 different experts from 0 to 7"):
        check_recording(layer_spec(), recording)
