from pathlib import Path

import msgspec
import pytest

from autotune.decisions import describe, family, one_line, resolve
from autotune.errors import UsageError

from .builders import decision, origin_entry, put, request


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain é 漢", "plain é 漢"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[31m\x00", "\\x1b[31m\\x00"),
        ("\u202eevil\u2028", "\\u202eevil\\u2028"),
        ("\ud800", "\\ud800"),
        ("y" * 600, "y" * 497 + "..."),
        ("\n" * 600, "\\n" * 248 + "\\..."),
    ],
)
def test_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


def test_describe_says_it_all_in_one_line(tmp_path: Path) -> None:
    store = put(tmp_path, decision())
    applied = describe(resolve(request(device_count=8), store))
    assert applied.startswith(
        "autotune: applied (MiniMaxM2ForCausalLM, modelopt_fp4, sm100): flashinfer_trtllm_routed "
        "at concurrency 1/16/64/128, measured on 2026-03-01, 4xNVIDIA GB200, sglang 0.5.9, "
        "geometry 3072,1536,256,8, decisive, 1.31x flashinfer_cutlass; file "
    )
    assert applied.endswith("; warning: device_count is 8, measured with 4")
    missing = describe(resolve(request(quantization="fp8"), store))
    assert missing.endswith("; the engine's own default is kept")


def test_hostile_text_in_a_valid_file_stays_in_its_line(tmp_path: Path) -> None:
    entry = origin_entry(
        choice={"outcome": "open"},
        evidence={"accepted": tuple(f"line\n{number}\x1b" * 100 for number in range(100))},
    )
    resolution = resolve(request(), put(tmp_path, decision(entry)))
    assert resolution.status == "applied"
    assert resolution.warnings[-1] == "and 80 more"
    assert describe(resolution).isprintable()


def test_resolution_is_json_with_the_request_and_the_entry(tmp_path: Path) -> None:
    resolution = resolve(request(engine="sg\ud800"), put(tmp_path, decision()))
    data = msgspec.json.decode(msgspec.json.encode(resolution))
    assert data["status"] == "out_of_scope"
    assert data["request"]["engine"] == "sg\\ud800"
    applied = msgspec.json.decode(msgspec.json.encode(resolve(request(), put(tmp_path))))
    assert applied["entry"]["evidence"]["run"] == "minimax-m2-nvfp4-gb200"


def test_age_limit_needs_a_day() -> None:
    with pytest.raises(UsageError, match="max_age_days needs today"):
        request(max_age_days=3)


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        ("sm100", "sm10"),
        ("SM_103a", "sm10"),
        ("sm101", "sm11"),
        ("sm110", "sm11"),
        ("sm120", "sm12"),
        ("sm90", "sm9"),
        ("gfx942", "gfx"),
        ("cpu-x86_64", "cpu"),
        ("42", ""),
    ],
)
def test_family(arch: str, name: str) -> None:
    assert family(arch) == name
