"""Whether SGLang itself would take a backend in this launch: its own rules and checks, asked first.

A decision's key doesn't tell every checkpoint from the next (experts in NVFP4 under the word fp8,
say). So what was measured for one may stop a server that starts with another, unless SGLang is
asked what it would say had the user named the backend.
"""

import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autotune.integrations.sglang_launch import FIELD, Declarations

# Where SGLang's rules and checks log what they choose.
_LOGGER_OF_SGLANG = "sglang.srt.arg_groups"
# The checks of a named backend that touch nothing but the arguments' declarations; a release that
# lacks one of them doesn't check that.
_CHECKS = (
    ("moe_hook", "handle_moe_kernel_config"),
    ("lora_hook", "check_lora_moe_runner_args"),
    ("validation_hook", "validate_experimental_sgl_marlin"),
)


def objection_of_sglang(
    server_args: Any, backend: str, *, unnamed: Declarations, rules: Callable[[], Declarations]
) -> str | None:
    """Return why SGLang refuses or changes ``backend`` if it is named, ``None`` if it doesn't.

    Args:
        server_args: SGLang's arguments, not yet resolved; they are the same afterwards.
        backend: what would be declared.
        unnamed: what the rules for the model declare where the backend is left open.
        rules: asks them again.
    """
    # Nothing public takes a declaration back.
    stash: list[tuple[str, dict[str, Any]]] = server_args._resolved_overrides
    kept = len(stash)
    ours: tuple[str, dict[str, Any]] = ("autotune's trial", {FIELD: backend})
    if getattr(server_args, "lora_paths", None):
        ours[1]["enable_lora"] = True  # As a later step of SGLang will have it.
    try:
        stash.append(ours)
        named = rules()
        stash += [*((rule, dict(fields)) for rule, fields in named), ours]
        changed = sorted(_beside(named) ^ _beside(unnamed))
        with quiet():
            became = _checked(server_args)
    except Exception as error:
        return f"SGLang refuses it here: {error}"
    finally:
        del stash[kept:]
    if became != backend:
        return f"SGLang would replace it by {became}"
    if changed:
        names = ", ".join(dict.fromkeys(name for name, _ in changed))
        return (
            f"SGLang's rules for the model set {names} otherwise where it is named: start with "
            f"--moe-runner-backend {backend}"
        )
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep SGLang's rules from logging what they choose a second time."""
    logger = logging.getLogger(_LOGGER_OF_SGLANG)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _checked(server_args: Any) -> str:
    from sglang.srt.arg_groups.overrides import resolving_view

    for module, name in _CHECKS:
        found = importlib.import_module(f"sglang.srt.arg_groups.{module}")
        check = getattr(found, name, None)
        if check is not None:
            check(server_args)
    return str(resolving_view(server_args).moe_runner_backend)


def _beside(declared: Declarations) -> set[tuple[str, str]]:
    """The values that rules declare beside the backend, the last of each counting."""
    values = {name: value for _, fields in declared for name, value in fields.items()}
    return {(name, repr(value)) for name, value in values.items() if name != FIELD}
