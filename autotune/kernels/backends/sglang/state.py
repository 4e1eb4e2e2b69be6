"""The process-wide state of a server that SGLang's functions read, where there is no server.

The Triton MoE asks whether inference shall be deterministic, whether the sum over experts is fused,
and for the tensor-parallel group's memory pool. The defaults of a server's arguments answer the
first two; there is no group, and without symmetric memory nobody looks into it.
"""

import importlib
from typing import Any

# What SGLang's own tests and benchmarks name: no config is looked for.
_NO_MODEL = "dummy"


def ensure_published() -> None:
    """Publish a server's default arguments in this process, unless some are already.

    Idempotent. It is for a worker process that measures: whoever runs a server there has published
    its own arguments, and they stay.
    """
    context: Any = importlib.import_module("sglang.srt.runtime_context")
    if not context.get_context().is_config_namespace_published("exec"):
        arguments: Any = importlib.import_module("sglang.srt.server_args")
        context.publish(arguments.ServerArgs(model_path=_NO_MODEL), role="scheduler")
    parallel = context.get_parallel()
    try:
        _ = parallel.tp_group
    except (RuntimeError, AttributeError):
        parallel.override_permanently(tp_group=None)
