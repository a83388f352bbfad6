"""The hot path: agents' requests in, forwarded to the engine under the name of the adapter now serving, recorded.

An ASGI callable that stands beside FastAPI. What the upstream sends passes through as it arrives; recording takes its
own bounded copy and is read elsewhere.
"""

import asyncio
import itertools
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import aiohttp
from starlette.types import Message, Receive, Scope, Send

from daemon.body import RequestTooLargeError, json_object, read_body
from daemon.config import Settings
from daemon.exchange_raw import RawExchange
from daemon.forward import Call, Forwarder, Routing
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.spool import Begun
from daemon.wire_errors import send_error, send_json
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Status
from harness_adapters.sessions import explicit_session, route_key

ENDPOINTS = {"/v1/chat/completions": "chat_completions", "/v1/completions": "completions"}
MODELS = "/v1/models"
TENANT_HEADER = "x-secondnature-tenant"
DEFAULT_TENANT = "default"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TENANT = re.compile(r"[\w.:@-]{1,128}")

logger = get_logger(__name__)


def tenant_of(headers: Mapping[str, str]) -> str:
    """Return the tenant that a request names in its headers, whose names are in lower case."""
    given = headers.get(TENANT_HEADER, "")
    return given if _TENANT.fullmatch(given) else DEFAULT_TENANT


class Recorder(Protocol):
    """What the proxy asks of the recorder. Neither call blocks for long nor raises."""

    def begin(self, begun: Begun) -> None:
        """Note, durably and without content, that a request is about to be forwarded."""
        ...

    def end_raw(self, raw: RawExchange) -> None:
        """Take the one terminal record of a request."""
        ...


