import asyncio
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from proxy_world import TIMEOUT_S, settings, until, world

from daemon.capture import Recorder
from daemon.encoding import MAX_DEPTH
from daemon.log import StoredRecord
from daemon.sqlite_log import SqliteLog
from daemon.tail import parse
from harness_adapters.exchange import Exchange, Status

ASK: dict[str, Any] = {"model": "helpdesk", "messages": [{"role": "user", "content": "How do I reset it?"}]}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "helpdesk@v3",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": 'Hold it. "token_ids":[1]', "x": 1.50},
            "finish_reason": "stop",
            "token_ids": [7, 8, 9],
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
    "prompt_token_ids": [1, 2, 3],
}
CHUNKS = [
    '{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"helpdesk@v3","choices":[{"index":0,"delta":'
    '{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":[1, 2, 3]}',
    '{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"helpdesk@v3","choices":[{"index":0,"delta":'
    '{"content":"Hold \\"token_ids\\":[4] é"},"finish_reason":null,"token_ids":[7,8]}]}',
    '{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"helpdesk@v3","choices":[{"token_ids":[9],"index":0,'
    '"delta":{},"finish_reason":"stop"}]}',
]
STRIPPED = [
    CHUNKS[0].replace(',"prompt_token_ids":[1, 2, 3]', ""),
    CHUNKS[1].replace(',"token_ids":[7,8]', ""),
    CHUNKS[2].replace('"token_ids":[9],', ""),
]


def sse(*data: str) -> bytes:
    return b"".join(f"data: {text}\n\n".encode() for text in data)


async def whole(request: web.Request) -> web.StreamResponse:
    return web.json_response(ANSWER)


async def event_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def streamed(request: web.Request) -> web.StreamResponse:
    response = await event_stream(request)
    for data in (*CHUNKS, "[DONE]"):
        await response.write(sse(data))
    await response.write_eof()
    return response


async def test_public_name_becomes_the_serving_version_and_the_header_names_it():
    async with world(whole) as w:
        async with w.post(ASK) as response:
            body = await response.json()
        assert response.status == 200
        assert response.headers["x-secondnature-version"] == "helpdesk@v3" == body["model"]
        assert w.upstream.bodies == [{**ASK, "model": "helpdesk@v3", "return_token_ids": True}]


async def test_members_the_proxy_asked_for_are_removed_and_nothing_else():
    async with world(whole) as w:
        async with w.post(ASK) as response:
            got = await response.read()
        expected = json.loads(json.dumps(ANSWER))
        del expected["prompt_token_ids"]
        del expected["choices"][0]["token_ids"]
        assert got == json.dumps(expected).encode()
        exchange = await w.recorder.one()
        assert exchange.sampled is not None
        assert exchange.sampled.prompt_ids == (1, 2, 3)
        assert exchange.sampled.completion_ids == (7, 8, 9)
        assert exchange.response == expected
        assert exchange.request == ASK
        assert (exchange.status, exchange.version, exchange.http_status) == (Status.OK, "helpdesk@v3", 200)


async def test_members_the_client_asked_for_stay():
    async with world(whole) as w:
        async with w.post({**ASK, "return_token_ids": True}) as response:
            assert await response.json() == ANSWER
        assert (await w.recorder.one()).sampled is not None


async def test_without_asking_a_stream_is_passed_byte_for_byte():
    odd = b': ping\r\n\r\ndata: {"a" :1}\r\n\r\nevent: x\n\n' + sse(*CHUNKS, "[DONE]") + b"data: no blank line"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await event_stream(request)
        for at in range(0, len(odd), 7):
            await response.write(odd[at : at + 7])
        await response.write_eof()
        return response

    async with world(answer, settings(capture={"ask_for_ids": False})) as w:
        async with w.post({**ASK, "stream": True}) as response:
            assert await response.read() == odd
        assert "return_token_ids" not in w.upstream.bodies[0]


