"""A server that streams made-up tokens over real TCP: for the client's tests and benchmark.

It speaks just enough HTTP/1.1 and server-sent events, well or badly as `Behaviour` says, and
keeps its own stamps (``time.perf_counter``, one clock for all processes on Linux).
Run it with ``python benchmarks/stub.py '{"token_delay_s": 0.01}'``; it prints its port.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How the stub answers. ``fault`` hits the requests from number ``fault_from`` on.

    Faults: ``http_500``, ``hang`` (no byte at all), ``hang_mid_stream``, ``die_mid_stream``
    (connection cut), ``close_server`` (cut, and no new connections), ``error_in_stream``,
    ``no_end`` (neither ``[DONE]`` nor a finish reason), ``empty``.
    """

    token_delay_s: float = 0.0
    tokens_per_event: int = 1
    channel: str = "text"
    word: str = " tok"
    cut_bytes: int | None = None
    usage: bool = True
    cached_tokens: int | None = None
    role_first: bool = False
    max_running: int | None = None
    fault: str | None = None
    fault_from: int = 0


@dataclass
class Stats:
    """What the stub saw. ``first_token_at_s`` is keyed by the first word of the prompt."""

    requests: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    received_at_s: dict[str, float] = field(default_factory=dict)
    first_token_at_s: dict[str, float] = field(default_factory=dict)


class Stub:
    """One stub server's state, shared by its connections."""

    def __init__(self, behaviour: Behaviour, *, keep_bodies: bool = True) -> None:
        self.behaviour = behaviour
        self.keep_bodies = keep_bodies
        self.stats = Stats()
        self.server: asyncio.Server | None = None
        self.port = 0
        self.slots = asyncio.Semaphore(behaviour.max_running or 1_000_000)
        self.connections: set[_Connection] = set()
        self._rendered: dict[Any, list[bytes]] = {}

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", port, backlog=1024
        )
        self.port = self.server.sockets[0].getsockname()[1]

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        for connection in list(self.connections):
            connection.abort()

    def events(self, path: str, body: dict[str, Any]) -> list[bytes]:
        """The events of one answer, tokens first: rendered once for each kind of request."""
        prompt = body.get("prompt") or body["messages"][0]["content"]
        size = len(prompt.split()) if isinstance(prompt, str) else len(prompt)
        key = (path, size, body["max_tokens"])
        if key not in self._rendered:
            self._rendered[key] = list(self._render("chat" in path, size, body["max_tokens"]))
        return self._rendered[key]

    def _render(self, chat: bool, prompt_tokens: int, tokens: int) -> Iterator[bytes]:
        if self.behaviour.fault == "empty":
            tokens = 0
        step = self.behaviour.tokens_per_event
        for start in range(0, tokens, step):
            count = min(step, tokens - start)
            last = start + count >= tokens and self.behaviour.fault != "no_end"
            text = self.behaviour.word * count
            yield _event({"choices": [_choice(chat, self.behaviour.channel, text, last)]})
        if self.behaviour.usage:
            usage: dict[str, Any] = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
            if self.behaviour.cached_tokens is not None:
                usage["prompt_tokens_details"] = {"cached_tokens": self.behaviour.cached_tokens}
            yield _event({"choices": [], "usage": usage})
        if self.behaviour.fault != "no_end":
            yield b"data: [DONE]\n\n"


