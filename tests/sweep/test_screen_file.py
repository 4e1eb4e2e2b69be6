"""Which screen is in force: what a file must be, and that a sweep goes on with the one it has."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.config import config_digest, dump_config
from autotune.config.schema import SweepConfig
from autotune.decisions.schema import Geometry
from autotune.errors import AutotuneError, ConfigError, InputError, RunFolderError
from autotune.kernels.folder import encoded
from autotune.kernels.schema import Screen
from autotune.records.folder import CONFIG_FILE, SCREEN_FILE, RunFolder
from autotune.records.schema import RunRecord, Workload
from autotune.sweep.context import SweepContext, read_context
from autotune.sweep.run import check_folder
from autotune.sweep.screen_file import screen_in_force
from tests.sweep.screens import GEOMETRY, config, screen, summary

SCREEN = screen(
    summary("torch_eager", "eager", ratio=2.0), summary("torch_grouped_mm", "grouped_mm", ratio=1.0)
)
NAMES = ("eager", "grouped_mm")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run folder that isn't there yet, below the working directory."""
    monkeypatch.chdir(tmp_path)
    return RunFolder(Path("run"))


def put(made: Screen, path: str = "kernels.json") -> None:
    Path(path).write_bytes(encoded(made))


def find(folder: RunFolder, *, asked: SweepConfig | None = None) -> SweepContext:
    return read_context(asked or config(*NAMES), folder)


def begin(folder: RunFolder, asked: SweepConfig, *, copy: Screen | None) -> None:
    """What a sweep of this config leaves when it was just begun."""
    context = find(folder, asked=asked)
    record = RunRecord(
        kind="sweep",
        name=asked.name,
        created_at="2026-01-02T03:00:00Z",
        key=context.key,
        scope=context.scope,
        candidates=asked.candidate_list(),
        concurrencies=asked.load.concurrency,
        rule=asked.rule(),
        workload=Workload(),
        config_digest=config_digest(asked),
    )
    folder.path.mkdir()
    (folder.path / CONFIG_FILE).write_text(dump_config(asked))
    if copy is not None:
        put(copy, str(folder.path / SCREEN_FILE))
    folder.write_run(record)


def unscreened(asked: SweepConfig) -> SweepConfig:
    return msgspec.structs.replace(asked, screen=None)


def go_on(folder: RunFolder, asked: SweepConfig) -> SweepContext:
    context = find(folder, asked=asked)
    check_folder(context.config, folder)
    return context


# -- reading


def test_the_named_file_screens(folder: RunFolder) -> None:
    put(SCREEN)
    found = find(folder).screening
    assert found is not None and found.screen == SCREEN and found.notes == ()
    assert not folder.path.exists(), "nothing is written yet"


def test_without_a_screen_nothing_is_read(folder: RunFolder) -> None:
    put(SCREEN)
    context = find(folder, asked=unscreened(config(*NAMES)))
    assert context.screening is None and context.config == unscreened(config(*NAMES))


NOT_SCREENS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a readable Screen"),
    "no JSON": (b"{", "not a readable Screen"),
    "a number": (b"1", "not a readable Screen"),
    "another file": (b'{"name": "x"}', "not a readable Screen"),
    "no text": (b"\xff\xfe\x00", "not a readable Screen"),
    "deep": (b"[" * 100_000, "not a readable Screen"),
    "another schema": (b'{"schema_version": 99}', "schema_version is 99"),
    "a hostile key": (
        encoded(SCREEN).replace(b'"ranks"', b'"\\u001b]0;x\\u0007\\u001b[31m\\n\\u202e"'),
        "unknown field",
    ),
    "an impossible ratio": (encoded(SCREEN).replace(b"2.0", b"-2.0"), "a ratio of -2"),
    "no ratio at all": (encoded(SCREEN).replace(b"2.0", b"0.0"), "a ratio of 0"),
    "an endless ratio": (encoded(SCREEN).replace(b"2.0", b"1e999"), "out of range"),
    "an unknown verdict": (encoded(SCREEN).replace(b'"right"', b'"fast"', 1), "fast"),
}


@pytest.mark.parametrize("case", NOT_SCREENS)
def test_what_is_no_screen_is_told(case: str, folder: RunFolder) -> None:
    data, word = NOT_SCREENS[case]
    Path("kernels.json").write_bytes(data)
    with pytest.raises(InputError) as caught:
        find(folder)
    message = str(caught.value)
    assert message.isprintable() and message.startswith("kernels.json: ")
    assert word in message and "autotune kernels" in message and "leave the screen out" in message
    assert "delete" not in message, "it may be any file of the user's"
    assert caught.value.exit_code == 2


