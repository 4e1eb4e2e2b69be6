"""A reader is told of what a runner changes beside its kernels, for releases that were read."""

import msgspec

from autotune.engines.sglang.side_effects import side_effects
from autotune.engines.sglang.table import read_catalog
from autotune.records.schema import RunRecord
from tests.records.builders import run_record

CATALOG = read_catalog()
NAMES = ("triton", "flashinfer_trtllm", "flashinfer_cutlass")


def run(
    *, version: str | None = "0.5.20", a2a: str | None = None, engine: str = "sglang"
) -> RunRecord:
    record = run_record(NAMES, (1,))
    scope = msgspec.structs.replace(record.scope, engine_version=version, a2a_backend=a2a)
    candidates = tuple(msgspec.structs.replace(c, engine=engine) for c in record.candidates)
    return msgspec.structs.replace(record, scope=scope, candidates=candidates)


def test_only_runners_that_the_catalog_says_it_of_have_one() -> None:
    found = side_effects(run(), catalog=CATALOG)
    assert found.keys() == {
        name for name in NAMES if CATALOG.runners[name].disables_shared_expert_fusion
    }
    assert "flashinfer_trtllm" in found and "triton" not in found
    assert "shared experts" in found["flashinfer_trtllm"]


def test_nothing_is_claimed_for_releases_that_nobody_read() -> None:
    assert side_effects(run(version="0.5.1"), catalog=CATALOG) == {}
    assert side_effects(run(version=None), catalog=CATALOG)


def test_an_all_to_all_backend_has_it_for_every_candidate() -> None:
    a2a = next(n for n, row in CATALOG.a2a.items() if row.disables_shared_expert_fusion)
    version = CATALOG.read[-1]
    assert side_effects(run(version=version, a2a=a2a), catalog=CATALOG).keys() == set(NAMES)


def test_other_engines_and_unknown_backends_have_none() -> None:
    assert side_effects(run(engine="vllm"), catalog=CATALOG) == {}
    record = run_record(("nobody_knows",), (1,))
    assert side_effects(record, catalog=CATALOG) == {}
