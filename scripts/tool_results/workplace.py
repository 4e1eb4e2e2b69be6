"""Where a tool is run, and what is kept of it: a folder, a local server, the files at the end."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DATA = REPOSITORY / "tests/data/tools"
WITNESS = REPOSITORY / "autotune/engines/witness_minimax_m2"
SERVER = Path(__file__).with_name("server.py")
MODEL = "example/MiniMax-M2-tiny"
# A file is read by people too, and the repository keeps it for ever.
LARGEST_FILE = 300_000
_READY_S = 60
_SHORTEST_NAME = 3


@dataclass(kw_only=True)
class Workplace:
    """A tool's folder, in which the tokenizer lies as ``tokenizer``; ``results`` is its place."""

    folder: Path
    results: Path
    kept: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
            shutil.copy(WITNESS / name, tokenizer / name)

    @contextlib.contextmanager
    def serving(self, *flags: str) -> Iterator[str]:
        """Run the stand-in server with ``flags``; yields its URL."""
        port = self.free_port()
        url = f"http://127.0.0.1:{port}"
        server = subprocess.Popen(
            [sys.executable, SERVER, "--port", str(port), "--model", MODEL, *flags],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait(url, server)
            yield url
        finally:
            server.terminate()
            server.wait()

    @staticmethod
    def free_port() -> int:
        """A port that nothing listens on at the moment."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return int(free.getsockname()[1])

    def run(self, command: Sequence[str | Path], **environment: str) -> None:
        """Run a tool in the folder, offline; its output is shown only where it fails."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{' '.join(str(word) for word in command)}\n{done.stdout[-4000:]}")

    def keep(self, *names: str) -> None:
        """Keep files or folders of the tool's folder."""
        self.kept += names

    def finish(self) -> list[Path]:
        """Put what is kept into ``results``, in place of what was there but the README."""
        for old in self.results.glob("*"):
            if old.name != "README.md":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        self.results.mkdir(parents=True, exist_ok=True)
        for name in self.kept:
            there = self.folder / name
            copy = shutil.copytree if there.is_dir() else shutil.copy
            copy(there, self.results / name)
        found = sorted(path for path in self.results.rglob("*") if path.is_file())
        for path in found:
            _check(path)
        return found


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(_READY_S * 10):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/health", timeout=1).close()
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{url}: the stand-in server doesn't come up")


def _check(path: Path) -> None:
    content = path.read_bytes()
    if len(content) > LARGEST_FILE:
        sys.exit(f"{path}: {len(content)} bytes, over {LARGEST_FILE}: ask for fewer requests")
    for told in (str(REPOSITORY), str(Path.home()), socket.gethostname(), tempfile.gettempdir()):
        # A short one, such as "vm", is part of other words.
        if len(told) > _SHORTEST_NAME and told.encode() in content:
            sys.exit(f"{path}: holds {told!r}: files that are checked in name no machine")
