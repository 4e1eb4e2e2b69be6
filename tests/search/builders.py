"""A small run with something to tune: two candidates, made-up throughputs, no servers."""

import math
from collections.abc import Callable
from pathlib import Path

import optuna

from autotune.config import SweepConfig, parse_config
from autotune.probe.schema import CandidateVerdict
from autotune.records.folder import LoadedRun, RunFolder, load_records
from autotune.records.schema import RunRecord, TrialRecord, Workload
from autotune.search.quiet import quiet_optuna
from autotune.search.storage import STUDY_FILE
from autotune.search.study import RunStudy, study_name
from autotune.tunables import Setting
from tests.decide.builders import KEY, SCOPE, launch, point

CONFIG = """\
name = "demo"
reference = "plain"
incumbent = "plain"

[[candidates]]
backend = "plain"

[[candidates]]
backend = "tuned"
arguments = ["--keep", "1"]

[candidates.tunables.size]
argument = "--size"
low = 1
high = 4

[candidates.tunables.fuse]
argument = "--fuse"
choices = [true, false]

[candidates.tunables.depth]
variable = "DEPTH"
choices = ["2", "4"]
when = { fuse = [true] }

[model]
witness = "minimax-m2"

[engine]
name = "transformers"

[load]
concurrency = [1, 16]

[search]
rounds = 2
trials_per_round = 2
"""
# 4 sizes, each without the fusion, or with it at one of 2 depths.
SETTINGS = 12

Speed = Callable[[Setting], float | None]


def make_config(*changes: tuple[str, str]) -> SweepConfig:
    """The config with some pieces of its text replaced."""
    text = CONFIG
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_config(text, where="demo.toml")


def run_record(config: SweepConfig) -> RunRecord:
    """What a sweep of ``config`` writes when it begins."""
    return RunRecord(
        kind="sweep",
        name=config.name,
        created_at="2026-01-02T03:00:00Z",
        key=KEY,
        scope=SCOPE,
        candidates=config.candidate_list(),
        concurrencies=config.load.concurrency,
        rule=config.rule(),
        workload=Workload(),
        reference=config.reference,
        incumbent=config.incumbent,
        search_rounds=config.search_rounds,
        trials_per_round=config.search.trials_per_round,
        tunables=config.tunables(),
    )


def begin(folder: Path, config: SweepConfig) -> RunFolder:
    """Make a run folder as a sweep does."""
    run = RunFolder(folder)
    run.write_run(run_record(config))
    return run


def verdicts_of(loaded: LoadedRun, **others: str) -> dict[str, CandidateVerdict]:
    """Everybody passes, except where ``others`` say otherwise (``-`` written as ``_``)."""
    names = [one.name for one in loaded.run.candidates]
    names += [trial.candidate.name for trial in loaded.trials]
    return {
        name: CandidateVerdict(
            candidate=name,
            verdict=others.get(name.replace("-", "_"), "pass"),  # type: ignore[arg-type]
            reason="garbled" if others.get(name.replace("-", "_")) == "fail" else "answers agree",
            answers=8,
        )
        for name in names
    }


def measure(folder: RunFolder, name: str, round_number: int, throughput: float | None) -> None:
    """Write a launch and its points; without a throughput it failed to start."""
    config = folder.read_run()
    if throughput is None:
        folder.write_launch(launch(name, round_number, status="oom", reason="out of memory"))
        return
    for concurrency in config.concurrencies:
        one = point(name, round_number, concurrency, throughput=throughput * concurrency)
        folder.write_point(one)
    folder.write_launch(launch(name, round_number))


def speed(values: Setting) -> float:
    """The best setting is size 3 with the fusion at depth 4."""
    fused = 1.1 if values.get("fuse") else 1.0
    deep = 1.05 if values.get("depth") == "4" else 1.0
    return 100.0 * fused * deep * math.exp(-0.1 * abs(int(values["size"]) - 3))


def search_round(
    study: RunStudy, folder: RunFolder, number: int, *, throughput: Speed = speed
) -> tuple[TrialRecord, ...]:
    """Ask for a round and measure it."""
    loaded = load_records(folder.path)
    trials = study.ask_round(number, loaded, verdicts_of(loaded))
    measure(folder, "plain", number, 100.0)
    for trial in trials:
        measure(folder, trial.candidate.name, number, throughput(trial.values))
    return trials


def catch_up(study: RunStudy, folder: RunFolder, *, final: bool = False) -> None:
    loaded = load_records(folder.path)
    study.catch_up(loaded, verdicts_of(loaded), final=final)


def trials_of(folder: RunFolder, url: str | None = None) -> list[optuna.trial.FrozenTrial]:
    """The study's trials, read as anybody would."""
    with quiet_optuna():
        storage = optuna.storages.RDBStorage(url or f"sqlite:///{folder.path / STUDY_FILE}")
        study = optuna.load_study(study_name=study_name(folder.read_run()), storage=storage)
        found = study.get_trials()
        storage.remove_session()
        storage.engine.dispose()
    return found


def named(trials: list[optuna.trial.FrozenTrial], part: str) -> dict[str, optuna.trial.FrozenTrial]:
    return {t.user_attrs["name"]: t for t in trials if t.user_attrs.get("part") == part}
