"""What is asked of the server: prompts of an exact length, and the digest of a workload."""

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from autotune.errors import InputError, UsageError
from autotune.records.schema import RequestRole

_POOL = 4096
_SCREENED = 32768
_REDRAWS = 20


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: either ``text`` or ``token_ids``. ``input_tokens`` is ``None`` if not known.

    ``max_tokens`` are the output tokens asked of it, where that isn't what its run asks of all.
    """

    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    input_tokens: int | None = None
    max_tokens: int | None = None
    role: RequestRole = "measured"

    def __post_init__(self) -> None:
        if (self.text is None) == (self.token_ids is None):
            raise ValueError("a prompt is either text or token ids")


def random_token_prompts(
    *,
    count: int,
    input_tokens: int,
    vocabulary_size: int,
    seed: int,
    excluded: Collection[int] = (),
) -> list[Prompt]:
    """Draw prompts of random token ids, for servers that take ids.

    First tokens differ from prompt to prompt as long as the vocabulary allows it, so that a
    prefix cache finds nothing to share.

    Args:
        count: how many.
        input_tokens: length of each.
        vocabulary_size: ids are drawn from 0 up to this, exclusive.
        seed: the same seed gives the same prompts.
        excluded: ids that mean something to the server (end of text, image, ...).

    Raises:
        UsageError: a number isn't above zero, or no id is left to draw.
    """
    _check_sizes(count, input_tokens)
    barred = frozenset(excluded)
    ids = [i for i in range(vocabulary_size) if i not in barred]
    if not ids:
        raise UsageError(
            f"vocabulary_size {vocabulary_size} leaves no token to draw: give the model's own"
        )
    rng = random.Random(seed)
    firsts = _without_repeats(ids, rng)
    return [
        Prompt(
            token_ids=(next(firsts), *rng.choices(ids, k=input_tokens - 1)),
            input_tokens=input_tokens,
        )
        for _ in range(count)
    ]


def random_text_prompts(
    *, count: int, input_tokens: int, tokenizer_file: Path, seed: int
) -> list[Prompt]:
    """Draw texts that a tokenizer maps to exactly ``input_tokens`` tokens.

    For servers that take text only. The texts are words that are one token each; every text is
    encoded again, with the special tokens that the tokenizer adds, before it is returned.

    Args:
        count: how many.
        input_tokens: length of each, special tokens included.
        tokenizer_file: the model's ``tokenizer.json``.
        seed: the same seed gives the same prompts.

    Raises:
        UsageError: ``count`` or ``input_tokens`` isn't above zero.
        InputError: the file isn't a tokenizer, or no text of that length was found.
    """
    _check_sizes(count, input_tokens)
    tokenizer = _load_tokenizer(tokenizer_file)
    special = len(tokenizer.encode("").ids)
    if input_tokens <= special:
        raise InputError(
            f"{tokenizer_file}: it adds {special} special tokens to every text, so prompts of "
            f"{input_tokens} tokens can't be made: ask for more input tokens"
        )
    rng = random.Random(seed)
    words = _one_token_words(tokenizer, rng)
    if len(words) < 2:
        raise InputError(
            f"{tokenizer_file}: no words of one token each, so prompts of an exact length can't "
            "be made: give your own prompts in a JSONL file"
        )
    firsts = _without_repeats(words, rng)
    return [
        _exact_text(tokenizer, words, next(firsts), length=input_tokens, rng=rng)
        for _ in range(count)
    ]


def read_prompts(path: Path) -> list[Prompt]:
    """Read prompts from JSON lines.

    A line is ``{"prompt": TEXT}``, ``{"text": TEXT}`` or ``{"token_ids": [...]}``; blank lines
    and other keys are skipped.

    Raises:
        InputError: the file can't be read, holds no prompt, or a line isn't one (it is named).
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}): name a JSONL file") from None
    prompts = [
        _prompt_of(line, where=f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not prompts:
        raise InputError(f'{path}: no prompts: write one JSON object a line, {{"prompt": "..."}}')
    return prompts


def workload_digest(
    *,
    kind: str,
    output_tokens: int,
    input_tokens: int | None = None,
    prompts_sha256: str | None = None,
    sampling: Mapping[str, Any] | None = None,
) -> str:
    """Return the SHA-256 of what defines a workload, in hex.

    Equal for every candidate and round of a sweep, so the seed of a round isn't in it, nor
    the engine. Tables of different digests must not be compared.

    Args:
        kind: ``completions`` or ``chat``.
        output_tokens: asked of each request.
        input_tokens: length of drawn prompts; ``None`` where they come from a file.
        prompts_sha256: hash of the prompts' file; ``None`` where they are drawn.
        sampling: settings beside temperature 0, e.g. ``{"ignore_eos": True}``.
    """
    facts = {
        "kind": kind,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "prompts_sha256": prompts_sha256,
        "sampling": {"temperature": 0} | dict(sampling or {}),
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()


class _Line(msgspec.Struct):
    prompt: str | None = None
    text: str | None = None
    token_ids: tuple[int, ...] | None = None


def _prompt_of(line: bytes, *, where: str) -> Prompt:
    try:
        row = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not a prompt: {error}") from None
    given = [value for value in (row.prompt, row.text, row.token_ids) if value is not None]
    if len(given) != 1 or not given[0]:
        raise InputError(f'{where}: give one of "prompt", "text" or "token_ids", and not empty')
    if row.token_ids is None:
        return Prompt(text=row.prompt if row.prompt is not None else row.text)
    if min(row.token_ids) < 0:
        raise InputError(f"{where}: a token id is below zero")
    return Prompt(token_ids=row.token_ids, input_tokens=len(row.token_ids))


def _check_sizes(count: int, input_tokens: int) -> None:
    if count < 1 or input_tokens < 1:
        raise UsageError(
            f"{count} prompts of {input_tokens} tokens can't be drawn: both must be at least 1"
        )


def _load_tokenizer(path: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    # The library raises plain Exception for every kind of bad file.
    except Exception as error:
        raise InputError(f"{path}: not a tokenizer.json that can be read: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _one_token_words(tokenizer: Tokenizer, rng: random.Random) -> list[str]:
    """Words that add one token each when they follow another one after a space."""
    ids = range(tokenizer.get_vocab_size())
    screened = rng.sample(ids, min(len(ids), _SCREENED))
    decoded = tokenizer.decode_batch([[i] for i in screened], skip_special_tokens=True)
    unique = sorted({text.strip() for text in decoded})
    words = [word for word in unique if word.isascii() and word.isalpha()]
    if len(words) < 2:
        words = [word for word in unique if word and word.isprintable() and " " not in word]
    alone = tokenizer.encode_batch(words)
    twice = tokenizer.encode_batch([f"{word} {word}" for word in words])
    kept = [
        word
        for word, one, two in zip(words, alone, twice, strict=True)
        if len(two.ids) - len(one.ids) == 1
    ]
    return kept if len(kept) <= _POOL else rng.sample(kept, _POOL)


def _exact_text(
    tokenizer: Tokenizer, words: Sequence[str], first: str, *, length: int, rng: random.Random
) -> Prompt:
    """Draw words until the text has ``length`` tokens: drop or add at the end, else draw again."""
    for _ in range(_REDRAWS):
        drawn = [first, *rng.choices(words, k=length - 1)]
        for _ in range(_REDRAWS):
            text = " ".join(drawn)
            over = len(tokenizer.encode(text).ids) - length
            if over == 0:
                return Prompt(text=text, input_tokens=length)
            if over > 0:
                del drawn[max(1, len(drawn) - over) :]
            else:
                drawn += rng.choices(words, k=-over)
        first = rng.choice(words)
    raise InputError(
        f"no text of exactly {length} tokens was found with this tokenizer in {_REDRAWS} draws: "
        "ask for more input tokens, or give your own prompts in a JSONL file"
    )


def _without_repeats(values: Sequence[Any], rng: random.Random) -> Iterator[Any]:
    """Yield the values in random order, over and over."""
    while True:
        yield from rng.sample(values, len(values))
