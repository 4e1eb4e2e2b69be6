"""Teacher forcing against real vLLM servers: an honest one, a coarser one, and damaged ones."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import aiohttp
import msgspec
import pytest

from autotune.load.client import Endpoint
from autotune.probe.teacher import Written, score_continuations, write_continuations
from autotune.records.schema import Continuation, ProbeMode, ScoredContinuation

from .checkpoint import POSITIONS, VOCABULARY, Damage, write_checkpoint
from .server import with_server

TOKENS = 32
PROMPTS = {
    "capital": "Question: What is the capital of France?\nAnswer:",
    "code": "def fibonacci(n):\n    ",
    "days": "The days of the week are Monday,",
    "german": "Der schnelle braune Fuchs springt über den faulen",
    "chinese": "从前有一座山",
    "json": '{"name": "Ada", "born": 1815, "occupation":',
    "letter": "x",
    "long": " ".join(f"Item {number} costs {number * 7 % 101} coins." for number in range(40)),
}


class Case(NamedTuple):
    """A server: what is wrong with its checkpoint, and what it computes in."""

    damage: Damage
    dtype: str


HONEST = Case("none", "float32")
ROUNDED = Case("none", "bfloat16")
ONE_ZEROED = Case("zeroed", "float32")
SWAPPED = Case("swapped", "float32")
NAN = Case("nan", "float32")


class Said(NamedTuple):
    """What a server said alone and in a crowd, its own continuations, and more about it.

    ``edges`` says what it answers at the edges of what it takes, ``cached_tokens`` how many tokens
    came from its prefix cache, all in all.
    """

    single: list[ScoredContinuation]
    crowd: list[ScoredContinuation]
    written: Written
    edges: dict[str, str]
    cached_tokens: float


async def question(endpoint: Endpoint, continuations: Sequence[Continuation] | None) -> Said:
    written = await write_continuations(
        endpoint, PROMPTS, scoring="echo", max_tokens=TOKENS, timeout_s=120
    )
    asked = written.continuations if continuations is None else continuations

    async def score(mode: ProbeMode, concurrency: int, repeats: int) -> list[ScoredContinuation]:
        return await score_continuations(
            endpoint,
            asked,
            scoring="echo",
            mode=mode,
            concurrency=concurrency,
            repeats=repeats,
            timeout_s=120,
        )

    single, crowd = await score("single", 1, 2), await score("crowd", 16, 4)
    at_edges = await edges(endpoint, asked[0])
    return Said(single, crowd, written, at_edges, await cached_tokens(endpoint))


async def edges(endpoint: Endpoint, made: Continuation) -> dict[str, str]:
    room = POSITIONS - len(made.token_ids)
    replace = msgspec.structs.replace
    changed = {
        "longest": replace(made, prompt_token_ids=(5,) * (room - 1)),
        "too long": replace(made, prompt_token_ids=(5,) * room),
        "last of the vocabulary": replace(made, token_ids=(VOCABULARY - 1,)),
        "outside the vocabulary": replace(made, token_ids=(VOCABULARY,)),
    }
    answers = await score_continuations(
        endpoint,
        list(changed.values()),
        scoring="echo",
        mode="single",
        concurrency=1,
        repeats=1,
        timeout_s=120,
    )
    return {
        name: f"{answer.outcome} {answer.error or ''}".strip()
        for name, answer in zip(changed, answers, strict=True)
    }


async def cached_tokens(endpoint: Endpoint) -> float:
    url = f"{endpoint.base_url}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        lines = (await response.text()).splitlines()
    hits = [line for line in lines if line.startswith("vllm:prefix_cache_hits_total")]
    assert hits
    return sum(float(line.split()[-1]) for line in hits)


class Laboratory:
    """Starts the server of a case when it is first asked about, and remembers what it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[Case, Said] = {}

    def said(self, case: Case) -> Said:
        if case not in self.known:
            asked = None if case == HONEST else self.said(HONEST).written.continuations
            name = "-".join(case)
            self.known[case] = asyncio.run(
                with_server(
                    write_checkpoint(self.folder / name, case.damage),
                    dtype=case.dtype,
                    log_file=self.folder / f"{name}.log",
                    ask=lambda endpoint: question(endpoint, asked),
                )
            )
        return self.known[case]

    def differences(self, scored: Sequence[ScoredContinuation]) -> tuple[list[float], list[bool]]:
        """Losses of log-probability against the honest server's, and where the choice is its."""
        by_prompt = {c.prompt: c for c in self.said(HONEST).written.continuations}
        drops: list[float] = []
        same: list[bool] = []
        for said in scored:
            made = by_prompt[said.prompt]
            assert said.outcome == "ok", said
            for ours, theirs in zip(made.log_probabilities, said.log_probabilities, strict=True):
                assert ours is not None and theirs is not None
                drops.append(ours - theirs)
            same += [o == t for o, t in zip(made.token_ids, said.top_token_ids, strict=True)]
        return drops, same


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("vllm"))


