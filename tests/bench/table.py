"""The bench's table in docs/correctness.md: written from rows, and read back."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.bench.cases import case
from tests.bench.gate import Row

DOCUMENT = Path(__file__).parents[2] / "docs" / "correctness.md"
_BETWEEN = re.compile(r"(<!-- defects:begin -->\n).*?(<!-- defects:end -->)", re.DOTALL)
_KIND = {
    "loud": "broken",
    "subtle": "broken",
    "small": "broken",
    "honest": "honest",
    "harmless": "honest",
}
_SHOWN = {
    "requests": "lost requests",
    "health": "garbled answers",
    "agreement": "other tokens",
    "load": "stray answers",
}
_LINE = re.compile(
    r"^\| `(?P<name>\w+)` \|[^|]*\| (?:broken|honest) \| (?P<verdict>\w+) \|", re.MULTILINE
)


def render(rows: Sequence[Row]) -> str:
    """The table; rates are in percent of tokens."""
    lines = [
        "| backend | what it does | is | verdict | shown by | after | other tokens: alone, at 64 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        one = case(row.name)
        evidence = ", ".join(_SHOWN.get(kind, kind) for kind in row.evidence.split(", ") if kind)
        lines.append(
            f"| `{row.name}` | {one.what} | {_KIND[one.kind]} | {row.verdict} | {evidence} | "
            f"{row.after} of {row.asked} | {row.rate_alone:.1%}, {row.rate_crowd:.1%} |"
        )
    return "\n".join(lines) + "\n"


def put(text: str, table: str) -> str:
    """The document with ``table`` between its marks.

    Raises:
        ValueError: it has no such marks.
    """
    replaced, count = _BETWEEN.subn(lambda found: found[1] + table + found[2], text)
    if count != 1:
        raise ValueError("the document has no place for the table")
    return replaced


def read_verdicts(text: str) -> dict[str, str]:
    """The verdicts that a document's table states, by backend."""
    found = _BETWEEN.search(text)
    listed = _LINE.finditer(found[0]) if found else iter(())
    return {one["name"]: one["verdict"] for one in listed}
