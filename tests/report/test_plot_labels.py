"""No label of a drawn plot covers another, however many there are, near, long or far apart."""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from autotune.report.axes import Extent, PlotData, draw_panel
from autotune.report.drawing import new_figure, plain_settings
from autotune.report.palette import assign, looks
from autotune.report.quantities import RATIO, THROUGHPUT, TTFT, Quantity
from autotune.report.scales import labelled, scale_log_concurrency, scale_values
from autotune.report.tables import points_table, summary_table
from autotune.report.text import distinct_labels, short_label
from autotune.report.tradeoff import speed_from, tradeoff_of
from autotune.report.tradeoff_axes import TradeoffExtent, draw_tradeoff, label_points
from tests.records.builders import make_judgement, make_run

EIGHT = {f"backend_{n}": 1 + 0.04 * n for n in range(8)}
CONCURRENCIES = [
    (1, 4, 16, 64),
    (1, 2, 3, 4, 96, 128, 1024, 4096),
    (100, 110, 120, 128),
    (64,),
    tuple(range(1, 33)),
]


def data_of(concurrencies: Sequence[int]) -> PlotData:
    run = make_run(EIGHT, rounds=2, concurrencies=concurrencies)
    points, summary = points_table(run), summary_table(run, make_judgement(run))
    keys = {name: name for name in EIGHT}
    return PlotData(
        points=points.assign(ratio_to_baseline=1.0),
        summary=summary,
        looks=looks(keys, rejected=frozenset(), palette=assign(keys)),
        baseline="backend_0",
        tradeoff=tradeoff_of(points, summary, gpus=4, column=speed_from([points])),
    )


def assert_apart(figure: Figure, texts: Iterable[Text]) -> int:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    texts = list(texts)
    for text in texts:
        if isinstance(text, Annotation):
            text.update_positions(renderer)
    # Of a note only its text: lines may cross.
    boxes = [Text.get_window_extent(t, renderer) for t in texts if t.get_text().strip()]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    return len(boxes)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("concurrencies", CONCURRENCIES, ids=str)
@pytest.mark.parametrize("quantity", [THROUGHPUT, RATIO, TTFT], ids=lambda q: q.stem)
def test_no_tick_covers_another(
    quantity: Quantity, concurrencies: tuple[int, ...], columns: int
) -> None:
    data = data_of(concurrencies)
    column = quantity.columns[0]
    with plain_settings():
        figure = new_figure(3.0, heading=["x"], legend=[])
        axes = figure.add_subplot(1, columns, 1)
        extent = Extent.of([data], quantity=quantity, column=column)
        draw_panel(axes, data, quantity=quantity, column=column, extent=extent)
        figure.draw_without_rendering()
        assert assert_apart(figure, lines_of(axes)) > 0
        assert assert_apart(figure, axes.yaxis.get_ticklabels()) > 1


def lines_of(axes: Axes) -> list[Text]:
    """The labels below the panel; those of the second row begin with an empty line."""
    rows: dict[bool, list[Text]] = {True: [], False: []}
    for label in axes.xaxis.get_ticklabels():
        rows[label.get_text().startswith("\n")].append(label)
    for label in rows[True]:
        label.set_text(label.get_text().strip())
        label.set_y(label.get_position()[1] - 0.08)
    return [*rows[True], *rows[False]]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("concurrencies", CONCURRENCIES[:4], ids=str)
def test_concurrencies_in_the_plot_per_gpu_stay_apart(
    concurrencies: tuple[int, ...], columns: int
) -> None:
    data = data_of(concurrencies)
    assert data.tradeoff is not None
    with plain_settings():
        figure = new_figure(4.1, heading=["x"], legend=[])
        axes = figure.add_subplot(1, columns, 1)
        extent = TradeoffExtent.of([data.tradeoff])
        draw_tradeoff(axes, data, data.tradeoff, extent=extent)
        figure.draw_without_rendering()
        left_out = label_points(axes, data.tradeoff.means)
        notes = [child for child in axes.get_children() if isinstance(child, Annotation)]
        assert len(notes) + left_out == len(data.tradeoff.means)
        # Where one panel has all the width, even 64 labels find room but for a few.
        assert left_out <= (len(notes) // 30 if columns == 1 else len(notes) // 2)
        assert ("left out for lack of room" in axes.get_title(loc="right")) == (left_out > 0)
        assert assert_apart(figure, notes) == len(notes)
        assert assert_apart(figure, axes.xaxis.get_ticklabels()) > 0


def test_near_concurrencies_fill_the_panel() -> None:
    axes = new_figure(3.0, heading=["x"], legend=[]).add_subplot()
    scale_log_concurrency(axes, (96, 128))
    low, high = axes.get_xlim()
    assert low < 96 and high > 128
    assert math.log(128 / 96) > 0.8 * math.log(high / low)


@pytest.mark.parametrize("values", [(1.0, 7.9), (5.0, 5.0), (0.0, 3.0), (99.0, 100.0)], ids=str)
def test_no_scale_goes_below_zero_and_near_values_keep_their_nearness(
    values: tuple[float, float],
) -> None:
    axes = new_figure(3.0, heading=["x"], legend=[]).add_subplot()
    scale_values(axes, "x", values, from_zero=False)
    low, high = axes.get_xlim()
    assert 0 <= low <= values[0] and values[1] < high
    if values[0] == 99.0:  # A percent shouldn't look like much.
        assert high - low > 10


def test_a_label_without_room_goes_a_row_down_or_away() -> None:
    assert labelled({64: 0.0, 96: 0.1, 128: 2.0}) == {128: 0, 96: 0, 64: 1}
    assert labelled({1: 0.0, 2: 0.01, 3: 0.02}) == {3: 0, 2: 1}


def test_long_names_are_cut_in_the_middle_so_that_their_ends_tell_them_apart() -> None:
    name = "flashinfer_cutedsl_with_all_the_settings_of_trial_"
    short = [short_label(f"{name}{n}") for n in (1, 2)]
    assert short[0] != short[1]
    assert all(len(text) <= 44 and "..." in text for text in short)
    assert short_label("triton") == "triton"


def test_names_that_differ_in_the_middle_keep_labels_of_their_own() -> None:
    near = [f"flashinfer_trtllm_routed_block_m_{m}_and_the_same_end_of_it" for m in (64, 128)]
    assert short_label(near[0]) == short_label(near[1])
    labels = distinct_labels([*near, "triton"])
    assert len(set(labels.values())) == 3
    assert "m_64" in labels[near[0]] and labels["triton"] == "triton"
    far = ["a" * 60 + m + "b" * 60 for m in ("1", "2")]
    labels = distinct_labels(far)
    assert labels[far[0]] != labels[far[1]]
    assert all(len(label) <= 67 for label in labels.values())
