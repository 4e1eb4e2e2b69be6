"""What a server asks: the launch it is about to make, in the words of a decision's scope."""

from datetime import date

import msgspec

from autotune.decisions.schema import Geometry
from autotune.errors import UsageError

AUTO = "auto"


class ResolveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One launch. ``None`` means that the caller doesn't say.

    ``backend`` is what the user asked for: ``None`` and ``"auto"`` leave it open, anything else
    is kept. ``kernel_environment`` is picked by the same rule as when measuring (every
    kernel-steering variable that is set, no other): one that is set on one side only rules an
    entry out. ``today`` and ``max_age_days`` are passed in, so that the same request always has
    the same answer.

    Raises:
        UsageError: ``max_age_days`` is given without ``today``.
    """

    model: str
    quantization: str
    arch: str
    backend: str | None = None
    geometry: Geometry | None = None
    engine: str | None = None
    engine_version: str | None = None
    dtype: str | None = None
    tp: int | None = None
    ep: int | None = None
    dp: int | None = None
    attention_dp: int | None = None
    a2a_backend: str | None = None
    a2a_mode: str | None = None
    engine_settings: dict[str, str] | None = None
    device_name: str | None = None
    device_count: int | None = None
    kernel_libraries: dict[str, str] | None = None
    kernel_environment: dict[str, str] | None = None
    disabled: bool = False
    max_age_days: int | None = None
    today: date | None = None

    def __post_init__(self) -> None:
        if self.max_age_days is not None and self.today is None:
            raise UsageError("max_age_days needs today: the age of a decision is counted from it")

    @property
    def explicit(self) -> str | None:
        """The backend that the user named, ``None`` where it was left open."""
        return None if self.backend == AUTO else self.backend
