"""Keep Optuna from talking to the user in our place."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("optuna", "alembic")


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's log and its warnings of experimental features, for the block alone."""
    # Its first import sets its logger's level.
    import optuna

    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    logging.getLogger("optuna").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
