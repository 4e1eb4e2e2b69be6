"""The command line: one module a command; each parses, calls one function and prints.

Imports at the top of these modules stay light, since ``autotune --help`` pays for all of them;
what a command needs is imported where it runs.
"""

from autotune.cli.app import app
from autotune.cli.output import complain

__all__ = ["app", "complain"]
