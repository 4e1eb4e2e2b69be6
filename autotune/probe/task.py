"""Questions with checkable answers: reading them, and telling whether an answer is right.

What a score says of a candidate is judged by `autotune.probe.task_score`.
"""

import hashlib
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from autotune.decisions.schema import check_name
from autotune.errors import InputError, UsageError
from autotune.probe.task_score import judge_task, odds_of_task

__all__ = [
    "Question",
    "is_correct",
    "judge_task",
    "odds_of_task",
    "questions_digest",
    "read_questions",
    "shipped_questions",
]

Check = Literal["number", "exact", "contains"]

_SHIPPED = Path(__file__).parent / "questions" / "arithmetic.jsonl"
_CHECKS: tuple[Check, ...] = ("number", "exact", "contains")
_LARGEST_FILE = 64 * 2**20
_LONGEST_NUMBER = 64
# 1,234 and 1234.5, .5, $3 and -3; in 7-3 the minus is no sign.
_NUMBER = re.compile(
    r"((?<![\w.)])[-\u2212])?\$?"
    r"([0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<![0-9])\.[0-9]+)"
)
_MARK = "####"
_QUESTION = re.compile(r"^[ \t]*(?:Question|Q)[ \t]*:", re.MULTILINE)
_LABEL = re.compile(r"\A(?:Answer|A)[ \t]*:\s*")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question and how its answer is checked; ``is_correct`` tells what each check takes."""

    name: str
    prompt: str
    answer: str
    check: Check


class _Line(msgspec.Struct):
    """A line of either format, as it is written."""

    answer: str
    name: str | None = None
    prompt: str | None = None
    question: str | None = None
    check: str | None = None


def shipped_questions() -> tuple[Question, ...]:
    """Return the questions that come with autotune, made by ``scripts/write_questions``."""
    return read_questions(_SHIPPED)


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read questions from JSON lines; blank lines and other keys are skipped.

    A line is ``{"prompt": TEXT, "answer": TEXT, "check": "number" | "exact" | "contains"}``, sent
    as it is, or one of GSM8K's, ``{"question": TEXT, "answer": "... #### 72"}``, which is asked
    as ``Question: ...`` and ``Answer:``. A ``name`` is optional.

    Raises:
        InputError: the file can't be read, is over 64 MiB, holds no question, or a line isn't one
            or has a name twice (it is named).
    """
    questions: dict[str, Question] = {}
    for number, line in enumerate(_read(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        question = _question_of(line, where=where, name=f"line-{number}")
        if question.name in questions:
            raise InputError(f"{where}: the name {question.name!r} is taken: give each its own")
        questions[question.name] = question
    if not questions:
        raise InputError(
            f'{path}: no questions: write one JSON object a line, {{"prompt": "...", '
            '"answer": "...", "check": "number"}'
        )
    return tuple(questions.values())


def questions_digest(questions: Sequence[Question]) -> str:
    """Return a SHA-256, in hex, that is equal only for the same questions, in any order."""
    ordered = sorted(questions, key=lambda question: question.name)
    return hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()


def is_correct(question: Question, text: str) -> bool:
    """Return whether a text, its thinking removed, gives the right answer.

    A base model goes on after its answer, with questions of its own: the answer ends where a
    line begins with ``Question:`` (or ``Q:``) and, where the prompt itself has several of them,
    which are worked examples to follow, at the first blank line. In the answer, ``number`` takes
    the number after ``####``, else the last one (``$1,234.50`` is ``1234.5``), ``exact`` the
    first line, ``contains`` the expected answer as whole words, in capitals or not.
    """
    answer = _answer_in(text, follows_examples=len(_QUESTION.findall(question.prompt)) > 1)
    if question.check == "number":
        said = _number_said(answer)
        return said is not None and said == _number_said(question.answer)
    if question.check == "exact":
        return answer.partition("\n")[0].strip() == question.answer
    whole = rf"(?<!\w){re.escape(question.answer)}(?!\w)"
    return re.search(whole, answer, re.IGNORECASE) is not None


def _answer_in(text: str, *, follows_examples: bool) -> str:
    text = text.lstrip()
    # From 1, since some repeat the question before they answer it.
    following = _QUESTION.search(text, 1)
    text = _LABEL.sub("", text[: following.start()] if following else text)
    return _BLANK_LINE.split(text, maxsplit=1)[0] if follows_examples else text


def _number_said(text: str) -> Decimal | None:
    before, mark, after = text.partition(_MARK)
    marked = _NUMBER.search(after) if mark else None
    found = [marked] if marked else list(_NUMBER.finditer(before))
    if not found:
        return None
    sign, digits = found[-1].groups()
    number = Decimal(digits.replace(",", ""))
    return -number if sign else number


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}): name a JSONL file") from None
    except ValueError:
        raise InputError(f"{str(path)!r}: no path can hold that: name a JSONL file") from None
    if len(content) > _LARGEST_FILE:
        raise InputError(f"{path}: larger than 64 MiB: keep fewer questions")
    return content


def _question_of(line: bytes, *, where: str, name: str) -> Question:
    try:
        row = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not a question: {error}") from None
    if (row.prompt is None) == (row.question is None):
        raise InputError(f'{where}: give one of "prompt" and "question"')
    prompt, answer, check = row.prompt, row.answer.strip(), row.check
    if row.question is not None:
        prompt = f"Question: {row.question.strip()}\nAnswer:" if row.question.strip() else ""
        check, answer = "number", answer.rpartition(_MARK)[2].strip()
        if _MARK not in row.answer:
            raise InputError(
                f'{where}: "answer" must end with "{_MARK}" and a number; for another one write '
                '"prompt", "answer" and "check"'
            )
    if not (prompt and prompt.strip() and answer) or "\0" in prompt + answer:
        raise InputError(f"{where}: the question or its answer is empty or holds a NUL character")
    return Question(
        name=name if row.name is None else _checked_name(row.name, where),
        prompt=prompt,
        answer=answer,
        check=_checked(answer, check, where),
    )


def _checked_name(name: str, where: str) -> str:
    try:
        return check_name("name", name)
    except UsageError as error:
        raise InputError(f"{where}: {error}") from None


def _checked(answer: str, check: str | None, where: str) -> Check:
    """Return the check, if an answer like that can pass it."""
    known = next((known for known in _CHECKS if known == check), None)
    if known is None:
        given = "missing" if check is None else f"{check[:40]!r}"
        raise InputError(f'{where}: "check" is {given}: give one of {", ".join(_CHECKS)}')
    if known == "number" and not (len(answer) <= _LONGEST_NUMBER and _NUMBER.fullmatch(answer)):
        raise InputError(
            f"{where}: the answer {answer[:40]!r} is no plain number of at most "
            f"{_LONGEST_NUMBER} characters, e.g. 72 or -1,234.5"
        )
    if known == "exact" and "\n" in answer:
        raise InputError(f"{where}: an exact answer is one line: shorten it")
    return known
