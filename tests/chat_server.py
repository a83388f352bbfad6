"""A scripted OpenAI-compatible endpoint: a real server whose answers a test gives."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Body = dict[str, Any]


@dataclass
class ChatServer:
    """Where it is and what it was asked."""

    url: str = ""
    bodies: list[Body] = field(default_factory=list[Body])
    paths: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


def said(text: str) -> web.Response:
    """A chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return web.json_response({"object": "chat.completion", "choices": [choice]})


@asynccontextmanager
async def chat_server(answer: Callable[[Body], Awaitable[web.Response]]) -> AsyncGenerator[ChatServer]:
    """Serve `answer` on every route of a free port."""
    server = ChatServer()

    async def handle(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        server.bodies.append(body)
        server.paths.append(request.path)
        server.headers.append({name.lower(): value for name, value in request.headers.items()})
        return await answer(body)

    app = web.Application()
    app.router.add_post("/{any:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
