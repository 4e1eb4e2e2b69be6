from datetime import date
from pathlib import Path
from typing import Any

import pytest

from autotune.decisions import Geometry, Resolution, Status, Store, resolve

from .builders import CUTLASS, MODEL, ROUTED, decision, origin_entry, path_of, put, request

OTHER_GEOMETRY = Geometry(7168, 2048, 256, 8)


def status_of(store: Store, **changes: Any) -> Status:
    resolution = resolve(request(**changes), store)
    assert (resolution.backend is not None) == (resolution.status in ("applied", "explicit"))
    return resolution.status


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return put(tmp_path, decision())


def test_same_launch_is_applied_without_a_word(store: Store, tmp_path: Path) -> None:
    resolution = resolve(request(), store)
    assert (resolution.status, resolution.backend) == ("applied", ROUTED)
    assert resolution.warnings == ()
    assert resolution.file == str(path_of(tmp_path, decision().key))
    assert resolution.entry == origin_entry()
    assert resolution.request == request()
    assert "at concurrency 1/16/64/128, measured on 2026-03-01, 4xNVIDIA GB200" in resolution.reason


def test_also_arch_is_served_with_its_reason(store: Store) -> None:
    resolution = resolve(request(arch="sm103", device_name="NVIDIA GB300"), store)
    assert (resolution.status, resolution.backend) == ("applied", ROUTED)
    assert resolution.mismatches == ()
    assert any("lent by sm100" in line and "SM10X" in line for line in resolution.warnings)
    assert any("NVIDIA GB300" in line for line in resolution.warnings)


@pytest.mark.parametrize("arch", ["sm110", "sm120", "sm101", "sm90", "cpu-x86_64"])
def test_other_archs_get_nothing(store: Store, arch: str) -> None:
    assert status_of(store, arch=arch) == "no_decision"


def test_unlisted_kin_is_told_what_is_missing(tmp_path: Path) -> None:
    alone = origin_entry(scope={"also_arch": (), "also_arch_reason": None})
    resolution = resolve(request(arch="sm103"), put(tmp_path, decision(alone)))
    assert resolution.status == "no_decision"
    assert "there is one for sm100, which doesn't list sm103" in resolution.reason


@pytest.mark.parametrize("listed", ["sm110", "sm120", "SM120", "sm121", "sm101", "sm90"])
@pytest.mark.parametrize("arch", ["sm100", "sm103"])
def test_a_file_that_lends_across_families_is_invalid(
    tmp_path: Path, listed: str, arch: str
) -> None:
    store = put(tmp_path, decision(origin_entry(scope={"also_arch": ("sm103", listed)})))
    resolution = resolve(request(arch=arch), store)
    assert resolution.status == "invalid"
    assert f"also_arch lists {listed}" in resolution.reason
    assert status_of(store, arch=listed) == "no_decision"


def test_another_quantization_or_model_gets_nothing(store: Store) -> None:
    assert status_of(store, quantization="fp8") == "no_decision"
    assert status_of(store, model="Qwen3MoeForCausalLM") == "no_decision"


def test_disabled_comes_first_and_explicit_next(store: Store) -> None:
    off = resolve(request(disabled=True), store)
    assert (off.status, off.backend) == ("disabled", None)
    off = resolve(request(disabled=True, backend=CUTLASS), store)
    assert (off.status, off.backend) == ("disabled", CUTLASS)
    kept = resolve(request(backend=CUTLASS, a2a_backend="deepep"), store)
    assert (kept.status, kept.backend) == ("explicit", CUTLASS)
    assert status_of(store, backend="auto") == "applied"


HARD: dict[str, Any] = {
    "geometry": OTHER_GEOMETRY,
    "engine": "vllm",
    "engine_version": "0.4.9",
    "dtype": "float16",
    "tp": 8,
    "ep": 4,
    "dp": 2,
    "a2a_backend": "deepep",
    "device_name": "NVIDIA B200",
    "kernel_environment": {"SGLANG_X": "1", "SGLANG_SHUFFLE": "1"},
}


