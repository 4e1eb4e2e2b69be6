"""Ask a server the fixed prompts at temperature 0: one at a time, then many at once."""

from collections.abc import Mapping

from autotune.load.client import Endpoint, ask
from autotune.load.workload import Prompt
from autotune.probe.prompts import prompts_digest
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbeRecord


async def probe(
    endpoint: Endpoint,
    prompts: Mapping[str, str],
    *,
    candidate: str,
    round_number: int,
    max_tokens: int,
    concurrency: int,
    timeout_s: float,
) -> ProbeRecord:
    """Return a launch's answers: each prompt alone, then ``concurrency`` requests at once.

    Under load every prompt is repeated until the slots are full, each at least once. A request
    that fails is an answer with its outcome; nothing is raised for what the server does.

    Args:
        endpoint: the server under test.
        prompts: texts by name.
        candidate: whose server it is.
        round_number: the launch's round.
        max_tokens: output tokens asked of each answer.
        concurrency: requests in flight in the second part.
        timeout_s: limit of each request, in seconds.
    """
    names = list(prompts)
    crowd = [names[i % len(names)] for i in range(max(concurrency, len(names)))]
    answers: list[ProbeAnswer] = []
    parts: tuple[tuple[ProbeMode, list[str], int], ...] = (
        ("single", names, 1),
        ("loaded", crowd, concurrency),
    )
    for mode, asked, in_flight in parts:
        given = await ask(
            endpoint,
            [Prompt(text=prompts[name]) for name in asked],
            max_tokens=max_tokens,
            timeout_s=timeout_s,
            concurrency=in_flight,
        )
        answers += (
            ProbeAnswer(
                prompt=name,
                mode=mode,
                repeat=1 + index // len(names),
                outcome=answer.record.outcome,
                text=answer.text,
                output_tokens=answer.record.output_tokens,
                finish_reason=answer.record.finish_reason,
                error=answer.record.error,
            )
            for index, (name, answer) in enumerate(zip(asked, given, strict=True))
        )
    return ProbeRecord(
        candidate=candidate,
        round=round_number,
        prompts_digest=prompts_digest(dict(prompts)),
        max_tokens=max_tokens,
        answers=tuple(answers),
    )
