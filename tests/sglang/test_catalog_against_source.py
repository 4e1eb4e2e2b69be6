"""SGLang's catalog against SGLang: names, registrations and lists, in both directions.

It reads the installed release, and every unpacked package folder (the one that holds ``srt``)
in ``AUTOTUNE_SGLANG_SOURCES``. For each, only what the catalog claims for that release counts.
"""

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from autotune.decisions.request import AUTO
from autotune.engines.sglang.table import Claim, Rule, number, read_catalog
from tests.sglang.source import SourceFacts, find_source, read_source

CATALOG = read_catalog()


def _places() -> list[Path]:
    given = os.environ.get("AUTOTUNE_SGLANG_SOURCES", "").split(os.pathsep)
    installed = find_source()
    return [*([installed] if installed else []), *(Path(place) for place in given if place)]


@functools.cache
def _read(place: Path) -> SourceFacts:
    return read_source(place)


@pytest.fixture(scope="module", params=_places() or [None], ids=str)
def facts(request: pytest.FixtureRequest) -> SourceFacts:
    if request.param is None:
        pytest.skip("sglang isn't installed, and AUTOTUNE_SGLANG_SOURCES names no sources")
    found = _read(request.param)
    if found.version is not None and number(found.version) < number(CATALOG.read[0]):
        pytest.skip(f"the catalog claims nothing for {found.version}")
    return found


def claim(facts: SourceFacts, since: str | None, until: str | None = None) -> bool | None:
    return CATALOG.has(facts.version, since=since, until=until)


def claims(facts: SourceFacts, rows: Mapping[str, Claim]) -> dict[Any, bool | None]:
    return {name: claim(facts, row.since, row.until) for name, row in rows.items()}


def check(claimed: Mapping[Any, bool | None], found: Iterable[object]) -> None:
    """What is claimed is found, and what is found is claimed, but for what isn't known."""
    names = set(found)
    missing = {name for name, has in claimed.items() if has and name not in names}
    surplus = {name for name in names if claimed.get(name, False) is False}
    assert not missing, f"claimed, but not in the source: {missing}"
    assert not surplus, f"in the source, but not claimed: {surplus}"


def check_lists(
    facts: SourceFacts,
    claimed: Iterable[tuple[str, Rule, tuple[str, ...]]],
    found: Mapping[str, frozenset[str]],
) -> None:
    """Each list asserted for a name is the list of the name's rule."""
    lists = {
        name: set(names) for name, rule, names in claimed if CATALOG.holds(rule, facts.version)
    }
    unknown = {n for n, rule, _ in claimed if claim(facts, rule.since, rule.until) is None}
    assert set(lists) - set(found) == set()
    assert set(found) - set(lists) - unknown == set()
    assert {name: names for name, names in found.items() if name in lists} == lists


def test_the_runners_are_those_of_the_command_line(facts: SourceFacts) -> None:
    assert facts.runners is not None
    check({AUTO: True, **claims(facts, CATALOG.runners)}, facts.runners)


def test_the_all_to_all_backends_are_those_of_the_command_line(facts: SourceFacts) -> None:
    assert facts.a2a is not None
    check(claims(facts, CATALOG.a2a), facts.a2a)


def test_the_modes_are_choices_of_their_flags(facts: SourceFacts) -> None:
    for name, row in CATALOG.a2a.items():
        if row.mode_argument is None or claim(facts, row.mode_since) is None:
            continue
        has = claim(facts, row.mode_since)
        assert (row.mode_argument in facts.modes) is has, name
        if has:
            default = set() if row.default_mode is None else {row.default_mode}
            assert {*row.modes, *default} <= facts.modes[row.mode_argument], name


def test_fused_functions(facts: SourceFacts) -> None:
    claimed = {
        (a2a, runner): claim(facts, since)
        for runner, row in CATALOG.runners.items()
        for a2a, since in row.fused.items()
    }
    check(claimed, facts.fused)


