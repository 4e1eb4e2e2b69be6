"""The sections that say what came out: verdict, plots, figures, candidates."""

from collections.abc import Sequence

import pandas as pd

from autotune.decide.limits import check_limits, name_of, value_of
from autotune.decide.schema import Judgement, Standing
from autotune.report.content import Block, Bullets, Column, Paragraph, Picture, Section, Table
from autotune.report.figures import OVERVIEW
from autotune.report.numbers import UNKNOWN, figure, known, percent, ratio, time_unit
from autotune.report.quantities import LATENCY, QUANTITIES, TTFT, Quantity
from autotune.report.subject import Subject
from autotune.report.text import count

_CLOSED_LOOP = (
    "Concurrency c means c busy users: a closed loop that sends a new request when one ends. It "
    "answers how c busy users are served, not how a rate of arrivals would be: a slow server slows "
    "its own load, so waiting times under open arrivals can be longer than these."
)


def verdict_section(subject: Subject) -> Section:
    """The sentence that a reviewer reads first, how sure it is, and what goes with it."""
    judgement, rule = subject.judgement, subject.run.run.rule
    blocks: list[Block] = [
        Paragraph(judgement.summary, strong=True),
        Paragraph(_sureness(judgement, delta=rule.delta, alpha=rule.alpha)),
    ]
    if judgement.notes:
        blocks.append(Bullets(judgement.notes))
    if judgement.blockers:
        blocks.append(Paragraph("What stands against writing a decision:"))
        blocks.append(Bullets(judgement.blockers))
    blocks.append(Paragraph(_setting(subject)))
    return Section("Verdict", tuple(blocks))


def plots_section(subject: Subject, *, files: Sequence[str]) -> Section:
    """The plots that were drawn; a quantity without figures is named, not drawn empty."""
    blocks: list[Block] = []
    stems = [OVERVIEW] if f"{OVERVIEW}.png" in files else [q.stem for q in QUANTITIES]
    for stem in stems:
        if f"{stem}.png" in files:
            description = f"{stem} of {count(len(subject.names), 'candidate')} against concurrency"
            blocks.append(Picture(f"{stem}.png", description))
    names = ", ".join(name for name in sorted(files) if name.endswith((".png", ".svg")))
    if names:
        blocks.append(Paragraph(f"Files beside this report: {names}."))
    blocks += [Paragraph(_missing(subject, quantity)) for quantity in _unmeasured(subject)]
    return Section("Plots", tuple(blocks))


def figures_section(subject: Subject) -> Section:
    """One row for each concurrency and candidate, with the ratio to the baseline."""
    summary = subject.summary[subject.summary["rounds"] > 0]
    if not len(summary):
        return Section("Figures", (Paragraph("No point of this run is valid."),))
    places = {name: place for place, name in enumerate(subject.names)}
    summary = summary.assign(place=summary["candidate"].map(places))
    summary = summary.sort_values(["concurrency", "place"])
    columns = [
        Column("concurrency", numeric=True),
        Column("candidate", code=True),
        Column("output tokens/s", numeric=True),
    ]
    cells = [
        [str(value) for value in summary["concurrency"]],
        [str(value) for value in summary["candidate"]],
        [figure(value) for value in summary["output_tokens_per_s"]],
    ]
    for title, texts in [*_times(summary, TTFT, "TTFT"), *_times(summary, LATENCY, "latency")]:
        columns.append(Column(title, numeric=True))
        cells.append(texts)
    if subject.judgement.baseline is not None:
        columns.append(Column(f"ratio to {subject.judgement.baseline}", numeric=True))
        cells.append(_ratios(summary, subject.judgement))
    columns.append(Column("n", numeric=True))
    cells.append([str(value) for value in summary["rounds"]])
    table = Table(tuple(columns), tuple(zip(*cells, strict=True)))
    notes = [Paragraph(text) for text in (*_footnotes(subject), _CLOSED_LOOP)]
    return Section("Figures", (table, *_winners(subject), *notes))


