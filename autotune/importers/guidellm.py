"""``guidellm``'s reports: one JSON file with a benchmark for each load that was asked for.

Read are the present layout (``metadata.version`` 2, guidellm 0.7 and 0.8), the one before it
(version 1, 0.4 to 0.6; 0.4.0 didn't number it yet) and the first one, without ``args``. Only a
benchmark with a fixed number of streams has a concurrency; the others send at a rate. Figures are
those of ``successful`` requests.
``docs/importing.md`` has each field with its unit, and what isn't taken.
"""

import datetime
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from autotune.decisions import one_line
from autotune.errors import InputError
from autotune.importers.contradictions import check_order, check_ranks, check_rate
from autotune.importers.json_file import Fields, has_keys, parse_object
from autotune.importers.reading import Reading, Readings, shared_facts
from autotune.importers.source_file import head, read_text
from autotune.records.schema import Distribution, MeasurementWarning, PointFigures

NAME = "guidellm"
_LAYOUTS = (1, 2)
_MS = 1e-3
_PERCENTILES = ("p50", "p90", "p95", "p99")
# A label under which somebody may have noted the backend: ``--label backend=triton``.
_BACKEND_LABELS = ("backend", "moe_backend", "moe_runner_backend")
# Layouts 1 and 2 before this release count a token rate from the first token to the last one of
# all requests, not over ``duration``.
_RATES_OF_DURATION = (0, 7, 4)
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
# Up to this share of requests still running when time was up, rates are what they say.
_CUT_SHARE = 0.02
_INCLUDES_FIRST = "time_per_output_token_ms: counts the first token in, so that it isn't our tpot_s"
_WEIGHTED = (
    "percentiles of inter_token_latency_ms: of answers, each weighted by its length, where "
    "itl_s is of single tokens and tpot_s of answers"
)

_RATES_OF_ANOTHER_TIME = MeasurementWarning(
    code="rates_of_another_time",
    observed="this release of guidellm counts token rates from the first token to the last one, "
    "of requests that lie partly in the warm-up or cool-down too",
    threshold="over the measured time",
    remedy="compare with reports of the same release alone, or measure with guidellm 0.7.4 or "
    "later",
)


def looks_like(path: Path) -> bool:
    """Whether the file begins like a report, which may be cut."""
    text = head(path).lstrip()
    named = has_keys(text, "guidellm_version") or '"generative_benchmark"' in text
    return text.startswith("{") and has_keys(text, "benchmarks") and named


def read(path: Path) -> Readings:
    """Read a report, all of it or nothing.

    Raises:
        InputError: it's cut, broken or contradicts itself, is of a layout that isn't known, or
            holds a secret, or has no benchmark that can be taken; the place in the file is named.
    """
    source = read_text(path)
    report = parse_object(source)
    version = _check_layout(report)
    benchmarks = report.items("benchmarks")
    if not benchmarks:
        raise report.error("benchmarks", "holds no benchmark: nothing was measured")
    backend = _label(report)
    of_duration = version is None or _rates_of_duration(report)
    readings: list[Reading] = []
    facts: list[tuple[str, dict[str, str]]] = []
    taken: list[Fields] = []
    skipped: list[str] = []
    for index, content in enumerate(benchmarks):
        where = f"{source.where}: benchmarks[{index}]"
        if not isinstance(content, dict):
            raise InputError(f"{where}: isn't an object")
        benchmark = Fields(where=where, content=content)
        streams = _streams(benchmark)
        if isinstance(streams, str):
            skipped.append(f"{where}: {streams}")
            continue
        readings.append(
            _reading(benchmark, streams=streams, backend=backend, of_duration=of_duration)
        )
        taken.append(benchmark)
        facts.append((where, _facts(report, benchmark, version)))
    if not readings:
        raise InputError(f"{source.where}: nothing to import: {'; '.join(skipped[:4])}")
    if any(reading.requests_ok for reading in readings):
        skipped.append(f"{source.where}: {_INCLUDES_FIRST}")
    if any(reading.figures.itl_s.mean and not reading.figures.tpot_s.mean for reading in readings):
        skipped.append(f"{source.where}: {_WEIGHTED}")
    return Readings(
        format=NAME,
        where=source.where,
        readings=tuple(readings),
        facts=shared_facts(facts) | _lengths(taken),
        skipped=tuple(skipped),
        files={path.name: source.sha256},
        rows=len(benchmarks),
    )


