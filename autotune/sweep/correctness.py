"""The correctness part of a launch: what is asked of its server, and where the answers go.

Every launch is asked the same. The reference's launch of round 0 is asked more often, and under
each concurrency too: it is what its own later answers and everybody else's are held against.
"""

from collections.abc import Sequence

import msgspec

from autotune.config.schema import SweepConfig
from autotune.load.client import Endpoint, ask
from autotune.load.stream import Answer
from autotune.probe.ask import (
    Tail,
    answers_in_load,
    ask_alone,
    ask_crowd,
    ask_task,
)
from autotune.probe.prompts import prompts_digest
from autotune.probe.task import Question, questions_digest
from autotune.probe.teacher import Written, score_continuations, write_continuations
from autotune.records.schema import (
    Continuation,
    ProbeAnswer,
    ProbeRecord,
    ScoredContinuation,
    TaskAnswer,
)
from autotune.sweep.context import SweepContext
from autotune.sweep.plan import PlannedLaunch
from autotune.sweep.progress import Gauge, Noted, PhaseBegan, Tell, telling_questions
from autotune.sweep.workloads import point_prompts, probe_prompts_of, questions_of


class Correctness:
    """Asks one launch's server, and records what it answers."""

    def __init__(
        self,
        context: SweepContext,
        planned: PlannedLaunch,
        endpoint: Endpoint,
        *,
        tell: Tell,
    ) -> None:
        self._tell = tell
        self._context = context
        self._config: SweepConfig = context.config
        self._planned = planned
        self._load_endpoint = endpoint
        # Probes ask for a text's natural end; only the load must run to an exact length.
        self._endpoint = msgspec.structs.replace(endpoint, ignore_eos=False)
        self._prompts = probe_prompts_of(context)

    async def ask(self) -> None:
        """Ask what is asked before any load; nothing where an earlier start recorded it."""
        folder, planned = self._context.folder, self._planned
        name, round_number = planned.candidate.name, planned.round
        if not folder.probe_file(name, round_number).is_file():
            folder.write_probe(await self._own_record())
        if round_number == 0:
            for concurrency in self._config.load.concurrency:
                if not folder.load_probe_file(name, 0, concurrency).is_file():
                    self._tell(PhaseBegan(phase="probing", concurrency=concurrency))
                    await self._ask_among_load(concurrency)

    def record_tail(self, tail: Tail, answers: list[Answer], *, concurrency: int) -> None:
        """Record the probes' answers among a point's load; nothing where it ended before them."""
        if not answers:
            return
        given = answers_in_load(tail, answers, concurrency=concurrency)
        self._context.folder.write_probe(self._record(given, concurrency=concurrency))

    async def _own_record(self) -> ProbeRecord:
        config, repeats = self._config, self._repeats
        max_tokens, timeout_s = config.probe.max_tokens, config.load.request_timeout_s
        crowd = max(config.load.concurrency)
        answers = await ask_alone(
            self._endpoint,
            self._prompts,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            repeats=repeats,
        )
        answers += await ask_crowd(
            self._endpoint,
            self._prompts,
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            concurrency=crowd,
            repeats=repeats,
        )
        record = self._record(answers, concurrency=None)
        questions = questions_of(config)
        if questions:
            task = await self._task(questions, concurrency=crowd)
            digest = questions_digest(questions)
            record = msgspec.structs.replace(record, task=tuple(task), task_digest=digest)
        written = await self._continuations()
        for problem in written.problems[:1]:
            more = len(written.problems) - 1
            others = f" (and {more} more)" if more else ""
            self._tell(Noted(text=f"log-probabilities: {problem}{others}"))
        own = self._planned.round == 0
        return msgspec.structs.replace(
            record,
            prompts=self._prompts,
            continuations=written.continuations if own else (),
            problems=written.problems,
            scores=tuple(await self._scores(written.continuations)),
        )

    async def _task(self, questions: Sequence[Question], *, concurrency: int) -> list[TaskAnswer]:
        """The answers to a task's questions, which may be hundreds: it is told how far they are."""
        task = self._config.probe.task
        assert task is not None
        self._tell(PhaseBegan(phase="asking", requests=len(questions)))
        gauge = Gauge()
        async with telling_questions(gauge, self._tell):
            answers = await ask_task(
                self._endpoint,
                questions,
                max_tokens=task.max_tokens,
                timeout_s=self._config.load.request_timeout_s,
                concurrency=concurrency,
                on_progress=gauge.set,
            )
        self._tell(PhaseBegan(phase="probing"))
        return answers

    async def _continuations(self) -> Written:
        """The reference's own words, token by token: written in round 0, read from then on."""
        scoring = self._context.engine.traits.log_probabilities
        if scoring is None:
            return Written(continuations=())
        if self._planned.round > 0:
            record = self._context.folder.read_probe(self._config.reference, 0)
            return Written(continuations=record.continuations if record is not None else ())
        return await write_continuations(
            self._endpoint,
            {prompt.name: prompt.text for prompt in self._prompts},
            scoring=scoring,
            max_tokens=self._config.probe.max_tokens,
            timeout_s=self._config.load.request_timeout_s,
        )

    async def _scores(self, written: Sequence[Continuation]) -> list[ScoredContinuation]:
        scoring = self._context.engine.traits.log_probabilities
        if scoring is None or not written:
            return []
        timeout_s = self._config.load.request_timeout_s
        crowd = max(self._config.load.concurrency)
        scores = await score_continuations(
            self._endpoint,
            written,
            scoring=scoring,
            mode="single",
            concurrency=1,
            repeats=self._repeats,
            timeout_s=timeout_s,
        )
        return scores + await score_continuations(
            self._endpoint,
            written,
            scoring=scoring,
            mode="crowd",
            concurrency=crowd,
            repeats=self._repeats * -(-crowd // len(written)),
            timeout_s=timeout_s,
        )

    async def _ask_among_load(self, concurrency: int) -> None:
        """The tail of a point without the point: the reference's yardstick under load."""
        prompts = point_prompts(self._context, round_number=0, concurrency=concurrency, attempt=1)
        load = self._config.load
        answers = await ask(
            self._load_endpoint,
            prompts.tail.prompts,
            max_tokens=load.output_tokens,
            timeout_s=load.request_timeout_s,
            concurrency=concurrency,
        )
        self.record_tail(prompts.tail, answers, concurrency=concurrency)

    @property
    def _repeats(self) -> int:
        return self._config.probe.reference_repeats if self._planned.round == 0 else 1

    def _record(self, answers: list[ProbeAnswer], *, concurrency: int | None) -> ProbeRecord:
        return ProbeRecord(
            candidate=self._planned.candidate.name,
            round=self._planned.round,
            concurrency=concurrency,
            prompts_digest=prompts_digest(self._prompts),
            max_tokens=self._config.probe.max_tokens,
            answers=tuple(answers),
        )
