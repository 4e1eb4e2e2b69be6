"""What a server is told: the status, the backend if there is one, and why, as safe text."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from autotune.decisions.request import ResolveRequest
from autotune.decisions.schema import Entry

Status = Literal[
    "applied", "explicit", "no_decision", "out_of_scope", "stale", "invalid", "disabled"
]

LINE_LIMIT = 500
ACCEPTED = "accepted: "
_DESCRIPTION_LIMIT = 2000
_MOST_WARNINGS = 20


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request; encodes to JSON as it is.

    Attributes:
        status: ``applied`` and ``explicit`` come with a backend; the rest leave the engine's own
            default (``disabled`` keeps a backend that the user named).
        backend: what to start with, ``None`` for the engine's own default.
        reason: one printable line of at most ``LINE_LIMIT`` characters.
        warnings: one such line each: everything a reader should know beside the reason.
        mismatches: those of ``warnings`` that are known differences between what was measured and
            this launch; a strict caller may refuse to start on them.
        file: the decision file that the answer comes from or that couldn't be read.
        entry: the entry in scope, also when it is ``stale``.
        request: what was asked, with unprintable characters escaped.
    """

    status: Status
    backend: str | None
    reason: str
    request: ResolveRequest
    warnings: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()
    file: str | None = None
    entry: Entry | None = None


def answer(
    request: ResolveRequest,
    status: Status,
    *,
    reason: str,
    backend: str | None = None,
    warnings: Iterable[str] = (),
    mismatches: Iterable[str] = (),
    file: str | None = None,
    entry: Entry | None = None,
) -> Resolution:
    """Build a resolution. Every text passes here, so that none can break a log line."""
    return Resolution(
        status=status,
        backend=None if backend is None else printable(backend),
        reason=one_line(reason),
        request=_printable_request(request),
        warnings=_lines(warnings),
        mismatches=_lines(mismatches),
        file=None if file is None else printable(file),
        entry=entry,
    )


def describe(resolution: Resolution) -> str:
    """Return the one line for a log: status, what was asked, why, the file, the warnings."""
    asked = resolution.request
    parts = [
        f"autotune: {resolution.status} ({asked.model}, {asked.quantization}, {asked.arch}): "
        f"{resolution.reason}"
    ]
    if resolution.backend is None:
        parts.append("the engine's own default is kept")
    if resolution.file is not None:
        parts.append(f"file {resolution.file}")
    parts.extend(
        f"warning: {warning}"
        for warning in resolution.warnings
        # What was accepted stands in the reason already.
        if not warning.startswith(ACCEPTED)
    )
    return one_line("; ".join(parts), limit=_DESCRIPTION_LIMIT)


def printable(text: str) -> str:
    """Return ``text`` with control, direction-changing and surrogate characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def one_line(text: str, *, limit: int = LINE_LIMIT) -> str:
    """Return ``text`` printable and cut to ``limit`` characters; the cut shows as ``...``."""
    line = printable(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    lines = [one_line(text) for text in texts]
    more = len(lines) - _MOST_WARNINGS
    return tuple(lines) if more <= 0 else (*lines[:_MOST_WARNINGS], f"and {more} more")


def _printable_request(request: ResolveRequest) -> ResolveRequest:
    """Escape the texts of a request: a lone surrogate from ``argv`` can't be encoded as JSON."""
    changes: dict[str, object] = {}
    for field in request.__struct_fields__:
        value = getattr(request, field)
        if isinstance(value, str) and not value.isprintable():
            changes[field] = printable(value)
        elif isinstance(value, dict):
            changes[field] = {printable(key): printable(text) for key, text in value.items()}
    return msgspec.structs.replace(request, **changes) if changes else request
