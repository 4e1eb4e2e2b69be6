"""The shape of ``catalog/sglang.toml`` and how its claims depend on the engine's release.

Standard library and msgspec only: a server's start-up imports this.
"""

import functools
import re
from pathlib import Path
from typing import Literal

import msgspec

_FILE = Path(__file__).parents[1] / "catalog" / "sglang.toml"
_VERSION = re.compile(r"v?([0-9]{1,6}(?:\.[0-9]{1,6})*)")


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something read in the sources, and the releases it holds for.

    ``source`` is ``file: symbol`` below ``sglang/srt``. ``since`` and ``until`` are the first and
    the last release read that have it; without them, the first read has it, and the latest still.
    """

    source: str
    since: str | None = None
    until: str | None = None


class Rule(Claim, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One restriction: where all ``when_...`` hold, each list given below must be kept to.

    An empty list restricts nothing. ``when_cuda`` means an NVIDIA arch. ``open_quantizations``
    are let through for some checkpoints only, so that they are worth a try. ``runners`` never
    speaks of ``auto``, which SGLang resolves itself. ``note`` says what happens, or why.
    """

    when_quantizations: tuple[str, ...] = ()
    when_cuda: bool = False
    when_archs: tuple[str, ...] = ()
    when_a2a: tuple[str, ...] = ()
    when_modes: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    open_quantizations: tuple[str, ...] = ()
    not_quantizations: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    a2a: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    ep: tuple[Literal["1", "tp"], ...] = ()
    note: str = ""


class Runner(Claim, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of ``--moe-runner-backend``.

    ``fused`` and ``permutes`` give the first release read that registers a fused function for an
    all-to-all backend, or the conversions for a dispatch format. A runner with neither isn't
    reached through these registers. ``alias_of_a2a`` is the all-to-all backend it stands for,
    ``needs_settings`` the server arguments without which SGLang refuses it.
    """

    fused: dict[str, str] = {}
    permutes: dict[str, str] = {}
    disables_shared_expert_fusion: bool = False
    alias_of_a2a: str | None = None
    needs_settings: dict[str, str] = {}
    note: str = ""
    rules: tuple[Rule, ...] = ()


class AllToAll(Claim, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of ``--moe-a2a-backend``.

    ``spans_tp``: SGLang raises ep to tp. ``formats`` are what its dispatcher puts out, by mode,
    or under "any". ``skips_runner``: the exchange and the experts are one kernel, so that the
    runner's registers aren't asked. ``attention_dp`` is what its attention-data-parallel size
    must be, from ``attention_dp_source``.
    """

    spans_tp: bool = False
    mode_argument: str | None = None
    mode_since: str | None = None
    default_mode: str | None = None
    modes: tuple[str, ...] = ()
    formats: dict[str, tuple[str, ...]] = {}
    skips_runner: bool = False
    attention_dp: Literal["tp", "at least 2"] | None = None
    attention_dp_source: str | None = None
    disables_shared_expert_fusion: bool = False
    note: str = ""
    rules: tuple[Rule, ...] = ()


class Catalog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole table. ``read`` lists the releases that it was read in, in order.

    ``rules`` hold for every runner. ``direct_quantizations`` maps methods that call their
    kernels themselves, past the runners' registers, to where that is seen.
    """

    read: tuple[str, ...]
    fused_source: str
    permute_source: str
    spanning_source: str
    direct_quantizations: dict[str, str]
    rules: tuple[Rule, ...]
    runners: dict[str, Runner]
    a2a: dict[str, AllToAll]

    def has(self, version: str | None, *, since: str | None, until: str | None) -> bool | None:
        """Whether a release has what was seen from ``since`` to ``until``; ``None``: unknown.

        Without a version the latest read is meant. What holds for two releases read is taken to
        hold between them, and the latest still for newer ones. Nothing is claimed for releases
        older than the first read, or for those between one that has it and one that hasn't.
        """
        read = [number(release) for release in self.read]
        asked = read[-1] if version is None else number(version)
        first = read[0] if since is None else number(since)
        if not asked or asked < read[0]:
            return None
        if asked < first:
            return False if any(asked <= release < first for release in read) else None
        if until is None or asked <= number(until):
            return True
        return False if any(number(until) < release <= asked for release in read) else None

    def holds(self, claim: Claim, version: str | None) -> bool:
        """Whether ``claim`` is made for that release."""
        return self.has(version, since=claim.since, until=claim.until) is True


@functools.cache
def read_catalog() -> Catalog:
    """Return the table in ``catalog/sglang.toml``."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=Catalog)


def number(version: str) -> tuple[int, ...]:
    """The release's numbers; empty, so older than any, for what isn't a version."""
    found = _VERSION.match(version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
