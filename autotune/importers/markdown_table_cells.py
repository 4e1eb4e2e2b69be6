"""One cell of a benchmark table as a number, if there's only one way to read it."""

import re
from dataclasses import dataclass

from autotune.importers.csv_file import quoted
from autotune.importers.markdown_table_text import plain, without_pictures
from autotune.importers.markdown_table_words import read_label

# How people say that there is no figure, which is told and left out.
_LACKS = r"[-\u2013\u2014\u2212?x\u2717\u2718\u274c/.]+"
_SAYS_NONE = (
    r"n\.?/?a\.?|none|null|tbd|todo|skip(?:ped)?|"
    r"(?:cuda )?oom|out of memory|fail(?:ed|s|ure)?|crash(?:ed|es)?|error|hangs?|hung|killed|"
    r"time[d]?[- ]?out|(?:not |un)supported|not run|not tested|not measured|did not (?:run|finish)|"
    r"dnf"
)
_NOTHING = re.compile(
    rf"|{_LACKS}|{_SAYS_NONE}|(?:{_SAYS_NONE})\s*\([^()]*\)|{_LACKS}\s*\([A-Za-z :,'.-]+\)",
    re.IGNORECASE,
)
_NUMBER = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:[\u00a0\u2007\u2009\u202f][0-9]{3})+|[0-9]+)"
    r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)
# A spread, or how the number compares: told apart by its sign, its percent or its times.
_SPREAD = rf"(?:\u00b1|\+/-|\+-)\s*{_NUMBER}\s*%?"
# Only what says nothing against the figure: "(estimated)" and "(2 of 3 runs failed)" do.
_REMARKS = (
    r"base(?:line)?|ref(?:erence)?|best|worst|win(?:s|ner)?|fast(?:est|er)|slow(?:est|er)|default|"
    r"current|previous|new|old|main|(?:this )?pr|ours|high(?:est|er)|low(?:est|er)|same|tied?|flat|"
    r"unchanged|no change|(?:within )?noise"
)
_COMPARISON = (
    rf"\(\s*(?:[+\u2212\u2013\u2191\u2193-]?\s*{_NUMBER}\s*(?:%|[x\u00d7])|"
    rf"[x\u00d7]\s*{_NUMBER}|(?:{_REMARKS}))\s*\)"
)
_BESIDE = rf"[+\u2212\u2013-]{_NUMBER}\s*%"
_UNIT = r"[^\W0-9_][\w\u00b5/ ]*"
_CELL = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?P<unit>{_UNIT})?\s*(?:(?P<spread>{_SPREAD})\s*(?P<after>{_UNIT})?)?"
    rf"\s*(?:{_COMPARISON}|{_BESIDE})?",
    re.IGNORECASE,
)
_UNIT_IN_BRACKETS = re.compile(rf"({_NUMBER})\s*\(\s*({_UNIT})\s*\)")
_NOT_FINITE = ("nan", "inf", "infinity")
_NOTE_MARK = re.compile(
    rf"{_NUMBER}\s*(?:{_UNIT})?\s*(?:\^\S*|\[\^?[^\]]*\]|[*\u2020\u2021\u00a7\u00b9\u00b2\u00b3\u2070-\u2079]+)"
)
_SEVERAL = re.compile(
    rf"{_NUMBER}\s*(?:{_UNIT})?\s*(?:->|=>|[;/|\u00b7\u2192\u2013\u2014-]|,\s|to\b|vs\b)\s*{_NUMBER}.*"
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell's number as published, with the unit if the cell has one, and what else it holds."""

    number: float
    unit: str | None = None
    spread: bool = False


def read_cell(text: str) -> Cell | str | None:
    """Read a cell.

    Returns:
        The number; ``None`` where the cell says that there's none; or why it can't be read, as the
        end of a sentence.
    """
    shown = plain(text)
    if "~~" in shown:
        return f"{quoted(shown)} is struck out: remove it, or the marks"
    bare = without_pictures(shown)
    inside = re.fullmatch(r"\((.*)\)", bare)
    if _NOTHING.fullmatch(bare) or (inside and _NOTHING.fullmatch(inside[1].strip())):
        return None
    unbracketed = _UNIT_IN_BRACKETS.fullmatch(bare)
    if unbracketed and read_label(f"x ({unbracketed[2]})").unit is not None:
        bare = f"{unbracketed[1]} {unbracketed[2]}"
    match = _CELL.fullmatch(bare)
    if not match or _NOTE_MARK.fullmatch(bare):
        return f"{quoted(shown)} isn't one number above zero{_hint(bare)}"
    number = float(re.sub(r"[,\u00a0\u2007\u2009\u202f]", "", match["number"]))
    if not 0 < number < float("inf"):
        return f"{quoted(shown)} isn't a number above zero"
    given = [part for part in (match["unit"], match["after"]) if part]
    if not given:
        return Cell(number=number, spread=match["spread"] is not None)
    unit = read_label(f"x ({given[0].strip()})").unit
    if unit is None or len(given) > 1:
        return (
            f"{quoted(shown)} has a unit that isn't one of tok/s, req/s, s, ms, us: write the "
            "number in full, with one of these or none"
        )
    return Cell(number=number, unit=unit, spread=match["spread"] is not None)


def holds_figure(text: str) -> bool:
    """Whether a cell holds a figure or says that there's none, however badly it's written."""
    bare = without_pictures(plain(text)).lstrip("~<>\u2248\u2264\u2265+-\u2212( ")
    return bare[:1].isdigit() or bare.lower() in _NOT_FINITE or read_cell(text) is None


def _hint(bare: str) -> str:
    """What to do about a cell that isn't one number."""
    if _NOTE_MARK.fullmatch(bare):
        return ": remove the footnote's mark, if the figure stands as it is"
    if _SEVERAL.fullmatch(bare):
        return (
            ", but several: give each a column of its own, and each repetition a row of its own "
            "with its number in a column Run"
        )
    if bare.endswith(")") and bare[:1].isdigit():
        return ": remove what is in the brackets, if the figure stands as it is"
    return ", such as 1646.0 or 1,646.0"
