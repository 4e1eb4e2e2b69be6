"""What else choosing a MoE runner changes in SGLang, so that a reader of its figures knows."""

from autotune.engines.sglang.table import Catalog
from autotune.records.schema import RunRecord

_NO_FUSION = (
    "with it SGLang doesn't fuse shared experts into the routed ones, so that a model that has any "
    "computes them apart; the figures include that"
)


def side_effects(run: RunRecord, *, catalog: Catalog) -> dict[str, str]:
    """Return one sentence for each candidate whose runner or all-to-all backend has a side effect.

    Only what the catalog claims for the run's release counts; without a version, for the latest
    read. Candidates of other engines have none here.
    """
    version = run.scope.engine_version
    exchange = catalog.a2a.get(run.scope.a2a_backend or "")
    found: dict[str, str] = {}
    for candidate in run.candidates:
        if candidate.engine != "sglang":
            continue
        for row in (catalog.runners.get(candidate.backend), exchange):
            if row is None or not row.disables_shared_expert_fusion:
                continue
            if catalog.holds(row, version):
                found[candidate.name] = _NO_FUSION
                break
    return found
