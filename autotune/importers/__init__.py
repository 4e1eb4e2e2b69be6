"""Other tools' result files as run folders: one module a format.

An importer says what the file says. What the file doesn't say is given by the caller or left out;
nothing is guessed. ``docs/importing.md`` has the mapping of fields with their units.
"""

from autotune.importers.assemble import assemble
from autotune.importers.load import import_files
from autotune.importers.schema import Imported, ImportOptions, SourceFile
from autotune.importers.tidy_csv import import_tidy
from autotune.importers.write import write_import

__all__ = [
    "ImportOptions",
    "Imported",
    "SourceFile",
    "assemble",
    "import_files",
    "import_tidy",
    "write_import",
]
