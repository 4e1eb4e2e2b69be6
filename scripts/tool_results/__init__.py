"""How each tool's result files are made: one recipe a tool, for ``scripts/write_tool_results``."""

from collections.abc import Callable

from tool_results import aiperf, guidellm, sglang, vllm
from tool_results.workplace import Workplace

RECIPES: dict[str, Callable[[Workplace], None]] = {
    "aiperf": aiperf.write,
    "guidellm": guidellm.write,
    "sglang": sglang.write,
    "vllm": vllm.write,
}
