"""A closed loop of streaming requests at a fixed concurrency.

While requests run, the client stamps and keeps raw bytes and does nothing else: what they say
is read afterwards by `autotune.load.stream`.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Literal, TypeVar

import aiohttp
import msgspec
from yarl import URL

from autotune.load.stream import Answer, RawRequest, read_answer
from autotune.load.workload import Prompt
from autotune.records.schema import RequestRole

EndpointKind = Literal["completions", "chat"]
_PATHS = {"completions": "v1/completions", "chat": "v1/chat/completions"}
_WATCH_EVERY_S = 0.5
_T = TypeVar("_T")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAI-compatible server and how to ask it.

    ``base_url`` is without ``/v1``. ``ignore_eos`` is sent only where the server is known to
    support it. ``extra_body`` is merged into each request's body and wins over our own keys.
    """

    base_url: str
    model: str
    kind: EndpointKind = "completions"
    ignore_eos: bool = False
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}

    def url(self) -> str:
        """The address that requests are posted to."""
        base = self.base_url.rstrip("/").removesuffix("/v1")
        return f"{base}/{_PATHS[self.kind]}"

    def body(self, prompt: Prompt, *, max_tokens: int) -> bytes:
        """Return the JSON of one request: greedy, streaming, with usage."""
        asked: Any = prompt.text if prompt.token_ids is None else prompt.token_ids
        body: dict[str, Any] = {"model": self.model}
        if self.kind == "chat":
            body["messages"] = [{"role": "user", "content": asked}]
        else:
            body["prompt"] = asked
        body |= {
            "max_tokens": prompt.max_tokens or max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        return msgspec.json.encode(body | self.extra_body)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a closed loop is; ``finished`` counts failed requests too."""

    finished: int
    failed: int
    total: int


class ClosedLoopRun(msgspec.Struct, frozen=True, kw_only=True):
    """All that a closed loop kept.

    ``requests`` are in order of dispatch, without those that were never sent or were cut off
    by ``stop``. ``stopped`` says why it ended before the prompts did. ``busy`` is the share of
    the run that this thread spent on the CPU: near 1, the client is what was measured.
    """

    requests: list[RawRequest]
    not_sent: int = 0
    stopped: str | None = None
    busy: float = 0.0

    def answers(self) -> list[Answer]:
        """Read every request; time 0 is the first dispatch."""
        zero = min((raw.sent_at_s for raw in self.requests), default=0.0)
        return [read_answer(raw, zero_s=zero) for raw in self.requests]

    def answers_to(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One answer for each of the run's prompts, in their order.

        One that was never sent, since the server had gone, has the outcome ``connection``.
        """
        answers = {answer.record.index: answer for answer in self.answers()}
        never = f"not sent: {self.stopped}"
        for index, prompt in enumerate(prompts):
            if index not in answers:
                raw = RawRequest(
                    index=index,
                    role=prompt.role,
                    sent_at_s=0.0,
                    error="connection",
                    error_text=never,
                )
                answers[index] = read_answer(raw, zero_s=0.0)
        return [answers[index] for index in range(len(prompts))]


class _Loop:
    """The state that the workers of one closed loop share."""

    def __init__(
        self,
        bodies: Sequence[bytes],
        roles: Sequence[RequestRole],
        *,
        timeout_s: float,
        give_up_after: int,
    ) -> None:
        self.pending: Iterator[tuple[int, bytes]] = iter(enumerate(bodies))
        self.roles = roles
        self.total = len(bodies)
        self.timeout_s = timeout_s
        self.give_up_after = give_up_after
        self.requests: list[RawRequest] = []
        self.finished = 0
        self.failed = 0
        self.refused_in_a_row = 0
        self.stopped: str | None = None
        self.last_sign_s = time.perf_counter()

    async def work(
        self, session: aiohttp.ClientSession, url: URL, report: Callable[[Progress], None] | None
    ) -> None:
        for index, body in self.pending:
            raw = await self._send(session, url, index=index, body=body)
            self._count(raw)
            if report is not None:
                report(Progress(finished=self.finished, failed=self.failed, total=self.total))
            if self.stopped is not None:
                return

    async def _send(
        self, session: aiohttp.ClientSession, url: URL, *, index: int, body: bytes
    ) -> RawRequest:
        clock = time.perf_counter
        stamps: list[float] = []
        chunks: list[bytes] = []
        raw = RawRequest(
            index=index, role=self.roles[index], sent_at_s=clock(), stamps=stamps, chunks=chunks
        )
        self.requests.append(raw)
        try:
            async with asyncio.timeout(self.timeout_s), session.post(url, data=body) as response:
                raw.status = response.status
                async for chunk in response.content.iter_any():
                    self.last_sign_s = now = clock()
                    stamps.append(now)
                    chunks.append(chunk)
        except TimeoutError:
            raw.error = "timeout"
            raw.error_text = f"no complete answer within {self.timeout_s:g} s"
        except (aiohttp.ClientError, OSError) as error:
            raw.error = "connection"
            raw.error_text = f"{type(error).__name__}: {error}"
        raw.ended_at_s = clock()
        return raw

    def _count(self, raw: RawRequest) -> None:
        self.finished += 1
        if raw.error is not None or raw.status != 200:
            self.failed += 1
        refused = raw.error == "connection" and raw.status is None
        self.refused_in_a_row = self.refused_in_a_row + 1 if refused else 0
        if self.refused_in_a_row >= self.give_up_after and self.stopped is None:
            self.stopped = (
                f"the server can't be reached: {self.refused_in_a_row} requests in a row failed "
                f"to connect ({raw.error_text})"
            )


async def run_closed_loop(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    *,
    concurrency: int,
    max_tokens: int,
    request_timeout_s: float = 600.0,
    stall_timeout_s: float | None = None,
    stop: asyncio.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    session: aiohttp.ClientSession | None = None,
) -> ClosedLoopRun:
    """Keep ``concurrency`` requests in flight until the prompts run out.

    Each slot sends its next request when its last one has ended, so the rate follows the
    server. It ends early when ``max(3, concurrency)`` requests in a row find no server, when no
    byte arrives for ``stall_timeout_s`` seconds (those in flight then end as timeouts), or when
    ``stop`` is set (those in flight are left out).

    Args:
        endpoint: whom to ask, and how.
        prompts: one request each, in this order.
        concurrency: requests in flight.
        max_tokens: output tokens asked of each request whose prompt doesn't say otherwise.
        request_timeout_s: a request that takes longer ends as ``timeout``.
        stall_timeout_s: longest silence of the server as a whole; ``None`` waits for each
            request's own timeout.
        stop: set it from elsewhere to end the run.
        on_progress: called after each request, on the measuring thread: keep it short.
        session: an `open_session` of at least this concurrency; by default one is made.

    Returns:
        What was kept; nothing is raised for what the server does.
    """
    bodies = [endpoint.body(prompt, max_tokens=max_tokens) for prompt in prompts]
    url = URL(endpoint.url())
    state = _Loop(
        bodies,
        [prompt.role for prompt in prompts],
        timeout_s=request_timeout_s,
        give_up_after=max(3, concurrency),
    )
    async with AsyncExitStack() as stack:
        if session is None:
            opened = open_session(endpoint, concurrency=concurrency)
            session = await stack.enter_async_context(opened)
        with _quiet_collector():
            began, cpu = time.perf_counter(), time.thread_time()
            state.last_sign_s = began
            slots = min(concurrency, len(bodies))
            workers = asyncio.gather(*(state.work(session, url, on_progress) for _ in range(slots)))
            await _watch(workers, state, stop=stop, stall_timeout_s=stall_timeout_s)
            cpu = time.thread_time() - cpu
            took = time.perf_counter() - began
    kept = [raw for raw in state.requests if raw.ended_at_s]
    return ClosedLoopRun(
        requests=kept,
        not_sent=len(bodies) - len(kept),
        stopped=state.stopped,
        busy=cpu / took if took > 0 else 0.0,
    )


async def ask(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    *,
    max_tokens: int,
    timeout_s: float,
    concurrency: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Answer]:
    """Ask prompts and return their answers in the prompts' order, one each.

    Args:
        endpoint: whom to ask, and how.
        prompts: what to ask.
        max_tokens: output tokens asked of each request.
        timeout_s: limit of each request, in seconds.
        concurrency: requests in flight: 1 asks one after the other.
        on_progress: called after each request; keep it short.

    Returns:
        An answer a prompt. One that was never sent, since the server had gone, has the outcome
        ``connection``.
    """
    run = await run_closed_loop(
        endpoint,
        prompts,
        concurrency=concurrency,
        max_tokens=max_tokens,
        request_timeout_s=timeout_s,
        on_progress=on_progress,
    )
    return run.answers_to(prompts)


async def _watch(
    workers: asyncio.Future[list[None]],
    state: _Loop,
    *,
    stop: asyncio.Event | None,
    stall_timeout_s: float | None,
) -> None:
    """Wait for the workers; end them on ``stop`` or when the server has gone silent."""
    waited: set[asyncio.Future[Any]] = {workers}
    if stop is not None:
        waited.add(asyncio.ensure_future(stop.wait()))
    try:
        while not workers.done():
            await asyncio.wait(waited, timeout=_WATCH_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            silent_s = time.perf_counter() - state.last_sign_s
            if stop is not None and stop.is_set():
                state.stopped = "stopped on request"
                return
            if stall_timeout_s is not None and silent_s > stall_timeout_s:
                state.stopped = f"no byte from the server for {silent_s:.1f} s"
                _end_as_timeouts(state)
                return
        workers.result()
    finally:
        for task in waited:
            task.cancel()
        await asyncio.gather(*waited, return_exceptions=True)


def _end_as_timeouts(state: _Loop) -> None:
    now = time.perf_counter()
    for raw in state.requests:
        if not raw.ended_at_s:
            raw.ended_at_s, raw.error, raw.error_text = now, "timeout", state.stopped


def open_session(endpoint: Endpoint, *, concurrency: int) -> aiohttp.ClientSession:
    """A session that adds no waiting of its own: no queue for connections, no proxy, no cookies.

    Use it for a warm-up and the run after it, so that no connection is made in the latter.
    """
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=concurrency, ttl_dns_cache=None),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        headers=headers | endpoint.headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def run_async(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on uvloop where it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep Python's cyclic collector from pausing the loop while stamps are taken."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
