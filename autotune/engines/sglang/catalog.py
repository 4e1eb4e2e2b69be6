"""What SGLang's sources say about its MoE runners: which combinations can't work, and why.

The table is ``catalog/sglang.toml``; the tests in ``tests/sglang`` hold it against installed and
unpacked releases. Where it says nothing, a combination is worth a try. Standard library and
msgspec only: a server's start-up imports this.
"""

from collections.abc import Iterator, Mapping

import msgspec

from autotune.decisions.request import AUTO
from autotune.engines.sglang.table import AllToAll, Catalog, Claim, Rule, Runner, number

NO_A2A = "none"


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about, the alias resolved."""

    backend: str
    quantization: str
    arch: str | None
    a2a: str
    mode: str | None
    tp: int
    ep: int
    version: str | None


def effective_ep(catalog: Catalog, *, a2a_backend: str, ep: int, tp: int) -> int:
    """Return the ep that SGLang runs with: some all-to-all backends raise it to tp."""
    row = catalog.a2a.get(a2a_backend)
    return tp if row is not None and row.spans_tp else ep


def refusal(
    catalog: Catalog,
    *,
    backend: str,
    quantization: str,
    arch: str | None,
    a2a_backend: str,
    a2a_mode: str | None,
    tp: int,
    ep: int,
    engine_version: str | None,
    settings: Mapping[str, str] | None = None,
) -> str | None:
    """Return one sentence that says why the combination can't work, ``None`` if none is known.

    ``settings`` are the server arguments that aren't at their default, if that is known.
    ``auto`` is never refused for its own sake. Only what the table claims for
    ``engine_version`` counts; without a version, that is the latest release read.
    """
    runner = catalog.runners.get(backend)
    if runner is None and backend != AUTO:
        return f"{backend} is no MoE runner of SGLang {_span(catalog)}"
    alias = runner.alias_of_a2a if runner is not None else None
    if runner is not None and alias is not None and a2a_backend not in (NO_A2A, alias):
        said = f"{backend} stands for a2a_backend {alias}: SGLang would replace {a2a_backend}"
        return _cited(catalog, said, runner.source, engine_version)
    exchange = catalog.a2a.get(alias or a2a_backend)
    if exchange is None:
        return f"{a2a_backend} is no all-to-all backend of SGLang {_span(catalog)}"
    if runner is not None and settings is not None:
        for name, value in runner.needs_settings.items():
            if settings.get(name) != value:
                given = "" if value == "true" else f" {value}"
                said = f"{backend} needs --{name.replace('_', '-')}{given}"
                return _cited(catalog, said, runner.source, engine_version)
    case = _Case(
        backend=backend,
        quantization=quantization,
        arch=arch,
        a2a=alias or a2a_backend,
        mode=exchange.default_mode if a2a_mode is None else a2a_mode,
        tp=tp,
        ep=ep,
        version=engine_version,
    )
    return next(_reasons(catalog, case, runner, exchange), None)


def _reasons(
    catalog: Catalog, case: _Case, runner: Runner | None, exchange: AllToAll
) -> Iterator[str]:
    """Every reason against ``case``, the most telling first."""
    for name, claim in ((case.backend, runner), (f"a2a_backend {case.a2a}", exchange)):
        if claim is not None and _absent(catalog, case, claim):
            release = case.version or catalog.read[-1]
            yield f"SGLang {release} has no {name}: other releases do ({claim.source})"
    yield from _exchange_reasons(catalog, case, exchange)
    for rule in (*exchange.rules, *(runner.rules if runner is not None else ()), *catalog.rules):
        if catalog.holds(rule, case.version) and _applies(rule, case):
            for said in _broken(rule, case):
                yield _cited(catalog, said + _because(rule.note), rule.source, case.version)
    if runner is not None and not exchange.skips_runner:
        yield from _missing_paths(catalog, case, runner, exchange)


def _absent(catalog: Catalog, case: _Case, claim: Claim) -> bool:
    return catalog.has(case.version, since=claim.since, until=claim.until) is False


def _exchange_reasons(catalog: Catalog, case: _Case, exchange: AllToAll) -> Iterator[str]:
    """What the all-to-all backend itself says of the sizes and the mode."""
    if not catalog.holds(exchange, case.version):
        return
    if exchange.spans_tp and case.ep != case.tp:
        said = f"SGLang raises ep from {case.ep} to tp = {case.tp} with a2a_backend {case.a2a}"
        yield _cited(catalog, said, catalog.spanning_source, case.version)
    if case.mode is None:
        return
    with_mode = catalog.has(case.version, since=exchange.mode_since, until=None)
    if exchange.mode_argument is None or with_mode is False:
        said = f"a2a_backend {case.a2a} has no mode, so that {case.mode} can't be asked for"
        yield _cited(catalog, said, exchange.source, case.version)
    elif with_mode and case.mode not in exchange.modes:
        said = f"{exchange.mode_argument} takes {_either(exchange.modes)}, not {case.mode}"
        yield _cited(catalog, said, exchange.source, case.version)


def _applies(rule: Rule, case: _Case) -> bool:
    conditions = (
        (rule.when_quantizations, case.quantization),
        (rule.when_archs, case.arch),
        (rule.when_a2a, case.a2a),
        (rule.when_modes, case.mode),
    )
    if rule.when_cuda and not (case.arch or "").startswith("sm"):
        return False
    return all(not names or value in names for names, value in conditions)


def _broken(rule: Rule, case: _Case) -> Iterator[str]:
    """What ``case`` breaks of a rule that applies to it."""
    asked = [case.quantization] if rule.when_quantizations else []
    asked += [f"a2a_backend {case.a2a}"] if rule.when_a2a or rule.when_modes else []
    whom = f"{case.backend} with {' and '.join(asked)}" if asked else case.backend
    allowed = (*rule.quantizations, *rule.open_quantizations)
    if rule.quantizations and case.quantization not in allowed:
        yield f"{whom} takes quantization {_either(allowed)}, not {case.quantization}"
    if case.quantization in rule.not_quantizations:
        yield f"{whom} doesn't take quantization {case.quantization}"
    if rule.archs and case.arch is not None and case.arch not in rule.archs:
        yield f"{whom} runs on {_either(rule.archs)}, not on {case.arch}"
    if rule.a2a and case.a2a not in rule.a2a:
        yield f"{whom} takes a2a_backend {_either(rule.a2a)}, not {case.a2a}"
    if rule.modes and case.mode is not None and case.mode not in rule.modes:
        yield f"{whom} takes mode {_either(rule.modes)}, not {case.mode}"
    if rule.runners and case.backend not in (AUTO, *rule.runners):
        what = case.quantization if rule.when_quantizations else f"a2a_backend {case.a2a}"
        yield f"{what} takes the runner {_either(rule.runners)}, not {case.backend}"
    sizes = {"1": 1, "tp": case.tp}
    if rule.ep and case.ep not in [sizes[name] for name in rule.ep]:
        yield f"{whom} needs ep = {_either(rule.ep)}, not {case.ep}"


def _missing_paths(
    catalog: Catalog, case: _Case, runner: Runner, exchange: AllToAll
) -> Iterator[str]:
    """Fused functions are keyed by all-to-all backend, conversions by its dispatch format."""

    def unregistered(register: dict[str, str], key: str) -> bool:
        if key not in register:
            return catalog.holds(runner, case.version)
        return catalog.has(case.version, since=register[key], until=None) is False

    paths = runner.fused or runner.permutes
    if not paths or case.quantization in catalog.direct_quantizations:
        return
    if not unregistered(runner.fused, case.a2a):
        return
    if not runner.permutes:
        said = f"SGLang registers no fused function for {case.backend} with a2a_backend {case.a2a}"
        yield _cited(catalog, said, catalog.fused_source, case.version)
    for name in exchange.formats.get(case.mode or "", exchange.formats.get("any", ())):
        if runner.permutes and unregistered(runner.permutes, name):
            said = f"SGLang registers no conversion to {case.backend} of what a2a_backend "
            said += f"{case.a2a} puts out ({name})"
            yield _cited(catalog, said, catalog.permute_source, case.version)


def _cited(catalog: Catalog, said: str, source: str, version: str | None) -> str:
    """A reason with its place, and with the release it was read in where a newer one runs."""
    newer = version is not None and number(version) > number(catalog.read[-1])
    return f"{said} ({source}{f' in {catalog.read[-1]}' if newer else ''})"


def _because(note: str) -> str:
    return f": {note}" if note else ""


def _span(catalog: Catalog) -> str:
    return f"{catalog.read[0]} to {catalog.read[-1]}, which the catalog was read in"


def _either(names: tuple[str, ...]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
