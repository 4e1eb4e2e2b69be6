"""What a starting server does with a resolution, whatever the engine: apply, tell, or refuse.

Nothing here knows an engine; each plugin brings the request and its engine's objections.
"""

from collections.abc import Callable, Mapping

import msgspec

from autotune.decisions.request import AUTO, ResolveRequest
from autotune.decisions.resolution import Resolution, describe, one_line
from autotune.decisions.resolve import resolve
from autotune.decisions.schema import Entry
from autotune.decisions.store import Store

DISABLE_VARIABLE = "AUTOTUNE_DISABLE"
STRICT_VARIABLE = "AUTOTUNE_STRICT"
_OFF = frozenset({"", "0", "false", "no", "off"})


class StartUp(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: declare ``backend`` (``None`` keeps the engine's own default) and log ``line``.

    ``refusal`` says why a strict server must not start; ``None`` where it may.
    """

    backend: str | None
    line: str
    resolution: Resolution
    refusal: str | None = None


def switched_on(environ: Mapping[str, str], variable: str) -> bool:
    """Whether a variable is set, to anything but 0, false, no or off: a misspelt yes is a yes."""
    return environ.get(variable, "").strip().lower() not in _OFF


def left_alone(named: str, environ: Mapping[str, str], *, model: str) -> str | None:
    """Return the line to log where nothing is to be decided, ``None`` where something is.

    Said before anything is read, so that neither can fail: autotune is switched off, or the user
    named the backend (``named`` isn't ``auto``).
    """
    if switched_on(environ, DISABLE_VARIABLE):
        status, why = "disabled", f"{DISABLE_VARIABLE} is set; the engine's own choice is kept"
    elif named != AUTO:
        status, why = "explicit", f"{named} was asked for and is kept"
    else:
        return None
    return one_line(f"autotune: {status} ({model}): {why}")


def start_up(
    request: ResolveRequest,
    store: Store,
    *,
    strict: bool,
    objection: Callable[[str, Entry], str | None],
) -> StartUp:
    """Resolve a request that leaves the backend open, and say what the starting server does.

    Args:
        request: the launch.
        store: where decision files are.
        strict: refuse what is broken, stale, or measured under known other circumstances.
        objection: the engine's reason why an entry's backend can't run in this launch, ``None``
            if there is none.
    """
    resolution = resolve(request, store)
    backend, entry = resolution.backend, resolution.entry
    if resolution.status == "applied" and backend is not None and entry is not None:
        problem = objection(backend, entry)
        if problem is not None:
            resolution = msgspec.structs.replace(
                resolution,
                status="invalid",
                backend=None,
                reason=one_line(f"the decision's {backend} can't be used: {problem}"),
            )
    return StartUp(
        backend=resolution.backend if resolution.status == "applied" else None,
        line=describe(resolution),
        resolution=resolution,
        refusal=_refusal(resolution, store) if strict else None,
    )


def _refusal(resolution: Resolution, store: Store) -> str | None:
    reasons = [*resolution.mismatches, *store.problems()]
    if resolution.status in ("invalid", "stale"):
        reasons.insert(0, resolution.reason)
    return one_line("; ".join(reasons)) if reasons else None