def test_conversions_to_and_from_the_runners(facts: SourceFacts) -> None:
    claimed = {
        (name, runner): claim(facts, since)
        for runner, row in CATALOG.runners.items()
        for name, since in row.permutes.items()
    }
    # Ascend's own runner is no choice of the command line.
    chosen = facts.runners or ()
    check(claimed, {pair for pair in facts.pre_permutes if pair[1] in chosen})
    check(claimed, {(name, who) for who, name in facts.post_permutes if who in chosen})


def test_what_the_dispatchers_put_out(facts: SourceFacts) -> None:
    for name, row in CATALOG.a2a.items():
        if CATALOG.holds(row, facts.version):
            said = {put_out for formats in row.formats.values() for put_out in formats}
            assert facts.formats.get(name, frozenset()) == said, name


def test_the_modes_of_formats_are_modes() -> None:
    for row in CATALOG.a2a.values():
        assert set(row.formats) <= {"any", *row.modes}
        assert "any" in row.formats or set(row.formats) == set(row.modes)


def test_what_raises_ep_to_tp(facts: SourceFacts) -> None:
    assert facts.spanning is not None
    check(
        claims(facts, {name: row for name, row in CATALOG.a2a.items() if row.spans_tp}),
        facts.spanning,
    )


def test_asserted_quantizations(facts: SourceFacts) -> None:
    claimed = [
        (runner, rule, rule.quantizations)
        for runner, row in CATALOG.runners.items()
        for rule in row.rules
        if rule.source.endswith(": handle_moe_kernel_config") and rule.quantizations
    ]
    check_lists(facts, claimed, facts.quantizations)


def test_asserted_all_to_all_backends(facts: SourceFacts) -> None:
    claimed = [
        (runner, rule, rule.a2a)
        for runner, row in CATALOG.runners.items()
        for rule in row.rules
        if rule.source.endswith(": handle_moe_kernel_config")
        and rule.a2a
        and not rule.when_quantizations
    ]
    check_lists(facts, claimed, facts.runner_a2a)


def test_asserted_runners(facts: SourceFacts) -> None:
    claimed = [
        (name, rule, rule.runners)
        for name, row in CATALOG.a2a.items()
        for rule in row.rules
        if rule.source.endswith(": handle_a2a_moe") and rule.runners
    ]
    check_lists(facts, claimed, {n: found - {AUTO} for n, found in facts.a2a_runners.items()})


def test_what_disables_shared_expert_fusion(facts: SourceFacts) -> None:
    assert facts.without_shared_fusion is not None
    assert facts.a2a_without_shared_fusion is not None
    runners = {n: row for n, row in CATALOG.runners.items() if row.disables_shared_expert_fusion}
    check(claims(facts, runners), facts.without_shared_fusion)
    a2a = {name: row for name, row in CATALOG.a2a.items() if row.disables_shared_expert_fusion}
    check(claims(facts, a2a), facts.a2a_without_shared_fusion)


@pytest.mark.parametrize("place", _places() or [None], ids=str)
def test_every_source_is_there(place: Path | None) -> None:
    if place is None:
        pytest.skip("no sources")
    if number(_read(place).version or CATALOG.read[-1]) < number(CATALOG.read[-1]):
        pytest.skip("the catalog names files of its latest release")
    for source in _sources():
        path, _, symbol = source.partition(": ")
        assert symbol in (place / "srt" / path).read_text(), source


def _sources() -> set[str]:
    rows: list[Claim] = [*CATALOG.runners.values(), *CATALOG.a2a.values(), *CATALOG.rules]
    rows += [rule for row in CATALOG.runners.values() for rule in row.rules]
    rows += [rule for row in CATALOG.a2a.values() for rule in row.rules]
    found = {row.source for row in rows} | set(CATALOG.direct_quantizations.values())
    found |= {row.attention_dp_source for row in CATALOG.a2a.values() if row.attention_dp_source}
    return found | {CATALOG.fused_source, CATALOG.permute_source, CATALOG.spanning_source}
