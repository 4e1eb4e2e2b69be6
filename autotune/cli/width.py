"""How wide the reader's terminal is, if there is one."""

import shutil
import sys


def terminal_width() -> int | None:
    """Return the columns of the terminal that standard output is, ``None`` where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
