"""Other tools' result files as run folders: one module a format.

An importer says what the file says. What the file doesn't say is given by the caller or left out;
nothing is guessed. ``docs/importing.md`` has the mapping of fields with their units.
"""

from autotune.importers.schema import Imported, ImportOptions
from autotune.importers.tidy_csv import import_tidy
from autotune.importers.write import write_import

__all__ = ["ImportOptions", "Imported", "import_tidy", "write_import"]
