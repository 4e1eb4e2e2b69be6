"""What FlashInfer says its functions compute, on a CPU, from the very arguments they are given.

Layouts are undone by formulas of their own, not by the code under test; numbers are read by our
quantization references. The kernels' activated rows are quantized again as the kernels say they
do. What isn't modelled: the order of sums, bfloat16 outputs, bfloat16 routing weights.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autotune.kernels.quantization import fp8, mxfp, nvfp4
from autotune.kernels.quantization.packing import unswizzle_128x4

Arguments = dict[str, Any]
Rows = Callable[[Tensor, Tensor, int], Tensor]


def trtllm(function: str, given: Arguments) -> Tensor:
    """One of trtllm-gen's functions."""
    ids, weights = _trtllm_routing(given)
    first, second, hidden_states = _trtllm_numbers(function, given)
    up, gate = first.chunk(2, dim=1)
    parameter = {name: given.get(f"gemm1_{name}") for name in ("alpha", "beta", "clamp_limit")}
    up_scale, gate_scale, down_scale = (
        given.get(f"output1_{_plural(function)}_scalar"),
        given.get(f"output1_{_plural(function)}_gate_scalar"),
        given.get(f"output2_{_plural(function)}_scalar"),
    )
    biases = _trtllm_biases(given)

    def expert(rows: Tensor, number: int) -> Tensor:
        def of(name: str, plain: float) -> Tensor:
            value = parameter[name]
            return torch.tensor(plain).double() if value is None else value[number].double()

        x1, x2 = rows @ up[number].T, rows @ gate[number].T
        if biases is not None:
            bias_up, bias_gate = biases[0][number].chunk(2)
            x1, x2 = x1 + bias_up, x2 + bias_gate
        limit = of("clamp_limit", float("inf"))
        x1, x2 = x1.clamp(-limit, limit), x2.clamp(max=limit)
        x1 = x1 + of("beta", 0.0)
        if gate_scale is not None and up_scale is not None:
            x2, x1 = x2 * gate_scale[number], x1 * up_scale[number]
        activated = x2 * torch.sigmoid(of("alpha", 1.0) * x2) * x1
        answer = _again(function, given)(activated) @ second[number].T
        if down_scale is not None:
            answer = answer * down_scale[number]
        return answer if biases is None else answer + biases[1][number]

    output = _routed_sum(hidden_states, ids, weights, expert, columns=second.shape[1])
    return output[:, : given.get("valid_hidden_size") or output.shape[1]]


def _plural(function: str) -> str:
    return "scales" if "per_tensor" in function else "scale"


def _trtllm_routing(given: Arguments) -> tuple[Tensor, Tensor]:
    if "topk_ids" in given:
        ids, weights = given["topk_ids"]
        assert ids.dtype == torch.int32 and weights.dtype in (torch.float32, torch.bfloat16)
        return ids.long(), weights.double()
    return _route(given)


def _route(given: Arguments) -> tuple[Tensor, Tensor]:
    """The methods as `RoutingMethodType` describes them."""
    logits, top_k = given["routing_logits"].double(), given["top_k"]
    bias, method = given["routing_bias"], given["routing_method_type"]
    factor = given["routed_scaling_factor"]
    if method == 0:
        weights, ids = logits.softmax(-1).topk(top_k)
        return ids, weights
    if method == 1:
        chosen, ids = logits.topk(top_k)
        return ids, chosen.softmax(-1)
    scores = logits.sigmoid()
    if method in (6, 8):
        weights, ids = scores.topk(top_k)
        return ids, weights / weights.sum(-1, keepdim=True) if method == 6 else weights
    assert method in (2, 7) and bias is not None
    keys = scores + bias.double()
    if method == 2 and given["n_group"] > 1:
        grouped = keys.unflatten(1, (given["n_group"], -1))
        best = grouped.topk(2).values.sum(-1).topk(given["topk_group"]).indices
        kept = torch.zeros(grouped.shape[:2], dtype=torch.bool).scatter(1, best, True)
        keys = grouped.masked_fill(~kept[..., None], -torch.inf).flatten(1)
    ids = keys.topk(top_k).indices
    chosen = scores.gather(1, ids)
    return ids, chosen * factor / (chosen.sum(-1, keepdim=True) + 1e-20)


