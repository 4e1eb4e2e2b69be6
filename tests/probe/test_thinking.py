import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.thinking import strip_thinking

MARKS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
]
each_mark = pytest.mark.parametrize(("opening", "closing"), MARKS)
plain = st.text(st.characters(exclude_characters="<>|[]◁▷"), max_size=60)
hostile = st.lists(
    st.sampled_from([*(mark for pair in MARKS for mark in pair), "<", "think>", "|", " ", "x", "é"])
    | st.text(max_size=5),
    max_size=30,
).map("".join)


@each_mark
def test_a_block_and_the_white_space_after_it_are_removed(opening: str, closing: str) -> None:
    assert strip_thinking(f"{opening}2 + 2 is\n4{closing}\n\n The answer is 4. ") == (
        "The answer is 4. "
    )


@each_mark
def test_several_blocks_are_removed(opening: str, closing: str) -> None:
    text = f"{opening}a{closing}One, {opening}b{closing} two{opening}{closing}."
    assert strip_thinking(text) == "One, two."


@each_mark
def test_a_block_that_never_ended_leaves_no_answer(opening: str, closing: str) -> None:
    assert strip_thinking(f"{opening}hm") is None
    assert strip_thinking(f"{opening}a{closing}4 {opening}wait") is None
    assert strip_thinking(opening + closing[:-1]) is None


@pytest.mark.parametrize(("opening", "closing"), MARKS[:-1])
def test_a_block_that_the_prompt_began_is_removed(opening: str, closing: str) -> None:
    assert strip_thinking(f"2 + 2 is 4{closing}\n4") == "4"
    assert strip_thinking(f"a{closing}4{opening}b{closing}!") == "4!"


def test_the_end_of_a_message_is_no_end_of_a_block() -> None:
    assert strip_thinking("Paris<|end|>") == "Paris<|end|>"


@pytest.mark.parametrize(
    "before",
    [
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant",
        "<|channel|>analysis<|message|>hm<|start|>assistant",
        "hm<|end|><|start|>assistant",
        "",
    ],
)
def test_gpt_oss_answers_in_the_channel_for_it(before: str) -> None:
    assert strip_thinking(f"{before}<|channel|>final<|message|>4<|return|>") == "4"


def test_only_whole_marks_count() -> None:
    for text in ("a < b > c", " <thin k>", "<Think>x</Think>", "&lt;think&gt;", "  4 ", ""):
        assert strip_thinking(text) == text


@given(plain)
def test_a_text_without_marks_stays_as_it_is(text: str) -> None:
    assert strip_thinking(text) == text


@given(plain, plain, st.sampled_from(MARKS))
def test_what_is_thought_never_reaches_the_answer(
    thought: str, answer: str, marks: tuple[str, str]
) -> None:
    opening, closing = marks
    assert strip_thinking(opening + thought + closing + answer) == answer.lstrip()


@given(hostile)
def test_any_text_gives_a_part_of_itself_or_nothing(text: str) -> None:
    stripped = strip_thinking(text)
    if stripped is not None:
        rest = iter(text)
        assert all(character in rest for character in stripped)


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<think></think>", "<", "[THINK] "])
def test_a_hostile_text_takes_no_quadratic_time(piece: str) -> None:
    # A million characters are a moment's work; a quadratic reading would take hours.
    started = time.process_time()
    strip_thinking(piece * (1_000_000 // len(piece)))
    strip_thinking("<think>x</think>" + " " * 1_000_000)
    assert time.process_time() - started < 60