async def test_stream_loses_only_the_ids():
    async with world(streamed) as w:
        async with w.post({**ASK, "stream": True}) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert await response.read() == sse(*STRIPPED, "[DONE]")
        exchange = await w.recorder.one()
        assert exchange.status is Status.OK
        assert exchange.sampled is not None
        assert exchange.sampled.completion_ids == (7, 8, 9)
        assert exchange.response is not None
        assert exchange.response["choices"][0]["message"]["content"] == 'Hold "token_ids":[4] é'
        assert exchange.first_byte_s is not None
        assert exchange.duration_s is not None
        assert exchange.first_byte_s <= exchange.duration_s


async def test_first_chunk_arrives_before_the_upstream_sends_the_second():
    first_seen = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(sse(CHUNKS[0]))
        async with asyncio.timeout(TIMEOUT_S):
            await first_seen.wait()
        await response.write(sse(*CHUNKS[1:], "[DONE]"))
        await response.write_eof()
        return response

    async with world(answer) as w, w.post({**ASK, "stream": True}) as response, asyncio.timeout(TIMEOUT_S):
        assert await response.content.readuntil(b"\n\n") == sse(STRIPPED[0])
        first_seen.set()
        assert await response.content.read() == sse(*STRIPPED[1:], "[DONE]")


async def test_stock_client_streaming_and_not():
    async def answer(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        return await (streamed(request) if body.get("stream") else whole(request))

    async with world(answer) as w:
        async with openai.AsyncOpenAI(base_url=w.url + "/v1", api_key="not-the-upstreams", max_retries=0) as client:
            listed = await client.models.list()
            assert [model.id for model in listed.data] == ["helpdesk"]
            reply = await client.chat.completions.create(model="helpdesk", messages=ASK["messages"])
            assert reply.choices[0].message.content == ANSWER["choices"][0]["message"]["content"]
            assert "token_ids" not in (reply.choices[0].model_extra or {})
            chunks = await client.chat.completions.create(model="helpdesk", messages=ASK["messages"], stream=True)
            texts = [c.choices[0].delta.content async for c in chunks]
            assert "".join(text or "" for text in texts) == 'Hold "token_ids":[4] é'
            with pytest.raises(openai.NotFoundError) as refused:
                await client.chat.completions.create(model="helpdesk@v3", messages=ASK["messages"])
            assert refused.value.code == "model_not_found"
            assert refused.value.param == "model"
        assert "authorization" not in w.upstream.headers[0]


async def test_text_completions_take_the_same_way():
    async def answer(request: web.Request) -> web.StreamResponse:
        choice = {"index": 0, "text": "yes", "token_ids": [4], "prompt_token_ids": [1, 2], "finish_reason": "stop"}
        return web.json_response({"id": "cmpl-1", "object": "text_completion", "choices": [choice]})

    async with world(answer) as w:
        async with w.post({"model": "helpdesk", "prompt": "ok?"}, "/v1/completions") as response:
            body = await response.json()
        assert body["choices"] == [{"index": 0, "text": "yes", "finish_reason": "stop"}]
        exchange = await w.recorder.one()
        assert exchange.endpoint == "/v1/completions"
        assert exchange.sampled is not None
        assert exchange.sampled.prompt_ids == (1, 2)


async def test_only_safe_headers_and_our_credential_go_upstream():
    config = settings(engine={"kind": "vllm", "url": "http://127.0.0.1:9", "api_key": "engine-key"})
    sent = {
        "Authorization": "Bearer client-key",
        "Cookie": "a=b",
        "X-Forwarded-For": "1.2.3.4",
        "X-Request-Id": "req-7",
        "X-Session-Id": "session-9",
        "X-SecondNature-Tenant": "acme",
    }
    async with world(whole, config) as w:
        async with w.post({**ASK, "user": "u-1"}, headers=sent) as response:
            assert response.headers["x-request-id"] == "req-7"
        (headers,) = w.upstream.headers
        assert headers["authorization"] == "Bearer engine-key"
        assert headers["x-request-id"] == "req-7"
        assert not {"cookie", "x-forwarded-for", "x-session-id", "x-secondnature-tenant"} & set(headers)
        exchange = await w.recorder.one()
        assert (exchange.session, exchange.tenant, exchange.user) == ("session-9", "acme", "u-1")


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        (b'{"model": "helpdesk", "messages": [{"role": "us', 400, None, None),
        (b"model=helpdesk", 400, None, None),
        (b"[]", 400, None, None),
        (b"", 400, None, None),
        (b'{"messages": []}', 400, "model", None),
        (b'{"model": "gpt-9", "messages": []}', 404, "model", "model_not_found"),
        (b'{"model": "helpdesk@v3", "messages": []}', 404, "model", "model_not_found"),
    ],
)
async def test_bad_requests_are_refused_in_openais_shape(body: bytes, status: int, param: str | None, code: str | None):
    async with world(whole) as w:
        async with w.post(body) as response:
            error = (await response.json())["error"]
            assert response.status == status
            assert response.headers["x-request-id"]
        assert error["message"]
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
        assert w.upstream.bodies == []
        assert w.recorder.raw == []


