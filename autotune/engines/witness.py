"""Where the witness lies: a tiny trained MiniMax-M2 that comes with the package.

It exists so that the whole line can be run for real on a machine without a GPU or a model hub.
Its answers read as English and depend on its experts, so that a wrong backend shows in them; it is
no language model to use. ``scripts/train_witness`` made it; the README in its folder says more.
"""

from pathlib import Path
from typing import Literal

_FOLDERS = {"minimax-m2": "witness_minimax_m2"}


def witness_folder(name: Literal["minimax-m2"]) -> Path:
    """The folder of a whole checkpoint; it is part of the package and never written to."""
    return Path(__file__).parent / _FOLDERS[name]
