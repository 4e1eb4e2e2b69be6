import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decisions.schema import Geometry
from autotune.errors import InputError
from autotune.model import ModelFacts, facts_from_config, read_model

MINIMAX = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "dtype": "bfloat16",
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "vocab_size": 200064,
    "max_position_embeddings": 196608,
    "quantization_config": {"quant_method": "fp8"},
}
QWEN = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 6144,  # of the dense layers
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
}
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_local_experts": 128,
    "experts_per_token": 4,
    "num_experts_per_tok": 4,
    "quantization_config": {"quant_method": "mxfp4"},
}


def facts(config: Any) -> ModelFacts:
    return facts_from_config(config, where="config.json")


@pytest.mark.parametrize(
    ("config", "geometry"),
    [
        (MINIMAX, Geometry(3072, 1536, 256, 8)),
        (QWEN, Geometry(2048, 768, 128, 8)),
        (MIXTRAL, Geometry(4096, 14336, 8, 2)),
        (DEEPSEEK, Geometry(7168, 2048, 256, 8)),
        (GPT_OSS, Geometry(2880, 2880, 128, 4)),
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else "",
)
def test_reads_the_geometry_of_released_models(config: dict[str, Any], geometry: Geometry) -> None:
    assert facts(config).architecture == config["architectures"][0]
    assert facts(config).geometry == geometry


def test_reads_the_other_facts() -> None:
    read = facts(MINIMAX)
    assert (read.dtype, read.quantization) == ("bfloat16", "fp8")
    assert (read.vocabulary_size, read.max_positions) == (200064, 196608)
    assert facts(QWEN).dtype == "bfloat16"
    assert facts(QWEN).quantization is None


def test_reads_the_language_model_of_a_multimodal_checkpoint() -> None:
    outer = {"architectures": ["Qwen3VLMoeForConditionalGeneration"], "vision_config": {}}
    inner = {key: value for key, value in QWEN.items() if key != "architectures"}
    read = facts({**outer, "text_config": inner | {"architectures": ["Inner"]}})
    assert read.architecture == "Qwen3VLMoeForConditionalGeneration"
    assert read.geometry == Geometry(2048, 768, 128, 8)


def test_a_dense_model_has_no_geometry() -> None:
    dense = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008}
    assert facts(dense).geometry is None


@pytest.mark.parametrize("value", ["256", None, 0, -1, True, 1.5, []])
def test_a_size_that_is_no_size_is_not_guessed(value: Any) -> None:
    assert facts({**MINIMAX, "num_local_experts": value}).geometry is None


def test_a_geometry_that_cannot_be_is_not_taken() -> None:
    assert facts({**MIXTRAL, "num_experts_per_tok": 9}).geometry is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (None, "names no architecture"),
        ([], "names no architecture"),
        ("MixtralForCausalLM", "names no architecture"),
        (["../../etc"], "can't be used as a name"),
        (["a\nb"], "can't be used as a name"),
        (["\x1b[31m"], "can't be used as a name"),
        (["x" * 200], "can't be used as a name"),
        ([""], "can't be used as a name"),
    ],
)
def test_an_unusable_architecture_is_refused(name: Any, problem: str) -> None:
    with pytest.raises(InputError, match=rf"config\.json: .*{problem}") as caught:
        facts({**MIXTRAL, "architectures": name})
    assert str(caught.value).isprintable()


def test_reads_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL))
    assert read_model(tmp_path) == facts(MIXTRAL)


def test_a_missing_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model folder"):
        read_model(tmp_path / "gone")
    with pytest.raises(InputError, match=r"no config\.json in this model folder"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b"[]", b"null", b'"text"', b"NaN"],
    ids=lambda content: repr(content[:8]),
)
def test_garbage_is_refused_with_the_files_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json"):
        read_model(tmp_path)


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(InputError, match="can't be read"):
        read_model(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*MINIMAX, "text_config"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, st.dictionaries(st.sampled_from([*MINIMAX, "text_config"]), json_values))
def test_any_json_gives_facts_or_an_input_error(data: Any, changes: dict[str, Any]) -> None:
    for config in (data, {**MINIMAX, **changes}):
        try:
            read = facts(config)
        except InputError as error:
            assert str(error).startswith("config.json")
        else:
            assert read.geometry is None or min(read.geometry.experts, read.geometry.top_k) >= 1
