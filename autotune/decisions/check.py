"""Whether a well-formed decision file contradicts itself or the place it lies in."""

from autotune.decisions.arch import family
from autotune.decisions.schema import DecisionFile, DecisionKey, Entry
from autotune.errors import DecisionFileError


def check_decision(decision: DecisionFile, key: DecisionKey, *, where: str) -> None:
    """Check what the types can't say.

    Args:
        decision: what the file says.
        key: the key that its place stands for.
        where: the file's name, for the message.

    Raises:
        DecisionFileError: the file's key isn't its place's, it has no entry, an entry lends itself
            to an arch of another family, its backend is ``auto``, or the backend failed the
            correctness probe without a word that anybody accepted that.
    """
    if decision.key != key:
        raise DecisionFileError(
            f"{where}: is about {decision.key} but lies where {key} belongs: move it, or measure "
            "this one"
        )
    if not decision.entries:
        raise DecisionFileError(f"{where}: holds no entry: remove it, or measure one")
    for entry in decision.entries:
        _check_entry(entry, key.arch, where=where)


def _check_entry(entry: Entry, arch: str, *, where: str) -> None:
    for other in entry.scope.also_arch:
        if family(other) != family(arch):
            raise DecisionFileError(
                f"{where}: also_arch lists {other}, which {arch} can't serve: it has kernels and "
                "defaults of its own; remove it, and measure there"
            )
    if entry.choice.backend == "auto":
        raise DecisionFileError(f"{where}: its choice is 'auto', which names no backend")
    if entry.choice.verdict == "fail" and not entry.evidence.accepted:
        raise DecisionFileError(
            f"{where}: {entry.choice.backend} failed the correctness probe, and the file doesn't "
            "say that anybody accepted it"
        )
