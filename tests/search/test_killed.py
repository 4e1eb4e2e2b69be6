"""Killed at any instant, a search goes on: nothing is asked twice, nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from autotune.records.folder import load_records
from autotune.search.study import open_study
from tests.search.builders import (
    begin,
    catch_up,
    make_config,
    named,
    search_round,
    trials_of,
)

pytestmark = pytest.mark.usefixtures("no_storage_variable")

WORKER = """
import sys
from pathlib import Path
from autotune.records.folder import RunFolder, load_records
from autotune.search.study import open_study
from tests.search.builders import catch_up, make_config, search_round
config = make_config(("rounds = 2", "rounds = 500"), ("high = 4", "high = 4000"))
folder = RunFolder(Path(sys.argv[1]))
with open_study(folder, config, say=lambda line: print(line, flush=True)) as study:
    catch_up(study, folder)
    print("ready", flush=True)
    done = max((launch.round for launch in load_records(folder.path).launches), default=0)
    for number in range(max(1, done), 500):
        search_round(study, folder, number)
        catch_up(study, folder)
"""


@pytest.mark.parametrize("place", ["file", "postgresql"])
def test_killed_at_any_time_it_goes_on(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    config = make_config(("rounds = 2", "rounds = 500"), ("high = 4", "high = 4000"))
    folder = begin(tmp_path / "run", config)
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2]))
    url = None
    if place == "postgresql":
        url = request.getfixturevalue("postgresql")
        environment["AUTOTUNE_STORAGE"] = url
    # While it starts and makes the study, then while it asks and tells.
    for wait in (0.4, 0.6, 0.8, 1.0):
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder.path)],
            env=environment,
            stdout=subprocess.DEVNULL,
        ) as worker:
            time.sleep(wait)
            worker.send_signal(signal.SIGKILL)
    for wait in (0.3, 0.05, 0.6, 0.2, 0.4):
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder.path)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            time.sleep(wait)
            worker.send_signal(signal.SIGKILL)
    said: list[str] = []
    if url is not None:
        config = msgspec.structs.replace(
            config, search=msgspec.structs.replace(config.search, storage=url)
        )
    with open_study(folder, config, say=said.append) as study:
        loaded = load_records(folder.path)
        last = max(trial.round for trial in loaded.trials)
        search_round(study, folder, last)
        catch_up(study, folder)
    assert said == []
    loaded = load_records(folder.path)
    rounds = [trial.round for trial in loaded.trials]
    assert all(rounds.count(number) == 2 for number in range(1, last + 1))
    settings = [trial.values for trial in loaded.trials]
    assert all(settings.count(one) == 1 for one in settings)
    searched = named(trials_of(folder, url), "search")
    assert set(searched) == {trial.candidate.name for trial in loaded.trials}
    assert {trial.state.name for trial in searched.values()} == {"COMPLETE"}
