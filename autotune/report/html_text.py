"""Hostile text made fit for an HTML page: escaped, and what can't be seen shown as what it is.

Control characters, invisible ones and those that reorder text are written as escapes (``\\x1b``,
``\\u202e``), so that they neither act nor hide; replacement characters stay, and are marked.

Escapes are long: a text of control characters grows manyfold. So each text's HTML has a limit in
bytes, too, and what doesn't fit is counted.
"""

import re
import unicodedata
from html import escape
from itertools import groupby

LONGEST_LINE = 2000
# Bytes of HTML of one text, on one line or on several: an ordinary one of the length that is shown
# at all fits, in any script.
MOST_BYTES = 9000

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MARK = ('<span class="odd">', "</span>")
# Spaces wider or narrower than the usual one are part of how people write.
_SPACES = "Zs"


def attribute(text: str) -> str:
    """Return ``text`` for a quoted attribute or a title: one line, invisible characters escaped."""
    return escape("".join(_visible(char) for char in _flat(text)), quote=True)


def line(text: str, *, longest: int = LONGEST_LINE, most_bytes: int = MOST_BYTES) -> str:
    """Return ``text`` as one line of HTML, cut to ``longest`` characters with an ellipsis.

    The HTML has at most ``most_bytes``, beside the words that say how much more there was.
    """
    flat = _flat(text)
    cut = flat if len(flat) <= longest else f"{flat[: longest - 1].rstrip()}…"
    html, left = _marked(cut, most_bytes=most_bytes)
    return f"{html}… ({left_out(len(flat) - len(cut) + left)})" if left else html


def lines(text: str, *, most_bytes: int = MOST_BYTES) -> tuple[str, int]:
    """Return ``text`` as HTML that keeps its line breaks and tabs.

    Args:
        text: what to show.
        most_bytes: of the HTML, in UTF-8.

    Returns:
        The HTML, and how many characters of the text didn't fit.
    """
    return _marked(text, most_bytes=most_bytes)


def left_out(characters: int) -> str:
    """Return how much of a text isn't shown, in words."""
    noun = "character isn't" if characters == 1 else "characters aren't"
    return f"{characters:,} more {noun} shown"


def _flat(text: str) -> str:
    return " ".join(re.split(r"[ \t\r\n\f\v]+", text)).strip(" ")


def _marked(text: str, *, most_bytes: int) -> tuple[str, int]:
    """Escape ``text``; runs of characters that had to be made visible share one mark.

    What isn't reached is left out, and how many characters that are is returned beside it.
    """
    parts: list[str] = []
    shown = 0
    for odd, run in groupby(text, key=_is_odd):
        opening, closing = _MARK if odd else ("", "")
        most_bytes -= len(opening) + len(closing)
        content: list[str] = []
        for char in run:
            escaped = escape(_visible(char), quote=True)
            most_bytes -= len(escaped.encode())
            if most_bytes < 0:
                break
            content.append(escaped)
        if content:
            parts.append(f"{opening}{''.join(content)}{closing}")
            shown += len(content)
        if most_bytes < 0:
            break
    return "".join(parts), len(text) - shown


def _is_odd(char: str) -> bool:
    return char == _REPLACEMENT or _visible(char) != char


def _visible(char: str) -> str:
    if char.isprintable() or char in "\n\t" or unicodedata.category(char) == _SPACES:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
