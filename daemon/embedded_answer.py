"""From a request to its answer: one generation of the embedded engine, whole or streamed, in vLLM's shapes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from daemon.embedded_adapters import Adapters
from daemon.embedded_api import ApiError, ChatRequest, CompletionRequest, Generate, ending, new_id, usage
from daemon.embedded_batch import BatchDecoder, load_tokenizer
from daemon.embedded_render import Renderer
from daemon.embedded_sampling import SampleParams, TokenScore
from daemon.embedded_worker import Delta, Generation, Worker

CLIENT_GONE = 499

T = TypeVar("T")


class Engine:
    """What the routes share: the model's name and limits, its renderer, worker and adapters."""

    def __init__(
        self, model_dir: Path, *, name: str, max_model_len: int, max_batch: int, max_loras: int, max_rank: int
    ):
        tokenizer = load_tokenizer(model_dir)
        self.decoder = BatchDecoder(model_dir)
        self.name, self.model_dir = name, model_dir
        self.max_model_len = min(max_model_len or self.decoder.max_positions, self.decoder.max_positions)
        self.renderer = Renderer(tokenizer, max_model_len=self.max_model_len)
        self._reading = asyncio.Lock()
        self.worker = Worker(self.decoder, tokenizer, max_batch=max_batch)
        self.adapters = Adapters(self.worker, base_name=name, max_loras=max_loras, max_rank=max_rank)

    async def aside(self, work: Callable[[], T]) -> T:
        """Return what `work`, which reads or writes text of any length, makes in a thread; streams go on meanwhile."""
        # One at a time: tokenising takes many times the memory of its text.
        async with self._reading:
            return await asyncio.to_thread(work)

    def start(
        self, request: Generate, prompt: list[int], *, max_tokens: int | None, logprobs: int | None
    ) -> Generation:
        """Queue a generation. Raises ApiError for a prompt the model cannot take."""
        slot = self.adapters.slot(request.model)
        room = self.max_model_len - len(prompt)
        if not prompt:
            raise ApiError(400, "the prompt is empty: send at least one token", param="prompt")
        if max(prompt) >= self.renderer.vocabulary:
            raise ApiError(400, f"token id {max(prompt)} is out of vocabulary", param="prompt")
        if room < (max_tokens or 1):
            raise ApiError(
                400,
                f"this model's context length is {self.max_model_len} tokens: the prompt has {len(prompt)} and"
                f" {max_tokens or 1} more were asked for; shorten the prompt or lower max_tokens",
                param="max_tokens",
            )
        params = SampleParams(
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=max(request.top_k, 0),
            logprobs=logprobs,
            prompt_logprobs=request.prompt_logprobs,
            seed=request.seed,
        )
        eos = frozenset[int]() if request.ignore_eos else self.decoder.eos_ids
        return self.worker.submit(
            prompt,
            params,
            slot=slot,
            max_tokens=max_tokens or room,
            stop=request.stops(),
            stop_ids=eos | frozenset(request.stop_token_ids or ()),
        )


async def deltas(generation: Generation) -> AsyncIterator[Delta]:
    """Yield a generation's steps. Leaving early takes its row out of the batch."""
    try:
        while True:
            event = await generation.events.get()
            if isinstance(event, Exception):
                raise ApiError(500, f"decoding failed: {event}", kind="InternalServerError")
            yield event
            if event.finish_reason:
                return
    finally:
        generation.cancelled = True


async def collect(generation: Generation, http: Request) -> list[Delta] | None:
    """Return all steps of a generation, or None, having cancelled it, when the client has gone."""

    async def gone() -> None:
        while (await http.receive())["type"] != "http.disconnect":
            pass

    async def everything() -> list[Delta]:
        return [delta async for delta in deltas(generation)]

    done, leaving = asyncio.create_task(everything()), asyncio.create_task(gone())
    try:
        await asyncio.wait({done, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await done if done.done() else None
    finally:
        generation.cancelled = True
        for task in (done, leaving):
            task.cancel()
        await asyncio.gather(done, leaving, return_exceptions=True)


class Answer:
    """One answer in the making: the shape of a chat or of a plain completion, whole or streamed."""

    def __init__(
        self, engine: Engine, request: ChatRequest | CompletionRequest, generation: Generation, prompt: list[int]
    ) -> None:
        self._engine, self._request, self._generation, self._prompt = engine, request, generation, prompt
        self._chat = isinstance(request, ChatRequest)
        self._head = {
            "id": new_id("chatcmpl" if self._chat else "cmpl"),
            "object": "chat.completion" if self._chat else "text_completion",
            "created": int(time.time()),
            "model": request.model or engine.name,
        }

    async def respond(self, http: Request) -> Response:
        """Return the HTTP answer."""
        if self._request.stream:
            return StreamingResponse(self._events(), media_type="text/event-stream")
        steps = await collect(self._generation, http)
        return Response(status_code=CLIENT_GONE) if steps is None else JSONResponse(self._whole(steps))

    def _whole(self, steps: list[Delta]) -> dict[str, Any]:
        text = "".join(step.text for step in steps)
        scores = [step.score for step in steps]
        ids = self._prompt if self._request.return_token_ids else None
        prompt_logprobs = self._engine.renderer.prompt_logprobs(steps[0].prompt_scores)
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice: dict[str, Any] = {"index": 0, **content, "logprobs": self._logprobs(scores), **ending(steps[-1])}
        choice["token_ids"] = [score.id for score in scores] if self._request.return_token_ids else None
        of_prompt = {"prompt_token_ids": ids, "prompt_logprobs": prompt_logprobs}
        body: dict[str, Any] = {**self._head, "choices": [choice], "usage": usage(len(self._prompt), len(steps))}
        if self._chat:
            return {**body, **of_prompt}
        choice.update(of_prompt)
        return body

    async def _events(self) -> AsyncIterator[bytes]:
        if self._chat:
            self._head["object"] = "chat.completion.chunk"
        with_ids, count, offset = self._request.return_token_ids, 0, 0
        try:
            if self._chat:
                first = {
                    "index": 0,
                    "delta": {"role": "assistant", "content": ""},
                    "logprobs": None,
                    "finish_reason": None,
                }
                yield _event(
                    {**self._head, "choices": [first], **({"prompt_token_ids": self._prompt} if with_ids else {})}
                )
            async for delta in deltas(self._generation):
                choice: dict[str, Any] = {
                    "index": 0,
                    "logprobs": self._logprobs([delta.score], offset),
                    **ending(delta),
                }
                choice.update({"delta": {"content": delta.text}} if self._chat else {"text": delta.text})
                if with_ids:
                    choice["token_ids"] = [delta.score.id]
                    if not self._chat:
                        choice["prompt_token_ids"] = None if count else self._prompt
                count, offset = count + 1, offset + len(delta.text)
                yield _event({**self._head, "choices": [choice]})
            if self._request.stream_options and self._request.stream_options.include_usage:
                yield _event({**self._head, "choices": [], "usage": usage(len(self._prompt), count)})
        except ApiError as error:
            yield _event(error.body())
        yield b"data: [DONE]\n\n"

    def _logprobs(self, scores: list[TokenScore], offset: int = 0) -> dict[str, Any] | None:
        if isinstance(self._request, ChatRequest):
            return self._engine.renderer.chat_logprobs(scores) if self._request.logprobs else None
        return None if self._request.logprobs is None else self._engine.renderer.completion_logprobs(scores, offset)


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"
