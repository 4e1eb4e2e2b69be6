"""The bench's backends by name: what is wrong with each, and what the gate must say of it.

A *loud* defect changes so much of the text that anything but ``fail`` would be a scandal. A
*subtle* one may be left open, but never passed. A *small* one is no larger than what rounding does,
so that texts can't tell it. What is *honest* is never failed. Some defects were
added when the gate's rules were settled, so that the rules can't have been made to fit them.
"""

from typing import Literal, NamedTuple

Kind = Literal["loud", "subtle", "small", "harmless", "honest"]

REFERENCE = "eager"


class Case(NamedTuple):
    """One candidate of the bench; ``arguments`` go to its server."""

    name: str
    kind: Kind
    what: str
    backend: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def implementation(self) -> str:
        """The name that it is registered by."""
        return self.backend or self.name

    @property
    def allowed(self) -> frozenset[str]:
        """The verdicts that are right."""
        return _ALLOWED[self.kind]


_ALLOWED: dict[Kind, frozenset[str]] = {
    "loud": frozenset({"fail"}),
    "subtle": frozenset({"fail", "inconclusive"}),
    "small": frozenset({"pass", "fail", "inconclusive"}),
    "harmless": frozenset({"pass"}),
    "honest": frozenset({"pass", "inconclusive"}),
}

# Registered by transformers itself.
SHIPPED = frozenset({"eager", "batched_mm", "grouped_mm"})

CASES = (
    Case("eager", "honest", "the reference, launched again"),
    Case("batched_mm", "honest", "one batched product per token and expert"),
    Case("grouped_mm", "honest", "tokens sorted by expert"),
    Case("other_order", "honest", "experts summed in reversed order"),
    Case("compiled", "honest", "compiled: other kernels, other sums"),
    Case("bfloat16_experts", "honest", "the experts computed in bfloat16"),
    Case(
        "bfloat16_server", "honest", "the whole model in bfloat16", "eager", ("--dtype", "bfloat16")
    ),
    Case("slow", "harmless", "right, and late"),
    Case("gate_up_swapped", "loud", "gate and up projection mistaken for each other"),
    Case("not_normalised", "loud", "routing weights not normalised over the chosen experts"),
    Case("nan_at_64", "loud", "NaN as soon as 64 sequences are computed at once"),
    Case("garbage_on_long", "loud", "other experts from a prompt's 200th token on"),
    Case("scale_dropped", "subtle", "one expert's output scale lost: four times too large"),
    Case("bias_ignored", "subtle", "experts chosen without the routing bias"),
    Case("stale_expert", "subtle", "one expert computes with its neighbour's weights"),
    Case("dead_expert", "subtle", "one expert says nothing"),
    Case("one_in_eight", "subtle", "other experts for the prompt of one request in eight"),
    Case("wrong_activation", "subtle", "GELU in place of SiLU"),
    Case("top_k_minus_one", "subtle", "the weakest of the chosen experts left out"),
    Case("coarse_weights", "small", "weights rounded to two bits of mantissa"),
    Case("zero_every_100th", "subtle", "the experts say nothing of every hundredth token"),
)


def case(name: str) -> Case:
    """The case of that name."""
    return next(one for one in CASES if one.name == name)
