# ruff: noqa: RUF001 - letters that look like Latin ones are what is tested here
import ast
import base64
import itertools
import math
import statistics
import string
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.probe.answers import Given, Trusted, read_trusted, said
from autotune.probe.answers import given as given_by
from autotune.probe.health import HARD, Sign, score_signs, signs
from autotune.probe.health_judgement import ill_answers, judge_health
from autotune.probe.schema import Finding
from autotune.records.rule import CorrectnessRule
from autotune.records.schema import (
    ProbeAnswer,
    ProbeMode,
    ProbePrompt,
    ProbeRecord,
    ScoredContinuation,
)

REPOSITORY = Path(__file__).parents[2]
GERMAN = (
    "Der schnelle braune Fuchs springt über den faulen Hund und läuft danach durch den dunklen "
    "Wald, während die Jäger längst schlafen. Am Morgen finden sie nur noch seine Spur im Schnee, "
    "die über die Brücke bis zum Rathaus von Münster führt; weiß der Himmel, was er dort wollte."
)
CHINESE = (
    "从前有一座山，山上有一座庙，庙里有一个老和尚在给小和尚讲故事。他说：“你们要记住，做人要诚实，"
    "不要说谎。”小和尚听了以后，点了点头，然后去河边打水。2024年，人工智能（AI）发展得很快，"
    "北京、上海和深圳都有许多公司在研究大语言模型。"
)
JAPANESE = (
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で"
    "ニャーニャー泣いていた事だけは記憶している。コンピュータのプログラムは正しく動きました。"
)
ARABIC = "عاصمة فرنسا هي باريس، وهي مدينة كبيرة تقع على نهر السين ويزورها ملايين السياح كل عام."
HINDI = "भारत की राजधानी नई दिल्ली है और यहाँ की जनसंख्या बहुत अधिक है, लेकिन मौसम गर्म रहता है।"
CODE = (
    "def fibonacci(n):\n    if n < 2:\n        return n\n    a, b = 0, 1\n"
    "    for _ in range(n - 1):\n        a, b = b, a + b\n    return b\n"
)
JSON = '{"name": "Ada", "born": 1815, "occupation": ["mathematician", "writer"], "dead": true}'
TABLE = (
    "| city | country | people |\n| --- | --- | ---: |\n| Paris | France | 2,102,650 |\n"
    "| Rome | Italy | 2,754,719 |\n| Lisbon | Portugal | 545,796 |\n"
)
HEALTHY = {
    "english": "The capital of France is Paris. It lies on the Seine, and two million live there.",
    "fluent but wrong": "The capital of France is Lyon, which has been so since the year 1204.",
    "german": GERMAN,
    "chinese": CHINESE,
    "japanese": JAPANESE,
    "arabic": ARABIC,
    "hindi": HINDI,
    "russian": "Москва является столицей России и крупнейшим по численности населения городом.",
    "code": CODE,
    "json": JSON,
    "table": TABLE,
    "base64": base64.b64encode(GERMAN.encode()).decode(),
    "numbered list": "\n".join(f"{n}. {word}" for n, word in enumerate(GERMAN.split()[:12], 1)),
    "counting": "four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen",
    "emoji": "Well done! 🎉🎉 Your order 📦 is on its way 🚚, thank you 🙏🏽 👩‍👩‍👧‍👦",
    "cut inside a character": "你好，世界\ufffd",
    "cut inside a character of bytes": "日本\ufffd\ufffd\ufffd",
    "letters of three scripts": "π is Greek, и is Cyrillic, all the rest of this text is Latin.",
}
BROKEN = {
    "replacement soup": ("\ufffd" * 40, "replacement_characters", "100% replacement characters"),
    "half replaced": ("a\ufffd\ufffdb " * 8, "replacement_characters", "40% replacement"),
    "token 0": ("!" * 48, "one_character", "one character ('!') 48 times in a row"),
    "token 0 after a word": ("Paris " + "!" * 48, "one_character", "48 times in a row"),
    "controls": ("ab\x00\x01\x02cd" * 4, "control_characters", "43% control characters"),
    "a word": ("the " * 20, "loop", "'the ' over and over"),
    "a word, not quite": ("the the a the the the of the the the to the the the", "loop", "'the'"),
    "a sentence": (
        "Well. " + "I am not sure what you are asking me about. " * 4,
        "loop",
        "over and over",
    ),
    "a line": ("-" * 40, "loop", "'-' over and over"),
    "zeros": ("0." + "0" * 40, "loop", "'0' over and over"),
    "soup": ("};)(,.::12[]{}!?;&%$§=)(/&%$08", "symbol_soup", "100% punctuation and digits"),
    "scripts": ("the Мос 北京から ภาษา السلام ελλη nd", "mixed_scripts", "letters of 6 scripts"),
}


