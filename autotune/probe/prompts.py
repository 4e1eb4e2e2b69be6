"""The fixed prompts that correctness is asked with: short ones, code, other languages, a long one.

The texts are part of the evidence: changing one changes `prompts_digest`, and records of another
digest aren't comparable.
"""

import hashlib
from pathlib import Path

from autotune.errors import InputError

SHORT_PROMPTS = {
    "capital": "Question: What is the capital of France?\nAnswer:",
    "sum": "Question: What is 2 + 2?\nAnswer:",
    "count": "Count from one to twenty: one, two, three,",
    "code": "def fibonacci(n):\n    ",
    "list": "The days of the week are Monday,",
    "german": "Der schnelle braune Fuchs springt über den faulen",
    "chinese": "从前有一座山",
    "json": '{"name": "Ada", "born": 1815, "occupation":',
}
LONG_PROMPT = "long"
# Without a tokenizer, a token is taken to be this many characters of English.
_CHARACTERS_PER_TOKEN = 4


def probe_prompts(*, long_tokens: int, tokenizer_file: Path | None) -> dict[str, str]:
    """Return the prompts by name, with a long one of about ``long_tokens`` tokens.

    Raises:
        InputError: ``tokenizer_file`` isn't a tokenizer.
    """
    return {**SHORT_PROMPTS, LONG_PROMPT: _long_text(long_tokens, tokenizer_file)}


def prompts_digest(prompts: dict[str, str]) -> str:
    """Return a SHA-256 that is equal only for the same prompts under the same names."""
    joined = "\0".join(f"{name}\0{text}" for name, text in sorted(prompts.items()))
    return hashlib.sha256(joined.encode()).hexdigest()


def _long_text(tokens: int, tokenizer_file: Path | None) -> str:
    text = " ".join(
        f"Item {number} of the list costs {number * 7 % 101} coins and weighs {number * 3} grams."
        for number in range(1, 2 + tokens // 4)
    )
    if tokenizer_file is None:
        return text[: tokens * _CHARACTERS_PER_TOKEN]
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # the library raises bare Exception for any bad file
        raise InputError(f"{tokenizer_file}: not a tokenizer: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets[:tokens]
    if not offsets:
        raise InputError(f"{tokenizer_file}: it makes no tokens of plain text")
    return text[: offsets[-1][1]]
