"""Two ways to ask a server for log-probabilities of given tokens, and how their replies read.

``generate`` is SGLang's own ``/generate`` (releases 0.5.17 to 0.5.23), ``echo`` is vLLM's reading
of ``/v1/completions`` (0.32), which adds tokens by number to OpenAI's. Pure: bodies out, bytes in.

A NaN is ``null`` in SGLang's replies; vLLM can't write one and refuses the request (HTTP 400, "Out
of range float values are not JSON compliant"). SGLang takes prompts that leave about 7 tokens of
the context free, vLLM such that leave 1.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import msgspec

from autotune.load.stream import excerpt
from autotune.records.schema import Continuation

Scoring = Literal["generate", "echo"]
PATHS: dict[Scoring, str] = {"generate": "generate", "echo": "v1/completions"}
# A logarithm of a probability may lie above 0 by rounding, and by no more than that.
_MOST_LOG_PROBABILITY = 1e-3
# What vLLM writes for minus infinity.
_LEAST_LOG_PROBABILITY = -9999.0
_MOST_TOKEN_ID = 2**31
_ID_PREFIX = "token_id:"


class MalformedReply(Exception):
    """A reply that isn't what was asked for; the text is safe to print and to store."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A written answer by token: ids of the prompt, and ids and log-probabilities of the answer."""

    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_probabilities: tuple[float | None, ...]


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a continuation: one entry a token of it."""

    log_probabilities: tuple[float | None, ...]
    top_token_ids: tuple[int | None, ...]


def writing_body(scoring: Scoring, text: str, *, model: str, max_tokens: int) -> bytes:
    """Return the JSON that asks for a greedy answer to ``text``, told by token."""
    if scoring == "generate":
        return msgspec.json.encode(
            {
                "text": text,
                "sampling_params": {"max_new_tokens": max_tokens, "temperature": 0.0},
                "return_logprob": True,
                "return_prompt_token_ids": True,
            }
        )
    return _completion(text, model=model, max_tokens=max_tokens)


def scoring_body(scoring: Scoring, continuation: Continuation, *, model: str) -> bytes:
    """Return the JSON that asks what the server thinks of a continuation.

    With ``generate``, the prompt may come from the server's prefix cache, but for its last token;
    the continuation is computed each time. With ``echo``, vLLM reads nothing from its cache.
    """
    tokens = [*continuation.prompt_token_ids, *continuation.token_ids]
    if scoring == "generate":
        # The first entry told is that of the start itself, without a number: begin one early.
        start = len(continuation.prompt_token_ids) - 1
        return msgspec.json.encode(
            {
                "input_ids": tokens,
                # 0 new tokens would be a path of its own inside SGLang, which no load takes.
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": True,
                "logprob_start_len": start,
                "top_logprobs_num": 1,
            }
        )
    return _completion(tokens, model=model, max_tokens=0, echo=True)


def _completion(prompt: str | list[int], *, model: str, max_tokens: int, **more: bool) -> bytes:
    return msgspec.json.encode(
        {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0.0,
            "logprobs": 1,
            "return_tokens_as_token_ids": True,
            "return_token_ids": True,
            **more,
        }
    )


def read_text(scoring: Scoring, reply: bytes) -> Text:
    """Read a written answer.

    Raises:
        MalformedReply: it isn't one, or holds no token.
    """
    body = _decode(reply)
    if scoring == "generate":
        entries = _list(_dict(body, "meta_info"), "output_token_logprobs")
        rows = [_row(entry) for entry in entries]
        prompt_token_ids = _list(body, "prompt_token_ids")
    else:
        choice = _choice(body)
        told = _Told(choice)
        rows = [(told.log_probability(i), told.token_id(i)) for i in range(told.length)]
        prompt_token_ids = _list(choice, "prompt_token_ids")
    if not rows or not prompt_token_ids:
        raise MalformedReply(f"no token in {'the answer' if prompt_token_ids else 'the prompt'}")
    return Text(
        prompt_token_ids=tuple(_token_id(value) for value in prompt_token_ids),
        token_ids=tuple(_token_id(token) for _, token in rows),
        log_probabilities=tuple(_log_probability(value) for value, _ in rows),
    )


def read_scores(scoring: Scoring, reply: bytes, continuation: Continuation) -> Scores:
    """Read what a server says of ``continuation``.

    A token as likely as the most likely one counts as that: which of the two a server names is
    chance.

    Raises:
        MalformedReply: it isn't about these tokens, each of them once.
    """
    body = _decode(reply)
    rows = _generate_rows if scoring == "generate" else _echo_rows
    numbers: list[float | None] = []
    top: list[int | None] = []
    for token, (number, best) in zip(continuation.token_ids, rows(body, continuation), strict=True):
        numbers.append(number)
        level = best is not None and number is not None and number >= best[0]
        top.append(token if level else None if best is None else best[1])
    return Scores(log_probabilities=tuple(numbers), top_token_ids=tuple(top))


# A token's log-probability, and the most likely token's with its id; None for what is no number.
_Best = tuple[float, int] | None
_Rows = list[tuple[float | None, _Best]]


def _generate_rows(body: dict[str, Any], continuation: Continuation) -> _Rows:
    meta = _dict(body, "meta_info")
    told = _list(meta, "input_token_logprobs")
    best = _list(meta, "input_top_logprobs")
    # One more: the prompt's last token, of which nothing is said.
    expected = 1 + len(continuation.token_ids)
    for name, listed in (("input_token_logprobs", told), ("input_top_logprobs", best)):
        if len(listed) != expected:
            raise MalformedReply(f"{name} has {len(listed)} entries, not {expected}")
    rows: _Rows = []
    for token, entry, listed in zip(continuation.token_ids, told[1:], best[1:], strict=True):
        value, token_id = _row(entry)
        # SGLang tells the vocabulary's last token as 0.
        if _token_id(token_id) not in (token, 0):
            raise MalformedReply(f"an entry is about token {_shown(token_id)}, not {token}")
        if listed is not None and not isinstance(listed, list):
            raise MalformedReply(f"an entry of input_top_logprobs is {_shown(listed)}")
        pairs = [_row(pair) for pair in listed or ()]
        found = [(_log_probability(number), _token_id(name)) for number, name in pairs]
        rows.append((_log_probability(value), _best(found)))
    return rows


def _echo_rows(body: dict[str, Any], continuation: Continuation) -> _Rows:
    told = _Told(_choice(body))
    first = len(continuation.prompt_token_ids)
    end = first + len(continuation.token_ids)
    # A server that doesn't generate 0 tokens tells of one more.
    if told.length not in (end, end + 1):
        raise MalformedReply(f"logprobs has {told.length} entries, not {end}")
    rows: _Rows = []
    for position, token in enumerate(continuation.token_ids, first):
        if told.token_id(position) != token:
            raise MalformedReply(f"an entry is about token {told.token_id(position)}, not {token}")
        value = _log_probability(told.log_probability(position))
        rows.append((value, _best(told.top(position))))
    return rows


def _best(found: Sequence[tuple[float | None, int]]) -> _Best:
    numbers = [(number, token) for number, token in found if number is not None]
    return max(numbers, key=lambda pair: pair[0], default=None)


class _Told:
    """The ``logprobs`` of a completion: lists of one length, tokens by number."""

    def __init__(self, choice: dict[str, Any]) -> None:
        logprobs = _dict(choice, "logprobs")
        self._tokens = _list(logprobs, "tokens")
        self._values = _list(logprobs, "token_logprobs")
        self._top = _list(logprobs, "top_logprobs")
        self.length = len(self._tokens)
        if not len(self._values) == len(self._top) == self.length:
            sizes = f"{self.length}, {len(self._values)} and {len(self._top)}"
            raise MalformedReply(f"the lists of logprobs have {sizes} entries")

    def log_probability(self, position: int) -> Any:
        return self._values[position]

    def token_id(self, position: int) -> int:
        return _numbered(self._tokens[position])

    def top(self, position: int) -> list[tuple[float | None, int]]:
        listed = self._top[position]
        if listed is not None and not isinstance(listed, dict):
            raise MalformedReply(f"an entry of top_logprobs is {_shown(listed)}")
        return [(_log_probability(v), _numbered(name)) for name, v in (listed or {}).items()]


def _numbered(name: Any) -> int:
    if isinstance(name, str) and name.startswith(_ID_PREFIX):
        digits = name.removeprefix(_ID_PREFIX)
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MOST_TOKEN_ID)):
            return _token_id(int(digits))
    raise MalformedReply(f"a token is told as {_shown(name)}, not as {_ID_PREFIX}<number>")


def _decode(reply: bytes) -> dict[str, Any]:
    try:
        # Unlike msgspec's, this reader takes NaN and Infinity, which are evidence here.
        body: Any = json.loads(reply)
    except (ValueError, RecursionError):
        raise MalformedReply(f"not JSON: {excerpt(reply)}") from None
    if not isinstance(body, dict):
        raise MalformedReply(f"not an object: {excerpt(reply)}")
    return body


def _choice(body: dict[str, Any]) -> dict[str, Any]:
    choices = _list(body, "choices")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise MalformedReply(f"choices is {_shown(choices)}, not one choice")
    return choices[0]


def _dict(container: dict[str, Any], key: str) -> dict[str, Any]:
    value = container.get(key)
    return value if isinstance(value, dict) else _missing(container, key)


def _list(container: dict[str, Any], key: str) -> list[Any]:
    value = container.get(key)
    return value if isinstance(value, list) else _missing(container, key)


def _missing(container: dict[str, Any], key: str) -> NoReturn:
    raise MalformedReply(f"{key} is {_shown(container[key])}" if key in container else f"no {key}")


def _row(entry: Any) -> tuple[Any, Any]:
    if not isinstance(entry, list) or len(entry) < 2:
        raise MalformedReply(f"an entry is {_shown(entry)}, not [log-probability, token, text]")
    return entry[0], entry[1]


def _token_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_TOKEN_ID:
        raise MalformedReply(f"a token's number is {_shown(value)}")
    return value


def _log_probability(value: Any) -> float | None:
    """``None`` for what is no finite number; a probability above 1 is refused."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedReply(f"a log-probability is {_shown(value)}")
    if value > _MOST_LOG_PROBABILITY and value != math.inf:
        raise MalformedReply(f"a log-probability is {_shown(value)}: that isn't a probability")
    # NaN is above nothing.
    return float(value) if value > _LEAST_LOG_PROBABILITY and value != math.inf else None


def _shown(value: Any) -> str:
    """The beginning of a foreign value, safe to print."""
    try:
        return excerpt(json.dumps(value).encode())[:60]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
