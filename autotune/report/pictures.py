"""The section with the plots, and the figures behind the one that no other table has."""

from collections.abc import Sequence

from autotune.report.content import Block, Column, Paragraph, Picture, Section, Table
from autotune.report.figures import OVERVIEW
from autotune.report.numbers import figure
from autotune.report.quantities import QUANTITIES, TRADEOFF, Quantity
from autotune.report.subject import Subject
from autotune.report.text import count
from autotune.report.tradeoff import SpeedFrom, gpus_of, speed_from, tradeoff_of

SPEED_WORDS: dict[SpeedFrom, str] = {
    "tpot_s_p50": "1 / the median time per output token",
    "tpot_s_mean": "1 / the mean time per output token",
    "output_tokens_per_s": "output tokens/s / concurrency, since no time per output token is known",
}


def plots_section(subject: Subject, *, files: Sequence[str]) -> Section:
    """The plots that were drawn; a quantity without figures is named, not drawn empty."""
    blocks: list[Block] = []
    stems = [q.stem for q in QUANTITIES if q is not TRADEOFF]
    stems = [OVERVIEW] if f"{OVERVIEW}.png" in files else stems
    candidates = count(len(subject.names), "candidate")
    for stem in stems:
        if f"{stem}.png" in files:
            blocks.append(Picture(f"{stem}.png", f"{stem} of {candidates} against concurrency"))
    if f"{TRADEOFF.stem}.png" in files:
        text = f"throughput per GPU of {candidates} against the speed for one user"
        blocks.append(Picture(f"{TRADEOFF.stem}.png", text))
    blocks.append(Paragraph(files_words(files)))
    blocks += [Paragraph(_missing(subject, quantity)) for quantity in unmeasured(subject)]
    return Section("Plots", tuple(blocks))


def files_words(files: Sequence[str]) -> str:
    """Return which files lie beside ``report.md``."""
    stems = sorted({file.rpartition(".")[0] for file in files})
    plots = f"; each plot as SVG and PNG: {', '.join(stems)}" if stems else ""
    return f"Beside this report: report.html, all of it as one page for a browser{plots}."


def tradeoff_section(subject: Subject) -> Section:
    """The figures of the plot of throughput per GPU against the speed for one user."""
    title = "Throughput per GPU and speed for one user"
    gpus = gpus_of(subject.run.run)
    found = tradeoff_of(
        subject.points, subject.summary, gpus=gpus, column=speed_from([subject.points])
    )
    if not len(found.means):
        return Section(title)
    places = {name: place for place, name in enumerate(subject.names)}
    means = found.means.assign(place=found.means["candidate"].map(places))
    means = means.sort_values(["concurrency", "place"])
    columns = (
        Column("concurrency", numeric=True),
        Column("candidate", code=True),
        Column("output tokens/s per " + ("server" if gpus is None else "GPU"), numeric=True),
        Column("tokens/s/user", numeric=True),
        Column("on the front"),
        Column("n", numeric=True),
    )
    cells = (
        [str(value) for value in means["concurrency"]],
        [str(value) for value in means["candidate"]],
        [figure(value) for value in means["per_gpu"]],
        [figure(value) for value in means["per_user"]],
        ["yes" if value else "" for value in means["front"]],
        [str(value) for value in means["rounds"]],
    )
    rows = tuple(zip(*cells, strict=True))
    over = "the whole server" if gpus is None else count(gpus, "GPU")
    text = (
        f"Throughput is that of {over}; the speed for one user is "
        f"{SPEED_WORDS[found.speed_from]}. On the front is a point if no admissible one has as "
        "much of both, and more of one."
    )
    return Section(title, (Table(columns, rows), Paragraph(text)), folded=True)


def unmeasured(subject: Subject) -> list[Quantity]:
    """Return the quantities that the run has no figure of."""
    tables = (subject.summary, subject.points)
    return [
        quantity
        for quantity in QUANTITIES
        if quantity.kind not in ("ratio", "tradeoff")
        and not any(table[list(quantity.columns)].notna().any(axis=None) for table in tables)
    ]


def _missing(subject: Subject, quantity: Quantity) -> str:
    if subject.imported:
        return f"{quantity.name}: no figure was imported."
    return f"{quantity.name}: not measured."
