"""Probe texts: equal answers are counted, different ones shown where they part, not too many."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.records.schema import ProbeAnswer
from autotune.report.content import Answers, Asked, Bullets, Paragraph, Section, SideBySide
from autotune.report.excerpts import LONGEST_TEXT, excerpt
from autotune.report.html_answers import side_by_side_html
from autotune.report.markdown import render
from autotune.report.probe_texts import MOST_DIFFERENT, probe_texts_section
from autotune.report.write import build_report
from tests.records.builders import make_run
from tests.report.probed import TRUE, Server, honest, probed_run, subject_of


def section_of(server: Server = honest, *, reference: str | None = "eager") -> Section:
    return probe_texts_section(subject_of(probed_run(server, reference=reference)))


def asked(section: Section, prompt: str) -> Asked:
    (block,) = (block for block in section.blocks if isinstance(block, SideBySide))
    return next(one for one in block.asked if one.name == prompt)


def answers(section: Section, prompt: str, candidate: str) -> Answers:
    return next(one for one in asked(section, prompt).answers if one.who == candidate)


def counts(section: Section) -> tuple[str, ...]:
    return next(block.items for block in section.blocks if isinstance(block, Bullets))


def test_a_run_without_probes_has_no_section() -> None:
    assert not probe_texts_section(subject_of(make_run(rounds=1))).blocks


def test_equal_answers_are_counted_and_not_repeated() -> None:
    section = section_of()
    capital = asked(section, "capital")
    assert capital.summary == "same as the reference in 13 of 13 answers"
    assert not capital.differs
    assert capital.text == "What is the capital of France?\nAnswer:"
    assert capital.trusted is not None and capital.trusted.who == "eager"
    assert capital.trusted.told[0].before == TRUE["capital"]
    assert capital.trusted.told[0].where == "alone in round 0"
    assert [one.told for one in capital.answers] == [()] * 3
    assert answers(section, "capital", "grouped_mm").summary == (
        "same as the reference in 4 of 4 answers"
    )
    assert counts(section) == (
        "eager: same as its own first answer in 10 of 10 answers",
        "batched_mm: same as the reference in 8 of 8 answers",
        "grouped_mm: same as the reference in 8 of 8 answers",
    )


def test_a_different_answer_is_marked_where_it_parts_and_says_where_it_was_asked() -> None:
    def server(candidate: str, round_number: int, prompt: str) -> str:
        if candidate == "grouped_mm" and prompt == "count" and round_number == 2:
            return TRUE[prompt].replace("three", "thirty")
        return TRUE[prompt]

    section = section_of(server)
    count = asked(section, "count")
    assert count.summary == "2 of 13 answers not the same: grouped_mm 2"
    (block,) = (block for block in section.blocks if isinstance(block, SideBySide))
    assert [one.name for one in block.asked] == ["count", "capital"]
    grouped = answers(section, "count", "grouped_mm")
    assert grouped.summary == "same as the reference in 2 of 4 answers"
    (told,) = grouped.told
    assert (told.before, told.different, told.after) == (" one, two, ", "thirty", ", four, five")
    assert told.where == "2 answers: alone in round 2; among 4 in round 2"
    assert told.note == "parts from the reference at character 14 of its 28"
    assert told.instead == ""
    assert "grouped_mm: same as the reference in 6 of 8 answers, 2 different" in counts(section)


def test_only_the_commonest_of_many_different_answers_are_shown() -> None:
    def server(candidate: str, round_number: int, prompt: str) -> str:
        return f"{candidate} {round_number}" if candidate == "batched_mm" else TRUE[prompt]

    run = probed_run(server)
    more = [
        msgspec.structs.replace(
            probe,
            answers=tuple(
                msgspec.structs.replace(answer, text=f"{answer.text} {n // 3}")
                for n, answer in enumerate(probe.answers * 9)
            ),
        )
        if probe.candidate == "batched_mm"
        else probe
        for probe in run.probes
    ]
    section = probe_texts_section(subject_of(msgspec.structs.replace(run, probes=tuple(more))))
    batched = answers(section, "count", "batched_mm")
    assert len(batched.told) == MOST_DIFFERENT
    assert "more texts of" in batched.summary and "not shown" in batched.summary
    texts = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert any("launches/CANDIDATE/ROUND/probe.json" in text for text in texts)


def test_failures_and_unfinished_thoughts_are_told_apart_from_different_answers() -> None:
    def server(candidate: str, round_number: int, prompt: str) -> str | ProbeAnswer:
        if candidate == "batched_mm" and round_number == 1:
            return "<think>hm"
        if candidate == "batched_mm":
            return ProbeAnswer(
                prompt=prompt,
                mode="single",
                repeat=1,
                outcome="http_error",
                text="",
                error="500\x1b[31m",
            )
        return TRUE[prompt]

    section = section_of(server)
    batched = answers(section, "count", "batched_mm")
    assert batched.summary == (
        "same as the reference in 0 of 4 answers; 2 still thinking at the end; "
        "2 failed (http_error: 500)"
    )
    assert not batched.told
    assert asked(section, "count").differs
    assert counts(section)[1].endswith("0 of 8 answers, 4 still thinking at the end, 4 failed")


@pytest.mark.parametrize("reference", [None, "eager"])
def test_without_a_trusted_answer_the_texts_are_shown_and_nothing_is_compared(
    reference: str | None,
) -> None:
    def server(candidate: str, round_number: int, prompt: str) -> str:
        return "<think>hm" if candidate == "eager" else TRUE[prompt]

    section = section_of(server, reference=reference)
    count = asked(section, "count")
    assert count.summary.endswith("answers, not compared")
    grouped = answers(section, "count", "grouped_mm")
    assert grouped.summary == "1 different text in 4 answers"
    assert (grouped.told[0].before, grouped.told[0].different) == (TRUE["count"], "")
    if reference is None:
        assert count.trusted is None
        assert "names no reference" in section.blocks[0].text  # type: ignore[union-attr]
    else:
        assert count.trusted is not None
        assert "nothing can be held against it" in count.trusted.summary
        assert count.trusted.told[0].before == "<think>hm"


def test_answers_to_other_prompts_are_left_out_and_counted() -> None:
    run = probed_run()
    other = msgspec.structs.replace(run.probes[-1], prompts_digest="cd" * 32)
    section = probe_texts_section(
        subject_of(msgspec.structs.replace(run, probes=(*run.probes[:-1], other)))
    )
    assert asked(section, "count").summary == "same as the reference in 11 of 11 answers"
    texts = [block.text for block in section.blocks if isinstance(block, Paragraph)]
    assert "4 answers to another set of prompts can't be held against these." in texts


def test_the_markdown_report_stays_short() -> None:
    def server(candidate: str, round_number: int, prompt: str) -> str:
        return "word " * 400 if candidate == "grouped_mm" else TRUE[prompt]

    subject = subject_of(probed_run(server))
    report = render(build_report(subject, plots=(), folder_name="demo", environment=None))
    assert "grouped_mm: same as the reference in 0 of 8 answers, 8 different" in report
    assert "stand side by side in the HTML report" in report
    assert "word word" not in report


def test_a_long_answer_is_cut_around_where_it_parts() -> None:
    expected = "same words " * 400
    place = 273 * len("same words ")
    text = expected[:place] + "OTHER" + "x" * 5000 + expected[place:]
    told = excerpt(text, expected, where="1 answer: alone in round 1", shown=expected)
    assert told.before.startswith("…") and expected[:place].endswith(told.before[1:])
    assert "OTHER" in told.different
    assert len(told.before + told.different + told.after) < LONGEST_TEXT
    assert "characters, which are the same, are left out" in told.note
    assert "more characters aren't shown" in told.note


def test_a_long_prompt_is_cut_and_the_rest_counted() -> None:
    run = probed_run()
    long = [
        msgspec.structs.replace(
            probe,
            prompts=tuple(
                msgspec.structs.replace(prompt, text="word " * 300) for prompt in probe.prompts
            ),
        )
        for probe in run.probes
    ]
    section = probe_texts_section(subject_of(msgspec.structs.replace(run, probes=tuple(long))))
    count = asked(section, "count")
    assert count.text == ("word " * 300)[:LONGEST_TEXT] + "…"
    assert count.note == "500 more characters aren't shown"
    assert '<p class="note">500 more characters aren&#x27;t shown</p>' in side_by_side_html(
        SideBySide((count,))
    )
    assert asked(section_of(), "count").note == ""


def test_what_the_reader_cannot_see_of_the_reference_is_repeated() -> None:
    expected = "a b " * 600 + "right" + " c d" * 600
    text = expected.replace("right", "wrong")
    assert excerpt(text, expected, where="", shown=expected).instead == "right"
    told = excerpt("wrong", "right" + " and so on" * 30, where="")
    assert len(told.instead) == 201 and told.note.endswith(
        "of the reference's text there, 105 more characters aren't shown"
    )
    assert excerpt("wrong", "right", where="", shown="right").instead == ""
    assert excerpt("wrong", "I think: right", where="", shown="right").instead == "I think: right"


@given(st.text(max_size=300), st.text(max_size=300))
def test_an_uncut_excerpt_is_the_text_and_its_ends_are_the_others(text: str, other: str) -> None:
    told = excerpt(text, other, where="", shown=None)
    if "left out" in told.note or "aren't shown" in told.note:
        return
    assert told.before + told.different + told.after == text
    assert other.startswith(told.before) and other.endswith(told.after)
    assert len(told.before) + len(told.after) <= len(other)
