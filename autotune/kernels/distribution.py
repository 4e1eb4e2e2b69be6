"""How tokens spread over experts, and router logits that make a rule spread them so.

``uniform`` prefers no expert, ``zipf:S`` prefers some as real traffic does, ``replay:FILE`` gives
each token the experts of a recording. Logits are such that no token's choice hangs on a rounding:
a backend that chooses otherwise has another rule, not another precision.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from autotune.errors import InputError, UsageError
from autotune.kernels.routing import choice_margin, route
from autotune.kernels.spec import LayerSpec
from autotune.records.folder import read_whole

# Float32 scores differ between implementations by some 1e-7, approximated exponentials by 1e-6.
_SMALLEST_MARGIN = 1e-5
_MOST_DRAWS = 200
_STEEPEST = 10.0


@dataclass(frozen=True)
class Distribution:
    """How tokens spread over experts.

    Attributes:
        kind: ``uniform``, ``zipf`` or ``replay``.
        exponent: the s of zipf: the n-th most wanted expert is wanted as 1 / n^s.
        recording: of a replay, the experts of each token; repeated where it is too short.
        text: as the user wrote it.
    """

    kind: Literal["uniform", "zipf", "replay"]
    exponent: float = 0.0
    recording: tuple[tuple[int, ...], ...] = ()
    text: str = "uniform"


UNIFORM = Distribution(kind="uniform")


def parse_distribution(text: str) -> Distribution:
    """Read ``uniform``, ``zipf:1.0`` or ``replay:FILE``.

    A recording is JSON lines, each the list of one token's expert numbers: ``[3, 17, 40, 8]``.

    Raises:
        UsageError: another word, or an exponent that isn't between 0 and 10.
        InputError: the recording can't be read, or holds something else.
    """
    kind, _, rest = text.partition(":")
    if text == "uniform":
        return UNIFORM
    if kind == "zipf":
        try:
            exponent = float(rest or "1.0")
        except ValueError:
            exponent = math.nan
        if not 0 <= exponent <= _STEEPEST:
            raise UsageError(f"--distribution {text[:80]!r}: zipf's exponent lies between 0 and 10")
        return Distribution(kind="zipf", exponent=exponent, text=text)
    if kind == "replay" and rest:
        return Distribution(kind="replay", recording=_read_recording(Path(rest)), text=text)
    raise UsageError(
        f"--distribution {text[:80]!r}: say uniform, zipf:1.0, or replay:FILE (JSON lines, each "
        "the list of one token's experts)"
    )


def _read_recording(path: Path) -> tuple[tuple[int, ...], ...]:
    try:
        lines = read_whole(path).decode("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: isn't text: give JSON lines of expert numbers") from None
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, list) or not row or not all(type(one) is int for one in row):
            raise InputError(f"{path}: line {number}: give a list of expert numbers like [3, 17]")
        rows.append(tuple(row))
    if not rows:
        raise InputError(f"{path}: holds no token: give JSON lines of expert numbers")
    return tuple(rows)


def draw_logits(
    spec: LayerSpec,
    distribution: Distribution,
    *,
    tokens: int,
    correction_bias: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    """Draw router logits, float32 [tokens, experts], of values that bfloat16 can hold.

    Raises:
        InputError: a recorded choice can't be one of the layer's rule.
    """
    if distribution.kind == "replay":
        chosen = recorded_choices(spec, distribution, tokens=tokens).to(generator.device)
        logits = _logits_that_choose(chosen, spec, correction_bias, generator)
        if not _chooses(logits, chosen, spec, correction_bias):
            raise InputError(
                f"--distribution {distribution.text}: the layer's rule can't choose these experts "
                "together (their groups are too many): replay a recording of the same model"
            )
        return logits
    wanted = _wanted(spec.geometry.experts, distribution.exponent, generator)
    logits = _drawn(wanted, tokens, generator)
    for _ in range(_MOST_DRAWS):
        unclear = _margin(logits, spec, correction_bias) < _SMALLEST_MARGIN
        count = int(unclear.sum())
        if count == 0:
            return logits
        logits[unclear] = _drawn(wanted, count, generator)
    raise InputError(
        f"--distribution {distribution.text}: no logits were found that choose clearly: "
        "give a smaller exponent"
    )


def _wanted(experts: int, exponent: float, generator: torch.Generator) -> Tensor:
    """How much each expert is wanted, as logarithms; which one is most wanted is drawn."""
    ranks = torch.randperm(experts, generator=generator, device=generator.device) + 1
    return -exponent * ranks.float().log()


def _drawn(wanted: Tensor, tokens: int, generator: torch.Generator) -> Tensor:
    """Add Gumbel noise: the largest k are then k draws without replacement (Gumbel-top-k).

    Shifted to a mean of zero, so that a sigmoid of them isn't flat; that keeps their order.
    Source: Kool, van Hoof and Welling, "Stochastic beams and where to find them", 2019.
    """
    shape = (tokens, wanted.numel())
    uniform = torch.rand(shape, generator=generator, device=generator.device).clamp_(1e-6, 1 - 1e-6)
    logits = wanted - (-uniform.log()).log()
    logits -= logits.mean(dim=-1, keepdim=True)
    return logits.to(torch.bfloat16).float()


def _margin(logits: Tensor, spec: LayerSpec, correction_bias: Tensor | None) -> Tensor:
    bias = None if correction_bias is None else correction_bias.double()
    return choice_margin(
        logits.double(), spec.routing, top_k=spec.geometry.top_k, correction_bias=bias
    )


def recorded_choices(spec: LayerSpec, distribution: Distribution, *, tokens: int) -> Tensor:
    """Return the recording's experts for ``tokens`` tokens, int64 [tokens, top_k].

    Raises:
        InputError: a token's experts aren't top-k different ones of the layer's.
    """
    experts, top_k = spec.geometry.experts, spec.geometry.top_k
    rows = distribution.recording
    for number, row in enumerate(rows, 1):
        if len(row) != top_k or len(set(row)) != top_k or not all(0 <= e < experts for e in row):
            raise InputError(
                f"--distribution {distribution.text}: token {number}: expected {top_k} different "
                f"experts from 0 to {experts - 1}"
            )
    return torch.tensor([rows[number % len(rows)] for number in range(tokens)])


def _logits_that_choose(
    chosen: Tensor, spec: LayerSpec, correction_bias: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Put chosen experts well above the others, and groups with one above those without."""
    shape = (chosen.shape[0], spec.geometry.experts)
    noise = torch.rand(shape, generator=generator, device=generator.device)
    is_chosen = torch.zeros(shape, dtype=torch.bool, device=chosen.device)
    is_chosen.scatter_(-1, chosen, True)
    has_one = is_chosen.unflatten(-1, (spec.routing.groups, -1)).any(dim=-1)
    beside = has_one.repeat_interleave(shape[1] // spec.routing.groups, dim=-1)
    if spec.routing.scoring == "softmax":
        logits = torch.where(is_chosen, 3 + 2 * noise, torch.where(beside, noise, noise - 3))
    else:
        keys = torch.where(
            is_chosen, 0.6 + 0.2 * noise, torch.where(beside, 0.3 + 0.2 * noise, 0.1 + 0.1 * noise)
        )
        bias = torch.zeros_like(keys) if correction_bias is None else correction_bias
        # A bias that no sigmoid can make up for is what the check after this finds.
        logits = (keys - bias).clamp(0.001, 0.999).logit()
    return logits.to(torch.bfloat16).float()


def _chooses(
    logits: Tensor, chosen: Tensor, spec: LayerSpec, correction_bias: Tensor | None
) -> bool:
    bias = None if correction_bias is None else correction_bias.double()
    routing = route(logits.double(), spec.routing, top_k=chosen.shape[1], correction_bias=bias)
    same = routing.expert_ids.sort(dim=-1).values.equal(chosen.sort(dim=-1).values)
    return same and bool((_margin(logits, spec, correction_bias) >= _SMALLEST_MARGIN).all())
