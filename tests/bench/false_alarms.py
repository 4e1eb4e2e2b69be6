"""How often the gate is wrong about what is honest, and how often right about what isn't.

No server: the witness answers many prompts once with each backend, in this process. Each of many
draws then takes 25 of the prompts, makes the records that a launch would have made, and judges
them. What a launch asks alone is answered here in small batches, what it asks in a crowd in large
ones: that changes the rounding as it does in a server.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward

from autotune.probe.scoring import agreement
from autotune.probe.verdict import judge_probes
from autotune.records.rule import CorrectnessRule, Rule
from autotune.records.schema import ProbeAnswer, ProbeMode, ProbePrompt, ProbeRecord, PromptKind
from tests.bench.backends import BACKENDS

DOCUMENTS = Path(__file__).parents[2] / "docs"
PROMPT_TOKENS = 24
# As many as the probe's, and as many long ones among them.
PROMPTS = 25
LONG = 8
CROWD = 64
REPEATS = 2
BATCHES: dict[ProbeMode, int] = {"single": 10, "crowd": 100}
NOISE = 0.01
# Of each answer.
TOKENS = 16


class Variant(NamedTuple):
    """A backend to answer with; ``runs`` counts how often, for one that isn't deterministic."""

    implementation: str
    dtype: torch.dtype = torch.float32
    runs: int = 1


HONEST = {
    "eager": Variant("eager"),
    "grouped_mm": Variant("grouped_mm"),
    "other_order": Variant("other_order"),
    "bfloat16_experts": Variant("bfloat16_experts"),
    "bfloat16_server": Variant("eager", torch.bfloat16),
}
# Defects that need nothing but the experts module.
BROKEN = {
    name: Variant(name)
    for name in (
        "gate_up_swapped",
        "scale_dropped",
        "stale_expert",
        "dead_expert",
        "wrong_activation",
        "top_k_minus_one",
        "coarse_weights",
        "zero_every_100th",
    )
}
# A reference that doesn't repeat itself, and copies of it, which never are the same runs.
NOISY = {"noisy": Variant("noisy", runs=3), "noisy_copy": Variant("noisy", runs=3)}

# Texts by how they were asked, one list of answers for each run.
Answers = dict[ProbeMode, list[list[str]]]


def noisy(
    self: Any, hidden_states: torch.Tensor, index: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Each value off by about a hundredth of the output's size, otherwise at each run."""
    right = grouped_mm_experts_forward(self, hidden_states, index, weights)
    return right + NOISE * right.square().mean().sqrt() * torch.randn_like(right)


def make_prompts(tokenizer: Any, count: int) -> list[list[int]]:
    """Pieces of this project's documents that begin anywhere."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.glob("*.md"))]
    plain = re.sub(r"[^\x20-\x7e\n]|\|", " ", "\n".join(texts))
    tokens = tokenizer(plain, verbose=False)["input_ids"]
    starts = random.Random(0).sample(range(len(tokens) - PROMPT_TOKENS), count)
    return [tokens[start : start + PROMPT_TOKENS] for start in starts]


def answer(
    folder: Path, variants: Mapping[str, Variant], *, count: int, tokens: int = TOKENS
) -> dict[str, Answers]:
    """Answer ``count`` prompts with each variant, greedily."""
    for name, forward in {**BACKENDS, "noisy": noisy}.items():
        ALL_EXPERTS_FUNCTIONS.register(name, forward)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = torch.tensor(make_prompts(tokenizer, count))
    models: dict[torch.dtype, Any] = {}
    torch.manual_seed(0)
    given = {}
    for name, variant in variants.items():
        if variant.dtype not in models:
            models[variant.dtype] = AutoModelForCausalLM.from_pretrained(
                folder, dtype=variant.dtype
            ).eval()
        model = models[variant.dtype]
        model.set_experts_implementation(variant.implementation)
        given[name] = {
            mode: [
                _answer_all(model, tokenizer, prompts, batch, tokens) for _ in range(variant.runs)
            ]
            for mode, batch in BATCHES.items()
        }
    return given


def _answer_all(
    model: Any, tokenizer: Any, prompts: torch.Tensor, batch: int, tokens: int
) -> list[str]:
    texts: list[str] = []
    for some in prompts.split(batch):
        with torch.no_grad():
            told = model.generate(
                some,
                attention_mask=torch.ones_like(some),
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        texts += tokenizer.batch_decode(told[:, PROMPT_TOKENS:], skip_special_tokens=True)
    return texts


def records(
    given: Mapping[str, Answers], *, seed: int, reference: str, tokens: int = TOKENS
) -> list[ProbeRecord]:
    """The reference's records of round 0 and everybody's of round 1, over prompts of one draw."""
    draw = random.Random(seed)
    count = len(given[reference]["single"][0])
    chosen = draw.sample(range(count), PROMPTS)
    prompts = tuple(
        ProbePrompt(name=f"p{index}", kind=_kind(place), text=f"prompt {index}")
        for place, index in enumerate(chosen)
    )
    launches = [(reference, 0), *((name, 1) for name in given)]
    return [
        ProbeRecord(
            candidate=name,
            round=round_number,
            prompts_digest="d" * 64,
            prompts=prompts,
            max_tokens=tokens,
            answers=tuple(
                _ask(given[name], chosen, draw, tokens, repeats=1 if round_number else REPEATS)
            ),
        )
        for name, round_number in launches
    ]


def _kind(place: int) -> PromptKind:
    return "long" if place < LONG else "short"


def _ask(
    answers: Answers, chosen: Sequence[int], draw: random.Random, tokens: int, *, repeats: int
) -> list[ProbeAnswer]:
    modes: tuple[tuple[ProbeMode, int, int], ...] = (
        ("single", repeats * len(chosen), 1),
        ("crowd", repeats * 2 * CROWD, CROWD),
    )
    return [
        ProbeAnswer(
            prompt=f"p{chosen[index % len(chosen)]}",
            mode=mode,
            concurrency=concurrency,
            repeat=1 + index // len(chosen),
            outcome="ok",
            text=draw.choice(answers[mode])[chosen[index % len(chosen)]],
            output_tokens=tokens,
            finish_reason="length",
        )
        for mode, asked, concurrency in modes
        for index in range(asked)
    ]


def count_verdicts(
    given: Mapping[str, Answers],
    *,
    draws: int,
    reference: str,
    rule: CorrectnessRule | None = None,
) -> dict[str, Counter[str]]:
    """How often each variant gets each verdict over so many draws of prompts."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in given}
    for seed in range(draws):
        verdicts = judge_probes(
            records(given, seed=seed, reference=reference),
            candidates=list(given),
            reference=reference,
            rule=Rule(correctness=rule or CorrectnessRule()),
        )
        for name, verdict in verdicts.items():
            counts[name][verdict.verdict] += 1
    return counts


def rate_per_token(given: Mapping[str, Answers], name: str, *, reference: str) -> float:
    """How often a variant writes another token than the reference, over the whole pool."""
    events = agreed = 0.0
    for mine, own in zip(given[name]["single"][-1], given[reference]["single"][0], strict=True):
        share = agreement(mine, own)
        events += mine != own
        agreed += TOKENS * share + (mine != own)
    return events / agreed if agreed else 0.0
