"""How the live view looks: from what it knows to lines of a given width and height. Pure.

It is drawn by `autotune.cli.screen`. Each line is one `rich.text.Text` of at most the width, so
nothing wraps, and no text is read as markup.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from rich.cells import cell_len
from rich.text import Text

from autotune.cli.dry_run import duration
from autotune.cli.output import printable
from autotune.cli.plain import CONCLUDING, ratio_text
from autotune.cli.view import View, Warned, seconds_left
from autotune.sweep.progress import PhaseBegan, PointProgress, QuestionsProgress, Row, Standings

_BAR = 24
_SHORTEST_NAME = 12
_WIDE = 110
_ASCII = str.maketrans({"━": "#", "─": "-", "…": "~", "▶": ">", "✗": "x", "·": "-"})
_PHASES = {
    "starting": "starting the server",
    "probing": "probing its answers",
    "asking": "asking questions",
    "warming_up": "warming up",
    "measuring": "measuring",
    "stopping": "stopping the server",
}


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The room there is, in cells and lines; ``ascii_only`` where nothing else can be shown."""

    width: int
    height: int
    ascii_only: bool = False


def render(view: View, look: Look, *, now_s: float) -> list[Text]:
    """Return the view's lines: ``look.height`` of them at most.

    What comes first is kept where there is too little room: how far the sweep is, what it does,
    who leads. ``now_s`` is the time by the monotonic clock.
    """
    width = look.width
    lines = [*_head(view, width, now_s=now_s), *_current(view, width, now_s=now_s)]
    warnings = [_warning(one, width) for one in view.warnings]
    # Warnings have a line at least, an empty one before them, if that doesn't cost a candidate's.
    room = look.height - len(lines)
    table = _table(view, width, room=room)
    lines += table
    room -= len(table)
    if warnings and room >= 2:
        lines += [Text(), *warnings[-(room - 1) :]]
    lines = lines[: look.height]
    return [_to_ascii(line) for line in lines] if look.ascii_only else lines