class Proxy:
    """Serves `/v1`. `start` before the first request, `close` after the last."""

    def __init__(
        self,
        settings: Settings,
        routing: Routing,
        recorder: Recorder | None,
        metrics: Metrics,
        upstream_url: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._routing = routing
        self._recorder = recorder
        self._metrics = metrics
        self._upstream_url = upstream_url
        self._sequence = itertools.count(time.time_ns())
        self._started_at = int(time.time())
        self._session: aiohttp.ClientSession | None = None
        self._forwarder: Forwarder | None = None
        self.in_flight = 0
        """Requests being answered now."""

    async def start(self) -> None:
        """Open the pool of upstream connections."""
        engine = self._settings.engine
        self._session = aiohttp.ClientSession(
            # vLLM closes idle connections after 5 s: ours end first, or a request would meet a closed one.
            connector=aiohttp.TCPConnector(limit=engine.max_connections, keepalive_timeout=3),
            timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=engine.connect_timeout_s),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**18,
        )
        self._forwarder = Forwarder(self._settings, self._session, self._routing, self._metrics, self._upstream_url)

    async def close(self) -> None:
        """Close the pool."""
        if self._session is not None:
            await self._session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        started = time.perf_counter()
        path, method = scope["path"], scope["method"]
        endpoint = ENDPOINTS.get(path) or ("models" if path == MODELS else "other")
        answered: list[int] = []

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])
            await send(message)

        self.in_flight += 1
        self._metrics.in_flight.inc()
        outcome = "refused"
        try:
            if path in ENDPOINTS:
                if method == "POST":
                    outcome = await self._complete(scope, receive, counted, endpoint)
                else:
                    await send_error(counted, 405, f"{path} takes POST, not {method}", headers=[(b"allow", b"POST")])
            elif path == MODELS and method == "GET":
                await send_json(counted, 200, self._models())
                outcome = "ok"
            else:
                await send_error(
                    counted,
                    404,
                    f"{method} {path} is not served here",
                    code="unknown_url",
                    kind="invalid_request_error",
                )
        except Exception:
            # The edge: whatever broke, the client gets an answer it can read.
            logger.exception("request_failed", endpoint=endpoint)
            outcome = "failed"
            if answered:
                raise  # the server cuts an answer off that has begun
            message = "the request could not be handled; the service's log says why"
            await send_error(counted, 500, message, kind="server_error", code="internal_error")
        finally:
            self.in_flight -= 1
            self._metrics.in_flight.dec()
            code = str(answered[0]) if answered else "none"
            self._metrics.requests.labels(endpoint, code, outcome).inc()
            self._metrics.request_seconds.labels(endpoint).observe(time.perf_counter() - started)

    def _models(self) -> dict[str, Any]:
        name = self._settings.model.name
        entry = {"id": name, "object": "model", "created": self._started_at, "owned_by": "secondnature"}
        return {"object": "list", "data": [entry]}

    async def _complete(self, scope: Scope, receive: Receive, send: Send, endpoint: str) -> str:
        """Check a completion request and forward it; returns how it ended."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        exchange_id = uuid.uuid4().hex
        given_id = headers.get("x-request-id", "")
        request_id = given_id if _REQUEST_ID.fullmatch(given_id) else exchange_id
        answer_headers = [(b"x-request-id", request_id.encode())]
        try:
            body = await read_body(headers, receive, self._settings.server.max_request_bytes)
        except RequestTooLargeError as error:
            await send_error(send, 413, str(error), code="request_too_large", headers=answer_headers)
            return "refused"
        if body is None:
            return Status.CLIENT_CANCELLED.value
        read_at = time.perf_counter()
        try:
            request = json_object(body)
        except RecordError as error:
            await send_error(send, 400, str(error), headers=answer_headers)
            return "refused"
        model = request.get("model")
        if not isinstance(model, str) or not model:
            message = "the request names no model: `model` must be a string"
            await send_error(send, 400, message, param="model", headers=answer_headers)
            return "refused"
        if model != self._settings.model.name:
            message = f"The model `{model[:200]}` does not exist; `{self._settings.model.name}` is served here."
            await send_error(send, 404, message, param="model", code="model_not_found", headers=answer_headers)
            return "refused"
        call = self._call(
            path=scope["path"],
            endpoint=endpoint,
            exchange_id=exchange_id,
            request_id=request_id,
            headers=headers,
            request=request,
            request_bytes=len(body),
            read_at=read_at,
        )
        return await self._forward(call, receive, send)

    def _call(
        self,
        *,
        path: str,
        endpoint: str,
        exchange_id: str,
        request_id: str,
        headers: Mapping[str, str],
        request: dict[str, Any],
        request_bytes: int,
        read_at: float,
    ) -> Call:
        tenant = tenant_of(headers)
        named_user = request.get("user") or request.get("safety_identifier")
        user = named_user if isinstance(named_user, str) else None
        session: str | None = None
        key = exchange_id
        try:
            session = explicit_session(headers, request)
            key = route_key(tenant, request, session=session, user=user)
        except Exception as error:  # noqa: BLE001 - what cannot be sorted in passes all the same
            logger.warning("request_without_route", exchange=exchange_id, reason=type(error).__name__)
        return Call(
            id=exchange_id,
            request_id=request_id,
            path=path,
            endpoint=endpoint,
            headers=headers,
            request=request,
            request_bytes=request_bytes,
            tenant=tenant,
            session=session,
            user=user,
            route_key=key,
            sequence=next(self._sequence),
            keep_bytes=self._settings.capture.max_response_bytes if self._recorder else 0,
            started=read_at,
        )

    async def _forward(self, call: Call, receive: Receive, send: Send) -> str:
        """Forward a call until it ends or its client leaves, and record it either way."""
        if self._forwarder is None:
            raise RuntimeError("the proxy was not started")
        if self._recorder is not None:
            self._recorder.begin(call.begun())
        forward = asyncio.create_task(self._forwarder.run(call, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((forward, gone), return_when=asyncio.FIRST_COMPLETED)
            if not forward.done():
                call.failed(Status.CLIENT_CANCELLED, "the client left before the answer was complete")
                forward.cancel()
                await asyncio.wait((forward,))
            if not forward.cancelled():
                forward.result()
        except asyncio.CancelledError:
            call.failed(Status.ABANDONED, "the daemon was stopped before the answer was complete")
            forward.cancel()
            raise
        except BaseException as error:
            call.failed(Status.UPSTREAM_ERROR, f"the proxy failed: {type(error).__name__}")
            raise
        finally:
            gone.cancel()
            self._end(call)
        return call.status.value

    def _end(self, call: Call) -> None:
        if call.first_byte_s is not None:
            self._metrics.first_byte_seconds.labels(call.endpoint).observe(call.first_byte_s)
        if self._recorder is not None:
            self._recorder.end_raw(call.raw())


async def _disconnected(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
