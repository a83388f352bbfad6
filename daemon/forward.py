"""One call to the engine: sent, streamed back as it arrives, and copied within bounds."""

import io
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from starlette.types import Send

from daemon.body import encode_json
from daemon.config import Settings
from daemon.exchange_raw import RawExchange
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.spool import Begun
from daemon.sse import EventFramer, without_ids, without_ids_in_events
from daemon.wire_errors import Headers, error_event, send_error, send_whole
from harness_adapters.exchange import Status

VERSION_HEADER = b"x-secondnature-version"
ASK = "return_token_ids"

# What a client may say to the engine beside its body. Credentials, cookies and proxy headers are not among it.
_FORWARDED = ("accept", "traceparent", "tracestate", "user-agent")
# Hop-by-hop (RFC 9110 §7.6.1), what is written anew, and what names the upstream itself.
_DROPPED = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade content-length content-type date server set-cookie x-request-id x-secondnature-version".split()
)
_REFUSED_QUESTION = (400, 422)

logger = get_logger(__name__)


class Routing(Protocol):
    """Which adapter answers for the public model name."""

    def current(self) -> str:
        """Return the engine's name for it; the base model's where no adapter serves."""
        ...

    def report_missing(self, version: str) -> None:
        """Say that the engine does not have an adapter which it should have."""
        ...


@dataclass(slots=True, kw_only=True)
class Call:
    """One request on its way, and what became of it so far."""

    id: str
    request_id: str
    path: str
    endpoint: str
    headers: Mapping[str, str]
    request: dict[str, Any]
    request_bytes: int
    tenant: str
    session: str | None
    user: str | None
    route_key: str
    sequence: int
    keep_bytes: int
    """How much of the response is kept for the recorder."""
    started_at: float = field(default_factory=time.time)
    started: float
    """When the request's last byte had been read, by `time.perf_counter`."""
    status: Status = Status.OK
    error: str | None = None
    version: str | None = None
    http_status: int | None = None
    asked_for_ids: bool = False
    streamed: bool = False
    truncated: bool = False
    kept: bytearray = field(default_factory=bytearray)
    first_byte_s: float | None = None
    overhead_s: float | None = None
    """From the request's last byte to its first forwarding."""

    def failed(self, status: Status, error: str) -> None:
        """Note how the call ended; the first word is the last."""
        if self.status is Status.OK:
            self.status, self.error = status, error

    def keep(self, chunk: bytes) -> None:
        """Copy what the upstream sent, up to the bound."""
        if self.first_byte_s is None:
            self.first_byte_s = time.perf_counter() - self.started
        if self.truncated or not self.keep_bytes:
            return
        if len(self.kept) + len(chunk) > self.keep_bytes:
            self.truncated = True
            self.kept.clear()
        else:
            self.kept += chunk

    def begun(self) -> Begun:
        """Return the record that is made before anything is forwarded."""
        return Begun(
            exchange_id=self.id,
            route_key=self.route_key,
            tenant=self.tenant,
            started_at=self.started_at,
            model=str(self.request.get("model")),
            endpoint=self.path,
            sequence=self.sequence,
        )

    def raw(self) -> RawExchange:
        """Return the terminal record."""
        return RawExchange(
            id=self.id,
            endpoint=self.path,
            model=str(self.request.get("model")),
            tenant=self.tenant,
            route_key=self.route_key,
            sequence=self.sequence,
            status=self.status,
            started_at=self.started_at,
            request=self.request,
            request_bytes=self.request_bytes,
            body=bytes(self.kept),
            streamed=self.streamed,
            truncated=self.truncated,
            asked_for_ids=self.asked_for_ids,
            version=self.version,
            session=self.session,
            user=self.user,
            http_status=self.http_status,
            error=self.error,
            first_byte_s=self.first_byte_s,
            duration_s=time.perf_counter() - self.started,
        )


