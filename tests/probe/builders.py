"""Probe records of made-up servers, whose answers walk along the model's true ones.

A *server* is a function from where it is asked to what it says. Its words are tokens of 4 letters
and a space, so that shares of characters are shares of tokens.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from autotune.probe.answers import Walk, given, read_trusted, walks
from autotune.probe.prompts import probe_prompts, prompts_digest
from autotune.probe.schema import CandidateVerdict
from autotune.probe.verdict import judge_probes
from autotune.records.rule import Rule
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbeRecord

PROMPTS = probe_prompts(long_tokens=64, tokenizer_file=None)
DIGEST = prompts_digest(PROMPTS)
KINDS = {prompt.name: prompt.kind for prompt in PROMPTS}
TOKENS = 32
LADDER = (1, 16, 64)
ROUNDS = (1, 2, 3)
REPEATS = 2


class Asked(NamedTuple):
    """One request; ``index`` tells those of one server apart."""

    prompt: str
    mode: ProbeMode
    concurrency: int
    round: int
    index: int


Server = Callable[[Asked], str | ProbeAnswer]


@cache
def truth(prompt: str, *, tokens: int = TOKENS) -> str:
    """What the model says without any rounding."""
    return words(random.Random(prompt), tokens, letters="abcdefghijklm")


def other(*seed: object, tokens: int = TOKENS, start: str = "n") -> str:
    """A fluent text that shares no first letter with any truth."""
    return start + words(random.Random(repr(seed)), tokens, letters="nopqrstuvwxyz")[1:]


def words(draw: random.Random, count: int, *, letters: str) -> str:
    return " ".join("".join(draw.choices(letters, k=4)) for _ in range(count))


def parting(rate: float, draw: random.Random, prompt: str) -> str:
    """The truth, left at each token by the chance of ``rate``, and not come back to."""
    for token in range(TOKENS):
        if draw.random() < rate:
            return truth(prompt)[: 5 * token] + other(draw.random(), tokens=TOKENS - token)
    return truth(prompt)


def right(asked: Asked) -> str:
    """The same true answer each time."""
    return truth(asked.prompt)


def wandering(rate: float, *, seed: object) -> Server:
    """Another token at ``rate``, drawn anew for each answer: a server that isn't deterministic."""
    return lambda asked: parting(rate, random.Random(repr((seed, asked))), asked.prompt)


def fixed(rate: float, *, seed: object) -> Server:
    """Another token at ``rate``, the same one each time: a deterministic server."""
    return lambda asked: parting(rate, random.Random(repr((seed, asked.prompt))), asked.prompt)


def spoilt(server: Server, bad: Server, when: Callable[[Asked], bool]) -> Server:
    """``server``, but ``bad`` where ``when`` says so."""
    return lambda asked: bad(asked) if when(asked) else server(asked)


def one_in(n: int, *, seed: object = 0, only: Callable[[Asked], bool] = lambda _: True):
    """By chance one answer in ``n``, of those that ``only`` lets through."""
    return lambda asked: only(asked) and random.Random(repr((seed, asked))).random() < 1 / n


def answer(asked: Asked, text: str, **fields: object) -> ProbeAnswer:
    """A good answer unless ``fields`` say otherwise."""
    given_: dict[str, object] = {
        "prompt": asked.prompt,
        "mode": asked.mode,
        "concurrency": asked.concurrency,
        "repeat": asked.index + 1,
        "outcome": "ok",
        "text": text,
        "output_tokens": TOKENS,
        "finish_reason": "length",
    }
    return ProbeAnswer(**(given_ | fields))  # type: ignore[arg-type]


def failed(asked: Asked) -> ProbeAnswer:
    return answer(
        asked,
        "",
        outcome="http_error",
        error="HTTP 500: kernel launch failed",
        output_tokens=None,
        finish_reason=None,
    )


