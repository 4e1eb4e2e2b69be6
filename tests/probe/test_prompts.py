from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from autotune.errors import InputError
from autotune.probe.prompts import probe_prompts, prompts_digest
from autotune.records.schema import ProbePrompt

KINDS = ("list", "code", "letters", "log")
LONG = {f"{size}_{kind}": share for size, share in (("long", 1), ("half", 2)) for kind in KINDS}


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


def long_prompts(tokens: int, file: Path | None) -> dict[str, str]:
    prompts = probe_prompts(long_tokens=tokens, tokenizer_file=file)
    return {prompt.name: prompt.text for prompt in prompts if prompt.kind == "long"}


def test_asks_many_different_prompts_of_every_kind() -> None:
    prompts = probe_prompts(long_tokens=100, tokenizer_file=None)
    kinds = Counter(prompt.kind for prompt in prompts)
    assert len(prompts) >= 25 and set(kinds) == {"short", "code", "language", "long"}
    assert min(kinds.values()) >= 4
    assert len({prompt.name for prompt in prompts}) == len(prompts)
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert all(prompt.text.strip() for prompt in prompts)
    assert prompts == probe_prompts(long_tokens=100, tokenizer_file=None)


@pytest.mark.parametrize("tokens", [32, 33, 512, 5000])
def test_long_prompts_have_the_asked_length_and_half_of_it(tokens: int, tmp_path: Path) -> None:
    made = tokenizer()
    texts = long_prompts(tokens, save(made, tmp_path))
    assert set(texts) == set(LONG)
    for name, share in LONG.items():
        asked = tokens // share
        assert len(made.encode(texts[name]).ids) == pytest.approx(asked, abs=1)


@pytest.mark.parametrize("tokens", [32, 512, 5000])
def test_without_a_tokenizer_the_length_is_an_estimate(tokens: int) -> None:
    texts = long_prompts(tokens, None)
    assert {name: len(text) for name, text in texts.items()} == {
        name: 4 * tokens // share for name, share in LONG.items()
    }


def test_the_shortest_long_prompts_still_say_something() -> None:
    texts = long_prompts(1, None)
    assert {len(texts[f"half_{kind}"]) for kind in KINDS} == {64}
    assert all(texts.values())


def test_long_prompts_share_no_beginning_of_one_kind() -> None:
    """A prefix cache mustn't answer one of them from another."""
    texts = long_prompts(512, None)
    for kind in KINDS:
        assert texts[f"long_{kind}"][:16] != texts[f"half_{kind}"][:16]


def test_a_tokenizers_own_limit_does_not_shorten_the_long_prompts(tmp_path: Path) -> None:
    made = tokenizer()
    made.enable_truncation(64)
    texts = long_prompts(512, save(made, tmp_path))
    made.no_truncation()
    assert len(made.encode(texts["long_list"]).ids) == pytest.approx(512, abs=1)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": 1}')
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer"):
        long_prompts(32, tmp_path / "tokenizer.json")


def test_a_tokenizer_that_encodes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tokens of plain text"):
        long_prompts(32, save(Tokenizer(models.BPE()), tmp_path))


def named(texts: dict[str, str]) -> list[ProbePrompt]:
    return [ProbePrompt(name=name, kind="short", text=text) for name, text in texts.items()]


def test_the_digest_tells_prompt_sets_apart() -> None:
    prompts = {"a": "x", "b": "y"}
    assert prompts_digest(named(prompts)) == prompts_digest(named({"b": "y", "a": "x"}))
    others = [{"a": "y", "b": "x"}, {"a": "x"}, {"a": "x", "c": "y"}, {}]
    assert len({prompts_digest(named(p)) for p in [prompts, *others]}) == 5


@given(
    st.dictionaries(st.text("ab", min_size=1), st.text("xy\n"), max_size=4),
    st.dictionaries(st.text("ab", min_size=1), st.text("xy\n"), max_size=4),
)
def test_digests_are_equal_for_equal_sets_only(one: dict[str, str], other: dict[str, str]) -> None:
    assert (prompts_digest(named(one)) == prompts_digest(named(other))) == (one == other)


def test_prompts_of_another_length_have_another_digest() -> None:
    digests = {
        prompts_digest(probe_prompts(long_tokens=tokens, tokenizer_file=None))
        for tokens in (64, 128, 129)
    }
    assert len(digests) == 3
