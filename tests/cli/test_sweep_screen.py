"""``autotune sweep --screen``: what is told before anything is launched, and what is refused."""

import json
from pathlib import Path

import msgspec
import pytest

from autotune.kernels.folder import encoded
from autotune.kernels.schema import Screen
from tests.cli.command import GOOD_CONFIG, autotune, check_refused
from tests.integration.workbench import snapshot
from tests.sweep.screens import screen, summary

CONFIG = GOOD_CONFIG.replace(
    '["eager", "grouped_mm"]', '["eager", "batched_mm", "grouped_mm"]'
).replace("float32", "bfloat16")
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\nautotune: all is well\u202e"
SCREEN = screen(
    summary("torch_grouped_mm", "grouped_mm", ratio=1.0),
    summary("torch_eager", "eager", ratio=3.25),
    summary("torch_batched", "batched_mm", verdict="wrong", reason="relative RMS 0.9"),
)
WRONG = "alone, its kernel computes the layer wrong: torch_batched (relative RMS 0.9)"
LAST = f"screen: batched_mm is launched last in round 1: {WRONG}"
DROPPED = f"{WRONG} (screen.wrong is drop)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, SCREEN)
    write(tmp_path)
    return tmp_path


def put(folder: Path, made: Screen) -> None:
    (folder / "kernels.json").write_bytes(encoded(made))


def write(folder: Path, table: str = "") -> None:
    (folder / "sweep.toml").write_text(f"{CONFIG}[screen]\n{table}\n" if table else CONFIG)


def plan(folder: Path, *options: str) -> str:
    before = snapshot(folder)
    result = autotune("sweep", "sweep.toml", "--dry-run", *options, folder=folder)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert snapshot(folder) == before
    return result.stdout


def rounds(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("  round ")]


def test_a_dry_run_shows_the_order_and_what_it_follows_from(folder: Path) -> None:
    text = plan(folder, "--screen", "kernels.json")
    assert "  round 1  grouped_mm, eager, batched_mm, each at concurrency " in text
    block = text.split("\nscreen: ")[1].split("\n\n")[0]
    assert block.splitlines() == [
        "kernels.json (bf16 on a processor):",
        "  eager: torch_eager, 3.25 times as long as the fastest",
        "  batched_mm: torch_batched, wrong",
        "  grouped_mm: torch_grouped_mm, 1 times as long as the fastest",
        f"  warning: {LAST}",
    ]
    # Only the first round of the race is in this order.
    plain = plan(folder)
    assert rounds(plain)[0] == rounds(text)[0]
    assert rounds(plain)[2:] == rounds(text)[2:]
    assert "screen" not in plain


def test_the_config_may_name_it_and_the_option_counts_more(folder: Path) -> None:
    write(folder, 'file = "kernels.json"')
    assert plan(folder) == plan(folder, "--screen", "kernels.json")
    write(folder, 'file = "gone.json"')
    assert "  warning: " + LAST in plan(folder, "--screen", "kernels.json")


def test_json_says_the_same(folder: Path) -> None:
    write(folder, 'wrong = "drop"')
    found = json.loads(plan(folder, "--json", "--screen", "kernels.json"))
    screened = found["screen"]
    assert screened["file"] == "kernels.json" and screened["scheme"] == "bf16"
    assert (screened["wrong"], screened["slower_than"]) == ("drop", None)
    assert screened["candidates"][1] == {
        "candidate": "batched_mm",
        "kernels": ["torch_batched"],
        "ratio": None,
        "wrong": ["torch_batched (relative RMS 0.9)"],
        "left_out": DROPPED,
    }
    assert screened["warnings"] == [f"screen: batched_mm isn't launched: {DROPPED}"]
    unsupported = {one["candidate"]: one["unsupported"] for one in found["commands"]}
    assert unsupported["batched_mm"] == f"screen: {DROPPED}" and unsupported["eager"] is None
    # Who isn't launched costs nothing.
    assert found["estimate"]["launches"] == {"made": 0, "fewest": 7, "most": 17}
    write(folder)
    assert json.loads(plan(folder, "--json"))["screen"] is None


def test_warnings_come_before_anything_is_launched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an interrupted sweep is gone on with by the same words."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.sweep._measure", interrupted)
    monkeypatch.setattr("autotune.cli.sweep._heed_sigterm", lambda: None)
    result = autotune("sweep", "sweep.toml", "--screen", "kernels.json", folder=folder)
    assert result.returncode == 130 and result.stdout == ""
    first, last = result.stderr.splitlines()
    assert first == f"warning: {LAST}"
    assert last.endswith("Go on with: autotune sweep sweep.toml --screen kernels.json")


def test_a_hostile_screen_steers_no_terminal(folder: Path) -> None:
    wrong = summary(HOSTILE, "batched_mm", verdict="wrong", reason=HOSTILE)
    put(folder, msgspec.structs.replace(SCREEN, device_name=HOSTILE, backends=(wrong,)))
    text = plan(folder, "--screen", "kernels.json")
    assert text.replace("\n", "").isprintable()
    assert not any(line.startswith("autotune: ") for line in text.splitlines())
    assert "owned" not in text and "all is well" in text
    put(folder, msgspec.structs.replace(SCREEN, arch=HOSTILE))
    refused = autotune("sweep", "sweep.toml", "--screen", "kernels.json", folder=folder)
    check_refused(refused, "kernels.json: a screen of another layer", "all is well")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gone.json", ("gone.json: no such file", "autotune kernels", "--screen")),
        ("sweep.toml", ("sweep.toml: not a readable Screen", "autotune kernels")),
        (".", ("not a file",)),
        ("", ("screen",)),
        ("new\nline", ("screen.file: 'new\\nline'",)),
    ],
)
def test_what_is_no_screen_is_refused(option: str, words: tuple[str, ...], folder: Path) -> None:
    before = snapshot(folder)
    check_refused(autotune("sweep", "sweep.toml", "--screen", option, folder=folder), *words)
    assert snapshot(folder) == before


def test_another_layers_screen_is_refused(folder: Path) -> None:
    put(folder, msgspec.structs.replace(SCREEN, scheme="fp8", arch="sm100"))
    result = autotune("sweep", "sweep.toml", "--dry-run", "--screen", "kernels.json", folder=folder)
    check_refused(
        result,
        "kernels.json: a screen of another layer",
        "its quantization is fp8, the sweep's is bf16; its arch is sm100, the sweep's is cpu-",
        "autotune kernels --geometry 128,32,16,4",
    )


def test_a_plan_is_printed_where_only_one_would_be_left(folder: Path) -> None:
    write(folder, 'wrong = "drop"\nslower_than = 2')
    eager = summary("k", "grouped_mm", verdict="wrong")
    put(folder, msgspec.structs.replace(SCREEN, backends=(*SCREEN.backends[1:], eager)))
    result = autotune("sweep", "sweep.toml", "--dry-run", "--screen", "kernels.json", folder=folder)
    assert result.returncode == 2 and "not launched, unsupported: screen: alone" in result.stdout
    assert "the screen leaves only eager to launch" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "eager is launched all the same, since it is the reference" in result.stdout
