"""What we ask a server of SGLang over HTTP is what the installed release offers."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from autotune.load.client import Endpoint
from autotune.load.workload import Prompt

from .real import resolve_on

# What readiness, load, probe and engine ask for, and how.
ASKED = {
    "/health": "GET",
    "/v1/models": "GET",
    "/v1/completions": "POST",
    "/v1/chat/completions": "POST",
    "/server_info": "GET",
    "/flush_cache": "POST",
}


def routes() -> dict[str, set[str]]:
    """The paths of SGLang's HTTP server and their methods, read from its source."""
    import sglang

    source = Path(sglang.__file__).parent / "srt" / "entrypoints" / "http_server.py"
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Attribute(attr="get" | "post" | "api_route" as kind),
                    args=[ast.Constant(value=str(path)), *_],
                    keywords=keywords,
                ):
                    named = [ast.unparse(word.value) for word in keywords if word.arg == "methods"]
                    methods = named[0] if named else kind.upper()
                    found.setdefault(path, set()).update(re.findall("[A-Z]+", methods))
    return found


@pytest.mark.parametrize("path", ASKED)
def test_the_server_has_the_path(path: str) -> None:
    assert ASKED[path] in routes()[path]


def test_the_information_tells_the_backend(checkpoint: Path) -> None:
    """/server_info is made of this dictionary."""
    server_args: Any = resolve_on("sm100", checkpoint, quantization="modelopt_fp4")
    information = server_args.resolved_dict()
    assert information["moe_runner_backend"] == "flashinfer_trtllm_routed"
    assert information["moe_a2a_backend"] == "none"


@pytest.mark.parametrize("prompt", [Prompt(token_ids=[1, 2, 3]), Prompt(text="Hello")])
def test_a_request_of_ours_is_one_of_theirs(prompt: Prompt) -> None:
    from sglang.srt.entrypoints.openai.protocol import CompletionRequest

    endpoint = Endpoint(base_url="http://127.0.0.1:1", model="m", ignore_eos=True)
    asked = CompletionRequest.model_validate_json(endpoint.body(prompt, max_tokens=8))
    assert asked.prompt == (prompt.text if prompt.token_ids is None else prompt.token_ids)
    assert (asked.max_tokens, asked.temperature, asked.stream) == (8, 0, True)
    assert asked.ignore_eos
    assert asked.stream_options is not None and asked.stream_options.include_usage
