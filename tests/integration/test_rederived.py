"""Every figure of a run folder follows from the rawer file below it, down to the requests."""

import math
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

import autotune
from autotune.decisions.schema import decode
from autotune.load.metrics import figures
from autotune.load.requests_table import read_requests
from autotune.records.folder import LoadedRun, RunFolder, load_records, sha256_of
from tests.integration.conftest import Finished


@pytest.fixture(scope="module")
def records(finished: Finished) -> LoadedRun:
    return load_records(finished.run)


def requests_file(run: Path, candidate: str, round_number: int, concurrency: int) -> Path:
    return RunFolder(run).requests_file(candidate, round_number, concurrency)


def test_figures_follow_from_the_requests(finished: Finished, records: LoadedRun) -> None:
    assert {point.candidate for point in records.points} >= {"good", "good_b", "garbage"}
    for point in records.points:
        file = requests_file(finished.run, point.candidate, point.round, point.concurrency)
        if point.requests_sha256 is None:
            assert point.figures is None and not file.exists()
            continue
        assert sha256_of(file) == point.requests_sha256
        requests = read_requests(file)
        measured = [request for request in requests if request.role == "measured"]
        assert len(measured) == point.requests_sent
        assert sum(request.outcome == "ok" for request in measured) == point.requests_ok
        if requests:
            assert figures(requests, concurrency=point.concurrency) == point.figures
        else:
            assert point.figures is None


def test_tokens_are_all_there(finished: Finished, records: LoadedRun) -> None:
    for point in records.points:
        if point.status != "ok":
            continue
        file = requests_file(finished.run, point.candidate, point.round, point.concurrency)
        requests = read_requests(file)
        roles = Counter(request.role for request in requests)
        fillers = {} if point.concurrency == 1 else {"filler": 24}
        assert roles == {"measured": 12, "probe": 8, **fillers}
        for request in requests:
            if request.role == "probe":
                continue
            assert request.output_tokens == 8 and len(request.chunk_at_s) == 8
            assert request.input_tokens == 16
            assert request.sent_at_s <= request.chunk_at_s[0] <= request.chunk_at_s[-1]
            assert request.chunk_at_s[-1] <= request.ended_at_s


def test_the_points_table_says_what_the_records_say(finished: Finished, records: LoadedRun) -> None:
    table = pd.read_csv(finished.run / "points.csv").set_index(
        ["candidate", "round", "concurrency"]
    )
    assert len(table) == len(records.points) and table.index.is_unique
    for point in records.points:
        row = table.loc[(point.candidate, point.round, point.concurrency)]
        assert row["status"] == point.status
        if point.figures is not None:
            assert row["output_tokens_per_s"] == point.figures.output_tokens_per_s
            assert row["ttft_s_mean"] == point.figures.ttft_s.mean
            assert row["latency_s_p50"] == point.figures.latency_s.p50


def test_the_summary_follows_from_the_points(finished: Finished) -> None:
    points = pd.read_csv(finished.run / "points.csv")
    summary = pd.read_csv(finished.run / "summary.csv")
    valid = points[points["status"] == "ok"]
    assert len(summary) == 2 * len(autotune.load_run(finished.run).run.candidates)
    for _, row in summary.iterrows():
        same = valid["concurrency"] == row["concurrency"]
        mine = valid[(valid["candidate"] == row["candidate"]) & same]
        assert row["rounds"] == len(mine)
        if mine.empty:
            assert math.isnan(row["output_tokens_per_s"])
            continue
        rates = mine["output_tokens_per_s"]
        mean = math.exp(sum(math.log(rate) for rate in rates) / len(rates))
        assert row["output_tokens_per_s"] == pytest.approx(mean, rel=1e-12)
        assert row["output_tokens_per_s_min"] == rates.min()
        assert row["output_tokens_per_s_max"] == rates.max()
        for name in ("ttft_s_mean", "ttft_s_p50", "latency_s_mean", "latency_s_p50"):
            assert row[name] == pytest.approx(mine[name].mean(), rel=1e-12)


def test_load_run_gives_the_tables_in_the_folder(finished: Finished) -> None:
    tables = autotune.load_run(finished.run)
    for name in ("points", "summary", "launches"):
        text = getattr(tables, name).to_csv(index=False, lineterminator="\n")
        assert (finished.run / f"{name}.csv").read_text() == text
    point = tables.requests("good", 2, concurrency=4)
    assert list(point["index"]) == list(range(12 + 8 + 24))
    assert list(point["role"][:12]) == ["measured"] * 12


def test_deciding_from_the_records_gives_the_same_bytes(finished: Finished) -> None:
    accept = () if finished.wrote_decision else ("--accept",)
    if accept:  # Too noisy a machine: the sweep left it open, and wrote no decision to compare.
        finished.bench.autotune("decide", finished.run, *accept)
    files = [path for path in finished.run.iterdir() if path.is_file() and path.suffix != ".png"]
    before = {path: path.read_bytes() for path in files}
    (finished.run / "decision.json").unlink()
    (finished.run / "points.csv").write_text("edited\n")
    again = finished.bench.autotune("decide", finished.run, *accept)
    assert again.returncode == 0
    for path, content in before.items():
        assert path.read_bytes() == content, path
    (entry,) = decode((finished.run / "decision.json").read_bytes(), where="it").entries
    assert set(entry.evidence.tables) >= {"points.csv", "summary.csv"}
    for name, digest in entry.evidence.tables.items():
        assert sha256_of(finished.run / name) == digest


def test_the_decision_resolves_for_a_server(finished: Finished, tmp_path: Path) -> None:
    accept = () if finished.wrote_decision else ("--accept",)
    into = tmp_path / "decisions"
    decided = finished.bench.autotune("decide", finished.run, "--into", into, *accept)
    assert decided.returncode == 0
    (file,) = into.rglob("*.json")
    arch, model, name = file.relative_to(into).parts
    resolved = finished.bench.autotune(
        "resolve", "--model-path", finished.bench.folder / "model", "--quantization",
        name.removesuffix(".json"), "--arch", arch, "--engine", "fake", "--decisions", into,
    )  # fmt: skip
    assert resolved.returncode == 0
    assert resolved.stdout.startswith("applied: good"), resolved.stdout
    assert model == "MiniMaxM2ForCausalLM" and name == "none.json"
