"""What a config's limits must satisfy: that they can be kept to, and that they can be checked."""

import math

from autotune.config.schema import SweepConfig
from autotune.errors import ConfigError
from autotune.records.rule import VALUES_NEEDED, Limit


def check_limits(config: SweepConfig) -> None:
    """Check ``decision.limits`` against each other and against the load.

    Raises:
        ConfigError: a limit that nothing could keep to, that is given twice, or whose figure a
            point's requests can't give.
    """
    seen: set[tuple[str, int]] = set()
    for limit in config.decision.limits:
        _check_value(limit)
        for concurrency in limit.concurrency or config.load.concurrency:
            where = f"decision.limits: {limit.figure} at concurrency {concurrency}"
            if (limit.figure, concurrency) in seen:
                raise ConfigError(f"{where}: limited twice: remove one of the two")
            seen.add((limit.figure, concurrency))
            _check_requests(limit, config, concurrency=concurrency, where=where)


def _check_value(limit: Limit) -> None:
    where, at_most = f"decision.limits: {limit.figure}: at_most is {limit.at_most:g}", limit.at_most
    if limit.figure == "error_rate":
        if not 0 <= at_most < 1:
            raise ConfigError(f"{where}: give a share of the requests from 0 to below 1")
    elif not 0 < at_most < math.inf:
        raise ConfigError(f"{where}: give a time above 0, in seconds")


def _check_requests(limit: Limit, config: SweepConfig, *, concurrency: int, where: str) -> None:
    if limit.figure == "error_rate":
        return
    name, part, _ = limit.figure.split("_")
    sent, needed = config.requests_at(concurrency), VALUES_NEEDED.get(part, 1)
    if sent < needed:
        raise ConfigError(
            f"{where}: a {part} needs {needed} requests, and a point there sends {sent}: raise "
            f"load.min_requests to {needed} (or load.requests_per_slot), or limit a percentile "
            "that needs fewer"
        )
    if name == "tpot" and config.load.output_tokens < 2:
        raise ConfigError(f"{where}: one output token has no tpot: raise load.output_tokens")