def answer(
    text: str,
    *,
    prompt: str = "p",
    mode: ProbeMode = "single",
    repeat: int = 1,
    reasoning: str = "",
    tokens: int | None = 32,
    finish: str | None = "length",
    nan: bool = False,
) -> ProbeAnswer:
    return ProbeAnswer(
        prompt=prompt,
        mode=mode,
        concurrency=1 if mode == "single" else 8,
        repeat=repeat,
        outcome="ok",
        text=text,
        reasoning=reasoning,
        output_tokens=tokens,
        finish_reason=finish,
        nan_marked=nan,
    )


def signs_of(one: ProbeAnswer, reference: ProbeAnswer | None = None) -> list[Sign]:
    return signs(one, said(one), reference)


def kinds_of(one: ProbeAnswer, reference: ProbeAnswer | None = None) -> set[str]:
    return {sign.kind for sign in signs_of(one, reference)}


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_honest_texts_show_no_sign(text: str) -> None:
    assert signs_of(answer(text)) == []
    assert signs_of(answer(text), answer(HEALTHY["english"])) == []


@pytest.mark.parametrize(("text", "kind", "seen"), BROKEN.values(), ids=BROKEN)
def test_broken_texts_show_what_is_wrong_with_them(text: str, kind: str, seen: str) -> None:
    found = {sign.kind: sign for sign in signs_of(answer(text), answer(HEALTHY["english"]))}
    assert seen in found[kind].seen  # type: ignore[index]
    assert found[kind].hard == (kind in HARD)  # type: ignore[index]
    assert 0 < found[kind].severity <= 1  # type: ignore[index]


@pytest.mark.parametrize("name", ["a line", "zeros", "a word", "soup", "scripts"])
def test_what_honest_models_do_now_and_then_is_no_hard_sign(name: str) -> None:
    assert not any(sign.hard for sign in signs_of(answer(BROKEN[name][0])))


def test_a_nan_that_the_engine_tells_of_is_a_hard_sign() -> None:
    (sign,) = signs_of(answer("Paris.", nan=True))
    assert sign.kind == "nan" and sign.hard


def test_garbled_thinking_is_garbage() -> None:
    assert "replacement_characters" in kinds_of(answer("4", reasoning="\ufffd" * 30))
    assert "one_character" in kinds_of(answer(f"<think>{'!' * 80}</think>4"))
    assert "one_character" in kinds_of(answer(f"<think>{'!' * 80}"))


def test_nothing_said_is_a_sign_where_the_reference_says_something() -> None:
    assert kinds_of(answer(" \n "), answer("Paris")) == {"empty"}
    assert kinds_of(answer(" \n "), answer(" ")) == set()
    assert kinds_of(answer(" \n ")) == set()


def test_who_is_still_thinking_has_not_said_nothing() -> None:
    reference = answer("Paris")
    assert kinds_of(answer("<think>The user asks"), reference) == set()
    assert kinds_of(answer("", reasoning="The user asks"), reference) == set()
    assert kinds_of(answer("<think>Hm.</think>\n\n", finish="length"), reference) == set()
    assert kinds_of(answer(" \n "), answer("<think>The user asks")) == set()


def test_an_early_end_is_a_soft_sign() -> None:
    early = answer("It", tokens=2, finish="stop")
    (sign,) = signs_of(early, answer(HEALTHY["english"], tokens=32))
    assert (sign.kind, sign.hard) == ("early_stop", False)
    assert sign.seen == "ended after 2 tokens, the reference after 32"
    assert sign.severity == pytest.approx(30 / 32)
    for reference in (answer("Rome is", tokens=3), answer("It is", tokens=None), None):
        assert signs_of(early, reference) == []
    assert signs_of(answer("It", tokens=2), answer("It is so", tokens=32)) == []


def test_much_punctuation_is_judged_by_the_references() -> None:
    digits = "3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43"
    assert kinds_of(answer(digits), answer(HEALTHY["english"])) == {"symbol_soup"}
    assert kinds_of(answer(digits), answer("2, 71, 82, 81, 82, 84, 59, 04, 52, 35")) == set()


def test_what_a_load_made_a_server_write_after_its_end_does_not_count() -> None:
    reference = answer("The answer is 4.", tokens=6, finish="stop")
    text = "The answer is 4." + "!" * 200
    assert kinds_of(answer(text, mode="load"), reference) == set()
    assert kinds_of(answer(text), reference) == {"one_character", "loop", "symbol_soup"}
    assert "one_character" in kinds_of(answer("!" * 200, mode="load"), reference)


