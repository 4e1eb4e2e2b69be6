"""What we ask a server of SGLang over HTTP is what the installed release offers."""

import ast
import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from autotune.load.client import Endpoint
from autotune.load.workload import Prompt
from autotune.probe.teacher_protocols import PATHS, read_scores, scoring_body, writing_body
from autotune.records.schema import Continuation

from .real import resolve_on

# What readiness, load, probe and engine ask for, and how.
ASKED = {
    "/health": "GET",
    "/v1/models": "GET",
    "/v1/completions": "POST",
    "/v1/chat/completions": "POST",
    "/server_info": "GET",
    "/flush_cache": "POST",
    f"/{PATHS['generate']}": "POST",
}
CONTINUATION = Continuation(
    prompt="p", prompt_token_ids=(5, 6, 7), token_ids=(8, 9), log_probabilities=(-0.1, -0.2)
)


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


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SGLang's request types be imported without a parser that only its tool calls use."""
    if importlib.util.find_spec("partial_json_parser") is None:
        for part in ("", ".core", ".core.exceptions", ".core.options"):
            monkeypatch.setitem(sys.modules, f"partial_json_parser{part}", MagicMock())


def generate_request(body: bytes) -> Any:
    """What SGLang reads in a body of ``/generate``, past the schema that it checks first."""
    from pydantic import TypeAdapter
    from sglang.srt.entrypoints.api_contract import generate_contract_error
    from sglang.srt.managers.io_struct import GenerateReqInput

    assert generate_contract_error(json.loads(body)) is None
    asked: Any = TypeAdapter(GenerateReqInput).validate_json(body)
    asked.normalize_batch_and_arguments()
    return asked


def sampling(asked: Any) -> Any:
    from sglang.srt.sampling.sampling_params import SamplingParams

    params = SamplingParams(**asked.sampling_params)
    params.normalize(None)
    params.verify(vocab_size=100)
    return params


def test_the_reference_is_asked_to_write_in_their_words(requests: None) -> None:
    asked = generate_request(writing_body("generate", "Hello", model="m", max_tokens=8))
    assert (asked.text, asked.return_logprob, asked.stream) == ("Hello", True, False)
    assert asked.return_prompt_token_ids
    # Of the answer alone.
    assert asked.logprob_start_len == -1
    params = sampling(asked)
    # A temperature of 0 is turned into the choice of the likeliest token.
    assert (params.max_new_tokens, params.top_k) == (8, 1)


def test_a_continuation_is_scored_in_their_words(requests: None) -> None:
    asked = generate_request(scoring_body("generate", CONTINUATION, model="m"))
    assert asked.input_ids == [5, 6, 7, 8, 9]
    assert (asked.return_logprob, asked.logprob_start_len, asked.top_logprobs_num) == (True, 2, 1)
    assert sampling(asked).max_new_tokens == 1


def test_their_log_probabilities_read_as_they_are_meant(requests: None) -> None:
    """SGLang's own code turns what the model computed into what the reply lists."""
    import orjson
    from sglang.srt.managers.scheduler_components.logprob_result_processor import (
        SchedulerLogprobResultProcessor,
    )

    model: Any = SimpleNamespace(vocab_size=10)
    processor: Any = SchedulerLogprobResultProcessor(model_config=model)
    told = SimpleNamespace(top_logprobs_num=1)
    request = SimpleNamespace(
        origin_input_ids=[5, 6, 7, 8, 9],
        logprob_start_len=2,
        is_prefill_only=False,
        # Each position from the start says how likely the next token is; the last position, how
        # likely the one that is sampled.
        temp_input_top_logprobs_val=[[[-0.1], [math.nan], [-0.3]]],
        temp_input_top_logprobs_idx=[[[8], [4], [1]]],
        logprob=told,
    )
    processor._process_input_token_logprobs(request, [-0.1, math.nan, -0.3])
    processor._process_input_top_logprobs(request)
    best = zip(told.input_top_logprobs_val, told.input_top_logprobs_idx, strict=True)
    meta = {
        "input_token_logprobs": [
            (value, token, None)
            for value, token in zip(
                told.input_token_logprobs_val, told.input_token_logprobs_idx, strict=True
            )
        ],
        "input_top_logprobs": [
            None if values is None else [(values[0], tokens[0], None)] for values, tokens in best
        ],
    }
    # 9 is the vocabulary's last token here.
    assert meta["input_token_logprobs"][-1][1] == 0
    # What SGLang writes its replies with.
    reply = orjson.dumps({"meta_info": meta})
    assert b"NaN" not in reply and b"null" in reply
    scores = read_scores("generate", reply, CONTINUATION)
    assert scores.log_probabilities == (-0.1, None)
    assert scores.top_token_ids == (8, None)
