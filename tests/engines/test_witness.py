"""The shipped witness checkpoint: whole, and such that a wrong backend shows in its answers."""

import ast
import json
import re
import sysconfig
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.decisions.schema import Geometry
from autotune.engines.witness import witness_folder
from autotune.model import read_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FOLDER = witness_folder("minimax-m2")
PROMPTS = (
    "Return the number of",
    "The days of the week are Monday,",
    "If the file cannot be opened, an exception is raised. Otherwise",
    "This module provides",
    "A thermometer is an instrument that",
    "Dear customer,\n\nThank you for your order. We are sorry to tell you that",
    "Convert a string to a",
    "There are three reasons why trains are better than cars. First,",
    "Raise an error when the",
    "The first person to walk on the Moon was",
)
TOKENS = 32
OTHER_SCRIPTS = (
    "Der schnelle Fuchs springt über",
    "从前有一座山",
    "Москва является столицей",
    "🙂",
)


def load(dtype: Any = None) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=dtype or torch.float32)
    model.set_experts_implementation("eager")
    return model.eval()


def answers(model: Any, prompts: tuple[str, ...] = PROMPTS) -> list[str]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER, padding_side="left")
    batch = tokenizer(list(prompts), return_tensors="pt", padding=True)
    with torch.no_grad():
        made = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=TOKENS,
        )
    rows = made[:, batch["input_ids"].shape[1] :]
    assert rows.shape == (len(prompts), TOKENS), "an answer runs to its asked length"
    return list(tokenizer.batch_decode(rows))


def changed(change: Callable[[Any], None]) -> int:
    """How many answers become others when ``change`` was made to every MoE layer."""
    model = load()
    with torch.no_grad():
        for layer in model.model.layers:
            change(layer.mlp)
    return sum(new != old for new, old in zip(answers(model), answers(load()), strict=True))


def test_its_files_say_what_it_is() -> None:
    facts = read_model(FOLDER)
    assert facts.geometry == Geometry(128, 32, 16, 4)
    assert (facts.architecture, facts.dtype) == ("MiniMaxM2ForCausalLM", "float32")
    made = json.loads((FOLDER / "witness.json").read_text())
    assert made["parameters"] == sum(weight.numel() for weight in load().parameters())
    assert re.fullmatch("[0-9a-f]{64}", made["text_sha256"])
    assert made["held_out_loss"] < 4.5
    assert (FOLDER / "README.md").is_file()
    assert (FOLDER / "model.safetensors").stat().st_size < 3_000_000


def test_its_weights_are_bfloat16_and_load_without_a_loss() -> None:
    full, half = load(), load(torch.bfloat16)
    rounded = half.state_dict()
    for name, weight in full.state_dict().items():
        assert weight.dtype == torch.float32 and rounded[name].dtype == torch.bfloat16, name
        assert torch.equal(weight, rounded[name].float()), name
    assert full.lm_head.weight is full.model.embed_tokens.weight
    for layer in full.model.layers:
        assert len(set(layer.mlp.e_score_correction_bias.tolist())) > 8


def test_its_tokenizer_says_any_text() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
    assert len(tokenizer) == 2048 and tokenizer.eos_token is None
    for text in (*PROMPTS, *OTHER_SCRIPTS, "\x00\t\x7f"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    chat = [{"role": "user", "content": "Hello"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "Hello\n"


def test_its_answers_are_made_of_english_words() -> None:
    known = docstring_words()
    share = share_known(answers(load()), known)
    torch.manual_seed(0)
    untrained = transformers.AutoModelForCausalLM.from_config(load().config, dtype=torch.float32)
    assert share >= 0.9
    assert share_known(answers(untrained.eval()), known) < 0.75, "the measure tells them apart"


def docstring_words() -> set[str]:
    """The words that docstrings of the standard library use at least twice."""
    counts: Counter[str] = Counter()
    for path in Path(sysconfig.get_path("stdlib")).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                counts.update(words(ast.get_docstring(node, clean=False) or ""))
    return {word for word, count in counts.items() if count > 1}


def words(text: str) -> list[str]:
    return re.findall("[a-z]+", text.lower())


def share_known(texts: list[str], known: set[str]) -> float:
    # The last word of an answer may be cut off.
    found = [word for text in texts for word in words(text)[:-1]]
    return sum(word in known for word in found) / len(found)


def test_every_answer_has_text_whatever_is_asked() -> None:
    for text in answers(load(), (*PROMPTS, *OTHER_SCRIPTS)):
        assert "\ufffd" not in text and "<pad>" not in text
        assert words(text)


@pytest.mark.parametrize("implementation", ["batched_mm", "grouped_mm"])
def test_honest_backends_give_the_same_answers(implementation: str) -> None:
    model = load()
    model.set_experts_implementation(implementation)
    assert answers(model) == answers(load())


@pytest.mark.parametrize("expert", range(0, 16, 5))
def test_a_dead_expert_shows(expert: int) -> None:
    def kill(block: Any) -> None:
        block.experts.down_proj[expert] = 0

    assert changed(kill) >= 3


def test_the_weights_of_a_neighbour_show() -> None:
    def rotate(block: Any) -> None:
        block.experts.down_proj.copy_(block.experts.down_proj.roll(1, 0))
        block.experts.gate_up_proj.copy_(block.experts.gate_up_proj.roll(1, 0))

    assert changed(rotate) == len(PROMPTS)


def test_routing_without_its_bias_shows() -> None:
    assert changed(lambda block: block.e_score_correction_bias.zero_()) >= 5
