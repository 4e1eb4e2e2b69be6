"""A layer ready for one of FlashInfer's functions, and how a batch becomes its call."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autotune.kernels.backends.flashinfer.calls import Arguments, from_logits, given_routing, routed
from autotune.kernels.backends.flashinfer.inputs import Inputs
from autotune.kernels.backends.protocol import Call
from autotune.kernels.layer import Batch


@dataclass(frozen=True)
class Kernel:
    """One of FlashInfer's functions with everything that doesn't depend on the batch.

    Attributes:
        function: its name in `flashinfer.fused_moe`; a class there whose ``run`` is meant where
            ``constructor`` is given.
        fixed: arguments that are there for every batch.
        inputs: what is made of the hidden states in each forward pass.
        hidden: the layer's hidden size; a wider output is cut to it.
        constructor: what the class is made with.
        tuned: whether it takes ``tune_max_num_tokens``.
    """

    function: str
    fixed: Arguments
    inputs: Inputs
    hidden: int
    constructor: Arguments | None = None
    tuned: bool = True

    def callee(self) -> Callable[..., Any]:
        """The function to call."""
        found = getattr(importlib.import_module("flashinfer.fused_moe"), self.function)
        if self.constructor is None:
            return found  # type: ignore[no-any-return]
        # Buffers made in inference mode couldn't be written to outside of it, as SGLang found.
        with torch.inference_mode(False):
            return found(**self.constructor).run  # type: ignore[no-any-return]


RoutingArguments = Callable[[Batch], Arguments]


def as_given(batch: Batch) -> Arguments:
    """The batch's routing for CUTLASS and CuTe DSL."""
    return given_routing(batch.routing.expert_ids.int(), batch.routing.weights.contiguous())


def as_pair(batch: Batch) -> Arguments:
    """The batch's routing for trtllm-gen's routed functions."""
    return routed(batch.routing.expert_ids.int(), batch.routing.weights.contiguous())


def as_logits(dtype: torch.dtype) -> RoutingArguments:
    """The batch's logits in ``dtype``: bfloat16 holds them exactly, see `Batch`."""
    return lambda batch: from_logits(batch.logits.to(dtype))


@dataclass(frozen=True)
class PreparedKernel:
    """The protocol's `Prepared`."""

    kernel: Kernel
    routing: RoutingArguments

    def arguments(self, batch: Batch) -> Arguments:
        """All arguments but what is made of the hidden states in each forward pass."""
        arguments = {**self.kernel.fixed, **self.routing(batch)}
        if self.kernel.tuned:
            # As SGLang: tuned for batches up to the next power of two.
            arguments["tune_max_num_tokens"] = 1 << (batch.tokens - 1).bit_length()
        return arguments

    def bind(self, batch: Batch) -> Call:
        """Tune the kernel for the batch's size, as an engine does at start-up; return the call."""
        function, inputs, hidden = self.kernel.callee(), self.kernel.inputs, self.kernel.hidden
        arguments, hidden_states = self.arguments(batch), batch.hidden_states

        def call() -> Tensor:
            result = function(**arguments, **inputs(hidden_states))
            output: Tensor = result if isinstance(result, Tensor) else result[0]
            return output if output.shape[1] == hidden else output[:, :hidden].contiguous()

        with importlib.import_module("flashinfer.autotuner").autotune(True):
            call()
        return call