@pytest.mark.parametrize("field", HARD)
def test_hard_difference_is_named_and_never_applied(store: Store, field: str) -> None:
    resolution = resolve(request(**{field: HARD[field]}), store)
    assert (resolution.status, resolution.backend) == ("out_of_scope", None)
    assert resolution.entry is None
    value = str(HARD[field])
    assert ("SGLANG_SHUFFLE=1" if field == "kernel_environment" else value) in resolution.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"engine_version": "0.5.10"},
        {"device_count": 8},
        {"kernel_libraries": {"flashinfer-python": "0.7.2"}},
        {"kernel_environment": {"SGLANG_X": "1", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}},
    ],
)
def test_soft_difference_is_applied_with_a_warning(store: Store, changes: dict[str, Any]) -> None:
    resolution = resolve(request(**changes), store)
    assert (resolution.status, resolution.backend) == ("applied", ROUTED)
    assert len(resolution.warnings) == 1
    assert resolution.mismatches == resolution.warnings


def test_variables_differ_both_ways(store: Store, tmp_path: Path) -> None:
    assert status_of(store, kernel_environment={}) == "out_of_scope"
    assert status_of(store, kernel_environment={"SGLANG_X": "0"}) == "out_of_scope"
    own = decision(origin_entry(choice={"environment": {"NCCL_Y": "1"}, "arguments": ("--z", "2")}))
    resolution = resolve(request(), put(tmp_path, own))
    assert resolution.status == "out_of_scope", "the winner's own variables are part of it"
    assert "NCCL_Y unset, measured with NCCL_Y=1" in resolution.reason
    resolution = resolve(request(kernel_environment={"SGLANG_X": "1", "NCCL_Y": "1"}), store)
    assert resolution.status == "applied"
    assert any("--z 2" in line for line in resolution.warnings)


@pytest.mark.parametrize("field", [name for name in HARD if name != "geometry"])
def test_what_the_caller_does_not_say_is_assumed(store: Store, field: str) -> None:
    resolution = resolve(request(**{field: None}), store)
    assert resolution.status == "applied"
    assert len(resolution.warnings) == 1
    assert resolution.warnings[0].startswith("not given, so assumed to be as measured: ")
    assert resolution.mismatches == ()


@pytest.mark.parametrize("field", ["ep", "dp", "a2a_backend", "dtype", "device_name"])
def test_what_was_not_recorded_serves_the_default_only(tmp_path: Path, field: str) -> None:
    store = put(tmp_path, decision(origin_entry(scope={field: None})))
    plain = {"a2a_backend": "none", "dtype": "bfloat16", "device_name": "NVIDIA GB200"}
    for value in (plain.get(field, 1), None):
        resolution = resolve(request(**{field: value}), store)
        assert resolution.status == "applied"
        assert resolution.warnings == (f"not recorded in the decision: {field}",)
    if field in ("tp", "ep", "dp", "a2a_backend"):
        odd = "deepep" if field == "a2a_backend" else 2
        resolution = resolve(request(**{field: odd}), store)
        assert resolution.status == "out_of_scope"
        assert "doesn't record" in resolution.reason


@pytest.mark.parametrize(
    ("devices", "tp", "status"),
    [
        (4, 4, "applied"),
        (4, 1, "out_of_scope"),
        (4, 8, "out_of_scope"),
        (None, 1, "applied"),
        (None, 4, "out_of_scope"),
    ],
)
def test_the_device_count_stands_in_for_an_unrecorded_tp(
    tmp_path: Path, devices: int | None, tp: int, status: str
) -> None:
    store = put(tmp_path, decision(origin_entry(scope={"tp": None, "device_count": devices})))
    assert resolve(request(tp=tp), store).status == status


