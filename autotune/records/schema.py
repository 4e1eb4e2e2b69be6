"""What was measured, as types: one record a request, a point, a launch, a probe and a run.

Records say what happened and nothing of what it means: verdicts and decisions are computed from
them (`autotune.probe.verdict`, `autotune.decide`), at any time and with the same result.
Times are seconds; a field without a unit in its name is a count or a name.
"""

from typing import Annotated, Literal

import msgspec

from autotune.decisions.schema import Count, DecisionKey, Scope, check_name
from autotune.records.rule import Rule

SCHEMA_VERSION = 1

# A launch's round; 0 is the reference's launch before the first one.
Launched = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
LaunchStatus = Literal[
    "ok",
    "unsupported",
    "launch_failed",
    "oom",
    "ready_timeout",
    "wrong_backend",
    "crashed",
]
PointStatus = Literal[
    "ok",
    "crashed",
    "stalled",
    "request_errors",
    "not_steady",
    "concurrency_not_reached",
    "length_mismatch",
]
# Failures of the candidate itself: it broke. The other ones (not steady, lengths off, ...) are
# failures of a measurement, which the next round may well get right.
CANDIDATE_FAILURES: frozenset[PointStatus] = frozenset({"crashed", "stalled", "request_errors"})
RequestOutcome = Literal["ok", "http_error", "timeout", "connection", "bad_stream", "empty"]
RequestRole = Literal["measured", "filler", "probe"]
ProbeMode = Literal["single", "crowd", "load"]
PromptKind = Literal["short", "long", "code", "language"]


