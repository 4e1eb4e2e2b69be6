"""Tests against the real SGLang, in the environment that scripts/setup-sglang makes.

Elsewhere they aren't collected. The package is installed without CUDA: two of torchvision's
operators are declared here, since its own don't load beside a torch without it.
"""

import importlib.util

if importlib.util.find_spec("sglang") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .real import declare_torchvision_operators

    declare_torchvision_operators()

    from .fixtures import *  # noqa: F403
