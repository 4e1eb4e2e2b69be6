"""What the words of a benchmark table mean: a column's role, a metric, a unit, a concurrency.

People write "Output throughput (tok/s)", "P99 TTFT ms", "triton tok/s", "c=16", "Δ vs main". A
label is taken apart into what is known, and what remains is a name. Words that could mean two
things mean none: the caller asks.
"""

import re
from dataclasses import dataclass

from autotune.importers.markdown_table_text import plain, without_pictures

_START, _END = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"{_START}(?:{'|'.join(patterns)}){_END}", re.IGNORECASE)


# What is in a column whose header is just this.
_ROLES = {
    "concurrency": (
        r"(?:max(?:imum)? |num(?:ber of)? |target |client )?(?:request )?"
        r"(?:conc|concurrency|concurrencies)(?: level| limit)?|c|concurrent|users|streams|"
        r"(?:max |num(?:ber of)? )?(?:concurrent|parallel) (?:requests|reqs|users|clients|streams)|"
        r"(?:requests )?in ?flight(?: requests)?"
    ),
    "backend": (
        r"(?:moe )?(?:runner )?backends?|moe|moe[ -]runner|runner|(?:moe )?kernels?|"
        r"(?:moe )?impl(?:ementation)?|variant|config|configuration|candidate|arm|method"
    ),
    "metric": r"metrics?|measure|measurement",
    "unit": r"units?",
    "repeat": r"run|rep|repeat|repetition|round|trial",
    "rate": r"(?:target |max )?(?:request rate|req rate|rate|qps|rps)",
    "other axis": (
        r"(?:max |global |decode )?(?:batch|batch size|bs|b)|m|n|n req|tokens|num tokens|"
        r"(?:num(?:ber of)? |total )?(?:prompts|requests|reqs)|seq len|sequence length"
    ),
    "isl": r"isl|input (?:len|length|tokens|seq len|sequence length)|prompt (?:len|length)",
    "osl": r"osl|output (?:len|length|tokens|seq len|sequence length)",
    "isl osl": r"(?:shape )?isl osl|input output(?: len| length)?",
    "model": r"model",
    "gpu": r"gpu|gpus|hardware|device",
    "quant": r"quant|quantization|precision|dtype",
    "tp": r"tp|tp size",
    "ep": r"ep|ep size",
    "dp": r"dp|dp size",
    "engine": r"engine|framework",
    "number": r"no|nr|idx|index|id|row",
}
_PLAIN = re.compile(r"[^a-z0-9]+")
# Not measured: said of what was, or a number to compare by.
_COMPARED = _words(
    r"changes?|delta|diff(?:erence)?|speed[- ]?ups?|ratio|improvements?|gain|uplift|relative|"
    r"normali[sz]ed|vs\.?|versus|wins?|winner|best|notes?|comments?|remarks?|status|better|worse|"
    r"regression|faster|slower|verdict|p[- ]?values?|z[- ]?scores?"
)
_ALSO_COMPARED = re.compile(r"\s*[zt]\s*", re.IGNORECASE)
_MARKED = re.compile(r"[\u0394\u2206%\u00d7]|\s/\s")
_BETTER = re.compile(
    r"\(?(?:the )?(?:higher|lower)(?: is| =)? better\)?|[\u2191\u2193]", re.IGNORECASE
)
_PARTS = r"(?:gpu|user|device|card|rank|node|chip|gcd|replica|instance|worker|host)s?"
_PER_PART = re.compile(
    rf"(?:/|\bper\b|\beach\b|tput\b|throughput\b)[\s_-]*{_PARTS}\b|"
    rf"\b{_PARTS}[\s_-]+(?:tput|throughput|normali[sz]ed)\b|\b(?:tgs|tpgs|interactivity)\b",
    re.IGNORECASE,
)
# Of a rate of tokens: one stream's. A request's latency is no share.
_PER_REQUEST = re.compile(
    r"(?:/|\bper\b|\beach\b)[\s_-]*(?:req(?:uest)?|stream|seq(?:uence)?|slot|client)s?\b",
    re.IGNORECASE,
)
_UNITS = (
    ("tok/s", _words(r"(?:toks?|tokens?|t)\s?/\s?(?:s|secs?|second)", r"tokens per second",
                     r"(?:toks?|tokens?)[ _]per[ _]s(?:ec(?:ond)?)?", "tps")),
    ("req/s", _words(r"(?:reqs?|requests?)\s?/\s?(?:s|secs?|second)", r"requests per second",
                     "rps", "qps")),
    ("ms", _words(r"ms(?:\s?/\s?tok(?:en)?)?", "msecs?", "milliseconds?")),
    ("us", _words("us", "[\u00b5\u03bc]s", "microseconds?")),
    ("s", re.compile(r"[(\[,]\s*(?:s|secs?|seconds?)\s*(?=[)\],])|[\s_](?:s|secs?|seconds)$",
                     re.IGNORECASE)),
)  # fmt: skip
_TIMES = (
    ("ttft", _words(r"ttft", r"time[- ]to[- ](?:the )?first[- ]token")),
    ("tpot", _words(r"tpot", r"time[- ]per[- ]output[- ]token")),
    ("itl", _words(r"itl", r"inter[- ]?token[- ]latency")),
    (
        "e2e",
        _words(
            r"e2el?(?:[ _]+latency)?", r"end[- ]to[- ]end(?: request)?[ _]latency",
            r"request[ _]latency",
        ),
    ),
)  # fmt: skip
_STATISTICS = (
    ("mean", _words("mean", "avg\\.?", "average")),
    ("median", _words("median", "p50(?!\\.)")),
    ("p90", _words("p90(?!\\.)")),
    ("p95", _words("p95(?!\\.)")),
    ("p99", _words("p99(?!\\.)")),
)
_THROUGHPUT = _words("throughput", "tput", "thpt", "thruput")
_RATES = (
    ("request", _words("requests?", "reqs?")),
    ("output", _words("output", "out", "generation", "generated", "gen")),
    ("total", _words("total")),
)
# Of several runs, not of requests: "mean +/- sd", "median of 3 runs".
_OF_RUNS = re.compile(
    r"\b(?:mean|avg\.?|average|median)\s*(?:"
    r"(?:\u00b1|\+/-|\+-)\s*(?:1\s*)?(?:sd|std(?:ev|dev)?|sem?|\u03c3|ci|95\s*%\s*ci)\b|"
    r"(?:of|over|across)\s+(?:(?:the|all|last|best)\s+)?(?:[0-9]+|two|three|four|five)?\s*"
    r"(?:runs?|reps?|repeats?|repetitions?|trials?|launch(?:es)?|seeds?|starts?)\b|"
    r"(?:of|over|across)\s+[0-9]+\b)|"
    r"\b(?:over|across)\s+(?:[0-9]+|two|three|four|five)\s*(?:runs?|reps?|repeats?|trials?)\b",
    re.IGNORECASE,
)
# What a header may say of a whole server's rate without naming a backend.
_WHOLE_SERVER = _words("aggregated?", "overall", "system", "server", "cluster")
# Of a part of the load, or a statistic that has no place: another metric, whatever else is said.
_OTHER_RATE = _words(
    "peak", "min", "max", "input", "prefill", "prompt", "decode", "std(?:ev|dev)?", "stderr",
    "p10", "p25", "p75", "p99\\.9", "p999", "single[- ]stream",
)  # fmt: skip
_NOT_PLACED = _words(
    "duration", "latency", "time", "elapsed", "successful", "failed", "completed", "requests",
    "prompts", "tokens", "mem(?:ory)?", "util\\w*", "power", "energy", "acc(?:uracy)?", "gsm8k",
    "mmlu", "aime", "gpqa", "score", "t?flops", "gb", "gib", "bandwidth", "kv", "cache",
    "accept\\w*", "cost", "std(?:ev|dev)?", "stderr", "cv", "ci", "samples", "errors?",
    "achieved",
)  # fmt: skip
_OTHER_KIND = _words(
    "mem(?:ory)?", "power", "energy", "acc(?:uracy)?", "gsm8k", "mmlu", "aime", "gpqa", "score",
    "t?flops", "bandwidth",
)  # fmt: skip
# One number, not the first of several ("concurrency 1 to 128").
_COUNT = (
    r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?![\w.]*\w)"
    r"(?!\s*(?:,|-|\u2013|\u2014|/|\.\.+|to|and|&|through|\u2192)\s*(?:c\s?=?\s?)?[0-9])"
)
_CONCURRENCY = (
    re.compile(
        r"(?<![\w])(?:--)?(?:max(?:imum)?[-_ ]?)?(?:request[-_ ])?(?:concurrency|conc)"
        rf"(?:\s*(?:of|is|[=:@])\s*|\s*){_COUNT}",
        re.IGNORECASE,
    ),
    re.compile(rf"(?<![\w.-])c\s?[=:]?\s?{_COUNT}", re.IGNORECASE),
    re.compile(
        rf"(?<![\w.,]){_COUNT} (?:concurrent|parallel)(?: (?:requests|users|clients))?\b",
        re.IGNORECASE,
    ),
)
_MENTIONS = _words("concurrency", "concurrencies", "conc", "concurrent requests", "in flight")
_OTHER_AXIS = re.compile(r"(?<![\w])(?:bs|batch(?:[-_ ]?size)?|m)\s?[=:]?\s?[0-9]+", re.IGNORECASE)
_NAMED = re.compile(
    r"(?:--moe-(?:runner-)?backend[ =]|^\W*(?:moe[ _-]?)?(?:runner[ _-]?)?backend\s?[:=]\s?)"
    r"([\w.+-]+)",
    re.IGNORECASE,
)
# The words of a column of figures that says nothing of what they are of.
_JUST_VALUE = re.compile(
    r"(?:(?:^|\s)(?:values?|results?|measured|numbers?|figures?))+$", re.IGNORECASE
)
# Said in so many words; "--attention-backend" and a client's "--backend" are something else.
_FLAGGED = re.compile(
    r"(?:--moe-(?:runner-)?backend[ =]|(?<!\w)moe[ _-](?:runner[ _-])?backend\s?[:=]\s?)([\w.+-]+)",
    re.IGNORECASE,
)
_EDGES = " ,;:|/-\u2013\u2014_@="
_WHOLE = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7}")


