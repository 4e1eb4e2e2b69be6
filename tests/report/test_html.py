"""The page holds what the report says, each text disarmed, and asks nothing of any network."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError
from autotune.report.content import (
    Answers,
    Asked,
    Bullets,
    Code,
    Column,
    Paragraph,
    Picture,
    Report,
    Section,
    SideBySide,
    Table,
    Told,
)
from autotune.report.html import render_html
from autotune.report.html_answers import side_by_side_html
from autotune.report.html_table import sort_key, table_html
from autotune.report.html_text import MOST_BYTES, attribute, line, lines
from autotune.report.write import build_report
from tests.report.probed import probed_run, subject_of

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'
PNG = b"\x89PNG\r\n\x1a\n"


class Reader(HTMLParser):
    """What a browser makes of a page: its tags, with their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def page_of(*blocks: object, pictures: dict[str, bytes] | None = None) -> str:
    section = Section("Plots", tuple(blocks))  # type: ignore[arg-type]
    return render_html(Report("title", (section,)), pictures or {})


def images(page: str) -> list[dict[str, str | None]]:
    return [attributes for tag, attributes in read(page).tags if tag == "img"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("zero\u200bwidth \U000e0041", "zero\\u200bwidth \\U000e0041"),
        ("half\ud800", "half\\ud800"),
        ("\ufffd\ufffd", "\ufffd\ufffd"),
        ("<b>&amp;\"'", "<b>&amp;\"'"),
        ("东京\u3000\xa0é", "东京\u3000\xa0é"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_what_it_is(text: str, shown: str) -> None:
    for html in (line(text), lines(text)[0], attribute(text)):
        assert read(html).text == shown
    assert read(f'<img alt="{attribute(text)}">').tags == [("img", {"alt": shown})]


def test_odd_characters_share_a_mark_and_replacement_characters_have_one() -> None:
    assert line("ab\x00\x01\ufffdc") == 'ab<span class="odd">\\x00\\x01\ufffd</span>c'


@given(st.text())
def test_no_text_makes_a_tag_or_acts(text: str) -> None:
    for html in (line(text), lines(text)[0]):
        assert {tag for tag, _ in read(html).tags} <= {"span"}
        assert all(char.isprintable() or char in "\n\t" or char.isspace() for char in html)
        html.encode()
    assert "\n" not in line(text)


def test_a_line_is_cut_and_line_breaks_are_kept_where_they_matter() -> None:
    assert line("a\n  b\tc") == "a b c"
    assert lines("a\n\tb") == ("a\n\tb", 0)
    assert line("x" * 50, longest=10) == "x" * 9 + "…"


@given(
    st.text(st.sampled_from("ab\x00\x1b<\U0010ffff東\ufffd\n"), max_size=80), st.integers(0, 300)
)
def test_html_has_its_bytes_and_the_rest_is_counted(text: str, most_bytes: int) -> None:
    html, left = lines(text, most_bytes=most_bytes)
    assert len(html.encode()) <= most_bytes
    whole, none = lines(text[: len(text) - left])
    assert (whole, none) == (html, 0)
    assert html.count("<span") == html.count("</span>")
    # One character more has no room.
    assert not left or len(lines(text[: len(text) - left + 1])[0].encode()) > most_bytes
    assert lines(text, most_bytes=10**6)[1] == 0


@pytest.mark.parametrize("char", ["\x1b", "\x1ba", "\U0010ffff.", "'", "東"])
def test_no_text_makes_a_page_huge(char: str) -> None:
    assert len(line(char * 10**5).encode()) < MOST_BYTES + 60
    long = char * (10**6 // len(char))
    told = Told(before=long, different=long, after=long, instead=long, where="alone", note="cut")
    answers = Answers("eager", "summary", (told,))
    asked = Asked(name="p", kind="long", text=long, summary="s", answers=(answers,), differs=True)
    html = side_by_side_html(SideBySide((asked,)))
    # The prompt, the answer and the reference's part, each within its limit.
    assert len(html.encode()) < MOST_BYTES * (1 + 1 + 1 / 3) + 1500
    text = read(html).text
    assert "more characters aren't shown" in text
    left = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) more characters", text)]
    assert len(left) == 2
    assert left[0] >= 10**6 - MOST_BYTES and left[1] >= 4 * 10**6 - 2 * MOST_BYTES


def test_the_docs_state_the_limits() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for name in ("reports.md", "formats.md"):
        assert f"{MOST_BYTES:,} bytes" in (docs / name).read_text()


def test_an_ordinary_text_is_shown_whole() -> None:
    for text in ("word, <i> & 'it' " * 58, "東京都の" * 250, "\U0001f600" * 1000):
        assert lines(text[:1000])[1] == 0


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1,475", 1475.0),
        ("240.6", 240.6),
        ("-0.5", -0.5),
        ("0.841 [0.573, 1.233]", 0.841),
        ("0.855 [0.677, 1.079], n = 5", 0.855),
        ("incumbent", 1.0),
        ("leader", 1.0),
        ("12.5%", 0.125),
        ("1e-06 s", 1e-6),
        ("2.31 s", 2.31),
        ("1 in 4,000", 1 / 4000),
        ("n/a", None),
        ("", None),
        ("not known", None),
        ("1 in 0", None),
        (",", None),
        ("nan", None),
    ],
)
def test_the_number_that_a_figure_sorts_by(text: str, key: float | None) -> None:
    assert sort_key(text) == key


