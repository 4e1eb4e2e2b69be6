"""Freezing a judgement into an entry, and merging entries into a file."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.decide.entry import build_entry, merge_entry
from autotune.decisions import check_decision
from autotune.decisions.schema import DecisionFile, Entry, Geometry, Verdict, decode, encode
from autotune.errors import AutotuneError
from autotune.records.folder import LoadedRun
from autotune.records.schema import Distribution, PointFigures
from tests.decide.builders import KEY, SCOPE, around, judge, launch, make_run, point, verdicts

SLOW = around(100, 0.001, -0.002, 0.001)
FAST = around(120, -0.001, 0.001, 0.0)
TABLES = {"points.csv": "ab" * 32}


def freeze(run: LoadedRun, *, accepted: Sequence[str] = (), **others: Verdict) -> Entry:
    return build_entry(
        run,
        judge(run, **others),
        verdicts(run, **others),
        run_name="demo",
        tables=TABLES,
        measured_at="2026-01-02",
        accepted=accepted,
    )


def entry(**scope: Any) -> Entry:
    """An entry of this scope; its run's name tells it from another of the same scope."""
    whole = freeze(make_run({"slow": SLOW, "fast": FAST}))
    return msgspec.structs.replace(whole, scope=msgspec.structs.replace(SCOPE, **scope))


def named(one: Entry, run: str) -> Entry:
    return msgspec.structs.replace(one, evidence=msgspec.structs.replace(one.evidence, run=run))


def merged(*entries: Entry) -> DecisionFile:
    file: DecisionFile | None = None
    for one in entries:
        file = merge_entry(file, KEY, one)
    assert file is not None
    return file


def test_a_decisive_judgement_becomes_an_entry() -> None:
    one = freeze(make_run({"slow": SLOW, "fast": FAST}, incumbent="slow", source="https://x.test"))
    choice = one.choice
    assert (choice.backend, choice.candidate) == ("fast_backend", "fast")
    assert (choice.outcome, choice.verdict, choice.rounds) == ("decisive", "pass", 3)
    assert (choice.baseline, choice.baseline_role) == ("slow", "incumbent")
    assert choice.ratio == pytest.approx(1.2, rel=1e-3)
    assert choice.interval is not None and choice.interval.confidence == 0.95
    assert [winner.candidate for winner in choice.winners] == ["fast", "fast"]
    assert one.scope == SCOPE
    evidence = one.evidence
    assert (evidence.run, evidence.measured_at, evidence.tables) == ("demo", "2026-01-02", TABLES)
    assert evidence.source == "https://x.test"
    assert evidence.accepted == () and evidence.rejected == ()


def test_the_file_reads_back_and_contradicts_nothing() -> None:
    file = merged(freeze(make_run({"slow": SLOW, "fast": FAST})))
    assert decode(encode(file), where="here") == file
    check_decision(file, KEY, where="here")


def test_rows_hold_means_over_the_valid_rounds() -> None:
    def timed(number: int, ttft: float, p99: float | None) -> Any:
        figures = PointFigures(
            output_tokens_per_s=100.0 * number, ttft_s=Distribution(mean=ttft, p99=p99)
        )
        return point("a", number, 1, figures=figures)

    points = [timed(1, 0.1, 0.5), timed(2, 0.3, None), point("a", 3, 1, status="not_steady")]
    run = make_run({"a": [], "b": [[100.0], [100.0]]}, concurrencies=(1,), points=points)
    blockers = judge(run).blockers
    rows = {row.candidate: row for row in freeze(run, accepted=blockers).evidence.rows}
    assert rows["a"].rounds == 2
    assert rows["a"].output_tokens_per_s == pytest.approx((100 * 200) ** 0.5)
    assert rows["a"].ttft_mean_s == pytest.approx(0.2)
    assert rows["a"].ttft_p99_s is None, "a mean over fewer rounds than the row's would mislead"
    assert rows["b"].latency_mean_s is None


