"""Scoring over HTTP against a server that speaks both protocols, and against one that lies."""

import asyncio
import json
import math
import socket
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from autotune.load.client import Endpoint
from autotune.probe import teacher
from autotune.probe.teacher import Scoring, Written, score_continuations, write_continuations
from autotune.probe.teacher_protocols import scoring_body
from autotune.records.schema import Continuation, ScoredContinuation

from .toy_teacher import (
    MODEL,
    VOCABULARY,
    Toy,
    best,
    continuation,
    distribution,
    encode,
    greedy,
    serving,
)

WAYS: tuple[Scoring, ...] = ("generate", "echo")
PROMPTS = {"hello": "Hello", "empty": "", "words": "some more words"}
ways = pytest.mark.parametrize("scoring", WAYS)


def write(toy: Toy, scoring: Scoring, **options: Any) -> Written:
    async def run() -> Written:
        async with serving(toy) as endpoint:
            asked = {"max_tokens": 6, "timeout_s": 20.0, **options}
            return await write_continuations(endpoint, PROMPTS, scoring=scoring, **asked)

    return asyncio.run(run())


def score(
    toy: Toy, scoring: Scoring, *asked: Continuation, timeout_s: float = 20.0, **options: int
) -> list[ScoredContinuation]:
    async def run() -> list[ScoredContinuation]:
        async with serving(toy) as endpoint:
            return await score_continuations(
                endpoint,
                asked or [continuation()],
                scoring=scoring,
                mode="crowd" if options.get("concurrency", 1) > 1 else "single",
                timeout_s=timeout_s,
                **{"concurrency": 1, "repeats": 1, **options},
            )

    return asyncio.run(run())


@ways
def test_the_reference_writes_what_its_model_says(scoring: Scoring) -> None:
    toy = Toy()
    written = write(toy, scoring)
    assert not written.problems
    assert [c.prompt for c in written.continuations] == list(PROMPTS)
    for name, made in zip(PROMPTS.values(), written.continuations, strict=True):
        assert list(made.prompt_token_ids) == encode(name)
        assert list(made.token_ids) == greedy(encode(name), 6)
        for place, token in enumerate(made.token_ids):
            prefix = [*made.prompt_token_ids, *made.token_ids[:place]]
            assert made.log_probabilities[place] == distribution(prefix)[token]
    for body, headers in zip(toy.asked, toy.headers, strict=True):
        # Greedy and nothing of the load's own settings, with the key that the server wants.
        assert body.get("temperature", 0) == 0 and "min_p" not in body
        assert headers["Authorization"] == "Bearer key"


@ways
def test_who_scores_itself_loses_nothing(scoring: Scoring) -> None:
    written = write(Toy(), scoring).continuations
    scored = score(Toy(), scoring, *written, repeats=2)
    assert [(s.prompt, s.repeat) for s in scored] == [(p, r) for r in (1, 2) for p in PROMPTS]
    for said, made in zip(scored, written * 2, strict=True):
        assert said.outcome == "ok" and said.error is None
        assert (said.mode, said.concurrency) == ("single", 1)
        assert said.log_probabilities == made.log_probabilities
        assert said.top_token_ids == made.token_ids


@ways
def test_another_model_is_asked_about_the_references_tokens(scoring: Scoring) -> None:
    """Each entry is about the reference's token after the reference's beginning, none shifted."""
    made = continuation(tokens=12)
    (said,) = score(Toy(wrong=4.0), scoring, made)
    for place, token in enumerate(made.token_ids):
        logs = distribution([*made.prompt_token_ids, *made.token_ids[:place]], wrong=4.0)
        assert said.log_probabilities[place] == pytest.approx(logs[token])
        assert said.top_token_ids[place] == best(logs)
    assert said.top_token_ids != made.token_ids


@ways
def test_as_many_are_in_flight_as_asked_for(scoring: Scoring) -> None:
    toy = Toy()
    scored = score(toy, scoring, *(continuation(c) for c in "abcd"), concurrency=5, repeats=4)
    assert toy.most_in_flight == 5
    assert {(s.mode, s.concurrency, s.outcome) for s in scored} == {("crowd", 5, "ok")}
    assert len(scored) == 16


@ways
def test_the_vocabularys_last_token_is_taken(scoring: Scoring) -> None:
    """SGLang tells it as 0."""
    made = continuation()
    made = msgspec.structs.replace(made, token_ids=(VOCABULARY - 1, *made.token_ids[1:]))
    assert score(Toy(), scoring, made)[0].outcome == "ok"


Damage = Callable[[dict[str, Any]], Any]


