"""``vllm bench serve`` and ``vllm bench sweep serve``: JSON files, JSON lines and a folder."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tool_results.workplace import MODEL, REPOSITORY, SERVER, Workplace

# Importing vLLM takes most of a minute, so that one process does all that the sweep doesn't. This
# is what the command line does, without its other commands.
_BENCH = """
import json, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
for arguments in json.loads(sys.argv[1]):
    main(parser.parse_args(arguments))
"""
# Not among what serving needs.
_PANDAS = ("pandas", "python-dateutil", "six")
BACKENDS = {"triton": "0.002", "flashinfer_cutlass": "0.003"}


def write(workplace: Workplace) -> None:
    """Run both in each way that says something else in their files."""
    environment = _environment()
    python = environment / "bin/python"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--target", "extras")
    workplace.run([python, "-m", "pip", "install", *quiet, *_PANDAS])
    with contextlib.ExitStack() as servers:
        url = servers.enter_context(workplace.serving())
        failing = servers.enter_context(workplace.serving("--fails", "5"))
        every = ("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "90,95,99")
        runs = [
            _bench(url, "plain.json"),
            _bench(url, "labelled.json", "--label", "triton", *every),
            _bench(url, "metadata.json", "--metadata", "version=0.32.0", "tp=4", *every),
            _bench(url, "details.json", "--save-detailed", "--num-prompts", "24"),
            _bench(url, "enough.json", *every, "--num-prompts", "304", "--max-concurrency", "16"),
            _bench(url, "rate.json", "--request-rate", "40"),
            _bench(url, "at_once.json", "--num-prompts", "16", concurrency=None),
            _bench(failing, "failures.json", "--num-prompts", "20"),
            *(
                _bench(url, "appended.jsonl", "--append-result", "--max-concurrency", number)
                for number in ("4", "16")
            ),
        ]
        workplace.run([python, "-c", _BENCH, json.dumps(runs)])
    _sweep(workplace, python)
    names = [path.name for path in workplace.folder.glob("*.json*")]
    workplace.keep(*sorted(set(names) - {"serve.json", "bench.json"}), "sweep")


def _environment() -> Path:
    """The folder of an environment with vLLM, which ``VLLM_VENV`` may name."""
    given = os.environ.get("VLLM_VENV")
    if given is None:
        subprocess.run([REPOSITORY / "scripts/setup-vllm"], check=True)
    return Path(given) if given is not None else REPOSITORY / ".venv-vllm"


def _bench(url: str, file: str, *flags: str, concurrency: int | None = 4) -> list[str]:
    """The arguments of one run, which writes ``file``; of a flag given twice the last counts."""
    return [
        *("--base-url", url, "--model", MODEL, "--tokenizer", "tokenizer"),
        *("--dataset-name", "random", "--random-input-len", "32", "--random-output-len", "8"),
        *("--num-prompts", "32", "--ignore-eos", "--seed", "1", "--save-result"),
        *("--result-filename", file, "--disable-tqdm"),
        *(() if concurrency is None else ("--max-concurrency", str(concurrency))),
        *flags,
    ]


def _sweep(workplace: Workplace, python: Path) -> None:
    """Two backends at two concurrencies, twice each."""
    combinations = [{"moe-backend": name, "token-s": speed} for name, speed in BACKENDS.items()]
    (workplace.folder / "serve.json").write_text(json.dumps(combinations))
    (workplace.folder / "bench.json").write_text(
        json.dumps([{"max_concurrency": 4}, {"max_concurrency": 16}])
    )
    port = str(workplace.free_port())
    serve = [sys.executable, SERVER, "--model", MODEL, "--port", port]
    (workplace.folder / "bench.py").write_text(
        "import sys, json\nsys.argv = ['bench', json.dumps([sys.argv[1:]])]\n" + _BENCH
    )
    arguments = _bench(f"http://127.0.0.1:{port}", "unused.json")
    arguments = arguments[: arguments.index("--save-result")]
    bench = [python, "bench.py", *arguments, "--metric-percentiles", "90,95,99", "--disable-tqdm"]
    workplace.run(
        [
            *(python.parent / "vllm", "bench", "sweep", "serve"),
            *("--serve-cmd", _shell(serve), "--bench-cmd", _shell(bench)),
            *("--serve-params", "serve.json", "--bench-params", "bench.json"),
            *("--after-bench-cmd", "true", "--num-runs", "2", "--warmup-num-prompts", "4"),
            *("--output-dir", ".", "--experiment-name", "sweep"),
        ],
        PYTHONPATH=str(workplace.folder / "extras"),
    )


def _shell(words: list[str | Path]) -> str:
    return shlex.join(str(word) for word in words)
