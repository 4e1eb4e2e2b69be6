"""Scores of single answers: how far two greedy texts agree, and how ill a text looks. Pure."""

from collections import Counter

_NGRAM = 4
# A shorter text has too few n-grams for a share to mean anything.
_SHORTEST_SCORED = 16


def agreement(text: str, other: str) -> float:
    """Return the shared prefix's length over the longer text's: 1.0 for equal texts.

    Greedy texts that part at one token have nothing to do with each other afterwards, so what
    follows the first difference isn't compared. Two empty texts agree by 0: they show nothing.
    """
    longer = max(len(text), len(other))
    if longer == 0:
        return 0.0
    shared = 0
    for left, right in zip(text, other, strict=False):
        if left != right:
            break
        shared += 1
    return shared / longer


def replacement_share(text: str) -> float:
    """Return the share of characters that are U+FFFD, what undecodable bytes turn into."""
    return text.count("\ufffd") / len(text) if text else 0.0


def repetition_share(text: str) -> float:
    """Return the share of the commonest 4 characters in a row among all such; 0 for short texts.

    1.0 is one character over and over; English prose lies below 0.1.
    """
    if len(text) < _SHORTEST_SCORED:
        return 0.0
    ngrams = Counter(text[start : start + _NGRAM] for start in range(len(text) - _NGRAM + 1))
    return ngrams.most_common(1)[0][1] / ngrams.total()
