"""What a decision file says, as types: key, scope, choice and evidence.

It isn't where files are found (`store`), nor where a choice is made (`autotune.decide`).
Only the standard library and msgspec are imported here, because servers import it.
"""

import re
from typing import Annotated, Literal, Self

import msgspec

from autotune.errors import DecisionFileError, UsageError

SCHEMA_VERSION = 1

Outcome = Literal["decisive", "within_delta", "open"]
Verdict = Literal["pass", "fail", "inconclusive"]
# The upper bound is far above anything real; it keeps tables within 64-bit integers.
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
Positive = Annotated[float, msgspec.Meta(gt=0)]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")


def check_name(what: str, value: str) -> str:
    """Return ``value`` if it may be a path component and a printed word.

    Args:
        what: what the value names ("model", "arch", ...), for the message.
        value: text from a user, a config or a checkpoint: hostile until it passed here.

    Raises:
        UsageError: it is empty, over 128 characters, starts with a dot, or holds anything but
            letters, digits, ``.``, ``_``, ``+`` and ``-``.
    """
    if not _NAME.fullmatch(value):
        raise UsageError(
            f"{what} {value[:140]!r} can't be used as a name: use 1 to 128 letters, digits, '.', "
            "'_', '+' or '-', starting with a letter or a digit"
        )
    return value


class Geometry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """The size of a MoE layer: a choice measured for one size must not serve another."""

    hidden_size: Count
    expert_width: Count
    experts: Count
    top_k: Count

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``H,I,E,K`` (hidden size, expert width, experts, top-k).

        Raises:
            UsageError: not four whole numbers above zero, or top-k above the experts.
        """
        sizes = cls.parse_any(text)
        if sizes.top_k > sizes.experts:
            raise UsageError(f"geometry {text[:80]!r}: top-k must be at most the experts")
        return sizes

    @classmethod
    def parse_any(cls, text: str) -> Self:
        """Do as `parse`, and let top-k be above the experts, for who tells why that can't be.

        Raises:
            UsageError: not four whole numbers above zero.
        """
        parts = text.split(",")
        try:
            hidden_size, expert_width, experts, top_k = (int(part) for part in parts)
        except ValueError:
            raise UsageError(
                f"geometry {text[:80]!r}: give hidden size, expert width, experts and top-k as "
                "four whole numbers, e.g. 3072,1536,256,8"
            ) from None
        sizes = (hidden_size, expert_width, experts, top_k)
        if min(sizes) < 1 or max(sizes) > 2**31:
            raise UsageError(f"geometry {text[:80]!r}: each number must be from 1 to 2**31")
        return cls(*sizes)

    def __str__(self) -> str:
        return f"{self.hidden_size},{self.expert_width},{self.experts},{self.top_k}"


class DecisionKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """What one decision file is about: architecture name, quantization and arch."""

    model: str
    quantization: str
    arch: str

    def __post_init__(self) -> None:
        check_name("model", self.model)
        check_name("quantization", self.quantization)
        check_name("arch", self.arch)

    def __str__(self) -> str:
        return f"({self.model}, {self.quantization}, {self.arch})"


class Scope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The circumstances that one entry was measured under.

    ``None`` means that nobody recorded it. ``dp`` counts whole replicas, ``attention_dp`` the
    data-parallel groups of attention within one. ``engine_settings`` are those of the engine's
    other settings that change what its MoE layers run, defaults left out. ``also_arch`` lists
    further archs that the entry serves, which somebody must have said, with the reason.
    """

    engine: str
    geometry: Geometry
    engine_version: str | None = None
    dtype: str | None = None
    tp: Count | None = None
    ep: Count | None = None
    dp: Count | None = None
    attention_dp: Count | None = None
    a2a_backend: str | None = None
    a2a_mode: str | None = None
    engine_settings: dict[str, str] = {}
    device_name: str | None = None
    device_count: Count | None = None
    kernel_libraries: dict[str, str] = {}
    kernel_environment: dict[str, str] = {}
    also_arch: tuple[str, ...] = ()
    also_arch_reason: str | None = None

    def __post_init__(self) -> None:
        check_name("engine", self.engine)
        for arch in self.also_arch:
            check_name("also_arch", arch)
        if self.also_arch and not self.also_arch_reason:
            raise ValueError("also_arch needs also_arch_reason: who said so, and why")


class Interval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a ratio, and the confidence that they were made for (0.95 = 95%)."""

    low: float
    high: float
    confidence: float


class ConcurrencyWinner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fastest admissible candidate at one concurrency.

    ``ratio_to_choice`` is 1.0 where that is the choice itself.
    """

    concurrency: Count
    candidate: str
    backend: str
    ratio_to_choice: Positive
    interval: Interval | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The backend that ``auto`` becomes, and how sure that is.

    ``ratio`` is the choice's throughput over the ``baseline``'s: a weighted geometric mean over
    the measured concurrencies. ``baseline_role`` says whether the baseline is the incumbent (what
    ``auto`` gave) or only the reference.
    """

    backend: str
    candidate: str
    outcome: Outcome
    verdict: Verdict
    reason: str
    rounds: Count
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    baseline: str | None = None
    baseline_role: Literal["incumbent", "reference"] | None = None
    ratio: Positive | None = None
    interval: Interval | None = None
    winners: tuple[ConcurrencyWinner, ...] = ()

    def __post_init__(self) -> None:
        check_name("backend", self.backend)


class EvidenceRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One (candidate, concurrency): means over its valid rounds; times in seconds."""

    candidate: str
    backend: str
    concurrency: Count
    rounds: Count
    output_tokens_per_s: Positive
    ttft_mean_s: float | None = None
    ttft_p99_s: float | None = None
    latency_mean_s: float | None = None
    latency_p99_s: float | None = None


class RejectedCandidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate that couldn't win, and the one sentence that says why."""

    candidate: str
    backend: str
    reason: str
    verdict: Verdict | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the figures are and what they hash to.

    ``tables`` maps a file name inside the run folder to its SHA-256. ``accepted`` lists what
    somebody accepted in spite of the rules (``--accept``), one sentence each.
    """

    run: str
    measured_at: str
    tables: dict[str, str]
    rows: tuple[EvidenceRow, ...]
    rejected: tuple[RejectedCandidate, ...] = ()
    accepted: tuple[str, ...] = ()
    source: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured scope with its choice and evidence."""

    scope: Scope
    choice: Choice
    evidence: Evidence


class DecisionFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One (model, quantization, arch), with an entry per measured scope."""

    schema_version: int
    key: DecisionKey
    entries: tuple[Entry, ...]


def encode(decision: DecisionFile) -> bytes:
    """Return the file's bytes: indented JSON, sorted keys, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(decision, order="sorted"), indent=2) + b"\n"


def decode(data: bytes, *, where: str) -> DecisionFile:
    """Read a decision file's bytes.

    Args:
        data: the whole file.
        where: the file's name, for the message.

    Raises:
        DecisionFileError: not JSON, of another ``schema_version``, an unknown or missing field,
            or a value of the wrong type.
    """
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecisionFileError(f"{where}: not a decision file: {error}") from None
    if version != SCHEMA_VERSION:
        raise DecisionFileError(
            f"{where}: schema_version is {version}, this release reads {SCHEMA_VERSION}: "
            "install the release that wrote it, or measure again"
        )
    try:
        return msgspec.json.decode(data, type=DecisionFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
        raise DecisionFileError(f"{where}: {error}") from None


class _Versioned(msgspec.Struct):
    schema_version: int
