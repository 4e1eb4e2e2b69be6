"""The Triton adapter's calls against SGLang's own signatures, classes and runner."""

import importlib
import importlib.resources
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from autotune.kernels.backends.sglang import rules
from autotune.kernels.backends.sglang.prepared import PreparedTriton, prepared
from autotune.kernels.backends.sglang.state import ensure_published
from autotune.kernels.backends.sglang.triton_moe import TritonBackend
from autotune.kernels.layer import Batch
from autotune.kernels.spec import GPT_OSS_SWIGLU, Activation, LayerSpec
from tests.kernels.backends.flashinfer.small import (
    CALIBRATION,
    CPU,
    H200,
    MINIMAX_M2,
    layer_and_batch,
    problem,
    spec,
)

SCHEMES = ("bf16", "fp8", "fp8_block")
LAYERS = {
    "swiglu": spec(),
    "gelu": spec(activation=Activation(function="gelu_tanh")),
    "gpt-oss": spec(activation=GPT_OSS_SWIGLU, expert_bias=True),
}
_FUSED_MOE = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe"


def fused_moe() -> Any:
    return importlib.import_module(_FUSED_MOE)


def given_to_sglang(
    of: LayerSpec, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[PreparedTriton, Batch, dict[str, Any]]:
    """Bind a batch and call; return what reaches `fused_experts`."""
    layer, batch = layer_and_batch(of)
    found = prepared(layer, scheme, CALIBRATION)
    calls: list[dict[str, Any]] = []
    answer = torch.zeros_like(batch.hidden_states)
    signature = inspect.signature(fused_moe().fused_experts)

    def noted(*positional: Any, **keywords: Any) -> Tensor:
        calls.append(signature.bind(*positional, **keywords).arguments)
        return answer

    monkeypatch.setattr(fused_moe(), "fused_experts", noted)
    call = found.bind(batch)
    assert not calls
    assert call() is answer and call() is answer
    first, second = calls
    assert first.keys() == second.keys()
    return found, batch, first


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_binds(layer: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, batch, given = given_to_sglang(LAYERS[layer], scheme, monkeypatch)
    assert given["hidden_states"] is batch.hidden_states
    weights, ids, _ = given["topk_output"]
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    assert torch.equal(ids.long(), batch.routing.expert_ids)
    assert torch.equal(weights, batch.routing.weights)
    config = given["moe_runner_config"]
    assert type(config).__name__ == "MoeRunnerConfig"
    assert not config.inplace and config.is_gated and not config.no_combine
    assert config.routed_scaling_factor is None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_misspelt_argument_would_be_found(scheme: str) -> None:
    layer, _ = layer_and_batch(spec())
    found = prepared(layer, scheme, CALIBRATION)
    signature = inspect.signature(fused_moe().fused_experts)
    rest = {"hidden_states": None, "topk_output": None, "moe_runner_config": None}
    signature.bind(**rest, **found.fixed)
    for name in found.fixed:
        misspelt = {f"{key}_" if key == name else key: one for key, one in found.fixed.items()}
        with pytest.raises(TypeError, match="argument"):
            signature.bind(**rest, **misspelt)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sglangs_runner_would_give_the_same(
    layer: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a quantization method hands to the runner, by its names, and what the runner calls."""
    from sglang.srt.layers.moe.moe_runner import triton as runner
    from sglang.srt.layers.moe.token_dispatcher import StandardDispatchOutput

    _, batch, given = given_to_sglang(LAYERS[layer], scheme, monkeypatch)
    theirs: dict[str, Any] = {}
    monkeypatch.setattr(fused_moe(), "fused_experts", lambda **keywords: theirs.update(keywords))
    runner.fused_experts_none_to_triton(
        StandardDispatchOutput(batch.hidden_states, None, given["topk_output"]),
        runner.TritonMoeQuantInfo(
            w13_weight=given["w1"],
            w2_weight=given["w2"],
            b13=given.get("b1"),
            b2=given.get("b2"),
            use_fp8_w8a8=scheme != "bf16",
            w13_scale=given.get("w1_scale"),
            w2_scale=given.get("w2_scale"),
            a13_scale=given.get("a1_scale"),
            a2_scale=given.get("a2_scale"),
            block_shape=[128, 128] if scheme == "fp8_block" else None,
        ),
        given["moe_runner_config"],
    )
    said = {name: one for name, one in theirs.items() if one is not None and one is not False}
    assert said.keys() == given.keys()
    assert all(said[name] is given[name] or said[name] == given[name] for name in said)


@pytest.mark.parametrize("expert_bias", [False, True])
def test_sglangs_own_weights_have_our_shapes(expert_bias: bool) -> None:
    """What SGLang makes room for, before a checkpoint is loaded into it."""
    from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig
    from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod

    of = spec(experts=6, hidden=96, width=40, expert_bias=expert_bias)
    layer, _ = layer_and_batch(of)
    ours = prepared(layer, "bf16", CALIBRATION).fixed
    theirs = torch.nn.Module()
    theirs.moe_runner_config = MoeRunnerConfig()
    with published():
        UnquantizedFusedMoEMethod().create_weights(
            theirs, 6, 96, 40, torch.bfloat16, with_bias=expert_bias
        )
    names = {"w1": "w13_weight", "w2": "w2_weight"}
    if expert_bias:
        names |= {"b1": "w13_weight_bias", "b2": "w2_weight_bias"}
    assert ours.keys() == names.keys()
    for name, theirs_name in names.items():
        parameter = getattr(theirs, theirs_name)
        assert (ours[name].shape, ours[name].dtype) == (parameter.shape, parameter.dtype)


@contextmanager
def published() -> Iterator[None]:
    from sglang.srt.runtime_context import get_context

    with get_context().override_server_args():
        yield


@contextmanager
def no_server() -> Iterator[Any]:
    """A process in which nothing was published yet."""
    from sglang.srt import runtime_context

    context = runtime_context.RuntimeContext(parallel=runtime_context.ParallelContext())
    with runtime_context.use_context(context):
        yield runtime_context


def test_what_sglang_asks_a_server_is_answered() -> None:
    with no_server() as runtime_context:
        with pytest.raises(ValueError, match="not published"):
            runtime_context.get_exec()
        ensure_published()
        execution, parallel = runtime_context.get_exec(), runtime_context.get_parallel()
        assert not execution.moe.enable_fused_moe_sum_all_reduce
        assert not execution.deterministic.enable_deterministic_inference
        assert not execution.comm.enable_symm_mem
        assert parallel.tp_group is None
        assert (parallel.tp_size, parallel.moe_ep_size) == (1, 1)
        arguments = runtime_context.get_server_args()
        ensure_published()
        assert runtime_context.get_server_args() is arguments


def test_a_servers_arguments_stay() -> None:
    group = object()
    with no_server() as runtime_context, published():
        arguments = runtime_context.get_server_args()
        runtime_context.get_parallel().override_permanently(tp_group=group)
        ensure_published()
        assert runtime_context.get_server_args() is arguments
        assert runtime_context.get_parallel().tp_group is group


def test_preparing_publishes() -> None:
    layer, _ = layer_and_batch(spec())
    with no_server() as runtime_context:
        TritonBackend().prepare(layer, problem(spec(), "fp8", H200), CALIBRATION)
        assert runtime_context.get_context().is_config_namespace_published("exec")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_here_it_says_why_not(scheme: str) -> None:
    here = TritonBackend().supports(problem(MINIMAX_M2, scheme, CPU))
    assert "needs an NVIDIA GPU" in here.reason
    elsewhere = TritonBackend().supports(problem(MINIMAX_M2, scheme, H200))
    assert elsewhere.ok or elsewhere.reason == (
        "sgl_kernel isn't installed: pip install sglang-kernel"
    )


def test_architectures_are_tritons() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    def has_e4m3(arch: int) -> bool:
        options = CUDABackend(GPUTarget("cuda", arch, 32)).parse_options({})
        return "fp8e4nv" in options.supported_fp8_dtypes

    first = rules.FIRST_ARCH["fp8"]
    assert first == rules.FIRST_ARCH["fp8_block"]
    assert has_e4m3(first) and not has_e4m3(first - 1)


def test_sizes_are_those_of_sglangs_kernels() -> None:
    """The widest loads, and how many experts pairs are sorted by."""
    import sglang

    sources = [
        (importlib.resources.files(sglang) / "kernels/jit" / name).read_text()
        for name in ("include/sgl_kernel/utils.cuh", "csrc/moe/moe_align_kernel.cu")
    ]
    assert "kMaxVecBytes = SGL_ARCH_BLACKWELL_OR_GREATER ? 32 : 16;" in sources[0]
    assert (rules._VECTOR_OF_BLACKWELL * 2, rules._VECTOR * 2) == (32, 16)
    assert f"num_experts <= {rules._MOST_EXPERTS + 1}" in sources[1]
