"""The report of several runs: each run's own verdict and figures, nothing pooled."""

import re

import msgspec
import pytest
from markdown_it import MarkdownIt

from autotune.records.schema import Candidate, MeasurementWarning, Workload
from autotune.report.content import Picture, Table
from autotune.report.markdown import render
from autotune.report.several import RunShown
from autotune.report.several_sections import build_several
from tests.records.builders import launch, make_run
from tests.report.several_runs import altered, shown
from tests.report.test_figures import without_times

HOSTILE = "a | b <img src=x> `c` @team #1"


def report_of(*runs: RunShown) -> str:
    return render(build_several(runs, plots=()))


def section(report: str, title: str) -> str:
    return re.split(r"\n##|\n<d", report.partition(f"## {title}\n")[2])[0]


def rows(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_each_run_keeps_its_verdict_and_agreement_is_said_first() -> None:
    runs = [shown("a", judged={"summary": "one"}), shown("b", judged={"summary": "other"})]
    verdicts = section(report_of(*runs), "Verdicts")
    assert verdicts.index("**Each of the 2 runs chooses grouped_mm.**") < verdicts.index("- a: one")
    assert "- b: other" in verdicts
    assert "nothing is pooled" in verdicts


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"choice": "eager"}, "come to different choices: grouped_mm (a); eager (b)."),
        ({"choice": None}, "come to different choices: grouped_mm (a); nobody (b)."),
        (
            {"choice": "eager", "blockers": ("one round gives no interval",)},
            "put different candidates first: grouped_mm (a); eager (b). Something stands against "
            "a decision in b.",
        ),
        (
            {"blockers": ("one round gives no interval",)},
            "puts grouped_mm first, but something stands against a decision in b.",
        ),
    ],
)
def test_disagreement_names_the_runs(other: dict[str, object], words: str) -> None:
    assert words in report_of(shown("a"), shown("b", judged=other)).replace("\\", "")


def test_a_common_choice_that_is_two_candidates_is_no_agreement() -> None:
    other = tuple(
        Candidate(name=c.name, engine="sglang", backend=c.name, arguments=("--more",))
        for c in shown("a").run.candidates
    )
    report = report_of(shown("a"), shown("b", candidates=other))
    assert "puts grouped_mm first, but it isn't the same candidate in all of them" in report
    assert "eager, batched_mm, grouped_mm aren't the same candidate in every run" in report
    assert rows(report, "| `grouped_mm` | sglang grouped_mm | sglang grouped_mm --more |")


def test_the_first_table_says_what_each_run_is() -> None:
    imported = shown(
        "b",
        kind="import",
        source="https://example.org/pull/1",
        workload=Workload(),
        scope={"engine_version": None, "device_name": None, "device_count": None},
        judged={"outcome": "open", "blockers": ("no interval",)},
    )
    runs = section(report_of(shown("a"), imported), "Runs")
    assert rows(
        runs, "| `a` | 2026-01-02 | `sm90` | 4 x NVIDIA H200 | sglang 0.5.12 | 2 | decisive"
    )
    assert rows(
        runs,
        "| `b` | imported 2026-01-02 | `sm90` | unknown number x unknown device | "
        "sglang (version not recorded) | 2 | open | `grouped_mm (proposed)` | "
        "`eager (incumbent)` |",
    )
    assert "can't be told, since not every run recorded it" in runs
    assert "- b: not recorded: workload digest" in runs
    assert rows(runs, "| `engine_version` | soft | 0.5.12 | not recorded |")
    assert rows(runs, "| `source` |  | none | https://example.org/pull/1 |")


def test_figures_stand_side_by_side_with_ratios_within_each_run() -> None:
    slow = make_run(concurrencies=(1, 16), rounds=3, seed=2, noise=0.05)
    report = report_of(shown("a"), shown("b", slow, incumbent="batched_mm"))
    figures = section(report, "Figures")
    assert "ratio to the run's own baseline" in figures
    both = rows(figures, "| 1 | `eager` |")
    assert [line.split(" | ")[2] for line in both] == ["`a`", "`b`"]
    assert both[0].endswith("| incumbent | 2 |")
    assert re.search(r"\| 0\.\d{3} \[.*\] \| 3 \|$", both[1])
    # What only one of the runs measured has that run's row alone.
    assert [line.split(" | ")[2] for line in rows(figures, "| 4 | `eager` |")] == ["`a`"]
    assert [line.split(" | ")[2] for line in rows(figures, "| 16 | `eager` |")] == ["`b`"]


