"""Signs of ill health in single answers: what shows that a text is garbage, whoever wrote it. Pure.

*Hard* signs are what no rounding produces: replacement characters, one character over and over,
NaN. *Soft* ones (loops, heaps of punctuation, an early end) happen to honest models now and then,
and more often to small ones; they count where they are more frequent than the reference's.

Texts are a server's and may be anything: every reading takes linear time.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

import msgspec

from autotune.probe.answers import said
from autotune.records.schema import ProbeAnswer, ScoredContinuation

SignKind = Literal[
    "nan",
    "outside_vocabulary",
    "replacement_characters",
    "control_characters",
    "one_character",
    "empty",
    "early_stop",
    "loop",
    "symbol_soup",
    "mixed_scripts",
]
HARD: frozenset[SignKind] = frozenset(
    {
        "nan",
        "outside_vocabulary",
        "replacement_characters",
        "control_characters",
        "one_character",
        "empty",
    }
)
# Too short a text says nothing about its composition.
_SHORTEST_SCORED = 16
_REPLACED_SHARE = 0.2
_CONTROL_SHARE = 0.05
_ONE_CHARACTER_SHARE = 0.8
_LOOP_SHARE = 0.6
_LOOP_TIMES = 3
_LOOP_WORDS = 12
_SYMBOL_SHARE = 0.6
_SYMBOLS_BEYOND_REFERENCE = 0.25
_SCRIPTS = 4
_STRANGE_LETTERS = 0.1
_EARLY_SHARE = 0.5
_EARLY_TOKENS = 8
# Longer texts are read from their end, where garbage and loops get to.
_EXAMINED = 20_000
_LONGEST_SHOWN = 24
# A budget that ends inside a character leaves at most so many replacement characters.
_CUT_CHARACTER = 3
# Rules, underlines and placeholders are made of these, and of digits.
_DRAWN = frozenset("-=_.*#~+|•·…─━═")
# Japanese mixes three of them in every sentence.
_SAME_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "BOPOMOFO": "CJK", "IDEOGRAPHIC": "CJK"}
# The first words of letters' names in Unicode.
_SCRIPT = re.compile(
    "LATIN|CYRILLIC|GREEK|ARABIC|HEBREW|SYRIAC|THAANA|ETHIOPIC|ARMENIAN|GEORGIAN|DEVANAGARI|BENGALI"
    "|GURMUKHI|GUJARATI|ORIYA|TAMIL|TELUGU|KANNADA|MALAYALAM|SINHALA|THAI|LAO|KHMER|MYANMAR|TIBETAN"
    "|MONGOLIAN|HANGUL|CHEROKEE|CANADIAN|CJK"
)


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One sign in one answer: its kind and what was seen, e.g. ``100% replacement characters``.

    ``severity`` is the share of the answer that shows it.
    """

    kind: SignKind
    seen: str
    severity: float = 1.0

    @property
    def hard(self) -> bool:
        """Whether a single occurrence counts."""
        return self.kind in HARD


class _Reading(NamedTuple):
    severity: float
    seen: str


def signs(answer: ProbeAnswer, text: str | None, reference: ProbeAnswer | None) -> list[Sign]:
    """Return the signs in one good answer, one a kind.

    Args:
        answer: as it was recorded.
        text: what it says beside its thinking, ``None`` if nothing yet.
        reference: the reference's answer to the same prompt, if there is one.
    """
    expected = said(reference) if reference is not None else None
    spoken = _answered(answer, text or "", expected, reference)
    # Thinking that is garbage is garbage, though it isn't compared.
    thought = answer.reasoning + answer.text[: len(answer.text) - len(text or "")]
    found: list[Sign] = []
    if answer.nan_marked:
        found.append(Sign(kind="nan", seen="the engine says that it met a NaN"))
    for kind, read in _READERS:
        readings = [reading for part in (spoken, thought) if (reading := read(part[-_EXAMINED:]))]
        found += _as_kind(kind, max(readings, default=None))
    found += _as_kind("symbol_soup", _symbol_soup(spoken[-_EXAMINED:], expected))
    ended = _ended_early(answer, reference)
    found += _as_kind("early_stop", ended)
    # A model may think and then say nothing: that is no proof of a defect.
    says_nothing = text is not None and not text.strip() and not thought.strip()
    if says_nothing and ended is None and expected and expected.strip():
        found.append(Sign(kind="empty", seen="no text where the reference has some"))
    return found


def score_signs(
    score: ScoredContinuation,
    *,
    vocabulary_size: int | None,
    reference: Sequence[ScoredContinuation] = (),
) -> list[Sign]:
    """Return the signs in what a server said of the reference's words.

    Args:
        score: what it said.
        vocabulary_size: of the model (with its padding), where it is known.
        reference: what the reference said of the same prompt. Where it has no number either, at
            the same token, that is nobody's defect.
    """
    found = []
    values = score.log_probabilities
    excused = {
        index
        for own in reference
        for index, value in enumerate(own.log_probabilities)
        if not _is_number(value)
    }
    missing = sum(not _is_number(v) and i not in excused for i, v in enumerate(values))
    if missing:
        seen = f"{missing} of {len(values)} log-probabilities are no number"
        found.append(Sign(kind="nan", seen=seen, severity=missing / len(values)))
    told = [token for token in score.top_token_ids if token is not None]
    outside = [t for t in told if t < 0 or (vocabulary_size is not None and t >= vocabulary_size)]
    if outside:
        found.append(
            Sign(
                kind="outside_vocabulary",
                seen=f"token {outside[0]} is outside the vocabulary",
                severity=len(outside) / len(told),
            )
        )
    return found


