import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.load.client import Endpoint
from autotune.load.stream import Answer
from autotune.load.workload import Prompt
from autotune.probe import ask as module
from autotune.probe.ask import (
    LEAST_IN_LOAD,
    LOAD_SHARE,
    answers_in_load,
    ask_alone,
    ask_crowd,
    ask_task,
    fillers_in_load,
    load_tail,
    probes_in_load,
)
from autotune.probe.task import Question
from autotune.records.schema import RequestRecord
from tests.probe.builders import PROMPTS

ENDPOINT = Endpoint(base_url="http://127.0.0.1:1", model="m")
concurrencies = st.integers(1, 600)


def answer(index: int, text: str = "4", **fields: Any) -> Answer:
    record = {"outcome": "ok", "output_tokens": 3, "finish_reason": "stop"} | fields
    own = {key: record.pop(key) for key in ("reasoning", "nan_marked") if key in record}
    made = RequestRecord(index=index, sent_at_s=0.0, ended_at_s=1.0, **record)
    return Answer(record=made, text=text, **own)


class Asked:
    """Stands in for the client: keeps what was asked, and answers with the prompt's beginning."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
        self.prompts: list[Prompt] = []
        self.options: dict[str, Any] = {}
        self.fields = fields
        monkeypatch.setattr(module, "ask", self.ask)

    async def ask(
        self, endpoint: Endpoint, prompts: Sequence[Prompt], **options: Any
    ) -> list[Answer]:
        assert endpoint is ENDPOINT
        self.prompts, self.options = list(prompts), options
        return [answer(i, str(p.text)[:9], **self.fields) for i, p in enumerate(prompts)]


def test_alone_means_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    found = asyncio.run(ask_alone(ENDPOINT, PROMPTS, max_tokens=32, timeout_s=9, repeats=2))
    assert asked.options == {"max_tokens": 32, "timeout_s": 9, "concurrency": 1}
    assert [prompt.text for prompt in asked.prompts] == [one.text for one in PROMPTS] * 2
    assert [one.prompt for one in found] == [one.name for one in PROMPTS] * 2
    assert [one.repeat for one in found] == [1] * 25 + [2] * 25
    assert {(one.mode, one.concurrency) for one in found} == {("single", 1)}
    assert all(one.text == p.text[:9] for one, p in zip(found, [*PROMPTS] * 2, strict=True))


@pytest.mark.parametrize(
    ("concurrency", "repeats", "count"), [(1, 1, 25), (64, 1, 128), (64, 3, 384), (4, 2, 50)]
)
def test_a_crowd_fills_the_server_twice_and_asks_every_prompt(
    monkeypatch: pytest.MonkeyPatch, concurrency: int, repeats: int, count: int
) -> None:
    asked = Asked(monkeypatch)
    found = asyncio.run(
        ask_crowd(
            ENDPOINT,
            PROMPTS,
            max_tokens=32,
            timeout_s=9,
            concurrency=concurrency,
            repeats=repeats,
        )
    )
    assert asked.options["concurrency"] == concurrency
    assert len(found) == count and {(one.mode, one.concurrency) for one in found} == {
        ("crowd", concurrency)
    }
    often = Counter(one.prompt for one in found)
    assert len(often) == 25 and max(often.values()) - min(often.values()) <= 1
    assert len({(one.prompt, one.repeat) for one in found}) == count


def test_all_that_a_server_says_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, reasoning="hm", nan_marked=True, finish_reason="length", output_tokens=7)
    found, *_ = asyncio.run(ask_alone(ENDPOINT, PROMPTS, max_tokens=32, timeout_s=9))
    assert (found.reasoning, found.nan_marked) == ("hm", True)
    assert (found.finish_reason, found.output_tokens) == ("length", 7)
    Asked(monkeypatch, outcome="timeout", error="no answer", output_tokens=None)
    found, *_ = asyncio.run(ask_alone(ENDPOINT, PROMPTS, max_tokens=32, timeout_s=9))
    assert (found.outcome, found.error) == ("timeout", "no answer")


def test_a_server_that_is_not_there_is_an_outcome() -> None:
    found = asyncio.run(ask_alone(ENDPOINT, PROMPTS[:4], max_tokens=1, timeout_s=5))
    assert [one.outcome for one in found] == ["connection"] * 4
    assert "not sent" in (found[-1].error or "")


def tail_at(concurrency: int, *, first: int = 0) -> module.Tail:
    fillers = [
        Prompt(token_ids=(i, 1), input_tokens=2) for i in range(fillers_in_load(concurrency))
    ]
    return load_tail(PROMPTS, fillers, concurrency=concurrency, max_tokens=32, first=first)


@given(concurrencies, st.integers(0, 2**64))
def test_a_tail_is_probes_evenly_among_fillers(concurrency: int, first: int) -> None:
    tail = tail_at(concurrency, first=first)
    probes = [i for i, prompt in enumerate(tail.prompts) if prompt.role == "probe"]
    assert len(probes) == probes_in_load(concurrency) >= LEAST_IN_LOAD
    assert len(tail.prompts) == len(tail.names) == len(probes) + fillers_in_load(concurrency)
    if concurrency > 1:
        assert probes == list(range(0, len(tail.prompts), LOAD_SHARE))
    assert {prompt.role for prompt in tail.prompts} <= {"probe", "filler"}
    for prompt, name in zip(tail.prompts, tail.names, strict=True):
        assert (name is None) == (prompt.role == "filler")
        assert prompt.max_tokens == (None if name is None else 32)
    asked = [name for name in tail.names if name is not None]
    texts = {one.name: one.text for one in PROMPTS}
    assert all(tail.prompts[i].text == texts[n] for i, n in zip(probes, asked, strict=True))
    # From the first one on, in turn.
    names = [one.name for one in PROMPTS]
    assert asked == [names[(first + i) % len(names)] for i in range(len(asked))]
    assert tail == tail_at(concurrency, first=first)


def test_every_filler_is_asked_once_and_alone_there_is_none() -> None:
    tail = tail_at(64)
    fillers = [prompt.token_ids for prompt in tail.prompts if prompt.role == "filler"]
    assert fillers == [(i, 1) for i in range(48)]
    assert {prompt.role for prompt in tail_at(1).prompts} == {"probe"}
    assert [probes_in_load(n) for n in (1, 2, 32, 33, 64, 512)] == [8, 8, 8, 8, 16, 128]


def test_only_the_probes_answers_are_recorded() -> None:
    tail = tail_at(128)
    given_ = [
        answer(i, "filler" if name is None else f"to {name}") for i, name in enumerate(tail.names)
    ]
    found = answers_in_load(tail, given_, concurrency=128)
    assert len(found) == 32
    assert all(one.text == f"to {one.prompt}" for one in found)
    assert {(one.mode, one.concurrency) for one in found} == {("load", 128)}
    assert len({(one.prompt, one.repeat) for one in found}) == 32
    with pytest.raises(ValueError, match="zip"):
        answers_in_load(tail, given_[:-1], concurrency=128)


@pytest.mark.parametrize(
    ("text", "fields", "correct"),
    [
        ("4", {}, True),
        ("5", {}, False),
        ("<think>2 and 2</think>4", {}, True),
        ("<think>2 and 2", {"finish_reason": "length"}, None),
        ("", {"reasoning": "2 and 2", "finish_reason": "length"}, None),
        ("", {"reasoning": "2 and 2"}, False),
        ("4", {"outcome": "timeout", "error": "late"}, False),
    ],
)
def test_answers_to_questions_are_checked(
    monkeypatch: pytest.MonkeyPatch, text: str, fields: dict[str, Any], correct: bool | None
) -> None:
    async def ask(*_: Any, **options: Any) -> list[Answer]:
        assert options == {"max_tokens": 64, "timeout_s": 9, "concurrency": 8, "on_progress": None}
        return [answer(0, text, **fields)]

    monkeypatch.setattr(module, "ask", ask)
    question = Question(name="sum", prompt="2 + 2?", answer="4", check="number")
    (found,) = asyncio.run(
        ask_task(ENDPOINT, [question], max_tokens=64, timeout_s=9, concurrency=8)
    )
    assert (found.item, found.text, found.correct) == ("sum", text, correct)
    assert found.outcome == fields.get("outcome", "ok") and found.error == fields.get("error")