def test_all_to_all_mode_counts_only_where_there_is_one(store: Store, tmp_path: Path) -> None:
    assert status_of(store, a2a_mode="low_latency") == "applied"
    store = put(
        tmp_path, decision(origin_entry(scope={"a2a_backend": "deepep", "a2a_mode": "normal"}))
    )
    assert status_of(store, a2a_backend="none") == "out_of_scope"
    assert status_of(store, a2a_backend="deepep", a2a_mode="low_latency") == "out_of_scope"
    assert status_of(store, a2a_backend="deepep", a2a_mode="normal") == "applied"
    store = put(tmp_path, decision(origin_entry(scope={"a2a_backend": "deepep"})))
    assert status_of(store, a2a_backend="deepep", a2a_mode="normal") == "out_of_scope"
    assert status_of(store, a2a_backend="deepep", a2a_mode=None) == "applied"


def test_one_arch_two_chips(tmp_path: Path) -> None:
    plain = {"also_arch": (), "also_arch_reason": None}
    file = decision(origin_entry(scope={**plain, "device_name": "NVIDIA H200"}), arch="sm90")
    store = put(tmp_path, file)
    assert status_of(store, arch="sm90", device_name="NVIDIA H100") == "out_of_scope"
    assert status_of(store, arch="sm90", device_name="h200") == "applied"


@pytest.mark.parametrize(
    ("measured", "asked", "status"),
    [
        ("0.5.9", "0.6.0", "stale"),
        ("0.5.9", "0.6.0rc1", "stale"),
        ("0.5.9", "1.0", "stale"),
        ("0.5.9", "0.5.10.post1", "applied"),
        ("0.5.9", "v0.5.9", "applied"),
        ("0.10.1", "0.9.5", "out_of_scope"),
        ("0.5.9", "main", "stale"),
        ("main", "main", "applied"),
        ("0.5.9", "9" * 5000 + ".1", "stale"),
    ],
)
def test_engine_versions(tmp_path: Path, measured: str, asked: str, status: Status) -> None:
    store = put(tmp_path, decision(origin_entry(scope={"engine_version": measured})))
    resolution = resolve(request(engine_version=asked), store)
    assert resolution.status == status
    assert (resolution.backend is None) == (status != "applied")


def test_age_limit(store: Store) -> None:
    limit = {"today": date(2026, 3, 31), "max_age_days": 30}
    resolution = resolve(request(**limit), store)
    assert resolution.status == "applied"
    assert "on 2026-03-01 (30 days ago)" in resolution.reason
    resolution = resolve(request(**{**limit, "max_age_days": 29}), store)
    assert (resolution.status, resolution.backend) == ("stale", None)
    assert resolution.reason == "measured 30 days ago, the limit is 29"
    assert resolution.entry is not None
    early = resolve(request(today=date(2026, 2, 1)), store)
    assert early.status == "applied"
    assert "check the clock" in early.warnings[0]


def test_date_that_is_none(tmp_path: Path) -> None:
    store = put(tmp_path, decision(origin_entry(evidence={"measured_at": "last\nspring"})))
    assert status_of(store) == "applied"
    assert status_of(store, today=date(2026, 3, 1), max_age_days=9) == "stale"


def test_geometry_not_given(tmp_path: Path) -> None:
    store = put(tmp_path, decision())
    resolution = resolve(request(geometry=None), store)
    assert resolution.status == "applied"
    assert "geometry 3072,1536,256,8" in resolution.reason
    assert "geometry=3072,1536,256,8" in resolution.warnings[0]
    other = origin_entry(scope={"geometry": OTHER_GEOMETRY, "engine": "vllm"})
    resolution = resolve(request(geometry=None), put(tmp_path, decision(origin_entry(), other)))
    assert resolution.status == "out_of_scope"
    assert "3072,1536,256,8 / 7168,2048,256,8" in resolution.reason
    assert "--geometry" in resolution.reason


