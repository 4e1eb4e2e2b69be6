"""The bench's backends in this process: the honest ones compute the same, each broken one doesn't.

Without this, a defect that never takes effect would be "passed" by the gate, and rightly so.
"""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import MiniMaxM2Config, MiniMaxM2ForCausalLM  # noqa: E402
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS  # noqa: E402
from transformers.models.minimax_m2 import modeling_minimax_m2 as minimax  # noqa: E402

from tests.bench import backends  # noqa: E402
from tests.bench.cases import CASES, SHIPPED, Case  # noqa: E402

TOKENS = 256
EXACT = 1e-4
ROUNDED = 0.05
# Compiling takes a while; a real server does it in the bench.
COMPARED = [one for one in CASES if one.name not in ("compiled", "bfloat16_server")]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[MiniMaxM2ForCausalLM]:
    """A model whose experts and routing bias matter, and nothing patched when it is over."""
    for patched in (minimax.MiniMaxM2Model, minimax.MiniMaxM2TopKRouter):
        monkeypatch.setattr(patched, "forward", patched.forward)
    for name, forward in backends.BACKENDS.items():
        monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS._global_mapping, name, forward)
    torch.manual_seed(0)
    config = MiniMaxM2Config(
        hidden_size=32,
        intermediate_size=16,
        num_local_experts=8,
        num_experts_per_tok=2,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        vocab_size=64,
        max_position_embeddings=1024,
        initializer_range=0.3,
    )
    made = MiniMaxM2ForCausalLM(config).eval()
    for layer in made.model.layers:
        layer.mlp.e_score_correction_bias.normal_(std=0.3)
    yield made


def logits(model: MiniMaxM2ForCausalLM, implementation: str) -> torch.Tensor:
    """What the model says of a step of one long prompt and of 64 that have just begun."""
    model.set_experts_implementation(implementation)
    positions = torch.cat([torch.arange(TOKENS), torch.zeros(64, dtype=torch.long)])
    ends = torch.tensor([0, *range(TOKENS, TOKENS + 65)], dtype=torch.int32)
    with torch.no_grad():
        told = model(
            input_ids=torch.randint(
                64, (1, len(positions)), generator=torch.Generator().manual_seed(1)
            ),
            position_ids=positions[None],
            cu_seq_lens_q=ends,
        )
    return told.logits[0]


@pytest.mark.parametrize("one", COMPARED, ids=lambda one: one.name)
def test_only_the_broken_ones_differ(model: MiniMaxM2ForCausalLM, one: Case) -> None:
    right = logits(model, "eager")
    backends.patch(one.implementation)
    given = logits(model, one.implementation)
    differs = float((given - right).norm() / right.norm())
    if one.kind in ("honest", "harmless"):
        assert differs < (ROUNDED if "bfloat16" in one.name else EXACT)
    else:
        assert not differs < ROUNDED


def test_every_case_is_there() -> None:
    assert {one.implementation for one in CASES} == {*backends.BACKENDS} | SHIPPED
