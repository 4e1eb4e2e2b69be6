"""One character over and over: at one prompt a small model's chance, at two prompts a defect."""

from tests.probe.builders import PROMPTS, Asked, judge, right, spoilt, sweep


def stuck(asked: Asked) -> str:
    return "!" * 160


def at(*names: str):
    return spoilt(right, stuck, lambda asked: asked.prompt in names and asked.mode == "crowd")


def test_one_prompt_is_left_open_and_two_fail() -> None:
    first, second = PROMPTS[0].name, PROMPTS[1].name
    one = judge(sweep(right, at(first)))
    assert one.verdict == "inconclusive" and "all of one prompt" in one.reason
    assert judge(sweep(right, at(first, second))).verdict == "fail"


def test_a_reference_is_excused_by_itself_for_one_prompt() -> None:
    found = judge(sweep(at(PROMPTS[0].name), None), "ref")
    assert next(one for one in found.findings if one.kind == "health").verdict == "pass"


def test_a_reference_of_garbage_is_none() -> None:
    found = judge(sweep(stuck, None), "ref")
    assert found.verdict == "fail"