def candidates_section(subject: Subject) -> Section:
    """Each candidate's correctness, overall ratio, and why it can't win where it can't."""
    columns = (
        Column("candidate", code=True),
        Column("backend", code=True),
        Column("correctness"),
        Column("agreement", numeric=True),
        Column("answers", numeric=True),
        Column("may win"),
        Column("rounds", numeric=True),
        Column("ratio to the baseline", numeric=True),
        Column("leader's ratio to it", numeric=True),
    )
    rows = tuple(_candidate_row(subject, standing) for standing in subject.judgement.standings)
    blocks: list[Block] = [Table(columns, rows)] if rows else []
    blocks.append(Paragraph(_ratio_note(subject.judgement)))
    rejected = tuple(
        f"{standing.candidate}: {standing.reason or 'no reason recorded'}"
        for standing in subject.judgement.standings
        if not standing.admissible
    )
    if rejected:
        blocks += [Paragraph("Rejected, and why:"), Bullets(rejected)]
    blocks += _limits(subject)
    reasons = tuple(
        f"{name}: {subject.verdicts[name].verdict}: {subject.verdicts[name].reason}"
        for name in subject.names
        if name in subject.verdicts
    )
    if reasons:
        blocks += [Paragraph("Correctness:"), Bullets(reasons)]
    return Section("Candidates", tuple(blocks))


def _limits(subject: Subject) -> list[Block]:
    """What each candidate showed against each configured limit."""
    run = subject.run.run
    if not run.rule.limits:
        return []
    rows = []
    for name in subject.names:
        points = [point for point in subject.run.points if point.candidate == name]
        for check in check_limits(points, run):
            observed = check.observed
            rows.append(
                (
                    name,
                    name_of(check),
                    value_of(check.limit, check.limit.at_most),
                    UNKNOWN if observed is None else value_of(check.limit, observed),
                    str(check.rounds),
                    {True: "yes", False: "no", None: "not known"}[check.kept],
                )
            )
    columns = (
        Column("candidate", code=True),
        Column("limited"),
        Column("at most", numeric=True),
        Column("observed", numeric=True),
        Column("n", numeric=True),
        Column("kept"),
    )
    text = "Limits, whatever the throughput; observed is the mean over n valid rounds:"
    return [Paragraph(text), Table(columns, tuple(rows))]


def _ratio_note(judgement: Judgement) -> str:
    text = "Ratios are of throughput over all concurrencies (weighted geometric mean)"
    estimates = [e for s in judgement.standings for e in (s.to_baseline, s.behind) if e is not None]
    levels = sorted({percent(e.interval.confidence) for e in estimates if e.interval is not None})
    return f"{text}; brackets hold their {'/'.join(levels)} interval." if levels else f"{text}."


def _sureness(judgement: Judgement, *, delta: float, alpha: float) -> str:
    rounds = count(judgement.rounds, "complete round")
    outcome = f"Outcome {judgement.outcome}, from {rounds}:"
    if judgement.outcome == "decisive":
        return (
            f"{outcome} every other admissible candidate is slower than the choice, with at most "
            f"{percent(alpha)} chance of a false claim over the whole run."
        )
    if judgement.outcome == "within_delta":
        return (
            f"{outcome} no other admissible candidate is faster than the choice by more than "
            f"{percent(delta)}, with at most {percent(alpha)} chance of a false claim over the "
            "whole run."
        )
    return f"{outcome} what was measured doesn't settle which candidate is the best."


def _setting(subject: Subject) -> str:
    run = subject.run.run
    scope, workload = run.scope, run.workload
    device = f"{scope.device_count or 'unknown number'} x {scope.device_name or 'unknown device'}"
    facts = [
        f"Measured for {run.key}, geometry {scope.geometry} (hidden, expert width, experts, top-k)",
        f"{scope.engine} {scope.engine_version or '(version not recorded)'} on {device}",
    ]
    sizes = [("tp", scope.tp), ("ep", scope.ep), ("dp", scope.dp), ("a2a", scope.a2a_backend)]
    facts += [", ".join(f"{name} {size}" for name, size in sizes if size is not None)]
    if workload.input_tokens is not None and workload.output_tokens is not None:
        facts.append(f"{workload.input_tokens} tokens in, {workload.output_tokens} out")
    if run.source is not None:
        facts.append(f"imported from {run.source}")
    return "; ".join(fact for fact in facts if fact) + "."


