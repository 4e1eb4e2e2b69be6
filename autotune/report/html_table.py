"""A report's tables as HTML: each cell escaped, figures with the number that they sort by.

The page's script sorts by ``data-sort``; which number stands for a text is said here, where it can
be tested. Without the script the tables read as they are.
"""

import re

from autotune.report.content import Column, Table
from autotune.report.html_text import attribute, line

# Who is compared with itself: its ratio is one, though no figure says so.
_ITSELF = frozenset({"incumbent", "reference", "baseline", "leader"})
_NUMBER = re.compile(r"([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*(%?)", re.IGNORECASE)
_ONE_IN = re.compile(r"1 in ([\d,]*\.?\d+)")
_WORDS = {"million": 1e6, "billion": 1e9}
# A cell with more than this needs some width to be read.
_LONG = 32
_TONES = {"fail": "bad", "inconclusive": "unsure"}


def sort_key(text: str) -> float | None:
    """Return the number that a figure's text sorts by, ``None`` where it holds none.

    >>> [sort_key(t) for t in ("1,475", "0.841 [0.573, 1.233]", "3.4%", "1 in 4,000", "n/a")]
    [1475.0, 0.841, 0.034, 0.00025, None]
    >>> [sort_key(t) for t in ("incumbent", "2.31 s")]
    [1.0, 2.31]
    """
    text = text.strip()
    if text in _ITSELF:
        return 1.0
    bound = {"under": 0.999, "over": 1.0001}.get(text.partition(" ")[0])
    value = _number(text.partition(" ")[2] if bound is not None else text)
    if value is None or bound is None:
        return value
    return value * bound


def table_html(table: Table, *, label: str) -> str:
    """Return ``table`` in a box of its own, which scrolls where the page is too narrow for it."""
    head = "".join(
        f'<th scope="col"{_class(column)}>{line(column.title)}</th>' for column in table.columns
    )
    rows = "\n".join(
        "<tr>"
        + "".join(_cell(text, column) for column, text in zip(table.columns, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide"><table aria-label="{attribute(label)}">\n<thead><tr>{head}</tr></thead>'
        f"\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _class(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _cell(text: str, column: Column) -> str:
    shown = line(text)
    if column.code and shown:
        return f"<td><code>{shown}</code></td>"
    if column.whole:
        return f'<td class="whole">{shown}</td>'
    if not column.numeric:
        tone = _TONES.get(text, "long" if len(text) > _LONG else "")
        return f'<td class="{tone}">{shown}</td>' if tone else f"<td>{shown}</td>"
    key = sort_key(text)
    sort = "" if key is None else f' data-sort="{key!r}"'
    return f'<td class="number"{sort}>{shown}</td>'


def _number(text: str) -> float | None:
    for word, value in _WORDS.items():
        if text == f"1 in a {word}":
            return 1 / value
    share = _ONE_IN.match(text)
    if share is not None:
        below = _float(share[1])
        return 1 / below if below else None
    match = _NUMBER.match(text)
    value_of = None if match is None else _float(match[1])
    if match is None or value_of is None:
        return None
    return value_of / 100 if match[2] else value_of


def _float(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