def test_what_is_no_file_is_told(folder: RunFolder) -> None:
    with pytest.raises(InputError, match=r"^kernels\.json: no such file: name the kernels\.json"):
        find(folder)
    Path("kernels.json").mkdir()
    with pytest.raises(InputError, match="not a file: name the"):
        find(folder)
    with pytest.raises(InputError, match="no such file"):
        find(folder, asked=config(*NAMES).screened_by("x" * 5000))


@given(st.binary(max_size=200), st.integers(0, 5000))
def test_any_bytes_are_a_screen_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, place: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    whole = encoded(SCREEN)
    path.write_bytes(whole[:place] + data + whole[place + len(data) :])
    asked = config(*NAMES).screened_by(str(path))
    try:
        screen_in_force(asked, RunFolder(path.parent / "none"))
    except AutotuneError as error:
        assert str(error).isprintable()


# -- of which layer it is


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"geometry": Geometry(64, 32, 8, 2)},
            ("its geometry is 64,32,8,2, the sweep's is 128,32,16,4",),
        ),
        ({"scheme": "nvfp4"}, ("its quantization is nvfp4, the sweep's is bf16",)),
        ({"arch": "sm100"}, ("its arch is sm100, the sweep's is cpu-",)),
        (
            {"architecture": "Qwen3MoeForCausalLM"},
            ("its architecture is Qwen3MoeForCausalLM, the sweep's is MiniMaxM2ForCausalLM",),
        ),
        (
            {"arch": "sm90\x1b[31m\nx", "scheme": "y" * 5000},
            ("its arch is sm90", "its quantization is yyy"),
        ),
    ],
    ids=["geometry", "quantization", "arch", "architecture", "hostile"],
)
def test_another_layers_screen_is_refused(
    changes: dict[str, Any], words: tuple[str, ...], folder: RunFolder
) -> None:
    put(msgspec.structs.replace(SCREEN, **changes))
    with pytest.raises(ConfigError) as caught:
        find(folder)
    message = str(caught.value)
    assert message.startswith("kernels.json: a screen of another layer: ")
    assert all(word in message for word in words), message
    assert "autotune kernels --geometry 128,32,16,4 --quantization bf16" in message
    assert message.isprintable() and len(message) < 1000


def test_a_layer_of_no_architecture_fits(folder: RunFolder) -> None:
    """`autotune kernels --geometry` is of no model."""
    put(msgspec.structs.replace(SCREEN, architecture=None))
    assert find(folder).screening is not None


def quantized(name: str) -> SweepConfig:
    asked = config(*NAMES)
    return msgspec.structs.replace(
        asked, model=msgspec.structs.replace(asked.model, quantization=name)
    )


def test_engines_names_of_a_scheme_are_that_scheme(folder: RunFolder) -> None:
    put(msgspec.structs.replace(SCREEN, scheme="nvfp4"))
    assert find(folder, asked=quantized("modelopt_fp4")).screening is not None


def test_a_quantization_that_no_layer_sweep_knows_cannot_be_screened(folder: RunFolder) -> None:
    put(SCREEN)
    with pytest.raises(ConfigError, match=r"^model\.quantization: 'awq' is no scheme that a layer"):
        find(folder, asked=quantized("awq"))
    find(folder, asked=unscreened(quantized("awq")))


@pytest.mark.parametrize(
    ("section", "fits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, {"fp8_block"}),
        ({"quant_method": "fp8"}, {"fp8"}),
        (None, {"fp8"}),
        ({"quant_method": "fbgemm"}, {"fp8", "fp8_block"}),
    ],
    ids=["blocks", "experts", "unquantized", "not known"],
)
def test_fp8_is_what_the_checkpoint_says(
    section: dict[str, Any] | None, fits: set[str], folder: RunFolder
) -> None:
    """Engines have one word for two schemes."""
    sizes = {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "hidden_size": GEOMETRY.hidden_size,
        "intermediate_size": GEOMETRY.expert_width,
        "num_local_experts": GEOMETRY.experts,
        "num_experts_per_tok": GEOMETRY.top_k,
    }
    Path("model").mkdir()
    content = sizes if section is None else {**sizes, "quantization_config": section}
    Path("model/config.json").write_text(json.dumps(content))
    asked = quantized("fp8")
    model = msgspec.structs.replace(asked.model, witness=None, path="model")
    asked = msgspec.structs.replace(asked, model=model)
    for scheme in ("fp8", "fp8_block"):
        put(msgspec.structs.replace(SCREEN, scheme=scheme))
        if scheme in fits:
            assert find(folder, asked=asked).screening is not None
        else:
            with pytest.raises(ConfigError, match=f"its quantization is {scheme}, the sweep's is"):
                find(folder, asked=asked)


def test_servers_that_compute_in_another_type_are_told(folder: RunFolder) -> None:
    put(SCREEN)
    asked = config(*NAMES)
    engine = msgspec.structs.replace(asked.engine, dtype="float32")
    found = find(folder, asked=msgspec.structs.replace(asked, engine=engine)).screening
    assert found is not None
    (note,) = found.notes
    assert "bfloat16" in note and "float32" in note


