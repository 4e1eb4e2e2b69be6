"""A small random Qwen3-MoE checkpoint, whole or with its experts damaged, in the hub's layout."""

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Damage = Literal["none", "zeroed", "swapped", "nan"]
LAYERS = 3
HIDDEN = 128
HEADS = 4
KV_HEADS = 2
HEAD = 32
EXPERTS = 16
TOP_K = 4
WIDTH = 32
VOCABULARY = 2048
POSITIONS = 1024
# Times the usual initialisation's 0.02: with that, a text hardly hangs on the experts, and every
# token is about as likely as any other.
SCALE = 8.0
HEAD_SCALE = 24.0


def write_checkpoint(folder: Path, damage: Damage = "none") -> Path:
    """Write config, tokenizer and weights, the same each time but for the damage.

    ``zeroed`` silences one expert in each layer, ``swapped`` exchanges every expert's gate and up
    projections, ``nan`` puts one NaN into each expert of the last layer.
    """
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(), indent=2))
    (folder / "generation_config.json").write_text('{"do_sample": false, "pad_token_id": 0}')
    _write_tokenizer(folder)
    weights = _weights()
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            name = f"model.layers.{layer}.mlp.experts.{expert}"
            gate, up, down = (f"{name}.{part}_proj.weight" for part in ("gate", "up", "down"))
            if damage == "zeroed" and expert == 0:
                weights[down] = torch.zeros_like(weights[down])
            elif damage == "swapped":
                weights[gate], weights[up] = weights[up], weights[gate]
            elif damage == "nan" and layer == LAYERS - 1:
                weights[down][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def config() -> dict[str, object]:
    """config.json's content."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "dtype": "bfloat16",
        "hidden_size": HIDDEN,
        "intermediate_size": WIDTH,
        "moe_intermediate_size": WIDTH,
        "num_experts": EXPERTS,
        "num_experts_per_tok": TOP_K,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": 0,
    }


def _weights() -> dict[str, torch.Tensor]:
    """Rounded to bfloat16 here, so that a server's own precision is all that differs."""
    generator = torch.Generator().manual_seed(0)

    def matrix(*shape: int, scale: float = SCALE) -> torch.Tensor:
        values = torch.randn(shape, generator=generator) * 0.02 * scale
        return values.to(torch.bfloat16)

    def ones(size: int) -> torch.Tensor:
        return torch.ones(size, dtype=torch.bfloat16)

    weights = {
        "model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN, scale=1.0),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": matrix(VOCABULARY, HIDDEN, scale=HEAD_SCALE),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        weights |= {
            f"{prefix}.input_layernorm.weight": ones(HIDDEN),
            f"{prefix}.post_attention_layernorm.weight": ones(HIDDEN),
            f"{prefix}.self_attn.q_proj.weight": matrix(HEADS * HEAD, HIDDEN),
            f"{prefix}.self_attn.k_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN),
            f"{prefix}.self_attn.v_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN),
            f"{prefix}.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD),
            f"{prefix}.self_attn.q_norm.weight": ones(HEAD),
            f"{prefix}.self_attn.k_norm.weight": ones(HEAD),
            f"{prefix}.mlp.gate.weight": matrix(EXPERTS, HIDDEN),
        }
        for expert in range(EXPERTS):
            name = f"{prefix}.mlp.experts.{expert}"
            weights |= {
                f"{name}.gate_proj.weight": matrix(WIDTH, HIDDEN),
                f"{name}.up_proj.weight": matrix(WIDTH, HIDDEN),
                f"{name}.down_proj.weight": matrix(HIDDEN, WIDTH),
            }
    return weights


def _write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_training_text(), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "model_max_length": POSITIONS,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _training_text() -> Iterator[str]:
    """Sources of the standard library: text that every machine has."""
    folder = Path(sysconfig.get_path("stdlib"))
    for name in ("argparse.py", "datetime.py", "inspect.py", "subprocess.py", "typing.py"):
        yield (folder / name).read_text(encoding="utf-8")