def _trtllm_numbers(function: str, given: Arguments) -> tuple[Tensor, Tensor, Tensor]:
    """First weights [up, gate], second weights and hidden states as numbers, float64."""
    first, second = given["gemm1_weights"], given["gemm2_weights"]
    scales = given.get("gemm1_weights_scale"), given.get("gemm2_weights_scale")
    hidden_states, states_scale = given["hidden_states"], given.get("hidden_states_scale")
    if "bf16" in function:
        assert given["weight_layout"] == 2 and given["use_shuffled_weight"]
        blocks = [one.transpose(1, 2).flatten(2) for one in (first, second)]
        return _in_order(blocks[0]), _rows_in_order(blocks[1]), hidden_states.double()
    if "per_tensor" in function:
        return (
            _in_order(first.double()),
            _rows_in_order(second.double()),
            hidden_states.double(),
        )
    if "fp8" in function and given["fp8_quantization_type"] == 1:
        assert not given["use_shuffled_weight"]
        numbers = [
            fp8.dequantize_blocks(fp8.FP8BlockTensor(values, scale)).double()
            for values, scale in zip((first, second), scales, strict=True)
        ]
        states = fp8.dequantize_groups(fp8.FP8GroupTensor(hidden_states, states_scale.t()))
        return numbers[0], numbers[1], states.double()
    if "fp4" in function:
        block = 16 if hidden_states.dtype == torch.uint8 else 32
        read = _nvfp4 if block == 16 else _mxfp4
        read_states = _nvfp4 if block == 16 else _mxfp8
        packed = 2
    else:
        assert given["use_shuffled_weight"] and given["fp8_quantization_type"] == 2
        block, read, read_states, packed = 32, _mxfp8, _mxfp8, 1
    numbers = []
    for values, scale, undo in zip(
        (first, second), scales, (_in_order, _rows_in_order), strict=True
    ):
        experts, rows, columns = values.shape
        flat = scale.view(torch.uint8).reshape(experts, -1)
        plain = unswizzle_128x4(flat, rows, columns * packed // block)
        numbers.append(undo(read(values, plain)))
    return numbers[0], numbers[1], read_states(hidden_states, states_scale.view(torch.uint8))


def _nvfp4(codes: Tensor, scales: Tensor) -> Tensor:
    stored = nvfp4.NVFP4Tensor(codes, scales.view(torch.float8_e4m3fn), torch.tensor(1.0))
    return nvfp4.dequantize(stored).double()


def _mxfp4(codes: Tensor, scales: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp4(mxfp.MXFP4Tensor(codes, scales)).double()


def _mxfp8(values: Tensor, scales: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp8(mxfp.MXFP8Tensor(values, scales)).double()


def _rows_in_order(shuffled: Tensor) -> Tensor:
    """Row r of 32 lies at r % 4 * 8 + r // 4."""
    rows = torch.arange(shuffled.shape[1])
    return shuffled[:, rows // 32 * 32 + rows % 4 * 8 + rows % 32 // 4].double()


def _in_order(shuffled: Tensor) -> Tensor:
    """The same, and even rows are up's, odd ones gate's."""
    rows = _rows_in_order(shuffled)
    return torch.cat([rows[:, 0::2], rows[:, 1::2]], dim=1)


def _trtllm_biases(given: Arguments) -> tuple[Tensor, Tensor] | None:
    first, second = given.get("gemm1_bias"), given.get("gemm2_bias")
    if first is None or second is None:
        return None
    return _in_order(first[..., None])[..., 0], _rows_in_order(second[..., None])[..., 0]


def _again(function: str, given: Arguments) -> Callable[[Tensor], Tensor]:
    """How the activated rows are quantized, in the units that they have then."""
    if "bf16" in function:
        return _bf16
    if "per_tensor" in function:
        return _fp8_one
    if "fp8" in function and given["fp8_quantization_type"] == 1:
        return _fp8_groups
    is_nvfp4 = "fp4" in function and given["hidden_states"].dtype == torch.uint8
    return _nvfp4_one if is_nvfp4 else _mx


def _bf16(rows: Tensor) -> Tensor:
    return rows


def _fp8_one(rows: Tensor) -> Tensor:
    return fp8.dequantize(fp8.quantize(rows, scale=1.0)).double()


def _fp8_groups(rows: Tensor) -> Tensor:
    return fp8.dequantize_groups(fp8.quantize_groups(rows)).double()


def _nvfp4_one(rows: Tensor) -> Tensor:
    return nvfp4.dequantize(nvfp4.quantize(rows, global_scale=1.0)).double()


def _mx(rows: Tensor) -> Tensor:
    return mxfp.dequantize_mxfp8(mxfp.quantize_mxfp8(rows, scale_rule="up")).double()


def _routed_sum(
    states: Tensor, ids: Tensor, weights: Tensor, expert: Any, *, columns: int
) -> Tensor:
    output = torch.zeros(states.shape[0], columns, dtype=torch.float64)
    for number in ids.unique().tolist():
        tokens, slots = torch.where(ids == number)
        output[tokens] += weights[tokens, slots, None].double() * expert(states[tokens], number)
    return output


def cutlass(given: Arguments) -> Tensor:
    """`cutlass_fused_moe`: first the up rows, then the gate rows, nothing shuffled."""
    read = _cutlass_numbers(given)
    first, second, states = read["first"], read["second"], read["states"]
    fc1, requantize, fc2 = read["fc1"], read["again"], read["fc2"]

    def expert(rows: Tensor, number: int) -> Tensor:
        def of(name: str, plain: float) -> Tensor:
            value = given.get(f"swiglu_{name}")
            return torch.tensor(plain).double() if value is None else value[number].double()

        linear, gate = (rows @ first[number].T * fc1[number]).chunk(2, dim=1)
        if given.get("fc1_expert_biases") is not None:
            bias = given["fc1_expert_biases"][number].double().chunk(2)
            linear, gate = linear + bias[0], gate + bias[1]
        limit = of("limit", float("inf"))
        linear, gate = linear.clamp(-limit, limit), gate.clamp(max=limit)
        activated = gate * torch.sigmoid(of("alpha", 1.0) * gate) * (linear + of("beta", 0.0))
        answer = requantize(activated) @ second[number].T * fc2[number]
        if given.get("fc2_expert_biases") is not None:
            answer = answer + given["fc2_expert_biases"][number].double()
        return answer

    ids, weights = given["token_selected_experts"], given["token_final_scales"]
    assert ids.dtype == torch.int32 and weights.dtype == torch.float32
    return _routed_sum(states, ids.long(), weights, expert, columns=second.shape[1])


def _cutlass_numbers(given: Arguments) -> Arguments:
    """Which scheme is told by dtypes and flags, as the library tells it."""
    first, second = given["fc1_expert_weights"], given["fc2_expert_weights"]
    scales, states = given["quant_scales"], given["input"]
    ones = torch.ones(first.shape[0], dtype=torch.float64)
    read: Arguments = {"fc1": ones, "fc2": ones, "again": _bf16, "states": states.double()}
    if given["use_deepseek_fp8_block_scale"]:
        read["states"] = fp8.dequantize_groups(fp8.quantize_groups(states)).double()
        for name, values, scale in zip(("first", "second"), (first, second), scales, strict=True):
            read[name] = fp8.dequantize_blocks(fp8.FP8BlockTensor(values, scale)).double()
        read["again"] = _fp8_groups
    elif given["use_mxfp8_act_scaling"]:
        block_scales, packed, number = (scales[0], scales[2]), 2, _mxfp4
        if first.dtype == torch.float8_e4m3fn:
            packed, number = 1, _mxfp8
        read["fc1"], read["fc2"] = scales[1].double(), scales[3].double()
        for name, values, scale in zip(
            ("first", "second"), (first, second), block_scales, strict=True
        ):
            read[name] = _plain(values, scale, packed=packed, block=32, read=number)
        rows = unswizzle_128x4(given["input_sf"], states.shape[0], states.shape[1] // 32)
        read["states"], read["again"] = _mxfp8(states, rows), _mx
    elif first.dtype == torch.int64:
        one, blocks1, fc1, again, blocks2, fc2 = scales
        found = nvfp4.quantize(states, global_scale=1.0 / float(one))
        read["states"] = nvfp4.dequantize(found).double() * float(one)
        read["first"] = _plain(first, blocks1, packed=2, block=16, read=_nvfp4)
        read["second"] = _plain(second, blocks2, packed=2, block=16, read=_nvfp4)
        read["fc1"], read["fc2"] = fc1.double(), fc2.double()
        read["again"] = lambda rows: _nvfp4_one(rows * float(again))
    elif first.dtype == torch.float8_e4m3fn:
        fc1, again, fc2, _ = scales
        read["first"], read["second"] = first.double(), second.double()
        read["fc1"], read["fc2"] = fc1.double(), fc2.double()
        read["again"] = lambda rows: _fp8_one(rows * float(again))
    else:
        read["first"], read["second"] = first.double(), second.double()
    return read


def _plain(
    values: Tensor,
    scales: Tensor,
    *,
    packed: int,
    block: int,
    read: Callable[[Tensor, Tensor], Any],
) -> Tensor:
    codes = values.view(torch.uint8) if packed == 2 else values
    experts, rows, columns = codes.shape
    flat = scales.view(torch.uint8).reshape(experts, -1)
    result: Tensor = read(codes, unswizzle_128x4(flat, rows, columns * packed // block))
    return result


def cute_dsl(given: Arguments) -> Tensor:
    """`CuteDslMoEWrapper.run` with FP4 activations: 64 up rows, 64 gate rows, and so on."""
    first, second = (
        _nvfp4(given[f"w{number}_weight"], _from_mma(given[f"w{number}_weight_sf"]))
        for number in (1, 2)
    )
    blocks = first.unflatten(1, (-1, 2, 64))
    up, gate = blocks[:, :, 0].flatten(1, 2), blocks[:, :, 1].flatten(1, 2)
    states = _nvfp4(given["x"], given["x_sf"].view(torch.uint8))

    def expert(rows: Tensor, number: int) -> Tensor:
        alpha = given["w1_alpha"][number].double()
        x1, x2 = rows @ up[number].T * alpha, rows @ gate[number].T * alpha
        activated = x2 * torch.sigmoid(x2) * x1 * float(given["fc2_input_scale"])
        return _nvfp4_one(activated) @ second[number].T * given["w2_alpha"][number].double()

    ids, weights = given["token_selected_experts"], given["token_final_scales"]
    return _routed_sum(states, ids.long(), weights, expert, columns=second.shape[1])


def _from_mma(scales: Tensor) -> Tensor:
    """Scales [experts, rows, columns] of (row % 32, row % 128 // 32, row // 128, ...)."""
    tiles, column_tiles, experts = scales.shape[2], scales.shape[4], scales.shape[5]
    rows = torch.arange(tiles * 128)[None, :, None]
    columns = torch.arange(column_tiles * 4)[None, None, :]
    number = torch.arange(experts)[:, None, None]
    return scales.view(torch.uint8)[
        rows % 32, rows % 128 // 32, rows // 128, columns % 4, columns // 4, number
    ]