def test_a_figure_that_one_run_lacks_stays_unknown() -> None:
    bare = without_times(make_run(concurrencies=(1, 4), rounds=2))
    report = report_of(shown("a"), shown("b", bare))
    line = rows(section(report, "Figures"), "| 1 | `grouped_mm` | `b` |")[0]
    assert line.count("| n/a ") == 4
    assert "Time to first token: no figures in b." in report


def test_without_any_baseline_there_is_no_ratio() -> None:
    none = {"baseline": None, "baseline_role": None}
    figures = section(report_of(shown("a", judged=none), shown("b", judged=none)), "Figures")
    assert "ratio" not in figures.splitlines()[2]


def test_rejections_warnings_and_points_left_out_name_their_run() -> None:
    run = make_run(concurrencies=(1, 4), rounds=2)
    warning = MeasurementWarning(code="low", observed="0.9", threshold="0.95", remedy="raise it")
    points = list(run.points)
    points[0] = msgspec.structs.replace(points[0], status="crashed", reason="exit code -9")
    points[1] = msgspec.structs.replace(points[1], warnings=(warning,))
    run = msgspec.structs.replace(run, points=tuple(points))
    other = shown("b", run, judged={"rejected": {"grouped_mm": "its answers are garbage"}})
    report = report_of(shown("a"), other)
    assert rows(section(report, "Rejected candidates"), "| `b` | `grouped_mm` |")[0].endswith(
        "| its answers are garbage |"
    )
    assert rows(section(report, "Points left out"), "| `b` | `eager` | 1 | 1 | `crashed` |")
    assert rows(section(report, "Warnings"), "| `b` | `low` | eager: c4 round 1 | 0.9 | 0.95 |")
    figures = section(report, "Figures")
    assert rows(figures, "| 1 | `grouped_mm` | `a` | yes |")
    assert rows(figures, "| 1 | `grouped_mm` | `b` | no |")


def test_runs_without_a_valid_point_still_have_a_report() -> None:
    empty = make_run(concurrencies=(1, 4), rounds=0)
    assert "No point of these runs is valid." in report_of(shown("a", empty), shown("b", empty))
    assert rows(section(report_of(shown("a"), shown("b", empty)), "Figures"), "| 1 | `eager` |")


def test_every_picture_is_shown_once() -> None:
    names = ("throughput", "ratio", "ttft", "latency", "per_gpu")
    files = tuple(f"{name}.{suffix}" for name in names for suffix in ("svg", "png"))
    report = build_several([shown("a"), shown("b")], plots=files)
    pictures = [b.file for s in report.sections for b in s.blocks if isinstance(b, Picture)]
    assert sorted(pictures) == sorted(f"{name}.png" for name in names)


def test_environments_differ_where_they_are_recorded() -> None:
    report = report_of(shown("a", environment={"cores": 2}), shown("b", environment={"cores": 4}))
    assert rows(report, "| `cores` | soft | 2 | 4 |")
    alone = report_of(shown("a", environment={"cores": 2}), shown("b"))
    assert "No environment recorded: b." in alone
    assert not rows(alone, "| `cores` |")


def test_hostile_texts_change_nothing_of_the_reports_shape() -> None:
    def shape(text: str) -> list[str]:
        run = make_run(concurrencies=(1, 4), rounds=2)
        down = launch("eager", 1, 0, status="crashed", reason=text)
        run = msgspec.structs.replace(run, launches=(down, *run.launches[1:]))
        named = tuple(
            msgspec.structs.replace(c, backend=text, arguments=(text,), environment={text: text})
            for c in run.run.candidates
        )
        run = altered(run, name=text, source=text, checkpoint=text, scope={"engine_version": text})
        judged = {
            "summary": text,
            "notes": (text,),
            "blockers": (text,),
            "rejected": {"eager": text},
        }
        other = shown(text, run, judged=judged, environment={text: text}, candidates=named)
        report = report_of(shown("plain", environment={"cores": 2}), other)
        assert not set(report) & set("\x1b\x00\r")
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(report)
        kinds = [token.type for token in tokens]
        kinds += [child.type for token in tokens for child in token.children or []]
        assert "html_inline" not in kinds and "image" not in kinds
        return [f"{token.type}" for token in tokens if token.type != "inline"]

    assert shape(f"{HOSTILE}\n</details>\n# x\x1b[31m") == shape("harmless")


def test_tables_have_a_cell_for_each_column() -> None:
    report = build_several([shown("a"), shown("b", scope={"tp": 2}), shown("c")], plots=())
    tables = [b for s in report.sections for b in s.blocks if isinstance(b, Table)]
    assert len(tables) > 5
    for table in tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
