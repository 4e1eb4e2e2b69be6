"""What was measured, as types: one record a request, a point, a launch, a probe and a run.

Records say what happened and nothing of what it means: verdicts and decisions are computed from
them (`autotune.probe.verdict`, `autotune.decide`), at any time and with the same result.
Times are seconds; a field without a unit in its name is a count or a name.
"""

from typing import Annotated, Literal

import msgspec

from autotune.decisions.schema import Count, DecisionKey, Scope, check_name

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
LimitedFigure = Literal[
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p90_s",
    "latency_p95_s",
    "latency_p99_s",
    "tpot_mean_s",
    "tpot_p50_s",
    "tpot_p90_s",
    "tpot_p95_s",
    "tpot_p99_s",
    "error_rate",
]
# How many values a percentile needs: with fewer, no upper bound of it that is free of assumptions
# reaches 95% confidence.
VALUES_NEEDED = {"p90": 29, "p95": 59, "p99": 299}
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


class CorrectnessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How wrong answers may be, frozen with the run; ``docs/correctness.md`` explains each.

    Rates are per token: how often the candidate would write another token than the reference
    did. ``tolerated_rate`` is what rounding may do to an honest backend whose reference never
    disagrees with itself, ``rejected_rate`` what no rounding does. ``tolerated_drop`` and
    ``rejected_drop`` are the same for the mean loss of log-probability per token (nats).
    ``false_alarm`` is the chance, for each kind of evidence, that what a copy of the reference does
    by chance is taken for more. ``task_margin`` is
    the loss of accuracy that would still be accepted (0.02 = two points).
    """

    tolerated_rate: float = 0.05
    rejected_rate: float = 0.15
    tolerated_drop: float = 0.02
    rejected_drop: float = 0.2
    false_alarm: float = 0.01
    task_margin: float = 0.02

    def check(self) -> None:
        """Check ranges.

        Raises:
            ValueError: a setting out of its range.
        """
        for low, high in (
            ("tolerated_rate", "rejected_rate"),
            ("tolerated_drop", "rejected_drop"),
        ):
            if not 0 < getattr(self, low) < getattr(self, high):
                raise ValueError(f"{low}: must lie between 0 and {high}")
        if not self.rejected_rate <= 1:
            raise ValueError(f"rejected_rate: {self.rejected_rate} must be at most 1")
        if not 0 < self.false_alarm < 0.5:
            raise ValueError(f"false_alarm: {self.false_alarm} must lie between 0 and 0.5")
        if not 0 < self.task_margin < 1:
            raise ValueError(f"task_margin: {self.task_margin} must lie between 0 and 1")


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a candidate must keep to, whatever its throughput.

    ``figure`` is a column of the summary (seconds), or ``error_rate``, the share of a point's
    requests that failed; ``concurrency`` says where it holds, everywhere if it is empty.
    """

    figure: LimitedFigure
    at_most: float
    concurrency: tuple[Count, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision rule's settings, frozen with the run; ``docs/decisions.md`` explains each.

    ``min_rounds`` is how many rounds a claim needs at least, ``max_rounds`` how many are measured
    at most; after each of them the figures are looked at. ``delta`` is the smallest difference
    worth a change (0.02 = 2%), ``alpha`` the chance of a false claim over the whole run, ``floor``
    the share of the best throughput that the choice must reach at each concurrency. ``weights``
    are per concurrency and sum to 1. A candidate that is behind by more than ``drop_behind`` in
    each of the first ``drop_after`` rounds isn't launched again.
    """

    min_rounds: Count = 3
    max_rounds: Count = 8
    delta: float = 0.02
    alpha: float = 0.05
    floor: float = 0.9
    drop_behind: float = 0.15
    drop_after: Count = 2
    weights: dict[int, float] = {}
    limits: tuple[Limit, ...] = ()
    correctness: CorrectnessRule = CorrectnessRule()

    @property
    def needed_rounds(self) -> int:
        """How many rounds a claim needs: fewer than three carry none, whatever a config says."""
        return max(self.min_rounds, 3)

    @property
    def looks(self) -> int:
        """How often the figures are looked at: after each round from ``needed_rounds`` on."""
        return max(1, self.max_rounds - self.needed_rounds + 1)

    def check(self, concurrencies: tuple[int, ...]) -> None:
        """Check what types can't say.

        Raises:
            ValueError: a setting out of its range, or weights that don't fit the concurrencies.
        """
        for name, value in (("delta", self.delta), ("alpha", self.alpha)):
            if not 0 < value < 0.5:
                raise ValueError(f"{name}: {value} must lie between 0 and 0.5")
        if self.max_rounds < self.min_rounds:
            raise ValueError(f"max_rounds: {self.max_rounds} is less than min_rounds")
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor: {self.floor} must lie between 0 and 1")
        if not 0 < self.drop_behind < 1:
            raise ValueError(f"drop_behind: {self.drop_behind} must lie between 0 and 1")
        for limit in self.limits:
            if not limit.at_most >= 0:
                raise ValueError(f"limits: {limit.figure} can't be at most {limit.at_most}")
            unknown = sorted(set(limit.concurrency) - set(concurrencies))
            if unknown:
                raise ValueError(f"limits: concurrency {unknown[0]} isn't measured")
        self.correctness.check()
        if self.weights:
            total = sum(self.weights.values())
            if set(self.weights) != set(concurrencies):
                raise ValueError("weights: give one for each concurrency")
            if not (min(self.weights.values()) >= 0 and abs(total - 1) <= 1e-6):
                raise ValueError(f"weights: they sum to {total:g}: use shares that sum to 1")


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
    rounds, which alone are compared.
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

    def __post_init__(self) -> None:
        names = [check_name("candidate", candidate.name) for candidate in self.candidates]
        for what, listed in (("candidates", names), ("concurrencies", self.concurrencies)):
            if not listed or len(set(listed)) != len(listed):
                raise ValueError(f"{what}: empty, or one is listed twice")
        for role in (self.reference, self.incumbent):
            if role is not None and role not in names:
                raise ValueError(f"{role!r} is not among the candidates")
        self.rule.check(self.concurrencies)
