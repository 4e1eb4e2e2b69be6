"""Decision files and the answer they give a server: the part of autotune that a server imports.

Only the standard library and msgspec are imported from here on down::

    from autotune.decisions import ResolveRequest, Store, describe, resolve

    request = ResolveRequest(
        model="MiniMaxM2ForCausalLM", quantization="modelopt_fp4", arch="sm100"
    )
    resolution = resolve(request, Store.from_environment(os.environ))
    logger.info(describe(resolution))
"""

from autotune.decisions.arch import device_label, family
from autotune.decisions.check import check_decision
from autotune.decisions.request import ResolveRequest
from autotune.decisions.resolution import Resolution, Status, describe, one_line
from autotune.decisions.resolve import resolve
from autotune.decisions.schema import (
    SCHEMA_VERSION,
    Choice,
    ConcurrencyWinner,
    DecisionFile,
    DecisionKey,
    Entry,
    Evidence,
    EvidenceRow,
    Geometry,
    Interval,
    Outcome,
    RejectedCandidate,
    Scope,
    Verdict,
    check_name,
    decode,
    encode,
)
from autotune.decisions.store import Broken, Found, Store, shipped_folders

__all__ = [
    "SCHEMA_VERSION",
    "Broken",
    "Choice",
    "ConcurrencyWinner",
    "DecisionFile",
    "DecisionKey",
    "Entry",
    "Evidence",
    "EvidenceRow",
    "Found",
    "Geometry",
    "Interval",
    "Outcome",
    "RejectedCandidate",
    "Resolution",
    "ResolveRequest",
    "Scope",
    "Status",
    "Store",
    "Verdict",
    "check_decision",
    "check_name",
    "decode",
    "describe",
    "device_label",
    "encode",
    "family",
    "one_line",
    "resolve",
    "shipped_folders",
]
