"""Hostile text made fit for an HTML page: escaped, and what can't be seen shown as what it is.

Control characters, invisible ones and those that reorder text are written as escapes (``\\x1b``,
``\\u202e``), so that they neither act nor hide; replacement characters stay, and are marked.
"""

import re
import unicodedata
from html import escape
from itertools import groupby

LONGEST_LINE = 2000

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Spaces wider or narrower than the usual one are part of how people write.
_SPACES = "Zs"


def attribute(text: str) -> str:
    """Return ``text`` for a quoted attribute or a title: one line, invisible characters escaped."""
    return escape("".join(_visible(char) for char in _flat(text)), quote=True)


def line(text: str, *, longest: int = LONGEST_LINE) -> str:
    """Return ``text`` as one line of HTML, cut to ``longest`` characters with an ellipsis."""
    flat = _flat(text)
    return _marked(flat if len(flat) <= longest else f"{flat[: longest - 1].rstrip()}…")


def lines(text: str) -> str:
    """Return ``text`` as HTML that keeps its line breaks and tabs."""
    return _marked(text)


def _flat(text: str) -> str:
    return " ".join(re.split(r"[ \t\r\n\f\v]+", text)).strip(" ")


def _marked(text: str) -> str:
    """Escape ``text``; runs of characters that had to be made visible share one mark."""
    parts: list[str] = []
    for odd, run in groupby(text, key=_is_odd):
        content = escape("".join(map(_visible, run)), quote=True)
        parts.append(f'<span class="odd">{content}</span>' if odd else content)
    return "".join(parts)


def _is_odd(char: str) -> bool:
    return char == _REPLACEMENT or _visible(char) != char


def _visible(char: str) -> str:
    if char.isprintable() or char in "\n\t" or unicodedata.category(char) == _SPACES:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
