"""Scope: attention groups and engine settings tell launches apart; what devices are called."""

from pathlib import Path
from typing import Any

import pytest

from autotune.decisions import Resolution, check_name, device_label, resolve

from .builders import ROUTED, decision, origin_entry, put, request

EAGLE = {"speculative_algorithm": "EAGLE"}


def resolved(folder: Path, *, scope: dict[str, Any] | None = None, **asked: Any) -> Resolution:
    """The answer to the usual launch with changes, from a decision with changes to its scope."""
    return resolve(request(**asked), put(folder, decision(origin_entry(scope=scope))))


def check_hard(resolution: Resolution, *words: str) -> None:
    assert (resolution.status, resolution.backend) == ("out_of_scope", None)
    assert all(word in resolution.reason for word in words), resolution.reason


# -- attention groups


def test_other_attention_groups_are_another_launch(tmp_path: Path) -> None:
    check_hard(resolved(tmp_path, attention_dp=4), "attention_dp is 4, measured with 1")
    check_hard(resolved(tmp_path, scope={"attention_dp": 4}), "attention_dp is 1, measured with 4")


def test_the_same_attention_groups_are_applied_without_a_word(tmp_path: Path) -> None:
    found = resolved(tmp_path, scope={"attention_dp": 4}, attention_dp=4)
    assert (found.status, found.backend, found.warnings) == ("applied", ROUTED, ())


def test_replicas_are_no_attention_groups(tmp_path: Path) -> None:
    scope = {"dp": 4, "attention_dp": 1}
    check_hard(resolved(tmp_path, scope=scope, dp=1, attention_dp=4), "dp is", "attention_dp is")


def test_attention_groups_that_nobody_recorded_serve_one_alone(tmp_path: Path) -> None:
    found = resolved(tmp_path, scope={"attention_dp": None})
    assert found.status == "applied"
    assert found.warnings == ("not recorded in the decision: attention_dp",)
    check_hard(resolved(tmp_path, scope={"attention_dp": None}, attention_dp=2), "doesn't record")


def test_attention_groups_that_the_caller_leaves_out_are_assumed(tmp_path: Path) -> None:
    found = resolved(tmp_path, scope={"attention_dp": 4}, attention_dp=None)
    assert found.status == "applied"
    assert "attention_dp=4" in found.warnings[0] and "assumed" in found.warnings[0]


# -- the engine's settings


@pytest.mark.parametrize(
    ("measured", "asked", "words"),
    [
        ({}, EAGLE, ("speculative_algorithm=EAGLE", "measured with speculative_algorithm unset")),
        (EAGLE, {}, ("speculative_algorithm unset", "speculative_algorithm=EAGLE")),
        (EAGLE, {"speculative_algorithm": "NGRAM"}, ("=NGRAM", "=EAGLE")),
        (EAGLE, {**EAGLE, "enable_eplb": "true"}, ("enable_eplb=true", "enable_eplb unset")),
    ],
)
def test_another_setting_is_another_launch(
    measured: dict[str, str], asked: dict[str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    scope = {"engine_settings": measured}
    check_hard(resolved(tmp_path, scope=scope, engine_settings=asked), *words)


def test_every_other_setting_is_named(tmp_path: Path) -> None:
    asked = {"enable_eplb": "true", "pp_size": "2"}
    scope = {"engine_settings": EAGLE}
    found = resolved(tmp_path, scope=scope, engine_settings=asked)
    check_hard(found, "enable_eplb", "pp_size", "speculative_algorithm")


@pytest.mark.parametrize("settings", [{}, EAGLE])
def test_the_same_settings_are_applied_without_a_word(
    settings: dict[str, str], tmp_path: Path
) -> None:
    found = resolved(tmp_path, scope={"engine_settings": settings}, engine_settings=settings)
    assert (found.status, found.warnings) == ("applied", ())


def test_settings_that_the_caller_leaves_out_are_assumed(tmp_path: Path) -> None:
    found = resolved(tmp_path, scope={"engine_settings": EAGLE}, engine_settings=None)
    assert found.status == "applied"
    assert "speculative_algorithm=EAGLE" in found.warnings[0] and "assumed" in found.warnings[0]
    assert resolved(tmp_path, engine_settings=None).warnings == ()


# -- devices


@pytest.mark.parametrize(
    ("reported", "label"),
    [
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-HBM3"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("GB200", "GB200"),
        ("AMD Instinct MI300X", "AMD-Instinct-MI300X"),
    ],
)
def test_a_device_goes_by_one_word(reported: str, label: str) -> None:
    assert device_label(reported) == label
    assert device_label(label) == label
    assert check_name("device", label) == label


@pytest.mark.parametrize("reported", ["NVIDIA GB200", "gb200", "NVIDIA  GB200"])
def test_a_labelled_device_is_the_one_that_drivers_report(reported: str, tmp_path: Path) -> None:
    found = resolved(tmp_path, scope={"device_name": "GB200"}, device_name=reported)
    assert (found.status, found.warnings) == ("applied", ())


@pytest.mark.parametrize("reported", ["NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"])
def test_so_is_one_whose_name_has_several_words(reported: str, tmp_path: Path) -> None:
    """`--device-name` takes what nvidia-smi prints; a sweep records `device_label` of it."""
    scope = {"device_name": device_label(reported)}
    assert resolved(tmp_path, scope=scope, device_name=reported).status == "applied"
