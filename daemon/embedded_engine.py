"""The embedded engine: transformers and PEFT behind the HTTP routes of vLLM, for machines without a GPU.

Runs as a child process, `python -m daemon.embedded_engine --model DIR`. When it serves it writes one JSON line with its
port to standard output; with `--exit-with-stdin` it ends when its standard input closes, that is, when its parent dies.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from daemon.config import LoggingSettings
from daemon.embedded_answer import Answer, Engine
from daemon.embedded_api import (
    ApiError,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    LoadAdapterRequest,
    TokenizeRequest,
    UnloadAdapterRequest,
    model_card,
)
from daemon.embedded_batch import set_threads
from daemon.embedded_worker import Worker
from daemon.logs import set_up

LOGPROBS_MODE = "processed_logprobs"
EXIT_GRACE_S = 5.0


def create_app(engine: Engine) -> FastAPI:
    """Return the ASGI application."""
    app = FastAPI(title="Second Nature's embedded engine", docs_url=None, redoc_url=None, openapi_url=None)
    renderer = engine.renderer

    @app.exception_handler(ApiError)
    async def _api_error(_http: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_http: Request, error: RequestValidationError) -> JSONResponse:
        faults = error.errors()
        shown = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:10])
        param = ".".join(map(str, faults[0]["loc"])) if faults else None
        return ApiError(400, shown, kind=HTTPStatus.BAD_REQUEST.phrase, param=param).response()

    @app.exception_handler(Exception)
    async def _unforeseen(_http: Request, error: Exception) -> JSONResponse:
        return ApiError(500, f"{type(error).__name__}: {error}", kind="InternalServerError").response()

    @app.get("/health")
    async def _health() -> Response:
        return Response(status_code=200 if engine.worker.alive else 503)

    @app.get("/version")
    async def _version() -> dict[str, str]:
        return {"version": version("secondnature"), "engine": "secondnature-embedded", "logprobs_mode": LOGPROBS_MODE}

    @app.get("/metrics")
    async def _metrics() -> PlainTextResponse:
        return PlainTextResponse(exposition(engine.worker), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models")
    async def _models() -> dict[str, Any]:
        base = model_card(engine.name, str(engine.model_dir), max_model_len=engine.max_model_len)
        loaded = [model_card(name, str(path), parent=engine.name) for name, path in engine.adapters.listed()]
        return {"object": "list", "data": [base, *loaded]}

    @app.post("/v1/load_lora_adapter")
    async def _load(request: LoadAdapterRequest) -> PlainTextResponse:
        await engine.adapters.load(request)
        return PlainTextResponse(f"Success: LoRA adapter '{request.lora_name}' added successfully.")

    @app.post("/v1/unload_lora_adapter")
    async def _unload(request: UnloadAdapterRequest) -> PlainTextResponse:
        engine.adapters.unload(request.lora_name)
        return PlainTextResponse(f"Success: LoRA adapter '{request.lora_name}' removed successfully.")

    @app.post("/tokenize")
    async def _tokenize(request: TokenizeRequest) -> dict[str, Any]:
        engine.adapters.slot(request.model)

        def read() -> tuple[list[int], list[str] | None]:
            if request.messages is not None:
                ids = renderer.chat(
                    request.messages,
                    request.tools,
                    add_generation_prompt=request.add_generation_prompt,
                    options=request.chat_template_kwargs,
                    add_special_tokens=bool(request.add_special_tokens),
                )
            else:
                ids = renderer.text(request.prompt or "", add_special_tokens=request.add_special_tokens is not False)
            return ids, renderer.strings(ids) if request.return_token_strs else None

        ids, strings = await engine.aside(read)
        return {"count": len(ids), "max_model_len": engine.max_model_len, "tokens": ids, "token_strs": strings}

    @app.post("/detokenize")
    async def _detokenize(request: DetokenizeRequest) -> dict[str, str]:
        engine.adapters.slot(request.model)
        if max(request.tokens, default=0) >= renderer.vocabulary:
            raise ApiError(400, f"token id {max(request.tokens)} is out of vocabulary", param="tokens")
        return {"prompt": await engine.aside(lambda: renderer.decode(request.tokens))}

    @app.post("/v1/completions")
    async def _complete(request: CompletionRequest, http: Request) -> Response:
        given = request.prompt
        if isinstance(given, str):
            prompt = await engine.aside(lambda: renderer.text(given, add_special_tokens=request.add_special_tokens))
        else:
            prompt = given
        generation = engine.start(request, prompt, max_tokens=request.max_tokens, logprobs=request.logprobs)
        return await Answer(engine, request, generation, prompt).respond(http)

    @app.post("/v1/chat/completions")
    async def _chat(request: ChatRequest, http: Request) -> Response:
        ids = await engine.aside(
            lambda: renderer.chat(
                request.messages,
                request.tools,
                add_generation_prompt=request.add_generation_prompt,
                options=request.chat_template_kwargs,
            )
        )
        limit = request.max_completion_tokens or request.max_tokens
        logprobs = request.top_logprobs if request.logprobs else None
        generation = engine.start(request, ids, max_tokens=limit, logprobs=logprobs)
        return await Answer(engine, request, generation, ids).respond(http)

    return app


def exposition(worker: Worker) -> str:
    """Return the engine's metrics in Prometheus' text format."""
    figures = [
        ("running_requests", "gauge", "Requests in the batch.", worker.running),
        ("waiting_requests", "gauge", "Requests not yet in the batch.", worker.waiting),
        ("prompt_tokens_total", "counter", "Prompt tokens read.", worker.prompt_tokens),
        ("generated_tokens_total", "counter", "Tokens sampled.", worker.generated_tokens),
    ]
    lines: list[str] = []
    for name, kind, told, value in figures:
        full = f"secondnature_engine_{name}"
        lines += [f"# HELP {full} {told}", f"# TYPE {full} {kind}", f"{full} {value}"]
    return "\n".join([*lines, ""])


class _Server(uvicorn.Server):
    """Says on standard output when it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            sys.stdout.write(json.dumps({"ready": True, "port": sockets[0].getsockname()[1]}) + "\n")
            sys.stdout.flush()


