"""A server in this process that scores text both ways, from a model made of arithmetic."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from autotune.load.client import Endpoint
from autotune.records.schema import Continuation

VOCABULARY = 40
MODEL = "toy"
Body = dict[str, Any]
Mangle = Callable[[Body], Any]


def encode(text: str) -> list[int]:
    """Token ids of a text, behind one that begins every text."""
    return [1, *(2 + ord(letter) % (VOCABULARY - 2) for letter in text)]


def distribution(prefix: list[int], *, wrong: float = 0.0) -> list[float]:
    """Log-probabilities of the next token; ``wrong`` turns them into another model's."""
    seed = sum((1 + place) * token for place, token in enumerate(prefix))
    logits = [
        3 * math.sin(seed * (1 + token)) + wrong * math.cos(seed + token)
        for token in range(VOCABULARY)
    ]
    total = math.log(sum(map(math.exp, logits)))
    return [logit - total for logit in logits]


def best(logs: list[float]) -> int:
    """The most likely token."""
    return max(range(len(logs)), key=logs.__getitem__)


def greedy(prefix: list[int], tokens: int) -> list[int]:
    """The model's own answer."""
    written = list(prefix)
    for _ in range(tokens):
        written.append(best(distribution(written)))
    return written[len(prefix) :]


def continuation(prompt: str = "Hello", tokens: int = 6) -> Continuation:
    """What the model itself writes after a text; its log-probabilities are left at 0."""
    ids = encode(prompt)
    return Continuation(
        prompt=prompt,
        prompt_token_ids=tuple(ids),
        token_ids=tuple(greedy(ids, tokens)),
        log_probabilities=(0.0,) * tokens,
    )


class Toy:
    """Answers as SGLang's /generate and vLLM's /v1/completions do; counts what it was asked.

    ``mangle`` takes an answer and returns what is sent instead: another object, or raw bytes.
    """

    def __init__(
        self,
        *,
        wrong: float = 0.0,
        mangle: Mangle | None = None,
        status: int = 200,
        hang: bool = False,
    ) -> None:
        self.wrong = wrong
        self.mangle = mangle
        self.status = status
        self.hang = hang
        self.asked: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(60 if self.hang else 0.005)
        finally:
            self.in_flight -= 1
        reply = self.generate(body) if request.path == "/generate" else self.completion(body)
        sent: Any = reply if self.mangle is None else self.mangle(reply)
        data = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        return web.Response(body=data, status=self.status, content_type="application/json")

    def generate(self, body: Body) -> Body:
        assert body["return_logprob"] is True
        prompt = body["input_ids"] if "input_ids" in body else encode(body["text"])
        rows = self._rows(prompt, body["sampling_params"]["max_new_tokens"])
        start = body.get("logprob_start_len", -1)
        start = len(prompt) if start == -1 else start
        given, written = rows[start : len(prompt)], rows[len(prompt) :]
        meta: Body = {"output_token_logprobs": [[logs[t], t, None] for logs, t in written]}
        told = [[logs[token], _clipped(token), None] for logs, token in given]
        top = [[[logs[best(logs)], best(logs), None]] for logs, _ in given]
        if told:
            told[0][0] = None
        meta["input_token_logprobs"] = told
        if body.get("top_logprobs_num"):
            meta["input_top_logprobs"] = [None, *top[1:]]
        reply: Body = {"output_ids": [token for _, token in written], "meta_info": meta}
        if body.get("return_prompt_token_ids"):
            reply["prompt_token_ids"] = prompt
        return reply

    def completion(self, body: Body) -> Body:
        assert body["model"] == MODEL and body["return_tokens_as_token_ids"] is True
        prompt = body["prompt"]
        prompt = encode(prompt) if isinstance(prompt, str) else prompt
        rows = self._rows(prompt, body["max_tokens"])[0 if body.get("echo") else len(prompt) :]
        logprobs: Body = {
            "tokens": [f"token_id:{token}" for _, token in rows],
            "token_logprobs": [logs[token] for logs, token in rows],
            "top_logprobs": [
                {f"token_id:{name}": logs[name] for name in (token, best(logs))}
                for logs, token in rows
            ],
        }
        if body.get("echo"):
            logprobs["token_logprobs"][0] = logprobs["top_logprobs"][0] = None
        return {"choices": [{"logprobs": logprobs, "prompt_token_ids": prompt}]}

    def _rows(self, prompt: list[int], more: int) -> list[tuple[list[float], int]]:
        tokens = [*prompt, *greedy(prompt, more)]
        return [
            (distribution(tokens[:place], wrong=self.wrong), token)
            for place, token in enumerate(tokens)
        ]


def _clipped(token: int) -> int:
    """SGLang tells the vocabulary's last token as 0."""
    return token if token < VOCABULARY - 1 else 0


@asynccontextmanager
async def serving(toy: Toy) -> AsyncIterator[Endpoint]:
    """Serve on a free port of this machine."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/generate", toy.answer)
    app.router.add_post("/v1/completions", toy.answer)
    # A hung answer isn't waited for.
    runner = web.AppRunner(app, shutdown_timeout=0.01, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield Endpoint(
            base_url=f"http://{host}:{port}/v1",
            model=MODEL,
            headers={"Authorization": "Bearer key"},
            extra_body={"temperature": 0.7, "min_p": 1},
        )
    finally:
        await runner.cleanup()
