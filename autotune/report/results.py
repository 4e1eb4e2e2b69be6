"""The sections that say what came out: the verdict, and the figures behind it."""

import pandas as pd

from autotune.decide.schema import Judgement
from autotune.decide.wording import LET_IN
from autotune.report.content import Block, Bullets, Column, Paragraph, Section, Table
from autotune.report.numbers import UNKNOWN, figure, percent, ratio, time_unit
from autotune.report.quantities import LATENCY, TTFT, Quantity
from autotune.report.subject import Subject
from autotune.report.text import count

_CLOSED_LOOP = (
    "Concurrency c means c busy users: a closed loop that sends a new request when one ends. It "
    "answers how c busy users are served, not how a rate of arrivals would be: a slow server slows "
    "its own load, so waiting times under open arrivals can be longer than these."
)


_AVERAGES = (
    "Throughput is the geometric mean over the n valid rounds; times are means of each round's "
    "figure. A ratio is of the rounds that both candidates have (paired), so that it isn't the "
    "quotient of two means where one of them lacks a round."
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
    blocks += _decision_blocks(subject)
    blocks.append(Paragraph(_setting(subject)))
    return Section("Verdict", tuple(blocks))


def _decision_blocks(subject: Subject) -> list[Block]:
    """What stands against a decision, or in spite of what somebody had it written."""
    blocks: list[Block] = []
    if subject.accepted:
        blocks += [
            Paragraph("A decision was written, accepted by hand (--accept) in spite of:"),
            Bullets(subject.accepted),
        ]
    open_still = tuple(one for one in subject.judgement.blockers if one not in subject.accepted)
    if open_still:
        blocks += [Paragraph("What stands against writing a decision:"), Bullets(open_still)]
    if subject.inconclusive_let_in:
        blocks.append(Paragraph(f"Accepted by hand (--accept-inconclusive): {LET_IN}."))
    return blocks


def figures_section(subject: Subject) -> Section:
    """One row for each concurrency and candidate, with the ratio to the baseline."""
    summary = subject.summary[subject.summary["rounds"] > 0]
    if not len(summary):
        return Section("Figures", (Paragraph("No point of this run is valid."),))
    places = {name: place for place, name in enumerate(subject.names)}
    summary = summary.assign(place=summary["candidate"].map(places))
    summary = summary.sort_values(["concurrency", "place"])
    columns = [Column("concurrency", numeric=True), Column("candidate", code=True)]
    cells = [
        [str(value) for value in summary["concurrency"]],
        [str(value) for value in summary["candidate"]],
    ]
    may_win = may_win_texts(summary, subject.judgement)
    if "no" in may_win:
        columns.append(Column("may win"))
        cells.append(may_win)
    for title, texts in figure_columns(summary):
        columns.append(Column(title, numeric=True))
        cells.append(texts)
    if subject.judgement.baseline is not None:
        columns.append(Column(f"ratio to {subject.judgement.baseline}", numeric=True))
        cells.append(ratio_texts(summary, subject.judgement))
    columns.append(Column("n", numeric=True))
    cells.append([str(value) for value in summary["rounds"]])
    table = Table(tuple(columns), tuple(zip(*cells, strict=True)))
    return Section("Figures", (table, Paragraph(_footnote(subject)), *_winners(subject)))


def reading_section() -> Section:
    """How the figures are to be read, for who needs it."""
    return Section(
        "How to read the figures",
        (Paragraph(_AVERAGES), Paragraph(_CLOSED_LOOP)),
        folded=True,
    )


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


def figure_columns(summary: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Return the columns of throughput, TTFT and latency, each with its unit, as texts.

    Of times p50 and p99; the mean only where some row has no p50. One unit serves all rows.
    """
    throughput = [figure(value) for value in summary["output_tokens_per_s"]]
    return [
        ("output tokens/s", throughput),
        *_times(summary, TTFT, "TTFT"),
        *_times(summary, LATENCY, "latency"),
    ]


def _times(summary: pd.DataFrame, quantity: Quantity, title: str) -> list[tuple[str, list[str]]]:
    median, mean, high = quantity.columns
    if not summary[[median, mean, high]].notna().any(axis=None):
        return []
    only_mean = bool((summary[median].isna() & summary[mean].notna()).any())
    shown = [median] if summary[median].notna().any() or not only_mean else []
    shown += [*([mean] if only_mean else []), high]
    unit = time_unit(value for column in shown for value in summary[column])
    return [
        (
            f"{title} {column.rpartition('_')[2]} ({unit.name})",
            [unit.show(v) for v in summary[column]],
        )
        for column in shown
    ]


def ratio_texts(summary: pd.DataFrame, judgement: Judgement) -> list[str]:
    """Return each row's throughput ratio to the baseline; the baseline's own says what it is."""
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


def may_win_texts(summary: pd.DataFrame, judgement: Judgement) -> list[str]:
    """Return of each row whether its candidate may win: a wrong one may well be the fastest."""
    admissible = {standing.candidate for standing in judgement.standings if standing.admissible}
    return ["yes" if name in admissible else "no" for name in summary["candidate"]]


def _footnote(subject: Subject) -> str:
    levels = sorted({percent(value) for value in subject.summary["ratio_confidence"].dropna()})
    text = "n is the number of valid rounds"
    if levels:
        text += f"; brackets hold the ratio's {'/'.join(levels)} interval over n paired rounds"
    return (
        f"{text}. {UNKNOWN}: a percentile that the number of requests doesn't carry (p99 needs "
        "299), or a figure that nobody recorded."
    )


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
