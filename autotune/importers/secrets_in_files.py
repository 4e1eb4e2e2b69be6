"""Secrets in result files: a run folder keeps a copy of each file, and is checked in."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.environment import looks_secret

_BEARER = re.compile(r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)
# A word with a colon alone may be prose.
_HEADER = re.compile(r"(?:[A-Za-z]+(?:-[A-Za-z]+)+|Authorization|Cookie):", re.IGNORECASE)
_BLANKS = ("<redacted>", "redacted", "[redacted]", "none", "null")
# A text that holds JSON may hold a text that does.
_MOST_TEXTS_WITHIN = 3


def secret_in(content: Any) -> str | None:
    """Return the place of a secret in JSON's content, ``None`` where there is none.

    A secret is a text under a key, or behind a header or a command's flag, that is named like
    one, or what follows ``Bearer``. Texts that hold JSON are looked into. What a tool has blanked
    already, with ``***`` or ``<redacted>``, is none. The place is a key's or a flag's name, and
    doesn't hold the secret itself.
    """
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    while waiting:
        path, value, within = waiting.pop()
        if isinstance(value, str):
            flag = _named_in(value.split())
            if flag is not None or _BEARER.search(value):
                return f"{path} {flag}" if flag else path
            inner = _parsed(value) if within < _MOST_TEXTS_WITHIN else None
            if inner is not None:
                waiting.append((path, inner, within + 1))
        elif isinstance(value, list):
            words = [each if isinstance(each, str) else "" for each in value]
            is_pair = len(words) == 2 and looks_secret(words[0]) and not _is_blank(words[1])
            flag = words[0] if is_pair else _named_in(words)
            if flag is not None:
                return f"{path} {flag}"
            waiting += [(f"{path}[{index}]", each, within) for index, each in enumerate(value)]
        elif isinstance(value, Mapping):
            for key, each in value.items():
                place = f"{path}.{key}" if path else str(key)
                if looks_secret(str(key)) and any(not _is_blank(text) for text in _texts(each)):
                    return place
                waiting.append((place, each, within))
    return None


def _named_in(words: list[str]) -> str | None:
    """The first flag or header among words that is named like a secret and has a value."""
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        name, sign, value = _parted(word)
        if not name or not looks_secret(name):
            continue
        if not _is_blank(value if sign and value else following):
            return name
    return None


def _parted(word: str) -> tuple[str, str, str]:
    """A flag's or a header's name, the sign behind it, and its value; other words have no name."""
    word = word.strip("'\"")
    if word.startswith("--"):
        return word.partition("=")
    return word.partition(":") if _HEADER.match(word) else ("", "", "")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _parsed(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_blank(text: str) -> bool:
    bare = text.strip().strip("*'\"").lower()
    return not bare or bare in _BLANKS or bare.startswith("--")
