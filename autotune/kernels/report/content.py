"""The report of a layer sweep, before any format: what ran, how fast, how right, what didn't."""

from collections.abc import Sequence

import pandas as pd

from autotune.kernels.report.words import flops_unit, layer_words, roof_words, timing_words
from autotune.kernels.schema import KernelRun, Ranked, Screen
from autotune.report.content import (
    Block,
    Bullets,
    Column,
    Paragraph,
    Picture,
    Report,
    Section,
    Table,
)
from autotune.report.numbers import UNKNOWN, figure, percent
from autotune.report.text import count

_NEVER_ALONE = (
    "This says which kernels are right, and about how they rank. It decides nothing: a server's "
    "routing, graphs and communication change ranks. Give kernels.json to `autotune sweep "
    "--screen` to launch likely leaders first."
)


def build_report(
    run: KernelRun, screen: Screen, table: pd.DataFrame, *, pictures: Sequence[str]
) -> Report:
    """Return the report of a run from its table and what was derived of it."""
    return Report(
        title=" ".join(("Layer sweep:", run.config.scheme, "on", run.device.name)),
        sections=(
            _summary_section(run, screen, table),
            _plot_section(pictures),
            _speed_section(run, table),
            _roofline_section(run, table),
            _numerics_section(table),
            _failures_section(table),
        ),
    )


def _summary_section(run: KernelRun, screen: Screen, table: pd.DataFrame) -> Section:
    about, how = layer_words(run)
    blocks: list[Block] = [Paragraph(f"{about}. {_first_upper(how)}.")]
    wrong = [one for one in screen.backends if one.verdict == "wrong"]
    for one in wrong:
        blocks.append(Paragraph(f"{one.backend} is wrong: {one.reason}.", strong=True))
    if not (table["status"] == "ok").any():
        blocks.append(Paragraph("No backend computed this layer right here.", strong=True))
    elif any(screen.ranks.values()):
        blocks.append(_leaders(screen))
    else:
        blocks.append(
            Paragraph(
                "Nothing is ranked: whatever ran here emulates the quantization, and its time "
                "says nothing of a kernel for it."
            )
        )
    blocks.append(Paragraph(_NEVER_ALONE))
    return Section("Result", tuple(blocks))


def _leaders(screen: Screen) -> Table:
    """The fastest right backend of each batch, and how far the next one is behind."""
    columns = (
        Column("tokens", numeric=True),
        Column("fastest right backend", code=True),
        Column("latency (µs)", numeric=True),
        Column("next", code=True),
        Column("its ratio", numeric=True),
        Column("told apart"),
    )
    rows = []
    for tokens, ranked in screen.ranks.items():
        if not ranked:
            continue
        cells = [str(tokens), ranked[0].backend, figure(ranked[0].latency_s * 1e6)]
        if len(ranked) == 1:
            rows.append((*cells, "-", "", ""))
            continue
        after = ranked[1]
        apart = after.ratio_low is not None and after.ratio_low > 1
        rows.append((*cells, after.backend, _ratio(after), "yes" if apart else "no"))
    return Table(columns, tuple(rows))


def _ratio(one: Ranked) -> str:
    text = f"{one.ratio:.2f}"
    if one.ratio_low is not None and one.ratio_high is not None:
        text += f" [{one.ratio_low:.2f}, {one.ratio_high:.2f}]"
    return text


def _plot_section(pictures: Sequence[str]) -> Section:
    png = [name for name in pictures if name.endswith(".png")]
    text = "latency, achieved TFLOP/s and GB/s of each backend against tokens, with the roofline"
    return Section("Plot", tuple(Picture(name, text) for name in png))


def _speed_section(run: KernelRun, table: pd.DataFrame) -> Section:
    timed = table[table["latency_s"].notna()]
    if not len(timed):
        return Section("Latency of a call")
    tokens = sorted({int(value) for value in table["tokens"]})
    columns = (
        Column("backend", code=True),
        *(Column(f"{count(t, 'token')} (µs)", numeric=True) for t in tokens),
        Column("stands for"),
        Column("note"),
    )
    rows = []
    for name in run.config.backends:
        mine = timed[timed["backend"] == name]
        if len(mine):
            cells = {int(row["tokens"]): _latency_cell(row) for _, row in mine.iterrows()}
            shown = [cells.get(number, UNKNOWN) for number in tokens]
            rows.append((name, *shown, str(mine.iloc[0]["stands_for"]) or "-", _note(mine)))
    return Section(
        "Latency of a call",
        (
            Table(columns, tuple(rows)),
            Paragraph(
                f"{_first_upper(timing_words(run, timed))}. In brackets the interval, then the "
                "ratio to the fastest right backend of that batch."
            ),
            Paragraph(_harness(run)),
        ),
    )


