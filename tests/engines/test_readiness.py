import asyncio
from pathlib import Path

import pytest

from autotune.engines.base import Command
from autotune.engines.process import ServerProcess, free_ports
from autotune.engines.readiness import NotReady, wait_until_ready

from .scripts import DEADLINE_S, MODEL, python, start

# A server of one model, whose behaviour at each address the test's own lines replace.
SERVER = """
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def health(self):
        self.answer(200, {})

    def models(self):
        self.answer(200, {"data": [{"id": "tiny"}, {"id": "other"}]})

    def completion(self, request):
        self.answer(200, {"choices": [{"text": " a"}], "usage": {"completion_tokens": 1}})

    def do_GET(self):
        self.health() if self.path == "/health" else self.models()

    def do_POST(self):
        self.completion(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

OVERRIDE

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server_command(port: int, override: str = "") -> Command:
    return python(SERVER.replace("OVERRIDE", override), str(port))


def wait(server: ServerProcess, command: Command, port: int, timeout_s: float) -> float:
    waiting = wait_until_ready(
        server, command, base_url=f"http://127.0.0.1:{port}", timeout_s=timeout_s
    )
    return asyncio.run(waiting)


def ready(folder: Path, override: str = "", *, timeout_s: float = DEADLINE_S) -> float:
    """Start the server with ``override`` and wait for it."""
    port = free_ports(1)[0]
    command = server_command(port, override)
    with start(command, folder, stop_timeout_s=1.0) as server:
        return wait(server, command, port, timeout_s)


def not_ready(folder: Path, override: str = "", *, timeout_s: float = DEADLINE_S) -> NotReady:
    with pytest.raises(NotReady) as caught:
        ready(folder, override, timeout_s=timeout_s)
    return caught.value


def test_a_server_that_generates_a_token_is_ready(tmp_path: Path) -> None:
    assert 0 < ready(tmp_path) < DEADLINE_S


def test_waits_for_a_server_that_is_slow_to_load(tmp_path: Path) -> None:
    override = """
began = time.monotonic()
Handler.health = lambda self: self.answer(200 if time.monotonic() > began + 0.6 else 503, {})
"""
    assert ready(tmp_path, override) >= 0.6


def test_the_first_request_asks_our_model_for_one_token(tmp_path: Path) -> None:
    override = """
def completion(self, request):
    good = request["model"] == "tiny" and request["max_tokens"] == 1 and request["prompt"]
    self.answer(200 if good else 418, {"choices": [{"text": "a"}]})
Handler.completion = completion
"""
    ready(tmp_path, override)


def test_refuses_another_model(tmp_path: Path) -> None:
    override = 'Handler.models = lambda self: self.answer(200, {"data": [{"id": "stranger"}]})'
    problem = not_ready(tmp_path, override)
    assert "stranger" in str(problem) and MODEL in str(problem)
    assert "another server" in str(problem)
    assert not problem.timed_out


def test_refuses_another_jobs_server_while_ours_still_loads(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    override = 'Handler.models = lambda self: self.answer(200, {"data": [{"id": "stranger"}]})'
    ours = python("import time; time.sleep(600)")
    with start(server_command(port, override), tmp_path / "theirs", stop_timeout_s=1.0) as theirs:
        with (
            start(ours, tmp_path / "ours", stop_timeout_s=1.0) as server,
            pytest.raises(NotReady, match="another server"),
        ):
            wait(server, ours, port, DEADLINE_S)
        assert theirs.exit_code is None


def test_tells_that_the_server_died_at_start(tmp_path: Path) -> None:
    problem = not_ready(tmp_path, "sys.exit(5)")
    assert "exited with code 5" in str(problem)
    assert not problem.timed_out


def test_tells_that_the_command_was_not_found(tmp_path: Path) -> None:
    command = Command(argv=("no-such-program-anywhere",), environment={}, model=MODEL)
    with (
        start(command, tmp_path) as server,
        pytest.raises(NotReady, match="exited with code 127"),
    ):
        wait(server, command, free_ports(1)[0], DEADLINE_S)


@pytest.mark.parametrize(
    "override",
    [
        "time.sleep(600)",
        "Handler.health = lambda self: time.sleep(600)",
        "Handler.health = lambda self: self.answer(503, {})",
        "Handler.models = lambda self: self.answer(404, {})",
        "Handler.models = lambda self: self.answer(200, b'not json')",
        "Handler.models = lambda self: self.answer(200, [1, 2])",
        "Handler.models = lambda self: self.answer(200, {'data': None})",
        "Handler.completion = lambda self, request: time.sleep(600)",
    ],
    ids=[
        "never listens",
        "health hangs",
        "never healthy",
        "no models",
        "models not json",
        "models a list",
        "models null",
        "first request hangs",
    ],
)
def test_tells_a_hang_from_a_death(override: str, tmp_path: Path) -> None:
    problem = not_ready(tmp_path, override, timeout_s=0.8)
    assert problem.timed_out
    assert "0.8 s" in str(problem)


def test_a_healthy_server_that_dies_at_the_first_request_is_not_ready(tmp_path: Path) -> None:
    problem = not_ready(tmp_path, "Handler.completion = lambda self, request: os._exit(7)")
    assert "exited with code 7" in str(problem)
    assert not problem.timed_out


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_refused_first_request_is_not_ready(status: int, tmp_path: Path) -> None:
    override = f"""
Handler.completion = lambda self, request: self.answer({status}, {{"error": "bad kernel" * 99}})
"""
    problem = not_ready(tmp_path, override)
    assert f"HTTP {status}" in str(problem) and "bad kernel" in str(problem)
    assert len(str(problem)) < 400
    assert not problem.timed_out


def test_a_first_request_that_is_cut_off_is_not_ready(tmp_path: Path) -> None:
    override = """
import socket
Handler.completion = lambda self, request: self.connection.shutdown(socket.SHUT_RDWR)
"""
    problem = not_ready(tmp_path, override)
    assert "first request failed" in str(problem)
    assert not problem.timed_out


@pytest.mark.parametrize("body", ['{"error": "no kernel image"}', '{"choices": []}'])
def test_a_first_answer_without_a_token_is_not_ready(body: str, tmp_path: Path) -> None:
    not_ready(tmp_path, f"Handler.completion = lambda self, request: self.answer(200, {body})")
