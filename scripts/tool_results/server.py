"""A stand-in for a server that benchmarks ask: the tests' fake one with a few more addresses.

    python server.py --port 8000 --model NAME --token-s 0.002 [--server-info FILE] [--fails N]

``--server-info`` is answered as SGLang's ``/server_info``; of ``--fails`` requests each Nth is
refused. Further flags are ignored, as if they were an engine's.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.integration.fake_server import Server, pieces, send_json


class StandIn(Server):
    """Answers completions, chats and SGLang's own ``/generate``, streamed or whole."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(argparse.Namespace(backend="good", **vars(options)))
        self.server_info = (
            json.loads(options.server_info.read_text()) if options.server_info else None
        )
        self.fails: int = options.fails
        self.asked = 0

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        path = path.partition("?")[0]
        if path == "/server_info" and self.server_info is not None:
            await send_json(writer, self.server_info)
        elif path == "/get_model_info":
            await send_json(writer, {"model_path": self.model})
        elif path in ("/v1/completions", "/v1/chat/completions"):
            await self._ask(path, body, writer)
        else:
            await super()._answer(path, body, writer)

    async def _ask(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        if self.fails and self.asked % self.fails == 0:
            await send_json(writer, {"error": "busy"}, status="503 Service Unavailable")
            return
        count = body.get("max_tokens") or body.get("max_completion_tokens") or 16
        if "messages" in body:
            text = "\n".join(_text(message) for message in body["messages"])
            body = body | {"prompt": text}
        body = body | {"max_tokens": count}
        if body.get("stream"):
            self.chat = "messages" in body
            await self._stream(body, writer)
            return
        await asyncio.sleep(self.token_s * count)
        text = "".join(pieces(self.backend, body["prompt"], count))
        said = {"message": {"content": text}} if "messages" in body else {"text": text}
        await send_json(
            writer,
            {"choices": [said | {"finish_reason": "length"}], "usage": _usage(body, count)},
        )

    async def _events(self, body: dict[str, Any]):  # type: ignore[no-untyped-def]
        count = body["max_tokens"]
        # AIPerf passes over what doesn't name its kind.
        kind = "chat.completion.chunk" if "messages" in body else "text_completion"
        for number, text in enumerate(pieces(self.backend, body["prompt"], count), start=1):
            await asyncio.sleep(self.token_s)
            said: dict[str, Any] = {"text": text}
            if "messages" in body:
                said = {"delta": {"content": text}}
            said |= {"index": 0, "finish_reason": "length" if number == count else None}
            yield json.dumps({"object": kind, "model": self.model, "choices": [said]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield json.dumps({"model": self.model, "choices": [], "usage": _usage(body, count)})
        yield "[DONE]"


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def _usage(body: dict[str, Any], count: int) -> dict[str, int]:
    prompt = body["prompt"]
    given = len(prompt) if isinstance(prompt, list) else max(1, len(prompt) // 4)
    return {
        "prompt_tokens": given,
        "completion_tokens": count,
        "total_tokens": given + count,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", required=True)
    parser.add_argument("--token-s", type=float, default=0.002)
    parser.add_argument("--server-info", type=Path)
    parser.add_argument("--fails", type=int, default=0)
    options, _ = parser.parse_known_args()
    asyncio.run(StandIn(options).serve(options.port))


if __name__ == "__main__":
    main()
