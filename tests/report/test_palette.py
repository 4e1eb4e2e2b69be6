"""Looks are told apart by everybody, and a backend keeps its own from run to run."""

import itertools
import math

import msgspec
import pytest

from autotune.records.schema import Candidate, RunRecord
from autotune.report.palette import (
    BACKGROUND,
    COLOURS,
    FAINT_INK,
    INK,
    assign,
    look_keys,
    looks,
)
from autotune.report.tradeoff_axes import FRONT_COLOUR
from tests.records.builders import run_record

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
SEEN_BY = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
Vector = tuple[float, ...]


def linear(colour: str) -> Vector:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)


def times(matrix: tuple[Vector, ...], vector: Vector) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix)


def lab(rgb: Vector) -> Vector:
    clipped = tuple(min(1.0, max(0.0, channel)) for channel in rgb)
    parts = [x / w for x, w in zip(times(TO_XYZ, clipped), WHITE, strict=True)]
    x, y, z = (p ** (1 / 3) if p > 0.008856 else 7.787 * p + 16 / 116 for p in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(colour: str, other: str) -> float:
    lights = [times(TO_XYZ, linear(one))[1] + 0.05 for one in (colour, other)]
    return max(lights) / min(lights)


def run_of(**backends: str) -> RunRecord:
    candidates = tuple(
        Candidate(name=name, engine="sglang", backend=backend) for name, backend in backends.items()
    )
    return msgspec.structs.replace(
        run_record(("a",), (1,)), candidates=candidates, reference=None, incumbent=None
    )


@pytest.mark.parametrize("who", SEEN_BY)
def test_colours_stay_apart_for_every_kind_of_sight(who: str) -> None:
    seen = {colour: lab(times(SEEN_BY[who], linear(colour))) for colour in COLOURS}
    for one, other in itertools.combinations(COLOURS, 2):
        assert math.dist(seen[one], seen[other]) > 14, (one, other)


def test_lines_and_text_stand_out_from_the_ground() -> None:
    assert min(contrast(colour, BACKGROUND) for colour in COLOURS) >= 3.0
    assert contrast(INK, BACKGROUND) >= 7.0
    assert contrast(FAINT_INK, BACKGROUND) >= 4.5
    assert contrast(FRONT_COLOUR, BACKGROUND) >= 3.0


def test_up_to_eight_have_colours_of_their_own_and_72_look_different() -> None:
    for number in (2, 8):
        found = assign(f"c{n}" for n in range(number))
        assert len({look.colour for look in found.values()}) == number
    assert len(set(assign(f"c{n}" for n in range(72)).values())) == 72


def test_known_backends_look_the_same_in_whatever_company() -> None:
    names = ("triton", "flashinfer_cutlass", "flashinfer_trtllm_routed", "deep_gemm")
    alone = {name: assign([name])[name] for name in names}
    assert assign([*names, "a", "b", "zz"]).items() >= alone.items()
    assert len({look.colour for look in alone.values()}) == len(names)


def test_the_order_of_candidates_does_not_matter() -> None:
    names = [f"backend_{n}" for n in range(12)]
    assert assign(names) == assign(reversed(names))


def test_a_backend_is_one_thing_in_all_runs_unless_one_has_it_twice() -> None:
    keys = look_keys([run_of(mine="triton", x="marlin"), run_of(triton="triton")])
    assert keys == [{"mine": "triton", "x": "marlin"}, {"triton": "triton"}]
    keys = look_keys([run_of(a="triton", b="triton"), run_of(a="triton", triton="marlin")])
    assert keys == [
        {"a": "triton/a", "b": "triton/b"},
        {"a": "triton/a", "triton": "marlin"},
    ]


def test_who_cannot_win_is_hollow_and_dashed_in_the_same_colour() -> None:
    palette = assign(["triton", "marlin"])
    keys = {"triton": "triton", "mine": "marlin"}
    found = looks(keys, rejected=frozenset({"mine"}), palette=palette)
    assert (found["mine"].line, found["triton"].line) == ("--", "-")
    assert found["mine"].fill == BACKGROUND
    assert found["mine"].colour == palette["marlin"].colour
