"""Text from logs, servers and files made fit to print: one line, no control characters.

Whatever a report shows may have been written by a hostile server. `one_line` cleans it for any
format; escaping for one format is that format's own business.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

LONGEST = 300
_LONGER = 64  # As much as a legend of one column has room for, with a number and roles.

_TERMINAL_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)


def one_line(text: str, *, longest: int = LONGEST) -> str:
    """Return ``text`` as one printable line, cut to ``longest`` characters with an ellipsis.

    Terminal escapes go, and so do invisible characters that reorder or hide text; line breaks
    and tabs become spaces.
    """
    text = _TERMINAL_ESCAPE.sub("", text)
    text = "".join(char if char.isprintable() else " " for char in text)
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def plot_label(text: str, *, longest: int = 60) -> str:
    """Return ``text`` for a plot: printable ASCII, for which every font has a glyph."""
    text = one_line(text, longest=longest).replace("…", "...")
    return text.encode("ascii", "replace").decode()


def short_label(text: str, *, longest: int = 44) -> str:
    """Return ``text`` for a plot, cut in the middle: long names often differ at their end."""
    text = plot_label(text, longest=LONGEST)
    if len(text) <= longest:
        return text
    end = (longest - 3) * 2 // 5
    return f"{text[: longest - 3 - end]}...{text[-end:]}"


def distinct_labels(names: Sequence[str]) -> dict[str, str]:
    """Return a label for each name, no two alike: as short as `short_label` where that is enough.

    Names that are cut into one text get more of themselves, and a number where that doesn't help.
    """
    labels = {name: short_label(name) for name in names}
    labels |= {name: short_label(name, longest=_LONGER) for name in _alike(labels)}
    numbers = {name: number for number, name in enumerate(names, start=1)}
    return labels | {name: f"{numbers[name]}: {labels[name]}" for name in _alike(labels)}


def _alike(labels: Mapping[str, str]) -> list[str]:
    times = Counter(labels.values())
    return [name for name, label in labels.items() if times[label] > 1]


def count(number: int, noun: str) -> str:
    """Return ``1 round``, ``3 rounds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
