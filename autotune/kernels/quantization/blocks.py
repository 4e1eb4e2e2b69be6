"""What the formats share: tensors seen as blocks along the last axis, and scales of whole tensors.

No rounding happens here. A tensor of three axes is taken for [experts, rows, columns], where each
expert has a scale of its own; any other tensor has one.
"""

import math

import torch
from torch import Tensor

from autotune.errors import InputError

SMALLEST_SCALE = 2.0**-126  # the smallest normal float32: below it, scales lose bits themselves


def finite_float32(x: Tensor, format_name: str) -> Tensor:
    """``x`` as float32.

    Raises:
        InputError: a value is NaN or infinite, which no scale can be chosen for.
    """
    values = x.float()
    if not bool(torch.isfinite(values).all()):
        raise InputError(
            f"{format_name}: a tensor of shape {list(x.shape)} holds NaN or infinity, which has no"
            " scale: look for what made it before it is quantized"
        )
    return values


def split_blocks(x: Tensor, size: int, format_name: str) -> Tensor:
    """``x`` [..., columns] as float32 blocks [..., columns / size, size].

    Raises:
        InputError: the last axis isn't a multiple of ``size``, or a value isn't finite.
    """
    columns = x.shape[-1] if x.dim() else 0
    if columns == 0 or columns % size:
        padded = max(1, math.ceil(columns / size)) * size
        raise InputError(
            f"{format_name} shares a scale among {size} neighbours of the last axis, which must be"
            f" a multiple of {size}, but the shape is {list(x.shape)}: pad the axis with zeros to"
            f" {padded}, or choose another format"
        )
    return finite_float32(x, format_name).unflatten(-1, (columns // size, size))


def scale_or_one(amax: Tensor, largest: float) -> Tensor:
    """The scale that maps ``amax`` to ``largest``; 1 where the values are zero, or too small."""
    scale = amax / largest
    return torch.where(scale >= SMALLEST_SCALE, scale, 1.0)


def tensor_scale(
    x: Tensor, given: float | Tensor | None, *, largest: float, format_name: str
) -> Tensor:
    """The scale of a whole tensor, float32 []; of [experts, rows, columns]: [experts] or [].

    Args:
        x: finite float32 values.
        given: a scale that was chosen before (a static one), or None for amax / ``largest``.
        largest: the largest magnitude that the format holds at scale 1.
        format_name: for the message.

    Raises:
        InputError: the given scale isn't positive and finite, or of another shape.
    """
    batched = x.dim() == 3
    if given is None:
        if x.numel() == 0:
            return torch.ones(x.shape[:1] if batched else (), device=x.device)
        magnitude = x.abs()
        amax = magnitude.flatten(1).amax(1) if batched else magnitude.amax()
        return scale_or_one(amax, largest)
    scale = torch.as_tensor(given, dtype=torch.float32, device=x.device)
    fits = scale.dim() == 0 or (batched and scale.shape == x.shape[:1])
    if not (fits and bool(((scale > 0) & torch.isfinite(scale)).all())):
        raise InputError(
            f"{format_name}: the scale of a tensor of shape {list(x.shape)} must be one positive"
            f" number{' or one an expert' if batched else ''}, not {scale.tolist()}"
        )
    return scale


def beside(scale: Tensor, x: Tensor) -> Tensor:
    """A tensor's or its experts' ``scale``, shaped to multiply ``x`` (experts first)."""
    return scale.reshape(*scale.shape, *[1] * (x.dim() - scale.dim()))
