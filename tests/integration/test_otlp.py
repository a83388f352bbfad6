"""Spans over HTTP, as exporters send them, into the log; and recorded sessions through the log into the store."""

import asyncio
import gzip
import json
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from adapter_files import source_of, told, traces
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from proxy_world import serving

from daemon.api import Parts
from daemon.app import create_app
from daemon.capture import Recorder
from daemon.config import load
from daemon.health import Check, Health
from daemon.lessons import Lessons
from daemon.metrics import Metrics
from daemon.otlp import read_export
from daemon.serving import Serving
from daemon.sqlite_log import SqliteLog
from daemon.store import Store
from daemon.tail import Tail
from harness_adapters.base import detect_adapter
from harness_adapters.exchange import Exchange
from harness_adapters.trace import Trace
from hinting.detect import detect
from ops.client import DaemonClient
from ops.demo.service import free_port
from ops.importing import import_files

NOWHERE = f"http://127.0.0.1:{free_port()}"
LABELLED = Path(__file__).parents[1] / "labelled"
LIMIT = 1 << 20


def text(value: Any) -> dict[str, Any]:
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def export(asked: str, answer: str) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": asked}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}],
    }
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "chat m",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": key, "value": text(value)} for key, value in attributes.items()],
    }
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": [span]}]}]}


def packed(document: dict[str, Any]) -> bytes:
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    as_base64 = [
        {**span, **{k: b64encode(bytes.fromhex(span[k])).decode() for k in ("traceId", "spanId")}} for span in spans
    ]
    whole = {"resourceSpans": [{"scopeSpans": [{"spans": as_base64}]}]}
    return ParseDict(whole, ExportTraceServiceRequest()).SerializeToString()


@asynccontextmanager
async def daemon(folder: Path) -> AsyncGenerator[tuple[httpx.AsyncClient, Store, Tail, Lessons]]:
    settings = load(
        None,
        {
            "data_dir": folder,
            "engine": {"kind": "vllm", "url": NOWHERE},
            "server": {"max_request_bytes": LIMIT},
        },
    )
    with (
        closing(Store(settings.store_url)) as store,
        closing(SqliteLog(settings.log_path, "g")) as written,
        closing(SqliteLog(settings.log_path, "g")) as read,
    ):
        recorder, metrics = Recorder(written, settings.spool_dir), Metrics()
        serving_ = Serving(settings, store, [], metrics)
        parts = Parts(settings, store, serving_, recorder, lambda: NOWHERE)
        app = create_app(parts, Health(metrics, lambda: Check(ok=True), recorder, None, None), metrics, None)
        lessons = Lessons(settings, store, None, serving_, graders=[], metrics=metrics)  # type: ignore[arg-type]
        async with serving(app) as url, httpx.AsyncClient(base_url=url) as client:
            yield client, store, Tail(read, store, poll_s=0.05), lessons
        await asyncio.to_thread(recorder.close)


async def read_all(tail: Tail, lessons: Lessons) -> None:
    for _ in range(200):
        await asyncio.sleep(0.02)
        if await asyncio.to_thread(tail.step):
            break
    while await asyncio.to_thread(tail.step):
        pass
    while await lessons.read_sessions():
        pass


JSON, PROTOBUF = "application/json", "application/x-protobuf"
BODIES = {
    "json": (JSON, None, json.dumps(export("hi", "hello")).encode()),
    "gzip": (JSON, "gzip", gzip.compress(json.dumps(export("hi", "hello")).encode())),
    "protobuf": (PROTOBUF, None, packed(export("hi", "hello"))),
    "protobuf gzip": (PROTOBUF, "gzip", gzip.compress(packed(export("hi", "hello")))),
}