def test_rejected_candidates_come_with_reason_and_verdict() -> None:
    run = make_run(
        {"slow": SLOW, "garbage": FAST, "dead": []}, launches=[launch("dead", 1, status="oom")]
    )
    rejected = {
        one.candidate: one
        for one in freeze(run, garbage="fail", dead="inconclusive").evidence.rejected
    }
    assert set(rejected) == {"garbage", "dead"}
    assert rejected["garbage"].verdict == "fail"
    assert rejected["dead"].reason == "oom in round 1"
    assert rejected["dead"].backend == "dead_backend"


def test_blockers_must_be_accepted_one_by_one() -> None:
    run = make_run({"slow": SLOW[:1], "fast": FAST[:1]})
    both: dict[str, Verdict] = {"slow": "inconclusive", "fast": "inconclusive"}
    blockers = judge(run, **both).blockers
    assert len(blockers) == 2
    for some in ((), blockers[:1], blockers[1:], ("anything",)):
        with pytest.raises(AutotuneError, match="--accept"):
            freeze(run, accepted=some, **both)
    one = freeze(run, accepted=blockers, **both)
    assert one.evidence.accepted == blockers
    assert (one.choice.outcome, one.choice.verdict) == ("open", "inconclusive")


def test_nobody_chosen_is_no_entry_whatever_is_accepted() -> None:
    run = make_run({"a": SLOW, "b": FAST})
    blockers = judge(run, a="fail", b="fail").blockers
    with pytest.raises(AutotuneError, match="no decision"):
        freeze(run, accepted=blockers, a="fail", b="fail")


@pytest.mark.parametrize(
    "other",
    [
        {"geometry": Geometry(2048, 1024, 128, 8)},
        {"engine": "vllm"},
        {"engine_version": "0.6.0"},
        {"engine_version": None},
        {"tp": 8},
        {"ep": 4},
        {"dp": 2},
        {"attention_dp": 4},
        {"engine_settings": {"enable_eplb": "true"}},
        {"a2a_backend": "deepep"},
        {"device_name": "B200"},
        {"device_count": 8},
        {"dtype": "bfloat16"},
        {"kernel_environment": {"SGLANG_X": "1"}},
    ],
)
def test_another_scope_stands_beside(other: dict[str, Any]) -> None:
    first, second = named(entry(), "first"), named(entry(**other), "second")
    file = merged(first, second)
    assert set(one.evidence.run for one in file.entries) == {"first", "second"}
    assert first in file.entries, "the other's provenance is untouched"


@pytest.mark.parametrize(
    "same",
    [
        {},
        {"engine_version": "0.5.13"},
        {"kernel_libraries": {"flashinfer-python": "0.7.2"}},
        {"also_arch": ("sm103",), "also_arch_reason": "the origin's rule"},
    ],
)
def test_the_same_scope_measured_anew_replaces(same: dict[str, Any]) -> None:
    file = merged(named(entry(), "first"), named(entry(**same), "second"))
    assert [one.evidence.run for one in file.entries] == ["second"]


def test_the_order_of_merging_doesnt_show() -> None:
    entries = [named(entry(tp=size), f"run-{size}") for size in (8, 2, 4)]
    files = {encode(merged(*order)) for order in itertools.permutations(entries)}
    assert len(files) == 1


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=8))
def test_a_file_holds_the_newest_entry_of_each_scope(sizes: list[int]) -> None:
    runs = [f"run-{number}" for number in range(len(sizes))]
    file = merged(*(named(_TEMPLATES[s], run) for s, run in zip(sizes, runs, strict=True)))
    assert {one.scope.tp: one.evidence.run for one in file.entries} == dict(
        zip(sizes, runs, strict=True)
    )
    assert len(file.entries) == len(set(sizes))


_TEMPLATES = {size: entry(tp=size) for size in (1, 2, 4, 8)}
