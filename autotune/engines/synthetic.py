"""A small random MiniMax-M2 checkpoint, made on the spot from a seed: no download.

It exists so that the whole line can be run for real on a machine without a GPU or a model hub.
Its text means nothing, but its answers depend on its experts: the matrices are scaled up so
that a wrong expert changes the greedy text. Run as a program, in a process of its own, so that
torch never enters the measuring process::

    python -m autotune.engines.synthetic FOLDER --seed 0
"""

import argparse
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HIDDEN_SIZE = 128
EXPERT_WIDTH = 32
EXPERTS = 16
TOP_K = 4
LAYERS = 4
VOCABULARY = 2048
MAX_POSITIONS = 2048
# With the default initialisation, greedy text hardly depends on the experts: zeroing them
# leaves over half of the tokens as they were. At 8 times the scale, 93% of them change.
MATRIX_SCALE = 8.0
_PAD = 0
ARCHITECTURE = "MiniMaxM2ForCausalLM"


def config() -> dict[str, Any]:
    """Return config.json's content: MiniMax-M2's own routing at a size that a CPU serves."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "minimax_m2",
        "dtype": "float32",
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": EXPERT_WIDTH,
        "num_local_experts": EXPERTS,
        "num_experts_per_tok": TOP_K,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": _PAD,
    }


def build(folder: Path, *, seed: int) -> None:
    """Write checkpoint and tokenizer to ``folder``, which appears whole or not at all."""
    partial = folder.with_name(f"{folder.name}.partial.{os.getpid()}")
    partial.mkdir(parents=True)
    silent = _write_tokenizer(partial)
    _write_weights(partial, seed, silent=silent)
    # transformers drops and adds keys when it saves: the file is ours, as stated above.
    (partial / "config.json").write_text(json.dumps(config(), indent=2) + "\n")
    # No end token is named, so every answer runs to its asked length.
    (partial / "generation_config.json").write_text('{"do_sample": false, "pad_token_id": 0}\n')
    partial.rename(folder)


def _write_weights(folder: Path, seed: int, *, silent: list[int]) -> None:
    import torch
    from transformers import MiniMaxM2Config, MiniMaxM2ForCausalLM

    torch.manual_seed(seed)
    model = MiniMaxM2ForCausalLM(MiniMaxM2Config(**config())).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2 and "embed" not in name:
                weight.mul_(MATRIX_SCALE)
        # A logit of 0 is never the highest: an answer made of nothing but padding or half
        # characters would have no text at all.
        model.lm_head.weight[silent] = 0
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.1)
    model.save_pretrained(folder, safe_serialization=True)


def _write_tokenizer(folder: Path) -> list[int]:
    """Train and write the tokenizer; return the tokens that are no text by themselves."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

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
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}\n{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config, indent=2) + "\n")
    return [_PAD, *(i for i in range(VOCABULARY) if "\ufffd" in tokenizer.decode([i]))]


def _training_text() -> Iterator[str]:
    """Yield sources of the standard library: text that every machine has."""
    folder = Path(sysconfig.get_path("stdlib"))
    for name in ("argparse.py", "datetime.py", "inspect.py", "subprocess.py", "typing.py"):
        path = folder / name
        if path.is_file():
            yield path.read_text(encoding="utf-8")


def main() -> int:
    """Build the checkpoint named on the command line; nothing is done where it exists."""
    parser = argparse.ArgumentParser(prog="python -m autotune.engines.synthetic")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not (arguments.folder / "config.json").is_file():
        build(arguments.folder, seed=arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
