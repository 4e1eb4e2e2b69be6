"""The report of several runs: what each is, how they differ, and their figures side by side."""

import shlex
from collections.abc import Callable, Sequence

import pandas as pd

from autotune.report.candidates import candidates_section
from autotune.report.content import (
    Block,
    Bullets,
    Code,
    Column,
    Paragraph,
    Picture,
    Report,
    Section,
    Table,
)
from autotune.report.evidence import (
    INVALID_COLUMNS,
    MOST_OPEN,
    WARNING_COLUMNS,
    capped,
    invalid_rows,
    warning_rows,
)
from autotune.report.numbers import percent
from autotune.report.pictures import files_words, unmeasured
from autotune.report.quantities import QUANTITIES, RATIO, THROUGHPUT, Quantity
from autotune.report.results import (
    figure_columns,
    may_win_texts,
    ratio_texts,
    reading_section,
    verdict_section,
)
from autotune.report.several import RunShown, unknown_workloads
from autotune.report.several_differences import (
    Difference,
    candidate_differences,
    environment_differences,
    renamed_candidates,
    scope_differences,
)
from autotune.report.subject import Subject
from autotune.report.text import count

_RUN = Column("run", code=True)
_WEIGHTS = (
    "Hard is what can change which kernels run, as a server's start-up weighs it; soft is what "
    "only moves figures, as far as anybody knows; the rest is how was judged and what was asked."
)


def build_several(runs: Sequence[RunShown], *, plots: tuple[str, ...]) -> Report:
    """Return the content of a report of ``runs``, which `check_alike` let through."""
    key = runs[0].run.key
    return Report(
        title=f"{count(len(runs), 'run')} side by side: ({key.model}, {key.quantization})",
        sections=(
            _verdicts(runs),
            _what_they_are(runs),
            _plots(runs, plots),
            _figures(runs),
            _rejected(runs),
            _with_run(runs, "Points left out", INVALID_COLUMNS, invalid_rows),
            _with_run(runs, "Warnings", WARNING_COLUMNS, warning_rows),
            _further_plots(plots),
            *(_one_run(run) for run in runs),
            reading_section(),
            _environments(runs),
            _reproduce(runs),
        ),
    )


def _verdicts(runs: Sequence[RunShown]) -> Section:
    items = tuple(f"{run.label}: {run.subject.judgement.summary}" for run in runs)
    return Section(
        "Verdicts",
        (
            Paragraph(_agreement(runs), strong=True),
            Bullets(items),
            Paragraph("Each run is judged by its own records alone; nothing is pooled."),
        ),
    )


def _agreement(runs: Sequence[RunShown]) -> str:
    chosen: dict[str, list[RunShown]] = {}
    for run in runs:
        chosen.setdefault(run.subject.judgement.choice or "nobody", []).append(run)
    doubtful = ", ".join(run.label for run in runs if run.subject.judgement.blockers)
    if len(chosen) > 1:
        named = "; ".join(
            f"{name} ({', '.join(run.label for run in ones)})" for name, ones in chosen.items()
        )
        if not doubtful:
            return f"The {len(runs)} runs come to different choices: {named}."
        return (
            f"The {len(runs)} runs put different candidates first: {named}. Something stands "
            f"against a decision in {doubtful}."
        )
    (name,) = chosen
    if name == "nobody":
        return f"None of the {len(runs)} runs can choose anybody."
    if name in renamed_candidates(runs):
        return (
            f"Each of the {len(runs)} runs puts {name} first, but it isn't the same candidate in "
            "all of them."
        )
    if not doubtful:
        return f"Each of the {len(runs)} runs chooses {name}."
    return (
        f"Each of the {len(runs)} runs puts {name} first, but something stands against a decision "
        f"in {doubtful}."
    )


def _what_they_are(runs: Sequence[RunShown]) -> Section:
    columns = (
        _RUN,
        Column("measured", whole=True),
        Column("arch", code=True),
        Column("device"),
        Column("engine"),
        Column("rounds", numeric=True),
        Column("outcome"),
        Column("choice", code=True),
        Column("baseline", code=True),
    )
    blocks: list[Block] = [Table(columns, tuple(_run_row(run) for run in runs))]
    blocks.append(Paragraph(_shared(runs)))
    unknown = unknown_workloads(runs)
    if unknown:
        text = "Whether the same was asked of all can't be told, since not every run recorded it:"
        blocks += [Paragraph(text, strong=True), Bullets(tuple(unknown))]
    differences = scope_differences(runs)
    if differences:
        blocks += [Paragraph("What differs between them:"), *_difference_table(runs, differences)]
        if any(difference.weight for difference in differences):
            blocks.append(Paragraph(_WEIGHTS))
    else:
        blocks.append(Paragraph("Nothing of what they recorded of their scope and rule differs."))
    machines = _hard_differences(runs)
    if machines:
        text = f"The machines differ in what may choose other kernels: {', '.join(machines)}."
        blocks.append(Paragraph(text, strong=True))
    blocks += _candidates(runs)
    return Section("Runs", tuple(blocks))


