"""SGLang's settings, beside sizes and all-to-all, that change what its MoE layers run.

They are part of a decision's scope: a backend measured without speculative decoding, say, isn't
measured with it. A sweep reads them from a command line, the plugin from the server's arguments;
both name them by the server argument's field. Defaults are left out. Standard library only.
"""

from collections.abc import Sequence

# Field of SGLang's server arguments: its default. The command-line flag is the field's name with
# dashes; where the default is False, the flag takes no value.
_SETTINGS: dict[str, bool | int | str | None] = {
    "attn_cp_size": 1,
    "deepep_config": None,
    "deepep_dispatcher_output_dtype": "auto",
    "disable_flashinfer_autotune": False,
    "disable_flashinfer_cutlass_moe_fp4_allgather": False,
    "disable_shared_experts_fusion": False,
    "disaggregation_mode": "null",
    "dwdp_size": 1,
    "elastic_ep_backend": None,
    "enable_deterministic_inference": False,
    "enable_elastic_expert_backup": False,
    "enable_eplb": False,
    "enable_fused_moe_sum_all_reduce": False,
    "enable_lora": False,
    "enable_megamoe_for_layernorm_sp": False,
    "enable_paged_experts": False,
    "enable_shared_experts_attn_tp": False,
    "enable_single_batch_overlap": False,
    "enable_torch_compile": False,
    "enable_two_batch_overlap": False,
    "enable_w4a4_mxfp4_megamoe": False,
    "enable_waterfill": False,
    "enforce_shared_experts_fusion": False,
    "ep_dispatch_algorithm": None,
    "ep_num_redundant_experts": 0,
    "flashinfer_mxfp4_moe_precision": "default",
    "init_expert_location": "trivial",
    "kt_num_gpu_experts": None,
    "kt_weight_path": None,
    "lora_backend": "csgmv",
    "lora_use_virtual_experts": False,
    "model_impl": "auto",
    "moe_dp_size": 1,
    "nnodes": 1,
    "pp_size": 1,
    "rl_on_policy_target": None,
    "shared_experts_tp_size": None,
    "speculative_algorithm": None,
    "uno_lora_path": None,
}
# Whole flags of other fields that are the beginning of one of these.
_WHOLE = frozenset({"--ep", "--model"})
_SHORTEST_FLAG = len("--pp")
_ALIASES = {
    "--attention-context-parallel-size": "attn_cp_size",
    "--lora-paths": "enable_lora",
    "--moe-data-parallel-size": "moe_dp_size",
    "--pipeline-parallel-size": "pp_size",
}
_FLAGS = {f"--{name.replace('_', '-')}": name for name in _SETTINGS} | _ALIASES


def settings_in(arguments: Sequence[str]) -> dict[str, str]:
    """Return the settings that a command line gives, the last of each counting."""
    found: dict[str, str] = {}
    for position, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        name = _name(flag)
        if name is None:
            continue
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        if flag.startswith("--lora-p") and not equals and (following or "--").startswith("--"):
            continue  # A list of adapters with none in it.
        if _SETTINGS[name] is False:
            # Of a flag that turns something on by naming it, the name doesn't matter.
            value = "true"
        elif not equals:
            value = following
        found[name] = _plain(value, _SETTINGS[name])
    return {name: value for name, value in found.items() if value != _told(_SETTINGS[name])}


def _name(flag: str) -> str | None:
    """The field that a flag sets, if it is one of ours; argparse takes a flag's beginning too."""
    if flag in _WHOLE:
        return None
    if flag in _FLAGS:
        return _FLAGS[flag]
    if not flag.startswith("--") or len(flag) < _SHORTEST_FLAG:
        return None
    begun = {name for whole, name in _FLAGS.items() if whole.startswith(flag)}
    return begun.pop() if len(begun) == 1 else None


def settings_of(server_args: object) -> dict[str, str]:
    """Return the settings of a server's arguments, as `settings_in` names and writes them."""
    found: dict[str, str] = {}
    for name, default in _SETTINGS.items():
        value = getattr(server_args, name, default)
        if value != default and (value or default):
            found[name] = _told(value)
    if getattr(server_args, "lora_paths", None):
        found["enable_lora"] = "true"
    return found


def _plain(value: str, default: object) -> str:
    """A number as the server writes it: 2 for 02."""
    if isinstance(default, int) and not isinstance(default, bool):
        try:
            return str(int(value))
        except ValueError:
            return value
    return value


def _told(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
