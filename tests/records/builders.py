"""Synthetic runs: records and a judgement that hold together, from a few numbers and a seed."""

import math
import random
from collections.abc import Mapping, Sequence

from autotune.decide.schema import Judgement, RatioEstimate, Standing
from autotune.decisions.schema import ConcurrencyWinner, DecisionKey, Geometry, Interval, Scope
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun
from autotune.records.rule import Rule
from autotune.records.schema import (
    Candidate,
    Distribution,
    LaunchRecord,
    PointFigures,
    PointRecord,
    RunRecord,
    Workload,
)

CONCURRENCIES = (1, 4, 16, 64)
SPEEDS = {"eager": 1.0, "batched_mm": 1.18, "grouped_mm": 1.31}


def distribution(mean: float, *, n: int) -> Distribution:
    """A plausible spread around ``mean`` seconds, percentiles only where ``n`` carries them."""
    return Distribution(
        n=n,
        mean=mean,
        p50=mean * 0.96,
        p90=mean * 1.2 if n >= 29 else None,
        p95=mean * 1.35 if n >= 59 else None,
        p99=mean * 1.8 if n >= 299 else None,
    )


def figures(speed: float, concurrency: int, *, noise: float = 1.0) -> PointFigures:
    """Figures of a server that does ``speed`` times 150 tokens/s for one user and saturates."""
    throughput = speed * noise * 150 * concurrency / (1 + concurrency / 60)
    output_tokens, requests = 128, max(64, 10 * concurrency)
    latency = concurrency * output_tokens / throughput
    ttft = 0.02 / speed / noise * (1 + concurrency / 20)
    return PointFigures(
        output_tokens_per_s=throughput,
        total_tokens_per_s=throughput * 2,
        requests_per_s=throughput / output_tokens,
        whole_run_output_tokens_per_s=throughput * 0.97,
        achieved_concurrency=0.99,
        peak_streaming=concurrency,
        window_s=requests * output_tokens / throughput,
        input_tokens_mean=128.0,
        output_tokens_mean=128.0,
        cached_tokens_mean=0.0,
        ttft_s=distribution(ttft, n=requests),
        latency_s=distribution(latency, n=requests),
        tpot_s=distribution((latency - ttft) / (output_tokens - 1), n=requests),
        itl_s=distribution((latency - ttft) / (output_tokens - 1), n=requests),
    )


def point(candidate: str, round_number: int, concurrency: int, **fields: object) -> PointRecord:
    """A valid point unless ``fields`` say otherwise."""
    given: dict[str, object] = {
        "candidate": candidate,
        "round": round_number,
        "concurrency": concurrency,
        "status": "ok",
        "started_at": "2026-01-02T03:04:05Z",
        "workload_digest": "ab" * 32,
        "requests_sent": max(64, 10 * concurrency),
        "requests_ok": max(64, 10 * concurrency),
    }
    return PointRecord(**(given | fields))  # type: ignore[arg-type]


def launch(candidate: str, round_number: int, position: int, **fields: object) -> LaunchRecord:
    """A launch that went well unless ``fields`` say otherwise."""
    given: dict[str, object] = {
        "candidate": candidate,
        "round": round_number,
        "position": position,
        "status": "ok",
        "ready_s": 12.5,
        "resolved_backend": candidate,
        "command": ("server", "--model", "tiny model", f"--backend={candidate}"),
    }
    return LaunchRecord(**(given | fields))  # type: ignore[arg-type]


def make_run(
    speeds: Mapping[str, float] = SPEEDS,
    *,
    concurrencies: Sequence[int] = CONCURRENCIES,
    rounds: int = 3,
    seed: int = 1,
    noise: float = 0.015,
    device_name: str = "NVIDIA H200",
) -> LoadedRun:
    """A sweep in which every launch and point went well."""
    draw = random.Random(seed)
    launches, points = [], []
    for round_number in range(1, rounds + 1):
        for position, (name, speed) in enumerate(speeds.items()):
            launches.append(launch(name, round_number, position))
            factor = math.exp(draw.gauss(0, noise))
            for concurrency in concurrencies:
                jitter = factor * math.exp(draw.gauss(0, noise / 3))
                measured = figures(speed, concurrency, noise=jitter)
                points.append(point(name, round_number, concurrency, figures=measured))
    return LoadedRun(
        run=run_record(tuple(speeds), tuple(concurrencies), device_name=device_name),
        launches=tuple(launches),
        points=tuple(points),
        probes=(),
    )