@pytest.fixture
def show(laboratory: Laboratory) -> Callable[[Case], tuple[float, float]]:
    """Print a case's mean loss and agreement, alone and in a crowd; return those alone."""

    def figures(case: Case) -> tuple[float, float]:
        said = laboratory.said(case)
        pairs = []
        for mode, scored in (("single", said.single), ("crowd", said.crowd)):
            drops, same = laboratory.differences(scored)
            pairs.append((fmean(drops), fmean(same)))
            worst = max(map(abs, drops))
            print(
                f"{case.damage} {case.dtype} {mode}: {len(drops)} tokens, mean loss "
                f"{pairs[-1][0]:.6f} nats, largest difference {worst:.6f}, same choice "
                f"{pairs[-1][1]:.4f}"
            )
        alone, among = pairs
        assert among == pytest.approx(alone, abs=0.02)
        return alone

    return figures


def test_the_reference_is_written(laboratory: Laboratory) -> None:
    written = laboratory.said(HONEST).written
    assert not written.problems
    assert [made.prompt for made in written.continuations] == list(PROMPTS)
    assert all(len(made.token_ids) == TOKENS for made in written.continuations)
    assert all(None not in made.log_probabilities for made in written.continuations)


def test_the_reference_agrees_with_itself(
    laboratory: Laboratory, show: Callable[[Case], tuple[float, float]]
) -> None:
    drop, same = show(HONEST)
    assert abs(drop) < 1e-3
    assert same == 1.0
    drops, choices = laboratory.differences(laboratory.said(HONEST).crowd)
    assert max(map(abs, drops)) < 1e-3
    assert fmean(choices) > 0.99


def test_rounding_costs_little(show: Callable[[Case], tuple[float, float]]) -> None:
    drop, same = show(ROUNDED)
    assert abs(drop) < 0.02
    assert same > 0.95


def test_an_expert_that_is_silent_costs_more(show: Callable[[Case], tuple[float, float]]) -> None:
    drop, same = show(ONE_ZEROED)
    assert drop > 0.1 and drop > 10 * abs(show(ROUNDED)[0])
    assert same < 0.9


def test_swapped_projections_cost_everything(
    show: Callable[[Case], tuple[float, float]],
) -> None:
    drop, same = show(SWAPPED)
    assert drop > 2
    assert same < 0.5


def test_nan_is_an_error_of_the_request(laboratory: Laboratory) -> None:
    """vLLM can't write it as JSON, so that it refuses what it was asked."""
    said = laboratory.said(NAN)
    for scored in (*said.single, *said.crowd):
        assert scored.outcome == "http_error"
        assert scored.error is not None and "not JSON compliant" in scored.error
        assert not scored.log_probabilities
    assert not said.written.continuations
    assert all("not JSON compliant" in problem for problem in said.written.problems)


def test_the_edges(laboratory: Laboratory) -> None:
    edges = laboratory.said(HONEST).edges
    assert edges["longest"] == edges["last of the vocabulary"] == "ok"
    # 0 new tokens are asked for, but room for one is demanded.
    assert edges["too long"].startswith("http_error HTTP 400")
    assert "out of vocabulary" in edges["outside the vocabulary"]


def test_nothing_scored_comes_from_the_prefix_cache(laboratory: Laboratory) -> None:
    """Every continuation was asked 6 times, and only prompts were asked for without ``echo``."""
    assert laboratory.said(HONEST).cached_tokens == 0