# -- a sweep that was begun


def test_a_sweep_goes_on_with_its_own_copy(folder: RunFolder) -> None:
    """With the same file, without one, and with one that has gone since."""
    put(SCREEN)
    asked = config(*NAMES)
    begin(folder, asked, copy=SCREEN)
    named = go_on(folder, asked)
    assert named.screening is not None and named.screening.screen == SCREEN
    put(SCREEN, "elsewhere.json")
    for other in (unscreened(asked), asked.screened_by("elsewhere.json")):
        context = go_on(folder, other)
        assert context.screening is not None and context.screening.screen == SCREEN
        assert context.screening.notes == ()
    Path("kernels.json").unlink()
    context = go_on(folder, asked)
    assert context.screening is not None and context.screening.screen == SCREEN
    (note,) = context.screening.notes
    assert note.startswith("kernels.json: no such file any more") and "run/screen.json" in note


def test_another_screen_is_refused(folder: RunFolder) -> None:
    put(SCREEN)
    asked = config(*NAMES)
    begin(folder, asked, copy=SCREEN)
    put(msgspec.structs.replace(SCREEN, device_name="another"))
    with pytest.raises(RunFolderError, match="begun with another screen than kernels"):
        find(folder, asked=asked)
    # Left out, the sweep goes on as it was begun.
    go_on(folder, unscreened(asked))


def test_a_sweep_without_a_screen_gets_none_later(folder: RunFolder) -> None:
    asked = unscreened(config(*NAMES))
    begin(folder, asked, copy=None)
    put(SCREEN)
    with pytest.raises(RunFolderError, match=r"begun without a screen, and kernels\.json might"):
        go_on(folder, config(*NAMES))
    assert go_on(folder, asked).screening is None


def test_a_copy_that_was_lost_is_missed(folder: RunFolder) -> None:
    put(SCREEN)
    asked = config(*NAMES)
    begin(folder, asked, copy=SCREEN)
    (folder.path / SCREEN_FILE).unlink()
    for other in (asked, unscreened(asked)):
        with pytest.raises(RunFolderError, match=r"screen\.json: it is missing.*restore it"):
            go_on(folder, other)


def test_a_copy_that_cannot_be_read_is_told(folder: RunFolder) -> None:
    put(SCREEN)
    asked = config(*NAMES)
    begin(folder, asked, copy=SCREEN)
    (folder.path / SCREEN_FILE).write_text('{"\\u001b[31m\\n": 1}')
    with pytest.raises(RunFolderError, match=r"screen\.json: not a readable.*restore it") as caught:
        go_on(folder, unscreened(asked))
    assert str(caught.value).isprintable()


def test_another_policy_is_a_changed_config(folder: RunFolder) -> None:
    put(SCREEN)
    begin(folder, config(*NAMES), copy=SCREEN)
    with pytest.raises(RunFolderError, match=r"changed: screen\.slower_than, screen\.wrong"):
        go_on(folder, config(*NAMES, table='wrong = "drop"\nslower_than = 9'))


# -- whom the context launches

OFF = screen(summary("off", "grouped_mm", verdict="wrong", reason="relative RMS 0.9"))


def test_who_is_left_out_is_unsupported_with_the_reason(folder: RunFolder) -> None:
    put(OFF)
    asked = config("eager", "batched_mm", "grouped_mm", table='wrong = "drop"')
    context = find(folder, asked=asked)
    found = {one.name: context.supports(one) for one in asked.candidate_list()}
    assert [name for name, support in found.items() if support.ok] == ["eager", "batched_mm"]
    assert found["grouped_mm"].reason.startswith("screen: alone, its kernel computes the layer")
    assert context.problems == ()


def test_what_the_engine_refuses_keeps_its_own_reason(folder: RunFolder) -> None:
    put(screen(summary("k", "deepgemm", verdict="wrong")))
    asked = config("eager", "grouped_mm", "deepgemm", table='wrong = "drop"')
    refused = find(folder, asked=asked).supports(asked.candidate_list()[2])
    assert not refused.ok and not refused.reason.startswith("screen")


def test_a_layer_alone_never_decides(folder: RunFolder) -> None:
    """Whoever is the only one launched would win unmeasured."""
    put(OFF)
    asked = config(*NAMES, table='wrong = "drop"')
    (problem,) = find(folder, asked=asked).problems
    assert "leaves only eager to launch" in problem and 'screen.wrong = "flag"' in problem
    both = msgspec.structs.replace(asked, incumbent="grouped_mm")
    assert find(folder, asked=both).problems == ()
    alone = config("eager", table='wrong = "drop"')
    assert find(folder, asked=alone).problems == (), "that is what was asked for"
