"""The sections about candidates: how each stands, and why some can't win."""

from collections.abc import Mapping

from autotune.decide.limits import check_limits, name_of, value_of
from autotune.decide.schema import Judgement, Standing
from autotune.report.content import Block, Bullets, Column, Paragraph, Section, Table
from autotune.report.numbers import UNKNOWN, percent, ratio
from autotune.report.subject import Subject


def rejected_section(subject: Subject) -> Section:
    """Who can't win, and why; empty where everybody may."""
    rejected = [s for s in subject.judgement.standings if not s.admissible]
    if not rejected:
        return Section("Rejected candidates")
    columns = (
        Column("candidate", code=True),
        Column("backend", code=True),
        Column("correctness"),
        Column("why it can't win"),
    )
    rows = tuple(
        (s.candidate, s.backend, s.verdict, s.reason or "no reason recorded") for s in rejected
    )
    return Section("Rejected candidates", (Table(columns, rows),))


def candidates_section(
    subject: Subject, *, side_effects: Mapping[str, str] | None = None
) -> Section:
    """Each candidate's correctness and overall ratio, and whether it may win.

    Args:
        subject: the run.
        side_effects: a sentence for each candidate that changes more than its kernels.
    """
    columns = (
        Column("candidate", code=True),
        Column("backend", code=True),
        Column("correctness"),
        Column("may win"),
        Column("rounds", numeric=True),
        Column("ratio to the baseline", numeric=True),
        Column("leader's ratio to it", numeric=True),
    )
    rows = tuple(_candidate_row(subject, standing) for standing in subject.judgement.standings)
    blocks: list[Block] = [Table(columns, rows)] if rows else []
    blocks.append(Paragraph(_ratio_note(subject.judgement)))
    doubts = doubts_of(subject)
    if doubts:
        blocks += [Paragraph("Not shown to be right:"), Bullets(doubts)]
    if side_effects:
        told = grouped({n: side_effects[n] for n in subject.names if n in side_effects})
        if told:
            blocks += [Paragraph("What else a candidate changes:"), Bullets(told)]
    blocks += _limits(subject)
    return Section("Candidates", tuple(blocks))


def doubts_of(subject: Subject) -> tuple[str, ...]:
    """Say of each candidate that may win and whose answers didn't pass, why they didn't."""
    reasons = {
        s.candidate: f"{subject.verdicts[s.candidate].verdict}: "
        f"{subject.verdicts[s.candidate].reason}"
        for s in subject.judgement.standings
        if s.admissible
        and s.candidate in subject.verdicts
        and subject.verdicts[s.candidate].verdict != "pass"
    }
    return grouped(reasons)


def grouped(sentences: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``name, name: sentence``, one for each different sentence."""
    names: dict[str, list[str]] = {}
    for name, sentence in sentences.items():
        names.setdefault(sentence, []).append(name)
    return tuple(f"{', '.join(who)}: {sentence}" for sentence, who in names.items())


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


def _candidate_row(subject: Subject, standing: Standing) -> tuple[str, ...]:
    baseline = standing.candidate == subject.judgement.baseline
    role = subject.judgement.baseline_role or "baseline"
    return (
        standing.candidate,
        standing.backend,
        standing.verdict,
        _may_win(subject.judgement, standing, accepted=bool(subject.accepted)),
        str(standing.rounds),
        role if baseline else ratio(standing.to_baseline),
        _behind(subject.judgement, standing),
    )


def _may_win(judgement: Judgement, standing: Standing, *, accepted: bool) -> str:
    if not standing.admissible:
        return "no"
    if standing.candidate != judgement.choice:
        return "yes"
    if accepted:
        return "yes, accepted by hand"
    return "yes, proposed" if judgement.blockers else "yes, chosen"


def _behind(judgement: Judgement, standing: Standing) -> str:
    # The leader is who is behind nobody; it needn't be the choice, which may be an equal incumbent.
    others = any(other.behind is not None for other in judgement.standings)
    if standing.behind is None and standing.admissible and others:
        return "leader"
    return ratio(standing.behind)
