"""What ``autotune sweep --dry-run`` says before anything is spent."""

import json
import math
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autotune.cli.dry_run import duration
from autotune.config import config_digest, parse_config, read_config
from autotune.records.folder import RunFolder
from autotune.records.schema import LaunchRecord, PointFigures, PointRecord, RunRecord, Workload
from autotune.sweep.context import read_context
from tests.cli.command import GOOD_CONFIG, autotune
from tests.integration.workbench import snapshot

NAMES = ("eager", "grouped_mm")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "sweep.toml").write_text(GOOD_CONFIG)
    return tmp_path / "sweep.toml"


def plan(folder: Path, *options: str, text: str | None = None) -> str:
    """What a dry run prints; it writes nothing and has nothing to complain of."""
    if text is not None:
        (folder / "sweep.toml").write_text(text)
    before = snapshot(folder)
    result = autotune("sweep", "sweep.toml", "--dry-run", *options, folder=folder)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert snapshot(folder) == before
    return result.stdout


def make_run(
    folder: Path,
    name: str,
    *,
    rounds: int = 3,
    deviation: float = 0.05,
    minutes: int = 8,
    age_s: float = 0.0,
    **changes: Any,
) -> Path:
    """A run folder as a sweep of the config would have left it, but for the ``changes``."""
    settings = parse_config(GOOD_CONFIG, where="sweep.toml")
    run = RunFolder(folder / "results" / name)
    context = read_context(settings, run)
    record = RunRecord(
        kind="sweep",
        name=name,
        created_at="2026-01-02T03:00:00Z",
        key=context.key,
        scope=context.scope,
        candidates=settings.candidate_list(),
        concurrencies=(1, 4),
        rule=settings.rule(),
        workload=Workload(input_tokens=32, output_tokens=16),
    )
    run.write_run(msgspec.structs.replace(record, **changes))
    draw = random.Random(1)
    for number in range(1, rounds + 1):
        for candidate in NAMES:
            run.write_launch(
                LaunchRecord(
                    candidate=candidate,
                    round=number,
                    position=1,
                    status="ok",
                    started_at="2026-01-02T03:00:00Z",
                    ended_at=f"2026-01-02T03:{minutes:02}:00Z",
                )
            )
            figures = PointFigures(output_tokens_per_s=math.exp(draw.gauss(5, deviation)))
            for concurrency in (1, 4):
                run.write_point(
                    PointRecord(
                        candidate=candidate,
                        round=number,
                        concurrency=concurrency,
                        status="ok",
                        figures=figures,
                    )
                )
    written = run.path / "run.json"
    os.utime(written, (written.stat().st_atime, written.stat().st_mtime - age_s))
    return run.path


def test_the_schedule_names_each_round_in_its_order(config: Path) -> None:
    text = plan(config.parent)
    assert "  round 0  eager: the reference's answers, no load\n" in text
    for number in (1, 2, 3):
        (line,) = [one for one in text.splitlines() if one.startswith(f"  round {number}  ")]
        assert "eager" in line and "grouped_mm" in line and "each at concurrency " in line
    assert "  rounds 4 to 8  only as long as they are needed, by whom is still in the race" in text
    assert "7 launches to make if 3 rounds settle it and nobody drops out, 17 at most" in text


def test_a_search_is_part_of_the_schedule(config: Path) -> None:
    tuned = '{ backend = "grouped_mm", tunables = { t = { variable = "T", choices = [1, 2] } } }'
    text = plan(config.parent, text=GOOD_CONFIG.replace('"grouped_mm"]', f"{tuned}]"))
    assert "  rounds 1 to 3  a search: eager, and 2 settings of each of grouped_mm that" in text
    assert "  round 4  " in text and "  rounds 7 to 11  only as long" in text


def test_nothing_known_is_said_and_not_guessed(config: Path) -> None:
    text = plan(config.parent)
    assert "time: not known, no earlier launch of this engine was found" in text
    # 17 launches of 600 s.
    assert "waiting for servers alone takes 2 h 50 min at most (engine.ready_timeout_s" in text
    assert "the load left out" in text and "noise" not in text


def test_time_and_noise_are_those_of_a_run_beside_it(config: Path) -> None:
    make_run(config.parent, "before", rounds=12)
    text = plan(config.parent)
    assert (
        "time: about 56 min, at worst 2 h 16 min (launches took 8 min on average, 8 min at most, "
        "in results/before)" in text
    )
    assert "in results/before (2 candidates, 12 rounds): the precision asked for takes" in text
    assert "warning: decision.max_rounds: where launches differ by" in text
    assert "can't be expected to settle differences of 2.0%" in text


