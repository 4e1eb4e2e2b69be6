"""Teacher forcing over HTTP: the reference writes, and any server says how likely it finds that.

Comparing greedy texts stops at the first difference. Here every token of the reference's answer
is judged by the candidate after the same beginning, so that each gives evidence. The server
computes them as a prompt: kernels that only run token by token aren't asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from autotune.load.client import Endpoint, open_session
from autotune.load.stream import excerpt
from autotune.probe.teacher_protocols import (
    PATHS,
    MalformedReply,
    Scores,
    Scoring,
    read_scores,
    read_text,
    scoring_body,
    writing_body,
)
from autotune.records.schema import (
    Continuation,
    ProbeMode,
    RequestOutcome,
    ScoredContinuation,
)

__all__ = ["Scoring", "Written", "score_continuations", "write_continuations"]

# A reply holds about 100 bytes a token.
_MOST_REPLY = 64 * 2**20
_MOST_WORDS = 4096


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The reference's continuations, and a sentence for each prompt that has none."""

    continuations: tuple[Continuation, ...]
    problems: tuple[str, ...] = ()


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: ``data`` where ``outcome`` is ``ok``, else ``error``."""

    outcome: RequestOutcome
    data: bytes = b""
    error: str | None = None


async def write_continuations(
    endpoint: Endpoint,
    prompts: Mapping[str, str],
    *,
    scoring: Scoring,
    max_tokens: int,
    timeout_s: float,
    concurrency: int = 1,
) -> Written:
    """Have the reference answer each prompt greedily, told token by token.

    An answer may end before ``max_tokens``; the token that ended it is part of it. Prompts are
    given as plain text, without a chat's template. ``endpoint.extra_body`` isn't sent.

    Args:
        endpoint: the reference's server.
        prompts: texts by name.
        scoring: the server's way of telling log-probabilities.
        max_tokens: most tokens of an answer.
        timeout_s: limit of each request, in seconds.
        concurrency: requests in flight.

    Returns:
        Continuations in the prompts' order. A prompt whose request failed is left out, with a
        problem; nothing is raised for what the server does.
    """
    bodies = [
        writing_body(scoring, text, model=endpoint.model, max_tokens=max_tokens)
        for text in prompts.values()
    ]
    replies = await _ask_all(
        endpoint, PATHS[scoring], bodies, timeout_s=timeout_s, concurrency=concurrency
    )
    continuations: list[Continuation] = []
    problems: list[str] = []
    for name, reply in zip(prompts, replies, strict=True):
        problem = reply.error
        if reply.outcome == "ok":
            try:
                text = read_text(scoring, reply.data)
                if len(text.token_ids) > max_tokens:
                    raise MalformedReply(f"{len(text.token_ids)} tokens, not {max_tokens}")
            except MalformedReply as error:
                problem = str(error)
            else:
                continuations.append(
                    Continuation(
                        prompt=name,
                        prompt_token_ids=text.prompt_token_ids,
                        token_ids=text.token_ids,
                        log_probabilities=text.log_probabilities,
                    )
                )
                continue
        problems.append(f"no continuation of prompt {name!r}: {problem}")
    return Written(continuations=tuple(continuations), problems=tuple(problems))


async def score_continuations(
    endpoint: Endpoint,
    continuations: Sequence[Continuation],
    *,
    scoring: Scoring,
    mode: ProbeMode,
    concurrency: int,
    repeats: int,
    timeout_s: float,
) -> list[ScoredContinuation]:
    """Ask a server how likely it finds the reference's tokens, and which ones it prefers.

    Each round of all continuations is asked ``repeats`` times. After as many failures in a row
    as there are slots (3 at least) to connect or to answer in time, the rest isn't asked.

    Args:
        endpoint: the server under test; its ``extra_body`` isn't sent.
        continuations: what the reference wrote.
        scoring: the server's way of telling log-probabilities.
        mode: goes into the records.
        concurrency: requests in flight.
        repeats: how often each is asked.
        timeout_s: limit of each request, in seconds.

    Returns:
        One record a continuation and repeat, in order. What the server does wrong is an outcome
        with its error; nothing is raised for it.

    Raises:
        ValueError: a continuation has no prompt or no token.
    """
    for continuation in continuations:
        if not continuation.prompt_token_ids or not continuation.token_ids:
            raise ValueError(f"continuation of {continuation.prompt!r}: nothing to ask about")
    bodies = [
        scoring_body(scoring, continuation, model=endpoint.model) for continuation in continuations
    ]
    replies = await _ask_all(
        endpoint, PATHS[scoring], bodies * repeats, timeout_s=timeout_s, concurrency=concurrency
    )
    scored: list[ScoredContinuation] = []
    for index, reply in enumerate(replies):
        repeat, which = divmod(index, len(continuations))
        outcome, scores, problem = _read(scoring, reply, continuations[which])
        scored.append(
            ScoredContinuation(
                prompt=continuations[which].prompt,
                mode=mode,
                concurrency=concurrency,
                repeat=1 + repeat,
                outcome=outcome,
                log_probabilities=scores.log_probabilities,
                top_token_ids=scores.top_token_ids,
                error=problem,
            )
        )
    return scored


def _read(
    scoring: Scoring, reply: _Reply, continuation: Continuation
) -> tuple[RequestOutcome, Scores, str | None]:
    if reply.outcome == "ok":
        try:
            return "ok", read_scores(scoring, reply.data, continuation), None
        except MalformedReply as error:
            reply = _Reply(outcome="bad_stream", error=str(error))
    return reply.outcome, Scores(log_probabilities=(), top_token_ids=()), reply.error


async def _ask_all(
    endpoint: Endpoint, path: str, bodies: Sequence[bytes], *, timeout_s: float, concurrency: int
) -> list[_Reply]:
    """Post every body and return the replies in the same order."""
    base = endpoint.base_url.rstrip("/").removesuffix("/v1")
    url = URL(f"{base}/{path}")
    slots = asyncio.Semaphore(concurrency)
    give_up_after = max(3, concurrency)
    in_a_row: list[_Reply] = []

    async def ask(session: aiohttp.ClientSession, body: bytes) -> _Reply:
        async with slots:
            if len(in_a_row) >= give_up_after:
                last = in_a_row[-1]
                return _Reply(outcome=last.outcome, error=f"not asked, after: {last.error}")
            reply = await _post(session, url, body, timeout_s=timeout_s)
            if reply.outcome in ("timeout", "connection"):
                in_a_row.append(reply)
            else:
                in_a_row.clear()
            return reply

    async with open_session(endpoint, concurrency=concurrency) as session:
        return await asyncio.gather(*(ask(session, body) for body in bodies))


async def _post(
    session: aiohttp.ClientSession, url: URL, body: bytes, *, timeout_s: float
) -> _Reply:
    status: int | None = None
    # Nobody but the server that was asked is to answer.
    options: dict[str, Any] = {"allow_redirects": False, "headers": {"Accept": "application/json"}}
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.post(url, data=body, **options) as response,
        ):
            status = response.status
            if status != 200:
                words = excerpt(await _read_up_to(response, _MOST_WORDS))
                return _Reply(outcome="http_error", error=f"HTTP {status}: {words}")
            data = await _read_up_to(response, _MOST_REPLY + 1)
    except TimeoutError:
        return _Reply(outcome="timeout", error=f"no complete answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as error:
        said = excerpt(f"{type(error).__name__}: {error}".encode(errors="replace"))
        if status is None:
            return _Reply(outcome="connection", error=said)
        return _Reply(outcome="bad_stream", error=f"connection lost inside the reply: {said}")
    if len(data) > _MOST_REPLY:
        return _Reply(outcome="bad_stream", error=f"a reply of more than {_MOST_REPLY} bytes")
    return _Reply(outcome="ok", data=data)


async def _read_up_to(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body's first ``most`` bytes; the rest is left in the connection, which is then closed."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part[: most - size])
        size += len(parts[-1])
        if size >= most:
            response.close()
            break
    return b"".join(parts)
