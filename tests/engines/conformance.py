"""What every engine must keep to. An engine's own tests call `check_engine` and add what is its.

Nothing here starts a server.
"""

import asyncio
import contextlib
import json
import tomllib
from pathlib import Path
from typing import Literal

from autotune.config import SweepConfig, parse_config
from autotune.decisions.schema import Geometry, check_name
from autotune.engines.base import Command, Engine, LaunchSite, Support, Target
from autotune.errors import EngineError
from autotune.model import ModelFacts
from autotune.records.schema import Candidate

MODEL = ModelFacts(
    architecture="MiniMaxM2ForCausalLM",
    geometry=Geometry(128, 32, 16, 4),
    dtype="float32",
    quantization=None,
    vocabulary_size=2048,
    max_positions=2048,
)
DEVICES: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")
# Port 9 (discard): nobody listens there.
NOBODY = "http://127.0.0.1:9"
# Far above what asking nobody takes on a busy machine.
SOON_S = 60.0
HEALTHY_LOG = """INFO: Started server process [1]
INFO: Application startup complete.
INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)
INFO: 127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK
"""


def make_config(engine: Engine, *, extra: str = "", candidates: str | None = None) -> SweepConfig:
    """A config of ``engine``'s first backend; ``extra`` is TOML that goes after [engine]."""
    backend = engine.backends()[0]
    text = f"""
name = "conformance"
candidates = {candidates or json.dumps([backend])}
reference = "{backend}"
[model]
witness = "minimax-m2"
[load]
concurrency = [1, 8]
[engine]
name = "{engine.name}"
{extra}
"""
    assert tomllib.loads(text)
    return parse_config(text, where="conformance.toml")


def make_site(folder: Path, *, port: int = 18000) -> LaunchSite:
    """A launch site with a small checkpoint that holds no weights worth the name."""
    model = folder / "model"
    if not model.is_dir():
        model.mkdir(parents=True)
        config = {"architectures": [MODEL.architecture], "model_type": "minimax_m2"}
        (model / "config.json").write_text(json.dumps(config))
        (model / "tokenizer.json").write_text("{}")
        (model / "model.safetensors").write_bytes(b"weights")
    return LaunchSite(
        model=str(model),
        checkpoint=model,
        scratch=folder / "scratch",
        compiled=folder / "compiled",
        tuned=folder / "tuned",
        port=port,
        device="cpu",
        max_concurrency=8,
        max_tokens=640,
    )


def make_target(device: Literal["cpu", "cuda"]) -> Target:
    """The small model on a CPU, or on an SM100 GPU."""
    return Target(device=device, arch="sm100" if device == "cuda" else "cpu-x86_64", model=MODEL)


def candidate_of(config: SweepConfig) -> Candidate:
    return config.candidate_list()[0]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def check_engine(engine: Engine, folder: Path) -> None:
    """Run the whole suite; ``folder`` is an empty one to work in."""
    check_names(engine)
    check_traits(engine)
    check_settings(engine)
    check_supports(engine)
    check_command(engine, folder / "command")
    check_prepare(engine, folder / "prepare")
    check_logs(engine)
    check_absent_server(engine)


def check_names(engine: Engine) -> None:
    """Engine and backends are usable names, each once, and the version is a word if any."""
    check_name("engine", engine.name)
    assert engine.backends()
    assert len(set(engine.backends())) == len(engine.backends())
    for backend in engine.backends():
        check_name("backend", backend)
    version = engine.version()
    assert version is None or version.strip()


def check_traits(engine: Engine) -> None:
    """The default modes are names, of all-to-all backends that are ones."""
    for a2a_backend, mode in engine.traits.a2a_modes.items():
        check_name("a2a_backend", a2a_backend)
        check_name("a2a_mode", mode)


def check_settings(engine: Engine) -> None:
    """Without arguments there are no settings; with any, they are words for a decision's scope."""
    assert engine.settings(make_config(engine)) == {}
    many = json.dumps(["--", "--x", "-y", "--a=b", "", "=", "--enable-eplb", "--pp-size"])
    for name, value in engine.settings(make_config(engine, extra=f"arguments = {many}")).items():
        check_name("engine_settings", name)
        assert isinstance(value, str)


def check_supports(engine: Engine) -> None:
    """Every backend gets an answer on every device, a refusal with one sentence of reason."""
    config = make_config(engine, candidates=json.dumps(list(engine.backends())))
    for candidate in config.candidate_list():
        for device in DEVICES:
            target = make_target(device)
            support = engine.supports(candidate, config=config, target=target)
            assert isinstance(support, Support)
            assert support.ok == (support.reason == "")
            assert "\n" not in support.reason


def check_command(engine: Engine, folder: Path) -> None:
    """A command is exact, repeatable, local, and writes nothing."""
    extra = 'arguments = ["--common"]\nenvironment = { SHARED = "engine", COMMON = "1" }\n'
    extra += 'launch_prefix = ["nice", "-n", "1"]'
    backend = engine.backends()[0]
    own = f'[{{ backend = "{backend}", arguments = ["--own", "x"], '
    own += 'environment = { SHARED = "own" } }]'
    config = make_config(engine, extra=extra, candidates=own)
    site = make_site(folder)
    before = snapshot(folder)
    command = engine.command(candidate_of(config), config=config, site=site)
    assert command == engine.command(candidate_of(config), config=config, site=site)
    assert snapshot(folder) == before
    assert isinstance(command, Command) and command.model
    assert all(isinstance(word, str) and "\0" not in word for word in command.argv)
    assert command.argv[:3] == ("nice", "-n", "1")
    assert str(site.port) in " ".join(command.argv)
    assert "0.0.0.0" not in " ".join(command.argv)
    # A candidate's own arguments come last, so that they win; its variables win as well.
    assert command.argv[-3:] == ("--common", "--own", "x")
    assert command.environment["SHARED"] == "own" and command.environment["COMMON"] == "1"
    elsewhere = engine.command(candidate_of(config), config=config, site=make_site(folder, port=2))
    assert elsewhere.argv != command.argv


def check_prepare(engine: Engine, folder: Path) -> None:
    """Preparing may be done again and leaves the shared checkpoint as it is."""
    config, site = make_config(engine), make_site(folder)
    before = snapshot(site.checkpoint)
    for _ in range(2):
        engine.prepare(candidate_of(config), config=config, site=site)
        assert snapshot(site.checkpoint) == before


def check_logs(engine: Engine) -> None:
    """A healthy log is no failure; any log can be read, and what it names is known."""
    assert engine.read_failure(HEALTHY_LOG) is None
    for log in ("", "\0\x1b[31m", "\ufffd" * 5000, "a" * 100_000, HEALTHY_LOG * 50):
        engine.read_failure(log)
        resolved = asyncio.run(engine.resolved_backend(base_url=NOBODY, log=log))
        assert resolved is None or resolved in engine.backends()


def check_absent_server(engine: Engine) -> None:
    """A server that is gone has no cache to empty: an error of ours at most, and soon."""

    async def flush() -> None:
        async with asyncio.timeout(SOON_S):
            with contextlib.suppress(EngineError):
                await engine.flush_cache(base_url=NOBODY)

    asyncio.run(flush())
