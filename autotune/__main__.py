"""The ``autotune`` command: every way out of it has a message and a documented exit code."""

import os
import sys

from autotune.errors import EXIT_FAILURE, EXIT_USAGE, AutotuneError, UsageError


def main() -> None:
    """Run the command line and exit; see ``docs/exit-codes.md``."""
    try:
        from autotune.cli import app, complain
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "autotune":
            raise
        print(
            f"autotune: {error.name} isn't installed: the command line needs "
            "pip install 'moe-autotune[sweep]'",
            file=sys.stderr,
        )
        sys.exit(EXIT_USAGE)
    try:
        _refuse_broken_arguments(sys.argv[1:])
        app()
    except AutotuneError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except OSError as error:
        where = f"{str(error.filename)[:200]}: " if error.filename is not None else ""
        complain(f"{where}{error.strerror or error}")
        sys.exit(EXIT_USAGE if error.filename is not None else EXIT_FAILURE)


def _refuse_broken_arguments(arguments: list[str]) -> None:
    """Arguments become file names, records and output, all of which are UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {argument!a}: not valid UTF-8") from None


if __name__ == "__main__":
    main()
