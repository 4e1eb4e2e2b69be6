"""What a user may have meant by a word that isn't known."""

import difflib
from collections.abc import Sequence


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `` (did you mean ...?)`` where a known word is close, else nothing."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