def run_record(
    names: Sequence[str], concurrencies: Sequence[int], *, device_name: str = "NVIDIA H200"
) -> RunRecord:
    """A run about MiniMax-M2 with the first of ``names`` as reference and incumbent."""
    return RunRecord(
        kind="sweep",
        name="demo",
        created_at="2026-01-02T03:00:00Z",
        key=DecisionKey("MiniMaxM2ForCausalLM", "modelopt_fp4", "sm90"),
        scope=Scope(
            engine="sglang",
            engine_version="0.5.12",
            geometry=Geometry(3072, 1536, 256, 8),
            device_name=device_name,
            device_count=4,
        ),
        candidates=tuple(Candidate(name=n, engine="sglang", backend=n) for n in names),
        concurrencies=tuple(concurrencies),
        rule=Rule(),
        workload=Workload(digest="ab" * 32, input_tokens=128, output_tokens=128),
        reference=names[0] if names else None,
        incumbent=names[0] if names else None,
        config_digest="cd" * 32,
    )


def estimate(candidate: Sequence[float], baseline: Sequence[float]) -> RatioEstimate:
    """A ratio with a stand-in interval of 1% each side where two rounds or more are paired."""
    n = min(len(candidate), len(baseline))
    logs = [math.log(a / b) for a, b in zip(candidate, baseline, strict=False)]
    ratio = math.exp(sum(logs) / n)
    interval = Interval(ratio * 0.99, ratio * 1.01, 0.95) if n > 1 else None
    return RatioEstimate(ratio=ratio, n=n, interval=interval)


def make_judgement(
    run: LoadedRun, *, rejected: Mapping[str, str] | None = None, **fields: object
) -> Judgement:
    """A judgement by plain means: the fastest candidate that isn't in ``rejected`` wins."""
    rejected = rejected or {}
    measured = {c.name: _throughputs(run, c.name) for c in run.run.candidates}
    names = [name for name in measured if measured[name] and name not in rejected]
    choice = max(names, key=lambda name: list(measured[name].values()), default=None)
    baseline = run.run.incumbent
    winners = [
        ConcurrencyWinner(concurrency=c, candidate=choice, backend=choice, ratio_to_choice=1.0)
        for c in run.run.concurrencies
        if choice is not None
    ]
    given: dict[str, object] = {
        "outcome": "decisive" if choice else "open",
        "choice": choice,
        "summary": f"{choice} is the fastest" if choice else "nobody can be chosen",
        "rounds": max((p.round for p in run.points), default=0),
        "baseline": baseline,
        "baseline_role": "incumbent" if baseline else None,
        "winners": tuple(winners),
        "standings": tuple(
            _standing(c.name, measured, baseline=baseline, reason=rejected.get(c.name))
            for c in run.run.candidates
        ),
    }
    return Judgement(**(given | fields))  # type: ignore[arg-type]


def make_verdicts(run: LoadedRun) -> dict[str, CandidateVerdict]:
    """All pass."""
    return {
        c.name: CandidateVerdict(
            candidate=c.name, verdict="pass", reason="answers agree", agreement=0.98, answers=24
        )
        for c in run.run.candidates
    }


def _standing(
    name: str,
    measured: Mapping[str, Mapping[int, list[float]]],
    *,
    baseline: str | None,
    reason: str | None,
) -> Standing:
    own, base = measured[name], measured.get(baseline or "", {})
    at = {c: estimate(own[c], base[c]) for c in own if c in base}
    flat = [value for c in at for value in own[c]]
    overall = estimate(flat, [value for c in at for value in base[c]]) if at else None
    return Standing(
        candidate=name,
        backend=name,
        verdict="pass",
        admissible=reason is None and bool(own),
        rounds=max((len(values) for values in own.values()), default=0),
        reason=reason or (None if own else "no valid point"),
        to_baseline=overall,
        to_baseline_at=at,
    )


def _throughputs(run: LoadedRun, candidate: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for record in run.points:
        if record.candidate == candidate and record.status == "ok" and record.figures:
            value = record.figures.output_tokens_per_s
            if value is not None:
                found.setdefault(record.concurrency, []).append(value)
    return found