def _latency_cell(row: pd.Series) -> str:
    text = figure(row["latency_s"] * 1e6)
    if pd.notna(row["latency_s_low"]):
        low, high = (figure(row[f"latency_s_{end}"] * 1e6) for end in ("low", "high"))
        text += f" [{low}, {high}]"
    if pd.notna(row["ratio_to_fastest"]):
        text += f", {row['ratio_to_fastest']:.2f}x"
    return text


def _note(mine: pd.DataFrame) -> str:
    notes = []
    if (mine["status"] == "wrong").any():
        notes.append("wrong")
    if mine["emulated"].any():
        notes.append("emulated: its time says nothing of a kernel")
    if mine["routes"].any():
        notes.append("routing included")
    return "; ".join(notes)


def _harness(run: KernelRun) -> str:
    if run.empty_call_s is None:
        return ""
    return (
        f"Timing a call that does nothing gives {figure(run.empty_call_s * 1e9)} ns: the harness's "
        "own share of each figure."
    )


def _roofline_section(run: KernelRun, table: pd.DataFrame) -> Section:
    timed = table[table["flops_per_s"].notna()]
    if not len(timed) or run.roof is None:
        return Section("Achieved, against the roofline")
    unit = flops_unit(timed["flops_per_s"])
    columns = (
        Column("tokens", numeric=True),
        Column("backend", code=True),
        Column(unit.name, numeric=True),
        Column("GB/s", numeric=True),
        Column("roofline (µs)", numeric=True),
        Column("bound by"),
        Column("share of the roofline", numeric=True),
        Column("experts hit", numeric=True),
    )
    rows = tuple(
        (
            str(row["tokens"]),
            str(row["backend"]),
            figure(row["flops_per_s"] * unit.factor),
            figure(row["bytes_per_s"] * 1e-9),
            figure(row["roofline_latency_s"] * 1e6),
            str(row["bound_by"]),
            percent(round(row["share_of_roofline"], 4)),
            str(row["experts_hit"]),
        )
        for _, row in timed.iterrows()
    )
    return Section(
        "Achieved, against the roofline",
        (
            Table(columns, rows),
            Paragraph(
                f"{_first_upper(roof_words(run.roof, unit))}. Operations are those of the three "
                "products, bytes the weights of the experts that are hit, the input and the "
                "output. A layer that fits into a cache can beat the roof of the memory."
            ),
        ),
        folded=True,
    )


def _numerics_section(table: pd.DataFrame) -> Section:
    compared = table[table["tolerance"].notna()]
    if not len(compared):
        return Section("Right or wrong")
    columns = (
        Column("tokens", numeric=True),
        Column("backend", code=True),
        Column("verdict"),
        Column("relative RMS", numeric=True),
        Column("allowed", numeric=True),
        Column("worst token", numeric=True),
        Column("to full precision", numeric=True),
        Column("1 - cosine", numeric=True),
        Column("largest", numeric=True),
    )
    rows = tuple(
        (
            str(row["tokens"]),
            str(row["backend"]),
            "right" if row["status"] == "ok" else "wrong",
            _small(row["dequantized_relative_rms"]),
            _small(row["tolerance"]),
            _small(row["dequantized_worst_token_rms"]),
            _small(row["full_relative_rms"]),
            _small(1 - row["dequantized_cosine"]),
            _small(row["dequantized_largest"]),
        )
        for _, row in compared.iterrows()
    )
    words = (
        "Compared with the layer in float64 on the weights that the kernel holds and the "
        "activations as it rounds them; 'to full precision' is the distance to the layer before "
        "quantization, what the user loses. 'Largest' is the largest single difference, in root "
        "mean squares of the output."
    )
    return Section("Right or wrong", (Table(columns, rows), Paragraph(words)), folded=True)


def _small(value: float) -> str:
    return f"{value:.2g}" if pd.notna(value) else UNKNOWN


def _failures_section(table: pd.DataFrame) -> Section:
    failed = table[~table["status"].isin(["ok", "wrong"])]
    sentences: dict[tuple[str, str, str], list[int]] = {}
    for _, row in failed.iterrows():
        reason = row["reason"] if pd.notna(row["reason"]) else "no reason given"
        key = (str(row["backend"]), str(row["status"]), str(reason))
        sentences.setdefault(key, []).append(int(row["tokens"]))
    batches = {int(value) for value in table["tokens"]}
    items = tuple(
        f"{backend}: {status}{_where(tokens, batches)}: {reason}"
        for (backend, status, reason), tokens in sentences.items()
    )
    return Section("Not measured", (Bullets(items),) if items else ())


def _where(tokens: list[int], batches: set[int]) -> str:
    if set(tokens) == batches:
        return ""
    return f" at {', '.join(map(str, tokens))} tokens"


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
