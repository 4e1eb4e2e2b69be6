"""The ``autotune`` command: every way out of it has a message and a documented exit code."""

import sys

from autotune.errors import EXIT_USAGE, AutotuneError


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
        app()
    except AutotuneError as error:
        complain(str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
