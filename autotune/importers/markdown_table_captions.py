"""What is written above benchmark tables besides their metric: lengths, and what tells them apart.

Tables of one file are one run. Lengths of requests in a heading are facts, as in a column. Where
headings say something else of each table, such as a model, the tables may be of different things:
that is refused, as nothing tells which.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.importers.csv_file import quoted
from autotune.importers.markdown_table_text import Caption, PipeTable
from autotune.importers.markdown_table_words import mentions_concurrency, read_label
from autotune.importers.source_file import SourceText

_LENGTH = r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+k?)\b"
_SAYS = r"(?:\s*(?:=|:|of|is)\s*|\s+)"
# Not --random-input-len, which is only the largest unless the range is said to be of one length.
_NOT_RANDOM = r"(?<![\w/])(?<!random[- _])"
_INPUT = r"(?:isl|(?:input|prompt)[- _]?(?:len(?:gth)?|tokens))"
_OUTPUT = r"(?:osl|output[- _]?(?:len(?:gth)?|tokens))"
_LONE = {
    "isl": re.compile(rf"{_NOT_RANDOM}{_INPUT}{_SAYS}{_LENGTH}", re.IGNORECASE),
    "osl": re.compile(rf"{_NOT_RANDOM}{_OUTPUT}{_SAYS}{_LENGTH}", re.IGNORECASE),
}
_MOST = re.compile(rf"--random-(?:input|output)-len[ =]{_LENGTH}", re.IGNORECASE)
_PAIRS = (
    re.compile(rf"\bisl\s*/\s*osl\b\W{{0,3}}{_LENGTH}\s*/\s*{_LENGTH}", re.IGNORECASE),
    re.compile(
        rf"(?<!\w){_LENGTH}\s*(?:tokens? )?in(?:put)?\s*(?:/|,|\+|->|\u2192)\s*"
        rf"{_LENGTH}\s*(?:tokens? )?out(?:put)?\b",
        re.IGNORECASE,
    ),
)
_PAIR_LIST = re.compile(r"[0-9]k?\s*/\s*[0-9]+k?\s*[\u00b7,;&]\s*[0-9]", re.IGNORECASE)
# A line that stands for a heading: "On H200:".
_LONGEST_LINE = 60
_NUMBERED = re.compile(r"^[0-9]+(?:\.[0-9]+)*\.?\s+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the headings above a table say that isn't understood, for a comparison with others."""

    caption: Caption
    words: str


def caption_facts(captions: Iterable[Caption]) -> dict[str, str]:
    """Return ``isl`` and ``osl`` as far as captions, innermost first, say one value of each."""
    facts: dict[str, str] = {}
    for caption in captions:
        for key, value in _lengths(caption.text).items():
            facts.setdefault(key, value)
    return facts


def without_lengths(text: str) -> str:
    """Return a caption without what it says of lengths, whose words mean other things elsewhere."""
    for pattern in (*_PAIRS, *_LONE.values(), _MOST):
        text = pattern.sub(" ", text)
    return text


def check_alike(source: SourceText, tables: Sequence[tuple[PipeTable, frozenset[str]]]) -> None:
    """Refuse one metric from tables whose headings say different things, each of them unknown.

    Args:
        source: the text, for messages.
        tables: each with the metrics that were taken from it.

    Raises:
        InputError: nothing says whether both are of one model, one machine and one workload.
    """
    first: dict[str, tuple[Told, ...]] = {}
    for table, metrics in tables:
        told = _told(table)
        for metric in sorted(metrics):
            other = first.setdefault(metric, told)
            if [each.words for each in other] == [each.words for each in told]:
                continue
            here, there = _only_here(told, other), _only_here(other, told)
            raise source.error(
                table.header.line,
                f"{metric} stands below {here} here, but below {there} in another table: put each "
                "into a file of its own, or make the headings alike if both are of one model, "
                "machine and workload; where they name backends, add a column Backend",
            )


def _lengths(text: str) -> dict[str, str]:
    if _PAIR_LIST.search(text):
        return {}
    for pattern in _PAIRS:
        pairs = set(pattern.findall(text))
        if len(pairs) == 1:
            isl, osl = pairs.pop()
            return {"isl": _number(isl), "osl": _number(osl)}
    found = {key: set(pattern.findall(text)) for key, pattern in _LONE.items()}
    return {key: _number(values.pop()) for key, values in found.items() if len(values) == 1}


def _number(text: str) -> str:
    return text.replace(",", "").lower()


def _told(table: PipeTable) -> tuple[Told, ...]:
    found = []
    for caption in table.captions:
        line = caption.text.rstrip(" *_")
        heading = caption.heading or (line.endswith(":") and len(line) <= _LONGEST_LINE)
        label = read_label(_NUMBERED.sub("", without_lengths(caption.text)))
        if not heading or label.concurrency is not None or mentions_concurrency(caption.text):
            continue
        if label.flagged:
            continue
        text = (label.name or "") if label.no_place is None else label.text
        words = " ".join(_WORD.findall(text.lower()))
        if words:
            found.append(Told(caption=caption, words=words))
    return tuple(found)


def _only_here(told: Sequence[Told], other: Sequence[Told]) -> str:
    """The first heading of a table that another one doesn't have, for a message."""
    known = {each.words for each in other}
    for each in told:
        if each.words not in known:
            return f"{quoted(each.caption.text)} (line {each.caption.line})"
    return "no such heading"