@pytest.mark.parametrize(
    "path", ["/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/embeddings", "/v1/models/base"]
)
async def test_routes_that_are_not_listed_do_not_exist(path: str):
    async with world(whole) as w:
        async with w.post(ASK, path) as response:
            assert response.status == 404
            assert (await response.json())["error"]["code"] == "unknown_url"
        assert w.upstream.bodies == []


async def test_wrong_method():
    async with world(whole) as w, w.http.get(w.url + "/v1/chat/completions") as response:
        assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_ten_megabytes_pass_and_more_than_the_limit_does_not():
    big = {**ASK, "messages": [{"role": "user", "content": "é" * 5_000_000}]}
    async with world(whole) as w:
        async with w.post(big) as response:
            assert response.status == 200
        assert w.upstream.bodies[0]["messages"] == big["messages"]
    async with world(whole, settings(server={"max_request_bytes": 100_000})) as w:
        for size in (100_001, 350_000, 3_000_000):
            async with w.post(b" " * size) as response:
                assert response.status == 413
                assert (await response.json())["error"]["code"] == "request_too_large"
        assert w.upstream.bodies == []
        async with w.post(ASK) as response:
            assert response.status == 200


async def test_half_a_surrogate_pair_reaches_the_upstream():
    body = b'{"model":"helpdesk","messages":[{"role":"user","content":"cut \\ud83d"}]}'
    async with world(whole) as w:
        async with w.post(body) as response:
            assert response.status == 200
        assert w.upstream.bodies[0]["messages"][0]["content"] == "cut \ud83d"


async def test_upstreams_own_error_is_kept():
    told = {"error": {"message": "too long", "type": "BadRequestError", "param": None, "code": 400}}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(told, status=429, headers={"Retry-After": "7"})

    async with world(answer) as w:
        async with w.post(ASK) as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "7"
            assert await response.json() == told
        exchange = await w.recorder.one()
        assert (exchange.status, exchange.http_status) == (Status.UPSTREAM_ERROR, 429)


async def test_engine_that_is_away_gives_502_in_openais_shape():
    async with world(whole) as w:
        w.upstream.url = "http://127.0.0.1:9"
        async with w.post(ASK) as response:
            assert response.status == 502
            error = (await response.json())["error"]
        assert (error["type"], error["code"]) == ("upstream_error", "upstream_unavailable")
        assert "127.0.0.1" not in error["message"]
        exchange = await w.recorder.one()
        assert (exchange.status, exchange.http_status) == (Status.UPSTREAM_ERROR, 502)


@pytest.mark.parametrize("stream", [True, False])
async def test_engine_that_dies_before_the_first_byte(stream: bool):
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with world(answer) as w:
        async with w.post({**ASK, "stream": stream}) as response:
            assert response.status == 502
        assert (await w.recorder.one()).status is Status.UPSTREAM_ERROR


