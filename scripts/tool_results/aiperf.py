"""``aiperf profile``: a run, a sweep over concurrencies, repetitions, failures and an open loop.

``AIPERF_VENV`` names an environment with it: ``python3 -m venv V && V/bin/pip install
aiperf==0.13.0``. Its results name the folder they were written to, so that it writes to one that
any Linux may have (`_RESULTS`).
"""

import os
import shutil
import sys
from pathlib import Path

from tool_results.workplace import MODEL, Workplace

_RESULTS = Path("/dev/shm/aiperf-results")
_RUN = "profile_export_aiperf"
_COMMIT = "0" * 40


def write(workplace: Workplace) -> None:
    """Run it in each way that says something else in its files."""
    given = os.environ.get("AIPERF_VENV")
    if given is None:
        sys.exit(f"{__doc__}")
    program = Path(given) / "bin/aiperf"
    _cache_tokenizer(workplace)
    shutil.rmtree(_RESULTS, ignore_errors=True)
    server_counts = "--use-server-token-count"
    with workplace.serving() as url:
        warm_up = ("--warmup-request-count", "8")
        _profile(workplace, program, url, "client_tokens", *warm_up, concurrency="4")
        _profile(workplace, program, url, "enough", server_counts, concurrency="8", requests=304)
        _profile(workplace, program, url, "sweep", server_counts, concurrency="1,4,8")
        twice = ("--num-profile-runs", "2")
        _profile(workplace, program, url, "repeats", server_counts, *twice, concurrency="4")
        _profile(workplace, program, url, "rate", server_counts, "--request-rate", "40")
    with workplace.serving("--fails", "5") as url:
        _profile(workplace, program, url, "failures", server_counts, concurrency="4")
    shutil.rmtree(_RESULTS)


def _cache_tokenizer(workplace: Workplace) -> None:
    """Put the tokenizer where the hub's client looks for it: offline it takes no other folder."""
    hub = workplace.folder / "hub" / f"models--{MODEL.replace('/', '--')}"
    shutil.copytree(workplace.folder / "tokenizer", hub / "snapshots" / _COMMIT)
    (hub / "refs").mkdir()
    (hub / "refs/main").write_text(_COMMIT)


def _profile(
    workplace: Workplace,
    program: Path,
    url: str,
    name: str,
    *flags: str,
    concurrency: str | None = None,
    requests: int = 32,
) -> None:
    workplace.run(
        [
            *(program, "profile", "--model", MODEL, "--url", url, "--ui", "none"),
            *("--endpoint-type", "completions", "--streaming", "--extra-inputs", "ignore_eos:true"),
            *("--synthetic-input-tokens-mean", "32", "--output-tokens-mean", "8"),
            *("--request-count", str(requests), "--random-seed", "1"),
            *("--export-level", "summary", "--artifact-dir", _RESULTS / name),
            *(() if concurrency is None else ("--concurrency", concurrency)),
            *flags,
        ],
        HF_HUB_CACHE=str(workplace.folder / "hub"),
    )
    _keep_exports(workplace, name)


def _keep_exports(workplace: Workplace, name: str) -> None:
    """Keep what it exports of runs and of a sweep, where it lies, and no logs or copies of input.

    Averages over runs (``aggregate``) hold each figure six times over and are left.
    """
    for path in sorted((_RESULTS / name).rglob(f"{_RUN}*")):
        inside = path.relative_to(_RESULTS)
        if "phases" in inside.parts or "aggregate" in inside.parts:
            continue
        (workplace.folder / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, workplace.folder / inside)
    workplace.keep(name)
