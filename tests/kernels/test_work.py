"""What a call computes and moves at least, counted by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions.schema import Geometry
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.work import Work, layer_work


def test_a_tiny_layer_by_hand() -> None:
    """Hidden size 2, width 3; two tokens to one of two experts each, both to the same."""
    found = layer_work(Geometry(2, 3, 2, 1), tokens=2, experts_hit=1, busiest=2, weight_bytes=2.0)
    # Per token: gate 2*3, up 2*3, down 3*2 products, an addition with each.
    assert found == Work(flops=2 * 2 * 18, bytes=18 * 2 + 2 * 4 + 2 * 4, experts_hit=1, busiest=2)


@pytest.mark.parametrize(
    ("geometry", "tokens", "experts_hit", "gigaflop", "megabytes"),
    [
        # MiniMax-M2: 3 * 3072 * 1536 = 14,155,776 weights an expert.
        (Geometry(3072, 1536, 256, 8), 1, 8, 0.226492416, 226.492416 + 0.012288),
        (Geometry(3072, 1536, 256, 8), 64, 220, 14.495514624, 6228.54144 + 0.786432),
        # DeepSeek-R1: 3 * 7168 * 2048 = 44,040,192.
        (Geometry(7168, 2048, 256, 8), 1, 8, 0.704643072, 704.643072 + 0.028672),
        # gpt-oss-120b: 3 * 2880 * 2880 = 24,883,200.
        (Geometry(2880, 2880, 128, 4), 16, 50, 3.1850496, 2488.32 + 0.18432),
    ],
)
def test_large_layers_by_hand(
    geometry: Geometry, tokens: int, experts_hit: int, gigaflop: float, megabytes: float
) -> None:
    found = layer_work(
        geometry, tokens=tokens, experts_hit=experts_hit, busiest=1, weight_bytes=2.0
    )
    assert found.flops == pytest.approx(gigaflop * 1e9)
    assert found.bytes == pytest.approx(megabytes * 1e6)


def test_the_bytes_of_a_weight_hold_its_scales() -> None:
    """By the formats: values, and one scale a block."""
    assert {name: scheme.weight_bytes for name, scheme in SCHEMES.items()} == {
        "bf16": 2.0,
        "fp8": 1.0,
        "fp8_block": 1.0 + 4 / (128 * 128),
        "nvfp4": 0.5 + 1 / 16,
        "mxfp4": 0.5 + 1 / 32,
        "mxfp8": 1.0 + 1 / 32,
    }


@given(
    st.builds(
        Geometry, st.integers(1, 2**15), st.integers(1, 2**15), st.integers(1, 512), st.integers(1)
    ),
    st.integers(1, 2**20),
    st.integers(1, 512),
    st.floats(0.5, 2.0),
)
def test_work_grows_with_what_it_counts(
    geometry: Geometry, tokens: int, experts_hit: int, weight_bytes: float
) -> None:
    def counted(tokens: int, experts_hit: int) -> Work:
        return layer_work(
            geometry,
            tokens=tokens,
            experts_hit=experts_hit,
            busiest=1,
            weight_bytes=weight_bytes,
        )

    one, twice = counted(tokens, experts_hit), counted(2 * tokens, experts_hit)
    one_more = counted(tokens, experts_hit + 1)
    assert twice.flops == 2 * one.flops
    # Each token is read and written, in bfloat16.
    assert twice.bytes - one.bytes == pytest.approx(4 * tokens * geometry.hidden_size, abs=0.01)
    assert one_more.flops == one.flops
    weights = 3 * geometry.hidden_size * geometry.expert_width
    assert one_more.bytes - one.bytes == pytest.approx(weights * weight_bytes, rel=1e-3)
