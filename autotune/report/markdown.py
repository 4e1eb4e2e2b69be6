"""A report as GitHub-flavoured Markdown, every text in it escaped.

Texts come from servers' logs and other people's files: they must show as they are, without
becoming a table border, a tag, a mention or an image.
"""

import re

from autotune.report.content import (
    Block,
    Bullets,
    Code,
    Paragraph,
    Picture,
    Report,
    Section,
    SideBySide,
    Table,
)
from autotune.report.text import one_line

LONGEST_COMMAND = 4000
# GitHub takes no longer comment; a little is left for what is written around the report.
LONGEST_COMMENT = 65_000
_LEFT_OUT = "Left out, so that this can be pasted into a comment; the HTML report has it."

# GitHub turns @name and #1 into links and notices after rendering, but not inside code.
_SPECIAL = re.compile(r"[&<>]|@(?=\w)|#(?=\d)|[\\`*|~$]|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
_REPLACED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "`@`", "#": "`#`"}
# What would begin a list, a heading or a rule at the start of a block.
_OPENING = re.compile(r"^(\d*)([-+#=.)])(?=[-+#=\s]|$)")


def render(report: Report, *, longest: int = LONGEST_COMMENT) -> str:
    """Return ``report`` as Markdown, ending with a newline.

    Args:
        report: what to show.
        longest: the characters that it should fit into. Of a longer report the longest folded
            sections are left out, each with a word on it; what isn't folded is always shown.
    """
    shown = [section for section in report.sections if section.blocks]
    parts = {place: _section(section) for place, section in enumerate(shown)}
    title = f"# {escape(report.title)}"
    foldable = [place for place, section in enumerate(shown) if _is_folded(section)]
    for place in sorted(foldable, key=lambda place: len(parts[place]), reverse=True):
        if len(title) + sum(len(part) + 2 for part in parts.values()) < longest:
            break
        parts[place] = _folded(shown[place].title, _LEFT_OUT)
    return "\n\n".join((title, *parts.values())) + "\n"


def escape(text: str) -> str:
    """Return ``text`` so that Markdown shows it as it is, on one line."""
    text = _SPECIAL.sub(lambda match: _REPLACED.get(match[0], "\\" + match[0]), one_line(text))
    return _OPENING.sub(r"\1\\\2", text)


def code_span(text: str) -> str:
    """Return ``text`` as code, or escaped where code could break out of a table's cell."""
    text = one_line(text)
    return f"`{text}`" if text and not re.search(r"[`|\\]", text) else escape(text)


def _section(section: Section) -> str:
    blocks = "\n\n".join(_block(block) for block in section.blocks)
    if _is_folded(section):
        return _folded(section.title, blocks)
    return f"## {escape(section.title)}\n\n{blocks}"


def _is_folded(section: Section) -> bool:
    # Of what only the HTML report holds, a summary is left here, which nobody must see first.
    return section.folded or any(isinstance(block, SideBySide) for block in section.blocks)


def _folded(title: str, blocks: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n\n{blocks}\n\n</details>"


def _block(block: Block) -> str:
    match block:
        case Table():
            return _table(block)
        case Paragraph():
            return f"**{escape(block.text)}**" if block.strong else escape(block.text)
        case Bullets():
            return "\n".join(f"- {escape(item)}" for item in block.items)
        case Picture():
            return f"![{escape(block.description)}]({block.file})"
        case Code():
            return _fenced(block)
        case SideBySide():
            return "The texts themselves stand side by side in the HTML report."


def _table(table: Table) -> str:
    head = [escape(column.title) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [
        [
            code_span(text) if column.code else escape(text)
            for column, text in zip(table.columns, row, strict=True)
        ]
        for row in table.rows
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def _fenced(code: Code) -> str:
    lines = [one_line(line, longest=LONGEST_COMMAND) for line in code.lines]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])
