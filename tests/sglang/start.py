"""What `python -m sglang.launch_server` does up to its resolved arguments, then a child process.

Run as a program: ``start.py HOW CHECKPOINT [FLAG ...]``. It prints JSON: the resolved backend, how
often a decision file was opened, and the same of a process that it spawned as a server spawns its
schedulers.
"""

import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.sglang.real import declare_torchvision_operators, on

OPENED: list[str] = []


def watch(event: str, details: tuple[Any, ...]) -> None:
    if event == "open" and str(details[0]).endswith("modelopt_fp4.json"):
        OPENED.append(str(details[0]))


def child(server_args: Any, answers: Any) -> None:
    """A scheduler's start: plugins, then the arguments as they were resolved."""
    from sglang.srt.plugins import load_plugins
    from sglang.srt.runtime_context import get_exec, publish

    load_plugins()
    publish(server_args, role="scheduler")
    answers.put({"backend": get_exec().moe.moe_runner_backend, "opened": len(OPENED)})


def start(how: str, checkpoint: str, flags: list[str]) -> Any:
    if how == "engine":
        import_engine()
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import ServerArgs, prepare_server_args

    load_plugins()
    argv = ["--model-path", checkpoint, "--device", "cuda", "--tp-size", "4", *flags]
    if how == "command":
        server_args = prepare_server_args(argv)
    else:
        # No parser, and so no logging that somebody set up.
        server_args = ServerArgs(
            model_path=checkpoint, device="cuda", tp_size=4, quantization="modelopt_fp4"
        )
    with on("sm100"):
        server_args.resolve_once()
    return server_args


def import_engine() -> None:
    """Import the module of `sglang.Engine`, as far as its packages are here.

    What it imports of SGLang itself comes before the ones that are missing.
    """
    import types

    sys.modules["uvloop"] = types.ModuleType("uvloop")
    try:
        import sglang.srt.entrypoints.engine  # noqa: F401
    except ModuleNotFoundError as error:
        assert not str(error.name).startswith("sglang"), error


sys.addaudithook(watch)
declare_torchvision_operators()

if __name__ == "__main__":
    how, checkpoint, *flags = sys.argv[1:]
    server_args = start(how, checkpoint, flags)
    from sglang.srt.arg_groups.overrides import resolution_result

    answers: Any = None
    found = {
        "backend": resolution_result(server_args, "moe_runner_backend"),
        "opened": len(OPENED),
        "sources": [
            name for name, f in server_args._resolved_overrides if "moe_runner_backend" in f
        ],
    }
    if how == "command":
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        process = context.Process(target=child, args=(server_args, answers))
        process.start()
        found["child"] = answers.get(timeout=120)
        process.join()
    print(json.dumps(found))
