"""Run a `transformers` command line with one more MoE backend: ``scrambled``, fast and wrong.

Each token's work goes to the neighbours of the experts that its router chose::

    python with_scrambled_experts.py /path/to/transformers serve ...
"""

import sys

import torch
from transformers.cli.transformers import main
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward


def scrambled(
    self: torch.nn.Module,
    hidden_states: torch.Tensor,
    top_k_index: torch.Tensor,
    top_k_weights: torch.Tensor,
) -> torch.Tensor:
    neighbours = (top_k_index + 1) % self.num_experts
    return grouped_mm_experts_forward(self, hidden_states, neighbours, top_k_weights)


if __name__ == "__main__":
    ALL_EXPERTS_FUNCTIONS.register("scrambled", scrambled)
    del sys.argv[0]
    main()
