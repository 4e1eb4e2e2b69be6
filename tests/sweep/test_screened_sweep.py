"""A whole screened sweep, in this process, with servers that fail at once: who is started when."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from autotune.config import config_digest, dump_config, read_config
from autotune.config.schema import BudgetConfig, SweepConfig
from autotune.errors import RunFolderError
from autotune.kernels.folder import encoded, read_record
from autotune.kernels.schema import Screen
from autotune.records.folder import CONFIG_FILE, SCREEN_FILE, RunFolder, load_records
from autotune.sweep.context import SweepContext, read_context
from autotune.sweep.plan import plan_round
from autotune.sweep.progress import Event, LaunchBegan, LaunchEnded
from autotune.sweep.run import run_sweep
from tests.integration.fake_engine import FakeEngine
from tests.sweep.screens import config, screen, summary

# The reference can't run here, and of the others all that are started fail at once.
NAMES = ("needs_gpu", "good", "garbage", "other_inside", "refuses", "dies_at_start")
SCREEN = screen(
    summary("first", "dies_at_start", ratio=1.0, engine="fake"),
    summary("off", "other_inside", verdict="wrong", reason="relative RMS 0.9", engine="fake"),
    summary("but right", "other_inside", ratio=1.5, engine="fake"),
    summary("off too", "garbage", verdict="wrong", reason="relative RMS 0.8", engine="fake"),
    summary("slow", "good", ratio=40.0, engine="fake"),
)
IN_ORDER = ["dies_at_start", "refuses", "other_inside"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("autotune.sweep.context.find_engine", lambda _: FakeEngine())
    Path("kernels.json").write_bytes(encoded(SCREEN))
    return RunFolder(Path("run"))


def asked() -> SweepConfig:
    return config(*NAMES, engine="fake", table='wrong = "drop"\nslower_than = 10', seed=1)


def budgeted(given: SweepConfig, launches: int) -> SweepConfig:
    return msgspec.structs.replace(given, budget=BudgetConfig(max_launches=launches))


def sweep(context: SweepContext) -> list[Event]:
    events: list[Event] = []
    asyncio.run(run_sweep(context, tell=events.append))
    return events


def started(events: list[Event]) -> list[str]:
    return [event.candidate for event in events if isinstance(event, LaunchBegan)]


def test_leaders_are_launched_first_also_after_an_interruption(folder: RunFolder) -> None:
    """Only the first start names the screen; what it said is in the folder."""
    first = sweep(read_context(budgeted(asked(), 1), folder))
    assert started(first) == IN_ORDER[:1]
    assert read_record(folder.path / SCREEN_FILE, Screen) == SCREEN
    assert (folder.path / SCREEN_FILE).read_bytes() == Path("kernels.json").read_bytes()
    kept = read_config(folder.path / CONFIG_FILE)
    assert kept.screen == asked().screen
    assert config_digest(kept) == folder.read_run().config_digest

    Path("kernels.json").unlink()
    screened = asked().screen
    assert screened is not None
    unnamed = msgspec.structs.replace(asked(), screen=msgspec.structs.replace(screened, file=None))
    second = sweep(read_context(unnamed, folder))
    assert started(first) + started(second) == IN_ORDER

    # Who is left out is a row like any other that isn't launched, in its place.
    records = {launch.candidate: launch for launch in load_records(folder.path).launches}
    assert records.keys() == set(NAMES)
    for name, word in (("garbage", "off too (relative RMS 0.8)"), ("good", "40 times as long")):
        assert records[name].status == "unsupported" and records[name].command == ()
        reason = str(records[name].reason)
        assert reason.startswith("screen: ") and word in reason
        assert not folder.log_file(name, 1).exists()
    ended = [event for event in second if isinstance(event, LaunchEnded)]
    assert {one.candidate for one in ended if one.status == "unsupported"} == {
        "garbage",
        "good",
        "refuses",  # By its own word, once started.
    }


def test_without_a_screen_the_folder_and_the_order_are_what_they_were(folder: RunFolder) -> None:
    startable = ("needs_gpu", *IN_ORDER)
    plain = msgspec.structs.replace(asked(), screen=None, candidates=startable)
    events = sweep(read_context(plain, folder))
    assert not (folder.path / SCREEN_FILE).exists()
    text = (folder.path / CONFIG_FILE).read_text()
    assert text == dump_config(plain) and "[screen]" not in text
    drawn = [launch.candidate.name for launch in plan_round(plain, 1, plain.candidate_list())]
    assert started(events) == [name for name in drawn if name != "needs_gpu"]
    assert started(events) != IN_ORDER, "a seed for which the screen makes a difference"


def test_a_sweep_that_another_process_began_meanwhile_keeps_its_screen(folder: RunFolder) -> None:
    late = read_context(budgeted(asked(), 1), folder)
    Path("kernels.json").write_bytes(encoded(msgspec.structs.replace(SCREEN, device_name="x")))
    sweep(read_context(budgeted(asked(), 1), folder))
    with pytest.raises(RunFolderError, match="begun with another screen than kernels"):
        sweep(late)
