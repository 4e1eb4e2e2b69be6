"""The errors a caller may catch, and the exit code each of them ends a command with.

Catch everything that autotune raises on purpose with::

    try:
        ...
    except autotune.AutotuneError as error:
        ...

A message says what is wrong, where (file, key, line), and what to do. This module imports
nothing, since a server's start-up reads it.
"""

EXIT_DONE = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_OPEN = 3
EXIT_STALE = 4
EXIT_INTERRUPTED = 130


class AutotuneError(Exception):
    """Base of every error that autotune raises on purpose; ``exit_code`` is the command's."""

    exit_code = EXIT_FAILURE


class UsageError(AutotuneError):
    """What was asked for can't be done as written: an option, a file or a value is wrong."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """A sweep config is missing, unreadable or says something that can't be swept."""


class InputError(UsageError):
    """A file given as input (a table, a checkpoint, a run folder) can't be used."""


class DecisionFileError(UsageError):
    """A decision file is unreadable, of another schema, or contradicts its own place."""


class RunFolderError(UsageError):
    """A run folder can't be written, or holds another sweep than the one asked for."""


class EngineError(AutotuneError):
    """An engine isn't installed or can't be prepared; nothing was launched."""
