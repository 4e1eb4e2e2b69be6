"""Versions, ages and backends: what makes an entry stale."""

import datetime
from typing import Any

import pytest
from packaging.version import Version

from autotune.engines.sglang.table import read_catalog
from autotune.errors import UsageError
from autotune.review.check_backends import check_backends
from autotune.review.check_known import known_backends, known_versions, read_given_versions
from autotune.review.findings import Issue
from autotune.review.freshness import (
    KnownVersion,
    check_age,
    check_versions,
    superseded_by,
)
from tests.decisions.builders import CUTLASS, ROUTED, origin_entry
from tests.review.check_folder import Folder, found

TODAY = datetime.date(2026, 6, 1)


def versions(measured: str | None, *known: str, name: str = "sglang") -> list[Issue]:
    entry = origin_entry(scope={"engine_version": measured, "kernel_libraries": {"torch": "2"}})
    return list(check_versions(entry, 0, {name: [KnownVersion(one, "known") for one in known]}))


@pytest.mark.parametrize(
    ("measured", "known", "level"),
    [
        ("0.5.9", "0.5.9", None),
        ("0.5.9", "0.5.10", "stale"),
        ("0.5.9", "0.5.9.post1", "stale"),
        ("0.5.9rc1", "0.5.9", "stale"),
        ("0.5.10", "0.5.9", None),
        ("0.5.9", "0.5.9rc1", None),
        ("0.5.9", "0.6.0.dev3+g1234567", "stale"),
        ("0.5.9+cu126", "0.5.9+cu130", "note"),
        ("0.5.9", "0.5.9+cu130", "note"),
        ("0.5.9+cu130", "0.5.9.1+cu126", "stale"),
        ("v0.5.9", "0.5.9", None),
        ("1!0.1", "0.9", None),
        ("main", "0.5.9", "stale"),
        ("0.5.9", "main", "stale"),
        ("main", "main", None),
    ],
)
def test_a_newer_engine_makes_it_stale(measured: str, known: str, level: str | None) -> None:
    found = versions(measured, known)
    assert [issue.level for issue in found] == ([] if level is None else [level])
    if level == "stale":
        (issue,) = found
        assert measured in issue.message and known in issue.message
        assert f"--version sglang={measured}" in issue.remedy


def test_the_newest_of_what_is_known_counts_and_is_told_once() -> None:
    (issue,) = versions("0.5.9", "0.5.8", "0.5.11", "0.5.10")
    assert "sglang 0.5.11 (known) is newer than the measured 0.5.9" in issue.message


def test_a_newer_kernel_library_makes_it_stale() -> None:
    (issue,) = versions("0.5.9", "2.1", name="torch")
    assert issue.place == ("entries", 0, "scope", "kernel_libraries", "torch")


def test_what_wasnt_recorded_is_a_note() -> None:
    assert [issue.level for issue in versions(None, "0.5.9")] == ["note"]
    entry = origin_entry(scope={"kernel_libraries": {}})
    assert [issue.level for issue in check_versions(entry, 0, {})] == ["note"]


@pytest.mark.parametrize(
    ("measured_at", "limit", "level"),
    [
        ("2026-05-01", None, None),
        ("2026-05-01", 31, None),
        ("2026-05-01", 30, "stale"),
        ("2026-06-02", 30, None),
        ("2026-06-03", 30, "note"),
        ("soon", None, "wrong"),
    ],
)
def test_age(measured_at: str, limit: int | None, level: str | None) -> None:
    entry = origin_entry(evidence={"measured_at": measured_at})
    issues = check_age(entry, 0, today=TODAY, max_age_days=limit)
    assert [issue.level for issue in issues] == ([] if level is None else [level])


def test_an_older_entry_is_kept_beside_a_newer_releases() -> None:
    entries = [
        origin_entry(scope={"engine_version": "0.5.9"}),
        origin_entry(scope={"engine_version": "0.6.1", "kernel_libraries": {"torch": "3"}}),
        origin_entry(scope={"engine_version": "0.7.0", "tp": 8}),
        origin_entry(scope={"engine_version": None}),
    ]
    assert [superseded_by(index, entries) for index in range(4)] == [1, None, None, None]


