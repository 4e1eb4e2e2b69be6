"""The fixed prompts that correctness is asked with: short ones, code, other languages, long ones.

The texts are part of the evidence: changing one changes `prompts_digest`, and answers to prompts
of another digest aren't comparable. They are many rather than long: a server that answers the same
each time shows nothing new when a prompt is repeated.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.errors import InputError
from autotune.records.schema import ProbePrompt, PromptKind

_SHORT = {
    "capital": "Question: What is the capital of France?\nAnswer:",
    "sum": "Question: What is 2 + 2?\nAnswer:",
    "count": "Count from one to twenty: one, two, three,",
    "list": "The days of the week are Monday,",
    "history": "The first person to walk on the Moon was",
    "definition": "A thermometer is an instrument that",
    "story": "Once upon a time, in a village by the sea, there lived",
    "manual": "If the file cannot be opened, an exception is raised. Otherwise",
}
_CODE = {
    "function": "def fibonacci(n):\n    ",
    "docstring": 'def split_words(text):\n    """Return the list of words in',
    "json": '{"name": "Ada", "born": 1815, "occupation":',
    "sql": "SELECT name, COUNT(*) FROM orders WHERE",
    "table": "| city | country |\n| --- | --- |\n| Paris | France |\n| Rome |",
}
_LANGUAGE = {
    "german": "Der schnelle braune Fuchs springt über den faulen",
    "chinese": "从前有一座山。山上有一座庙。庙里有",
    "spanish": "La capital de España es Madrid y la capital de Portugal es",
    "russian": "Москва является столицей",
}
_CODE_LINES = (
    "def step_{number}(values):",
    '    """Return every value that is larger than {large}."""',
    "    return [value for value in values if value > {large}]",
    "",
)
# Without a tokenizer, a token is taken to be this many characters of English.
_CHARACTERS_PER_TOKEN = 4
_SHORTEST_LONG_TOKENS = 16


def probe_prompts(*, long_tokens: int, tokenizer_file: Path | None) -> tuple[ProbePrompt, ...]:
    """Return the prompts, eight long ones among them: four of ``long_tokens`` tokens, four of half.

    Raises:
        InputError: ``tokenizer_file`` isn't a tokenizer.
    """
    cut = _cutter(tokenizer_file)
    half = max(_SHORTEST_LONG_TOKENS, long_tokens // 2)
    long_texts = {
        f"{size}_{kind}": cut(write(tokens, first), tokens)
        for size, tokens, first in (("long", long_tokens, 1), ("half", half, 1000))
        for kind, write in _LONG.items()
    }
    kinds: tuple[tuple[PromptKind, dict[str, str]], ...] = (
        ("short", _SHORT),
        ("code", _CODE),
        ("language", _LANGUAGE),
        ("long", long_texts),
    )
    return tuple(
        ProbePrompt(name=name, kind=kind, text=text)
        for kind, texts in kinds
        for name, text in texts.items()
    )


def prompts_digest(prompts: Sequence[ProbePrompt]) -> str:
    """Return a SHA-256 that is equal only for the same prompts under the same names."""
    joined = "\0".join(
        f"{one.name}\0{one.text}" for one in sorted(prompts, key=lambda one: one.name)
    )
    return hashlib.sha256(joined.encode()).hexdigest()


def _list(tokens: int, first: int) -> str:
    return " ".join(
        f"Item {number} of the list costs {number * 7 % 101} coins and weighs {number * 3} grams."
        for number in range(first, first + 1 + tokens // 4)
    )


def _code(tokens: int, first: int) -> str:
    return "\n".join(
        line.format(number=number, large=number * 13 % 97)
        for number in range(first, first + 1 + tokens // 8)
        for line in _CODE_LINES
    )


def _letters(tokens: int, first: int) -> str:
    return "\n\n".join(
        f"Dear member {number},\n\nThank you for your letter. The meeting is in room "
        f"{number * 11 % 89}, and we are sorry to tell you that it begins {number % 7} hours late."
        for number in range(first, first + 1 + tokens // 8)
    )


def _log(tokens: int, first: int) -> str:
    return "\n".join(
        f"step {number}: loss {number * 37 % 101 / 10}, {number * 5} files read, no error"
        for number in range(first, first + 1 + tokens // 4)
    )


_LONG = {"list": _list, "code": _code, "letters": _letters, "log": _log}


def _cutter(tokenizer_file: Path | None) -> Callable[[str, int], str]:
    """A function that cuts a text to so many tokens."""
    if tokenizer_file is None:
        return lambda text, tokens: text[: tokens * _CHARACTERS_PER_TOKEN]
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # the library raises bare Exception for any bad file
        raise InputError(f"{tokenizer_file}: not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def cut(text: str, tokens: int) -> str:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets[:tokens]
        if not offsets:
            raise InputError(f"{tokenizer_file}: it makes no tokens of plain text")
        return text[: offsets[-1][1]]

    return cut
