"""A check's findings as text, as workflow annotations of GitHub, and as JSON. Pure."""

import json
import os
from collections.abc import Iterator
from typing import Literal

import msgspec

from autotune.errors import EXIT_DONE, EXIT_STALE, EXIT_USAGE
from autotune.review.findings import Finding, Level, Review

Format = Literal["text", "github", "json"]

# A workflow step shows ten annotations of each kind: the worst come first.
_COMMANDS: dict[Level, str] = {"wrong": "error", "stale": "warning", "note": "notice"}


def exit_code(review: Review) -> int:
    """0 where all is well, 2 where anything is wrong, 4 where something is stale and no more."""
    if review.count("wrong"):
        return EXIT_USAGE
    return EXIT_STALE if review.count("stale") else EXIT_DONE


def render(review: Review, form: Format, *, workplace: str) -> str:
    """Return what a check prints.

    Args:
        review: what was found.
        form: in which form.
        workplace: the folder that GitHub's paths start from, absolute.
    """
    match form:
        case "json":
            findings = [one for one in review.findings if one.level != "ok"]
            whole = {"findings": msgspec.to_builtins(findings), "checked": review.checked}
            return json.dumps(whole, indent=2, ensure_ascii=False)
        case "github":
            return "\n".join([*_annotations(review, workplace), summary(review)])
        case "text":
            return "\n".join([*map(text_line, review.findings), summary(review)])


def text_line(finding: Finding) -> str:
    """Return ``level  path#entry  message; remedy``."""
    where = finding.path + ("" if finding.entry is None else f"#{finding.entry}")
    return "  ".join(filter(None, (f"{finding.level:<5}", where, _sentence(finding))))


def summary(review: Review) -> str:
    """Return the last line: how many decisions were checked, and what was found."""
    decisions = f"{review.checked} decision{'' if review.checked == 1 else 's'} checked"
    levels: tuple[Level, ...] = ("ok", "stale", "wrong", "note")
    counts = [f"{review.count(level)} {level}" for level in levels]
    return f"{decisions}: {', '.join(counts)}"


def _sentence(finding: Finding) -> str:
    return finding.message + (f"; {finding.remedy}" if finding.remedy else "")


def _annotations(review: Review, workplace: str) -> Iterator[str]:
    for level, command in _COMMANDS.items():
        for finding in review.findings:
            if finding.level == level:
                yield _annotation(finding, command, workplace)


def _annotation(finding: Finding, command: str, workplace: str) -> str:
    properties = {}
    if finding.path:
        properties["file"] = _relative(finding.path, workplace)
    if finding.line is not None:
        properties["line"] = str(finding.line)
    which = "" if finding.entry is None else f" in entry {finding.entry}"
    properties["title"] = f"autotune check: {finding.level}{which}"
    said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{command} {said}::{_data(_sentence(finding))}"


def _relative(path: str, workplace: str) -> str:
    """The path from the repository's root where it lies below it: else GitHub shows no file."""
    relative = os.path.relpath(path, workplace) if os.path.isabs(path) else os.path.normpath(path)
    return path if relative.startswith("..") else relative


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
