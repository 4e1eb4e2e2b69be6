"""Bad input: one clear message (what, where, what to do), exit code 2, nothing written."""

import json
from pathlib import Path

import pytest

from tests.cli.command import GOOD_CONFIG, autotune, check_refused, command

# What is done to a good config, and the words that the message must hold.
BAD_CONFIGS = {
    "bad TOML": ('name = "cpu"', 'name = "cpu', ("not valid TOML", "line 1")),
    "unknown key": (
        "input_tokens", "inputs_tokens",
        (":12: unknown key 'load.inputs_tokens'", "did you mean 'input_tokens'?"),
    ),
    "unknown table": ("[load]", "[laod]", ("unknown key 'laod'", "did you mean 'load'?")),
    "wrong type": ("[1, 4]", '"1, 4"', (":11: load.concurrency: Expected `array`, got `str`",)),
    "wrong type inside": ("[1, 4]", '[1, "4"]', (":11: load.concurrency[1]: Expected `int`",)),
    "unknown backend": (
        '"grouped_mm"]', '"groupd_mm"]',
        ("no MoE backend 'groupd_mm'", "did you mean 'grouped_mm'?", "engine.extra_backends"),
    ),
    "unknown engine": (
        '"transformers"', '"transformer"', ("no engine 'transformer'", "known are", "transformers"),
    ),
    "unknown reference": ('= "eager"', '= "eagre"', ("reference: 'eagre'", "did you mean 'eager'")),
    "unknown model": ('"minimax-m2"', '"minimax"', ("model.witness", "minimax")),
    "concurrency 0": ("[1, 4]", "[1, 0]", (":11: load.concurrency[1]: Expected `int` >= 1",)),
    "no concurrency": ("[1, 4]", "[]", ("load.concurrency: the list is empty",)),
    "no candidates": (
        '["eager", "grouped_mm"]', "[]", ("candidates: the list is empty", "at least one backend"),
    ),
    "twice a candidate": ('"grouped_mm"]', '"eager"]', ("'eager' is listed twice",)),
    "twice a concurrency": ("[1, 4]", "[4, 4]", ("load.concurrency: 4 is listed twice",)),
    "weights that don't sum to 1": (
        "[load]", "[decision]\nweights = [0.5, 0.6]\n[load]",
        ("decision.weights: they sum to 1.1: use shares that sum to 1",),
    ),
    "a limit that can't be checked": (
        "[load]", '[[decision.limits]]\nfigure = "ttft_p99_s"\nat_most = 1\n[load]',
        ("ttft_p99_s at concurrency 1: a p99 needs 299 requests", "load.min_requests"),
    ),
    "missing key": ('reference = "eager"\n', "", ("reference",)),
    "too long for the model": (
        "output_tokens = 16", "output_tokens = 4000", ("4032 tokens don't fit", "ask for less"),
    ),
    "hostile name": ('name = "cpu"', 'name = "../cpu"', ("name '../cpu' can't be used",)),
    "a secret": (
        'dtype = "float32"', 'environment = { HF_TOKEN = "hf_x" }', ("HF_TOKEN", "secret"),
    ),
    "no GPU": ('device = "cpu"', 'device = "cuda"', ("engine.device", "cuda")),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_config(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, words = BAD_CONFIGS[case]
    assert old in GOOD_CONFIG
    path = tmp_path / "sweep.toml"
    path.write_text(GOOD_CONFIG.replace(old, new, 1))
    if case == "no GPU":
        monkeypatch.setenv("PATH", str(tmp_path))
    result = autotune("sweep", path, "--run", tmp_path / "run", folder=tmp_path)
    check_refused(result, *words)
    if case not in {"unknown backend", "unknown engine", "too long for the model", "no GPU"}:
        assert "sweep.toml" in result.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_config(tmp_path: Path) -> None:
    result = command("sweep", "nothing.toml", folder=tmp_path)
    check_refused(result, "nothing.toml: no such file", "configs/sweeps")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_as_config(tmp_path: Path) -> None:
    check_refused(autotune("sweep", tmp_path, folder=tmp_path), "can't be read: Is a directory")


def test_a_binary_as_config(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_bytes(b"name = '\xff\xfe'")
    check_refused(autotune("sweep", "sweep.toml", folder=tmp_path), "sweep.toml: not a text file")


def with_model(folder: Path, model: Path) -> Path:
    path = folder / "sweep.toml"
    path.write_text(GOOD_CONFIG.replace('witness = "minimax-m2"', f'path = "{model}"'))
    return path


def test_a_checkpoint_without_config_json(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    config = with_model(tmp_path, model)
    check_refused(autotune("sweep", config, folder=tmp_path), f"{model}: no config.json")
    asked = ("resolve", "--quantization", "none", "--arch", "sm90", "--model-path", model)
    check_refused(autotune(*asked, folder=tmp_path), f"{model}: no config.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such model folder"),
        ("{", "not valid JSON"),
        ("[]", "expected a JSON object"),
        ("{}", "names no architecture"),
        ('{"architectures": ["MiniMaxM2ForCausalLM"]}', "set model.geometry"),
    ],
)
def test_a_checkpoint_that_cant_be_used(tmp_path: Path, content: str | None, words: str) -> None:
    model = tmp_path / "model"
    if content is not None:
        model.mkdir()
        (model / "config.json").write_text(content)
    result = autotune("sweep", with_model(tmp_path, model), folder=tmp_path)
    check_refused(result, words)


def test_an_output_folder_that_cant_be_written(tmp_path: Path) -> None:
    config = tmp_path / "sweep.toml"
    config.write_text(GOOD_CONFIG)
    file = tmp_path / "file"
    file.write_text("not a folder")
    # Permissions don't hold root back; a path below a file, or in /proc, does.
    for run in (file / "run", Path("/proc/nobody/run")):
        result = autotune("sweep", config, "--run", run, folder=tmp_path)
        check_refused(result, f"{run}: can't be written", "--run")
    check_refused(
        autotune("sweep", config, "--run", file, folder=tmp_path), f"{file}: not a folder", "--run"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "sweep.toml"]


def test_a_folder_of_something_else_isnt_written_to(tmp_path: Path) -> None:
    config = tmp_path / "sweep.toml"
    config.write_text(GOOD_CONFIG)
    run = tmp_path / "thesis"
    run.mkdir()
    (run / "chapter-1.txt").write_text("Once upon a time")
    result = autotune("sweep", config, "--run", run, folder=tmp_path)
    check_refused(result, "chapter-1.txt", "--run")
    assert [path.name for path in run.iterdir()] == ["chapter-1.txt"]


@pytest.mark.parametrize("name", ["decide", "report"])
def test_a_run_that_is_none(tmp_path: Path, name: str) -> None:
    for run in (tmp_path, tmp_path / "nothing"):
        check_refused(autotune(name, run, folder=tmp_path), f"{run}: not a run folder")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "sweep"}')
    result = autotune("decide", tmp_path, folder=tmp_path)
    check_refused(result, str(tmp_path / "run.json"), "not a readable record")


def test_terminal_escapes_dont_reach_the_terminal(tmp_path: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J"
    config = tmp_path / "sweep.toml"
    config.write_text(GOOD_CONFIG.replace('"cpu"', json.dumps(f"cpu{escape}"), 1))
    key = ("--quantization", "none", "--arch", "sm90")
    results = [
        command("sweep", config, folder=tmp_path),
        command("sweep", f"no{escape}thing.toml", folder=tmp_path),
        command("decide", f"no{escape}thing", folder=tmp_path),
        command("resolve", *key, "--model", f"M{escape}", folder=tmp_path),
    ]
    # A name that no decision can have is answered, as for a server: there is no decision for it.
    assert [result.returncode for result in results] == [2, 2, 2, 0]
    for result in results:
        assert "Traceback" not in result.stderr
        assert "\x1b" not in result.stderr + result.stdout
        assert "\x07" not in result.stderr + result.stdout
