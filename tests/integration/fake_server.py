"""A small OpenAI-compatible server over real TCP, that behaves or misbehaves as it is told.

Standard library alone, so that it is up in a moment. Greedy text follows from a hash of the
prompt, so that servers which differ in speed alone give the same answers::

    python fake_server.py --port 8000 --model NAME --backend good --mark ANYTHING

The backend ``auto`` becomes the Nth name of ``--auto`` at its Nth start. In the folder
``FAKE_TUNED`` each start leaves a file, as a server does that tunes its kernels.
"""

import argparse
import asyncio
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

TOKEN_S = {"good_b": 0.001, "good_slow": 0.009, "garbage": 0.0002}
USUAL_TOKEN_S = 0.003
GARBAGE = "\ufffd\ufffd!\ufffd"
# The readiness request and 50 probes come first: this many requests end within the load.
DIES_AFTER = 58
REFUSAL = "RefusedError: backend 'refuses' needs a GPU of another kind"
LAST_WORDS = "RuntimeError: CUDA error: an illegal memory access was encountered"


def pieces(backend: str, prompt: Any, count: int) -> list[str]:
    """The answer's tokens: the same for the same prompt, unless the backend is a broken one."""
    if backend == "garbage":
        return [GARBAGE] * count
    seed = hashlib.sha256(json.dumps(prompt).encode()).hexdigest()
    digests = (hashlib.sha256(f"{seed}{number}".encode()).hexdigest() for number in range(count))
    return [f"{digest[:5]} " for digest in digests]


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.backend: str = options.backend
        self.model: str = options.model if self.backend != "wrong_model" else "somebody-elses"
        self.silent: bool = getattr(options, "silent", False)
        self.token_s: float = getattr(options, "token_s", None) or TOKEN_S.get(
            self.backend, USUAL_TOKEN_S
        )
        self.answered = 0

    async def serve(self, port: int) -> None:
        listener = await asyncio.start_server(self._connection, "127.0.0.1", port)
        if not self.silent:
            print(f"backend in use: {'good' if self.backend == 'other_inside' else self.backend}")
        print(f"listening on port {port}", flush=True)
        async with listener:
            await listener.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = head.split(" ", 2)[1]
                length = next(
                    (int(line.partition(":")[2]) for line in head.splitlines()
                     if line.lower().startswith("content-length:")),
                    0,
                )  # fmt: skip
                body = json.loads(await reader.readexactly(length)) if length else {}
                await self._answer(path, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path == "/health":
            await send_json(writer, {})
        elif path == "/v1/models":
            await send_json(writer, {"data": [{"id": self.model}]})
        elif path == "/flush_cache":
            print(f"asked to flush; tuned here: {len(tuned_files())}", flush=True)
            refuses = self.backend == "keeps_cache"
            await send_json(writer, {}, status="400 Bad Request" if refuses else "200 OK")
        elif path != "/v1/completions":
            await send_json(writer, {"error": f"no {path}"}, status="404 Not Found")
        elif self.backend == "http_500_at_once" or (
            self.backend == "http_500" and body.get("stream")
        ):
            await send_json(writer, {"error": "boom"}, status="500 Internal Server Error")
        elif not body.get("stream"):
            await send_json(writer, {"choices": [{"text": "x", "finish_reason": "length"}]})
        else:
            await self._stream(body, writer)

    async def _stream(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        async for data in self._events(body):
            event = f"data: {data}\n\n".encode()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        self.answered += 1

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[str]:
        prompt, count = body["prompt"], body["max_tokens"]
        for number, text in enumerate(pieces(self.backend, prompt, count), start=1):
            await asyncio.sleep(self.token_s)
            if self.backend == "dies_mid_load" and self.answered >= DIES_AFTER and number > 1:
                print(LAST_WORDS, flush=True)
                os._exit(9)
            reason = "length" if number == count else None
            yield json.dumps({"choices": [{"text": text, "finish_reason": reason}]})
        given = len(prompt) if isinstance(prompt, list) else len(prompt) // 4
        yield json.dumps(
            {"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": count}}
        )
        yield "[DONE]"


async def send_json(
    writer: asyncio.StreamWriter, content: dict[str, Any], *, status: str = "200 OK"
) -> None:
    body = json.dumps(content).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


def tuned_files() -> list[Path]:
    """What starts before this one, and it itself, have left."""
    folder = os.environ.get("FAKE_TUNED")
    return sorted(Path(folder).glob("*")) if folder else []


def tune() -> None:
    print(f"tuned before: {len(tuned_files())}", flush=True)
    if os.environ.get("FAKE_TUNED"):
        folder = Path(os.environ["FAKE_TUNED"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(os.getpid())).touch()


def what_auto_is(names: str) -> str:
    """The next of ``names``, counting starts in a file; the last one is kept."""
    starts = Path(os.environ["FAKE_SCRATCH"]) / "starts"
    starts.parent.mkdir(parents=True, exist_ok=True)
    with starts.open("a") as file:
        file.write("x")
        number = file.tell()
    listed = names.split(",")
    return listed[min(number, len(listed)) - 1]


def daemonise() -> None:
    """Serve from a process that left the session, has no parent and ignores SIGTERM."""
    if os.fork():
        while True:  # The one that was launched stays, as if it served.
            time.sleep(60)
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--mark", default="")
    parser.add_argument("--auto", default="good")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--token-s", type=float, default=None)
    options = parser.parse_args()
    if options.backend == "auto":
        options.backend = what_auto_is(options.auto)
    if options.backend == "dies_at_start":
        raise RuntimeError("no kernel image \x1b[31mis available\x1b[0m for this device")
    if options.backend == "hangs_at_start":
        print("loading weights ...", flush=True)
        time.sleep(600)
    if options.backend == "refuses":
        sys.exit(REFUSAL)
    if options.backend == "daemonises":
        daemonise()
    tune()
    asyncio.run(Server(options).serve(options.port))


if __name__ == "__main__":
    main()
