"""``guidellm``: reports of the present layout and of the two before it.

``GUIDELLM_VENVS`` names a folder with an environment for each of `VERSIONS`, made by hand as
``python3 -m venv 0.8.1 && 0.8.1/bin/pip install guidellm==0.8.1`` and so on: each needs PyTorch.
A report holds tracebacks of failed requests, so that it runs from a name that any Linux may have.
"""

import json
import os
import sys
from pathlib import Path

from tool_results.workplace import Workplace

VERSIONS = ("0.8.1", "0.5.4", "0.3.1")
_PROGRAMS = Path("/dev/shm/guidellm-results")
_DATA = {"prompt_tokens": 32, "output_tokens": 8}


def write(workplace: Workplace) -> None:
    """Run each version in each way that says something else in its report."""
    new, older, oldest = _link_programs()
    with workplace.serving() as url:
        _run(
            workplace,
            new,
            url,
            "concurrent.json",
            *("--label", "backend=triton", "--override", "profile.streams", "1,4"),
            profile={"kind": "concurrent", "streams": 1},
        )
        warm_up = {"percent": 0.25, "mode": "requests"}
        _run(
            workplace,
            new,
            url,
            "warm_up.json",
            profile={"kind": "concurrent", "streams": 8, "warmup": warm_up},
            requests=32,
        )
        _run(workplace, new, url, "rate.json", profile={"kind": "constant", "rate": [20]})
        common = ("--target", url, "--rate-type", "concurrent", "--rate", "1,4")
        common += ("--max-requests", "8", "--processor", "tokenizer", "--data", json.dumps(_DATA))
        quiet = ("--disable-console", "--sample-requests", "0")
        text = ("--request-type", "text_completions")
        path = ("--output-path", "layout_1.json")
        workplace.run([*older, "benchmark", "run", *common, *text, *quiet, *path])
        quiet = ("--disable-progress", "--disable-console-outputs", "--output-sampling", "1")
        path = ("--output-path", "without_layout.json")
        workplace.run([*oldest, "benchmark", "run", *common, *quiet, *path])
        workplace.keep("layout_1.json", "without_layout.json")
    with workplace.serving("--fails", "5") as url:
        profile = {"kind": "concurrent", "streams": 4}
        _run(workplace, new, url, "failures.json", profile=profile, requests=10)
    _PROGRAMS.unlink()


def _link_programs() -> list[tuple[Path, str, str]]:
    """The start of a command line of each version."""
    given = os.environ.get("GUIDELLM_VENVS")
    if given is None:
        sys.exit(f"{__doc__}")
    _PROGRAMS.unlink(missing_ok=True)
    _PROGRAMS.symlink_to(Path(given).resolve())
    return [(_PROGRAMS / version / "bin/python", "-m", "guidellm") for version in VERSIONS]


def _run(
    workplace: Workplace,
    program: tuple[Path, str, str],
    url: str,
    file: str,
    *flags: str,
    profile: dict[str, object],
    requests: int = 8,
) -> None:
    data = ",".join(f"{key}={value}" for key, value in _DATA.items())
    workplace.run(
        [
            *(*program, "run", "--disable-console"),
            *("--backend", f"kind=openai_http,target={url},request_format=/v1/completions"),
            *("--profile", json.dumps(profile)),
            *("--constraint", f"kind=max_requests,count={requests}"),
            *("--tokenizer", "kind=hf_auto,model=tokenizer"),
            *("--data", f"kind=synthetic_text,{data}"),
            *("--metrics", "kind=generative,sample_size=0", "--output", f"kind=json,path={file}"),
            *flags,
        ]
    )
    workplace.keep(file)
