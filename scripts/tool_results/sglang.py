"""SGLang's ``bench_serving``: its JSON lines, with and without what the server says of itself."""

import contextlib
import json
import subprocess
from pathlib import Path

from tool_results.workplace import MODEL, REPOSITORY, Workplace

PYTHON = REPOSITORY / ".venv-sglang/bin/python"
# The benchmark imports it for data sets that aren't used here; what else it needs is installed.
_DATASETS = ("datasets", "pandas", "pyarrow", "multiprocess", "xxhash", "python-dateutil", "six")
# Importing SGLang takes most of a minute, so that one process does all. Without CUDA's libraries,
# torchvision's operators must be declared before.
_DECLARE = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
sys.path.append("datasets")
from tests.sglang.real import declare_torchvision_operators
declare_torchvision_operators()
todo = json.loads(sys.argv[2])
"""
_BENCH = f"""{_DECLARE}
from sglang.benchmark.serving import cli_main
for arguments in todo:
    sys.argv = ["bench_serving", *arguments]
    cli_main()
"""
# A server's own word, from the same function as its /server_info, on a faked Blackwell GPU.
_INFO = f"""{_DECLARE}
import sglang
from sglang.srt.server_args import prepare_server_args
from sglang.srt.utils.common import build_server_info
from tests.sglang.real import on
for file, arguments in todo.items():
    with on("sm100"):
        server_args = prepare_server_args(arguments)
        server_args.resolve_once()
    said = build_server_info(server_args, {{}}) | {{"version": sglang.__version__}}
    Path(file).write_text(json.dumps(said, default=str))
"""
BACKENDS = ("flashinfer_trtllm_routed", "flashinfer_cutlass")


def write(workplace: Workplace) -> None:
    """Run it in each way that says something else in its lines."""
    subprocess.run([REPOSITORY / "scripts/setup-sglang"], check=True)
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--target", "datasets")
    workplace.run([PYTHON, "-m", "pip", "install", *quiet, *_DATASETS])
    given = ("--model-path", "tokenizer", "--served-model-name", MODEL, "--tp-size", "4")
    given += ("--quantization", "modelopt_fp4", "--device", "cuda")
    infos = {f"{name}.json": [*given, "--moe-runner-backend", name] for name in BACKENDS}
    workplace.run([PYTHON, "-c", _INFO, REPOSITORY, json.dumps(infos)])
    _sharegpt(workplace.folder / "talks.json")
    with contextlib.ExitStack() as servers:
        first, second = (
            servers.enter_context(
                workplace.serving("--token-s", speed, "--server-info", f"{name}.json")
            )
            for name, speed in zip(BACKENDS, ("0.002", "0.003"), strict=True)
        )
        silent = servers.enter_context(workplace.serving())
        failing = servers.enter_context(workplace.serving("--fails", "5"))
        runs = [
            *(
                _bench(url, "with_server_info.jsonl", concurrency=concurrency)
                for url in (first, second)
                for concurrency in (4, 16)
            ),
            *(_bench(silent, "repeated.jsonl", concurrency=4) for _ in range(2)),
            _bench(silent, "details.jsonl", "--output-details", concurrency=4, prompts=24),
            _bench(silent, "ranges.jsonl", "--random-range-ratio", "0.5", concurrency=4),
            _bench(silent, "tagged.jsonl", "--tag", "triton", concurrency=4),
            _bench(silent, "rate.jsonl", "--request-rate", "40", concurrency=4),
            _bench(silent, "at_once.jsonl", concurrency=None, prompts=16),
            _bench(silent, "not_streamed.jsonl", "--disable-stream", concurrency=4, chat=True),
            _bench(silent, "enough.jsonl", concurrency=16, prompts=304),
            _bench(silent, "sharegpt.jsonl", concurrency=4, dataset="sharegpt"),
            _bench(failing, "failures.jsonl", "--output-details", concurrency=4, prompts=20),
        ]
        workplace.run([PYTHON, "-c", _BENCH, REPOSITORY, json.dumps(runs)])
    workplace.keep(*sorted(path.name for path in workplace.folder.glob("*.jsonl")))


def _bench(
    url: str,
    file: str,
    *flags: str,
    concurrency: int | None,
    prompts: int = 32,
    dataset: str = "random-ids",
    chat: bool = False,
) -> list[str]:
    """The arguments of one run, which appends a line to ``file``."""
    lengths: tuple[str, ...] = ("--sharegpt-output-len", "8", "--dataset-path", "talks.json")
    if dataset.startswith("random"):
        lengths = ("--random-input-len", "32", "--random-output-len", "8")
        lengths += () if "--random-range-ratio" in flags else ("--random-range-ratio", "1")
    limit = () if concurrency is None else ("--max-concurrency", str(concurrency))
    return [
        *("--backend", "sglang-oai-chat" if chat else "sglang-oai", "--base-url", url),
        *("--model", MODEL, "--tokenizer", "tokenizer", "--dataset-name", dataset),
        *("--num-prompts", str(prompts), "--output-file", file, "--seed", "1"),
        *limit,
        *lengths,
        *flags,
    ]


def _sharegpt(path: Path) -> None:
    talks = [
        {
            "conversations": [
                {"from": "human", "value": "Tell me about the sea. " * (1 + number % 7)},
                {"from": "gpt", "value": "It is wide and blue, and full of fish. " * 2},
            ]
        }
        for number in range(64)
    ]
    path.write_text(json.dumps(talks))