class MeasurementWarning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something a reader must know about a figure that stands: data, not prose in a log."""

    code: str
    observed: str
    threshold: str
    remedy: str


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engine's backend with the arguments and environment that it is launched with."""

    name: str
    engine: str
    backend: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the measured run (warm-up requests aren't recorded).

    Only a ``measured`` one enters a point's figures. After the last of these has been sent, some
    ``probe`` requests follow among ``filler`` ones that look like the measured ones.

    All ``*_at_s`` stamps share one monotonic clock whose zero is the point's first dispatch.
    ``chunk_at_s`` holds the arrival of every chunk that carried a token, of any channel.
    Token counts come from the server's ``usage``; ``None`` where it sent none.
    """

    index: int
    role: RequestRole = "measured"
    outcome: RequestOutcome
    sent_at_s: float
    ended_at_s: float
    chunk_at_s: tuple[float, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A per-request figure over a point's window, in seconds.

    A percentile is ``None`` where ``n`` can't carry it (`VALUES_NEEDED`).
    ``mean`` or ``p50`` is ``None`` only in an imported table that didn't publish it.
    """

    n: int | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None


class PointFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A point's figures over its measuring window; ``docs/metrics.md`` defines each.

    ``None`` means not measured (an imported table without that column), never zero.
    """

    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    whole_run_output_tokens_per_s: float | None = None
    achieved_concurrency: float | None = None
    peak_streaming: int | None = None
    window_s: float | None = None
    input_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    cached_tokens_mean: float | None = None
    ttft_s: Distribution = Distribution()
    latency_s: Distribution = Distribution()
    tpot_s: Distribution = Distribution()
    itl_s: Distribution = Distribution()


class PointRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One (candidate, round, concurrency). ``figures`` is ``None`` where nothing was measured.

    ``status`` is ``ok`` or the named failure, then with the evidence in ``reason``; a point
    that isn't ``ok`` may carry figures but takes no part in a decision.
    """

    schema_version: int = SCHEMA_VERSION
    candidate: str
    round: Count
    concurrency: Count
    status: PointStatus
    reason: str | None = None
    attempts: Count = 1
    started_at: str | None = None
    workload_digest: str | None = None
    requests_sent: int | None = None
    requests_ok: int | None = None
    figures: PointFigures | None = None
    warnings: tuple[MeasurementWarning, ...] = ()
    requests_sha256: str | None = None


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server start of one candidate, written when the launch is over.

    In round 0 the reference is launched to be probed, and measures nothing.
    ``ready_s`` is the time from process start to the first generated token, ``None`` if there
    was none. ``kernel_tuning`` says whether kernels that the engine tunes at start-up were tuned
    for this launch (``own``) or may stem from another one (``shared``). ``environment`` holds what
    we set, secrets left out. ``log_tail`` is kept where the status isn't ``ok``.
    """

    schema_version: int = SCHEMA_VERSION
    candidate: str
    round: Launched
    position: int
    status: LaunchStatus
    reason: str | None = None
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    started_at: str | None = None
    ended_at: str | None = None
    ready_s: float | None = None
    kernel_tuning: Literal["own", "shared"] | None = None
    resolved_backend: str | None = None
    log_tail: tuple[str, ...] = ()


class ProbePrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fixed prompt of the probe: its name, what kind of text it is, and the text."""

    name: str
    kind: PromptKind
    text: str


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer at temperature 0.

    It was asked alone (``single``), among other probes (``crowd``) or among the load's own
    requests (``load``), with ``concurrency`` requests in flight. ``repeat`` counts a prompt's
    answers in one mode and concurrency, from 1. ``text`` is the answer's content, ``reasoning``
    what came in the channel for it. ``nan_marked`` says that the engine replaced a NaN.
    """

    prompt: str
    mode: ProbeMode
    concurrency: Count = 1
    repeat: int
    outcome: RequestOutcome
    text: str
    reasoning: str = ""
    output_tokens: int | None = None
    finish_reason: str | None = None
    nan_marked: bool = False
    error: str | None = None


class Continuation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reference's own answer to a prompt, token by token, for others to be asked about.

    ``log_probabilities`` (natural logarithm, one a token of ``token_ids``) are the reference's
    as it wrote them; ``None`` stands for one that is no number.
    """

    prompt: str
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    log_probabilities: tuple[float | None, ...]


class ScoredContinuation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server says of the reference's continuation, token by token (teacher forcing).

    ``log_probabilities`` are the server's own for the reference's tokens, ``top_token_ids`` the
    tokens that it would have written instead; ``None`` stands for what is no number, or wasn't
    told. Both are empty where ``outcome`` isn't ``ok``.
    """

    prompt: str
    mode: ProbeMode
    concurrency: Count = 1
    repeat: int
    outcome: RequestOutcome
    log_probabilities: tuple[float | None, ...] = ()
    top_token_ids: tuple[int | None, ...] = ()
    error: str | None = None


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer to a question with a checkable answer.

    ``correct`` is ``None`` where the budget ended inside a thinking block: nothing was said yet.
    """

    item: str
    outcome: RequestOutcome
    text: str
    correct: bool | None
    finish_reason: str | None = None
    error: str | None = None


class ProbeRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Probe answers of one launch, or, with ``concurrency``, those given under one point's load.

    ``prompts_digest`` names the prompt set, which a launch's record holds (a point's doesn't),
    ``task_digest`` the set of questions. ``problems`` say what the reference's server wouldn't tell
    of its own words, token by token. Round 0 is the reference's own launch before the first
    round, whose answers the others are held against.
    """

    schema_version: int = SCHEMA_VERSION
    candidate: str
    round: Launched
    concurrency: Count | None = None
    prompts_digest: str
    prompts: tuple[ProbePrompt, ...] = ()
    max_tokens: int
    answers: tuple[ProbeAnswer, ...]
    continuations: tuple[Continuation, ...] = ()
    scores: tuple[ScoredContinuation, ...] = ()
    task_digest: str | None = None
    task: tuple[TaskAnswer, ...] = ()
    problems: tuple[str, ...] = ()


class Tunable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting below a backend that a search may draw: an argument, or an environment variable.

    Either ``choices``, or numbers from ``low`` to ``high`` (both whole numbers: a whole number),
    in steps of ``step``, or evenly in the logarithm with ``log``. As a choice, ``true`` stands for
    the bare argument and ``false`` for leaving it out. ``when`` names other tunables of the same
    candidate and the values with which this one is in force; all of them must hold.
    """

    argument: str | None = None
    variable: str | None = None
    choices: tuple[bool | int | float | str, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    when: dict[str, tuple[bool | int | float | str, ...]] = {}


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One setting of a listed candidate's tunables, launched once in the search round ``round``.

    ``number`` counts the run's trials from 0, ``parent`` is the listed candidate's name,
    ``values`` what was drawn for each tunable that was in force. ``candidate`` has a name of its
    own, and the parent's arguments and environment with the drawn ones added.
    """

    schema_version: int = SCHEMA_VERSION
    number: Annotated[int, msgspec.Meta(ge=0)]
    round: Count
    parent: str
    values: dict[str, bool | int | float | str]
    candidate: Candidate


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each point asks of the server; ``digest`` is equal only for equal workloads."""

    digest: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompts: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run folder is about: all that a decision needs beside launches, points, probes.

    Written once, before anything is measured. ``source`` is where an imported table was
    published, ``checkpoint`` what was served (``owner/name@commit`` where it is of the hub).
    ``vocabulary_size`` is the model's, ``None`` where its configuration doesn't say.
    The first ``search_rounds`` rounds try settings of ``tunables`` (by candidate and name),
    ``trials_per_round`` of each candidate that has any: they choose who takes part in the later
    rounds, which alone are compared. ``source_sha256`` holds the hash of each file that an import
    keeps a copy of, by its path in the folder; ``import_notes`` say what it left out and what was
    said in place of the files.
    """

    schema_version: int = SCHEMA_VERSION
    kind: Literal["sweep", "import"]
    name: str
    created_at: str
    key: DecisionKey
    scope: Scope
    candidates: tuple[Candidate, ...]
    concurrencies: tuple[Count, ...]
    rule: Rule
    workload: Workload
    reference: str | None = None
    incumbent: str | None = None
    config_digest: str | None = None
    source: str | None = None
    checkpoint: str | None = None
    vocabulary_size: Count | None = None
    search_rounds: Annotated[int, msgspec.Meta(ge=0)] = 0
    trials_per_round: Annotated[int, msgspec.Meta(ge=0)] = 0
    tunables: dict[str, dict[str, Tunable]] = {}
    source_sha256: dict[str, str] = {}
    import_notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [check_name("candidate", candidate.name) for candidate in self.candidates]
        for what, listed in (("candidates", names), ("concurrencies", self.concurrencies)):
            if not listed or len(set(listed)) != len(listed):
                raise ValueError(f"{what}: empty, or one is listed twice")
        for role in (self.reference, self.incumbent):
            if role is not None and role not in names:
                raise ValueError(f"{role!r} is not among the candidates")
        self.rule.check(self.concurrencies)
