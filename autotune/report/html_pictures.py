"""A report's plots inside an HTML page: as data, so that the page needs no file beside it.

They are shown as images, in which a browser runs no script and loads nothing, whatever a name in
a plot may be.
"""

import base64
from collections.abc import Mapping, Sequence

from autotune.errors import AutotuneError
from autotune.report.content import Picture, Report
from autotune.report.html_text import attribute, line
from autotune.report.quantities import QUANTITIES

# Vector first: it stays sharp at any size, and is smaller.
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
_NAMES = {quantity.stem: quantity.name for quantity in QUANTITIES}


def further_pictures(report: Report, pictures: Mapping[str, bytes]) -> list[Picture]:
    """Return the pictures that no block of ``report`` names, one for each stem, in their order."""
    named = {
        _stem(block.file)
        for section in report.sections
        for block in section.blocks
        if isinstance(block, Picture)
    }
    stems = dict.fromkeys(_stem(file) for file in pictures)
    return [
        Picture(f"{stem}.svg", f"plot of {_NAMES.get(stem, stem.replace('_', ' ')).lower()}")
        for stem in stems
        if stem not in named
    ]


def picture_html(picture: Picture, pictures: Mapping[str, bytes]) -> str:
    """Return ``picture`` as a figure; its SVG is taken where there is one.

    Raises:
        AutotuneError: ``pictures`` doesn't hold it in either format.
    """
    stem = _stem(picture.file)
    for suffix, media_type in _TYPES.items():
        data = pictures.get(stem + suffix)
        if data is not None:
            source = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            # No caption: each plot has a heading of its own.
            return (
                f'<figure class="wide"><img src="{source}" '
                f'alt="{attribute(picture.description)}"></figure>'
            )
    raise AutotuneError(
        f"the report shows {picture.file}, but no such plot was drawn: a fault of autotune; report "
        "it with the command"
    )


def folded_pictures(further: Sequence[Picture], pictures: Mapping[str, bytes]) -> str:
    """Return pictures that are shown on demand, with their names to choose by."""
    names = ", ".join(line(_stem(picture.file)) for picture in further)
    figures = "\n".join(picture_html(picture, pictures) for picture in further)
    return f"<details><summary>Each plot by itself: {names}</summary>\n{figures}\n</details>"


def _stem(file: str) -> str:
    return file.removesuffix(".svg").removesuffix(".png")
