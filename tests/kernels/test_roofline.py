import pytest

from autotune.kernels.roofline import bound_by, shortest_s
from autotune.kernels.schema import Roof
from autotune.kernels.work import Work

ROOF = Roof(flops_per_s=1e12, bytes_per_s=1e10, source="made up")


def work(flops: float, moved: float) -> Work:
    return Work(flops=flops, bytes=moved, experts_hit=1, busiest=1)


@pytest.mark.parametrize(
    ("flops", "moved", "seconds", "bound"),
    [(1e9, 1e9, 0.1, "memory"), (1e12, 1e9, 1.0, "compute"), (1e10, 1e8, 0.01, "compute")],
)
def test_a_call_takes_as_long_as_the_slower_of_the_two(
    flops: float, moved: float, seconds: float, bound: str
) -> None:
    assert shortest_s(work(flops, moved), ROOF) == pytest.approx(seconds)
    assert bound_by(work(flops, moved), ROOF) == bound
