"""Ask a server the fixed prompts at temperature 0: alone, many at once, and among the load.

It asks and records. What the answers mean is `autotune.probe.verdict`'s.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from autotune.load.client import Endpoint, Progress, ask
from autotune.load.stream import Answer
from autotune.load.workload import Prompt
from autotune.probe.task import Question, is_correct
from autotune.probe.thinking import strip_thinking
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbePrompt, TaskAnswer

# Among the load, one request in so many is a probe, and there are at least so many of them.
LOAD_SHARE = 4
LEAST_IN_LOAD = 8


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that follow a point's measured ones: probes, spread evenly among fillers.

    ``names`` are the probes' prompts, ``None`` for a filler.
    """

    prompts: tuple[Prompt, ...]
    names: tuple[str | None, ...]


async def ask_alone(
    endpoint: Endpoint,
    prompts: Sequence[ProbePrompt],
    *,
    max_tokens: int,
    timeout_s: float,
    repeats: int = 1,
) -> list[ProbeAnswer]:
    """Ask each prompt ``repeats`` times, one request at a time.

    A request that fails is an answer with its outcome; nothing is raised for what a server does.
    """
    asked = [*prompts] * repeats
    given = await _ask(endpoint, asked, max_tokens=max_tokens, timeout_s=timeout_s, concurrency=1)
    names = [prompt.name for prompt in asked]
    return _answers(names, given, mode="single", concurrency=1)


async def ask_crowd(
    endpoint: Endpoint,
    prompts: Sequence[ProbePrompt],
    *,
    max_tokens: int,
    timeout_s: float,
    concurrency: int,
    repeats: int = 1,
) -> list[ProbeAnswer]:
    """Ask with ``concurrency`` requests in flight, the prompts in turn, each at least once.

    Twice as many requests as fit at once are sent, so that some start while others are answered;
    ``repeats`` multiplies them.
    """
    count = repeats * max(2 * concurrency, len(prompts))
    asked = [prompts[index % len(prompts)] for index in range(count)]
    given = await _ask(
        endpoint, asked, max_tokens=max_tokens, timeout_s=timeout_s, concurrency=concurrency
    )
    names = [prompt.name for prompt in asked]
    return _answers(names, given, mode="crowd", concurrency=concurrency)


def probes_in_load(concurrency: int) -> int:
    """How many probes are asked among the load at ``concurrency``."""
    return max(LEAST_IN_LOAD, concurrency // LOAD_SHARE)


def fillers_in_load(concurrency: int) -> int:
    """How many of the load's own kind keep them company: none where each request is alone."""
    return 0 if concurrency == 1 else (LOAD_SHARE - 1) * probes_in_load(concurrency)


def load_tail(
    prompts: Sequence[ProbePrompt],
    fillers: Sequence[Prompt],
    *,
    concurrency: int,
    max_tokens: int,
    first: int,
) -> Tail:
    """Return what is asked after a point's measured requests, the same for every candidate.

    Args:
        prompts: the probe's.
        fillers: of the load's own kind, `fillers_in_load` of them.
        concurrency: the point's.
        max_tokens: output tokens asked of each probe.
        first: which prompt to begin with (it wraps around), so that each has its turn.
    """
    count = probes_in_load(concurrency)
    probes = [prompts[(first + index) % len(prompts)] for index in range(count)]
    company = len(fillers) // count
    listed: list[tuple[Prompt, str | None]] = []
    for index, probe in enumerate(probes):
        asked = Prompt(text=probe.text, max_tokens=max_tokens, role="probe")
        listed.append((asked, probe.name))
        own = fillers[index * company : (index + 1) * company]
        listed += [(msgspec.structs.replace(filler, role="filler"), None) for filler in own]
    return Tail(
        prompts=tuple(prompt for prompt, _ in listed), names=tuple(name for _, name in listed)
    )


def answers_in_load(tail: Tail, given: Sequence[Answer], *, concurrency: int) -> list[ProbeAnswer]:
    """The probes' answers among a tail's."""
    pairs = [
        (name, answer) for name, answer in zip(tail.names, given, strict=True) if name is not None
    ]
    names = [name for name, _ in pairs]
    answers = [answer for _, answer in pairs]
    return _answers(names, answers, mode="load", concurrency=concurrency)


async def ask_task(
    endpoint: Endpoint,
    questions: Sequence[Question],
    *,
    max_tokens: int,
    timeout_s: float,
    concurrency: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[TaskAnswer]:
    """Ask every question once, with ``concurrency`` requests in flight, and check the answers.

    ``on_progress`` is called after each request.
    """
    given = await ask(
        endpoint,
        [Prompt(text=question.prompt) for question in questions],
        max_tokens=max_tokens,
        timeout_s=timeout_s,
        concurrency=concurrency,
        on_progress=on_progress,
    )
    return [
        _task_answer(question, answer) for question, answer in zip(questions, given, strict=True)
    ]


async def _ask(
    endpoint: Endpoint,
    prompts: Sequence[ProbePrompt],
    *,
    max_tokens: int,
    timeout_s: float,
    concurrency: int,
) -> list[Answer]:
    return await ask(
        endpoint,
        [Prompt(text=prompt.text) for prompt in prompts],
        max_tokens=max_tokens,
        timeout_s=timeout_s,
        concurrency=concurrency,
    )


def _answers(
    names: Sequence[str], given: Sequence[Answer], *, mode: ProbeMode, concurrency: int
) -> list[ProbeAnswer]:
    asked: Counter[str] = Counter()
    answers = []
    for name, answer in zip(names, given, strict=True):
        asked[name] += 1
        answers.append(
            ProbeAnswer(
                prompt=name,
                mode=mode,
                concurrency=concurrency,
                repeat=asked[name],
                outcome=answer.record.outcome,
                text=answer.text,
                reasoning=answer.reasoning,
                output_tokens=answer.record.output_tokens,
                finish_reason=answer.record.finish_reason,
                nan_marked=answer.nan_marked,
                error=answer.record.error,
            )
        )
    return answers


def _task_answer(question: Question, answer: Answer) -> TaskAnswer:
    text = strip_thinking(answer.text)
    cut_off = answer.record.finish_reason == "length"
    if text is None or (not text.strip() and answer.reasoning and cut_off):
        correct = None
    else:
        correct = answer.record.outcome == "ok" and is_correct(question, text)
    return TaskAnswer(
        item=question.name,
        outcome=answer.record.outcome,
        text=answer.text,
        correct=correct,
        finish_reason=answer.record.finish_reason,
        error=answer.record.error,
    )