async def test_engine_that_dies_midstream_ends_the_stream_with_an_error_event():
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(sse(*CHUNKS[:2]) + b'data: {"id":"c-1","choi')
        assert request.transport is not None
        request.transport.close()
        return response

    async with world(answer) as w:
        async with w.post({**ASK, "stream": True}) as response:
            got = await response.read()
        events = got.decode().split("\n\n")
        assert events[:2] == [f"data: {text}" for text in STRIPPED[:2]]
        error = json.loads(events[2].removeprefix("data: "))["error"]
        assert error["code"] == "upstream_disconnected"
        assert events[3:] == [""]
        exchange = await w.recorder.one()
        assert exchange.status is Status.UPSTREAM_ERROR
        assert exchange.response is not None
        assert exchange.response["choices"][0]["message"]["content"] == 'Hold "token_ids":[4] é'
        assert exchange.sampled is None
        async with openai.AsyncOpenAI(base_url=w.url + "/v1", api_key="x", max_retries=0) as client:
            chunks = await client.chat.completions.create(model="helpdesk", messages=ASK["messages"], stream=True)
            with pytest.raises(openai.APIError, match="broke off"):
                async for _ in chunks:
                    pass


@pytest.mark.parametrize("last", [sse('{"error":{"message":"out of memory","type":"x"}}', "[DONE]"), b""])
async def test_stream_that_fails_politely_is_no_success(last: bytes):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(sse(*CHUNKS) + last)
        await response.write_eof()
        return response

    async with world(answer) as w:
        async with w.post({**ASK, "stream": True}) as response:
            assert await response.read() == sse(*STRIPPED) + last
        exchange = await w.recorder.one()
        assert exchange.status is Status.UPSTREAM_ERROR
        assert exchange.sampled is None


async def test_client_that_leaves_midstream_cancels_the_upstream():
    async def answer(request: web.Request) -> web.StreamResponse:
        response = await event_stream(request)
        await response.write(sse(*CHUNKS[:2]))
        await asyncio.Event().wait()
        return response

    async with world(answer) as w:
        response = await w.post({**ASK, "stream": True})
        await response.content.readuntil(b"\n\n")
        response.close()
        async with asyncio.timeout(TIMEOUT_S):
            await w.upstream.cancelled.wait()
        exchange = await w.recorder.one()
        assert exchange.status is Status.CLIENT_CANCELLED
        assert exchange.response is not None
        assert exchange.response["choices"][0]["message"]["content"] == 'Hold "token_ids":[4] é'
        await w.idle()


async def test_client_that_leaves_before_the_first_byte_cancels_the_upstream():
    asked = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    async with world(answer) as w:
        async with aiohttp.ClientSession() as leaver:
            request = asyncio.create_task(
                leaver.post(w.url + "/v1/chat/completions", json=ASK)  # pyright: ignore[reportArgumentType] - awaitable
            )
            async with asyncio.timeout(TIMEOUT_S):
                await asked.wait()
            request.cancel()
            await asyncio.wait((request,))
        async with asyncio.timeout(TIMEOUT_S):
            await w.upstream.cancelled.wait()
        exchange = await w.recorder.one()
        assert exchange.status is Status.CLIENT_CANCELLED
        assert exchange.first_byte_s is None
        await w.idle()
        assert 'outcome="client_cancelled"' in w.metrics.render().decode()


async def test_answer_longer_than_may_be_kept_passes_and_is_marked():
    async with world(whole, settings(capture={"max_response_bytes": 1024})) as w:
        w.upstream.answer = long_answer
        async with w.post(ASK) as response:
            assert len((await response.json())["choices"][0]["message"]["content"]) == 5000
        exchange = await w.recorder.one()
        assert exchange.status is Status.OK
        assert exchange.response is None
        assert exchange.error is not None
        assert "max_response_bytes" in exchange.error


async def long_answer(request: web.Request) -> web.StreamResponse:
    choice = {"index": 0, "message": {"role": "assistant", "content": "x" * 5000}, "finish_reason": "stop"}
    return web.json_response({"id": "c", "choices": [choice]})


