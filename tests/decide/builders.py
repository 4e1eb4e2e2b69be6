"""Small runs from plain numbers: throughputs by candidate, round and concurrency."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.decide.rule import judge_run
from autotune.decide.schema import Judgement, Standing
from autotune.decisions.schema import DecisionKey, Geometry, Scope, Verdict
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

KEY = DecisionKey("MiniMaxM2ForCausalLM", "modelopt_fp4", "sm100")
SCOPE = Scope(
    engine="sglang",
    engine_version="0.5.12",
    geometry=Geometry(3072, 1536, 256, 8),
    tp=4,
    device_name="GB200",
    device_count=4,
)

# Rounds of one candidate, each with a throughput per concurrency; None where nothing is valid.
Rounds = Sequence[Sequence[float | None]]

# SGLang pull request 32229, output tokens/s at concurrency 1, 16, 64 and 128.
ORIGIN: dict[str, Rounds] = {
    "flashinfer_cutlass": [[142.9, 1646.0, 4528.1, 7194.9]],
    "flashinfer_trtllm_routed": [[198.7, 2100.9, 5978.6, 9716.7]],
    "flashinfer_cutedsl": [[201.5, 1824.9, 4936.0, 8346.7]],
}
ORIGIN_CONCURRENCIES = (1, 16, 64, 128)


def point(
    candidate: str,
    round_number: int,
    concurrency: int,
    *,
    throughput: float | None = None,
    **fields: Any,
) -> PointRecord:
    """A valid point with this throughput unless ``fields`` say otherwise."""
    given: dict[str, Any] = {
        "status": "ok",
        "figures": PointFigures(output_tokens_per_s=throughput, ttft_s=Distribution(mean=0.1)),
    }
    return PointRecord(
        candidate=candidate,
        round=round_number,
        concurrency=concurrency,
        **(given | fields),
    )


def launch(candidate: str, round_number: int, **fields: Any) -> LaunchRecord:
    """A launch that went well unless ``fields`` say otherwise."""
    given: dict[str, Any] = {"position": 0, "status": "ok"}
    return LaunchRecord(candidate=candidate, round=round_number, **(given | fields))


def make_run(
    throughputs: Mapping[str, Rounds],
    *,
    concurrencies: Sequence[int] = (1, 16),
    points: Sequence[PointRecord] = (),
    launches: Sequence[LaunchRecord] = (),
    rule: Rule | None = None,
    **fields: Any,
) -> LoadedRun:
    """A run with these throughputs; a ``None`` has no point, unless ``points`` adds one."""
    measured = [
        point(name, number, concurrency, throughput=value)
        for name, rounds in throughputs.items()
        for number, row in enumerate(rounds, start=1)
        for concurrency, value in zip(concurrencies, row, strict=True)
        if value is not None
    ]
    given: dict[str, Any] = {
        "kind": "sweep",
        "name": "demo",
        "created_at": "2026-01-02T03:00:00Z",
        "key": KEY,
        "scope": SCOPE,
        "candidates": tuple(
            Candidate(name=name, engine="sglang", backend=f"{name}_backend") for name in throughputs
        ),
        "concurrencies": tuple(concurrencies),
        "rule": rule or Rule(max_rounds=3),
        "workload": Workload(),
    }
    return LoadedRun(
        run=RunRecord(**(given | fields)),
        launches=tuple(launches),
        points=(*measured, *points),
        probes=(),
    )


def verdicts(run: LoadedRun, **others: Verdict) -> dict[str, CandidateVerdict]:
    """Everybody passes except where ``others`` say otherwise."""
    reasons = {
        "pass": "answers agree",
        "fail": "garbled answers",
        "inconclusive": "too little agreement",
    }
    given = {c.name: others.get(c.name, "pass") for c in run.run.candidates}
    return {
        name: CandidateVerdict(candidate=name, verdict=verdict, reason=reasons[verdict])
        for name, verdict in given.items()
    }


def judge(run: LoadedRun, **others: Verdict) -> Judgement:
    return judge_run(run, verdicts(run, **others))


def standing(judgement: Judgement, name: str) -> Standing:
    return next(one for one in judgement.standings if one.candidate == name)


def around(level: float, *noise: float, concurrencies: int = 2) -> list[list[float | None]]:
    """One round for each entry of ``noise`` (a difference in ln), all concurrencies alike."""
    return [[level * math.exp(one) for _ in range(concurrencies)] for one in noise]
