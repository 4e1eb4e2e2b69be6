"""How far two greedy texts agree. Pure."""


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
