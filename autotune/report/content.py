"""What a report consists of, before any format: sections of paragraphs, tables and pictures.

Texts are plain here, as they came. Each format (`markdown`) escapes them its own way, so that a
hostile text is disarmed in one place per format.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """A table's column: ``numeric`` ones are right-aligned, ``code`` ones hold names.

    ``whole`` ones hold what mustn't be broken over two lines, such as dates.
    """

    title: str
    numeric: bool = False
    code: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of plain texts, one for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Paragraph:
    """A sentence or a few; ``strong`` is for the one that a reader must not miss."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """An image that lies beside the report; ``description`` is for who can't see it."""

    file: str
    description: str


@dataclass(frozen=True)
class Code:
    """Lines to copy into a shell."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """One text that a server gave, marked where it isn't the text that it's held against.

    ``before`` and ``after`` are in both, ``different`` is in this one only; ``instead`` is what
    the other one has there, where a reader couldn't see that elsewhere. ``where`` says how often
    and how it was asked for, ``note`` what of it isn't shown.
    """

    before: str
    different: str = ""
    after: str = ""
    instead: str = ""
    where: str = ""
    note: str = ""


@dataclass(frozen=True)
class Answers:
    """One server's answers to one prompt: a sentence on all of them, and those that stand out."""

    who: str
    summary: str
    told: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Asked:
    """One prompt with what it was answered; ``trusted`` is what the others are held against.

    ``differs`` says that something stands out: an answer that isn't the trusted one, or none.
    ``note`` says what of the prompt isn't shown.
    """

    name: str
    kind: str
    text: str
    summary: str
    answers: tuple[Answers, ...]
    trusted: Answers | None = None
    differs: bool = False
    note: str = ""


@dataclass(frozen=True)
class SideBySide:
    """Prompts with everybody's answers next to one another; too long for some formats."""

    asked: tuple[Asked, ...]


Block = Table | Paragraph | Bullets | Picture | Code | SideBySide


@dataclass(frozen=True)
class Section:
    """A heading with blocks; a ``folded`` one is shown on demand where the format can."""

    title: str
    blocks: tuple[Block, ...] = field(default=())
    folded: bool = False


@dataclass(frozen=True)
class Report:
    """A whole report. Sections without blocks aren't shown."""

    title: str
    sections: tuple[Section, ...]
