"""In a whole picture no text covers another or runs out of it, whatever the run is like."""

from itertools import combinations

import msgspec
import pytest
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from autotune.records.folder import LoadedRun
from autotune.report import figures
from tests.records.builders import make_judgement, make_run
from tests.report.test_figures import drawn, without_times

LONG = "flashinfer_trtllm_routed_with_all_the_settings_of_a_long_trial_{}_of_eight"
WIDE_APART = (1, 4, 16, 64, 96, 128, 1024, 4096)


def renamed(run: LoadedRun, **key: str) -> LoadedRun:
    about = msgspec.structs.replace(run.run, key=msgspec.structs.replace(run.run.key, **key))
    return msgspec.structs.replace(run, run=about)


def on_unknown_gpus(run: LoadedRun) -> LoadedRun:
    scope = msgspec.structs.replace(run.run.scope, device_count=None, device_name="GPU " * 60)
    return msgspec.structs.replace(run, run=msgspec.structs.replace(run.run, scope=scope))


RUNS = {
    "eight with long names": make_run(
        {LONG.format(n): 1 + 0.05 * n for n in range(8)}, rounds=2, concurrencies=WIDE_APART
    ),
    "names alike but in the middle": make_run(
        {f"{'a' * 60}{n}{'b' * 60}": 1.0 for n in range(8)}, rounds=1, concurrencies=(1, 8)
    ),
    "near concurrencies": make_run(rounds=2, concurrencies=(96, 128)),
    "one concurrency": make_run(rounds=2, concurrencies=(64,)),
    "one candidate": make_run({"triton": 1.0}, rounds=2),
    "one point": make_run({"triton": 1.0}, rounds=1, concurrencies=(4096,)),
    "all equal": make_run(dict.fromkeys("abcd", 1.0), rounds=2, noise=0.0),
    "one round, only throughput": without_times(make_run(rounds=1)),
    "a CPU with a long model name": renamed(
        on_unknown_gpus(make_run(rounds=1)), model="Mixture" * 18, arch="cpu-x86_64"
    ),
}


def drawn_texts(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Bbox]]:
    """Each text that is drawn (ticks beyond a panel aren't) with its place."""
    seen: list[Text] = []
    draw = Text.draw

    def note(text: Text, renderer: RendererBase) -> None:
        if text.get_visible() and text.get_text().strip():
            seen.append(text)
        draw(text, renderer)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", note)
        figure.draw_without_rendering()
    return [(text.get_text().strip(), place_of(text)) for text in seen]


def place_of(text: Text) -> Bbox:
    # Of a note only its text, not the line to its mark.
    box = Text.get_window_extent(text)
    if text.get_text().startswith("\n"):  # A label one row down: its first row is empty.
        return Bbox.from_extents(box.x0, box.y0, box.x1, (box.y0 + box.y1) / 2)
    return box


@pytest.mark.parametrize("name", RUNS)
def test_no_text_covers_another_or_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures: dict[str, list[tuple[str, Bbox]]] = {}
    sizes: dict[str, Bbox] = {}

    def look(figure: Figure, stem: str) -> dict[str, bytes]:
        pictures[stem], sizes[stem] = drawn_texts(figure, monkeypatch), figure.bbox
        return {stem: b""}

    monkeypatch.setattr(figures, "rendered", look)
    run = RUNS[name]
    drawn(run, make_judgement(run, rejected={run.run.candidates[-1].name: "garbage"}))
    assert {"throughput", "per_gpu"} <= pictures.keys()
    for stem, texts in pictures.items():
        assert len(texts) > 5
        for (one, box), (other, other_box) in combinations(texts, 2):
            assert not box.overlaps(other_box), (stem, one, other)
        for text, box in texts:
            assert sizes[stem].x0 <= box.x0 and box.x1 <= sizes[stem].x1, (stem, text)
            assert sizes[stem].y0 <= box.y0 and box.y1 <= sizes[stem].y1, (stem, text)
