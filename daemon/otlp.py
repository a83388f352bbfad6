"""An OTLP/HTTP receiver: spans that an agent's own instrumentation exports, recorded as the exchanges they tell of.

Spans of model calls with their messages become exchanges; where the tools' spans come in the same export, their errors
go with the results. Both encodings of the protocol are taken, JSON and, with the extra `otlp`, Protobuf. Logs and
metrics have routes of their own in the protocol, which are not served here.
"""

import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol

import orjson
from fastapi import APIRouter, Depends, HTTPException, Request, Response, status

from daemon.body import RequestTooLargeError
from daemon.capture import Recorder
from daemon.encoding import encode
from daemon.logs import get_logger
from daemon.proxy import tenant_of
from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange
from harness_adapters.ids import stable_id
from harness_adapters.openinference import OpenInference
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.records import first_values
from harness_adapters.sessions import route_key
from harness_adapters.source import HEAD_BYTES, Head, Source
from harness_adapters.spans import head_spans
from harness_adapters.trace import Trace

ROUTE = "/v1/traces"
_ADAPTERS: tuple[Adapter, ...] = (OTelGenAI(), OpenInference())
"""Nothing else is taken here: the route is open to agents, imports are an operator's."""
JSON, PROTOBUF = "application/json", "application/x-protobuf"

logger = get_logger(__name__)


class Counts(Protocol):
    """What an export without a span of ours is counted with."""

    def inc(self, amount: float = 1) -> None:
        """Count one."""
        ...


@dataclass(frozen=True, slots=True)
class Export:
    """What one export holds for us."""

    nouns: list[Exchange | Trace] = field(default_factory=list[Exchange | Trace])
    refused: list[str] = field(default_factory=list[str])
    """Why something of it cannot be kept, once for each."""
    notes: list[str] = field(default_factory=list[str])
    """What was passed over, and why."""
    foreign: bool = False
    """Whether it has spans, and none that any of our conventions describes."""


def make_otlp_router(
    recorder: Recorder, body_within_limit: Callable[[Request], Any], limit: int, foreign: Counts
) -> APIRouter:
    """Return the receiver's route. Bodies may be `limit` bytes long, unpacked; exports without a span of ours count."""
    router = APIRouter()
    told: list[str] = []

    # A plain function runs in a thread: spans are read off the event loop.
    @router.post(ROUTE)
    def receive(request: Request, body: Annotated[bytes, Depends(body_within_limit)]) -> Response:
        """Take an OTLP export of spans."""
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in (JSON, PROTOBUF):
            raise HTTPException(
                status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
                f"the content type is {kind or 'missing'}; send {JSON} or {PROTOBUF}",
            )
        plain = _unpacked(body, request.headers.get("content-encoding", ""), limit)
        export = read_export(_from_protobuf(plain) if kind == PROTOBUF else plain, tenant_of(request.headers))
        if export.foreign:
            foreign.inc()
            if not told:
                told.append(ROUTE)
                logger.warning("export_without_model_calls", reason="no span follows a convention that is read here")
        refused = [*export.refused, *recorder.keep_possible(export.nouns)]
        return _answer(kind, refused, export.notes)

    return router


def read_export(body: bytes, tenant: str) -> Export:
    """Return what an OTLP/JSON export tells of; spans of other things than models and tools are passed over.

    Raises RecordError for what is not a JSON object.
    """
    head = Head(body, first_values(body[:HEAD_BYTES]))
    if not body.lstrip().startswith(b"{") or not head.values:
        raise RecordError("the export is not a JSON object with `resourceSpans`")
    adapter = _adapter_of(head)
    if adapter is None and len(body) > HEAD_BYTES:
        # Its first spans may be so long that those which tell its kind come behind the head.
        head = Head(body, first_values(body))
        adapter = _adapter_of(head)
    export = Export(foreign=adapter is None and next(head_spans(head), None) is not None)
    if adapter is None:
        return export
    for item in adapter.read(Source("the export", io.BytesIO(body), head)):
        if isinstance(item, Skipped):
            export.notes.append(item.reason.replace("in this file", "in this export"))
            continue
        try:
            export.nouns.append(_of_tenant(item, tenant))
        except RecordError as error:
            export.refused.append(str(error))
    return export


def _adapter_of(head: Head) -> Adapter | None:
    return next((adapter for adapter in _ADAPTERS if adapter.recognises(head)), None)


def _of_tenant(noun: Exchange | Trace, tenant: str) -> Exchange | Trace:
    """Return what was read as a tenant's own: what two tenants export alike are two things.

    Where it stood in its export says nothing: an exporter may send a span again beside others. So exchanges are named
    by what they hold, and ordered by when they began. Raises TooDeepError where nobody could read it again.
    """
    if isinstance(noun, Trace):
        trace_id, root = (stable_id("session", "otlp", tenant, name) for name in (noun.id, noun.root))
        turns = tuple(replace(turn, place=None) for turn in noun.turns)
        return replace(noun, tenant=tenant, id=trace_id, root=root, turns=turns)
    key = route_key(tenant, noun.request, session=noun.session, user=noun.user)
    began = max(int(noun.started_at * 1_000_000), 0)
    own = replace(noun, id="of a span", tenant=tenant, route_key=key, sequence=min(began, _LATEST), place=None)
    return replace(own, id=stable_id("exchange", "otlp", encode(own).decode()))


_LATEST = (1 << 63) - 1


def _unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    if encoding.lower() in ("", "identity"):
        return body
    if encoding.lower() not in ("gzip", "deflate"):
        raise HTTPException(
            status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, f"the content encoding {encoding} is not read; send gzip"
        )
    unpacking = zlib.decompressobj(wbits=47)  # either header
    try:
        plain = unpacking.decompress(body, limit + 1)
    except zlib.error as error:
        raise RecordError(f"the export cannot be unpacked: {error}") from error
    if len(plain) > limit:
        raise RequestTooLargeError(f"the export is longer than the {limit} bytes that server.max_request_bytes allows")
    return plain


def _from_protobuf(body: bytes) -> bytes:
    """Return an export as OTLP/JSON."""
    try:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - an optional part
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceRequest,
        )
    except ImportError as error:
        raise HTTPException(
            status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
            f"Protobuf cannot be read here ({error}); install secondnature[otlp], or export as {JSON}"
            " (OTEL_EXPORTER_OTLP_PROTOCOL=http/json)",
        ) from error
    message = ExportTraceServiceRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RecordError(f"the export is not an ExportTraceServiceRequest: {error}") from error
    # Ids come as base64 here and as hexadecimal digits in OTLP/JSON; as names of spans, either does.
    return orjson.dumps(MessageToDict(message))


def _answer(kind: str, refused: list[str], notes: list[str]) -> Response:
    """Return an ExportTraceServiceResponse. A message without rejected spans is a warning, by the protocol."""
    told = {"rejectedSpans": str(len(refused)), "errorMessage": "; ".join((*refused[:1], *notes))[:_TOLD_CHARS]}
    document: Mapping[str, Any] = {"partialSuccess": told} if refused or notes else {}
    if kind == JSON:
        return Response(orjson.dumps(document), media_type=JSON)
    from google.protobuf.json_format import ParseDict  # noqa: PLC0415 - the request could be read, so it is there
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
        ExportTraceServiceResponse,
    )

    return Response(ParseDict(document, ExportTraceServiceResponse()).SerializeToString(), media_type=PROTOBUF)


_TOLD_CHARS = 1000