def test_the_run_that_is_most_like_it_is_taken(config: Path) -> None:
    folder = config.parent
    make_run(folder, "old", minutes=9, age_s=1000)
    make_run(folder, "new", minutes=5, age_s=10)
    assert "in results/new)" in plan(folder)
    make_run(folder, "newest", minutes=3, concurrencies=(1, 4, 8))
    assert "in results/new)" in plan(folder)
    key = msgspec.structs.replace(_record(folder, "new").key, model="Another")
    make_run(folder, "new", minutes=5, key=key)
    make_run(folder, "old", minutes=9, key=key)
    assert "in results/newest, which had another load)" in plan(folder)


def test_other_machines_engines_and_imports_are_not_taken(config: Path) -> None:
    folder = config.parent
    scope = _record(folder, make_run(folder, "probe").name).scope
    for name, changes in {
        "probe": {"scope": msgspec.structs.replace(scope, device_name="another")},
        "engine": {"scope": msgspec.structs.replace(scope, engine="vllm")},
        "import": {"kind": "import"},
        "empty": {},
    }.items():
        make_run(folder, name, rounds=0 if name == "empty" else 3, **changes)
    assert "time: not known" in plan(folder)


@pytest.mark.parametrize(
    "broken", ["run.json", "launches/eager/1/launch.json", "launches/eager/1/c0001/point.json"]
)
def test_a_broken_run_beside_it_is_passed_over_and_named(broken: str, config: Path) -> None:
    good = make_run(config.parent, "good", minutes=4, age_s=100)
    bad = make_run(config.parent, "bad")
    (bad / broken).write_bytes(b"{\xff")
    text = plan(config.parent)
    assert f"in {good.relative_to(config.parent)})" in text
    assert "  passed over, can't be read: results/bad\n" in text


def test_hundreds_of_folders_are_not_read(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        folder = config.parent / "results" / f"r{number}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    read: list[str] = []
    whole = RunFolder.read_run

    def count(self: RunFolder) -> RunRecord:
        read.append(str(self.path))
        return whole(self)

    monkeypatch.setattr(RunFolder, "read_run", count)
    text = plan(config.parent)
    assert "  passed over, can't be read: results/r" in text and " and 47 more\n" in text
    assert len(read) == 50


def test_json_is_all_that_is_printed(config: Path) -> None:
    make_run(config.parent, "before")
    found = json.loads(plan(config.parent, "--json"))
    assert [one["round"] for one in found["schedule"]["launches"]] == [0, 1, 1, 2, 2, 3, 3]
    assert found["schedule"]["last_round"] == 8
    assert found["estimate"]["launches"] == {"made": 0, "fewest": 7, "most": 17}
    assert found["estimate"]["expected_s"] == 7 * 480
    assert found["estimate"]["folder"] == "results/before"
    argv = found["commands"][1]["argv"]
    assert found["commands"][1]["candidate"] == "grouped_mm" and "30000" in argv
    assert found["standing"] is None and found["problems"] == []


def test_json_says_what_keeps_it_from_running_here(config: Path) -> None:
    text = GOOD_CONFIG.replace('device = "cpu"', 'device = "cpu"\narch = "sm100"')
    config.write_text(text)
    result = autotune("sweep", config, "--dry-run", "--json", folder=config.parent)
    assert result.returncode == 2 and "meant for sm100" in result.stderr
    (problem,) = json.loads(result.stdout)["problems"]
    assert "meant for sm100" in problem


def test_a_sweep_that_was_begun_is_told_where_it_stands(config: Path) -> None:
    settings = read_config(config)
    digest = config_digest(settings)
    run = make_run(config.parent, "cpu", rounds=2, reference="eager", config_digest=digest)
    assert "next is round 0: eager\n" in plan(config.parent)
    probed = LaunchRecord(candidate="eager", round=0, position=1, status="ok")
    RunFolder(run).write_launch(probed)
    text = plan(config.parent)
    assert "\nso far: 5 launches made\n  next is round 3: eager, grouped_mm\n" in text
    assert "  2 launches to make if 3 rounds settle it and nobody drops out, 12 at most" in text
    assert "at worst 1 h 36 min" in text and "in results/cpu)" in text
    failed = LaunchRecord(
        candidate="grouped_mm", round=3, position=1, status="oom", reason="out of memory"
    )
    RunFolder(run).write_launch(failed)
    text = plan(config.parent)
    assert "  next is round 3: eager\n" in text
    assert "  grouped_mm isn't launched: oom in round 3: out of memory\n" in text
    assert "  1 launch to make" in text


def test_a_budget_that_settles_nothing_is_told_before_it_is_spent(config: Path) -> None:
    text = plan(config.parent, text=f"{GOOD_CONFIG}[budget]\nmax_launches = 3\n")
    assert "warning: budget.max_launches: 3 can't settle it: that takes 7 launches" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.9, "1 min"),
        (60, "1 min"),
        (3570, "1 h"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (90000, "25 h"),
    ],
)
def test_times_are_told_as_one_reads_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def _record(folder: Path, name: str) -> RunRecord:
    return RunFolder(folder / "results" / name).read_run()