def in_list(scoring: Scoring, *names: str) -> Callable[[Callable[[list[Any]], Any]], Damage]:
    """Change a list of the answer: ``names`` are the list's with ``generate`` and ``echo``."""
    name = names[WAYS.index(scoring)]

    def change(how: Callable[[list[Any]], Any]) -> Damage:
        def mangle(reply: dict[str, Any]) -> dict[str, Any]:
            holder = (
                reply["meta_info"] if scoring == "generate" else reply["choices"][0]["logprobs"]
            )
            how(holder[name])
            return reply

        return mangle

    return change


def with_value(scoring: Scoring, value: Any, *, place: int = -2) -> Damage:
    """Put a value where a token's log-probability stands; -2 is among the answer's either way."""

    def put(listed: list[Any]) -> None:
        if scoring == "generate":
            listed[place][0] = value
        else:
            listed[place] = value

    return in_list(scoring, "input_token_logprobs", "token_logprobs")(put)


def with_best(scoring: Scoring, best_ones: Any) -> Damage:
    """Put an entry where the most likely token is told."""

    def put(listed: list[Any]) -> None:
        listed[-2] = best_ones

    return in_list(scoring, "input_top_logprobs", "top_logprobs")(put)


@ways
@pytest.mark.parametrize("value", [None, math.nan, -math.inf, math.inf, -9999.0, -(10**400)])
def test_what_is_no_number_is_kept_as_that(scoring: Scoring, value: Any) -> None:
    (said,) = score(Toy(mangle=with_value(scoring, value)), scoring)
    assert said.outcome == "ok"
    assert said.log_probabilities[-2] is None
    assert None not in said.log_probabilities[:-2]
    assert len(said.log_probabilities) == len(said.top_token_ids) == 6


@ways
def test_a_choice_by_nan_is_none(scoring: Scoring) -> None:
    nan: Any = [[math.nan, 7, None]] if scoring == "generate" else {"token_id:7": math.nan}
    for best_ones in (nan, None, type(nan)()):
        (said,) = score(Toy(mangle=with_best(scoring, best_ones)), scoring)
        assert said.outcome == "ok"
        assert [top is None for top in said.top_token_ids] == [False] * 4 + [True, False]


@ways
def test_a_tie_is_the_references_token(scoring: Scoring) -> None:
    """Another token as likely as the reference's: which of the two is named is chance."""
    made = continuation()
    level = distribution([*made.prompt_token_ids, *made.token_ids[:4]])[made.token_ids[4]]
    other = (made.token_ids[4] + 1) % VOCABULARY
    for more, expected in ((0.0, made.token_ids[4]), (1e-6, other)):
        told: Any = (
            [[level + more, other, None]]
            if scoring == "generate"
            else {f"token_id:{other}": level + more, f"token_id:{made.token_ids[4]}": level}
        )
        (said,) = score(Toy(mangle=with_best(scoring, told)), scoring, made)
        assert said.top_token_ids[4] == expected


@ways
@pytest.mark.parametrize(
    "value", [0.5, 1e300, 10**400, "-1.0", True, [], {}], ids=lambda v: str(v)[:8]
)
def test_what_is_no_log_probability_is_refused(scoring: Scoring, value: Any) -> None:
    (said,) = score(Toy(mangle=with_value(scoring, value)), scoring)
    assert said.outcome == "bad_stream"
    assert said.error is not None and "a log-probability is" in said.error
    assert said.log_probabilities == said.top_token_ids == ()


@ways
def test_rounding_above_0_is_taken(scoring: Scoring) -> None:
    (said,) = score(Toy(mangle=with_value(scoring, 4e-7)), scoring)
    assert said.outcome == "ok" and said.log_probabilities[-2] == 4e-7


@ways
@pytest.mark.parametrize("which", ["told", "top", "both"])
@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_lists_of_another_length_are_refused(
    scoring: Scoring, which: str, change: Literal["shorter", "longer", "gone"]
) -> None:
    def mangle(reply: dict[str, Any]) -> dict[str, Any]:
        holder = reply["meta_info"] if scoring == "generate" else reply["choices"][0]["logprobs"]
        told, top = (
            (["input_token_logprobs"], ["input_top_logprobs"])
            if scoring == "generate"
            else (["tokens", "token_logprobs"], ["top_logprobs"])
        )
        for name in {"told": told, "top": top, "both": told + top}[which]:
            if change == "gone":
                del holder[name]
            elif change == "shorter":
                holder[name].pop(1)
            else:
                # A completion of one token is a fit answer; of two it isn't.
                holder[name] += holder[name][-2:]
        return reply

    (said,) = score(Toy(mangle=mangle), scoring)
    assert said.outcome == "bad_stream", said
    assert said.error is not None
    assert ("no " if change == "gone" else "entries") in said.error


@ways
def test_other_tokens_are_refused(scoring: Scoring) -> None:
    """A prompt that the server cut, say."""
    made = continuation()
    others = msgspec.structs.replace(made, token_ids=tuple(t ^ 1 for t in made.token_ids))

    def mangle(_: dict[str, Any]) -> dict[str, Any]:
        asked = json.loads(scoring_body(scoring, others, model=MODEL))
        return Toy().generate(asked) if scoring == "generate" else Toy().completion(asked)

    (said,) = score(Toy(mangle=mangle), scoring, made)
    assert said.outcome == "bad_stream"
    assert said.error is not None and "is about token" in said.error


