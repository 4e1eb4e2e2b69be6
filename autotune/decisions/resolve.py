"""From a launch to its backend: disabled? explicit? a file? in scope? fresh? then applied.

No clock, no environment: what isn't in the request or in the store's files has no influence.
"""

from collections.abc import Iterable, Sequence

import msgspec

from autotune.decisions.freshness import freshness, utc_day
from autotune.decisions.request import ResolveRequest
from autotune.decisions.resolution import ACCEPTED, Resolution, Status, answer
from autotune.decisions.schema import DecisionKey, Entry
from autotune.decisions.scope import Finding, Kind, compare, serves
from autotune.decisions.store import Broken, Found, Store
from autotune.errors import UsageError


class _Match(msgspec.Struct, frozen=True):
    """An entry that may serve the arch, with everything that differs from the launch."""

    found: Found
    entry: Entry
    findings: tuple[Finding, ...]

    def of(self, *kinds: Kind) -> list[str]:
        return [finding.text for finding in self.findings if finding.kind in kinds]

    def rank(self) -> tuple[bool, int, int, bytes]:
        """Fresh before stale, then fewest differences, newest; the rest only fixes the order."""
        day = utc_day(self.entry.evidence.measured_at)
        return (
            bool(self.of("stale")),
            len(self.of("soft", "unrecorded", "assumed")),
            -day.toordinal() if day else 0,
            _encoded(self),
        )


def resolve(request: ResolveRequest, store: Store) -> Resolution:
    """Return the backend for a launch and why; whatever is wrong is an answer, not an exception."""
    explicit = request.explicit
    if request.disabled:
        return answer(request, "disabled", reason="autotune is switched off", backend=explicit)
    if explicit is not None:
        return answer(
            request, "explicit", reason=f"{explicit} was asked for and is kept", backend=explicit
        )
    try:
        key = DecisionKey(request.model, request.quantization, request.arch)
    except UsageError as error:
        return answer(request, "no_decision", reason=str(error))
    return _look_up(request, store, key=key)


def _look_up(request: ResolveRequest, store: Store, *, key: DecisionKey) -> Resolution:
    """Ask the key's own file, then the files of other archs whose entries list this arch."""
    troubles = list(store.problems())
    own = store.find(key)
    if isinstance(own, Broken):
        return _invalid(request, own, troubles=troubles)
    from_own = None if own is None else _choose(request, [own], troubles=troubles)
    if from_own is not None and from_own.status != "out_of_scope":
        return from_own
    lenders: list[Found] = []
    for other in store.kin(key):
        if isinstance(other, Broken):
            # It may be the one that lists this arch: not knowing isn't the same as no.
            return _invalid(request, other, troubles=troubles)
        lenders.append(other)
    lent = _choose(request, lenders, beside=own, troubles=troubles)
    if from_own is None:
        return lent or _no_decision(request, store, key=key, lenders=lenders, troubles=troubles)
    # Where neither is in scope, the arch's own file has the better reasons.
    return from_own if lent is None or lent.status == "out_of_scope" else lent


def _choose(
    request: ResolveRequest,
    files: Iterable[Found],
    *,
    troubles: Sequence[str],
    beside: Found | None = None,
) -> Resolution | None:
    """Answer from these files' entries; ``None`` where none of them may serve the arch.

    ``beside`` is a file with nothing in scope, whose geometries the model may have nevertheless.
    """
    matches = [
        _Match(found, entry, _findings(entry, request, file_arch=found.decision.key.arch))
        for found in files
        for entry in found.decision.entries
        if serves(entry.scope, request.arch, file_arch=found.decision.key.arch)
    ]
    if not matches:
        return None
    entries = [match.entry for match in matches]
    if beside is not None:
        entries.extend(beside.decision.entries)
    geometries = sorted({entry.scope.geometry for entry in entries})
    if request.geometry is None and len(geometries) > 1:
        return answer(
            request,
            "out_of_scope",
            reason="measured for several geometries ("
            + " / ".join(map(str, geometries))
            + "): say which one the model has with --geometry",
            file=matches[0].found.path,
            warnings=troubles,
        )
    in_scope = [match for match in matches if not match.of("hard")]
    if not in_scope:
        return _out_of_scope(request, matches, troubles=troubles)
    best = min(in_scope, key=_Match.rank)
    stale = best.of("stale")
    return _matched(
        request,
        best,
        status="stale" if stale else "applied",
        reason="; ".join(stale) or _figures(best.entry, request),
        troubles=troubles,
    )