def score(
    *values: float | None, tokens: tuple[int | None, ...] = (), prompt: str = "p"
) -> ScoredContinuation:
    return ScoredContinuation(
        prompt=prompt,
        mode="single",
        repeat=1,
        outcome="ok",
        log_probabilities=values,
        top_token_ids=tokens,
    )


def test_log_probabilities_that_are_no_number_are_a_hard_sign() -> None:
    (sign,) = score_signs(score(-0.1, None, math.nan), vocabulary_size=None)
    assert sign.kind == "nan" and sign.hard
    assert sign.seen == "2 of 3 log-probabilities are no number"
    assert sign.severity == pytest.approx(2 / 3)
    assert score_signs(score(-0.1, -2.0), vocabulary_size=None) == []


def test_what_the_reference_does_not_tell_either_is_excused_token_by_token() -> None:
    own = [score(None, -0.1, -0.1)]
    assert score_signs(score(None, -0.2, -0.2), vocabulary_size=None, reference=own) == []
    (sign,) = score_signs(score(None, -0.2, None), vocabulary_size=None, reference=own)
    assert sign.seen == "1 of 3 log-probabilities are no number"


def test_tokens_outside_the_vocabulary_are_a_hard_sign() -> None:
    of = score(-0.1, -0.1, tokens=(99, 100))
    (sign,) = score_signs(of, vocabulary_size=100)
    assert (sign.kind, sign.hard, sign.severity) == ("outside_vocabulary", True, 0.5)
    assert sign.seen == "token 100 is outside the vocabulary"
    assert score_signs(of, vocabulary_size=101) == score_signs(of, vocabulary_size=None) == []
    assert score_signs(score(-0.1, tokens=(-1,)), vocabulary_size=None) != []
    assert score_signs(score(-0.1, tokens=(None,)), vocabulary_size=100) == []


def _docstrings(module: object) -> list[str]:
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = (ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, documented))
    return list(filter(None, found))


PROSE = [
    (REPOSITORY / "README.md").read_text(),
    *(path.read_text() for path in sorted((REPOSITORY / "docs").glob("*.md"))),
    *itertools.chain.from_iterable(map(_docstrings, (statistics, textwrap, string, ast))),
    *(text * 3 for text in HEALTHY.values() if "\ufffd" not in text),
]


@given(
    st.sampled_from(PROSE), st.integers(0, 10**6), st.integers(8, 400), st.sampled_from([None, 32])
)
def test_no_slice_of_an_honest_text_shows_a_hard_sign(
    text: str, start: int, length: int, tokens: int | None
) -> None:
    start %= len(text)
    slice_ = text[start : start + length]
    for reference in (None, answer(text[:200])):
        found = signs_of(answer(slice_, tokens=tokens), reference)
        # White space is cut out of a text, but never is all that a model says.
        assert not [sign for sign in found if sign.hard and slice_.strip()], slice_


@given(st.sampled_from(PROSE), st.integers(0, 10**6), st.integers(16, 400))
def test_an_answer_cut_at_any_byte_shows_no_hard_sign(text: str, start: int, length: int) -> None:
    start %= len(text)
    cut = text[start:].encode()[:length].decode(errors="replace")
    assert not [sign for sign in signs_of(answer(cut)) if sign.hard]


@given(
    st.text(), st.text(), st.text(), st.sampled_from(["stop", "length", None]), st.integers(0, 99)
)
def test_any_texts_can_be_judged_and_told(
    text: str, reasoning: str, expected: str, finish: str | None, tokens: int
) -> None:
    one = answer(text, reasoning=reasoning, finish=finish, tokens=tokens, mode="load")
    found = signs_of(one, answer(expected, finish=finish))
    assert len({sign.kind for sign in found}) == len(found)
    for sign in found:
        assert 0 <= sign.severity <= 1
        assert sign.seen.isprintable() and len(sign.seen) < 200


