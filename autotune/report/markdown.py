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

# GitHub turns @name and #1 into links and notices after rendering, but not inside code.
_SPECIAL = re.compile(r"[&<>]|@(?=\w)|#(?=\d)|[\\`*|~$]|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
_REPLACED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "`@`", "#": "`#`"}
# What would begin a list, a heading or a rule at the start of a block.
_OPENING = re.compile(r"^(\d*)([-+#=.)])(?=[-+#=\s]|$)")


def render(report: Report) -> str:
    """Return ``report`` as Markdown, ending with a newline."""
    parts = [f"# {escape(report.title)}"]
    parts += [_section(section) for section in report.sections if section.blocks]
    return "\n\n".join(parts) + "\n"


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
    title = escape(section.title)
    if section.folded:
        return f"<details>\n<summary>{title}</summary>\n\n{blocks}\n\n</details>"
    return f"## {title}\n\n{blocks}"


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
