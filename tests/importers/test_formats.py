"""Each format is told from all others by content, and only one fits a real file."""

from pathlib import Path

import pytest

from autotune.errors import InputError, UsageError
from autotune.importers.formats import FORMATS, detect, named
from tests.importers.builders import DATA, row, table
from tests.importers.tool_files import SGLANG, VLLM

_REAL = {
    "tidy_csv": sorted(DATA.glob("*.csv")),
    "sglang_bench_serving": sorted(SGLANG.glob("*.jsonl")),
    "vllm_bench_serve": sorted([*VLLM.glob("*.json"), *VLLM.glob("*.jsonl")]),
    "vllm_bench_sweep": [
        VLLM / "sweep",
        *sorted(VLLM.glob("sweep/SERVE*")),
        *sorted(VLLM.glob("sweep/*/summary.json")),
    ],
}


@pytest.mark.parametrize("name", sorted(_REAL))
def test_real_files_are_of_one_format(name: str) -> None:
    assert _REAL[name]
    for path in _REAL[name]:
        assert detect(path).name == name, path


def test_a_name_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sglang.jsonl"
    path.write_text(table(row()))
    assert detect(path).name == "tidy_csv"
    path.write_text("\ufeff" + (VLLM / "plain.json").read_text(), encoding="utf-8")
    assert detect(path).name == "vllm_bench_serve"


def test_a_tidy_table_without_one_of_its_columns_is_still_told(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(table(row()).replace(",unit,", ",einheit,", 1))
    assert detect(path).name == "tidy_csv"


def test_what_fits_two_formats_asks_which() -> None:
    with pytest.raises(InputError, match=r"could be tidy_csv and tidy_csv \(it begins .* --from"):
        detect(_REAL["tidy_csv"][0], formats=(FORMATS[0], FORMATS[0]))


def test_formats_are_found_by_name() -> None:
    assert [named(each.name) for each in FORMATS] == list(FORMATS)
    with pytest.raises(UsageError, match=r"'\\\\x1b': no such format: use one of tidy_csv"):
        named("\x1b")