def backends(engine: str = "sglang", **choice: Any) -> list[Issue]:
    entry = origin_entry(choice=choice, scope={"engine": engine})

    def have(name: str) -> frozenset[str] | None:
        return frozenset({ROUTED, CUTLASS}) if name == "sglang" else None

    return list(check_backends(entry, 0, backends=have, run=None))


def test_backends_that_the_engine_lost() -> None:
    (others,) = backends()
    assert (others.level, others.code) == ("note", "backend")
    assert "flashinfer_cutedsl, flashinfer_trtllm" in others.message
    gone, _ = backends(backend="flashinfer_gone")
    assert (gone.level, gone.place[2:]) == ("stale", ("choice", "backend"))


def test_an_engine_that_nobody_here_knows() -> None:
    (issue,) = backends(engine="home-made")
    assert issue.level == "note" and "home-made isn't known here" in issue.message


def test_an_installations_own_backend_is_no_stale_one(folder: Folder) -> None:
    entry = origin_entry(choice={"backend": "home_made"})
    (folder.run / "run.toml").write_text('[engine]\nextra_backends = ["home_made"]\n')
    issues = check_backends(entry, 0, backends=lambda _: frozenset({ROUTED}), run=folder.run)
    assert "stale" not in [issue.level for issue in issues]
    (folder.run / "run.toml").write_text("[engine\n")
    issues = check_backends(entry, 0, backends=lambda _: frozenset({ROUTED}), run=folder.run)
    assert "stale" in [issue.level for issue in issues]


def test_the_catalog_tells_releases_apart() -> None:
    """Whatever the catalog says to be gone or new in some release, isn't there in the others."""
    catalog = read_catalog()
    for name, runner in catalog.runners.items():
        last = runner.until or catalog.read[-1]
        assert name in (known_backends("sglang", last) or ())
        later = [one for one in catalog.read if Version(one) > Version(last)]
        assert all(name not in (known_backends("sglang", one) or ()) for one in later)
        if runner.since is not None:
            before = max(one for one in catalog.read if Version(one) < Version(runner.since))
            assert name not in (known_backends("sglang", before) or ())
    # Nothing was read of so old a release: that isn't a no.
    assert known_backends("sglang", "0.1") == frozenset(catalog.runners)
    assert known_backends("nobody", None) is None
    assert "grouped_mm" in (known_backends("transformers", None) or ())


def test_what_is_known_here() -> None:
    entry = origin_entry(scope={"kernel_libraries": {"packaging": "1", "never-heard-of": "1"}})
    known = known_versions([entry], {})
    assert [one.source for one in known["packaging"]] == ["installed here"]
    assert "never-heard-of" not in known
    assert read_catalog().read[-1] in [one.version for one in known["sglang"]]


def test_what_is_given_counts_alone() -> None:
    known = known_versions([origin_entry()], read_given_versions(["SGLang=0.5.9"]))
    assert [one.version for one in known["sglang"]] == ["0.5.9"]


@pytest.mark.parametrize("pair", ["sglang", "=1", "sglang=", "sglang=new", "a=1=2"])
def test_versions_that_cant_be_given(pair: str) -> None:
    with pytest.raises(UsageError, match="NAME=VERSION"):
        read_given_versions([pair])


def test_a_version_that_is_given_twice() -> None:
    with pytest.raises(UsageError, match="given already"):
        read_given_versions(["flashinfer-python=1", "FlashInfer_Python=2"])


def test_a_whole_check_tells_what_is_stale(folder: Folder) -> None:
    def record(content: dict[str, Any]) -> None:
        content["scope"].update(engine_version="0.5.9", kernel_libraries={"triton": "3.5.0"})

    folder.edit(record, folder.run / "run.json")
    folder.edit(lambda content: record(content["entries"][0]))
    assert found(folder.check())[0].level == "stale"
    given = {"sglang": "0.5.9", "triton": "3.6.0", "unheard-of": "1"}
    review = folder.check(versions=given, max_age_days=1)
    version, age = found(review)
    assert "triton 3.6.0 (given with --version)" in version.message
    assert age.level == "stale" and "the limit is 1" in age.message
    assert [one.path for one in review.findings if one.code == "version_unused"] == [""]


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    return Folder(tmp_path)
