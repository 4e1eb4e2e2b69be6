"""How far a launch is from the circumstances that an entry was measured under. Pure.

Each difference is a finding. ``hard`` rules the entry out, ``stale`` makes it too old, the others
are told beside the answer: ``soft`` (a known difference that can't make the backend wrong),
``unrecorded`` (nobody wrote it down), ``assumed`` (the caller didn't say), ``note``.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from autotune.decisions.request import ResolveRequest
from autotune.decisions.schema import Entry, Scope

Kind = Literal["hard", "stale", "soft", "unrecorded", "assumed", "note"]
_NO_A2A = "none"
_VENDORS = ("nvidia ", "amd ")
# Which devices, how many threads, how ranks talk: these move figures, not a backend's answers.
_PROCESSOR_VARIABLES = ("GOMP_", "KMP_", "MKL_", "OMP_", "OPENBLAS_")
PLATFORM_VARIABLES = (
    *_PROCESSOR_VARIABLES,
    "CUDA_",
    "HIP_",
    "NCCL_",
    "NVSHMEM_",
    "PYTORCH_",
    "TORCH_",
)


class Finding(msgspec.Struct, frozen=True):
    """One difference; ``unrecorded`` and ``assumed`` hold a name, the others a sentence."""

    kind: Kind
    text: str


def serves(scope: Scope, arch: str, *, file_arch: str) -> bool:
    """Tell whether an entry of ``file_arch``'s file may be used on ``arch`` at all."""
    return arch == file_arch or arch in scope.also_arch


def compare(entry: Entry, request: ResolveRequest, *, file_arch: str) -> Iterator[Finding]:
    """Yield every difference but the ones of age (`freshness`)."""
    scope = entry.scope
    if not serves(scope, request.arch, file_arch=file_arch):
        yield Finding("hard", f"measured on {file_arch}, also_arch doesn't list {request.arch}")
    yield from _fact("engine", scope.engine, request.engine)
    yield from _fact("geometry", scope.geometry, request.geometry)
    yield from _fact("dtype", scope.dtype, request.dtype)
    for name in ("tp", "ep", "dp", "attention_dp"):
        # Where only the count of devices is on record, it says as much as tp for a launch that
        # uses each of them for it.
        spread = name == "tp" and scope.device_count is not None
        default = scope.device_count if spread else 1
        yield from _fact(name, getattr(scope, name), getattr(request, name), default=default)
    yield from _all_to_all(scope, request)
    yield from _settings(scope, request)
    yield from _device(scope, request, lent_by=None if request.arch == file_arch else file_arch)
    yield from _libraries(scope, request)
    yield from _environment(entry, request)


def _fact(
    name: str,
    measured: object | None,
    asked: object | None,
    *,
    kind: Kind = "hard",
    default: object | None = None,
) -> Iterator[Finding]:
    """Compare one fact; ``default`` is the only value that may meet an unrecorded one."""
    if measured is None:
        if default is not None and asked not in (None, default):
            yield Finding("hard", f"{name} is {asked}, the decision doesn't record what it was")
        else:
            yield Finding("unrecorded", name)
    elif asked is None:
        yield Finding("assumed", f"{name}={measured}")
    elif measured != asked:
        yield Finding(kind, f"{name} is {asked}, measured with {measured}")


def _of_the_processor(variable: str, arch: str) -> bool:
    """Whether a variable steers the processor's kernels alone, and the launch is on a GPU."""
    return variable.startswith(_PROCESSOR_VARIABLES) and not arch.startswith("cpu-")


def _all_to_all(scope: Scope, request: ResolveRequest) -> Iterator[Finding]:
    yield from _fact("a2a_backend", scope.a2a_backend, request.a2a_backend, default=_NO_A2A)
    in_use = request.a2a_backend or scope.a2a_backend or _NO_A2A
    if in_use == _NO_A2A:
        return  # Engines have a default mode even where no all-to-all runs: it steers nothing.
    if scope.a2a_mode is None and request.a2a_mode is not None:
        yield Finding(
            "hard", f"a2a_mode is {request.a2a_mode}, the decision doesn't record what it was"
        )
    else:
        yield from _fact("a2a_mode", scope.a2a_mode, request.a2a_mode)


def _settings(scope: Scope, request: ResolveRequest) -> Iterator[Finding]:
    measured, asked = scope.engine_settings, request.engine_settings
    for name in sorted({*measured, *(asked or {})}):
        if asked is None:
            yield Finding("assumed", f"{name}={measured[name]}")
        elif asked.get(name) != measured.get(name):
            yield Finding(
                "hard", f"{_set_to(name, asked)}, measured with {_set_to(name, measured)}"
            )


def _device(scope: Scope, request: ResolveRequest, *, lent_by: str | None) -> Iterator[Finding]:
    if lent_by is not None:
        yield Finding("note", f"lent by {lent_by} (also_arch): {scope.also_arch_reason}")
    measured, asked = scope.device_name, request.device_name
    if measured is None or asked is None:
        yield from _fact("device_name", measured, asked)
    elif _plain_device(measured) != _plain_device(asked):
        # One arch can hold chips with opposite winners (H100, H200). Another arch is always
        # another chip, and whoever listed it in also_arch knew that.
        yield Finding(
            "note" if lent_by else "hard", f"the device is {asked}, measured on {measured}"
        )
    yield from _fact("device_count", scope.device_count, request.device_count, kind="soft")


def _plain_device(name: str) -> str:
    plain = " ".join(name.casefold().replace("-", " ").split())
    for vendor in _VENDORS:
        plain = plain.removeprefix(vendor)
    return plain


def _libraries(scope: Scope, request: ResolveRequest) -> Iterator[Finding]:
    measured, asked = scope.kernel_libraries, request.kernel_libraries or {}
    for name in sorted({*measured, *asked}):
        yield from _fact(name, measured.get(name), asked.get(name), kind="soft")


def _environment(entry: Entry, request: ResolveRequest) -> Iterator[Finding]:
    """Compare the kernel-steering variables, and tell the winner's own arguments.

    A variable can make a backend's answers wrong (weights shuffled for another backend), so a
    known difference is hard, also where the decision records none. Soft are only those of the
    platform under the engine (`PLATFORM_VARIABLES`), unless the winner itself was given them.
    """
    chosen = entry.choice
    measured = {**entry.scope.kernel_environment, **chosen.environment}
    asked = request.kernel_environment
    for name in sorted({*measured, *(asked or {})}):
        if _of_the_processor(name, request.arch) and name not in chosen.environment:
            continue
        if asked is None:
            yield Finding("assumed", f"{name}={measured[name]}")
        elif asked.get(name) != measured.get(name):
            platform = name.startswith(PLATFORM_VARIABLES) and name not in chosen.environment
            yield Finding(
                "soft" if platform else "hard",
                f"{_set_to(name, asked)}, measured with {_set_to(name, measured)}",
            )
    if chosen.arguments:
        yield Finding(
            "note",
            "the winner was measured with more arguments, which aren't applied: "
            + " ".join(chosen.arguments),
        )


def _set_to(name: str, variables: Mapping[str, str]) -> str:
    return f"{name}={variables[name]}" if name in variables else f"{name} unset"
