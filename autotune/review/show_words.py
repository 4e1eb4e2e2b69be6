"""How scopes, ages and values are told in a line, the same in `diff`, `list` and `show`. Pure."""

import datetime
import math
from collections.abc import Sequence
from typing import Any

from autotune.decide.wording import LET_IN
from autotune.decisions.freshness import utc_day
from autotune.decisions.schema import Choice, DecisionKey, Interval, Scope
from autotune.report.numbers import figure

NOT_RECORDED = "not recorded"
# What tells scopes apart at a glance; the other fields are named only where they differ.
_SIZES = (("tp", "tp"), ("ep", "ep"), ("dp", "dp"), ("attention_dp", "attention dp"))
_OTHERS = (
    ("geometry", "geometry"),
    ("dtype", "dtype"),
    ("a2a_mode", "a2a mode"),
    ("engine_settings", "engine settings"),
    ("kernel_libraries", "kernel libraries"),
    ("kernel_environment", "kernel environment"),
    ("also_arch", "also for"),
)


def key_words(key: DecisionKey) -> str:
    """Return ``MiniMaxM2ForCausalLM, modelopt_fp4, sm100``."""
    return f"{key.model}, {key.quantization}, {key.arch}"


def scope_words(scope: Scope, *, among: Sequence[Scope] = ()) -> str:
    """Return a scope in a line: engine and version, devices, parallel sizes, all-to-all.

    Args:
        scope: the scope.
        among: the scopes that it stands beside; whatever tells it from them is named, too.
    """
    version = scope.engine_version or "(version not recorded)"
    parts = [f"{scope.engine} {version}", device_words(scope)]
    for name, word in _SIZES:
        size = getattr(scope, name)
        differs = any(getattr(other, name) != size for other in among)
        if differs or (size is not None and (name in {"tp", "ep"} or size > 1)):
            parts.append(f"{word} {value_words(size)}")
    if scope.a2a_backend is not None or any(other.a2a_backend is not None for other in among):
        parts.append(f"a2a {value_words(scope.a2a_backend)}")
    for name, word in _OTHERS:
        value = getattr(scope, name)
        if any(getattr(other, name) != value for other in among):
            parts.append(f"{word} {value_words(value)}")
    return ", ".join(parts)


def device_words(scope: Scope) -> str:
    """Return ``4 x GB200``."""
    if scope.device_name is None and scope.device_count is None:
        return "device not recorded"
    return f"{scope.device_count or 'unknown number'} x {scope.device_name or 'unknown device'}"


def ratio_words(ratio: float | None, interval: Interval | None) -> str:
    """Return ``1.045 [1.031, 1.060]``, empty where there is no ratio."""
    if ratio is None or not math.isfinite(ratio):
        return ""
    text = f"{ratio:.3f}"
    return text if interval is None else f"{text} [{interval.low:.3f}, {interval.high:.3f}]"


def choice_ratio(choice: Choice) -> str:
    """Return how far the choice is ahead of what; empty where it is its own baseline."""
    text = ratio_words(choice.ratio, choice.interval)
    if text and choice.interval is not None:
        text += f" ({choice.interval.confidence * 100:.3g}%)"
    return f"{text} x {choice.baseline or 'an unnamed baseline'}" if text else ""


def accepted_words(accepted: Sequence[str], *, inconclusive_let_in: bool = False) -> str:
    """Return what somebody accepted to have a decision, in short; empty where nobody had to."""
    if accepted:
        causes = dict.fromkeys(sentence.partition(": ")[0] for sentence in accepted)
        return f"accepted by hand, in spite of: {', '.join(causes)}"
    return f"accepted by hand: {LET_IN}" if inconclusive_let_in else ""


def age_days(measured_at: str, today: datetime.date) -> int | None:
    """Return how many days ago that was, ``None`` where it is no date."""
    day = utc_day(measured_at)
    return None if day is None else (today - day).days


def age_words(days: int | None) -> str:
    """Return ``today``, ``1 day ago``, ``30 days ago``, ``in 3 days``; empty for no date."""
    if days is None:
        return ""
    if days == 0:
        return "today"
    word = "1 day" if abs(days) == 1 else f"{abs(days)} days"
    return f"{word} ago" if days > 0 else f"in {word}"


def value_words(value: Any) -> str:
    """Return any field's value as a reader wants it, in one piece."""
    match value:
        case None:
            return NOT_RECORDED
        case bool():
            return "yes" if value else "no"
        case float():
            return figure(value)
        case "":
            return "(empty)"
        case dict():
            return ", ".join(f"{name}={text}" for name, text in sorted(value.items())) or "none"
        case list() | tuple():
            return " ".join(str(item) for item in value) or "none"
    return str(value)


def signed_percent(share: float | None) -> str:
    """Return ``+3.1%`` for 0.031; a change is never told as none."""
    if share is None or not math.isfinite(share):
        return "n/a"
    if share == 0:
        return "0%"
    if abs(share) >= 10:
        return f"{share:+,.0%}"
    return f"{share:+.1%}" if abs(share) >= 0.0005 else f"{share * 100:+.1g}%"