def _findings(entry: Entry, request: ResolveRequest, *, file_arch: str) -> tuple[Finding, ...]:
    return (*compare(entry, request, file_arch=file_arch), *freshness(entry, request))


def _matched(
    request: ResolveRequest, match: _Match, *, status: Status, reason: str, troubles: Sequence[str]
) -> Resolution:
    accepted = _acceptance(match.entry)
    mismatches = match.of("soft")
    unrecorded, assumed = match.of("unrecorded"), match.of("assumed")
    warnings = [f"{ACCEPTED}{sentence}" for sentence in accepted] + mismatches + match.of("note")
    if unrecorded:
        warnings.append(f"not recorded in the decision: {', '.join(unrecorded)}")
    if assumed:
        warnings.append(f"not given, so assumed to be as measured: {', '.join(assumed)}")
    for other in match.found.shadowed:
        warnings.append(f"{match.found.path} shadows {other}")
    return answer(
        request,
        status,
        reason=reason + (f"; accepted in spite of: {'; '.join(accepted)}" if accepted else ""),
        backend=match.entry.choice.backend if status == "applied" else None,
        warnings=[*warnings, *troubles],
        mismatches=mismatches,
        file=match.found.path,
        entry=match.entry,
    )


def _acceptance(entry: Entry) -> tuple[str, ...]:
    """Say what was accepted; an entry that shouldn't be there without it says that, too."""
    choice = entry.choice
    if entry.evidence.accepted:
        return entry.evidence.accepted
    doubts = [f"its outcome is {choice.outcome}"] if choice.outcome == "open" else []
    if choice.verdict != "pass":
        doubts.append(f"its verdict is {choice.verdict}")
    return tuple(f"{doubt}, and nobody is recorded as having accepted it" for doubt in doubts)


def _figures(entry: Entry, request: ResolveRequest) -> str:
    """Say how the choice was measured. Only measured concurrencies are named: none is inferred."""
    choice, scope = entry.choice, entry.scope
    points = sorted(
        {row.concurrency for row in entry.evidence.rows if row.candidate == choice.candidate}
    )
    day = utc_day(entry.evidence.measured_at)
    age = ""
    if day and request.today and request.today >= day:
        days = (request.today - day).days
        age = f" ({days} day{'' if days == 1 else 's'} ago)"
    hardware = f"{scope.device_count or '?'}x{scope.device_name or 'unrecorded device'}"
    parts = [
        f"{choice.backend} at concurrency {'/'.join(map(str, points)) or 'unrecorded'}",
        # A published table doesn't tell when it was measured: its day is that of the import.
        f"{'imported' if entry.evidence.source else 'measured'} on {day or 'an unknown day'}{age}",
        hardware,
        f"{scope.engine} {scope.engine_version or 'of unrecorded version'}",
        f"geometry {scope.geometry}",
        choice.outcome,
    ]
    if choice.ratio is not None and choice.baseline is not None:
        parts.append(f"{choice.ratio:.2f}x {choice.baseline}")
    return ", ".join(parts)


def _out_of_scope(
    request: ResolveRequest, matches: Sequence[_Match], *, troubles: Sequence[str]
) -> Resolution:
    """Name what rules out the nearest entry; the others differ in more."""
    nearest = min(matches, key=lambda match: (len(match.of("hard")), match.rank()))
    which = "the entry" if len(matches) == 1 else f"the nearest of {len(matches)} entries"
    return answer(
        request,
        "out_of_scope",
        reason=f"{which} doesn't fit: {'; '.join(nearest.of('hard'))}",
        file=nearest.found.path,
        warnings=troubles,
    )


def _no_decision(
    request: ResolveRequest,
    store: Store,
    *,
    key: DecisionKey,
    lenders: Sequence[Found],
    troubles: Sequence[str],
) -> Resolution:
    folders = ", ".join(store.paths) or "no folder at all"
    reason = f"no decision for {key}"
    if lenders:
        archs = ", ".join(found.decision.key.arch for found in lenders)
        reason += f"; there is one for {archs}, which doesn't list {key.arch} in also_arch"
    return answer(request, "no_decision", reason=f"{reason}; searched {folders}", warnings=troubles)


def _invalid(request: ResolveRequest, broken: Broken, *, troubles: Sequence[str]) -> Resolution:
    return answer(request, "invalid", reason=broken.reason, file=broken.path, warnings=troubles)


def _encoded(match: _Match) -> bytes:
    return match.found.path.encode(errors="surrogateescape") + msgspec.json.encode(
        match.entry, order="sorted"
    )
