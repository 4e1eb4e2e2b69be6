"""Questions: read from hostile files, and graded in what models really write."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.probe.task import (
    Question,
    is_correct,
    questions_digest,
    read_questions,
    shipped_questions,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = "Question: 1 + 1?\nAnswer: 2\n\nQuestion: 2 + 3?\nAnswer:"


def question(answer: str, check: str = "number", prompt: str = "Question: ?\nAnswer:") -> Question:
    row = {"name": "q", "prompt": prompt, "answer": answer, "check": check}
    return msgspec.convert(row, Question)


def written(folder: Path, *lines: str | bytes | dict[str, object]) -> Path:
    path = folder / "questions.jsonl"
    encoded = [
        line
        if isinstance(line, bytes)
        else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    path.write_bytes(b"\n".join(encoded))
    return path


class TestReading:
    def test_reads_both_formats(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            {"prompt": "2 + 2 =", "answer": " 4 ", "check": "number", "extra": 1},
            "",
            {
                "question": "How many?\n",
                "answer": "12 * 6 = <<12*6=72>>72\n#### 1,072",
                "name": "g",
            },
            '{"prompt": "Say hi", "answer": "hi", "check": "exact"}\r',
        )
        assert read_questions(path) == (
            Question(name="line-1", prompt="2 + 2 =", answer="4", check="number"),
            Question(
                name="g", prompt="Question: How many?\nAnswer:", answer="1,072", check="number"
            ),
            Question(name="line-4", prompt="Say hi", answer="hi", check="exact"),
        )

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("[]", "not a question"),
            ("{", "not a question"),
            (b"\xff", "not a question"),
            (b'{"prompt": "\xff", "answer": "1", "check": "exact"}', "not a question"),
            (b'{"prompt": "a\0b", "answer": "1", "check": "exact"}', "not a question"),
            (r'{"prompt": "\ud800a", "answer": "1", "check": "exact"}', "not a question"),
            ('{"a": ' + "[" * 100_000, "not a question"),
            ({"prompt": 5, "answer": "1", "check": "exact"}, "not a question"),
            ({"prompt": "a", "answer": 1, "check": "number"}, "not a question"),
            ({"prompt": "a", "check": "number"}, "not a question"),
            ({"prompt": "a\0", "answer": "1", "check": "number"}, "NUL"),
            ({"prompt": " ", "answer": "1", "check": "number"}, "empty"),
            ({"prompt": "a", "answer": " ", "check": "exact"}, "empty"),
            ({"question": " ", "answer": "#### 1"}, "empty"),
            ({"question": "a", "answer": "####"}, "empty"),
            ({"question": "a", "answer": "72"}, 'must end with "####"'),
            ({"question": "a", "answer": "#### many"}, "no plain number"),
            ({"answer": "1", "check": "number"}, "give one of"),
            ({"prompt": "a", "question": "a", "answer": "#### 1"}, "give one of"),
            ({"prompt": "a", "answer": "1"}, '"check" is missing'),
            ({"prompt": "a", "answer": "1", "check": "regex"}, "'regex'"),
            ({"prompt": "a", "answer": "1", "check": "\x1b[2J"}, r"\\x1b"),
            ({"prompt": "a", "answer": "nan", "check": "number"}, "no plain number"),
            ({"prompt": "a", "answer": "inf", "check": "number"}, "no plain number"),
            ({"prompt": "a", "answer": "1e9999", "check": "number"}, "no plain number"),
            ({"prompt": "a", "answer": "9" * 65, "check": "number"}, "no plain number"),
            ({"prompt": "a", "answer": "1\n2", "check": "exact"}, "one line"),
            ({"prompt": "a", "answer": "1", "check": "exact", "name": "../x"}, "as a name"),
            ({"prompt": "a", "answer": "1", "check": "exact", "name": "first"}, "is taken"),
        ],
    )
    def test_names_the_line_that_is_wrong(
        self, line: str | bytes | dict[str, object], message: str, tmp_path: Path
    ) -> None:
        good: dict[str, object] = {"prompt": "a", "answer": "1", "check": "exact", "name": "first"}
        path = written(tmp_path, good, line)
        with pytest.raises(InputError, match=rf"questions\.jsonl, line 2: .*{message}") as caught:
            read_questions(path)
        assert len(str(caught.value)) < 500

    @given(content=st.binary(max_size=200))
    def test_any_bytes_are_read_or_refused(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "any-questions.jsonl"
        path.write_bytes(content)
        try:
            assert read_questions(path)
        except InputError as error:
            assert str(path) in str(error)

    def test_refuses_files_without_questions(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no questions"):
            read_questions(written(tmp_path, "", "  "))
        for path in (tmp_path, tmp_path / "missing", Path("a\0b")):
            with pytest.raises(InputError, match="name a JSONL file"):
                read_questions(path)

    def test_refuses_a_huge_file(self, tmp_path: Path) -> None:
        with (tmp_path / "huge.jsonl").open("wb") as file:
            file.truncate(64 * 2**20 + 1)
        with pytest.raises(InputError, match="larger than 64 MiB"):
            read_questions(tmp_path / "huge.jsonl")

    def test_the_digest_tells_sets_apart(self) -> None:
        one, two = question("1"), msgspec.structs.replace(question("2"), name="r")
        assert questions_digest([one, two]) == questions_digest([two, one])
        others = [[one], [two], [], [question("1", "exact"), two], [question("2"), two]]
        assert len({questions_digest(some) for some in [[one, two], *others]}) == 6


class TestGrading:
    @pytest.mark.parametrize(
        ("text", "answer"),
        [
            (" 5", "5"),
            ("5.", "5"),
            ("5.0", "5"),
            ("The answer is **5**!", "5"),
            ("2 + 3 = 5", "5"),
            ("First 2, then 3, so 5 in all.\n\nThat makes 5 apples.", "5"),
            ("We add.\n2+3=5\n#### 5\n\nThere are 9 of them.", "5"),
            ("#### $1,234.50", "1234.5"),
            ("$1,234", "1234"),
            ("1,234,567.", "1234567"),
            ("-7", "-7"),
            ("$-7", "-7"),
            ("-$7", "-7"),
            ("\u22127", "-7"),
            ("10-3 = 7", "7"),
            ("10-7", "7"),
            ("x=-7", "-7"),
            (".5", "0.5"),
            ("It costs 0.75", ".75"),
            ("5\n\nQuestion: What is 9?\nAnswer: 9", "5"),
            ("5\n  Q: What is 9?\nA: 9", "5"),
            ("Question: 2 + 3?\nAnswer: 5", "5"),
            ("Answer: 5", "5"),
            (r"\boxed{5}", "5"),
        ],
    )
    def test_finds_the_number(self, text: str, answer: str) -> None:
        assert is_correct(question(answer), text)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "five",
            "55",
            "-5",
            "5.1",
            "5 or 6",
            "\ufffd\ufffd",
            "nan",
            "5e1000000000",
            "9" * 100_000,
        ],
    )
    def test_another_number_is_wrong(self, text: str) -> None:
        assert not is_correct(question("5"), text)

    def test_after_worked_examples_a_blank_line_ends_the_answer(self) -> None:
        assert is_correct(question("5", prompt=EXAMPLES), "\n\n 5\n \nNow 9 things are left.")
        assert not is_correct(question("9", prompt=EXAMPLES), " 5\n\nNow 9 things are left.")
        # Without examples, a reasoned answer may have paragraphs.
        assert is_correct(question("9"), "There are 5.\n\nNow 9 are left.")

    def test_exact_is_the_first_line(self) -> None:
        exact = question("c, b, a", "exact", EXAMPLES)
        assert is_correct(exact, " c, b, a \nand more")
        assert is_correct(exact, "Answer: c, b, a\r\n\nQuestion: d")
        for text in ("", "c, b, a.", "C, b, a", "so:\nc, b, a"):
            assert not is_correct(exact, text)

    def test_contains_takes_whole_words(self) -> None:
        contains = question('"age": 31', "contains")
        assert is_correct(contains, '{"age": 31}')
        assert is_correct(contains, 'Sure:\n```json\n{\n  "Age": 31\n}\n```')
        assert not is_correct(contains, '{"age": 310}')
        assert not is_correct(contains, 'no\nQuestion: again?\nAnswer: {"age": 31}')
        assert not is_correct(question("(.*)+$", "contains"), "a" * 50)
        assert is_correct(question("c++", "contains"), "I like C++!")

    @given(st.text(), st.sampled_from(["number", "exact", "contains"]))
    def test_any_text_is_graded(self, text: str, check: str) -> None:
        assert is_correct(question("12345.678", check), text) in (True, False)

    @given(st.integers(-(10**9), 10**9))
    def test_a_number_is_right_however_it_is_written(self, number: int) -> None:
        for text in (f"{number}", f"{number:,}", f" it is {number:,}.", f"= {number}.00"):
            assert is_correct(question(str(number)), text)
            assert not is_correct(question(str(number + 1)), text)

    @pytest.mark.parametrize("piece", ["1,111", "1,", "-", "\n", " \n", "Question", "9", "$", "1."])
    def test_long_texts_are_graded_at_once(self, piece: str) -> None:
        # A pattern that backtracks would take minutes.
        for check in ("number", "exact", "contains"):
            assert not is_correct(
                question("x" if check != "number" else "5", check), piece * 200_000
            )


class TestShipped:
    def test_is_what_the_script_writes(self, tmp_path: Path) -> None:
        made = tmp_path / "made.jsonl"
        subprocess.run([sys.executable, ROOT / "scripts" / "write_questions", made], check=True)
        shipped = ROOT / "autotune" / "probe" / "questions" / "arithmetic.jsonl"
        assert made.read_bytes() == shipped.read_bytes(), "run scripts/write_questions"

    def test_is_well_formed(self) -> None:
        questions = shipped_questions()
        assert len(questions) == 400
        assert len({q.prompt.rpartition("Question:")[2] for q in questions}) == 400
        kinds = {q.name.rpartition("-")[0] for q in questions}
        assert kinds == {q.name.rpartition("-")[0] for q in questions[: len(kinds)]}
        for each in questions:
            assert each.prompt.count("Question: ") == each.prompt.count("\nAnswer:") == 3
            assert each.prompt.endswith("\nAnswer:")

    def test_each_example_would_be_graded_right(self) -> None:
        """What the examples show is what the check takes; the one asked isn't among them."""
        for asked in shipped_questions():
            *shown, last = asked.prompt.split("\n\n")
            assert last not in {example.rpartition("Answer:")[0] + "Answer:" for example in shown}
            for example in shown:
                said = example.rpartition("Answer: ")[2]
                answer = said.strip("{}") if asked.check == "contains" else said
                assert is_correct(question(answer, asked.check, asked.prompt), f" {said}\n\nQ: 1?")

    def test_the_sums_are_right(self) -> None:
        sums = [q for q in shipped_questions() if "What is " in q.prompt and q.check == "number"]
        assert len(sums) > 120
        for asked in sums:
            term = (
                asked.prompt.rpartition("Question: ")[2].partition("What is ")[2].partition("?")[0]
            )
            if term:
                assert set(term) <= set("0123456789.+-*() ")
                assert float(asked.answer) == eval(term)