async def test_engine_without_the_adapter_lets_the_base_answer_and_says_so():
    async def answer(request: web.Request) -> web.StreamResponse:
        if json.loads(await request.read())["model"] == "base":
            return web.json_response({**ANSWER, "model": "base"})
        return web.json_response({"error": {"message": "does not exist"}}, status=404)

    async with world(answer) as w:
        async with w.post(ASK) as response:
            assert (await response.json())["model"] == "base" == response.headers["x-secondnature-version"]
        assert w.routing.missing == ["helpdesk@v3"]
        assert (await w.recorder.one()).version == "base"
        assert "secondnature_base_fallbacks_total 1.0" in w.metrics.render().decode()


async def test_engine_that_refuses_the_question_is_not_asked_again():
    async def answer(request: web.Request) -> web.StreamResponse:
        if "return_token_ids" in json.loads(await request.read()):
            return web.json_response({"error": {"message": "unknown field: return_token_ids"}}, status=400)
        return web.json_response(ANSWER)

    async with world(answer) as w:
        for _ in range(2):
            async with w.post(ASK) as response:
                assert response.status == 200
        assert ["return_token_ids" in body for body in w.upstream.bodies] == [True, False, False]


async def test_a_client_that_names_the_question_does_not_end_it_for_others():
    async def answer(request: web.Request) -> web.StreamResponse:
        temperature = json.loads(await request.read()).get("temperature", 0)
        if isinstance(temperature, str):
            return web.json_response({"error": {"message": f"not a number: {temperature}"}}, status=400)
        return web.json_response(ANSWER)

    async with world(answer) as w:
        async with w.post({**ASK, "temperature": "return_token_ids"}) as response:
            assert response.status == 400
            assert (await response.json())["error"]["message"] == "not a number: return_token_ids"
        async with w.post(ASK) as response:
            assert response.status == 200
        assert w.upstream.bodies[-1]["return_token_ids"] is True


async def test_stopped_daemon_leaves_an_abandoned_record():
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with world(answer) as w:
        scope: dict[str, Any] = {"type": "http", "path": "/v1/chat/completions", "method": "POST", "headers": []}
        sent = iter([{"type": "http.request", "body": json.dumps(ASK).encode(), "more_body": False}])

        async def receive() -> Any:
            message = next(sent, None)
            if message is None:
                await asyncio.Event().wait()
            return message

        async def send(message: Any) -> None:
            raise AssertionError(message)

        request = asyncio.create_task(w.proxy(scope, receive, send))
        await until(lambda: w.upstream.bodies)
        request.cancel()
        await asyncio.wait((request,))
        assert (await w.recorder.one()).status is Status.ABANDONED
        async with asyncio.timeout(TIMEOUT_S):
            await w.upstream.cancelled.wait()


async def test_content_that_cannot_be_sorted_in_passes_and_is_recorded(monkeypatch: pytest.MonkeyPatch):
    def too_deep(*_given: object, **_named: object) -> str:
        raise RecursionError

    monkeypatch.setattr("daemon.proxy.route_key", too_deep)
    async with world(whole) as w:
        async with w.post(ASK) as response:
            assert response.status == 200
        exchange = await w.recorder.one()
        assert exchange.status is Status.OK
        assert exchange.route_key == exchange.id


async def test_what_breaks_inside_is_answered_in_openais_shape_and_recorded(monkeypatch: pytest.MonkeyPatch):
    def broken() -> str:
        raise RuntimeError("secret of ours")

    async with world(whole) as w:
        monkeypatch.setattr(w.routing, "current", broken)
        async with w.post(ASK) as response:
            assert response.status == 500
            error = (await response.json())["error"]
        assert (error["type"], error["code"]) == ("server_error", "internal_error")
        assert "secret" not in error["message"]
        assert (await w.recorder.one()).status is Status.UPSTREAM_ERROR
        monkeypatch.undo()
        async with w.post(ASK) as response:
            assert response.status == 200


async def test_overhead_counts_from_the_last_byte_of_the_request(monkeypatch: pytest.MonkeyPatch):
    def slowly(body: bytes) -> dict[str, Any]:
        time.sleep(0.06)
        return json.loads(body)

    monkeypatch.setattr("daemon.proxy.json_object", slowly)
    async with world(whole) as w:
        async with w.post(ASK) as response:
            assert response.status == 200
        lines = w.metrics.render().decode().splitlines()
        (total,) = [float(line.split()[1]) for line in lines if line.startswith("secondnature_overhead_seconds_sum ")]
        assert total >= 0.05


