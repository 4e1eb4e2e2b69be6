"""Probe texts side by side as HTML: a folded box a prompt, a column for each text in it.

Each text's HTML is bounded (`autotune.report.html_text.MOST_BYTES`), whatever a server answered.
"""

from collections.abc import Iterator, Sequence

from autotune.report.content import Answers, Asked, SideBySide, Told
from autotune.report.html_text import MOST_BYTES, left_out, line, lines

_NOTHING = '<span class="none">(no text)</span>'


def side_by_side_html(block: SideBySide) -> str:
    """Return every prompt, those with nothing remarkable as short as those with something."""
    return "\n".join(_prompt(asked) for asked in block.asked)


def _prompt(asked: Asked) -> str:
    kind = f' <span class="kind">{line(asked.kind)}</span>' if asked.kind else ""
    tone = "differs" if asked.differs else "same"
    return (
        f'<details class="prompt {tone}"><summary><code>{line(asked.name)}</code>{kind} '
        f'<span class="count">{line(asked.summary)}</span></summary>\n'
        f"{''.join(_parts(asked))}</details>"
    )


def _parts(asked: Asked) -> Iterator[str]:
    if asked.text:
        prompt, left = lines(asked.text)
        notes = [note for note in (asked.note, left_out(left) if left else "") if note]
        yield f'<p class="label">Prompt</p>\n{_pre(prompt, "asked")}{_note(notes)}\n'
    told = [answers for answers in asked.answers if answers.told]
    columns = [_column(answers) for answers in told]
    if asked.trusted is not None:
        columns.insert(0, _column(asked.trusted, kind="column reference"))
    if columns:
        yield f'<div class="columns">\n{"".join(columns)}</div>\n'
    others = [answers for answers in asked.answers if not answers.told]
    if others:
        items = "".join(
            f"<li><code>{line(one.who)}</code>: {line(one.summary)}</li>" for one in others
        )
        yield f'<ul class="others">{items}</ul>\n'


def _column(answers: Answers, *, kind: str = "column") -> str:
    told = "".join(_told(one) for one in answers.told)
    return (
        f'<div class="{kind}"><p class="who"><code>{line(answers.who)}</code>'
        f'<span class="count">{line(answers.summary)}</span></p>\n{told}</div>\n'
    )


def _told(told: Told) -> str:
    # A text's parts share its bytes, so that none takes what the part that differs needs.
    pieces = [told.before, told.different, told.after]
    share = MOST_BYTES // max(1, sum(bool(piece) for piece in pieces))
    shown = [lines(piece, most_bytes=share) for piece in pieces]
    before, different, after = (html for html, _ in shown)
    text = f"{before}<mark>{different}</mark>{after}" if different else before + after
    parts = [_pre(text or _NOTHING, "told")]
    left = sum(characters for _, characters in shown)
    if told.instead:
        instead, missing = lines(told.instead, most_bytes=MOST_BYTES // len(pieces))
        left += missing
        parts.append(f'<p class="label">The reference has there</p>{_pre(instead)}')
    notes = [told.where, told.note, f"escapes are long: {left_out(left)}" if left else ""]
    return f"{''.join(parts)}{_note([note for note in notes if note])}\n"


def _note(notes: Sequence[str]) -> str:
    return f'<p class="note">{line("; ".join(notes))}</p>' if notes else ""


def _pre(content: str, kind: str = "told") -> str:
    # A parser drops a line break that follows the tag, so one is given for it.
    return f'<pre class="text {kind}" dir="auto">\n{content}</pre>'