class Forwarder:
    """Forwards calls to the engine at `upstream_url()`."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        routing: Routing,
        metrics: Metrics,
        upstream_url: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._session = session
        self._routing = routing
        self._metrics = metrics
        self._upstream_url = upstream_url
        self._asks = settings.capture.enabled and settings.capture.ask_for_ids is not False

    async def run(self, call: Call, send: Send) -> None:
        """Forward one call. Whatever the upstream does, the client gets an answer in the API's shape."""
        try:
            upstream = await self._open(call)
        except (aiohttp.ClientError, OSError) as error:
            await self._answer_502(call, send, f"the engine cannot be reached: {_words(error)}; try again later")
            return
        try:
            call.http_status = upstream.status
            if upstream.status >= 400:
                call.failed(Status.UPSTREAM_ERROR, f"the engine answered {upstream.status}")
            if upstream.content_type == "text/event-stream":
                await self._stream(call, upstream, send)
            else:
                await self._whole(call, upstream, send)
        finally:
            # Of a response read to its end this does nothing; any other is cut off, so that the engine stops at once.
            upstream.close()

    async def _open(self, call: Call) -> aiohttp.ClientResponse:
        """Send the request; again with the base where the adapter is gone, or without a question that was refused."""
        base = self._settings.engine.base_model
        call.version = self._routing.current()
        upstream = await self._post(call)
        if upstream.status == 404 and call.version != base:
            upstream.close()
            self._routing.report_missing(call.version)
            self._metrics.base_fallbacks.inc()
            logger.warning("base_answers", missing=call.version)
            call.version = base
            upstream = await self._post(call)
        may_be_refused = call.asked_for_ids and self._settings.capture.ask_for_ids == "auto"
        if may_be_refused and upstream.status in _REFUSED_QUESTION and ASK.encode() in await upstream.read():
            upstream.close()
            upstream = await self._post(call, ask=False)
            # An engine may merely have repeated the client's words; what it answers without the question is the proof.
            if upstream.status < 400:
                self._asks = False
                logger.warning("engine_gives_no_ids", consequence="turns are tokenised again and marked")
        return upstream

    async def _post(self, call: Call, *, ask: bool = True) -> aiohttp.ClientResponse:
        call.asked_for_ids = ask and self._asks and call.request.get(ASK) is not True
        body: dict[str, Any] = {**call.request, "model": call.version}
        if call.asked_for_ids:
            body[ASK] = True
        headers = {name: call.headers[name] for name in _FORWARDED if name in call.headers}
        headers |= {"content-type": "application/json", "accept-encoding": "identity", "x-request-id": call.request_id}
        key = self._settings.engine.api_key
        if key is not None:
            headers["authorization"] = f"Bearer {key.get_secret_value()}"
        url = self._upstream_url() + call.path
        encoded = encode_json(body)
        if call.overhead_s is None:
            call.overhead_s = time.perf_counter() - call.started
            self._metrics.overhead_seconds.observe(call.overhead_s)
        try:
            # As a file, aiohttp writes it in pieces: megabytes at once would hold up every other stream.
            return await self._session.post(url, data=io.BytesIO(encoded), headers=headers, allow_redirects=False)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # A pooled connection that the engine had closed meanwhile; nothing has been answered yet.
            return await self._session.post(url, data=io.BytesIO(encoded), headers=headers, allow_redirects=False)

    async def _stream(self, call: Call, upstream: aiohttp.ClientResponse, send: Send) -> None:
        call.streamed = True
        strips = call.asked_for_ids and _plain(upstream)
        framer = EventFramer()

        async def forward(events: bytes) -> None:
            call.keep(events)
            body = without_ids_in_events(events) if strips else events
            await send({"type": "http.response.body", "body": body, "more_body": True})

        await send({"type": "http.response.start", "status": upstream.status, "headers": _headers(call, upstream)})
        try:
            async for chunk in upstream.content.iter_any():
                if events := framer.feed(chunk) if _plain(upstream) else chunk:
                    await forward(events)
        except (aiohttp.ClientError, OSError) as error:
            call.failed(Status.UPSTREAM_ERROR, f"the engine broke off its answer: {_words(error)}")
            event = error_event("the engine broke off its answer; send the request again", "upstream_disconnected")
            await send({"type": "http.response.body", "body": event, "more_body": False})
            return
        if rest := framer.rest():
            await forward(rest)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _whole(self, call: Call, upstream: aiohttp.ClientResponse, send: Send) -> None:
        try:
            body = await upstream.read()
        except (aiohttp.ClientError, OSError) as error:
            await self._answer_502(call, send, f"the engine broke off its answer: {_words(error)}; try again")
            return
        call.keep(body)
        if call.asked_for_ids and _plain(upstream):
            body = without_ids(body)
        await send_whole(send, upstream.status, body, _headers(call, upstream))

    async def _answer_502(self, call: Call, send: Send, message: str) -> None:
        call.failed(Status.UPSTREAM_ERROR, message)
        call.http_status = 502
        await send_error(send, 502, message, kind="upstream_error", code="upstream_unavailable", headers=_own(call))


def _own(call: Call) -> Headers:
    headers = [(b"x-request-id", call.request_id.encode())]
    return [*headers, (VERSION_HEADER, call.version.encode())] if call.version else headers


def _headers(call: Call, upstream: aiohttp.ClientResponse) -> Headers:
    kept = [(name.lower(), value) for name, value in upstream.raw_headers if name.lower() not in _DROPPED]
    content_type = upstream.headers.get("content-type", "application/json").encode("latin-1")
    return [(b"content-type", content_type), *kept, *_own(call)]


def _plain(upstream: aiohttp.ClientResponse) -> bool:
    """Whether the body is not compressed, as was asked for."""
    return upstream.headers.get("content-encoding", "identity").lower() == "identity"


def _words(error: Exception) -> str:
    """What went wrong, without the address: clients need not know where the engine is."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number else type(error).__name__
