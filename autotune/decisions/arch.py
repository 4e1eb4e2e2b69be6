"""What archs and devices are called, and which arch may borrow another arch's decision at all.

Somebody must have listed the borrower in ``also_arch``; `family` is the limit to what may be
listed.
"""

import re

_SM = re.compile(r"sm_?(\d{1,4}?)\d[a-z]?")
_LETTERS = re.compile(r"[a-z]*")


def family(arch: str) -> str:
    """Return the group of archs that may lend decisions to one another.

    NVIDIA archs share a family when only the last digit differs (``sm100`` and ``sm103``), so
    ``sm110`` and ``sm120``, which have kernels of their own, can't borrow from ``sm100``. Others
    share one when their leading letters are the same (``gfx942`` and ``gfx950``).
    """
    name = arch.lower()
    match = _SM.fullmatch(name)
    if match is None:
        letters = _LETTERS.match(name)
        return letters[0] if letters else ""
    # CUDA 12 called Thor sm101, CUDA 13 calls it sm110: one chip, and no kin of sm100.
    return "sm11" if name.startswith(("sm101", "sm_101")) else f"sm{match[1]}"


def device_label(name: str) -> str:
    """Return a GPU's name as decisions hold it: ``GB200`` for ``NVIDIA GB200``, one word.

    Drivers and frameworks report the same string, so that measuring and serving agree.
    """
    return name.removeprefix("NVIDIA ").replace(" ", "-")
