"""Runs whose servers were probed, with the answers that a test wants."""

from collections.abc import Callable

import msgspec

from autotune.records.folder import LoadedRun
from autotune.records.schema import ProbeAnswer, ProbePrompt, ProbeRecord
from autotune.report.subject import Subject
from tests.records.builders import make_judgement, make_run, make_verdicts

PROMPTS = (
    ProbePrompt(name="capital", kind="short", text="What is the capital of France?\nAnswer:"),
    ProbePrompt(name="count", kind="short", text="Count to five:"),
)
TRUE = {"capital": " Paris is the capital of France.", "count": " one, two, three, four, five"}

# What a candidate's server says in a round, to a prompt: a text, or an answer as it was recorded.
Server = Callable[[str, int, str], str | ProbeAnswer]


def honest(candidate: str, round_number: int, prompt: str) -> str:
    return TRUE[prompt]


def probed_run(server: Server = honest, *, reference: str | None = "eager") -> LoadedRun:
    """Two rounds of three candidates after the reference's own; each prompt alone and among 4."""
    run = make_run(rounds=2, concurrencies=(1, 4))
    names = [candidate.name for candidate in run.run.candidates]
    launches = [("eager", 0), *((name, number) for number in (1, 2) for name in names)]
    probes = tuple(record(server, name, number) for name, number in launches)
    about = msgspec.structs.replace(run.run, reference=reference)
    return msgspec.structs.replace(run, run=about, probes=probes)


def record(server: Server, candidate: str, round_number: int) -> ProbeRecord:
    answers: list[ProbeAnswer] = []
    for prompt in PROMPTS:
        said = server(candidate, round_number, prompt.name)
        if isinstance(said, str):
            said = ProbeAnswer(
                prompt=prompt.name,
                mode="single",
                repeat=1,
                outcome="ok",
                text=said,
                output_tokens=8,
            )
        answers.append(said)
        answers.append(msgspec.structs.replace(said, mode="crowd", concurrency=4))
    return ProbeRecord(
        candidate=candidate,
        round=round_number,
        prompts_digest="ab" * 32,
        prompts=PROMPTS,
        max_tokens=8,
        answers=tuple(answers),
    )


def subject_of(run: LoadedRun) -> Subject:
    return Subject.of(run, make_judgement(run), verdicts=make_verdicts(run))
