"""What the SGLang engine asks a running server, over real HTTP."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from aiohttp import web

from autotune.engines.process import free_ports
from autotune.errors import EngineError
from tests.engines.sglang.builders import (
    ENGINE,
)

# Far above what any of these takes on a busy machine: it only tells a hang.
DEADLINE_S = 60.0
Value = TypeVar("Value")


# -- asking a running server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONNECTED_LOG = "ServerArgs(model_path='/m', moe_runner_backend='triton', tp_size=1)\n"


@asynccontextmanager
async def serving(routes: Mapping[str, Handler]) -> AsyncIterator[str]:
    """A server on a free port that knows these paths."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def run(ask: Coroutine[Any, Any, Value]) -> Value:
    async def bounded() -> Value:
        async with asyncio.timeout(DEADLINE_S):
            return await ask

    return asyncio.run(bounded())


def resolved(routes: Mapping[str, Handler], *, log: str = "") -> str | None:
    async def ask() -> str | None:
        async with serving(routes) as base_url:
            return await ENGINE.resolved_backend(base_url=base_url, log=log)

    return run(ask())


def answering(body: bytes | str | dict[str, Any], *, status: int = 200, **more: Any) -> Handler:
    content = json.dumps(body) if isinstance(body, dict) else body
    raw = content.encode() if isinstance(content, str) else content

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, status=status, **more)

    return answer


INFORMATION = {"moe_runner_backend": "flashinfer_cutlass", "moe_a2a_backend": "none"}


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_the_server_says_what_it_resolved(path: str) -> None:
    assert resolved({path: answering(INFORMATION)}, log=CONNECTED_LOG) == "flashinfer_cutlass"


def test_the_newer_path_counts() -> None:
    routes = {
        "/server_info": answering(INFORMATION),
        "/get_server_info": answering({"moe_runner_backend": "triton"}),
    }
    assert resolved(routes) == "flashinfer_cutlass"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (CONNECTED_LOG, "triton"),
        (CONNECTED_LOG + CONNECTED_LOG.replace("triton", "marlin"), "marlin"),
        (CONNECTED_LOG.replace("triton", "auto"), None),
        ("nothing of it", None),
        ("moe_runner_backend='" + "x" * 10_000 + "'", None),
        ("moe_runner_backend='../../etc'", None),
    ],
)
def test_the_log_tells_where_neither_path_is_known(log: str, expected: str | None) -> None:
    assert resolved({}, log=log) == expected


