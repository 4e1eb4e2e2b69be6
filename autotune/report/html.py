"""A report as one HTML page that needs nothing else: no file beside it, and no network.

Its policy (a Content-Security-Policy, by hashes) lets a browser run the page's own script and
style and show the plots inside it, and nothing else, should a hostile text ever get past the
escaping. The page reads without its script too, which only sorts tables and unfolds.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from autotune.report.content import (
    Block,
    Bullets,
    Code,
    Paragraph,
    Picture,
    Report,
    Section,
    SideBySide,
    Table,
)
from autotune.report.html_answers import side_by_side_html
from autotune.report.html_pictures import folded_pictures, further_pictures, picture_html
from autotune.report.html_table import table_html
from autotune.report.html_text import attribute, line

LONGEST_COMMAND = 4000
_PLOTS = "Plots"


def render_html(report: Report, pictures: Mapping[str, bytes]) -> str:
    """Return ``report`` as a page.

    Args:
        report: what to show.
        pictures: the bytes of SVG and PNG files by name. Of a plot that is there as both, the SVG
            is shown. Those that no block names are shown too, on demand, beside those that one
            does.

    Raises:
        AutotuneError: ``report`` names a picture that isn't among ``pictures``.
    """
    style, script = _asset("page.css"), _asset("page.js")
    sections = _Sections.of(report, pictures)
    title = attribute(report.title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{line(report.title)}</h1></header>
<nav aria-label="Contents">
<ul>
{sections.contents()}
</ul>
</nav>
<main>
{sections.html()}
</main>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("autotune.report").joinpath("page", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    rules = {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@dataclass(frozen=True)
class _Sections:
    """The sections that have something to show, each with the name that a link leads to."""

    named: Mapping[str, Section]
    pictures: Mapping[str, bytes]
    further: tuple[Picture, ...]

    @classmethod
    def of(cls, report: Report, pictures: Mapping[str, bytes]) -> "_Sections":
        further = tuple(further_pictures(report, pictures))
        shown = [section for section in report.sections if section.blocks]
        if further and not any(_has_picture(section) for section in shown):
            shown.append(Section(_PLOTS, ()))
        named: dict[str, Section] = {}
        for section in shown:
            name = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
            while name in named:
                name += "-again"
            named[name] = section
        return cls(named, pictures, further)

    def contents(self) -> str:
        return "\n".join(
            f'<li><a href="#{name}">{line(section.title)}</a></li>'
            for name, section in self.named.items()
        )

    def html(self) -> str:
        return "\n".join(self._section(name, section) for name, section in self.named.items())

    def _section(self, name: str, section: Section) -> str:
        heading = f"<h2>{line(section.title)}</h2>"
        blocks = "\n".join(self._blocks(section))
        if section.folded:
            content = f"<details><summary>{heading}</summary>\n{blocks}\n</details>"
        else:
            content = f"{heading}\n{blocks}"
        return f'<section id="{name}">\n{content}\n</section>'

    def _blocks(self, section: Section) -> Iterator[str]:
        for block in section.blocks:
            yield self._block(block, label=section.title)
            if self.further and block is self._last_picture():
                yield folded_pictures(self.further, self.pictures)
        if self.further and not section.blocks:
            yield from (picture_html(picture, self.pictures) for picture in self.further)

    def _last_picture(self) -> Picture | None:
        """The last picture of the first section with any: the others are shown after it."""
        section = next(filter(_has_picture, self.named.values()), None)
        blocks = () if section is None else section.blocks
        return next((block for block in reversed(blocks) if isinstance(block, Picture)), None)

    def _block(self, block: Block, *, label: str) -> str:
        match block:
            case Table():
                return table_html(block, label=label)
            case Paragraph():
                kind = ' class="lead"' if block.strong else ""
                return f"<p{kind}>{line(block.text)}</p>"
            case Bullets():
                items = "".join(f"<li>{line(item)}</li>\n" for item in block.items)
                return f"<ul>\n{items}</ul>"
            case Picture():
                return picture_html(block, self.pictures)
            case Code():
                lines = [
                    line(one, longest=LONGEST_COMMAND, most_bytes=4 * LONGEST_COMMAND)
                    for one in block.lines
                ]
                spans = "\n".join(f"<span>{one}</span>" for one in lines)
                return f'<pre class="code"><code>{spans}</code></pre>'
            case SideBySide():
                return side_by_side_html(block)


def _has_picture(section: Section) -> bool:
    return any(isinstance(block, Picture) for block in section.blocks)
