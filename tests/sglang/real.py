"""The real SGLang on a machine without a GPU: checkpoints, faked platforms, resolved arguments."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Kept for the process's life: an operator library that is collected takes its operators along.
_LIBRARIES: list[Any] = []
_HEADS = {"num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128}
_SIZES = {"num_hidden_layers": 4, "vocab_size": 200064, "max_position_embeddings": 8192}
# config.json of released checkpoints, cut down to what resolution reads; the MoE sizes are theirs.
CHECKPOINTS: dict[str, dict[str, Any]] = {
    "minimax-m2": {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "dtype": "bfloat16",
        "hidden_size": 3072,
        "intermediate_size": 1536,
        "num_local_experts": 256,
        "num_experts_per_tok": 8,
        **_HEADS,
        **_SIZES,
    },
    "qwen3-moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        **_SIZES,
    },
    "deepseek-v3": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "dtype": "bfloat16",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        **_SIZES,
    },
    "gpt-oss": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "dtype": "bfloat16",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "sliding_window": 128,
        **_SIZES,
    },
    "mixtral": {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        **_SIZES,
    },
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        **_SIZES,
    },
}
PLATFORMS: dict[str, dict[str, Any]] = {
    "sm90": {"is_sm90": True, "device_capability": (9, 0), "device_sm": 90},
    "sm100": {
        "is_sm100": True,
        "is_blackwell": True,
        "is_sm100_or_sm110": True,
        "device_capability": (10, 0),
        "device_sm": 100,
    },
    "sm103": {
        "is_sm100": True,
        "is_blackwell": True,
        "is_sm100_or_sm110": True,
        "device_capability": (10, 3),
        "device_sm": 103,
    },
    "sm110": {
        "is_sm110": True,
        "is_blackwell": True,
        "is_sm100_or_sm110": True,
        "device_capability": (11, 0),
        "device_sm": 110,
    },
    "sm120": {
        "is_sm120": True,
        "is_blackwell": True,
        "device_capability": (12, 0),
        "device_sm": 120,
    },
}


def declare_torchvision_operators() -> None:
    """Declare the two operators that torchvision's import asks for."""
    import torch

    if not _LIBRARIES:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)


def make_checkpoint(folder: Path, name: str = "minimax-m2", **changes: Any) -> Path:
    """Write a checkpoint's config.json, without weights, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CHECKPOINTS[name], **changes}))
    return folder


@contextmanager
def on(arch: str) -> Iterator[None]:
    """Fake the GPU, the way SGLang's own unit tests do."""
    from sglang.srt.runtime_context import override_platform

    with override_platform(is_cuda=True, has_flashinfer=True, **PLATFORMS[arch]):
        yield


def resolve_on(arch: str, checkpoint: Path, **arguments: Any) -> Any:
    """Build server arguments and have SGLang resolve them, as a server's start does."""
    from sglang.srt.server_args import ServerArgs

    given = {"device": "cuda", "tp_size": 4, "random_seed": 0, **arguments}
    with on(arch):
        server_args = ServerArgs(model_path=str(checkpoint), **given)
        server_args.resolve_once()
    return server_args


def resolved(server_args: Any, field: str) -> Any:
    """A field's resolved value."""
    from sglang.srt.arg_groups.overrides import resolution_result

    return resolution_result(server_args, field)


def sources(server_args: Any, field: str) -> list[str]:
    """Who declared a field, in order."""
    return [source for source, fields in server_args._resolved_overrides if field in fields]