def _run_row(run: RunShown) -> tuple[str, ...]:
    scope, judgement = run.run.scope, run.subject.judgement
    number = scope.device_count or "unknown number"
    imported = "imported " if run.subject.imported else ""
    standing = ""
    if judgement.choice and judgement.blockers:
        standing = " (accepted by hand)" if run.subject.accepted else " (proposed)"
    role = f" ({judgement.baseline_role})" if judgement.baseline_role else ""
    return (
        run.label,
        f"{imported}{run.measured_on}",
        run.run.key.arch,
        f"{number} x {scope.device_name or 'unknown device'}",
        f"{scope.engine} {scope.engine_version or '(version not recorded)'}",
        str(judgement.rounds),
        judgement.outcome,
        f"{judgement.choice or 'nobody'}{standing}",
        f"{judgement.baseline or 'none'}{role}",
    )


def _shared(runs: Sequence[RunShown]) -> str:
    key, scope = runs[0].run.key, runs[0].run.scope
    text = (
        f"All are about {key.model}, {key.quantization}, geometry {scope.geometry} (hidden, expert "
        "width, experts, top-k)"
    )
    lengths = {(r.run.workload.input_tokens, r.run.workload.output_tokens) for r in runs}
    if len(lengths) == 1 and None not in (pair := lengths.pop()):
        text += f"; {pair[0]} tokens in, {pair[1]} out"
    digests = {run.run.workload.digest for run in runs}
    if len(digests) == 1 and None not in digests:
        text += f"; the same prompts (workload digest {digests.pop()})"
    return f"{text}."


def _candidates(runs: Sequence[RunShown]) -> list[Block]:
    """Who isn't in every run, and which name stands for something else in another run."""
    launched = candidate_differences(runs)
    if not launched:
        return []
    blocks: list[Block] = []
    renamed = renamed_candidates(runs)
    if renamed:
        verb = "isn't" if len(renamed) == 1 else "aren't"
        text = f"{', '.join(renamed)} {verb} the same candidate in every run, in spite of the name."
        blocks.append(Paragraph(text))
    text = (
        "Candidates that aren't in all runs, or not launched the same (engine, backend, arguments):"
    )
    return [
        *blocks,
        Paragraph(text),
        *_difference_table(runs, launched, title="candidate"),
    ]


def _difference_table(
    runs: Sequence[RunShown], differences: Sequence[Difference], *, title: str = "field"
) -> tuple[Block, ...]:
    columns = [Column(title, code=True), *(Column(run.label) for run in runs)]
    rows = [(one.field, *one.values) for one in differences]
    if any(one.weight for one in differences):
        columns.insert(1, Column("weight"))
        rows = [(one.field, one.weight or "", *one.values) for one in differences]
    return capped(tuple(columns), rows)


def _figures(runs: Sequence[RunShown]) -> Section:
    """One table: a row for each concurrency, candidate and run, so that runs stand together."""
    candidates = dict.fromkeys(name for run in runs for name in run.subject.names)
    order = {name: place for place, name in enumerate(candidates)}
    tables = []
    for place, run in enumerate(runs):
        summary = run.subject.summary
        summary = summary[summary["rounds"] > 0]
        judgement = run.subject.judgement
        tables.append(
            summary.assign(
                run=place,
                order=summary["candidate"].map(order),
                ratio=ratio_texts(summary, judgement),
                may_win=may_win_texts(summary, judgement),
            )
        )
    whole = pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)
    if not len(whole):
        return Section("Figures", (Paragraph("No point of these runs is valid."),))
    whole = whole.sort_values(["concurrency", "order", "run"])
    columns = [Column("concurrency", numeric=True), Column("candidate", code=True), _RUN]
    cells = [
        [str(value) for value in whole["concurrency"]],
        [str(value) for value in whole["candidate"]],
        [runs[int(place)].label for place in whole["run"]],
    ]
    if bool((whole["may_win"] == "no").any()):
        columns.append(Column("may win"))
        cells.append([str(value) for value in whole["may_win"]])
    for title, texts in [*figure_columns(whole), *_ratios(runs, whole)]:
        columns.append(Column(title, numeric=True))
        cells.append(texts)
    columns.append(Column("n", numeric=True))
    cells.append([str(value) for value in whole["rounds"]])
    table = Table(tuple(columns), tuple(zip(*cells, strict=True)))
    return Section("Figures", (table, Paragraph(_note(whole))))