@pytest.mark.parametrize("piece", ["a", "ab", "a" * 999 + "b", "\ufffd", "<think>", "the ", "é🙂"])
def test_a_hostile_text_takes_no_quadratic_time(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    started = time.process_time()
    signs_of(answer(text, reasoning=text), answer(text))
    assert time.process_time() - started < 60


PROMPTS = [f"prompt {n}" for n in range(24)]
RULE = CorrectnessRule()


def fluent(prompt: str, repeat: int = 1) -> str:
    return f"This is what everybody says of {prompt}: it is a fine one, and we asked for it."


def record(candidate: str, answers: list[ProbeAnswer]) -> ProbeRecord:
    return ProbeRecord(
        candidate=candidate,
        round=1,
        prompts_digest="x",
        prompts=tuple(ProbePrompt(name=name, kind="short", text=name) for name in PROMPTS),
        max_tokens=32,
        answers=tuple(answers),
    )


def answers_of(texts: dict[tuple[str, int], str], *, repeats: int = 4) -> list[ProbeAnswer]:
    """Each prompt once alone and then in a crowd, fluent where no other text is given."""
    return [
        answer(
            texts.get((prompt, repeat), fluent(prompt)),
            prompt=prompt,
            mode="single" if repeat == 1 else "crowd",
            repeat=repeat,
        )
        for prompt in PROMPTS
        for repeat in range(1, repeats + 1)
    ]


def judge(
    candidate: list[ProbeAnswer],
    reference: list[ProbeAnswer] | None,
    *,
    scores: tuple[ScoredContinuation, ...] = (),
) -> Finding:
    probes = [record("fast", candidate)] + ([record("eager", reference)] if reference else [])
    trusted: Trusted | None = read_trusted(probes, reference="eager")
    mine: list[Given] = given_by(probes, candidate="fast")
    own = given_by(probes, candidate="eager")
    finding, _ = judge_health(
        mine,
        ill_answers(mine, scores, trusted, vocabulary_size=1000),
        own,
        ill_answers(own, [], trusted, vocabulary_size=1000),
        reference="eager",
        rule=RULE,
    )
    return finding


def test_fluent_answers_pass() -> None:
    other = {(p, r): f"Nobody knows a thing about {p} any more." for p in PROMPTS for r in (1, 3)}
    for reference in (answers_of({}), None):
        assert judge(answers_of({}), reference).verdict == "pass"
        assert judge(answers_of(other), reference).verdict == "pass"


@pytest.mark.parametrize("name", ["replacement soup", "controls"])
def test_one_garbled_answer_fails(name: str) -> None:
    finding = judge(answers_of({(PROMPTS[7], 3): BROKEN[name][0]}), answers_of({}))
    assert finding.verdict == "fail"
    assert finding.sentence.startswith("1 of 96 answers are garbled where eager's aren't: ")
    assert (
        BROKEN[name][2] in finding.sentence and "(prompt 'prompt 7', among 8)" in finding.sentence
    )


def test_the_same_garbage_each_time_fails_however_well_it_repeats_itself() -> None:
    garbage = {(prompt, r): "\ufffd" * 40 for prompt in PROMPTS for r in (1, 2, 3, 4)}
    assert judge(answers_of(garbage), answers_of({})).verdict == "fail"
    assert judge(answers_of(garbage), None).verdict == "fail"


def test_one_answer_in_eight_that_is_garbled_fails() -> None:
    garbage = {(p, 2): "\ufffd" * 40 for p in PROMPTS[::3]}
    garbage |= {(p, 3): "\ufffd" * 40 for p in PROMPTS[::6]}
    assert judge(answers_of(garbage), answers_of({})).verdict == "fail"
    assert judge(answers_of(garbage), None).verdict == "inconclusive"


def test_log_probabilities_that_are_no_number_fail() -> None:
    finding = judge(answers_of({}), answers_of({}), scores=(score(None, None, prompt=PROMPTS[0]),))
    assert finding.verdict == "fail"
    assert "2 of 2 log-probabilities are no number" in finding.sentence


def test_what_the_references_answer_to_that_prompt_shows_too_does_not_fail() -> None:
    odd = {(PROMPTS[7], r): "\ufffd" * 40 for r in (1, 2, 3, 4)}
    assert judge(answers_of(odd), answers_of(odd)).verdict != "fail"


def test_a_loop_repeated_by_a_deterministic_server_is_one_loop() -> None:
    loop = {(PROMPTS[3], r): "the " * 20 for r in (1, 2, 3, 4)}
    assert judge(answers_of(loop), answers_of({})).verdict == "pass"


def test_loops_at_most_prompts_fail_unless_the_reference_has_them() -> None:
    loops = {(p, r): "the " * 20 for p in PROMPTS[:16] for r in (1, 2, 3, 4)}
    assert judge(answers_of(loops), answers_of({})).verdict == "fail"
    assert judge(answers_of(loops), answers_of(loops)).verdict == "pass"
    fewer = {where: text for where, text in loops.items() if where[0] in PROMPTS[4:16]}
    assert judge(answers_of(loops), answers_of(fewer)).verdict == "pass"