def test_tokens_told_as_text_are_refused() -> None:
    def mangle(reply: dict[str, Any]) -> dict[str, Any]:
        reply["choices"][0]["logprobs"]["tokens"][-1] = "\x1b[31m word"
        return reply

    (said,) = score(Toy(mangle=mangle), "echo")
    assert said.outcome == "bad_stream"
    assert said.error is not None and "a token is told as" in said.error
    assert said.error.isprintable()


GARBAGE: list[Any] = [
    b"",
    b"<html>\x1b[2J",
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b"1" * 10_000,
    [],
    None,
    {},
    {"meta_info": 3, "choices": 3},
    {"meta_info": {}, "choices": []},
    {"meta_info": {"input_token_logprobs": None}, "choices": [None]},
    {"meta_info": {"input_token_logprobs": {}}, "choices": [{"logprobs": None}]},
    {
        "meta_info": {"input_token_logprobs": [[-1, 2]], "input_top_logprobs": [None] * 7},
        "choices": [{"logprobs": {"tokens": [1], "token_logprobs": [1], "top_logprobs": [1]}}],
    },
    {
        "meta_info": {"input_token_logprobs": [5] * 7, "input_top_logprobs": [5] * 7},
        "choices": [
            {"logprobs": {name: [5] * 12 for name in ("tokens", "token_logprobs", "top_logprobs")}}
        ],
    },
]


@ways
@pytest.mark.parametrize("sent", GARBAGE, ids=lambda sent: str(sent)[:30])
def test_garbage_is_refused_with_a_printable_reason(scoring: Scoring, sent: Any) -> None:
    (said,) = score(Toy(mangle=lambda _: sent), scoring)
    assert said.outcome == "bad_stream"
    assert said.error and said.error.isprintable() and len(said.error) < 400
    written = write(Toy(mangle=lambda _: sent), scoring)
    assert not written.continuations and len(written.problems) == len(PROMPTS)
    assert all(problem.isprintable() for problem in written.problems)


@ways
def test_an_error_of_the_server_is_told(scoring: Scoring) -> None:
    toy = Toy(status=500, mangle=lambda _: {"error": "Out of range float values: nan\x07"})
    (said,) = score(toy, scoring)
    assert said.outcome == "http_error"
    assert said.error is not None and "HTTP 500" in said.error and "nan" in said.error
    assert said.error.isprintable()
    problems = write(toy, scoring).problems
    assert [p.split(":")[0] for p in problems] == [
        f"no continuation of prompt {name!r}" for name in PROMPTS
    ]


@ways
def test_a_server_that_hangs_is_given_up(scoring: Scoring) -> None:
    toy = Toy(hang=True)
    scored = score(toy, scoring, timeout_s=0.1, repeats=9)
    assert {s.outcome for s in scored} == {"timeout"} and len(scored) == 9
    assert len(toy.asked) == 3
    assert scored[0].error == "no complete answer within 0.1 s"
    assert scored[-1].error is not None and scored[-1].error.startswith("not asked")


@ways
def test_nobody_listens(scoring: Scoring) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{held.getsockname()[1]}", model=MODEL)
        options: Any = {"scoring": scoring, "timeout_s": 20.0, "concurrency": 2}
        asked = score_continuations(endpoint, [continuation()], mode="crowd", repeats=3, **options)
        assert {s.outcome for s in asyncio.run(asked)} == {"connection"}
        written = asyncio.run(write_continuations(endpoint, PROMPTS, max_tokens=2, **options))
        assert len(written.problems) == len(PROMPTS)


@ways
def test_a_reply_without_end_is_cut(scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teacher, "_MOST_REPLY", 100_000)
    (said,) = score(Toy(mangle=lambda _: b" " * 5_000_000), scoring)
    assert said.outcome == "bad_stream"
    assert said.error == "a reply of more than 100000 bytes"


@ways
def test_a_longer_answer_than_asked_for_is_refused(scoring: Scoring) -> None:
    def mangle(reply: dict[str, Any]) -> dict[str, Any]:
        holder = reply["meta_info"] if scoring == "generate" else reply["choices"][0]["logprobs"]
        for listed in holder.values():
            listed += listed
        return reply

    written = write(Toy(mangle=mangle), scoring)
    assert not written.continuations
    assert all(problem.endswith("12 tokens, not 6") for problem in written.problems)


@ways
def test_nothing_to_ask_about(scoring: Scoring) -> None:
    with pytest.raises(ValueError, match="nothing to ask about"):
        score(Toy(), scoring, msgspec.structs.replace(continuation(), prompt_token_ids=()))
