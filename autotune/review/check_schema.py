"""Whether a decision file's bytes are one, say what their place says, and are as they're written.

Pure: bytes in, issues out. Whether what they say is true is `evidence`'s question.
"""

import json
from collections.abc import Iterator
from typing import Any

from autotune.decide.entry import scope_identity
from autotune.decisions.check import check_decision
from autotune.decisions.schema import DecisionFile, DecisionKey, decode, encode
from autotune.decisions.store import SIZE_LIMIT
from autotune.errors import DecisionFileError
from autotune.review.check_lines import JsonLines, error_line
from autotune.review.findings import Issue, entry_place, shown

_REWRITE = "let `autotune decide RUN --into DIR` write it"
_HERE = "it"


def read_decision(data: bytes, key: DecisionKey | None) -> DecisionFile | Issue:
    """Decode a decision file; return why where a server couldn't use it.

    Args:
        data: the whole file.
        key: the key that its place stands for, ``None`` where the place says none.
    """
    if len(data) > SIZE_LIMIT:
        said = f"has {len(data)} bytes, servers read at most {SIZE_LIMIT}"
        return _wrong("too_large", said, "remove entries of releases that nobody runs")
    try:
        decision = decode(data, where=_HERE)
    except DecisionFileError as error:
        return Issue(
            level="wrong",
            code="schema",
            message=_plain(error),
            place=("schema_version",),
            line=error_line(str(error), data),
        )
    try:
        check_decision(decision, key or decision.key, where=_HERE)
    except DecisionFileError as error:
        place = ("key",) if key not in (None, decision.key) else ()
        return Issue(level="wrong", code="contradiction", message=_plain(error), place=place)
    return decision


def check_form(data: bytes, decision: DecisionFile, written: JsonLines) -> Iterator[Issue]:
    """Tell how a file that decodes differs from what autotune would write of the same content."""
    for place in written.twice:
        said = f"{shown(place)} is written twice, and readers take the last"
        yield Issue(level="wrong", code="written_twice", message=said, remedy=_REWRITE, place=place)
    identities = [scope_identity(entry.scope) for entry in decision.entries]
    if identities != sorted(identities):
        said = "the entries aren't in the order in which they are written"
        yield _wrong("not_canonical", said, _REWRITE)
    canonical = encode(decision)
    if canonical == data or written.twice:
        return
    left_out = _left_out(data, canonical)
    if left_out:
        said = f"fields are left to their defaults ({', '.join(left_out[:5])}"
        said += ", ..." if len(left_out) > 5 else ""
        yield Issue(
            level="note",
            code="defaults",
            message=f"{said}): an older release wrote it, or a hand",
            remedy="`autotune decide RUN --into DIR` writes them",
        )
    else:
        said = "not canonical: its content is written in another way (order of keys, spaces, "
        yield _wrong("not_canonical", f"{said}numbers) than autotune writes it", _REWRITE)


def check_duplicates(decision: DecisionFile) -> Iterator[Issue]:
    """Tell of entries with the same scope: which of them a server takes is nobody's decision."""
    first: dict[bytes, int] = {}
    for index, entry in enumerate(decision.entries):
        other = first.setdefault(scope_identity(entry.scope), index)
        if other != index:
            yield Issue(
                level="wrong",
                code="same_scope",
                message=f"has the same scope as entry {other}: two decisions for one",
                remedy="keep the one whose evidence is newer",
                place=entry_place(index),
            )


def _left_out(data: bytes, canonical: bytes) -> list[str]:
    """Fields that only the canonical form has, if that is all in which the contents differ."""
    try:
        mine, theirs = json.loads(data), json.loads(canonical)
    except (ValueError, RecursionError):
        return []
    missing: list[str] = []
    return missing if _covers(mine, theirs, "", missing) else []


def _covers(mine: Any, whole: Any, name: str, missing: list[str]) -> bool:
    """Whether ``whole`` is ``mine`` with more keys, which are added to ``missing``."""
    if isinstance(mine, dict) and isinstance(whole, dict):
        missing += [f"{name}.{key}".removeprefix(".") for key in sorted(whole.keys() - mine.keys())]
        return mine.keys() <= whole.keys() and all(
            _covers(mine[key], whole[key], f"{name}.{key}", missing) for key in sorted(mine)
        )
    if isinstance(mine, list) and isinstance(whole, list) and len(mine) == len(whole):
        return all(
            _covers(one, other, f"{name}[{index}]", missing)
            for index, (one, other) in enumerate(zip(mine, whole, strict=True))
        )
    return bool(mine == whole)


def _plain(error: DecisionFileError) -> str:
    return str(error).removeprefix(f"{_HERE}: ")


def _wrong(code: str, message: str, remedy: str) -> Issue:
    return Issue(level="wrong", code=code, message=message, remedy=remedy)
