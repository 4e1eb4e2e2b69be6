import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions.schema import Geometry
from autotune.errors import AutotuneError, InputError, UsageError
from autotune.kernels.checkpoint import checkpoint_scheme, read_layer
from autotune.kernels.model_layer import MINIMAX, RENORMALIZE
from autotune.kernels.scheme_names import SCHEME_NAMES

MINIMAX_M2 = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
}
FP8_BLOCK = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def checkpoint(folder: Path, config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_the_layer_is_read_from_config_json_alone(tmp_path: Path) -> None:
    config = MINIMAX_M2 | {"quantization_config": FP8_BLOCK}
    found = read_layer(checkpoint(tmp_path, config), routing=None, quantization=None)
    assert found.architecture == "MiniMaxM2ForCausalLM"
    assert found.layer.geometry == Geometry(3072, 1536, 256, 8)
    assert found.layer.routing == MINIMAX
    assert found.scheme == "fp8_block"


def test_options_override_what_the_checkpoint_says(tmp_path: Path) -> None:
    config = MINIMAX_M2 | {"quantization_config": FP8_BLOCK}
    found = read_layer(
        checkpoint(tmp_path, config), routing="renormalize", quantization="modelopt_fp4"
    )
    assert found.layer.routing == RENORMALIZE
    assert found.scheme == "nvfp4"


def test_sizes_one_level_down_are_found(tmp_path: Path) -> None:
    text = {key: value for key, value in MINIMAX_M2.items() if key != "architectures"}
    config = {"architectures": ["MiniMaxM2ForCausalLM"], "text_config": text}
    found = read_layer(checkpoint(tmp_path, config), routing=None, quantization=None)
    assert found.layer.geometry == Geometry(3072, 1536, 256, 8)


@pytest.mark.parametrize(
    ("section", "scheme"),
    [
        (None, "bf16"),
        ({}, "bf16"),
        ({"quant_method": "fp8"}, "fp8"),
        (FP8_BLOCK, "fp8_block"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_algo": "MXFP8"}, "mxfp8"),
    ],
)
def test_how_experts_are_quantized_is_told_by_the_checkpoint(
    tmp_path: Path, section: dict[str, Any] | None, scheme: str
) -> None:
    assert checkpoint_scheme({"quantization_config": section}, tmp_path) == scheme


def test_older_modelopt_checkpoints_say_it_beside_config_json(tmp_path: Path) -> None:
    path = tmp_path / "hf_quant_config.json"
    path.write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    assert checkpoint_scheme({}, tmp_path) == "nvfp4"
    path.write_text("[]")
    with pytest.raises(InputError, match=r"hf_quant_config\.json: not what ModelOpt writes"):
        checkpoint_scheme({}, tmp_path)


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "fp8", "weight_block_size": [64, 64]},
        {"quant_method": "gptq"},
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        {"quant_method": ["fp8"]},
        {"weight_block_size": [128, 128]},
    ],
)
def test_what_has_no_reference_must_be_said(tmp_path: Path, section: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="say it with --quantization"):
        checkpoint_scheme({"quantization_config": section}, tmp_path)


def test_a_model_without_experts_is_refused(tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}
    with pytest.raises(InputError, match="says no sizes of a MoE layer"):
        read_layer(checkpoint(tmp_path, config), routing=None, quantization=None)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)


@given(
    section=st.dictionaries(
        st.sampled_from(["quant_method", "quant_algo", "weight_block_size"]), JSON_VALUES
    )
    | JSON_VALUES
)
def test_any_quantization_config_gives_a_scheme_or_our_error(section: Any) -> None:
    try:
        found = checkpoint_scheme({"quantization_config": section}, Path("nowhere"))
    except AutotuneError:
        return
    assert found in SCHEME_NAMES
