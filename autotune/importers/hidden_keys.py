"""Secrets in result files: a run folder keeps a copy of each file, and is checked in."""

from collections.abc import Mapping
from typing import Any

from autotune.environment import looks_secret
from autotune.errors import InputError
from autotune.importers.json_file import Fields


def refuse_secrets(fields: Fields) -> None:
    """Refuse an object that holds a text under a key named like a secret, however deep.

    What a tool has blanked already, with ``***`` or ``<redacted>``, is none.

    Raises:
        InputError: it does; the key is named, the secret isn't.
    """
    waiting: list[tuple[str, Any]] = [("", fields.content)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list):
            waiting += [(f"{path}[{index}]", each) for index, each in enumerate(value)]
        elif isinstance(value, Mapping):
            for key, each in value.items():
                place = f"{path}.{key}" if path else str(key)
                if isinstance(each, str) and looks_secret(str(key)) and not _is_blanked(each):
                    raise InputError(
                        f"{fields.where}: {place[:120]!a}: holds a secret, which the run folder "
                        "would keep a copy of: blank it in the file first"
                    )
                if isinstance(each, dict | list):
                    waiting.append((place, each))


def _is_blanked(text: str) -> bool:
    bare = text.strip().strip("*").lower()
    return not bare or bare in ("<redacted>", "redacted", "[redacted]", "none", "null")
