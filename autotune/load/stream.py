"""From the raw bytes of one answer to a `RequestRecord` and its text.

Pure: it runs after the measurement, on what the client kept. Positions are looked up in the
joined bytes, so how the network cut them into chunks changes stamps and nothing else.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from autotune.records.schema import RequestOutcome, RequestRecord, RequestRole

RawError = Literal["timeout", "connection"]
_EXCERPT = 200
# What SGLang says matched where it met a token outside the vocabulary (schedule_batch.py).
NAN_MARK = "NaN happened"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_NOT_SSE = "the answer isn't a stream of server-sent events"
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class RawRequest(msgspec.Struct, kw_only=True):
    """What the client kept of one request: stamps of ``time.perf_counter`` and raw bytes.

    ``stamps[i]`` is the arrival of ``chunks[i]``. ``status`` is ``None`` where no response
    header came. ``error_text`` is the client library's own words, unfiltered.
    """

    index: int
    role: RequestRole = "measured"
    sent_at_s: float
    ended_at_s: float = 0.0
    status: int | None = None
    stamps: list[float] = []
    chunks: list[bytes] = []
    error: RawError | None = None
    error_text: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One request's record and what it says.

    ``text`` is content and tool calls, ``reasoning`` what came in a channel of its own for
    thinking. ``nan_marked`` tells that the engine met a NaN and says so.
    """

    record: RequestRecord
    text: str
    reasoning: str = ""
    nan_marked: bool = False


class Event(NamedTuple):
    """One server-sent event: its data and the arrival of the chunk that completed it."""

    data: bytes
    at_s: float


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: Any = None
    finish_reason: Any = None
    matched_stop: Any = None


class _Details(msgspec.Struct):
    cached_tokens: _Tokens | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Tokens | None = None
    completion_tokens: _Tokens | None = None
    prompt_tokens_details: _Details | None = None