def _check_layout(report: Fields) -> int | None:
    """Return the layout's version, ``None`` for the first one."""
    metadata = report.fields("metadata")
    if metadata is None:
        return None if report.fields("args") is None else 1
    version = metadata.count("version")
    if version not in _LAYOUTS:
        raise metadata.error(
            "version", f"layout {version} isn't known: known are 1 and 2 (guidellm 0.4 to 0.8)"
        )
    return version


def _rates_of_duration(report: Fields) -> bool:
    """Whether the report's release counts token rates over the benchmark's ``duration``."""
    metadata = report.fields("metadata")
    told = metadata.text("guidellm_version") if metadata is not None else None
    release = _RELEASE.match(told or "")
    return release is not None and tuple(map(int, release.groups())) >= _RATES_OF_DURATION


def _label(report: Fields) -> str | None:
    """The backend that was noted with ``--label``, which only the present layout has."""
    config = report.fields("config")
    metadata = config.fields("metadata") if config is not None else None
    labels = metadata.fields("labels") if metadata is not None else None
    if labels is None:
        return None
    found = {key: name for key in _BACKEND_LABELS if (name := labels.text(key)) is not None}
    if len(set(found.values())) > 1:
        raise InputError(f"{labels.where}: {' and '.join(found)} differ: keep one")
    return next(iter(found.values()), None)


def _streams(benchmark: Fields) -> int | str:
    """How many requests were in flight, or why nobody can say."""
    config = benchmark.fields("config") or benchmark.fields("args")
    strategy = config.fields("strategy") if config is not None else None
    if strategy is None:
        raise benchmark.error("config", "has no strategy: not a guidellm report, or a cut one")
    kind = strategy.text("type_")
    if kind == "synchronous":
        return 1
    if kind == "concurrent":
        streams = strategy.count("streams", least=1)
        if streams is None:
            raise strategy.error("streams", "isn't there: how many requests were in flight?")
        return streams
    if kind == "throughput":
        return "strategy throughput sends all at once: no number in flight is held"
    return (
        f"strategy {one_line(str(kind), limit=40)} sends at a rate of its own: an open loop, which "
        "can't be compared at a concurrency"
    )


def _reading(benchmark: Fields, *, streams: int, backend: str | None, of_duration: bool) -> Reading:
    metrics = benchmark.fields("metrics")
    if metrics is None:
        raise benchmark.error("metrics", "isn't there: not a guidellm report, or a cut one")
    totals = metrics.fields("request_totals") or benchmark.fields("request_totals")
    good = totals.count("successful") if totals is not None else None
    if totals is None or good is None:
        raise metrics.error("request_totals", "doesn't say how many requests succeeded")
    errored, cut = totals.count("errored") or 0, totals.count("incomplete") or 0
    figures = _figures(benchmark, metrics, streams=streams, good=good)
    warnings = _cut_short(cut, good)
    if not of_duration and _is_whole_run(benchmark):
        figures = _over_duration(figures, good)
    elif not of_duration and figures.output_tokens_per_s is not None:
        warnings += (_RATES_OF_ANOTHER_TIME,)
    return Reading(
        where=benchmark.where,
        backend=backend,
        concurrency=streams,
        repeat=None,
        figures=figures,
        # Those that were stopped when time or requests were up didn't fail.
        requests_sent=good + errored,
        requests_ok=good,
        started_at=_utc(benchmark.number("start_time")),
        warnings=warnings,
        in_progress=_mean(metrics, "request_concurrency") if good else None,
    )