async def redirect_forever(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(request.path)


async def hang_up(request: web.Request) -> web.StreamResponse:
    """A body that ends before its announced length."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"moe_')
    assert request.transport is not None
    request.transport.abort()
    return response


GARBLED = {
    "broken JSON": answering('{"moe_runner_backend": "fl'),
    "HTML": answering("<!doctype html><h1>502</h1>", content_type="text/html"),
    "a list": answering("[1, 2]"),
    "a word": answering('"triton"'),
    "nothing": answering(""),
    "not UTF-8": answering(b'{"moe_runner_backend": "\xff\xfe"}'),
    "another charset": answering(b"\x81", content_type="application/json", charset="utf-16"),
    "not gzip": answering(b"{}", headers={"Content-Encoding": "gzip"}),
    "a huge number": answering('{"moe_runner_backend": ' + "9" * 10_000 + "}"),
    "HTTP 401": answering(INFORMATION, status=401),
    "HTTP 500": answering(INFORMATION, status=500),
    "redirects": redirect_forever,
    "cut off": hang_up,
    "deep nesting": answering("[" * 200_000),
}


@pytest.mark.parametrize(
    "answer",
    [case if not callable(case) else pytest.param(case, id=name) for name, case in GARBLED.items()],
)
def test_an_answer_that_says_nothing_leaves_it_to_the_log(answer: Handler) -> None:
    routes = {"/server_info": answer, "/get_server_info": answer}
    assert resolved(routes, log=CONNECTED_LOG) == "triton"


def test_an_answer_without_the_key_leaves_it_to_the_log() -> None:
    assert resolved({"/server_info": answering({"version": "1"})}, log=CONNECTED_LOG) == "triton"


@pytest.mark.parametrize("told", [None, 7, ["triton"], {"name": "triton"}])
def test_a_value_that_is_no_name_is_none(told: Any) -> None:
    assert resolved({"/server_info": answering({"moe_runner_backend": told})}) is None


@pytest.mark.parametrize("content", [b"x" * 30_000_000, b" " * 30_000_000 + b"{}"])
def test_a_huge_body_is_no_trouble(content: bytes) -> None:
    assert resolved({"/server_info": answering(content)}) is None
    squeezed = answering(gzip.compress(content), headers={"Content-Encoding": "gzip"})
    assert resolved({"/server_info": squeezed}) is None


def test_a_large_answer_is_read_to_its_end() -> None:
    whole = {"internal_states": ["x" * 1000] * 5000, **INFORMATION}
    assert resolved({"/server_info": answering(whole)}) == "flashinfer_cutlass"


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(DEADLINE_S)
    return web.Response()


async def without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 100)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("slow", [never, without_end])
def test_a_server_that_never_answers_is_not_waited_for(slow: Handler, impatient: None) -> None:
    assert resolved({"/server_info": slow, "/get_server_info": slow}, log=CONNECTED_LOG) == "triton"


@pytest.mark.parametrize(
    ("information", "name"),
    [
        ({"moe_runner_backend": "auto", "moe_a2a_backend": "megamoe"}, "megamoe"),
        ({"moe_runner_backend": "auto", "moe_a2a_backend": "deepep"}, "auto"),
        ({"moe_runner_backend": "auto", "moe_a2a_backend": None}, "auto"),
        ({"moe_runner_backend": "deep_gemm", "moe_a2a_backend": "megamoe"}, "deep_gemm"),
    ],
)
def test_megamoe_goes_by_its_alias(information: dict[str, Any], name: str) -> None:
    assert resolved({"/server_info": answering(information)}) == name


def test_a_server_that_is_gone_says_nothing() -> None:
    gone = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert run(ENGINE.resolved_backend(base_url=gone, log=CONNECTED_LOG)) == "triton"


# -- emptying the cache


class Cache:
    """Refuses to be emptied ``refusals`` times, as SGLang does while a request runs."""

    def __init__(self, refusals: int, *, text: str = "Flush cache failed.\n") -> None:
        self.refusals = refusals
        self.text = text
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.method)
        if len(self.asked) <= self.refusals:
            return web.Response(status=400, text=self.text)
        return web.Response(text="Cache flushed.\n")


def flush(handler: Handler, path: str = "/flush_cache") -> None:
    async def ask() -> None:
        async with serving({path: handler}) as base_url:
            await ENGINE.flush_cache(base_url=base_url)

    run(ask())


@pytest.mark.parametrize("refusals", [0, 1, 3])
def test_a_busy_server_is_asked_again(refusals: int, no_pauses: None) -> None:
    cache = Cache(refusals)
    flush(cache.answer)
    assert cache.asked == ["POST"] * (refusals + 1)


def test_a_server_that_keeps_refusing_is_told_with_its_words(no_pauses: None) -> None:
    cache = Cache(1000, text="there are 3 running requests")
    with pytest.raises(EngineError, match=r"/flush_cache failed 4 times.*HTTP 400: there are 3"):
        flush(cache.answer)
    assert len(cache.asked) == 4


def test_what_a_server_says_of_it_is_cut_short(no_pauses: None) -> None:
    with pytest.raises(EngineError) as caught:
        flush(Cache(1000, text="x" * 100_000).answer)
    assert len(str(caught.value)) < 400


def test_no_such_path_is_a_refusal(no_pauses: None) -> None:
    with pytest.raises(EngineError, match="HTTP 404"):
        flush(Cache(0).answer, path="/elsewhere")


async def drop(request: web.Request) -> web.StreamResponse:
    """No answer at all: the connection ends."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize("slow", [never, drop])
def test_a_server_that_hangs_is_given_up(slow: Handler, impatient: None) -> None:
    with pytest.raises(EngineError, match=r"failed 4 times"):
        flush(slow)


def test_a_gone_server_is_an_error(no_pauses: None) -> None:
    with pytest.raises(EngineError, match="Connect"):
        run(ENGINE.flush_cache(base_url=f"http://127.0.0.1:{free_ports(1)[0]}"))