def _answered(
    answer: ProbeAnswer, text: str, expected: str | None, reference: ProbeAnswer | None
) -> str:
    """Cut off what the load made a server write after the end of its answer."""
    ended = reference is not None and reference.finish_reason not in (None, "length")
    if answer.mode == "load" and ended and expected and text.startswith(expected):
        return expected
    return text


def _as_kind(kind: SignKind, reading: _Reading | None) -> list[Sign]:
    return [Sign(kind=kind, seen=reading.seen, severity=reading.severity)] if reading else []


def _is_number(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _ended_early(answer: ProbeAnswer, reference: ProbeAnswer | None) -> _Reading | None:
    if reference is None or answer.finish_reason in (None, "length"):
        return None
    ours, theirs = answer.output_tokens, reference.output_tokens
    if ours is None or theirs is None or theirs < _EARLY_TOKENS or ours >= _EARLY_SHARE * theirs:
        return None
    return _Reading(1 - ours / theirs, f"ended after {ours} tokens, the reference after {theirs}")


def _replacement(text: str) -> _Reading | None:
    whole = text.rstrip("\ufffd")
    if whole and "\ufffd" not in whole and len(text) - len(whole) <= _CUT_CHARACTER:
        return None
    share = text.count("\ufffd") / len(text) if text else 0.0
    if share < _REPLACED_SHARE:
        return None
    return _Reading(share, f"{share:.0%} replacement characters")


def _control(text: str) -> _Reading | None:
    """The controls of ASCII; those of Latin-1 are in honest texts whose encoding was mistaken."""
    odd = sum((c < " " or c == "\x7f") and c not in "\n\r\t\f\v" for c in text)
    share = odd / len(text) if text else 0.0
    if odd < 2 or share < _CONTROL_SHARE:
        return None
    return _Reading(share, f"{share:.0%} control characters")


def _one_character(text: str) -> _Reading | None:
    if len(text) < _SHORTEST_SCORED:
        return None
    character, count = Counter(text).most_common(1)[0]
    share = count / len(text)
    if share < _ONE_CHARACTER_SHARE or character in _DRAWN or character == "\ufffd":
        return None
    if character.isspace() or character.isnumeric():
        return None
    run = max(sum(1 for _ in same) for key, same in groupby(text) if key == character)
    return _Reading(share, f"one character ({character!r}) {run} times in a row")


def _loop(text: str) -> _Reading | None:
    """One piece of text over and over, up to the end; or one word that is most of them."""
    if len(text) < _SHORTEST_SCORED:
        return None
    length, period = _periodic_end(text)
    if length >= _LOOP_SHARE * len(text):
        piece = text[len(text) - period :]
        return _Reading(length / len(text), f"{_shown(piece)} over and over")
    words = [word for word in text.split() if word.isalpha()]
    if len(words) >= _LOOP_WORDS:
        word, count = Counter(words).most_common(1)[0]
        if count >= _LOOP_SHARE * len(words):
            return _Reading(count / len(words), f"{_shown(word)} over and over")
    return None


def _periodic_end(text: str) -> tuple[int, int]:
    """Return the longest ending that repeats one piece, and the piece's length; 0, 0 if none does.

    Knuth, Morris and Pratt's borders of the reversed text: a start of it with a border is periodic
    by its length less the border's.
    """
    backwards = text[::-1]
    borders = [0] * len(text)
    best = (0, 0)
    border = 0
    for end in range(1, len(text)):
        while border and backwards[end] != backwards[border]:
            border = borders[border - 1]
        if backwards[end] == backwards[border]:
            border += 1
        borders[end] = border
        length, period = end + 1, end + 1 - border
        if length >= _LOOP_TIMES * period:
            best = (length, period)
    return best


def _symbol_soup(text: str, expected: str | None) -> _Reading | None:
    """Much more punctuation and digits than the reference wrote: code and lists hold many."""
    if len(text) < _SHORTEST_SCORED:
        return None
    share = _symbol_share(text)
    usual = _symbol_share(expected[-_EXAMINED:]) if expected else 0.0
    if share < max(_SYMBOL_SHARE, usual + _SYMBOLS_BEYOND_REFERENCE):
        return None
    return _Reading(share, f"{share:.0%} punctuation and digits")


def _symbol_share(text: str) -> float:
    """Digits, punctuation and symbols, pictures (So) left out, of all that isn't white space."""
    categories = [unicodedata.category(c) for c in text if not c.isspace()]
    symbols = sum(category[0] in "PNS" and category != "So" for category in categories)
    return symbols / len(categories) if categories else 0.0


def _mixed_scripts(text: str) -> _Reading | None:
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            name = unicodedata.name(character, "").split(" ", 1)[0]
            script = _SAME_SCRIPT.get(name, name)
            if _SCRIPT.fullmatch(script):
                letters[script] += count
    if len(letters) < _SCRIPTS or letters.total() < _SHORTEST_SCORED:
        return None
    strange = 1 - letters.most_common(1)[0][1] / letters.total()
    if strange < _STRANGE_LETTERS:
        return None
    return _Reading(strange, f"letters of {len(letters)} scripts")


def _shown(piece: str) -> str:
    return repr(piece if len(piece) <= _LONGEST_SHOWN else piece[:_LONGEST_SHOWN] + "…")


_READERS: tuple[tuple[SignKind, Callable[[str], _Reading | None]], ...] = (
    ("replacement_characters", _replacement),
    ("control_characters", _control),
    ("one_character", _one_character),
    ("loop", _loop),
    ("mixed_scripts", _mixed_scripts),
)
