"""An endpoint as a TextModel: a scripted server that keeps the contract or breaks it, and a real engine."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from chat_server import Body, chat_server, said
from text_model_contract import hold

from daemon import endpoint
from daemon.embedded_process import EmbeddedEngine
from daemon.endpoint import Endpoint
from harness_adapters.errors import EngineError
from harness_adapters.trace import Message
from hinting.fake_model import FakeTextModel

KEY = "sk-hunter2"
HI: Sequence[Message] = ({"role": "user", "content": "Hi"},)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "RETRY_AFTER_S", 0.0)


def echo(messages: Sequence[Message], seed: int | None) -> str:
    """Something that differs with what is asked."""
    return hashlib.sha256(repr((messages, seed)).encode()).hexdigest()


async def test_the_fake_keeps_the_contract() -> None:
    await hold(FakeTextModel(echo))


async def test_an_endpoint_keeps_the_contract() -> None:
    model = FakeTextModel(echo)

    async def answer(body: Body) -> web.Response:
        asked: dict[str, Any] = {name: body.get(name) for name in ("temperature", "max_tokens", "seed")}
        try:
            return said(await model.answer(body["messages"], **asked))
        except EngineError as error:
            return web.json_response({"error": {"message": str(error)}}, status=error.status or 500)

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        await hold(Endpoint(server.url, "any", session))


async def test_an_engine_keeps_the_contract(tiny_base: Path) -> None:
    child = await EmbeddedEngine.start(tiny_base, threads=1)
    try:
        async with aiohttp.ClientSession() as session:
            await hold(Endpoint(child.base_url, "base", session))
    finally:
        await child.stop()


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        ("", "/v1"),
        ("/", "/v1"),
        ("/v1", "/v1"),
        ("/v1/", "/v1"),
        ("/api", "/api/v1"),
        ("/paas/v4", "/paas/v4"),
        ("/v1beta/openai", "/v1beta/openai"),
    ],
)
async def test_an_address_is_good_with_or_without_its_version(base: str, asked: str) -> None:
    async def answer(_body: Body) -> web.Response:
        return said("Hello")

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        model = Endpoint(server.url + base, "small", session, api_key=f"{KEY}\n")
        assert await model.answer(HI, temperature=0.5, max_tokens=9) == "Hello"
        assert server.paths == [f"{asked}/chat/completions"]
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
        assert server.bodies == [{"model": "small", "messages": list(HI), "temperature": 0.5, "max_tokens": 9}]
        await Endpoint(server.url, "small", session).answer(HI, temperature=0.5, max_tokens=9)
        assert "authorization" not in server.headers[1]


@pytest.mark.parametrize(
    ("statuses", "tries"), [((503, 200), 2), ((429, 429), 2), ((503, 400), 2), ((400,), 1), ((401,), 1), ((500,), 1)]
)
async def test_an_error_that_may_pass_is_waited_out_once(statuses: Sequence[int], tries: int) -> None:
    left = list(statuses)

    async def answer(_body: Body) -> web.Response:
        status = left.pop(0)
        refused = {"error": {"message": f"no, {KEY} is not known", "type": "x"}}
        return said("Hello") if status == 200 else web.json_response(refused, status=status)

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        model = Endpoint(server.url, "small", session, api_key=KEY)
        if statuses[-1] == 200:
            assert await model.answer(HI, temperature=0, max_tokens=9) == "Hello"
        else:
            with pytest.raises(EngineError, match=r"no, \*\*\* is not known") as caught:
                await model.answer(HI, temperature=0, max_tokens=9)
            assert caught.value.status == statuses[-1]
            assert KEY not in str(caught.value)
        assert len(server.bodies) == tries


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"not JSON", b"null", b"7", b"[]", b"{}", b'{"choices": []}', b'{"choices": [7]}', b"[" * 5000),
        b'{"choices": [{"message": 7}]}',
        b'{"error": "sk-hunter2 has no money left"}',
    ],
)
async def test_an_answer_of_another_shape_is_an_error(body: bytes) -> None:
    async def answer(_body: Body) -> web.Response:
        return web.Response(body=body)

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match="something else than a chat completion") as caught:
            await Endpoint(server.url, "small", session, api_key=KEY).answer(HI, temperature=0, max_tokens=9)
        assert caught.value.status == 200
        assert KEY not in str(caught.value)
        assert ("no money left" in str(caught.value)) == (b"money" in body)


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}], "Hel\nlo")]
)
async def test_an_answer_may_come_in_parts_or_be_empty(content: object, text: str) -> None:
    async def answer(_body: Body) -> web.Response:
        return web.json_response({"choices": [{"message": {"content": content}}]})

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        assert await Endpoint(server.url, "small", session).answer(HI, temperature=0, max_tokens=9) == text


async def test_a_redirect_is_not_followed() -> None:
    async def answer(_body: Body) -> web.Response:
        return web.Response(status=307, headers={"location": "/elsewhere"})

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match="answered 307"):
            await Endpoint(server.url, "small", session).answer(HI, temperature=0, max_tokens=9)
        assert server.paths == ["/v1/chat/completions"]


async def test_an_endpoint_that_takes_too_long_is_not_asked_again() -> None:
    async def answer(_body: Body) -> web.Response:
        await asyncio.Event().wait()
        return said("")

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match=r"within 0\.2 s") as caught:
            await Endpoint(server.url, "small", session, timeout_s=0.2).answer(HI, temperature=0, max_tokens=9)
        assert caught.value.passing
        assert len(server.bodies) == 1


async def test_an_endpoint_that_is_away_is_named() -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match=r"127\.0\.0\.1:9.*see whether it runs") as caught:
            await Endpoint("http://127.0.0.1:9", "small", session).answer(HI, temperature=0, max_tokens=9)
        assert caught.value.status is None


async def test_a_key_that_no_header_can_carry_is_not_shown() -> None:
    async def answer(_body: Body) -> web.Response:
        return said("")

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineError) as caught:
            await Endpoint(server.url, "small", session, api_key="hunter2\nhunter3").answer(
                HI, temperature=0, max_tokens=9
            )
        assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("status", [200, 503])
async def test_an_answer_without_end_is_not_read_to_it(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_ANSWER_BYTES", 1000)

    async def answer(_body: Body) -> web.Response:
        return web.Response(body=b" " * 1_000_000, status=status)

    async with chat_server(answer) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineError, match="more than 1000 bytes") as caught:
            await Endpoint(server.url, "small", session).answer(HI, temperature=0, max_tokens=9)
        assert caught.value.status == status
