"""Wait until a server really serves: our process, our model's name, and one generated token.

A 200 from a health endpoint isn't enough: another job's server may hold the port, and some
engines report health and die at the first request.
"""

import asyncio
import json
import time
from typing import Any

import aiohttp

from autotune.engines.base import Command
from autotune.engines.process import ServerProcess

_POLL_S = 0.25


class NotReady(Exception):
    """The server didn't come up; ``timed_out`` tells a hang from a death."""

    def __init__(self, reason: str, *, timed_out: bool) -> None:
        super().__init__(reason)
        self.timed_out = timed_out


async def wait_until_ready(
    server: ServerProcess, command: Command, *, base_url: str, timeout_s: float
) -> float:
    """Return the seconds from the process's start until it had generated a token for our model.

    Raises:
        NotReady: the process ended, another model answers on the port, the first request
            failed, or ``timeout_s`` seconds passed.
    """
    try:
        async with asyncio.timeout(timeout_s):
            async with _session() as session:
                await _until_alive(session, server, command, base_url)
                await _first_token(session, server, command, base_url)
                return time.monotonic() - server.started_at
    except TimeoutError:
        raise NotReady(f"not ready after {timeout_s:g} s", timed_out=True) from None


async def _until_alive(
    session: aiohttp.ClientSession, server: ServerProcess, command: Command, base_url: str
) -> None:
    while True:
        _refuse_dead(server)
        names = await _served_models(session, base_url)
        if names is not None:
            if command.model in names:
                return
            raise NotReady(
                f"{base_url} serves {', '.join(names)[:200] or 'no model'}, not {command.model}: "
                "another server holds the port",
                timed_out=False,
            )
        await asyncio.sleep(_POLL_S)


async def _served_models(session: aiohttp.ClientSession, base_url: str) -> list[str] | None:
    try:
        async with session.get(f"{base_url}/health") as health:
            if health.status != 200:
                return None
        async with session.get(f"{base_url}/v1/models") as models:
            if models.status != 200:
                return None
            body: Any = await models.json()
    except (aiohttp.ClientError, ValueError):
        return None
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    return [str(row.get("id")) for row in rows if isinstance(row, dict)]


async def _first_token(
    session: aiohttp.ClientSession, server: ServerProcess, command: Command, base_url: str
) -> None:
    request = {"model": command.model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    try:
        async with session.post(f"{base_url}/v1/completions", json=request) as response:
            text = await response.text(errors="replace")
            if response.status == 200 and _has_choice(text):
                return
            problem = f"the first request got HTTP {response.status}: {text[:300]}"
    except aiohttp.ClientError as error:
        await asyncio.sleep(_POLL_S)
        _refuse_dead(server)
        problem = f"the first request failed: {type(error).__name__}"
    raise NotReady(problem, timed_out=False)


def _session() -> aiohttp.ClientSession:
    # The library's own limit of 5 minutes would cut a first request that compiles kernels.
    return aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=None))


def _has_choice(text: str) -> bool:
    try:
        body: Any = json.loads(text)
    except ValueError:
        return False
    return isinstance(body, dict) and bool(body.get("choices")) and not body.get("error")


def _refuse_dead(server: ServerProcess) -> None:
    code = server.exit_code
    if code is not None:
        raise NotReady(f"the server exited with code {code} before it was ready", timed_out=False)
