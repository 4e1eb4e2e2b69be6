"""What the integration tests share: a config, the real command as a subprocess, left-overs."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 60.0
MODEL_CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "hidden_size": 128,
    "intermediate_size": 32,
    "num_local_experts": 16,
    "num_experts_per_tok": 4,
    "vocab_size": 2048,
    "max_position_embeddings": 4096,
    "dtype": "float32",
}


@dataclass
class Workbench:
    """A folder with a checkpoint, and the command with the fake engine installed beside it.

    ``mark`` is in the command line of every server launched from here.
    """

    folder: Path
    mark: str = field(default_factory=lambda: f"mark-{secrets.token_hex(8)}")

    def __post_init__(self) -> None:
        (self.folder / "model").mkdir(parents=True)
        (self.folder / "model" / "config.json").write_text(json.dumps(MODEL_CONFIG))
        installed = self.folder / "site" / "fake_engine-0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-engine\nVersion: 0")
        (installed / "entry_points.txt").write_text(
            "[autotune.engines]\nfake = tests.integration.fake_engine:FakeEngine\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        places = [str(self.folder / "site"), str(REPOSITORY)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(places), "MPLBACKEND": "agg"}

    def config(
        self,
        candidates: Sequence[str],
        *,
        rounds: int = 3,
        concurrency: Sequence[int] = (1, 4),
        ready_timeout_s: float = 20,
        requests: int = 12,
        name: str = "fake-sweep",
    ) -> Path:
        """Write a config over ``candidates``, the first of which is the reference."""
        path = self.folder / f"{name}.toml"
        path.write_text(f"""
name = "{name}"
candidates = {json.dumps(list(candidates))}
reference = "{candidates[0]}"
[model]
path = "{self.folder / "model"}"
[engine]
name = "fake"
device = "cpu"
arguments = ["--mark", "{self.mark}"]
ready_timeout_s = {ready_timeout_s}
stop_timeout_s = 1
[load]
concurrency = {list(concurrency)}
input_tokens = 16
output_tokens = 8
requests_per_slot = 3
min_requests = {requests}
request_timeout_s = 20
[probe]
max_tokens = 8
long_prompt_tokens = 64
[decision]
min_rounds = {rounds}
max_rounds = {rounds}
""")
        return path

    def autotune(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            self._argv(arguments),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=2 * DEADLINE_S,
        )

    @contextlib.contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """Start the command; it is ended at the latest when the block is left."""
        with subprocess.Popen(
            self._argv(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
            # Started in the background, we may have been told to ignore Ctrl-C.
            preexec_fn=_heed_interrupts,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _argv(self, arguments: Sequence[str | Path]) -> list[str]:
        return [sys.executable, "-m", "autotune", *map(str, arguments)]

    def servers(self) -> list[str]:
        """The command lines of all processes that were launched from here and still run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and self.mark in process.cmdline():
                    found.append(" ".join(process.cmdline()))
        return found

    def nothing_left(self) -> bool:
        """Wait until no server of ours runs; False if one outlives the deadline."""
        return wait_for(lambda: not self.servers())


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(condition: Callable[[], object], *, deadline_s: float = DEADLINE_S) -> bool:
    """Wait until ``condition()`` holds; False if it doesn't within the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def is_closed(port: int) -> bool:
    """Whether nobody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def ports_of(commands: Iterable[Sequence[str]]) -> list[int]:
    """The ports that servers were launched with."""
    return [int(argv[argv.index("--port") + 1]) for argv in commands if "--port" in argv]


def snapshot(folder: Path, pattern: str = "*") -> dict[str, tuple[int, bytes]]:
    """Modification time and content of every file below ``folder``."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob(pattern))
        if path.is_file()
    }