def _figures(benchmark: Fields, metrics: Fields, *, streams: int, good: int) -> PointFigures:
    if not good:
        return PointFigures()
    window = benchmark.figure("duration")
    means = {name: _mean(metrics, name) for name in _MEANS}
    output_rate, request_rate = means["output_tokens_per_second"], means["requests_per_second"]
    tokens = means["output_token_count"]
    where = metrics.where
    # Requests that begin before the window or end after it count in totals, but not in rates.
    edges = 2 * streams
    check_rate(where, "requests_per_second", request_rate, count=good, seconds=window, edges=edges)
    if tokens is not None:
        check_rate(
            where,
            "output_tokens_per_second",
            output_rate,
            count=tokens * good,
            seconds=window,
            edges=tokens * edges,
        )
    ttft, latency = (
        _distribution(metrics, "time_to_first_token_ms", factor=_MS),
        _distribution(metrics, "request_latency"),
    )
    check_order(where, ttft, latency, names="time_to_first_token_ms and request_latency")
    gaps = _distribution(metrics, "inter_token_latency_ms", factor=_MS)
    one_length = _exact(metrics, "output_token_count") is not None
    # A request whose input nobody counted counts as 0, also in the total.
    uncounted = _least(metrics, "prompt_token_count") == 0
    return PointFigures(
        output_tokens_per_s=output_rate,
        whole_run_output_tokens_per_s=output_rate if _is_whole_run(benchmark) else None,
        total_tokens_per_s=None if uncounted else means["tokens_per_second"],
        requests_per_s=request_rate,
        window_s=window,
        input_tokens_mean=None if uncounted else means["prompt_token_count"],
        output_tokens_mean=tokens,
        ttft_s=ttft,
        latency_s=latency,
        # All weights are equal where all answers have the same length.
        tpot_s=_per_answer(gaps, good) if one_length else Distribution(),
        itl_s=Distribution(mean=gaps.mean),
    )


def _over_duration(figures: PointFigures, good: int) -> PointFigures:
    """Count the token rates of a whole run over its time, the wait for the first token included.

    Nothing is guessed: all tokens and the time are known. Where they aren't, there is no rate.
    """
    told, total = figures.output_tokens_per_s, figures.total_tokens_per_s
    tokens, window = figures.output_tokens_mean, figures.window_s
    output = tokens * good / window if tokens is not None and window is not None else None
    # Both were divided by the same time.
    total = total * (output / told) if total and output and told else None
    return msgspec.structs.replace(
        figures,
        output_tokens_per_s=output,
        whole_run_output_tokens_per_s=output,
        total_tokens_per_s=total,
    )


_MEANS = (
    "requests_per_second",
    "output_tokens_per_second",
    "tokens_per_second",
    "prompt_token_count",
    "output_token_count",
)


def _successful(metrics: Fields, name: str) -> Fields | None:
    by_status = metrics.fields(name)
    return by_status.fields("successful") if by_status is not None else None


def _mean(metrics: Fields, name: str) -> float | None:
    summary = _successful(metrics, name)
    return summary.figure("mean", zero_is_none=True) if summary is not None else None


def _least(metrics: Fields, name: str) -> float | None:
    summary = _successful(metrics, name)
    return summary.number("min") if summary is not None else None


def _distribution(metrics: Fields, name: str, *, factor: float = 1.0) -> Distribution:
    """Return a metric of requests. guidellm writes 0 for a request that it has no value of."""
    summary = _successful(metrics, name)
    if summary is None or summary.number("min") == 0:
        return Distribution()
    count, mean = summary.count("count"), summary.figure("mean", factor=factor, zero_is_none=True)
    if not count or mean is None:
        return Distribution()
    ranks = summary.fields("percentiles") or Fields(where=summary.where, content={})
    parts = {part: ranks.figure(part, factor=factor, zero_is_none=True) for part in _PERCENTILES}
    found = Distribution(n=count, mean=mean, **parts)
    check_ranks(metrics.where, name, found)
    return found


