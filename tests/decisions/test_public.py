import json
import subprocess
import sys
from pathlib import Path

import msgspec

import autotune.decisions
from autotune.decisions import DecisionFile, encode

from .builders import decision

ROOT = Path(__file__).parents[2]


def test_names_are_exported_once_and_sorted() -> None:
    names = autotune.decisions.__all__
    assert all(hasattr(autotune.decisions, name) for name in names)
    assert len(names) == len(set(names))


def test_server_side_import_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys, json; before = set(sys.modules); import autotune.decisions; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    added = {name.partition(".")[0] for name in json.loads(done.stdout)}
    # typing_extensions is msgspec's own, before Python 3.13, where it is installed.
    allowed = {*sys.stdlib_module_names, "autotune", "msgspec", "typing_extensions"}
    assert added <= allowed
    mine = {name for name in json.loads(done.stdout) if name.startswith("autotune")}
    assert {name for name in mine if not name.startswith("autotune.decisions")} == {
        "autotune",
        "autotune.errors",
    }


def test_published_schema_is_the_one_of_the_types(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "write_schema", tmp_path / "schema.json"], check=True
    )
    published = (ROOT / "docs" / "decision.schema.json").read_bytes()
    assert published == (tmp_path / "schema.json").read_bytes(), "run scripts/write_schema"


def test_files_survive_a_round_trip() -> None:
    data = encode(decision())
    assert encode(msgspec.json.decode(data, type=DecisionFile)) == data
    assert data.endswith(b"}\n")
