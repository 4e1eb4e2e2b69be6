"""Whether a run's own decision.json still says what its records come to. Pure.

`autotune check` says where it doesn't; here only that, for whoever shows both beside each other.
"""

import msgspec

from autotune.derive import entry_of
from autotune.errors import AutotuneError
from autotune.judged import Judged
from autotune.review.check_fields import differences

# What `list`, `show` and `diff` say where it isn't.
OUT_OF_STEP = "decision.json doesn't follow from the records as they are now"


def in_step(judged: Judged) -> bool:
    """Return whether the decision follows from the records; so it does where there is none.

    A run folder that was given another name is still the same evidence.
    """
    if judged.decision is None:
        return True
    if judged.entry is None:
        return False
    try:
        derived = entry_of(judged.derived, accepted=judged.accepted)
    except AutotuneError:
        return False
    if derived is None:
        return False
    named = msgspec.structs.replace(derived.evidence, run=judged.entry.evidence.run)
    return not differences(judged.entry, msgspec.structs.replace(derived, evidence=named))
