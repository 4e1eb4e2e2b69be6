"""The plots hold the marks, labels and units that they should, in the same bytes each time."""

import io
import re
import struct
from xml.etree import ElementTree

import matplotlib
import msgspec
import pytest
from PIL import Image

from autotune.decide.schema import Judgement, RatioEstimate
from autotune.decisions.schema import Interval
from autotune.records.folder import LoadedRun
from autotune.records.schema import PointFigures, Workload
from autotune.report.figures import draw_figures
from autotune.report.tables import points_table, summary_table
from tests.records.builders import make_judgement, make_run, point

SVG = "{http://www.w3.org/2000/svg}"


def drawn(run: LoadedRun, judgement: Judgement | None = None) -> dict[str, bytes]:
    judgement = judgement or make_judgement(run)
    points, summary = points_table(run), summary_table(run, judgement)
    return draw_figures(run, judgement, points=points, summary=summary)


def texts(svg: bytes) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def marks(svg: bytes, part: str) -> int:
    """How many markers the group with this id holds."""
    root = ElementTree.fromstring(svg)
    (group,) = (e for e in root.iter(f"{SVG}g") if e.get("id") == part)
    return sum(1 for _ in group.iter(f"{SVG}use"))


def without_times(run: LoadedRun) -> LoadedRun:
    """The same run as a published table that only had throughput."""
    points = tuple(
        point(
            p.candidate,
            p.round,
            p.concurrency,
            figures=PointFigures(output_tokens_per_s=p.figures.output_tokens_per_s),
        )
        for p in run.points
        if p.figures is not None
    )
    about = msgspec.structs.replace(run.run, kind="import", workload=Workload())
    return msgspec.structs.replace(run, run=about, points=points, launches=())


@pytest.fixture(scope="module")
def plots() -> dict[str, bytes]:
    return drawn(make_run())


def test_a_plot_for_each_quantity_in_both_formats(plots: dict[str, bytes]) -> None:
    stems = ("throughput", "ratio", "ttft", "latency", "per_gpu", "overview")
    assert sorted(plots) == sorted(f"{s}.{kind}" for s in stems for kind in ("svg", "png"))
    for name, data in plots.items():
        if name.endswith(".png"):
            assert data.startswith(b"\x89PNG")
            assert struct.unpack(">I", data[16:20]) == (1600,)


def test_labels_say_units_concurrencies_n_and_device(plots: dict[str, bytes]) -> None:
    shown = texts(plots["overview.svg"])
    for text in (
        "Throughput (output tokens/s)",
        "Throughput ratio to incumbent",
        "Time to first token, median (ms)",
        "Request latency, median (ms)",
        "Concurrency (requests in flight)",
        "eager (incumbent)",
        "batched_mm",
        "grouped_mm (chosen)",
        *("1", "4", "16", "64"),
    ):
        assert text in shown
    heading = " ".join(shown)
    assert "4 x NVIDIA H200, sglang 0.5.12, 128 tokens in, 128 out" in heading
    assert "n = 3 rounds" in heading
    assert "bars: 95% interval" in heading


def test_each_rounds_point_is_drawn(plots: dict[str, bytes]) -> None:
    assert marks(plots["throughput.svg"], "output_tokens_per_s-rounds-eager") == 3 * 4
    assert marks(plots["ttft.svg"], "ttft_s_p50-rounds-grouped_mm") == 3 * 4


def test_equal_records_give_equal_bytes_and_leave_no_setting_behind(
    plots: dict[str, bytes],
) -> None:
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path"}):
        assert drawn(make_run()) == plots
        assert matplotlib.rcParams["font.size"] == 30
    assert b"dc:date" not in plots["overview.svg"]


def test_a_quantity_that_nobody_published_has_no_plot() -> None:
    run = without_times(make_run(rounds=1))
    files = drawn(run, make_judgement(run, outcome="open", blockers=("one round",)))
    stems = ("throughput", "ratio", "per_gpu", "overview")
    assert sorted(files) == sorted(f"{s}.{kind}" for s in stems for kind in ("svg", "png"))
    shown = texts(files["overview.svg"])
    assert "grouped_mm (proposed)" in shown
    assert "n = 1 round: each mark is one round" in shown


def test_without_a_baseline_there_is_no_ratio_and_one_plot_needs_no_overview() -> None:
    run = without_times(make_run(rounds=1))
    about = msgspec.structs.replace(run.run, incumbent=None, reference=None)
    assert sorted(drawn(msgspec.structs.replace(run, run=about))) == [
        "per_gpu.png",
        "per_gpu.svg",
        "throughput.png",
        "throughput.svg",
    ]


def test_an_empty_run_has_no_plots() -> None:
    assert drawn(make_run(rounds=0)) == {}
    assert drawn(make_run(rounds=0)) == {}