def test_geometries_of_lenders_count_too(tmp_path: Path) -> None:
    other = {"geometry": OTHER_GEOMETRY, "also_arch": (), "also_arch_reason": None, "tp": 8}
    store = put(tmp_path, decision(), decision(origin_entry(scope=other), arch="sm103"))
    assert status_of(store, arch="sm103", geometry=None) == "out_of_scope"
    assert status_of(store, arch="sm103") == "applied"


def test_own_file_comes_before_a_lender(tmp_path: Path) -> None:
    plain = {"also_arch": (), "also_arch_reason": None, "device_name": "GB300"}
    own = decision(origin_entry(scope=plain, choice={"backend": CUTLASS}), arch="sm103")
    store = put(tmp_path, decision(), own)
    here = {"arch": "sm103", "device_name": "GB300"}
    assert resolve(request(**here), store).backend == CUTLASS
    put(tmp_path, decision(origin_entry(scope={**plain, "tp": 8}), arch="sm103"))
    resolution = resolve(request(**here), store)
    assert (resolution.backend, resolution.status) == (ROUTED, "applied")
    resolution = resolve(request(**here, tp=2), store)
    assert resolution.status == "out_of_scope"
    assert resolution.file == str(tmp_path / "sm103" / MODEL / "modelopt_fp4.json")


def test_best_entry_wins(tmp_path: Path) -> None:
    exact = origin_entry()
    near = origin_entry(scope={"device_count": 8}, choice={"backend": CUTLASS})
    newer = origin_entry(
        choice={"backend": CUTLASS}, evidence={"measured_at": "2026-03-02T00:30:00+00:00"}
    )
    stale = origin_entry(scope={"engine_version": "0.4.0"}, choice={"backend": "triton"})
    assert resolve(request(), put(tmp_path, decision(near, exact))).backend == ROUTED
    assert resolve(request(), put(tmp_path, decision(exact, newer))).backend == CUTLASS
    assert resolve(request(), put(tmp_path, decision(stale, near))).backend == CUTLASS
    reason = resolve(request(tp=2, dp=2), put(tmp_path, decision(exact, near))).reason
    assert "the nearest of 2 entries doesn't fit: tp is 2, measured with 4; dp is 2" in reason


def test_what_was_accepted_is_told(tmp_path: Path) -> None:
    accepted = origin_entry(
        choice={"outcome": "open", "verdict": "fail"},
        evidence={"accepted": ("one round only", "the probe's long prompt differs")},
    )
    resolution = resolve(request(), put(tmp_path, decision(accepted)))
    assert resolution.status == "applied"
    assert "accepted in spite of: one round only; the probe's long" in resolution.reason
    assert resolution.warnings[0] == "accepted: one round only"
    silent = origin_entry(choice={"outcome": "open", "verdict": "inconclusive"})
    resolution = resolve(request(), put(tmp_path, decision(silent)))
    assert resolution.status == "applied"
    assert "its verdict is inconclusive, and nobody is recorded" in resolution.reason


@pytest.mark.parametrize(
    ("choice", "words"),
    [({"verdict": "fail"}, "failed the correctness probe"), ({"backend": "auto"}, "'auto'")],
)
def test_choices_that_can_not_be(tmp_path: Path, choice: dict[str, Any], words: str) -> None:
    resolution = resolve(request(), put(tmp_path, decision(origin_entry(choice=choice))))
    assert resolution.status == "invalid"
    assert words in resolution.reason


def test_no_entry_is_invalid(tmp_path: Path) -> None:
    store = put(tmp_path, decision())
    path = path_of(tmp_path, decision().key)
    head = '{"schema_version":1,"key":{"model":"%s","quantization":"modelopt_fp4","arch":"sm100"}'
    path.write_text(head % MODEL + ',"entries":[]}')
    assert status_of(store) == "invalid"


def test_no_folder_at_all() -> None:
    resolution: Resolution = resolve(request(), Store([]))
    assert resolution.status == "no_decision"
    assert "no folder at all" in resolution.reason
