"""Rows and scales land where the library's own helpers put them, and come back."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autotune.kernels.backends.flashinfer import layouts
from autotune.kernels.backends.flashinfer.padding import padded_biases, padded_layer
from autotune.kernels.backends.flashinfer.stored import stored_layer
from autotune.kernels.quantization import mxfp
from autotune.kernels.quantization.packing import swizzle_128x4
from tests.kernels.backends.flashinfer.small import layer_and_batch, spec

_GENERATOR = torch.Generator().manual_seed(3)


def some_bytes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=_GENERATOR)


@given(st.integers(1, 8))
def test_rows_are_only_moved(blocks: int) -> None:
    rows = 128 * blocks
    for order in (
        layouts.alternating_rows(rows),
        layouts.shuffled_rows(rows),
        layouts.first_product_rows(rows),
        layouts.grouped_rows(rows),
    ):
        assert order.sort().values.tolist() == list(range(rows))


def test_up_above_gate_is_its_own_inverse() -> None:
    values = some_bytes(3, 8, 5)
    assert torch.equal(layouts.up_above_gate(layouts.up_above_gate(values)), values)
    assert torch.equal(layouts.up_above_gate(values)[:, :4], values[:, 4:])


def test_k_blocks() -> None:
    weights = torch.randn(2, 6, 192, generator=_GENERATOR).to(torch.bfloat16)
    found = layouts.k_blocks(weights)
    assert found.shape == (2, 3, 6, 64)
    assert torch.equal(found[1, 2, 4], weights[1, 4, 128:])


def test_swizzled_takes_each_expert_alone() -> None:
    scales = some_bytes(3, 130, 5)
    found = layouts.swizzled(scales)
    assert found.shape == (3, 256, 8)
    assert torch.equal(found[1].flatten(), swizzle_128x4(scales[1]))


@pytest.mark.parametrize(
    ("hidden", "width", "padded"),
    [
        (3072, 1536, (3072, 3072, 1536)),
        (7168, 2048, (7168, 7168, 2048)),
        # gpt-oss, the library's own example: 2944 rows, 2880 columns of output.
        (2880, 2880, (3072, 2944, 2944)),
        (2688, 1856, (3072, 2688, 1920)),
        (512, 96, (512, 512, 128)),
    ],
)
def test_trtllm_padding(hidden: int, width: int, padded: tuple[int, int, int]) -> None:
    found = layouts.trtllm_padding(hidden, width)
    assert (found.hidden_in, found.hidden_out, found.width_padded) == padded
    assert found.is_needed == (padded != (hidden, hidden, width))


def test_padding_keeps_numbers_and_halves_apart() -> None:
    layer, _ = layer_and_batch(spec(hidden=96, width=32, expert_bias=True))
    stored = stored_layer(layer, "mxfp4")
    padding = layouts.cutlass_padding(96, 32)
    whole = padded_layer(stored, "mxfp4", padding)

    def numbers(of: Any) -> torch.Tensor:
        return mxfp.dequantize_mxfp4(mxfp.MXFP4Tensor(of.values, of.scales))

    before, after = numbers(stored.first), numbers(whole.first)
    assert after.shape == (4, 256, 128)
    assert torch.equal(after[:, :32, :96], before[:, :32])
    assert torch.equal(after[:, 128:160, :96], before[:, 32:])
    assert after.abs().sum() == before.abs().sum()
    assert numbers(whole.second).shape == (4, 128, 128)
    assert layer.gate_up_bias is not None and layer.down_bias is not None
    first, second = padded_biases(layer.gate_up_bias, layer.down_bias, padding)
    assert torch.equal(first[:, 128:160], layer.gate_up_bias[:, 32:])
    assert second.shape == (4, 128)


class TestAgainstTheLibrary:
    """The library's pure-Python helpers say the same."""

    @pytest.fixture
    def core(self) -> Any:
        pytest.importorskip("flashinfer")
        from flashinfer.fused_moe import core

        return core

    @pytest.mark.parametrize("rows", [128, 384])
    def test_orders_of_rows(self, core: Any, rows: int) -> None:
        from flashinfer.utils import get_shuffle_matrix_a_row_indices

        matrix = some_bytes(rows, 16)
        assert torch.equal(
            layouts.shuffled_rows(rows), get_shuffle_matrix_a_row_indices(matrix, 128)
        )
        for per_scale in (None, 16, 32):
            for ours, theirs in (
                (layouts.first_product_rows(rows), core._maybe_get_cached_w3_w1_permute_indices),
                (layouts.shuffled_rows(rows), core.get_w2_permute_indices_with_cache),
            ):
                assert torch.equal(ours, theirs({}, matrix, 128, num_elts_per_sf=per_scale))

    def test_shuffling_is_undone_by_the_library(self, core: Any) -> None:
        from flashinfer.trace.templates.moe import _trtllm_unshuffle_weight

        matrix = some_bytes(2, 256, 16)
        shuffled = layouts.taken_rows(matrix, layouts.first_product_rows(256))
        assert torch.equal(_trtllm_unshuffle_weight(shuffled, gated=True), matrix.float())
        alternating = matrix[0][layouts.alternating_rows(256)]
        assert torch.equal(core.deinterleave_gated_rows(alternating, 1), matrix[0])
        grouped = matrix[0][layouts.grouped_rows(256)]
        assert torch.equal(core.deinterleave_gated_rows(grouped, 64), matrix[0])

    def test_grouped_rows(self, core: Any) -> None:
        from flashinfer.fused_moe import interleave_cute_dsl_moe_weights

        weights, scales = some_bytes(2, 384, 32), some_bytes(2, 384, 4)
        order = layouts.grouped_rows(384)
        theirs = interleave_cute_dsl_moe_weights(weights, scales)
        assert torch.equal(theirs[0], weights[:, order])
        assert torch.equal(theirs[1], scales[:, order])

    def test_k_blocks(self, core: Any) -> None:
        weights = torch.randn(8, 256, generator=_GENERATOR).to(torch.bfloat16)
        theirs = core.convert_to_block_layout(weights.view(torch.uint8), 128)
        assert torch.equal(layouts.k_blocks(weights[None])[0], theirs.view(torch.bfloat16))

    def test_scales_in_six_axes(self, core: Any) -> None:
        from flashinfer.cute_dsl.utils import convert_sf_to_mma_layout

        scales = some_bytes(3, 256, 8)
        ours = layouts.mma_view(layouts.swizzled(scales))
        flat = layouts.swizzled(scales).flatten()
        theirs = convert_sf_to_mma_layout(flat, m=256, k=128, num_groups=3)
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()
        # As it is documented: (m % 32, m % 128 // 32, m // 128, k % 4, k // 4, group).
        assert theirs[7, 2, 1, 3, 1, 2] == scales[2, 128 + 2 * 32 + 7, 1 * 4 + 3]

    def test_swizzled_scales_are_undone_by_the_library(self, core: Any) -> None:
        from flashinfer.trace.templates.moe import _unswizzle_batched_sf_128x4

        scales = some_bytes(3, 256, 8)
        assert torch.equal(_unswizzle_batched_sf_128x4(layouts.swizzled(scales), 3, 256, 8), scales)

    @pytest.mark.parametrize(("hidden", "width"), [(352, 96), (512, 160)])
    def test_padding(self, core: Any, hidden: int, width: int) -> None:
        layer, _ = layer_and_batch(spec(hidden=hidden, width=width))
        for scheme in ("nvfp4", "mxfp4", "mxfp8"):
            stored = stored_layer(layer, scheme)
            padding = layouts.trtllm_padding(hidden, width)
            ours = padded_layer(stored, scheme, padding)
            theirs = core.pad_trtllm_moe_weights(
                stored.first.values,
                stored.first.block_scales(),
                stored.second.values,
                stored.second.block_scales(),
                hidden,
                width,
            )
            for one, other in zip(
                (ours.first.values, ours.first.scales, ours.second.values, ours.second.scales),
                theirs[:4],
                strict=True,
            ):
                assert one is not None
                assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
            assert theirs.hidden_size == padding.hidden_in
            assert theirs.intermediate_size == padding.width_padded
