"""Tests against real vLLM servers; scripts/test-vllm runs them.

Elsewhere they aren't collected: each server takes most of a minute to start.
"""

import os

if not os.environ.get("AUTOTUNE_TEST_VLLM"):
    collect_ignore_glob = ["test_*.py"]