def record(
    candidate: str, asked: Sequence[Asked], server: Server, *, concurrency: int | None = None
) -> ProbeRecord:
    """The record of what was asked in one launch, or with ``concurrency`` in one point."""
    said = [(one, server(one)) for one in asked]
    return ProbeRecord(
        candidate=candidate,
        round=asked[0].round,
        concurrency=concurrency,
        prompts_digest=DIGEST,
        prompts=PROMPTS if concurrency is None else (),
        max_tokens=TOKENS,
        answers=tuple(
            text if isinstance(text, ProbeAnswer) else answer(one, text) for one, text in said
        ),
    )


def launch(
    candidate: str, server: Server, round_number: int, *, ladder: Sequence[int] = LADDER
) -> list[ProbeRecord]:
    """Everything that one launch is asked, as a sweep asks it."""
    repeats = REPEATS if round_number == 0 else 1
    crowd = max(ladder)
    alone = _turn("single", 1, round_number, repeats * len(PROMPTS))
    many = _turn("crowd", crowd, round_number, repeats * max(2 * crowd, len(PROMPTS)))
    records = [record(candidate, [*alone, *many], server)]
    for concurrency in ladder:
        first = 7 * concurrency + 5 * round_number
        count = max(8, concurrency // 4)
        asked = _turn("load", concurrency, round_number, count, first=first)
        records.append(record(candidate, asked, server, concurrency=concurrency))
    return records


def _turn(
    mode: ProbeMode, concurrency: int, round_number: int, count: int, *, first: int = 0
) -> list[Asked]:
    return [
        Asked(PROMPTS[(first + i) % len(PROMPTS)].name, mode, concurrency, round_number, i)
        for i in range(count)
    ]


def sweep(
    reference: Server | None = right,
    candidate: Server | None = right,
    *,
    rounds: Iterable[int] = ROUNDS,
    ladder: Sequence[int] = LADDER,
) -> list[ProbeRecord]:
    """What a sweep of the reference ``ref`` and the candidate ``x`` records."""
    records = launch("ref", reference, 0, ladder=ladder) if reference else []
    for round_number in rounds:
        for name, server in (("ref", reference), ("x", candidate)):
            if server is not None:
                records += launch(name, server, round_number, ladder=ladder)
    return records


def judge(
    probes: Sequence[ProbeRecord],
    candidate: str = "x",
    *,
    reference: str | None = "ref",
    rule: Rule | None = None,
) -> CandidateVerdict:
    """The verdict on one candidate."""
    return judge_probes(probes, candidates=[candidate], reference=reference, rule=rule or Rule())[
        candidate
    ]


def walks_of(probes: Sequence[ProbeRecord], candidate: str) -> list[Walk]:
    trusted = read_trusted(probes, reference="ref")
    assert trusted is not None
    return walks(given(probes, candidate=candidate), trusted)


def with_scores(probes: Sequence[ProbeRecord], **fields: object) -> list[ProbeRecord]:
    """Put ``fields`` into each record that a launch made."""
    return [
        msgspec.structs.replace(probe, **fields) if probe.concurrency is None else probe  # type: ignore[arg-type]
        for probe in probes
    ]


def tied(ties: float, *, model: object, seed: object) -> Server:
    """A server for which at ``ties`` of the tokens two words are equally likely.

    Where they are is the ``model``'s; which of both is written is drawn for each answer. So two
    servers of one model tell different branches of the same tree.
    """

    def say(asked: Asked) -> str:
        draw = random.Random(repr((seed, asked)))
        branch, said = "", []
        for token in range(TOKENS):
            node = random.Random(repr((model, asked.prompt, branch, token)))
            if node.random() < ties and draw.random() < 0.5:
                branch += f"/{token}"
                said.append("n" + words(node, 1, letters="nopqrstuvwxyz")[1:])
            else:
                letters = "nopqrstuvwxyz" if branch else "abcdefghijklm"
                said.append(words(node, 1, letters=letters))
        return " ".join(said)

    return say
