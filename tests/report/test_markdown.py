"""Whatever text a report holds, a Markdown reader shows that text and nothing else."""

import pytest
from markdown_it import MarkdownIt

from autotune.report.content import (
    Bullets,
    Code,
    Column,
    Paragraph,
    Report,
    Section,
    SideBySide,
    Table,
)
from autotune.report.markdown import code_span, escape, render

HOSTILE = (
    "a | b || c",
    "<script>alert(1)</script> & <img src=x onerror=y>",
    "[click](javascript:alert(1)) ![i](http://x/y.png)",
    "[x]: http://evil",
    "`code` ``more`` *bold* _it_ ~~gone~~ $x$",
    "# heading",
    "- item",
    "1. item",
    "---",
    "===",
    "> quote",
    "back\\slash \\| pipe",
    "line\n\n# heading\n| x |",
    "</details>",
)


def shown(markdown: str) -> tuple[str, set[str]]:
    """The text that a reader sees, and the kinds of inline and block marks that it's in."""
    texts: list[str] = []
    kinds: set[str] = set()
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown):
        kinds.add(token.type)
        for child in token.children or []:
            kinds.add(child.type)
            texts.append(child.content)
    return "".join(texts), kinds


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_shows_as_it_is(text: str) -> None:
    content, kinds = shown(escape(text))
    assert content == " ".join(text.split())
    assert kinds <= {"paragraph_open", "inline", "paragraph_close", "text", "text_special"}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("code", [True, False])
def test_a_cell_stays_one_cell(text: str, code: bool) -> None:
    table = Table((Column("a"), Column("b", code=code), Column("c")), (("1", text, "3"),))
    markdown = render(Report("t", (Section("s", (table,)),)))
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown)
    cells = [
        "".join(child.content for child in tokens[place + 1].children or [])
        for place, token in enumerate(tokens)
        if token.type == "td_open"
    ]
    assert cells == ["1", " ".join(text.split()), "3"]
    assert not {"html_block", "html_inline"} & shown(markdown)[1]


def test_mentions_and_references_are_inside_code() -> None:
    assert escape("ask @team about #12") == "ask `@`team about `#`12"
    assert escape("a @ b # c") == "a @ b # c"


def test_names_stay_readable() -> None:
    assert escape("flashinfer_trtllm_routed is 1.4% ahead") == (
        "flashinfer_trtllm_routed is 1.4% ahead"
    )
    assert code_span("grouped_mm") == "`grouped_mm`"
    assert code_span("a|b") == "a\\|b"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    section = Section("s", (Code(("echo ```` x", "two\nlines")),))
    assert "`````sh\necho ```` x\ntwo lines\n`````" in render(Report("t", (section,)))


def test_sections_without_blocks_are_left_out_and_folded_ones_fold() -> None:
    sections = (
        Section("Empty"),
        Section("Folded", (Bullets(("one", "two")),), folded=True),
        Section("Open", (Paragraph("sure", strong=True),)),
    )
    markdown = render(Report("t", sections))
    assert "Empty" not in markdown
    assert "<summary>Folded</summary>\n\n- one\n- two\n\n</details>" in markdown
    assert "## Open\n\n**sure**" in markdown


def test_a_section_whose_texts_only_the_page_holds_is_folded() -> None:
    section = Section("Texts", (Paragraph("same 3 times"), SideBySide(())))
    markdown = render(Report("t", (section,)))
    assert "<summary>Texts</summary>\n\nsame 3 times\n\n" in markdown


def test_a_report_that_is_too_long_for_a_comment_loses_its_longest_folds_first() -> None:
    sections = (
        Section("Open", (Paragraph("seen " * 20),)),
        Section("Short", (Paragraph("little"),), folded=True),
        Section("Long", tuple(Paragraph("much " * 20) for _ in range(20)), folded=True),
        Section("Longer", tuple(Paragraph("more " * 20) for _ in range(30)), folded=True),
    )
    report = Report("t", sections)
    assert "Left out" not in render(report)
    shorter = render(report, longest=4000)
    assert len(shorter) <= 4000
    assert shorter.count("Left out") == 1
    assert "<summary>Longer</summary>\n\nLeft out" in shorter
    assert "much much" in shorter and "little" in shorter
    # What isn't folded stays, whatever its length.
    assert "seen seen" in render(report, longest=10)
