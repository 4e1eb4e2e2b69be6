"""A sweep config as types: one struct a TOML table, defaults filled in.

It only says what was asked. What an engine supports, and what a checkpoint holds, is found out
later by who knows it (`autotune.engines`, `autotune.model`).
"""

from typing import Annotated, Literal, Self

import msgspec

from autotune.decisions.schema import Count
from autotune.records.rule import CorrectnessRule, Limit, Rule
from autotune.records.schema import Candidate, Tunable

# Bounds far above anything real: a typing error is told at once, not by a hang.
Concurrency = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
Requests = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Rounds = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=604_800)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

# The name of the questions that come with autotune.
SHIPPED_QUESTIONS = "arithmetic"
_LONG_PROMPT_TOKENS = 512


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which checkpoint is served. Exactly one of ``path``, ``repository`` and ``witness``.

    ``path`` is a folder with config.json, relative to the working directory. ``repository`` names
    one on the Hugging Face hub (``owner/name``), which must have been downloaded before.
    ``witness`` is a tiny trained one that comes with autotune. ``architecture`` and ``geometry``
    are read from config.json; they are only needed where it doesn't say them, or to print a plan
    (--dry-run) where the checkpoint isn't.
    """

    path: str | None = None
    repository: str | None = None
    witness: Literal["minimax-m2"] | None = None
    quantization: str = "none"
    architecture: str | None = None
    geometry: str | None = None


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the server is launched, the same for every candidate.

    ``arch`` is the arch that the sweep is meant for: on another one it refuses to start.
    ``launch_prefix`` goes before the command (``numactl ...``, ``srun ...``); where the server
    spans ``parallel.nodes`` nodes, it must start the command once on each of them, with the
    node's number in the variable ``node_rank_variable``, and ``coordinator`` (``host:port``) is
    where the nodes meet; by default a free port of this machine, which must be node 0.
    ``extra_backends`` names backends that this installation has beyond the ones autotune's catalog
    knows. Kernels that the engine tunes at start-up are tuned anew at each launch, so that the
    luck of one tuning shows as a difference between rounds; ``share_kernel_tuning`` lets the
    launches of a sweep share what the first one found.
    """

    name: str
    device: Literal["auto", "cpu", "cuda"] = "auto"
    arch: str | None = None
    dtype: str = "auto"
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    launch_prefix: tuple[str, ...] = ()
    node_rank_variable: str = "SLURM_NODEID"
    coordinator: str | None = None
    extra_backends: tuple[str, ...] = ()
    share_kernel_tuning: bool = False
    ready_timeout_s: Seconds = 600.0
    stop_timeout_s: Seconds = 20.0


class ParallelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of tensor, expert and data parallelism, and the all-to-all backend.

    ``dp`` counts whole replicas, ``attention_dp`` the data-parallel groups of attention within
    one. ``a2a_mode`` is the all-to-all backend's own (``low_latency``, ...); without it, the
    engine's default. ``nodes`` is how many machines the server spans.
    """

    tp: Count = 1
    ep: Count = 1
    dp: Count = 1
    attention_dp: Count = 1
    nodes: Count = 1
    a2a_backend: str = "none"
    a2a_mode: str | None = None


class CandidateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backend with what it is launched with beside the engine's common arguments."""

    backend: str
    name: str | None = None
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    tunables: dict[str, Tunable] = {}


class SearchConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tunables are searched, before the race; unused where no candidate has any.

    Each of ``rounds`` rounds launches the incumbent (without one, the reference), and, for each
    candidate with tunables, ``trials_per_round`` settings that ``sampler`` draws. ``storage`` is
    the URL of a database in which Optuna keeps the study; by default it is a file in the run
    folder. The race that follows is run by the listed candidates and by each one's best setting.
    """

    rounds: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    trials_per_round: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2
    sampler: Literal["tpe", "random", "brute_force"] = "tpe"
    storage: str | None = None


class ScreenConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep takes from a sweep of the layer alone; ``docs/decisions.md`` explains it.

    ``file`` is the layer sweep's kernels.json, relative to the working directory; without one,
    nothing is screened. A candidate whose kernels compute the layer wrong is launched last in the
    race's first round (``flag``), or not at all (``drop``). One whose kernels take more than
    ``slower_than`` times as long as the fastest isn't launched either; without it, nobody is left
    out for being slow.
    """

    file: str | None = None
    wrong: Literal["flag", "drop"] = "flag"
    slower_than: Annotated[float, msgspec.Meta(gt=1, le=1_000_000)] | None = None


class BudgetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to stop measuring whatever is known by then; it may be changed between two starts.

    ``max_launches`` counts server starts, ``max_hours`` the time from each start to its end.
    """

    max_launches: Count | None = None
    max_hours: Annotated[float, msgspec.Meta(gt=0, le=100_000)] | None = None


class LoadConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each point asks of the server.

    A point sends ``max(min_requests, requests_per_slot * concurrency)`` requests. ``prompts`` is
    a JSONL file used instead of random prompts of ``input_tokens`` tokens.
    """

    concurrency: tuple[Concurrency, ...]
    input_tokens: Count = 128
    output_tokens: Count = 128
    prompts: str | None = None
    endpoint: Literal["completions", "chat"] = "completions"
    requests_per_slot: Requests = 10
    min_requests: Requests = 64
    request_timeout_s: Seconds = 600.0
    seed: Seed = 0


class TaskConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Questions with checkable answers, asked at each launch.

    ``questions`` is ``arithmetic``, the small set that comes with autotune, or a JSONL file
    (``docs/formats.md``). ``items`` takes the first so many of them. A candidate fails if its
    accuracy is lower than the reference's by more than ``margin`` (0.02 = two points).
    """

    questions: str = SHIPPED_QUESTIONS
    items: Count | None = None
    max_tokens: Count = 64
    margin: float = 0.02


class ProbeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How correctness is asked for and judged; ``docs/correctness.md`` explains each setting.

    Everything is asked at temperature 0: alone, many at once, and among the load's requests.
    ``long_prompt_tokens`` is by default what fills the longest request of the load. The
    reference is asked everything ``reference_repeats`` times before the first round. Rates are
    per token, drops are nats per token; see `autotune.records.rule.CorrectnessRule`.
    """

    max_tokens: Count = 32
    long_prompt_tokens: Count | None = None
    reference_repeats: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    tolerated_rate: float = 0.05
    rejected_rate: float = 0.15
    tolerated_drop: float = 0.02
    rejected_drop: float = 0.2
    false_alarm: float = 0.01
    task: TaskConfig | None = None


class DecisionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How sure a decision must be; see ``docs/decisions.md``.

    ``weights`` gives one weight per concurrency, in the order of ``load.concurrency``; without
    it all weigh the same. They must sum to 1. ``max_rounds`` is at least ``min_rounds``, by
    default 8. ``limits`` is what a candidate must keep to, whatever its throughput.
    """

    min_rounds: Rounds = 3
    max_rounds: Rounds | None = None
    delta: float = 0.02
    alpha: float = 0.05
    floor: float = 0.9
    drop_behind: float = 0.15
    drop_after: Rounds = 2
    weights: tuple[float, ...] = ()
    limits: tuple[Limit, ...] = ()


class SweepConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole sweep.

    ``reference`` names the candidate that is trusted to answer right, ``incumbent`` the one that
    the engine's ``auto`` gives today.
    """

    name: str
    candidates: tuple[str | CandidateConfig, ...]
    reference: str
    incumbent: str | None = None
    model: ModelConfig
    engine: EngineConfig
    load: LoadConfig
    parallel: ParallelConfig = ParallelConfig()
    probe: ProbeConfig = ProbeConfig()
    decision: DecisionConfig = DecisionConfig()
    search: SearchConfig = SearchConfig()
    budget: BudgetConfig = BudgetConfig()
    screen: ScreenConfig | None = None

    @property
    def screen_file(self) -> str | None:
        """Which layer sweep's kernels.json screens the candidates, ``None`` where none does."""
        return None if self.screen is None else self.screen.file

    def screened_by(self, file: str) -> Self:
        """Return the same sweep with this file as its screen."""
        screen = msgspec.structs.replace(self.screen or ScreenConfig(), file=file)
        return msgspec.structs.replace(self, screen=screen)

    def candidate_configs(self) -> tuple[CandidateConfig, ...]:
        """Return the candidates as given, in the config's order, names filled in."""
        given = [
            CandidateConfig(backend=entry) if isinstance(entry, str) else entry
            for entry in self.candidates
        ]
        return tuple(msgspec.structs.replace(one, name=one.name or one.backend) for one in given)

    def candidate_list(self) -> tuple[Candidate, ...]:
        """Return the candidates in the config's order, names filled in."""
        return tuple(
            Candidate(
                name=given.name or given.backend,
                engine=self.engine.name,
                backend=given.backend,
                arguments=given.arguments,
                environment=given.environment,
            )
            for given in self.candidate_configs()
        )

    @property
    def search_rounds(self) -> int:
        """How many rounds come before the race: none where nothing is to be tuned."""
        return self.search.rounds if self.tunables() else 0

    def tunables(self) -> dict[str, dict[str, Tunable]]:
        """Return what is tuned, by candidate; only those that have anything to tune."""
        return {str(one.name): one.tunables for one in self.candidate_configs() if one.tunables}

    def rule(self) -> Rule:
        """Return the decision rule's settings, weights spread over the concurrencies."""
        decision, probe = self.decision, self.probe
        return Rule(
            min_rounds=decision.min_rounds,
            max_rounds=decision.max_rounds or max(Rule().max_rounds, decision.min_rounds),
            delta=decision.delta,
            alpha=decision.alpha,
            floor=decision.floor,
            drop_behind=decision.drop_behind,
            drop_after=decision.drop_after,
            limits=decision.limits,
            weights=dict(zip(self.load.concurrency, decision.weights, strict=True))
            if decision.weights
            else {},
            correctness=CorrectnessRule(
                tolerated_rate=probe.tolerated_rate,
                rejected_rate=probe.rejected_rate,
                tolerated_drop=probe.tolerated_drop,
                rejected_drop=probe.rejected_drop,
                false_alarm=probe.false_alarm,
                task_margin=probe.task.margin if probe.task else CorrectnessRule().task_margin,
            ),
        )

    def long_prompt_tokens(self) -> int:
        """Length of the probe's longest prompt: by default it fills the load's longest request."""
        longest = self.load.input_tokens + self.load.output_tokens - self.probe.max_tokens
        return self.probe.long_prompt_tokens or max(longest, _LONG_PROMPT_TOKENS)

    def requests_at(self, concurrency: int) -> int:
        """How many measured requests a point at ``concurrency`` sends."""
        return max(self.load.min_requests, self.load.requests_per_slot * concurrency)
