"""Right kernels are never called wrong, in whatever order and precision they honestly compute."""

import functools
from collections.abc import Callable

import msgspec
import pytest
import torch
from torch import Tensor

from autotune.decisions.schema import Geometry
from autotune.kernels.backends.protocol import Backend, Problem
from autotune.kernels.backends.torch_loops import TORCH_BACKENDS
from autotune.kernels.compare import judge
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.quantization.tolerance import tolerance
from autotune.kernels.routing import Routing
from autotune.kernels.spec import GPT_OSS_SWIGLU, LayerSpec
from tests.kernels.kernel import Case, Kernel, case, kept
from tests.kernels.layers import RULES, layer_spec
from tests.kernels.records import CPU_DEVICE

_SPECS: dict[str, LayerSpec] = {
    "minimax": layer_spec(hidden=256, width=128, experts=8, top_k=2, routing=RULES["minimax"]),
    "deepseek": layer_spec(hidden=256, width=128, experts=8, top_k=2, routing=RULES["groups"]),
    "gpt-oss": layer_spec(
        hidden=256, width=128, experts=8, top_k=4, activation=GPT_OSS_SWIGLU, expert_bias=True
    ),
}
_BATCHES = [(1, "uniform"), (16, "uniform"), (16, "zipf:1.0")]


def _split(rows: Tensor, weight: Tensor) -> Tensor:
    """The product in four parts, the last first, as kernels that split long sums."""
    parts = [a @ b.T for a, b in zip(rows.chunk(4, -1), weight.chunk(4, -1), strict=True)]
    return (parts[3] + parts[2]) + (parts[1] + parts[0])


def _bfloat16_answers(rows: Tensor, weight: Tensor) -> Tensor:
    """The product as a library of bfloat16 products gives it."""
    return kept(rows @ weight.T)


def _backwards(numbers: list[int]) -> list[int]:
    return sorted(numbers, reverse=True)


def _with_bfloat16_weights(kernel: Kernel) -> Tensor:
    routing = kernel.routing
    return kernel.output(Routing(routing.expert_ids, kept(routing.weights)))


def _with_approximated_weights(kernel: Kernel) -> Tensor:
    """An exponential that is off in the sixth digit."""
    routing = kernel.routing
    off = 1 + 2e-6 * torch.sin(torch.arange(routing.weights.numel()).float())
    return kernel.output(
        Routing(routing.expert_ids, routing.weights * off.view_as(routing.weights))
    )


_HONEST: dict[str, Callable[[Kernel], Tensor]] = {
    "plain": lambda kernel: kernel.output(),
    "split sums": lambda kernel: kernel.but(product=_split).output(),
    "experts backwards": lambda kernel: kernel.but(order=_backwards).output(),
    "bfloat16 products": lambda kernel: kernel.but(product=_bfloat16_answers).output(),
    "bfloat16 weights": _with_bfloat16_weights,
    "approximated weights": _with_approximated_weights,
}


@functools.cache
def _case(model: str, scheme: str, tokens: int, distribution: str, seed: int) -> Case:
    return case(_SPECS[model], scheme, tokens=tokens, seed=seed, distribution=distribution)


@pytest.mark.parametrize(("tokens", "distribution"), _BATCHES)
@pytest.mark.parametrize("model", _SPECS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_honest_kernel_is_right(scheme: str, model: str, tokens: int, distribution: str) -> None:
    for seed in range(4 if tokens == 1 else 2):
        found = _case(model, scheme, tokens, distribution, seed)
        for name, output in _HONEST.items():
            problem = found.judged(output(found.kernel)).problem
            assert problem is None, f"{name}, seed {seed}: {problem}"


@pytest.mark.parametrize("backend", TORCH_BACKENDS[:3], ids=lambda one: one.name)
@pytest.mark.parametrize("model", _SPECS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_torchs_backends_are_right(backend: Backend, scheme: str, model: str) -> None:
    for seed, (tokens, distribution) in enumerate(_BATCHES):
        found = _case(model, scheme, tokens, distribution, seed)
        problem = Problem(spec=found.spec, scheme=scheme, device=CPU_DEVICE)
        prepared = backend.prepare(found.layer, problem, found.calibration)
        assert found.judged(prepared.bind(found.batch)()).problem is None


@pytest.mark.parametrize("model", ["minimax", "gpt-oss"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("hidden", "width"), [(128, 64), (256, 128)])
def test_no_single_token_is_called_wrong(hidden: int, width: int, scheme: str, model: str) -> None:
    """Each of many tokens as a batch of its own: a value that flips weighs most there."""
    width = 128 if scheme == "fp8_block" else width
    spec = msgspec.structs.replace(_SPECS[model], geometry=Geometry(hidden, width, 8, 2))
    found = case(spec, scheme, tokens=400)
    output = found.kernel.but(product=_bfloat16_answers).output()
    limits = tolerance(scheme, values=2 * width)
    for token in range(400):
        only = slice(token, token + 1)
        numerics = judge(
            output[only],
            rows=torch.tensor([0]),
            shape=(1, hidden),
            dequantized=found.dequantized[only],
            full=found.full[only],
            limits=limits,
            token_limits=limits,
        )
        assert numerics.problem is None, f"token {token}"
