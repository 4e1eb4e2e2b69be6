"""How tokens spread over experts, as a user says it.

``uniform`` prefers no expert, ``zipf:S`` prefers some as real traffic does, ``replay:FILE`` gives
each token the experts of a recording. What that means for router logits is `logits`. No torch.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotune.errors import InputError, UsageError
from autotune.kernels.spec import LayerSpec
from autotune.records.folder import read_whole

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
        UsageError: another word, an exponent that isn't between 0 and 10, or a file's name that no
            record can hold.
        InputError: the recording can't be read, or holds something else.
    """
    kind, _, rest = text.partition(":")
    if not _is_unicode(text):
        raise UsageError(f"--distribution {text[:80]!r}: can't be recorded: it isn't Unicode")
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


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8; a file's name of other bytes can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_recording(path: Path) -> tuple[tuple[int, ...], ...]:
    try:
        lines = read_whole(path).decode("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: isn't text: give JSON lines of expert numbers") from None
    except ValueError as error:
        raise InputError(f"{str(path)!r}: isn't a file's name: {error}") from None
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


def check_recording(spec: LayerSpec, distribution: Distribution) -> None:
    """Check that a recording is one of such a layer; what isn't a replay passes.

    Raises:
        InputError: a token's experts aren't top-k different ones of the layer's.
    """
    experts, top_k = spec.geometry.experts, spec.geometry.top_k
    for number, row in enumerate(distribution.recording, 1):
        if len(row) != top_k or len(set(row)) != top_k or not all(0 <= e < experts for e in row):
            raise InputError(
                f"--distribution {distribution.text}: token {number}: expected {top_k} different "
                f"experts from 0 to {experts - 1}"
            )
