"""Router logits: tokens spread as asked for, and replayed exactly."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from autotune.errors import InputError
from autotune.kernels.distribution import Distribution, parse_distribution
from autotune.kernels.layer import seeded_batch, seeded_layer
from autotune.kernels.logits import draw_logits
from autotune.kernels.routing import choice_margin, route
from autotune.kernels.spec import LayerSpec
from tests.kernels.layers import CPU, RULES, layer_and_batch, layer_spec

EACH_RULE = pytest.mark.parametrize("rule", RULES)
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


def _counts(spec: LayerSpec, text: str, *, tokens: int, seed: int) -> Tensor:
    _, batch = layer_and_batch(spec, tokens=tokens, seed=seed, distribution=text)
    return batch.routing.expert_ids.flatten().bincount(minlength=spec.geometry.experts).double()


def _chance_of_being_even(counts: Tensor, *, top_k: int) -> float:
    """The p-value of counts of draws of ``top_k`` without replacement, no expert preferred.

    Each count's variance is that of tokens * p (1 - p) with p = top_k / experts, and any two are
    correlated by -1 / (experts - 1), as in a multinomial: the sum of squares follows chi2.
    """
    experts = len(counts)
    mean = float(counts.sum()) / experts
    squares = float((counts - mean).square().sum())
    statistic = squares / (mean * (1 - top_k / experts)) * (experts - 1) / experts
    return float(chi2.sf(statistic, experts - 1))


@SEEDS
@EACH_RULE
def test_uniform_prefers_no_expert(rule: str, seed: int) -> None:
    """A correction bias included: it shall not make some experts busy and others idle."""
    spec = layer_spec(hidden=8, width=8, experts=64, top_k=4, routing=RULES[rule])
    counts = _counts(spec, "uniform", tokens=4096, seed=seed)
    assert _chance_of_being_even(counts, top_k=4) > 1e-4


@EACH_RULE
def test_a_slight_preference_is_seen(rule: str) -> None:
    """What the test before says isn't said of everything."""
    spec = layer_spec(hidden=8, width=8, experts=64, top_k=4, routing=RULES[rule])
    counts = _counts(spec, "zipf:0.1", tokens=4096, seed=0)
    assert _chance_of_being_even(counts, top_k=4) < 1e-9


@SEEDS
@pytest.mark.parametrize("rule", ["softmax", "minimax", "sigmoid"])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_zipf_follows_its_law(rule: str, exponent: float, seed: int) -> None:
    """The n-th most chosen of 16 experts is chosen in proportion to 1 / n^s."""
    spec = layer_spec(hidden=8, width=8, experts=16, top_k=1, routing=RULES[rule])
    counts = _counts(spec, f"zipf:{exponent}", tokens=20_000, seed=seed)
    found = counts.sort(descending=True).values / counts.sum()
    law = torch.arange(1, 17).double() ** -exponent
    torch.testing.assert_close(found, law / law.sum(), rtol=0.15, atol=0.0)


@EACH_RULE
def test_a_larger_exponent_skews_more(rule: str) -> None:
    spec = layer_spec(hidden=8, width=8, experts=64, top_k=4, routing=RULES[rule])
    busiest = [
        float(_counts(spec, text, tokens=512, seed=3).max())
        for text in ("uniform", "zipf:0.5", "zipf:1.0", "zipf:2.0")
    ]
    assert busiest == sorted(busiest)
    assert busiest[2] > 5 * 512 * 4 / 64 > 3 * busiest[0]


def test_which_expert_is_wanted_most_hangs_on_the_seed() -> None:
    spec = layer_spec(hidden=8, width=8, experts=64, top_k=1)
    most = {int(_counts(spec, "zipf:2.0", tokens=64, seed=s).argmax()) for s in range(8)}
    assert len(most) >= 5


@SEEDS
@EACH_RULE
@pytest.mark.parametrize("text", ["uniform", "zipf:1.0"])
def test_no_choice_hangs_on_a_rounding(text: str, rule: str, seed: int) -> None:
    spec = layer_spec(hidden=8, width=8, experts=64, top_k=4, routing=RULES[rule])
    layer, batch = layer_and_batch(spec, tokens=512, seed=seed, distribution=text)
    bias = layer.correction_bias
    margin = choice_margin(
        batch.logits.double(),
        spec.routing,
        top_k=4,
        correction_bias=None if bias is None else bias.double(),
    )
    assert float(margin.min()) >= 1e-5
    # A kernel that takes bfloat16 logits and computes in float32 chooses the same.
    assert batch.logits.bfloat16().float().equal(batch.logits)
    other = route(batch.logits, spec.routing, top_k=4, correction_bias=bias)
    assert _sets(other.expert_ids).equal(_sets(batch.routing.expert_ids))