def test_rejected_failed_and_invalid_are_told_apart() -> None:
    run = make_run({"eager": 1.0, "wrong": 1.5, "broken": 1.0, "shaky": 1.2}, concurrencies=(1, 8))
    points = tuple(
        msgspec.structs.replace(p, status="not_steady", reason="cut")
        if p.candidate == "shaky" and p.concurrency == 8
        else p
        for p in run.points
        if p.candidate != "broken"
    )
    run = msgspec.structs.replace(run, points=points)
    svg = drawn(run, make_judgement(run, rejected={"wrong": "garbage"}))["throughput.svg"]
    shown = texts(svg)
    assert "wrong (rejected)" in shown
    assert "broken (rejected, no figures)" in shown
    assert any("x: not valid, left out" in text for text in shown)
    assert marks(svg, "output_tokens_per_s-not-valid-shaky") == 3
    mean = re.search(rb'id="output_tokens_per_s-mean-wrong".*?</g>', svg, re.DOTALL)
    assert mean is not None
    assert b"stroke-dasharray" in mean[0]


def test_only_invalid_points_still_make_a_plot() -> None:
    run = make_run(rounds=1)
    bad = tuple(msgspec.structs.replace(p, status="not_steady", reason="cut") for p in run.points)
    run = msgspec.structs.replace(run, points=bad)
    shown = texts(drawn(run)["throughput.svg"])
    assert "n = 0 valid rounds: each mark is one round; x: not valid, left out" in shown


def test_the_ground_is_opaque_and_white_so_that_it_reads_on_a_dark_page(
    plots: dict[str, bytes],
) -> None:
    for name, data in plots.items():
        if name.endswith(".png"):
            picture = Image.open(io.BytesIO(data)).convert("RGBA")
            assert picture.getchannel("A").getextrema() == (255, 255)
            right, bottom = picture.width - 1, picture.height - 1
            corners = [picture.getpixel((x, y)) for x in (0, right) for y in (0, bottom)]
            assert corners == [(255, 255, 255, 255)] * 4
        else:
            root = ElementTree.fromstring(data)
            ground = next(e for e in root.iter(f"{SVG}path"))
            assert ground.get("style") == "fill: #ffffff"
            assert "opacity" not in "".join(root.attrib)


def test_a_backend_looks_the_same_in_every_plot(plots: dict[str, bytes]) -> None:
    def colours(svg: bytes, part: str) -> set[str]:
        root = ElementTree.fromstring(svg)
        group = next(e for e in root.iter(f"{SVG}g") if e.get("id") == part)
        styles = " ".join(e.get("style", "") for e in group.iter())
        return set(re.findall(r"stroke: (#\w+)", styles))

    for name in ("eager", "batched_mm", "grouped_mm"):
        parts = {
            "throughput.svg": f"output_tokens_per_s-mean-{name}",
            "ratio.svg": f"ratio_to_baseline-mean-{name}",
            "ttft.svg": f"ttft_s_p50-mean-{name}",
            "latency.svg": f"latency_s_p50-mean-{name}",
            "per_gpu.svg": f"per_gpu-mean-{name}",
            "overview.svg": f"latency_s_p50-mean-{name}",
        }
        found = [colours(plots[file], part) for file, part in parts.items()]
        assert all(one == found[0] for one in found), name
        assert len(found[0]) == 1


def test_an_interval_that_would_press_all_else_flat_is_cut_with_an_arrow() -> None:
    run = make_run({"a": 1.0, "b": 1.1}, rounds=2, concurrencies=(1, 8))
    judgement = make_judgement(run)
    (base, other) = judgement.standings
    wide = {
        c: msgspec.structs.replace(e, interval=Interval(0.1, 12.0, 0.95))
        for c, e in other.to_baseline_at.items()
    }
    other = msgspec.structs.replace(other, to_baseline_at=wide)
    svg = drawn(run, msgspec.structs.replace(judgement, standings=(base, other)))["ratio.svg"]
    assert "12.00" not in texts(svg)
    assert any("an arrow: cut off" in text for text in texts(svg))


def test_an_arrow_is_explained_only_where_there_is_one(plots: dict[str, bytes]) -> None:
    for file in ("ratio.svg", "overview.svg"):
        heading = " ".join(texts(plots[file]))
        assert "bars: 95% interval" in heading and "arrow" not in heading
    # Whom no ratio is drawn of has no bar: what the table says of it is no arrow's cause.
    run = make_run({"a": 1.0, "b": 1.1}, rounds=2, concurrencies=(1, 8))
    judgement = make_judgement(run)
    base, other = judgement.standings
    wide = {c: RatioEstimate(ratio=1, n=2, interval=Interval(0.1, 12, 0.95)) for c in (1, 8)}
    base = msgspec.structs.replace(base, to_baseline_at=wide)
    svg = drawn(run, msgspec.structs.replace(judgement, standings=(base, other)))["ratio.svg"]
    assert not any("arrow" in text for text in texts(svg))


def test_many_near_concurrencies_keep_readable_labels() -> None:
    run = without_times(make_run({"a": 1.0}, rounds=1, concurrencies=tuple(range(1, 65))))
    shown = {text.strip() for text in texts(drawn(run)["throughput.svg"])}
    assert {"1", "2", "4", "64"} <= shown
    assert "62" not in shown