BOTH = pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])


def nested(depth: int, leaf: str = "1") -> str:
    """Objects and arrays in one another around a leaf, as JSON."""
    pairs = [('{"a":', "}") if level % 2 else ("[", "]") for level in range(depth)]
    return "".join(opening for opening, _ in pairs) + leaf + "".join(closing for _, closing in reversed(pairs))


@BOTH
async def test_a_request_that_nests_deeper_than_its_record_could_be_read_is_refused(path: str):
    async with world(whole) as w:
        for depth, status in ((MAX_DEPTH - 1, 200), (MAX_DEPTH, 400), (900, 400), (100_000, 400)):
            async with w.post(f'{{"model":"helpdesk","metadata":{nested(depth)}}}'.encode(), path) as response:
                assert response.status == status
                answer = await response.json()
            if status == 400:
                assert answer["error"]["type"] == "invalid_request_error"
        assert len(w.upstream.bodies) == 1


@BOTH
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_json_does_not_have_is_refused_and_never_becomes_null(path: str, number: str):
    async with world(whole) as w:
        async with w.post(f'{{"model":"helpdesk","temperature":{number}}}'.encode(), path) as response:
            assert response.status == 400
            error = (await response.json())["error"]
        assert error["type"] == "invalid_request_error"
        assert f"{number} is no finite number" in error["message"]
        assert w.upstream.bodies == []


@BOTH
async def test_a_model_named_by_half_a_surrogate_pair_does_not_exist(path: str):
    async with world(whole) as w, w.post(b'{"model":"\\ud800"}', path) as response:
        assert response.status == 404
        error = (await response.json())["error"]
    assert error["code"] == "model_not_found"
    assert "\ud800" in error["message"]


leaves = st.sampled_from(["1", "1e308", "1e999", "NaN", "-0.0", "9" * 400, '"\\ud83d"', '"\\u0000"', "null", '"é"'])
contents = st.builds(nested, st.integers(0, 260), leaves)


async def test_whatever_is_answered_with_200_can_be_read_from_the_log(tmp_path: Path):
    answered: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = "text/event-stream" if b"data: " in answered[-1] else "application/json"
        return web.Response(body=answered[-1], content_type=kind)

    with closing(SqliteLog(tmp_path / "log", "g")) as written, closing(SqliteLog(tmp_path / "log", "g")) as read:
        recorder = Recorder(written, tmp_path / "spool")
        async with world(answer) as w:

            async def recorded(body: str) -> list[StoredRecord]:
                async with w.post(body.encode()) as response:
                    await response.read()
                    if response.status != 200:
                        return []
                await until(lambda: w.recorder.raw)
                recorder.end_raw(w.recorder.raw.pop())
                return await asyncio.to_thread(read.poll, max_records=9, timeout_s=TIMEOUT_S)

            @given(contents, contents, st.booleans())
            @example(nested(MAX_DEPTH - 1), nested(MAX_DEPTH - 2), False)
            @example(nested(200), "1", False)
            @example("1", nested(250), False)
            @example("1", nested(250), True)
            @examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
            def check(asked: str, told: str, streamed: bool) -> None:
                part = f'{{"choices":[{{"index":0,"delta":{{"content":"a"}}}}],"x":{told}}}'
                answered.append((f"data: {part}\n\ndata: [DONE]\n\n" if streamed else part).encode())
                body = f'{{"model":"helpdesk","messages":[],"metadata":{asked}}}'
                for record in asyncio.run_coroutine_threadsafe(recorded(body), loop).result(TIMEOUT_S):
                    exchange = parse(record)
                    assert isinstance(exchange, Exchange)
                    seen.append(exchange)

            loop, seen = asyncio.get_running_loop(), list[Exchange]()
            await asyncio.to_thread(check)
        await asyncio.to_thread(recorder.close)
    assert any(exchange.response for exchange in seen)
    assert any(exchange.error == "content not recorded: too_deep" for exchange in seen)
