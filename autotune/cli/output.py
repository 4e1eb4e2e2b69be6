"""Printing: results to stdout, everything else to stderr, and nothing that steers a terminal."""

import sys
from typing import Any


def printable(text: str) -> str:
    """Return ``text`` without control characters, which could steer the reader's terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def tell(text: str) -> None:
    """Print a line of a command's result."""
    print(printable(text), flush=True)


def progress(text: str) -> None:
    """Print a line that isn't the result: to stderr, so that stdout can be piped."""
    print(printable(text), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print an error."""
    progress(f"autotune: {text}")


def tell_json(value: Any) -> None:
    """Print a value as indented JSON; it is all that a command with ``--json`` prints."""
    import msgspec

    plain = msgspec.to_builtins(value, str_keys=True)
    tell(msgspec.json.format(msgspec.json.encode(plain, order="sorted"), indent=2).decode())
