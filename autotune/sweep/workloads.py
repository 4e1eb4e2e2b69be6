"""The prompts of each point: the same for every candidate of a round, new ones each round."""

from pathlib import Path

import msgspec

from autotune.config.schema import SHIPPED_QUESTIONS, SweepConfig
from autotune.errors import InputError
from autotune.load.workload import (
    Prompt,
    random_text_prompts,
    random_token_prompts,
    read_prompts,
    workload_digest,
)
from autotune.probe.ask import Tail, fillers_in_load, load_tail
from autotune.probe.prompts import probe_prompts
from autotune.probe.task import Question, read_questions, shipped_questions
from autotune.records.folder import sha256_of
from autotune.records.schema import ProbePrompt, Workload
from autotune.sweep.context import SweepContext
from autotune.sweep.plan import point_seed


class PointPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """What one point asks: warm-up prompts, whose answers are discarded, measured ones, a tail.

    The tail's probes are asked among requests of the load's own kind, after the measured ones.
    """

    warmup: list[Prompt]
    measured: list[Prompt]
    tail: Tail


def describe_workload(context: SweepContext) -> Workload:
    """Return what every point asks for, with the digest that tells workloads apart."""
    load = context.config.load
    prompts = Path(load.prompts) if load.prompts is not None else None
    return Workload(
        digest=workload_digest(
            input_tokens=None if prompts else load.input_tokens,
            output_tokens=load.output_tokens,
            kind=load.endpoint,
            prompts_sha256=sha256_of(prompts) if prompts else None,
        ),
        input_tokens=None if prompts else load.input_tokens,
        output_tokens=load.output_tokens,
        prompts=load.prompts,
    )


def check_prompts(context: SweepContext) -> None:
    """Make one prompt, so that what can't work is said before anything is launched.

    Raises:
        InputError: the file of prompts or of questions can't be used, or no prompt of the asked
            length can be made.
    """
    _make_prompts(context, count=1, seed=0)
    probe_prompts_of(context)
    questions_of(context.config)


def point_prompts(
    context: SweepContext, *, round_number: int, concurrency: int, attempt: int
) -> PointPrompts:
    """Return a point's prompts. A repeated attempt asks new ones, so that no cache helps it."""
    config = context.config

    def seed(use: str) -> int:
        use = f"{use}:{attempt}"
        return point_seed(config, round_number, concurrency=concurrency, use=use)

    count = config.requests_at(concurrency)
    fillers = fillers_in_load(concurrency)
    return PointPrompts(
        warmup=_make_prompts(context, count=concurrency, seed=seed("warmup")),
        measured=_make_prompts(context, count=count, seed=seed("measured")),
        tail=load_tail(
            probe_prompts_of(context),
            _make_prompts(context, count=fillers, seed=seed("tail")) if fillers else [],
            concurrency=concurrency,
            max_tokens=config.probe.max_tokens,
            first=seed("probes"),
        ),
    )


def probe_prompts_of(context: SweepContext) -> tuple[ProbePrompt, ...]:
    """The fixed prompts, the long ones as long as the config asks."""
    return probe_prompts(
        long_tokens=context.config.long_prompt_tokens(), tokenizer_file=context.tokenizer_file
    )


def questions_of(config: SweepConfig) -> tuple[Question, ...]:
    """The questions that the config asks, none where it names no task.

    Raises:
        InputError: their file can't be used.
    """
    task = config.probe.task
    if task is None:
        return ()
    shipped = task.questions == SHIPPED_QUESTIONS
    questions = shipped_questions() if shipped else read_questions(Path(task.questions))
    return questions[: task.items]


def _make_prompts(context: SweepContext, *, count: int, seed: int) -> list[Prompt]:
    load = context.config.load
    if load.prompts is not None:
        given = read_prompts(Path(load.prompts))
        return [given[(seed + index) % len(given)] for index in range(count)]
    if context.engine.traits.takes_token_ids and load.endpoint == "completions":
        if context.model.vocabulary_size is None:
            raise InputError(
                "model: config.json gives no vocab_size, which random prompts are drawn from: "
                "name a file of prompts (load.prompts)"
            )
        return random_token_prompts(
            count=count,
            input_tokens=load.input_tokens,
            vocabulary_size=context.model.vocabulary_size,
            seed=seed,
        )
    if context.tokenizer_file is None:
        raise InputError(
            f"{context.checkpoint.served}: no tokenizer.json, which prompts of an exact length "
            f"need with {context.engine.name}: add it, or name a file of prompts (load.prompts)"
        )
    return random_text_prompts(
        count=count,
        input_tokens=load.input_tokens,
        tokenizer_file=context.tokenizer_file,
        seed=seed,
    )
