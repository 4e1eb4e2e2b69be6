"""Where a run's study is kept: a file in the run folder, or a database that the user names.

The study is a log for people to look at (``optuna-dashboard``); the records are the evidence. So
a file that can't be read is set aside and made anew, and only a database that the user asked for
must be there when a sweep begins. The file is SQLite's: killed in the middle of a write it stays
readable, where Optuna's journal stays locked for half a minute, or ends in a line that no one can
append to.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from autotune.config.check_tunables import STORAGE_VARIABLE, check_storage
from autotune.errors import UsageError
from autotune.search.quiet import quiet_optuna

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

STUDY_FILE = "study.db"
_WAIT_S = 30
_CONNECT_TIMEOUT_S = 10
_WITH_TIMEOUT = frozenset({"psycopg", "psycopg2", "pymysql", "mysqldb"})
_REMAINS = ("", "-journal", "-wal", "-shm")


class StudyPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a study is kept: ``file``, or the database behind ``url``, which may hold a password.

    ``key`` names what the URL was given by.
    """

    file: Path
    url: str | None = None
    key: str = "search.storage"

    def __str__(self) -> str:
        """The place as it may be shown: without password, user or options."""
        if self.url is None:
            return str(self.file)
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"

    def without_secrets(self, text: str) -> str:
        """Return ``text`` (a database's error) without the URL's password, on one line."""
        parts = urlsplit(self.url or "")
        password = parts.password or ""
        secrets = [self.url, password, unquote(password), parts.query]
        for secret in secrets:
            if secret:
                text = text.replace(secret, "***")
        return " ".join(text.split())[:300]


def study_place(
    folder: Path, *, storage: str | None, environ: Mapping[str, str] = os.environ
) -> StudyPlace:
    """Return where the study of the run in ``folder`` is kept.

    Args:
        folder: the run folder.
        storage: the config's ``search.storage``.
        environ: ``AUTOTUNE_STORAGE`` in it counts more than the config.

    Raises:
        ConfigError: the variable doesn't hold the URL of a database.
    """
    file = folder / STUDY_FILE
    url = environ.get(STORAGE_VARIABLE)
    if url:
        check_storage(url, key=STORAGE_VARIABLE, published=False)
        return StudyPlace(file=file, url=url, key=STORAGE_VARIABLE)
    return StudyPlace(file=file, url=storage)


@contextmanager
def opened(place: StudyPlace) -> Iterator["RDBStorage"]:
    """Open the storage for the block: nothing is held while a server runs for minutes.

    Whatever a broken file or database makes Optuna and its driver raise comes through as it is.
    """
    with quiet_optuna():
        from optuna.storages import RDBStorage
        from sqlalchemy import NullPool, make_url

        options: dict[str, Any] = {"poolclass": NullPool}
        if place.url is None:
            # By a connection, not by an URL: a path may hold anything.
            options["creator"] = _connector(place.file)
            storage = RDBStorage("sqlite://", engine_kwargs=options)
        else:
            if make_url(place.url).get_driver_name() in _WITH_TIMEOUT:
                options["connect_args"] = {"connect_timeout": _CONNECT_TIMEOUT_S}
            # Optuna fills in braces.
            url = place.url.replace("{", "{{").replace("}", "}}")
            storage = RDBStorage(url, engine_kwargs=options)
        try:
            yield storage
        finally:
            storage.remove_session()
            storage.engine.dispose()


def check_reachable(place: StudyPlace) -> None:
    """Check that a database can be used before anything is launched; a file always can be.

    Raises:
        UsageError: it can't be reached, its driver isn't installed, or it isn't Optuna's.
    """
    if place.url is None:
        return
    try:
        with opened(place):
            pass
    except ImportError as error:
        raise UsageError(
            f"{place.key}: {place} needs a driver that isn't installed ({error}): install it, for "
            "PostgreSQL with pip install 'psycopg[binary]', or name another one, e.g. "
            "postgresql+psycopg://"
        ) from None
    except Exception as error:  # drivers raise what they like
        cause = place.without_secrets(str(error).partition("(Background on this")[0])
        raise UsageError(
            f"{place.key}: {place} can't be used ({type(error).__name__}: {cause}): start the "
            "database and check the URL, or leave it out for a file in the run folder"
        ) from None


def set_aside(file: Path) -> Path:
    """Rename a study's file, so that a new one can be made, and return the new name.

    Raises:
        OSError: it can't be renamed.
    """
    number = 1
    while (aside := file.with_name(f"{file.stem}.set-aside-{number}{file.suffix}")).exists():
        number += 1
    for ending in _REMAINS:
        with suppress(FileNotFoundError):
            file.with_name(file.name + ending).rename(aside.with_name(aside.name + ending))
    return aside


def is_broken(place: StudyPlace, error: Exception) -> bool:
    """Whether an error says that the file is unusable, rather than in use or short of space."""
    return place.url is None and not any(
        sign in str(error) for sign in ("database is locked", "disk is full", "readonly database")
    )


def _connector(file: Path) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(file, timeout=_WAIT_S)

    return connect
