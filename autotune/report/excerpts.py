"""Long texts cut to what a reader needs of them: where two part, and a little around it. Pure.

Texts are a server's and may be anything: every reading takes linear time.
"""

from collections.abc import Sequence

from autotune.report.content import Told

LONGEST_TEXT = 1000
_LONGEST_SAME = 300
_SHARED_SHOWN = 160
_AFTER_SHOWN = 160
_LONGEST_DIFFERENT = 600
_LONGEST_INSTEAD = 200
# A mark begins with the word, but scripts without spaces have no short words.
_LONGEST_WORD = 20
_MOST_ROUNDS = 6


def not_shown(characters: int) -> str:
    """Return how much of a text a reader doesn't see, in words; empty where that is nothing."""
    return f"{characters:,} more characters aren't shown" if characters > 0 else ""


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the beginning of ``text``, with an ellipsis where there is more of it."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def excerpt(text: str, expected: str | None, *, where: str, shown: str | None = None) -> Told:
    """Return ``text`` with what isn't as in ``expected`` marked, and cut around that.

    Args:
        text: what was said.
        expected: what it's held against, ``None`` where there is nothing.
        where: how often and how it was asked for.
        shown: the text that the reader sees of what it's held against; its part is repeated in
            ``instead`` where that isn't seen there.
    """
    if expected is None:
        return Told(before=cut(text), where=where, note=not_shown(len(text) - LONGEST_TEXT))
    start, end = _shared(text, expected)
    middle = text[start : len(text) - end]
    instead = expected[start : len(expected) - end]
    notes = [_parting(text, expected)]
    before, after = text[:start], text[len(text) - end :]
    if len(before) > _LONGEST_SAME:
        skipped = len(before) - _SHARED_SHOWN
        before = f"…{before[skipped:]}"
        notes.append(f"the first {skipped:,} characters, which are the same, are left out")
    left = max(0, len(middle) - _LONGEST_DIFFERENT) + max(0, len(after) - _AFTER_SHOWN)
    notes.append(not_shown(left))
    seen = shown == expected and start + _LONGEST_INSTEAD <= LONGEST_TEXT
    more = len(instead) - _LONGEST_INSTEAD
    if not seen and more > 0:
        notes.append(f"of the reference's text there, {not_shown(more)}")
    return Told(
        before=before,
        different=cut(middle, _LONGEST_DIFFERENT),
        after=cut(after, _AFTER_SHOWN),
        instead="" if seen else cut(instead, _LONGEST_INSTEAD),
        where=where,
        note="; ".join(note for note in notes if note),
    )


def listed_rounds(rounds: Sequence[int]) -> str:
    """Return ``round 2``, ``rounds 1 to 3``, ``rounds 1, 3, 4 and 5 more``.

    >>> [listed_rounds(r) for r in ([2, 2], [3, 1, 2], [1, 3], list(range(0, 20, 2)))]
    ['round 2', 'rounds 1 to 3', 'rounds 1, 3', 'rounds 0, 2, 4, 6, 8, 10 and 4 more']
    """
    each = sorted(set(rounds))
    if len(each) == 1:
        return f"round {each[0]}"
    if len(each) > 2 and each[-1] - each[0] == len(each) - 1:
        return f"rounds {each[0]} to {each[-1]}"
    listed = ", ".join(str(one) for one in each[:_MOST_ROUNDS])
    more = len(each) - _MOST_ROUNDS
    return f"rounds {listed} and {more} more" if more > 0 else f"rounds {listed}"


def _common(text: str, other: str) -> int:
    """How many characters two texts begin alike."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (one, two) in pairs if one != two), min(len(text), len(other)))


def _shared(text: str, other: str) -> tuple[int, int]:
    """How many characters two texts share at the beginning and the end, in whole words."""
    start = _common(text, other)
    start -= _within_word(text[:start], text[start:], other[start:])
    rest, other_rest = text[start:], other[start:]
    end = _common(rest[::-1], other_rest[::-1])
    kept = rest[len(rest) - end :]
    before, other_before = rest[: len(rest) - end], other_rest[: len(other_rest) - end]
    end -= _within_word(kept[::-1], before[::-1], other_before[::-1])
    return start, end


def _within_word(same: str, text: str, other: str) -> int:
    """How much of the end of ``same`` belongs to a word that goes on in either text."""
    if not (text[:1].isalnum() or other[:1].isalnum()):
        return 0
    ending = same[-_LONGEST_WORD:]
    length = 0
    while length < len(ending) and ending[-1 - length].isalnum():
        length += 1
    return length if length < _LONGEST_WORD else 0


def _parting(text: str, expected: str) -> str:
    shared = _common(text, expected)
    if shared == len(text):
        return f"ends after {shared:,} of the reference's {len(expected):,} characters"
    if shared == len(expected):
        return f"goes on after the reference's {len(expected):,} characters"
    return f"parts from the reference at character {shared + 1:,} of its {len(expected):,}"