def _per_answer(gaps: Distribution, good: int) -> Distribution:
    """The gaps' distribution, which is over answers, with how many answers there are."""
    if gaps.mean is None:
        return Distribution()
    return Distribution(
        n=good, mean=gaps.mean, p50=gaps.p50, p90=gaps.p90, p95=gaps.p95, p99=gaps.p99
    )


def _exact(metrics: Fields, name: str) -> int | None:
    """The one number of tokens that each request has, ``None`` where they differ."""
    summary = _successful(metrics, name)
    if summary is None:
        return None
    low, high = summary.number("min"), summary.number("max")
    whole = low is not None and low == high and low >= 1 and low.is_integer()
    return int(low) if whole and low is not None else None


def _is_whole_run(benchmark: Fields) -> bool:
    """Whether nothing was cut off as warm-up or cool-down."""
    config = benchmark.fields("config")
    if config is None:
        args = benchmark.fields("args")
        ends, limits = ("warmup", "cooldown"), ("number", "duration")
        keys = [f"{end}_{limit}" for end in ends for limit in limits]
        return args is not None and not any(args.number(key) for key in keys)
    phases = [config.fields(name) for name in ("warmup", "cooldown")]
    return not any(
        phase.number(key) for phase in phases if phase is not None for key in ("percent", "value")
    )


def _facts(report: Fields, benchmark: Fields, version: int | None) -> dict[str, str]:
    """The model's name, and what was asked."""
    config = benchmark.fields("config")
    server = config.fields("backend") if config is not None else benchmark.fields("worker")
    model = server.text("model" if config is not None else "backend_model") if server else None
    found = {"workload": _data(report, benchmark, version)}
    if model is not None:
        found["model"] = model
    return found


def _lengths(benchmarks: Sequence[Fields]) -> dict[str, str]:
    """The tokens of a request, in and out, where all requests of all benchmarks have as many."""
    found = {}
    for fact, name in (("isl", "prompt_token_count"), ("osl", "output_token_count")):
        metrics = [each.fields("metrics") for each in benchmarks]
        lengths = {_exact(each, name) for each in metrics if each is not None}
        length = lengths.pop()
        if not lengths and length is not None:
            found[fact] = str(length)
    return found


def _data(report: Fields, benchmark: Fields, version: int | None) -> str:
    """What requests were made of, in the file's own words, for comparison alone."""
    if version is None:
        loader = benchmark.fields("request_loader")
        said = loader.content.get("data") if loader is not None else None
    else:
        config = report.fields("config") or report.fields("args")
        spec = config.fields("spec") if config is not None else None
        said = (spec or config or report).content.get("data")
    if isinstance(said, list) and all(isinstance(each, dict) for each in said):
        said = [{k: v for k, v in each.items() if v not in (None, [], {})} for each in said]
    text = re.sub(r"[\"'\s\\{}\[\]]+", " ", str(said)) if said else ""
    return one_line(text.strip())


def _cut_short(cut: int, good: int) -> tuple[MeasurementWarning, ...]:
    if cut <= _CUT_SHARE * (cut + good):
        return ()
    return (
        MeasurementWarning(
            code="requests_cut_short",
            observed=f"{cut} requests were stopped when the benchmark's time was up",
            threshold=f"{_CUT_SHARE:.0%} of all",
            remedy="read the throughput as a lower bound: it leaves their tokens out; or measure "
            "longer, or by a number of requests",
        ),
    )


def _utc(stamp: float | None) -> str | None:
    if stamp is None or stamp <= 0:
        return None
    try:
        time = datetime.datetime.fromtimestamp(stamp, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="seconds")