def _ratios(runs: Sequence[RunShown], whole: pd.DataFrame) -> list[tuple[str, list[str]]]:
    baselines = {run.subject.judgement.baseline for run in runs}
    if baselines == {None}:
        return []
    own = "baseline" if len(baselines) > 1 else str(next(iter(baselines)))
    return [(f"ratio to the run's own {own}", [str(value) for value in whole["ratio"]])]


def _note(whole: pd.DataFrame) -> str:
    levels = sorted({percent(value) for value in whole["ratio_confidence"].dropna()})
    text = "n is the number of valid rounds"
    if levels:
        text += (
            f"; brackets hold the {'/'.join(levels)} interval of a ratio within its run. What "
            "differs between runs (machine, day, version) is in none of them"
        )
    return f"{text}. n/a: not carried by the number of requests, or not recorded."


def _rejected(runs: Sequence[RunShown]) -> Section:
    columns = (
        _RUN,
        Column("candidate", code=True),
        Column("backend", code=True),
        Column("correctness"),
        Column("why it can't win"),
    )
    rows = [
        (run.label, s.candidate, s.backend, s.verdict, s.reason or "no reason recorded")
        for run in runs
        for s in run.subject.judgement.standings
        if not s.admissible
    ]
    return Section("Rejected candidates", capped(columns, rows) if rows else ())


def _plots(runs: Sequence[RunShown], files: tuple[str, ...]) -> Section:
    """The plots of what decides, which files lie beside the report, and what nobody measured."""
    blocks: list[Block] = _pictures(files, (THROUGHPUT, RATIO))
    blocks.append(Paragraph(files_words(files)))
    without: dict[str, list[str]] = {}
    for run in runs:
        for quantity in unmeasured(run.subject):
            without.setdefault(quantity.name, []).append(run.label)
    for name, labels in without.items():
        blocks.append(Paragraph(f"{name}: no figures in {', '.join(labels)}."))
    return Section("Plots", tuple(blocks))


def _further_plots(files: tuple[str, ...]) -> Section:
    further = [quantity for quantity in QUANTITIES if quantity not in (THROUGHPUT, RATIO)]
    return Section("Further plots", tuple(_pictures(files, further)), folded=True)


def _pictures(files: tuple[str, ...], quantities: Sequence[Quantity]) -> list[Block]:
    return [
        Picture(f"{quantity.stem}.png", f"{quantity.name}, a panel for each run")
        for quantity in quantities
        if f"{quantity.stem}.png" in files
    ]


def _with_run(
    runs: Sequence[RunShown],
    title: str,
    columns: tuple[Column, ...],
    rows_of: Callable[[Subject], list[tuple[str, ...]]],
) -> Section:
    rows = [(run.label, *row) for run in runs for row in rows_of(run.subject)]
    if not rows:
        return Section(title)
    return Section(title, capped((_RUN, *columns), rows), folded=len(rows) > MOST_OPEN)


def _one_run(run: RunShown) -> Section:
    blocks = (
        *verdict_section(run.subject).blocks,
        *candidates_section(run.subject, side_effects=run.side_effects).blocks,
    )
    return Section(f"Run {run.label}", blocks, folded=True)


def _environments(runs: Sequence[RunShown]) -> Section:
    title = "What differs between the environments"
    missing = [run.label for run in runs if not run.environment]
    blocks: list[Block] = []
    if missing:
        blocks.append(Paragraph(f"No environment recorded: {', '.join(missing)}."))
    differences = environment_differences([run for run in runs if run.environment])
    known = [run for run in runs if run.environment]
    if differences:
        blocks += _difference_table(known, differences)
    elif len(known) > 1:
        blocks.append(Paragraph("Nothing, as far as it's recorded."))
    return Section(title, tuple(blocks), folded=True)


def _hard_differences(runs: Sequence[RunShown]) -> list[str]:
    """What of the recorded environments differs and may make figures incomparable."""
    known = [run for run in runs if run.environment]
    return [one.field for one in environment_differences(known) if one.weight == "hard"]


def _reproduce(runs: Sequence[RunShown]) -> Section:
    folders = [run.label.removeprefix(f"run {n}: ") for n, run in enumerate(runs, start=1)]
    return Section(
        "How to reproduce",
        (
            Paragraph(
                "Each run has a report of its own in its folder, with its launches, its "
                "environment and what was probed. This one is made of the folders' records by:"
            ),
            Code((f"autotune report {shlex.join(folders)} --to FOLDER",)),
        ),
        folded=True,
    )
