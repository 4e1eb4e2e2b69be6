"""A stored layer and its biases in padded sizes; which sizes is `layouts.Padding`."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from autotune.kernels.backends.flashinfer.layouts import Padding, padded, padded_halves
from autotune.kernels.backends.flashinfer.stored import Stored, StoredLayer
from autotune.kernels.scheme_names import SCALE_BLOCKS

_VALUES_A_BYTE = {"nvfp4": 2, "mxfp4": 2, "mxfp8": 1}
# The byte that is the number 1: E4M3's, UE8M0's.
_ONE = {"nvfp4": 0x38, "mxfp4": 127, "mxfp8": 127}


def padded_layer(stored: StoredLayer, scheme: str, padding: Padding) -> StoredLayer:
    """Pad a block-scaled layer: zeros, and scales of 1; gate's and up's rows apart."""
    if not padding.is_needed:
        return stored
    packed, block, one = _VALUES_A_BYTE[scheme], SCALE_BLOCKS[scheme], _ONE[scheme]
    half, hidden_in, hidden_out = padding.width_padded, padding.hidden_in, padding.hidden_out
    first, second = stored.first, stored.second
    return StoredLayer(
        first=Stored(
            padded_halves(first.values, half=half, columns=hidden_in // packed),
            padded_halves(first.block_scales(), half=half, columns=hidden_in // block, fill=one),
            first.overall,
        ),
        second=Stored(
            padded(second.values, rows=hidden_out, columns=half // packed),
            padded(second.block_scales(), rows=hidden_out, columns=half // block, fill=one),
            second.overall,
        ),
    )


def padded_biases(first: Tensor, second: Tensor, padding: Padding) -> tuple[Tensor, Tensor]:
    """Pad biases [experts, 2 * width] (in halves) and [experts, hidden] with zeros."""
    more = padding.width_padded - padding.width
    halves = [pad(half, (0, more)) for half in first.chunk(2, dim=1)]
    return torch.cat(halves, dim=1), pad(second, (0, padding.hidden_out - padding.hidden))
