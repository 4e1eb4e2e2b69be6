"""A folder to check: the real decisions and their evidence, copied to where they may be edited."""

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.review.check import CheckOptions, check_folders
from autotune.review.findings import Finding, Review

ROOT = Path(__file__).parents[2]
TODAY = datetime.date(2026, 12, 24)
# The table that the tool started from: small, imported, accepted.
RUN = "sglang-32229-minimax-m2.7-nvfp4-gb200"
ENTRY = Path("sm100/MiniMaxM2ForCausalLM/modelopt_fp4.json")


class Folder:
    """``decisions`` and ``results`` in a folder of their own, with the one imported decision."""

    def __init__(self, path: Path) -> None:
        self.decisions = path / "decisions"
        self.results = path / "results"
        self.run = self.results / RUN
        self.file = self.decisions / ENTRY
        self.file.parent.mkdir(parents=True)
        shutil.copy(ROOT / "configs" / "decisions" / ENTRY, self.file)
        shutil.copytree(
            ROOT / "results" / RUN, self.run, ignore=shutil.ignore_patterns("*.svg", "*.png")
        )

    def check(self, *more: Path, **options: Any) -> Review:
        given = {"evidence": self.results, "today": TODAY, **options}
        return check_folders([self.decisions, *more], CheckOptions(**given))

    def edit(self, change: Callable[[dict[str, Any]], object], file: Path | None = None) -> None:
        """Change a JSON file's content, written as autotune writes it."""
        path = file or self.file
        content = json.loads(path.read_bytes())
        change(content)
        write_canonical(path, content)


def write_canonical(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text.replace("[\n\n]", "[]") + "\n")


def found(review: Review, *levels: str) -> list[Finding]:
    return [one for one in review.findings if one.level in (levels or ("wrong", "stale"))]


def only(review: Review, level: str = "wrong") -> Finding:
    """The one thing that was found; everything else would be noise to a reader."""
    (finding,) = found(review, "wrong", "stale")
    assert finding.level == level, finding
    return finding
