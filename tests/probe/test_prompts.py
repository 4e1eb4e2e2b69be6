from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from autotune.errors import InputError
from autotune.probe.prompts import LONG_PROMPT, SHORT_PROMPTS, probe_prompts, prompts_digest


def tokenizer() -> Tokenizer:
    """A byte-level tokenizer that can encode anything, its vocabulary hardly above the bytes."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = "Item 1 of the list costs 7 coins and weighs 3 grams."
    made.train_from_iterator([text] * 20, trainer)
    return made


def save(made: Tokenizer, folder: Path) -> Path:
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def long_prompt(tokens: int, file: Path | None) -> str:
    return probe_prompts(long_tokens=tokens, tokenizer_file=file)[LONG_PROMPT]


def test_asks_every_short_prompt_and_a_long_one() -> None:
    prompts = probe_prompts(long_tokens=100, tokenizer_file=None)
    assert set(prompts) == {*SHORT_PROMPTS, LONG_PROMPT}
    assert all(text.strip() for text in prompts.values())
    assert prompts == probe_prompts(long_tokens=100, tokenizer_file=None)


@pytest.mark.parametrize("tokens", [1, 17, 512, 5000])
def test_the_long_prompt_has_the_asked_length(tokens: int, tmp_path: Path) -> None:
    made = tokenizer()
    text = long_prompt(tokens, save(made, tmp_path))
    assert len(made.encode(text).ids) == pytest.approx(tokens, abs=1)


@pytest.mark.parametrize("tokens", [1, 512, 5000])
def test_without_a_tokenizer_the_length_is_an_estimate(tokens: int) -> None:
    assert len(long_prompt(tokens, None)) == 4 * tokens


def test_a_tokenizers_own_limit_does_not_shorten_the_long_prompt(tmp_path: Path) -> None:
    made = tokenizer()
    made.enable_truncation(64)
    text = long_prompt(512, save(made, tmp_path))
    made.no_truncation()
    assert len(made.encode(text).ids) == pytest.approx(512, abs=1)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": 1}')
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer"):
        long_prompt(10, tmp_path / "tokenizer.json")


def test_a_tokenizer_that_encodes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        long_prompt(10, save(Tokenizer(models.BPE()), tmp_path))


def test_the_digest_tells_prompt_sets_apart() -> None:
    prompts = {"a": "x", "b": "y"}
    assert prompts_digest(prompts) == prompts_digest({"b": "y", "a": "x"})
    others = [{"a": "y", "b": "x"}, {"a": "x"}, {"a": "x", "c": "y"}, {}]
    assert len({prompts_digest(p) for p in [prompts, *others]}) == 5