def shorten(text: str, width: int) -> str:
    """Return ``text`` in ``width`` cells at most, cut in the middle: names differ at both ends."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return "…"[:width]
    tail = (width - 1) // 2
    head = width - 1 - tail
    return f"{_first_cells(text, head)}…{_first_cells(text[::-1], tail)[::-1]}"


def clock(seconds: float) -> str:
    """Return a time that runs: ``0:41``, ``12:33``, ``1:02:33``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar(share: float, width: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return a bar's two parts, each with its style."""
    full = round(max(0.0, min(1.0, share)) * width)
    return ("━" * full, "green"), ("─" * (width - full), "bright_black")


def _head(view: View, width: int, *, now_s: float) -> list[Text]:
    """What is swept, and how far it is."""
    began, left = view.began, view.left
    if began is None or left is None:
        return [_line(width, ("starting", "bold"))]
    passed = clock(now_s - view.began_at_s)
    name = shorten(printable(began.name), max(_SHORTEST_NAME, width // 2))
    room = width - cell_len(name) - len(passed) - 4
    folder = shorten(printable(began.folder), room) if room >= _SHORTEST_NAME else ""
    gap = max(1, width - cell_len(name) - cell_len(folder) - len(passed) - 2)
    title = _line(width, (name, "bold"), ("  " + folder, "dim"), (" " * gap, ""), (passed, "dim"))
    whole = left.made + left.fewest
    most = f" ({left.made + left.most} at most)" if left.most > left.fewest else ""
    text = f"  {left.made} of {whole} launches{most}"
    seconds = seconds_left(view, now_s)
    if seconds is not None and left.worst_s is not None:
        text += f", about {duration(seconds)} left ({duration(left.worst_s)} at worst)"
    room = max(0, min(width // 3, _BAR * width // 80, width - len(text)))
    return [title, _line(width, *bar(left.made / whole if whole else 1.0, room), (text, ""))]


def _current(view: View, width: int, *, now_s: float) -> list[Text]:
    """The launch that is on: what it does, and what it has measured."""
    launch, phase = view.launch, view.phase
    if view.began is None:
        return []
    if view.ended is not None:
        how = "stopped by" if view.ended.stopped else "the race is over:"
        over = [Text(), _line(width, (f"{how} {view.ended.reason}", "bold"))]
        if view.concluding_at_s is not None:
            text = f"  {CONCLUDING}, {clock(now_s - view.concluding_at_s)}"
            over.append(_line(width, (text, "cyan")))
        return over
    if launch is None:
        return [Text(), _line(width, ("between launches: judging what is recorded", "dim"))]
    head = f"round {launch.round}  "
    tail = f"  launch {launch.number}, {clock(now_s - view.launch_at_s)}"
    name = shorten(printable(launch.candidate), max(3, width - len(head) - len(tail)))
    lines = [Text(), _line(width, (head, ""), (name, "bold cyan"), (tail, "dim"))]
    if phase is not None:
        passed_s = now_s - view.phase_at_s
        lines.append(_phase(phase, view.progress, width, passed_s=passed_s))
    if launch.concurrencies:
        lines.append(_points(view, width))
    return lines


def _phase(
    phase: PhaseBegan,
    progress: PointProgress | QuestionsProgress | None,
    width: int,
    *,
    passed_s: float,
) -> Text:
    where = f" concurrency {phase.concurrency}" if phase.concurrency is not None else ""
    again = " again, it wasn't steady" if phase.attempt > 1 and phase.phase == "measuring" else ""
    text = f"  {_PHASES[phase.phase]}{where}{again}"
    if isinstance(progress, PointProgress):
        return _requests(text, progress, width)
    if phase.phase == "asking":
        return _questions(text, phase, progress, width, passed_s=passed_s)
    if phase.limit_s is not None:
        text += f", {clock(passed_s)} of at most {clock(phase.limit_s)}"
    else:
        sent = f", {phase.requests} requests" if phase.requests is not None else ""
        text += f"{sent}, {clock(passed_s)}"
    return _line(width, (text, "cyan"))


def _requests(text: str, progress: PointProgress, width: int) -> Text:
    """How many requests have ended; those after the measured ones are probes among load."""
    done, whole, what = progress.finished, progress.measured, "requests"
    if done > progress.measured:
        done, whole = done - progress.measured, progress.total - progress.measured
        what = "probes among load"
    parts = [(f"  {done}/{whole} {what}", "")]
    if progress.failed:
        parts.append((f"  {progress.failed} failed", "red"))
    if progress.tokens_per_s is not None:
        parts.append((f"  {progress.tokens_per_s:,.0f} tokens/s so far", "bold"))
    return _with_bar(text, parts, width, share=done / whole if whole else None)


def _questions(
    text: str,
    phase: PhaseBegan,
    progress: QuestionsProgress | None,
    width: int,
    *,
    passed_s: float,
) -> Text:
    """How many of a task's questions are answered, from the first moment on."""
    answered, failed, total = 0, 0, phase.requests or 0
    if progress is not None:
        answered, failed, total = progress.answered, progress.failed, progress.total
    parts = [(f"  {answered}/{total} answered", "")]
    if failed:
        parts.append((f"  {failed} failed", "red"))
    parts.append((f"  {clock(passed_s)}", ""))
    return _with_bar(text, parts, width, share=answered / total if total else None)


def _with_bar(
    text: str, parts: Sequence[tuple[str, str]], width: int, *, share: float | None
) -> Text:
    """What is done, a bar where there is room for one, and the figures."""
    room = width - cell_len(text) - sum(cell_len(part) for part, _ in parts) - 2
    drawn = bar(share, min(_BAR, room)) if room >= 6 and share is not None else ()
    return _line(width, (text, "cyan"), ("  ", ""), *drawn, *parts)


def _points(view: View, width: int) -> Text:
    """Each concurrency of the launch, in the order in which it is measured."""
    assert view.launch is not None
    parts: list[tuple[str, str]] = [("  output tokens/s at", "dim")]
    now = view.phase.concurrency if view.phase is not None else None
    for concurrency in view.launch.concurrencies:
        point = view.points.get(concurrency)
        style = "" if point is not None or concurrency == now else "dim"
        parts.append((f"  {concurrency}: ", style))
        if point is None:
            parts.append(("now" if concurrency == now else "-", "cyan" if style == "" else "dim"))
        elif point.status == "ok" and point.output_tokens_per_s is not None:
            parts.append((f"{point.output_tokens_per_s:,.1f}", "bold"))
        else:
            parts.append((point.status, "red"))
    return _line(width, *parts)


def _table(view: View, width: int, *, room: int) -> list[Text]:
    """The candidates in the race, best first, then those that are out, and why."""
    standings = view.standings or Standings(stage="race", rows=view.rows)
    racing = [row for row in view.rows if row.out is None]
    racing.sort(key=lambda row: _order(row, standings))
    out = [row for row in view.rows if row.out is not None]
    room -= 2  # An empty line and the heading.
    if not (racing or out) or room < 1:
        return []
    names = [row.candidate for row in racing]
    column = min(max(map(cell_len, ["candidate", *names])), max(_SHORTEST_NAME, width * 2 // 5))
    columns = _columns(racing, standings, width, name=column)
    lines = [_row(racing, row, columns, standings, width) for row in racing]
    lines += [_out(row, width) for row in out]
    if len(lines) > room:
        more = len(lines) - room + 1
        lines = [*lines[: room - 1], _line(width, (f"  and {more} more", "dim"))]
    return [Text(), _heading(columns, standings, width), *lines]


def _order(row: Row, standings: Standings) -> tuple[bool, float]:
    ratio = row.ratio.ratio if row.ratio is not None else 0.0
    return row.candidate != standings.leader, -ratio


class _Columns(msgspec.Struct, frozen=True, kw_only=True):
    """How wide each column is; ``at`` are concurrencies with a column of their own."""

    name: int
    ratio: int
    at: tuple[int, ...] = ()
    figure: int = 0


def _columns(rows: Sequence[Row], standings: Standings, width: int, *, name: int) -> _Columns:
    ratios = [_ratio(row, standings) for row in rows]
    ratio = max(map(len, [_against(standings, width), *ratios]))
    concurrencies = sorted({at for row in rows for at in row.throughputs})
    shown = [f"{value:,.1f}" for row in rows for value in row.throughputs.values()]
    figure = max(map(len, [*shown, *(f"at {at}" for at in concurrencies)]), default=0)
    used = 2 + name + 2 + len("rounds") + 2 + ratio + 2 + len("incumbent")
    fit = max(0, (width - used) // (figure + 2)) if width >= _WIDE else 0
    return _Columns(name=name, ratio=ratio, at=tuple(concurrencies[:fit]), figure=figure)


def _heading(columns: _Columns, standings: Standings, width: int) -> Text:
    figures = "".join(f"  {f'at {at}':>{columns.figure}}" for at in columns.at)
    against = _against(standings, width)
    text = f"  {'candidate':<{columns.name}}  rounds  {against:<{columns.ratio}}{figures}"
    if columns.at:
        text += "  tokens/s" if len(text) + 10 <= width else ""
    return _line(width, (text, "dim"))


def _against(standings: Standings, width: int) -> str:
    if standings.baseline is None:
        return "ratio"
    return f"ratio to {shorten(printable(standings.baseline), max(3, width // 5))}"


def _row(
    rows: Sequence[Row], row: Row, columns: _Columns, standings: Standings, width: int
) -> Text:
    leads = row.candidate == standings.leader
    style = "bold green" if leads else ""
    name = shorten(printable(row.candidate), columns.name)
    name += " " * (columns.name - cell_len(name))
    rounds = str(row.rounds) if row.rounds else "-"
    figures = ""
    for at in columns.at:
        value = row.throughputs.get(at)
        figures += f"  {'-' if value is None else f'{value:,.1f}':>{columns.figure}}"
    return _line(
        width,
        ("▶ " if leads else "  ", style),
        (name, style),
        (f"  {rounds:>6}  {_ratio(row, standings):<{columns.ratio}}{figures}", ""),
        (f"  {_state(row, standings)}", style or "dim"),
    )


def _ratio(row: Row, standings: Standings) -> str:
    if row.candidate == standings.baseline and row.rounds:
        return "1"
    return "-" if row.ratio is None else ratio_text(row.ratio)


def _state(row: Row, standings: Standings) -> str:
    if row.note is not None:
        return printable(row.note)
    if row.candidate == standings.leader:
        return "leads" if standings.stage == "race" else "best so far"
    return ""


def _out(row: Row, width: int) -> Text:
    """Who dropped out, and why, in one line."""
    how: Literal["failed", "rests"] = "failed" if row.failed else "rests"
    name = shorten(printable(row.candidate), max(_SHORTEST_NAME, width * 2 // 5))
    ratio = f" ({ratio_text(row.ratio)})" if row.ratio is not None else ""
    return _line(
        width,
        ("✗ " if row.failed else "· ", "red" if row.failed else "dim"),
        (name, "red" if row.failed else "dim"),
        (f"{ratio}  {how}: {row.out}", "dim"),
    )


def _warning(warned: Warned, width: int) -> Text:
    name = ""
    if warned.candidate is not None:
        name = shorten(printable(warned.candidate), max(_SHORTEST_NAME, width * 2 // 5)) + " "
    return _line(width, ("! ", "yellow"), (name, ""), (warned.text, ""))


def _line(width: int, *parts: tuple[str, str]) -> Text:
    """One line of styled parts, printable, and cut at the width."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for text, style in parts:
        line.append(" ".join(printable(text).split("\n")).replace("\t", " "), style or None)
    line.truncate(width, overflow="ellipsis")
    return line


def _to_ascii(line: Text) -> Text:
    plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    line.plain = plain
    return line


def _first_cells(text: str, width: int) -> str:
    kept = ""
    for character in text:
        if cell_len(kept + character) > width:
            break
        kept += character
    return kept
