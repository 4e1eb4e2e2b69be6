"""In which line of a JSON file each value stands, and which keys are written twice. Pure.

Decoders say neither: the last of two equal keys wins silently. This isn't a decoder: of text that
isn't JSON it says what it can.
"""

import json
import re
from dataclasses import dataclass, field

from autotune.review.findings import Place

# A string, a piece of punctuation, or a number or word.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
# Decision files are six levels deep; places of a deeper one would take quadratic room.
_DEEPEST = 32


@dataclass(frozen=True)
class JsonLines:
    """``lines`` by place, counted from 1 (of a key, its line); ``twice`` are repeated keys."""

    lines: dict[Place, int] = field(default_factory=dict)
    twice: tuple[Place, ...] = ()


@dataclass
class _Container:
    """An object or array that is being read: where it is, and what comes next in it."""

    place: Place
    in_object: bool
    part: str | int
    expects_key: bool


def read_lines(data: bytes) -> JsonLines:
    """Return the lines of every key and element of a JSON document."""
    text = data.decode("utf-8", errors="replace")
    lines: dict[Place, int] = {}
    twice: list[Place] = []
    stack: list[_Container] = []
    line, position = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        token = match[0]
        top = stack[-1] if stack else None
        if top is not None and top.expects_key and token.startswith('"'):
            place = (*top.place, _unquoted(token))
            if place in lines:
                twice.append(place)
            lines[place] = line
            top.part = place[-1]
        elif token == ":" and top is not None:
            top.expects_key = False
        elif token == "," and top is not None:
            _next_part(top)
        elif token in ("}", "]"):
            if stack:
                stack.pop()
        else:
            place = (*top.place, top.part) if top is not None else ()
            lines.setdefault(place, line)
            if token in ("{", "["):
                if len(stack) == _DEEPEST:
                    break
                is_object = token == "{"
                stack.append(_Container(place, is_object, "" if is_object else 0, is_object))
    return JsonLines(lines, tuple(twice))


def _next_part(container: _Container) -> None:
    if container.in_object:
        container.expects_key = True
    elif isinstance(container.part, int):
        container.part += 1


def _unquoted(token: str) -> str:
    try:
        text = json.loads(token)
    except ValueError:
        return token
    return text if isinstance(text, str) else token


_ERROR_BYTE = re.compile(r"\(byte (\d{1,9})\)")
_ERROR_PLACE = re.compile(r"at `(?:key in )?\$([^`]*)`")
_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d{1,9})\]")
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")


def error_line(message: str, data: bytes) -> int | None:
    """Return the line that a decoder's message (msgspec's) is about, ``None`` if it says none."""
    at_byte = _ERROR_BYTE.search(message)
    if at_byte is not None:
        return data.count(b"\n", 0, int(at_byte[1])) + 1
    found = _ERROR_PLACE.search(message)
    parts = _PART.finditer(found[1]) if found is not None else ()
    place: Place = tuple(part[1] or int(part[2]) for part in parts)
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown is not None:
        place = (*place, unknown[1])
    lines = read_lines(data).lines
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place) if place else None