@pytest.mark.parametrize(("kind", "encoding", "body"), BODIES.values(), ids=BODIES.keys())
async def test_a_span_becomes_a_session(kind: str, encoding: str | None, body: bytes, tmp_path: Path) -> None:
    headers = {"content-type": kind, **({"content-encoding": encoding} if encoding else {})}
    async with daemon(tmp_path) as (client, store, tail, lessons):
        answer = await client.post("/v1/traces", content=body, headers={**headers, "x-secondnature-tenant": "t1"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith(kind)
        await read_all(tail, lessons)
        (trace,) = store.traces(10)
    assert told(trace) == [("human", "hi"), ("agent", "hello")]


async def test_what_is_no_export_is_refused_in_words(tmp_path: Path) -> None:
    bomb = gzip.compress(b" " * (LIMIT + 1))
    async with daemon(tmp_path) as (client, _, _, _):

        async def post(body: bytes, kind: str = JSON, encoding: str = "identity") -> int:
            headers = {"content-type": kind, "content-encoding": encoding}
            answer = await client.post("/v1/traces", content=body, headers=headers)
            assert answer.status_code == 200 or answer.json()["error"]["message"]
            return answer.status_code

        assert await post(b"{}", "text/plain") == 415
        assert await post(b"{}", JSON, "br") == 415
        assert await post(b"{not json") == 422
        assert await post(b"[1]") == 422
        assert await post(b"\xff\xff\xff", PROTOBUF) == 422
        assert await post(b"no gzip", JSON, "gzip") == 422
        assert await post(bomb, JSON, "gzip") == 413
        assert await post(b" " * (LIMIT + 1)) == 413
        assert await post(b"{}") == 200  # an exporter that has nothing to say
        assert await post(b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET /"}]}]}]}') == 200


async def test_recorded_sessions_go_through_the_log_once_and_grow(tmp_path: Path) -> None:
    path = LABELLED / "web_app/session-b39cfd4b.jsonl"
    body = path.read_bytes()
    whole = tmp_path / path.name
    first = body.split(b"\n")[: body.count(b"\n") // 2]
    (expected,) = traces(detect_adapter(source_of(body)), body)
    async with daemon(tmp_path / "data") as (client, store, tail, lessons):
        url = str(client.base_url)

        async def imported(content: bytes) -> int:
            whole.write_bytes(content)
            with closing(DaemonClient(url)) as importer:
                (report,) = await asyncio.to_thread(import_files, [str(whole)], importer)
            assert not report.skipped
            await read_all(tail, lessons)
            return report.appended

        assert await imported(b"\n".join(first) + b"\n") == 1
        (half,) = store.traces(10)
        assert await imported(body) == 1
        (trace,) = store.traces(10)
        found = store.signals(limit=100)
        assert await imported(body) == 1
        (again,) = store.traces(10)
        assert store.signals(limit=100) == found
        rows = store.signal_rows(limit=100)
    assert isinstance(trace, Trace)
    assert len(half.turns) < len(trace.turns)
    assert trace == again == expected
    shown = {signal.id for signal in detect(expected)}
    assert shown
    assert {row.signal.id for row in rows if row.state == "new"} == shown


def spans(*exports: dict[str, Any]) -> dict[str, Any]:
    """One export of the spans of several."""
    found = [span for one in exports for span in one["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": found}]}]}


def span(number: int, **attributes: Any) -> dict[str, Any]:
    one = export(f"question {number}", f"answer {number}")
    (found,) = one["resourceSpans"][0]["scopeSpans"][0]["spans"]
    found["spanId"] = f"{number:016x}"
    found["startTimeUnixNano"] = str(1_700_000_000_000_000_000 + number)
    found["attributes"] += [{"key": key, "value": text(value)} for key, value in attributes.items()]
    return one


def without_answer(number: int) -> dict[str, Any]:
    one = span(number)
    (found,) = one["resourceSpans"][0]["scopeSpans"][0]["spans"]
    found["attributes"] = [a for a in found["attributes"] if a["key"] != "gen_ai.output.messages"]
    return one


def foreign() -> dict[str, Any]:
    one = span(1)
    one["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = [{"key": "http.route", "value": text("/")}]
    return one


def test_where_a_span_stands_in_its_export_changes_nothing() -> None:
    alone = [read_export(json.dumps(without_answer(n)).encode(), "t").nouns[0] for n in (1, 2)]
    beside = read_export(json.dumps(spans(without_answer(2), without_answer(1))).encode(), "t").nouns
    assert {noun.id for noun in alone} == {noun.id for noun in beside}
    assert len({noun.id for noun in alone}) == 2
    assert all(isinstance(noun, Exchange) and noun.place is None for noun in beside)
    times = {noun.id: noun.sequence for noun in (*alone, *beside) if isinstance(noun, Exchange)}
    assert list(times.values()) == [1_700_000_000_000_000] * 2
    other = read_export(json.dumps(without_answer(1)).encode(), "u").nouns
    assert other[0].id != alone[0].id


def test_what_formats_are_told_by_may_stand_behind_a_long_span_of_another_kind() -> None:
    other = foreign()
    (found,) = other["resourceSpans"][0]["scopeSpans"][0]["spans"]
    found["attributes"].append({"key": "http.body", "value": text("x" * 600_000)})
    told = read_export(json.dumps(spans(other, span(2))).encode(), "t")
    assert (len(told.nouns), told.foreign) == (1, False)


async def test_exports_without_a_model_call_are_counted_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with daemon(tmp_path) as (client, _, _, _):
        for document in (foreign(), foreign(), {"resourceSpans": []}, span(1)):
            answer = await client.post("/v1/traces", json=document)
            assert (answer.status_code, answer.json()) == (200, {})
        metrics = (await client.get("/metrics")).text
    assert 'secondnature_stage_items_total{result="foreign",stage="export"} 2.0' in metrics
    assert capsys.readouterr().out.count("export_without_model_calls") == 1


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
async def test_what_is_left_out_is_told_and_only_what_is_refused_is_called_rejected(kind: str, tmp_path: Path) -> None:
    noted = spans(span(1), span(2))
    second = noted["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    second["attributes"] = [a for a in second["attributes"] if not a["key"].endswith("messages")]
    deep: Any = "bottom"
    for _ in range(97):
        deep = [deep]
    refused = spans(span(3), span(4, **{"gen_ai.tool.definitions": [{"name": "f", "parameters": {"x": deep}}]}))
    async with daemon(tmp_path) as (client, store, tail, lessons):
        answers: list[ExportTraceServiceResponse] = []
        for document in (span(9), noted, refused):
            body = json.dumps(document).encode() if kind == JSON else packed(document)
            answer = await client.post("/v1/traces", content=body, headers={"content-type": kind})
            assert answer.status_code == 200, answer.text
            if kind == JSON:
                answers.append(ParseDict(answer.json(), ExportTraceServiceResponse()))
            else:
                answers.append(ExportTraceServiceResponse.FromString(answer.content))
        await read_all(tail, lessons)
        assert store.counts()["exchanges"] == 3
    fine, warned, partly = (answer.partial_success for answer in answers)
    assert (fine.rejected_spans, fine.error_message) == (0, "")
    assert warned.rejected_spans == 0
    assert "without their messages" in warned.error_message
    assert "(1 in this export)" in warned.error_message
    assert partly.rejected_spans == 1
    assert "levels deep" in partly.error_message
