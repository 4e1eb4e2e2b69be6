"""``autotune report`` on folders on a disk: of one run, of several, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autotune.report.write import REPORT_FILE
from tests.cli.command import autotune, check_refused
from tests.records.builders import make_run
from tests.report.several_runs import altered
from tests.review.run_folders import ENVIRONMENT, contents, put_run

FIGURES = ("throughput", "ratio", "ttft", "latency", "per_gpu")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two nodes' runs of one name; the second is newer in every respect."""
    run = make_run(concurrencies=(1, 4), rounds=2)
    put_run(tmp_path / "old" / "run", run)
    scope = {"engine_version": "0.6.0", "device_name": "B200"}
    put_run(tmp_path / "new" / "run", altered(run, scope=scope), environment={"cores": 8})
    return tmp_path


def edit_run(path: Path, **changes: Any) -> None:
    record = json.loads((path / "run.json").read_text())
    for name, value in changes.items():
        record[name] = record[name] | value if isinstance(value, dict) else value
    (path / "run.json").write_text(json.dumps(record))


def test_several_runs_make_one_report_and_stay_as_they_are(runs: Path) -> None:
    before = contents(runs)
    result = autotune("report", "old/run", "new/run", "--to", "side by side", folder=runs)
    assert result.returncode == 0, result.stderr
    made = runs / "side by side"
    names = {f"{stem}.{suffix}" for stem in FIGURES for suffix in ("svg", "png")}
    assert {path.name for path in made.iterdir()} == {"report.md", "report.html", *names}
    assert sorted(result.stdout.splitlines()) == sorted(
        f"side by side/{path.name}" for path in made.iterdir()
    )
    assert {k: v for k, v in contents(runs).items() if "side by side" not in k} == before
    report = (made / "report.md").read_text()
    assert "| `engine_version` | soft | 0.5.12 | 0.6.0 |" in report
    assert "- old/run: " in report and "- new/run: " in report
    for file in re.findall(r"!\[[^]]*\]\(([^)]*)\)", report):
        assert (made / file).is_file()
    assert (made / "report.html").read_text().count("data:image/svg+xml") == len(FIGURES)


def test_a_report_is_made_anew_in_its_folder_and_no_stale_plot_stays(runs: Path) -> None:
    assert autotune("report", "old/run", "new/run", "--to", "out", folder=runs).returncode == 0
    (runs / "out" / ".report.md.x1y2").write_text("cut off")
    assert autotune("report", "old/run", "--to", "out", folder=runs).returncode == 0
    assert (runs / "out" / "overview.png").is_file()
    assert autotune("report", "old/run", "new/run", "--to", "out", folder=runs).returncode == 0
    assert not (runs / "out" / "overview.png").exists()


def test_one_run_can_be_reported_elsewhere_too(runs: Path) -> None:
    before = contents(runs)
    assert autotune("report", "old/run", "--to", "out", folder=runs).returncode == 0
    assert {k: v for k, v in contents(runs).items() if "/out/" not in k} == before
    elsewhere = (runs / "out" / REPORT_FILE).read_bytes()
    assert autotune("report", "old/run", folder=runs).returncode == 0
    assert (runs / "old" / "run" / REPORT_FILE).read_bytes() == elsewhere
    assert (runs / "old" / "run" / "summary.csv").is_file()


def test_several_runs_without_a_folder_are_told_the_command(runs: Path) -> None:
    result = autotune("report", "old/run", "new/run", folder=runs)
    check_refused(result, "autotune report old/run new/run --to FOLDER")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"workload": {"digest": "12" * 32, "output_tokens": 16}},
            ("workload digest", "workload output tokens differs: 128 in old/run, 16 in new/run"),
        ),
        (
            {"key": {"quantization": "fp8"}},
            ("quantization differs: modelopt_fp4 in old/run, fp8 in new/run",),
        ),
    ],
)
def test_runs_that_do_not_compare_are_refused_and_nothing_is_written(
    runs: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    edit_run(runs / "new" / "run", **changes)
    check_refused(autotune("report", "old/run", "new/run", "--to", "out", folder=runs), *words)
    assert not (runs / "out").exists()


def test_a_broken_or_missing_run_is_named(runs: Path) -> None:
    (runs / "new" / "run" / "run.json").write_text('{"half')
    refused = autotune("report", "old/run", "new/run", "--to", "out", folder=runs)
    check_refused(refused, "new/run/run.json")
    check_refused(autotune("report", "old/run", "nothing", "--to", "out", folder=runs), "nothing")
    check_refused(autotune("report", "old/run", "old/run", "--to", "o", folder=runs), "twice")
    assert not (runs / "out").exists()


@pytest.mark.parametrize("place", ["old/run", "old/run/reports/new", "link"])
def test_a_run_folder_is_never_written_into(runs: Path, place: str) -> None:
    (runs / "link").symlink_to("old/run")
    before = contents(runs)
    refused = autotune("report", "old/run", "new/run", "--to", place, folder=runs)
    check_refused(refused, f"{place}: is or lies in a run folder")
    assert contents(runs) == before


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("report.md", b"# My own report\n"),
        ("report.html", b"<html>mine</html>"),
        ("throughput.png", b"\x89PNG\r\n\x1a\nmine"),
        ("notes.txt", b"mine"),
        (".git", b"mine"),
        ("bad\x1b[31m\nname", b"mine"),
    ],
)
def test_somebody_elses_files_are_never_overwritten(runs: Path, name: str, data: bytes) -> None:
    (runs / "out").mkdir()
    (runs / "out" / name).write_bytes(data)
    check_refused(
        autotune("report", "old/run", "new/run", "--to", "out", folder=runs), "out: holds"
    )
    check_refused(autotune("report", "old/run", "--to", "out", folder=runs), "out: holds")
    assert contents(runs / "out") == {str(runs / "out" / name): data}


def test_a_file_in_the_folders_place_and_a_link_in_it_are_refused(runs: Path) -> None:
    (runs / "file").write_text("mine")
    check_refused(autotune("report", "old/run", "--to", "file", folder=runs), "file: can't be")
    (runs / "out").mkdir()
    (runs / "out" / "report.md").symlink_to(runs / "file")
    check_refused(autotune("report", "old/run", "--to", "out", folder=runs), "holds report.md")
    assert (runs / "file").read_text() == "mine"


def test_folders_with_hostile_names_are_shown_as_they_are(runs: Path) -> None:
    hostile = runs / "a | <img src=x onerror=y> `b` \x1b[31m @team"
    put_run(hostile, make_run(concurrencies=(1, 4), rounds=2), environment=ENVIRONMENT)
    result = autotune("report", "old/run", hostile, "--to", "out", folder=runs)
    assert result.returncode == 0, result.stderr
    page = (runs / "out" / "report.html").read_text()
    picture = (runs / "out" / "throughput.svg").read_text()
    markdown = (runs / "out" / "report.md").read_text()
    # Inside a fence Markdown shows what stands there.
    outside = "".join(markdown.split("```")[::2])
    for text in (page, picture, outside):
        assert "<img src=x" not in text and "\x1b" not in text
        assert "onerror=y" in text
