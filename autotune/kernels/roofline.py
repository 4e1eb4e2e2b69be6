"""The roofline: how long a call takes at least on a device, by what it computes and moves.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
multicore architectures", 2009. Pure; no torch.
"""

from autotune.kernels.schema import Roof
from autotune.kernels.work import Work


def shortest_s(work: Work, roof: Roof) -> float:
    """Return the roofline's latency in seconds.

    ``max(flops / roof.flops_per_s, bytes / roof.bytes_per_s)``.
    A layer that is small, or was used just before, is read from a cache, which may beat this.
    """
    return max(work.flops / roof.flops_per_s, work.bytes / roof.bytes_per_s)


def bound_by(work: Work, roof: Roof) -> str:
    """Return which of the two is the longer: ``compute`` or ``memory``."""
    computes_s, moves_s = work.flops / roof.flops_per_s, work.bytes / roof.bytes_per_s
    return "compute" if computes_s >= moves_s else "memory"