def _exit_with_stdin(server: uvicorn.Server) -> None:
    """End the process when standard input closes: the parent's end closes however the parent dies."""
    while os.read(0, 4096):
        pass
    server.should_exit = True
    time.sleep(EXIT_GRACE_S)
    os._exit(1)


def main() -> None:
    """Run the engine until it is told to stop."""
    parser = argparse.ArgumentParser(prog="python -m daemon.embedded_engine", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of weights (safetensors) and tokenizer")
    parser.add_argument("--served-model-name", default="base")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--max-loras", type=int, default=8)
    parser.add_argument("--max-lora-rank", type=int, default=64)
    parser.add_argument("--max-model-len", type=int, default=0, help="0 takes the model's own")
    parser.add_argument("--max-batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 leaves the choice to torch")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input closes")
    options = parser.parse_args()
    if not (options.model / "config.json").is_file():
        parser.error(f"{options.model} has no config.json: --model wants a folder with a model's weights and tokenizer")
    set_up(LoggingSettings())
    set_threads(options.threads)
    engine = Engine(
        options.model,
        name=options.served_model_name,
        max_model_len=options.max_model_len,
        max_batch=options.max_batch,
        max_loras=options.max_loras,
        max_rank=options.max_lora_rank,
    )
    config = uvicorn.Config(create_app(engine), host=options.host, port=options.port, log_config=None, access_log=False)
    server = _Server(config)
    if options.exit_with_stdin:
        threading.Thread(target=_exit_with_stdin, args=(server,), daemon=True).start()
    server.run(sockets=[config.bind_socket()])
    engine.worker.close()


if __name__ == "__main__":
    main()
