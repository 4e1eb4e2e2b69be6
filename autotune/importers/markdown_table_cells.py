"""One cell of a benchmark table as a number, if there's only one way to read it."""

import re
from dataclasses import dataclass

from autotune.importers.csv_file import quoted
from autotune.importers.markdown_table_text import plain
from autotune.importers.markdown_table_words import read_label

# How people say that there is no figure, which is told and left out.
_NOTHING = re.compile(
    r"|[-\u2013\u2014\u2212?x\u2717\u2718\u274c/.]+|n\.?/?a\.?|none|null|tbd|todo|skip(?:ped)?|"
    r"(?:cuda )?oom|out of memory|fail(?:ed|s|ure)?|crash(?:ed|es)?|error|hangs?|hung|"
    r"time[- ]?out|(?:not |un)supported|not run|not tested|not measured|did not finish|dnf",
    re.IGNORECASE,
)
_NUMBER = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:[\u00a0\u2007\u2009\u202f][0-9]{3})+|[0-9]+)"
    r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
)
# A spread, or how the number compares: told apart by its sign, its percent or its times.
_SPREAD = rf"(?:\u00b1|\+/-|\+-)\s*{_NUMBER}\s*%?"
_COMPARISON = (
    rf"\(\s*(?:[+\u2212\u2013\u2191\u2193-]?\s*{_NUMBER}\s*(?:%|[x\u00d7])|"
    rf"[x\u00d7]\s*{_NUMBER}|[A-Za-z][A-Za-z :.-]*)\s*\)"
)
_BESIDE = rf"[+\u2212\u2013-]{_NUMBER}\s*%"
_UNIT = r"[^\W0-9_][\w\u00b5/ ]*"
_CELL = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?P<unit>{_UNIT})?\s*(?:(?P<spread>{_SPREAD})\s*(?P<after>{_UNIT})?)?"
    rf"\s*(?:{_COMPARISON}|{_BESIDE})?"
)
# Medals and the like.
_PICTURES = re.compile(r"[\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u2b50\u2705]")


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
    bare = _PICTURES.sub("", shown).strip()
    inside = re.fullmatch(r"\((.*)\)", bare)
    if _NOTHING.fullmatch(bare) or (inside and _NOTHING.fullmatch(inside[1].strip())):
        return None
    match = _CELL.fullmatch(bare)
    if not match:
        return f"{quoted(shown)} isn't one number above zero, such as 1646.0 or 1,646.0"
    number = float(re.sub(r"[,\u00a0\u2007\u2009\u202f]", "", match["number"]))
    if not 0 < number < float("inf"):
        return f"{quoted(shown)} isn't a number above zero"
    given = [part for part in (match["unit"], match["after"]) if part]
    if not given:
        return Cell(number=number, spread=match["spread"] is not None)
    unit = read_label(f"x ({given[0].strip()})").unit
    if unit is None or len(given) > 1:
        return f"{quoted(shown)} has a unit that isn't one of tok/s, req/s, s, ms, us"
    return Cell(number=number, unit=unit, spread=match["spread"] is not None)