_SHARE = "a part's share: how it was averaged isn't said"
_PART = "of a part of the load, or no statistic we keep"
_NO_FIGURE = "not a metric that has a place in the records"
_NO_SPEED = "accuracy, memory or power, not speed"
_TWO = "two metrics at once"
_COMPARISON = "compared or remarked, not measured"


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a header, a row's name or a caption says; ``None`` = nothing.

    Attributes:
        text: as it stands, without marks.
        concurrency: requests in flight.
        family: ``output_throughput``, ``total_throughput``, ``request_throughput``,
            ``throughput`` (of what isn't said), ``ttft``, ``tpot``, ``itl`` or ``e2e``.
        statistic: ``mean``, ``median``, ``p90``, ``p95`` or ``p99``.
        unit: ``tok/s``, ``req/s``, ``s``, ``ms`` or ``us``.
        averaged: whether it says that the figures are means or medians of several runs.
        name: what remains, e.g. a backend's.
        flagged: whether ``name`` is said to be a backend, as in ``--moe-runner-backend triton``.
        no_place: why it's nothing to import, e.g. a ratio.
    """

    text: str
    concurrency: int | None = None
    family: str | None = None
    statistic: str | None = None
    unit: str | None = None
    averaged: bool = False
    name: str | None = None
    flagged: bool = False
    no_place: str | None = None

    @property
    def says_metric(self) -> bool:
        """Whether it names a metric, a unit or a statistic, however incomplete."""
        return not self.no_place and any((self.family, self.statistic, self.unit))

    @property
    def says_other_metric(self) -> bool:
        """Whether it names a metric that has no place, in words that prose hardly holds."""
        return self.no_place in (_SHARE, _PART)

    @property
    def says_other_kind(self) -> bool:
        """Whether it names what isn't speed: of a heading, that all below it isn't."""
        return self.no_place == _NO_SPEED

    @property
    def compares(self) -> bool:
        """Whether it names a comparison or a remark."""
        return self.no_place == _COMPARISON


def role_of(text: str) -> str | None:
    """Return what a column with this header holds, if the header is one of the usual words."""
    shown = without_pictures(plain(text))
    if shown in ("#", "\u2116"):
        return "number"
    words = _PLAIN.sub(" ", shown.lower()).strip()
    for role, pattern in _ROLES.items():
        if re.fullmatch(pattern, words):
            return role
    return None


def whole(text: str) -> int | None:
    """Return a cell's whole number of at least 1 (``16``, ``1,024``), ``None`` if it's none."""
    match = _WHOLE.fullmatch(plain(text))
    return int(match[0].replace(",", "")) or None if match else None


def concurrency_in(text: str) -> int | None:
    """Return the requests in flight that a text names (``c=16``), ``None`` if none or several."""
    found = {match[1] for pattern in _CONCURRENCY for match in pattern.finditer(text)}
    return whole(found.pop()) if len(found) == 1 else None


def mentions_concurrency(text: str) -> bool:
    """Whether a text speaks of concurrencies, so that numbers in a row are meant to be some."""
    return bool(_MENTIONS.search(text))


def other_axis_in(text: str) -> bool:
    """Whether a text names a batch size or the like, which is no concurrency."""
    return bool(_OTHER_AXIS.search(text))


def read_label(text: str) -> Label:
    """Take a header, a row's name or a caption apart."""
    whole_text = without_pictures(plain(text))
    left = _BETTER.sub(" ", whole_text)
    averaged = bool(_OF_RUNS.search(left))
    left = _OF_RUNS.sub(" ", left)
    if _COMPARED.search(left) or _MARKED.search(left) or _ALSO_COMPARED.fullmatch(left):
        return Label(text=whole_text, no_place=_COMPARISON)
    named = _NAMED.search(left)
    if named:
        left = f"{left[: named.start()]} {left[named.end() :]}"
    flagged = set(_FLAGGED.findall(whole_text))
    concurrency = concurrency_in(left)
    for pattern in _CONCURRENCY:
        left = pattern.sub(" ", left) if concurrency is not None else left
    if _PER_PART.search(left):
        return Label(text=whole_text, no_place=_SHARE)
    left = _WHOLE_SERVER.sub(" ", left)
    unit, rest = _first(_UNITS, left)
    if unit == "tok/s" and _PER_REQUEST.search(left):
        return Label(text=whole_text, no_place=_SHARE)
    time, rest = _first(_TIMES, rest)
    statistic, rest = _first(_STATISTICS, rest)
    rest = _PER_REQUEST.sub(" ", rest) if time == "e2e" else rest
    said_rate = bool(_THROUGHPUT.search(rest)) or unit in ("tok/s", "req/s")
    rate, rest = (None, rest) if time else _rate(rest, unit)
    single = len(flagged) == 1
    no_place = _why_not(rest, time=time, rate=rate, said_rate=said_rate, unit=unit)
    if no_place:
        return Label(text=whole_text, no_place=no_place)
    return Label(
        text=whole_text,
        concurrency=concurrency,
        family=rate or time,
        statistic=statistic,
        unit=unit,
        averaged=averaged,
        name=flagged.pop() if single else named[1] if named else _name(rest),
        flagged=single,
    )


def _why_not(
    rest: str, *, time: str | None, rate: str | None, said_rate: bool, unit: str | None
) -> str | None:
    """Why a label has no place, by what remains beside its metric; ``None`` if it may have one."""
    if time and said_rate:
        return _TWO
    if any(pattern.search(rest) for _, pattern in (*_TIMES, *_STATISTICS)):
        return _TWO
    if (rate or time or unit) and _OTHER_RATE.search(rest):
        return _PART
    if not (rate or time) and _NOT_PLACED.search(rest):
        return _NO_SPEED if _OTHER_KIND.search(rest) else _NO_FIGURE
    return None


def _first(known: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> tuple[str | None, str]:
    """Which of ``known`` a text holds, and the text without it."""
    for name, pattern in known:
        if pattern.search(text):
            return name, pattern.sub(" ", text, count=1)
    return None, text


def _rate(text: str, unit: str | None) -> tuple[str | None, str]:
    """Which throughput a text names, if any: by its word, or by its unit alone."""
    if not _THROUGHPUT.search(text) and unit not in ("tok/s", "req/s"):
        return None, text
    left = _THROUGHPUT.sub(" ", text)
    of = "request" if unit == "req/s" else None
    for name, pattern in _RATES:
        if pattern.search(left):
            of = of or name
            left = pattern.sub(" ", left)
    left = _words("tokens?", "toks?").sub(" ", left)
    return f"{of}_throughput" if of else "throughput", left


def _name(text: str) -> str | None:
    """What remains of a label, without what stood around the rest."""
    left = re.sub(r"[(\[][\s,;:/]*[)\]]", " ", text)
    # The rest of a bracket around what was taken.
    left = left if left.count("(") == left.count(")") else left.replace("(", " ").replace(")", " ")
    left = re.sub(r"\s+", " ", left).strip(_EDGES)
    left = _JUST_VALUE.sub("", left).strip(_EDGES)
    inside = re.fullmatch(r"[(\[]([^()\[\]]*)[)\]]", left)
    left = inside[1].strip(_EDGES) if inside else left
    return left if re.search(r"[A-Za-z0-9]", left) else None
