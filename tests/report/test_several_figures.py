"""Several runs are drawn side by side: a panel each, on the same axes and with the same looks."""

import re
from xml.etree import ElementTree

import pytest

from autotune.report.several import RunShown
from autotune.report.several_figures import draw_several
from tests.records.builders import make_run
from tests.report.several_runs import shown
from tests.report.test_figures import SVG, texts, without_times

FIRST = {"triton": 1.0, "flashinfer_cutlass": 1.2, "extra": 1.1}
SECOND = {"flashinfer_cutlass": 1.0, "other": 0.8, "triton": 0.9}


def two_runs() -> list[RunShown]:
    return [
        shown("node1/run", make_run(FIRST, rounds=2, concurrencies=(1, 16))),
        shown("node2/run", make_run(SECOND, rounds=3, concurrencies=(1, 64), seed=2)),
    ]


@pytest.fixture(scope="module")
def plots() -> dict[str, bytes]:
    return draw_several(two_runs())


def strokes(svg: bytes, part: str) -> list[set[str]]:
    """The colours of each group with this id: one a panel that draws it."""
    root = ElementTree.fromstring(svg)
    groups = [e for e in root.iter(f"{SVG}g") if e.get("id") == part]
    styles = [" ".join(e.get("style", "") for e in group.iter()) for group in groups]
    return [set(re.findall(r"stroke: (#\w+)", style)) for style in styles]


def test_there_is_a_plot_for_each_quantity_and_no_overview(plots: dict[str, bytes]) -> None:
    stems = ("throughput", "ratio", "ttft", "latency", "per_gpu")
    assert sorted(plots) == sorted(f"{s}.{kind}" for s in stems for kind in ("svg", "png"))


def test_each_panel_says_which_run_it_is_and_its_n(plots: dict[str, bytes]) -> None:
    for stem in ("throughput", "ratio", "per_gpu"):
        words = texts(plots[f"{stem}.svg"])
        for text in ("node1/run", "node2/run", "n = 2 rounds", "n = 3 rounds"):
            assert text in words
        assert words.count("4 x NVIDIA H200, sglang 0.5.12") == 2


def test_a_backend_looks_the_same_in_each_run_and_others_differ(plots: dict[str, bytes]) -> None:
    svg = plots["throughput.svg"]
    names = ("triton", "flashinfer_cutlass", "extra", "other")
    found = {name: strokes(svg, f"output_tokens_per_s-mean-{name}") for name in names}
    assert [len(found[name]) for name in names] == [2, 2, 1, 1]
    assert found["triton"][0] == found["triton"][1]
    assert found["flashinfer_cutlass"][0] == found["flashinfer_cutlass"][1]
    assert len(set.union(*(one[0] for one in found.values()))) == 4


def test_panels_share_their_axes(plots: dict[str, bytes]) -> None:
    svg = plots["throughput.svg"]
    root = ElementTree.fromstring(svg)
    panels = [e for e in root.iter(f"{SVG}g") if re.fullmatch(r"axes_\d+", e.get("id") or "")]
    labels = []
    for panel in panels:
        words = ["".join(e.itertext()).strip() for e in panel.iter(f"{SVG}text")]
        labels.append([w for w in words if re.fullmatch(r"[\d,]+", w)])
    assert len(labels) == 2
    assert labels[0] == labels[1]
    assert {"1", "16", "64"} <= set(labels[0])


def test_a_run_without_a_figure_keeps_its_place() -> None:
    runs = [shown("full"), shown("bare", without_times(make_run(concurrencies=(1, 4), rounds=1)))]
    files = draw_several(runs)
    assert "not measured" in texts(files["ttft.svg"])
    assert "bare" in texts(files["ttft.svg"])
    words = texts(files["per_gpu.svg"])
    assert any("output tokens/s / c" in word for word in words)


def test_per_gpu_or_per_server_but_never_both() -> None:
    runs = [shown("four"), shown("unknown", scope={"device_count": None})]
    words = texts(draw_several(runs)["per_gpu.svg"])
    assert "Output tokens/s per server" in words
    assert "Output tokens/s per GPU" not in words
    assert any("per server (number of GPUs not recorded)" in word for word in words)


def test_who_is_rejected_in_one_run_is_hollow_there_only() -> None:
    rejected = {"rejected": {"grouped_mm": "garbage"}}
    svg = draw_several([shown("a"), shown("b", judged=rejected)])["throughput.svg"]
    groups = re.findall(rb'id="output_tokens_per_s-mean-grouped_mm".*?</g>', svg, re.DOTALL)
    assert [b"stroke-dasharray" in group for group in groups] == [False, True]
    assert any("hollow and dashed: rejected in that run" in text for text in texts(svg))


def test_a_dozen_runs_and_no_figures_at_all_are_drawn() -> None:
    empty = make_run(rounds=0)
    assert draw_several([shown(f"r{n}", empty) for n in range(2)]) == {}
    run = without_times(make_run({"a": 1.0}, rounds=1, concurrencies=(1, 4)))
    words = texts(draw_several([shown(f"run {n}", run) for n in range(12)])["throughput.svg"])
    assert sum(word.startswith("run ") for word in words) == 12


def test_hostile_names_are_plain_text_in_a_plot() -> None:
    svg = draw_several([shown("<img src=x>\x1b[31m"), shown("b")])["throughput.svg"]
    ElementTree.fromstring(svg)
    assert b"<img" not in svg and b"\x1b" not in svg