def _unmeasured(subject: Subject) -> list[Quantity]:
    tables = (subject.summary, subject.points)
    return [
        quantity
        for quantity in QUANTITIES
        if quantity.kind != "ratio"
        and not any(table[list(quantity.columns)].notna().any(axis=None) for table in tables)
    ]


def _missing(subject: Subject, quantity: Quantity) -> str:
    verb = "published in the imported table" if subject.imported else "measured"
    return f"{quantity.name}: not {verb}."


def _times(summary: pd.DataFrame, quantity: Quantity, title: str) -> list[tuple[str, list[str]]]:
    """Columns of one quantity in one unit: p50 and p99; the mean only where there's no p50."""
    median, mean, high = quantity.columns
    shown = [median if summary[median].notna().any() else mean, high]
    unit = time_unit(value for column in shown for value in summary[column])
    if not summary[shown].notna().any(axis=None):
        return []
    return [
        (
            f"{title} {column.rpartition('_')[2]} ({unit.name})",
            [unit.show(v) for v in summary[column]],
        )
        for column in shown
    ]


def _ratios(summary: pd.DataFrame, judgement: Judgement) -> list[str]:
    standings = {standing.candidate: standing for standing in judgement.standings}
    texts: list[str] = []
    rows = zip(summary["candidate"], summary["concurrency"], summary["rounds"], strict=True)
    for name, concurrency, rounds in rows:
        if name == judgement.baseline:
            texts.append(judgement.baseline_role or "baseline")
            continue
        standing = standings.get(name)
        estimate = standing.to_baseline_at.get(int(concurrency)) if standing else None
        texts.append(ratio(estimate, told_n=int(rounds)))
    return texts


def _footnotes(subject: Subject) -> list[str]:
    levels = sorted({percent(value) for value in subject.summary["ratio_confidence"].dropna()})
    notes = []
    if levels:
        notes.append(f"Brackets hold the ratio's {'/'.join(levels)} interval over n paired rounds.")
    notes.append(
        "Throughput is the geometric mean over the n valid rounds, times are means of each round's "
        f"figure; {UNKNOWN} stands for a percentile that the number of requests doesn't carry "
        "(p99 needs 299) or a figure that nobody recorded."
    )
    return notes


def _winners(subject: Subject) -> list[Block]:
    winners = subject.judgement.winners
    if not winners:
        return []
    if all(winner.candidate == subject.judgement.choice for winner in winners):
        text = f"{subject.judgement.choice} has the highest mean at every measured concurrency"
        text += "." if subject.judgement.outcome == "decisive" else ", which isn't proof of a lead."
        return [Paragraph(text)]
    columns = (
        Column("concurrency", numeric=True),
        Column("highest mean of the admissible", code=True),
        Column("its ratio to the choice", numeric=True),
    )
    rows = []
    for winner in winners:
        text = f"{winner.ratio_to_choice:.3f}"
        if winner.interval is not None:
            text += f" [{winner.interval.low:.3f}, {winner.interval.high:.3f}]"
        rows.append((str(winner.concurrency), winner.candidate, text))
    return [Table(columns, tuple(rows))]


def _candidate_row(subject: Subject, standing: Standing) -> tuple[str, ...]:
    verdict = subject.verdicts.get(standing.candidate)
    agreement = verdict.agreement if verdict is not None else None
    baseline = standing.candidate == subject.judgement.baseline
    role = subject.judgement.baseline_role or "baseline"
    return (
        standing.candidate,
        standing.backend,
        standing.verdict,
        f"{agreement:.3f}" if agreement is not None and known(agreement) else UNKNOWN,
        str(verdict.answers) if verdict is not None else UNKNOWN,
        _may_win(subject.judgement, standing),
        str(standing.rounds),
        role if baseline else ratio(standing.to_baseline),
        _behind(subject.judgement, standing),
    )


def _may_win(judgement: Judgement, standing: Standing) -> str:
    if not standing.admissible:
        return "no"
    if standing.candidate != judgement.choice:
        return "yes"
    return "yes, proposed" if judgement.blockers else "yes, chosen"


def _behind(judgement: Judgement, standing: Standing) -> str:
    # The leader is who is behind nobody; it needn't be the choice, which may be an equal incumbent.
    others = any(other.behind is not None for other in judgement.standings)
    if standing.behind is None and standing.admissible and others:
        return "leader"
    return ratio(standing.behind)
