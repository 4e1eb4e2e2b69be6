"""A PostgreSQL server of our own, for the tests of a study in a database."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

PASSWORD = "hunter2-not-shown"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a fresh cluster's database, with a password, on a free port of this machine."""
    found = {name: shutil.which(name) for name in ("initdb", "postgres")}
    if None in found.values():
        pytest.skip("PostgreSQL isn't installed: initdb and postgres aren't on the PATH")
    # Not in pytest's own folder: root's isn't open to the user that the server must run as.
    folder = Path(tempfile.mkdtemp(prefix="autotune-postgresql-"))
    try:
        with _Server(folder) as port:
            yield f"postgresql+psycopg://tester:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql(postgresql_server: str) -> str:
    return postgresql_server


@pytest.fixture
def no_storage_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOTUNE_STORAGE", raising=False)


class _Server:
    """A running cluster in ``folder``; PostgreSQL refuses to run as root."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._folder = folder
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)

    def __enter__(self) -> int:
        (self._folder / "password").write_text(PASSWORD)
        os.chmod(self._folder / "password", 0o644)
        subprocess.run(
            [
                *("initdb", "-D", str(self._data), "-U", "tester", "--auth=scram-sha-256"),
                *("--pwfile", str(self._folder / "password"), "--no-sync", "-E", "UTF8"),
            ],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._user,  # type: ignore[call-overload]
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self._process = subprocess.Popen(
            [
                *("postgres", "-D", str(self._data), "-p", str(port), "-h", "127.0.0.1"),
                *("-k", str(self._folder), "-F"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            **self._user,  # type: ignore[call-overload]
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(f"postgresql://tester:{PASSWORD}@127.0.0.1:{port}/postgres").close()
                return port
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self._process.kill()
                    raise
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