class _Connection(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.buffer = b""
        self.transport: Any = None
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.stub.connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.stub.connections.discard(self)
        for task in self.tasks:
            task.cancel()

    def abort(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        path = head.split(b" ", 2)[1].decode()
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        size = int(length or 0)
        if len(rest) < size:
            return
        self.buffer = rest[size:]
        if path == "/stats":
            self._send_stats()
            return
        self._answer(path, json.loads(rest[:size]), now)

    def _send_stats(self) -> None:
        data = json.dumps(asdict(self.stub.stats)).encode()
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
        self.stub.stats = Stats()

    def _answer(self, path: str, body: dict[str, Any], now: float) -> None:
        stub, stats = self.stub, self.stub.stats
        number = stats.requests
        stats.requests += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        if stub.keep_bodies:
            stats.bodies.append(body)
        prompt = body.get("prompt", "")
        name = prompt.partition(" ")[0] if isinstance(prompt, str) else str(number)
        stats.received_at_s[name] = now
        fault = stub.behaviour.fault if number >= stub.behaviour.fault_from else None
        plain = stub.behaviour.token_delay_s == 0 and stub.behaviour.cut_bytes is None
        if plain and fault in (None, "no_end", "empty") and stub.behaviour.max_running is None:
            # Before the write: the client may run before this process gets to the next line.
            stats.first_token_at_s[name] = time.perf_counter()
            stats.in_flight -= 1
            self.transport.write(_OK + _chunk(b"".join(stub.events(path, body))) + _END)
            return
        task = asyncio.ensure_future(self._stream(stub.events(path, body), name, fault))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _stream(self, events: list[bytes], name: str, fault: str | None) -> None:
        behaviour, stats = self.stub.behaviour, self.stub.stats
        try:
            async with self.stub.slots:
                if fault == "http_500":
                    self.transport.write(
                        b"HTTP/1.1 500 X\r\nContent-Length: 12\r\n\r\nout of \x1b[31m\n"
                    )
                    return
                if fault == "hang":
                    await asyncio.sleep(3600)
                self.transport.write(_OK)
                if behaviour.role_first:
                    self._write(_event({"choices": [{"delta": {"role": "assistant"}}]}))
                await self._stream_events(events, name, fault)
                self.transport.write(_END)
        finally:
            stats.in_flight -= 1

    async def _stream_events(self, events: list[bytes], name: str, fault: str | None) -> None:
        behaviour, stats = self.stub.behaviour, self.stub.stats
        for position, event in enumerate(events):
            if position == 2 and fault is not None:
                await self._misbehave(fault)
            if behaviour.token_delay_s and b'choices": [{' in event:
                await asyncio.sleep(behaviour.token_delay_s)
            stats.first_token_at_s.setdefault(name, time.perf_counter())
            if behaviour.cut_bytes is None:
                self._write(event)
                continue
            for start in range(0, len(event), behaviour.cut_bytes):
                self._write(event[start : start + behaviour.cut_bytes])
                await asyncio.sleep(0)

    async def _misbehave(self, fault: str) -> None:
        if fault == "hang_mid_stream":
            await asyncio.sleep(3600)
        elif fault == "die_mid_stream":
            self.abort()
            await asyncio.sleep(3600)
        elif fault == "close_server":
            self.stub.close()
            await asyncio.sleep(3600)
        elif fault == "error_in_stream":
            self._write(_event({"error": {"message": "CUDA out of memory", "code": 500}}))

    def _write(self, data: bytes) -> None:
        self.transport.write(_chunk(data))


def _choice(chat: bool, channel: str, text: str, last: bool) -> dict[str, Any]:
    finish = "length" if last else None
    if not chat:
        return {"index": 0, "text": text, "finish_reason": finish}
    if channel == "tool_calls":
        delta: dict[str, Any] = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
    else:
        delta = {"content" if channel == "text" else channel: text}
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _event(payload: dict[str, Any]) -> bytes:
    text = json.dumps({"id": "stub", "created": 0, "model": "stub"} | payload, ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def running(behaviour: Behaviour) -> AsyncIterator[Stub]:
    """Serve on a free port for the length of a ``with`` block."""
    stub = Stub(behaviour)
    await stub.start()
    try:
        yield stub
    finally:
        stub.close()


async def _serve_forever(behaviour: Behaviour) -> None:
    stub = Stub(behaviour, keep_bodies=False)
    await stub.start()
    print(stub.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve_forever(Behaviour(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}"))))
