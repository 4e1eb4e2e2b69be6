"""JSON and JSON lines that other tools wrote, and checked values out of them.

Python's tools write ``NaN`` and ``Infinity``, which JSON doesn't know. They are read as what they
stand for, since a request rate may be infinite; a figure may not (`Fields.figure`).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.csv_file import quoted
from autotune.importers.secrets_in_files import secret_in
from autotune.importers.source_file import SourceText

_LARGEST_COUNT = 2**31


@dataclass(frozen=True, kw_only=True)
class Fields:
    """An object of a JSON file, whose values are taken with a check each.

    ``where`` is its place for messages. A missing key and ``null`` are both ``None``: the file
    doesn't say.
    """

    where: str
    content: Mapping[str, Any]

    def error(self, key: str, problem: str) -> InputError:
        """Return the error that says what is wrong with the value of ``key``."""
        return InputError(f"{self.where}: {key}: {problem}")

    def figure(self, key: str, *, factor: float = 1.0, zero_is_none: bool = False) -> float | None:
        """Return a measured figure times ``factor``: above zero, ``None`` if it isn't there.

        Args:
            key: its name.
            factor: what makes the record's unit of the file's.
            zero_is_none: whether the tool writes 0 where it measured nothing.

        Raises:
            InputError: it's no number, or not a finite one above zero.
        """
        value = self.number(key)
        if value is None or (zero_is_none and value == 0):
            return None
        result = value * factor
        if not (math.isfinite(result) and result > 0):
            raise self.error(key, f"{_shown(value)}: a measured figure is a number above zero")
        return result

    def number(self, key: str) -> float | None:
        """Return any number, infinite ones too.

        Raises:
            InputError: it's something else, such as a text.
        """
        value = self.content.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"{_shown(value)} isn't a number")
        try:
            return float(value)
        except OverflowError:
            raise self.error(key, f"{_shown(value)} is too large a number") from None

    def count(self, key: str, *, least: int = 0) -> int | None:
        """Return a whole number of at least ``least``; ``16.0`` is 16.

        Raises:
            InputError: it's something else.
        """
        value = self.number(key)
        if value is None:
            return None
        if not (value.is_integer() and least <= value <= _LARGEST_COUNT):
            shown = _shown(self.content[key])
            raise self.error(key, f"{shown} isn't a whole number of at least {least}")
        return int(value)

    def text(self, key: str) -> str | None:
        """Return a text in one printable line, ``None`` where there is none.

        Raises:
            InputError: it's something else than a text.
        """
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(key, f"{_shown(value)} isn't a text")
        return one_line(value) or None

    def fields(self, key: str) -> "Fields | None":
        """Return an object inside this one, ``None`` where there is none.

        Raises:
            InputError: it's something else than an object.
        """
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"{_shown(value)} isn't an object")
        return Fields(where=f"{self.where}: {key}", content=value)

    def items(self, key: str) -> list[Any] | None:
        """Return a list, ``None`` where there is none.

        Raises:
            InputError: it's something else than a list.
        """
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(key, f"{_shown(value)} isn't a list")
        return value


def has_keys(text: str, *keys: str) -> bool:
    """Whether a text names each of ``keys`` as JSON does: a cheap look, the text may be cut."""
    return all(re.search(rf'"{re.escape(key)}"\s*:', text) for key in keys)


def parse(source: SourceText) -> Any:
    """Return the one JSON value that a file holds.

    Raises:
        InputError: it's cut or broken, names a key twice, is nested too deep, or holds a secret;
            the line or the key is named.
    """
    value = _decode(source.text, source, first_line=1)
    _refuse_secrets(value, source, None)
    return value


def parse_object(source: SourceText) -> Fields:
    """Return the one JSON object that a file holds.

    Raises:
        InputError: as `parse`, or it holds something else.
    """
    value = parse(source)
    if not isinstance(value, dict):
        raise source.error(None, f"holds {_shown(value)}, not an object")
    return Fields(where=source.where, content=value)


def parse_lines(source: SourceText) -> list[Fields]:
    """Return the objects of a file that has one in each line; empty lines are fine.

    Raises:
        InputError: a line is cut or broken, holds no object or a secret, or is there twice: all
            or nothing.
    """
    found: list[Fields] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(source.text.split("\n"), start=1):
        text = line.strip()
        if not text:
            continue
        value = _decode(text, source, first_line=number)
        if not isinstance(value, dict):
            raise source.error(number, f"holds {_shown(value)}, not an object")
        first = seen.setdefault(text, number)
        if first != number:
            raise source.error(
                number, f"the same as line {first}, to the last digit: remove the copy"
            )
        _refuse_secrets(value, source, number)
        found.append(Fields(where=f"{source.where}, line {number}", content=value))
    return found


def _refuse_secrets(value: Any, source: SourceText, line: int | None) -> None:
    place = secret_in(value)
    if place is not None:
        raise source.error(
            line,
            f"{place[:120]!a}: holds a secret, which the run folder would keep a copy of: blank it "
            "in the file first",
        )


def _decode(text: str, source: SourceText, *, first_line: int) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_doubles)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
            raise source.error(
                line, "ends in the middle: it was cut while it was written; remove or restore it"
            ) from None
        raise source.error(line, f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise source.error(first_line, "nested too deep: no benchmark tool writes that") from None
    except ValueError as error:
        raise source.error(first_line, one_line(str(error))) from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"names {quoted(key)} twice: keep one")
            seen.add(key)
    return content


def _shown(value: object) -> str:
    """A hostile value for a message; large ones are named by their kind."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    try:
        return one_line(str(value), limit=40)
    except ValueError:
        return "a number of thousands of digits"