def test_chances_sort_by_how_likely_they_are() -> None:
    texts = ["under 1 in a million", "1 in 4,000", "3.4%", "34%", "99%", "over 99%", "100%"]
    keys = [sort_key(text) for text in texts]
    assert None not in keys
    assert keys == sorted(keys, key=float)  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_any_text_has_a_key_or_none(text: str) -> None:
    key = sort_key(text)
    assert key is None or key == key


def test_a_table_marks_figures_names_and_verdicts() -> None:
    columns = (Column("a name", code=True), Column("figure", numeric=True), Column("verdict"))
    table = Table(columns, (("eager", "1,475", "fail"), ("other", "n/a", "x" * 50)))
    html = table_html(table, label='Figures "x"')
    assert 'aria-label="Figures &quot;x&quot;"' in html
    assert "<td><code>eager</code></td>" in html
    assert '<td class="number" data-sort="1475.0">1,475</td><td class="bad">fail</td>' in html
    assert '<td class="number">n/a</td><td class="long">xx' in html


def test_the_page_says_all_that_the_report_says() -> None:
    subject = subject_of(probed_run())
    report = build_report(
        subject, plots=(), folder_name="demo", environment={"gpu": {"name": "H200"}}
    )
    page = read(render_html(report, {}))
    for section in report.sections:
        for block in section.blocks:
            match block:
                case Paragraph():
                    texts: tuple[str, ...] = (block.text,)
                case Bullets():
                    texts = block.items
                case Code():
                    texts = block.lines
                case Table():
                    texts = tuple(cell for row in block.rows for cell in row)
                    texts += tuple(column.title for column in block.columns)
                case SideBySide():
                    texts = tuple(asked.summary for asked in block.asked)
                case Picture():
                    texts = ()
            assert all(text in page.text for text in texts)
    links = [a["href"] for tag, a in page.tags if tag == "a"]
    ids = [f"#{a['id']}" for tag, a in page.tags if tag == "section"]
    assert links == ids
    assert len(ids) == len(set(ids)) == sum(bool(section.blocks) for section in report.sections)


def test_the_policy_allows_the_pages_own_parts_and_no_address_is_named() -> None:
    page = page_of(Picture("a.png", "d"), pictures={"a.png": PNG})
    (policy,) = (
        attributes["content"]
        for tag, attributes in read(page).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy and "http" not in policy
    assert not re.findall(r"https?:|//[a-z]|@import|url\(", page)
    for tag, attributes in read(page).tags:
        assert not {name for name in attributes if name.startswith("on")} | {"style"} & {
            *attributes
        }
        assert tag != "link" or attributes["href"] == "data:,"


def test_the_same_report_gives_the_same_page() -> None:
    report = build_report(subject_of(probed_run()), plots=(), folder_name="demo", environment=None)
    assert render_html(report, {}) == render_html(report, {})


def test_a_plot_is_inside_the_page_as_svg_if_it_can_be() -> None:
    picture = Picture("ratio.png", 'the "ratio"')
    (image,) = images(page_of(picture, pictures={"ratio.png": PNG, "ratio.svg": SVG}))
    assert image["src"] is not None and image["src"].startswith("data:image/svg+xml;base64,")
    assert image["alt"] == 'the "ratio"'
    (image,) = images(page_of(picture, pictures={"ratio.png": PNG}))
    assert image["src"] is not None and image["src"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("file", ["ratio.png", "ratio.gif", "", ".", "/"])
def test_a_plot_that_was_not_drawn_is_an_error_of_ours(file: str) -> None:
    with pytest.raises(AutotuneError, match="no such plot was drawn"):
        page_of(Picture(file, "d"), pictures={"other.png": PNG})


def test_plots_that_no_block_names_are_shown_too_once_each() -> None:
    pictures = {"a.svg": SVG, "a.png": PNG, "ttft.svg": SVG, "ttft.png": PNG, "rare.png": PNG}
    page = page_of(Picture("a.png", "all"), Paragraph("after"), pictures=pictures)
    assert [image["alt"] for image in images(page)] == [
        "all",
        "plot of time to first token",
        "plot of rare",
    ]
    assert page.index("Each plot by itself: ttft, rare") < page.index("<p>after</p>")
    (image,) = images(page_of(Paragraph("text"), pictures={"a.svg": SVG}))
    assert image["alt"] == "plot of a"


def test_folded_sections_fold_and_equal_titles_get_different_links() -> None:
    blocks = (Paragraph("text"),)
    sections = (Section("Same!", blocks), Section("Same?", blocks, folded=True), Section("Empty"))
    page = render_html(Report("t", (*sections, Section("东", blocks))), {})
    assert re.findall(r'href="(#[^"]*)"', page) == ["#same", "#same-again", "#section"]
    assert "<details><summary><h2>Same?</h2></summary>" in page
    assert "Empty" not in page