def test_an_exponent_beyond_what_scores_can_say_is_refused() -> None:
    spec = layer_spec(hidden=8, width=8, experts=256, top_k=8)
    with pytest.raises(InputError, match="give a smaller exponent"):
        draw_logits(
            spec,
            parse_distribution("zipf:10"),
            tokens=4,
            correction_bias=None,
            generator=torch.Generator(CPU).manual_seed(0),
        )


def test_a_single_expert_gets_all() -> None:
    for rule in ("softmax", "minimax", "sigmoid"):
        spec = layer_spec(experts=1, top_k=1, routing=RULES[rule])
        _, batch = layer_and_batch(spec, tokens=3)
        assert batch.routing.expert_ids.tolist() == [[0]] * 3
        assert batch.logits.isfinite().all()


def _sets(expert_ids: Tensor) -> Tensor:
    return expert_ids.sort(dim=-1).values


@st.composite
def _recordings(draw: st.DrawFn) -> tuple[LayerSpec, tuple[tuple[int, ...], ...]]:
    """A layer, and choices that its rule can make: within as many groups as are kept."""
    rule = RULES[draw(st.sampled_from(sorted(RULES)))]
    size = draw(st.integers(2, 8))
    experts = size * 4
    top_k = draw(st.integers(1, experts * rule.top_groups // rule.groups))
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        groups = draw(st.permutations(range(rule.groups)))[: rule.top_groups]
        there = [e for e in range(experts) if e // (experts // rule.groups) in groups]
        rows.append(tuple(draw(st.permutations(there))[:top_k]))
    spec = layer_spec(hidden=8, width=8, experts=experts, top_k=top_k, routing=rule)
    return spec, tuple(rows)


@given(_recordings(), st.integers(1, 12), st.integers(0, 2**31))
def test_replay_gives_each_token_its_experts(
    case: tuple[LayerSpec, tuple[tuple[int, ...], ...]], tokens: int, seed: int
) -> None:
    spec, rows = case
    layer = seeded_layer(spec, seed=seed, device=CPU)
    recording = Distribution(kind="replay", recording=rows, text="replay:file")
    batch = seeded_batch(layer, tokens=tokens, distribution=recording, seed=seed, device=CPU)
    expected = torch.tensor([rows[number % len(rows)] for number in range(tokens)])
    assert _sets(batch.routing.expert_ids).equal(_sets(expected))
    bias = layer.correction_bias
    margin = choice_margin(
        batch.logits.double(),
        spec.routing,
        top_k=spec.geometry.top_k,
        correction_bias=None if bias is None else bias.double(),
    )
    assert float(margin.min()) >= 1e-5


@SEEDS
@EACH_RULE
def test_replays_models_of_full_size(rule: str, seed: int) -> None:
    """256 experts, of which some are held down by their bias as far as one is."""
    spec = layer_spec(hidden=8, width=8, experts=256, top_k=8, routing=RULES[rule])
    generator = torch.Generator().manual_seed(seed)
    # In the first two groups of four, so that every rule can choose them.
    rows = tuple(tuple(torch.randperm(128, generator=generator)[:8].tolist()) for _ in range(64))
    layer = seeded_layer(spec, seed=seed, device=CPU)
    recording = Distribution(kind="replay", recording=rows, text="replay:file")
    batch = seeded_batch(layer, tokens=64, distribution=recording, seed=seed, device=CPU)
    assert _sets(batch.routing.expert_ids).equal(_sets(torch.tensor(rows)))


@pytest.mark.parametrize("rule", ["groups", "softmax groups"])
def test_refuses_to_replay_more_groups_than_are_kept(rule: str) -> None:
    spec = layer_spec(experts=16, top_k=3, routing=RULES[rule])
    recording = Distribution(kind="replay", recording=((0, 4, 8),), text="replay:file")
    layer = seeded_layer(spec, seed=0, device=CPU)
    with pytest.raises(InputError, match="groups are too many"):
        seeded_batch(layer, tokens=2, distribution=recording, seed=0, device=CPU)