class _Payload(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: Any = None
    message: Any = None


_decode = msgspec.json.Decoder(_Payload).decode


def events(stamps: Sequence[float], chunks: Sequence[bytes]) -> list[Event]:
    """Split a response body into its server-sent events.

    Args:
        stamps: arrival of each chunk.
        chunks: the body as received, cut anywhere.

    Returns:
        The events that carry data, comments and other fields left out. A last event without
        the blank line that should end it counts, stamped with the last chunk.
    """
    body = b"".join(chunks)
    ends = list(accumulate(len(chunk) for chunk in chunks))
    found: list[Event] = []
    data: list[bytes] = []
    start = 0
    for match in _LINE_END.finditer(body):
        line = body[start : match.start()]
        start = match.end()
        if line:
            _keep_data(line, data)
        elif data:
            found.append(Event(b"\n".join(data), stamps[bisect_right(ends, match.start())]))
            data = []
    if start < len(body):
        _keep_data(body[start:], data)
    if data:
        found.append(Event(b"\n".join(data), stamps[-1]))
    return found


def _keep_data(line: bytes, data: list[bytes]) -> None:
    if line.startswith(b"data:"):
        data.append(line[6:] if line[5:6] == b" " else line[5:])


class _Reading:
    """What the events of one answer add up to."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.nan_marked = False
        self.token_stamps: list[float] = []
        self.usage: _Usage | None = None
        self.finish_reason: str | None = None
        self.done = False
        self.problem: str | None = None

    def read(self, event: Event) -> None:
        if event.data.strip() == b"[DONE]":
            self.done = True
            return
        try:
            payload = _decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = f"an event isn't a completion chunk ({error})"
            if not _is_utf8(event.data):
                why = "an event holds invalid UTF-8"
            self._fail(f"{why}: {excerpt(event.data)}")
            return
        if payload.error is not None or payload.object == "error":
            self._fail(f"error inside the stream: {excerpt(event.data)}")
            return
        if payload.usage is not None:
            self.usage = payload.usage
        before = len(self.text) + len(self.reasoning)
        for choice in payload.choices or ():
            self._read_choice(choice)
        if len(self.text) + len(self.reasoning) > before:
            self.token_stamps.append(event.at_s)

    def _read_choice(self, choice: _Choice) -> None:
        if isinstance(choice.finish_reason, str):
            self.finish_reason = _printable(choice.finish_reason)[:40]
        self.nan_marked = self.nan_marked or choice.matched_stop == NAN_MARK
        channels = [choice.text]
        if choice.delta is not None:
            delta = choice.delta
            # Servers that know both names send the same text under each: take one.
            self.reasoning += _texts([delta.reasoning_content or delta.reasoning])
            channels += [delta.content, *_tool_call_text(delta.tool_calls)]
        self.text += _texts(channels)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem


def _texts(channels: Sequence[Any]) -> list[str]:
    return [channel for channel in channels if isinstance(channel, str) and channel]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _tool_call_text(calls: Any) -> list[Any]:
    if not isinstance(calls, list):
        return []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return [f.get(key) for f in functions if isinstance(f, dict) for key in ("name", "arguments")]


def read_answer(raw: RawRequest, *, zero_s: float) -> Answer:
    """Read one raw request. Never raises, whatever the server sent.

    Args:
        raw: what the client kept.
        zero_s: the ``time.perf_counter`` value that becomes 0 in the record, in seconds: the
            point's first dispatch.

    Returns:
        The record and the text. A token's stamp is the arrival of the chunk that completed its
        event; a chunk with only a role, or only usage, carries no token.
    """
    reading = _Reading()
    if raw.status == 200:
        for event in events(raw.stamps, raw.chunks):
            reading.read(event)
    outcome, error = _outcome(raw, reading)
    usage = reading.usage or _Usage()
    details = usage.prompt_tokens_details or _Details()
    record = RequestRecord(
        index=raw.index,
        role=raw.role,
        outcome=outcome,
        sent_at_s=raw.sent_at_s - zero_s,
        ended_at_s=raw.ended_at_s - zero_s,
        chunk_at_s=tuple(stamp - zero_s for stamp in reading.token_stamps),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=details.cached_tokens,
        finish_reason=reading.finish_reason,
        error=error,
    )
    return Answer(
        record=record,
        text="".join(reading.text),
        reasoning="".join(reading.reasoning),
        nan_marked=reading.nan_marked,
    )


def _outcome(raw: RawRequest, reading: _Reading) -> tuple[RequestOutcome, str | None]:
    if raw.status is not None and raw.status != 200:
        return "http_error", f"HTTP {raw.status}: {excerpt(b''.join(raw.chunks))}"
    if raw.error == "timeout":
        return "timeout", _printable(raw.error_text or "no complete answer in time")[:_EXCERPT]
    if raw.error == "connection" and raw.status is None:
        return "connection", _printable(raw.error_text or "no response")[:_EXCERPT]
    if reading.problem is not None:
        return "bad_stream", reading.problem
    if raw.error == "connection":
        said = _printable(raw.error_text or "")[:_EXCERPT]
        return "bad_stream", f"connection lost after {len(reading.token_stamps)} chunks: {said}"
    # Not every server says [DONE] (transformers doesn't); a finish reason ends an answer as well.
    if not reading.done and reading.finish_reason is None:
        where = excerpt(b"".join(raw.chunks))
        missing = "neither [DONE] nor a finish reason" if reading.token_stamps else _NOT_SSE
        return "bad_stream", f"{missing}: {where}"
    if not reading.token_stamps:
        counted = reading.usage.completion_tokens if reading.usage else None
        return "empty", f"no text in any channel; usage counts {counted} output tokens"
    if reading.usage is not None and reading.usage.completion_tokens == 0:
        return "empty", "text arrived, but usage counts no output tokens"
    return "ok", None


def excerpt(data: bytes) -> str:
    """Return the first 200 characters of foreign bytes, safe to print and to store."""
    return _printable(data[: 4 * _EXCERPT].decode("utf-8", errors="replace"))[:_EXCERPT]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()
