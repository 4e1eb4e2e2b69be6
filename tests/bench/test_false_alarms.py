"""Honest backends over other draws of prompts: none is failed. ``benchmarks`` has more draws."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from autotune.engines.witness import witness_folder  # noqa: E402
from tests.bench.false_alarms import BROKEN, HONEST, NOISY, answer, count_verdicts  # noqa: E402

DRAWS = 20
POOL = 60


def test_honest_rounding_is_never_failed() -> None:
    names = ("grouped_mm", "other_order", "bfloat16_experts", "bfloat16_server")
    given = answer(
        witness_folder("minimax-m2"),
        {
            "eager": HONEST["eager"],
            **{name: HONEST[name] for name in names},
            "gate_up_swapped": BROKEN["gate_up_swapped"],
        },
        count=POOL,
    )
    counts = count_verdicts(given, draws=DRAWS, reference="eager")
    assert [counts[name]["fail"] for name in names] == [0] * len(names)
    for exact in ("grouped_mm", "other_order"):
        assert counts[exact]["pass"] == DRAWS
    # The same records with a defect in them: it isn't that nothing can fail here.
    assert counts["gate_up_swapped"]["fail"] == DRAWS


def test_a_copy_of_a_noisy_reference_is_never_failed() -> None:
    given = answer(witness_folder("minimax-m2"), NOISY, count=POOL)
    assert given["noisy"]["single"][0] != given["noisy"]["single"][1]
    counts = count_verdicts(given, draws=DRAWS, reference="noisy")
    assert counts["noisy_copy"]["fail"] == 0
