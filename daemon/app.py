"""The service's one ASGI application: `/v1` goes straight to the proxy, everything else to FastAPI."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.api import Parts, admin_guard, body_reader, flaws, make_router
from daemon.body import RequestTooLargeError
from daemon.health import Health
from daemon.logs import get_logger
from daemon.metrics import CONTENT_TYPE, Metrics
from daemon.otlp import ROUTE, make_otlp_router
from daemon.proxy import Proxy
from daemon.wire_errors import error_body, send_error, send_json
from harness_adapters.errors import (
    AliasMovedError,
    CheckpointError,
    EngineError,
    LogUnavailableError,
    RecordError,
    SecondNatureError,
    StoreUnavailableError,
)

CONTROL_UNDER_V1 = ("/v1/feedback", ROUTE)
GUARDED = ("/api", "/metrics")
RETRY_AFTER = {"Retry-After": "5"}
LOOPBACK_NAMES = frozenset(("127.0.0.1", "localhost", "::1"))

logger = get_logger(__name__)


def create_app(parts: Parts, health: Health, metrics: Metrics, proxy: Proxy | None) -> ASGIApp:
    """Return the application. Without a proxy (a worker's process) `/v1` answers 503."""
    control = FastAPI(title="Second Nature", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    control.include_router(make_router(parts))
    limit = parts.settings.server.max_request_bytes
    foreign = metrics.stages.labels("export", "foreign")
    control.include_router(make_otlp_router(parts.recorder, body_reader(limit), limit, foreign))

    @control.exception_handler(SecondNatureError)
    async def failed(request: Request, error: SecondNatureError) -> JSONResponse:
        status = status_of(error)
        if status == 500:
            logger.error("control_failed", path=request.url.path, reason=str(error), exc_info=error)
        return _refusal(request, status, str(error), RETRY_AFTER if status == 503 else None)

    @control.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return _refusal(request, error.status_code, error.detail, error.headers)

    @control.exception_handler(RequestValidationError)
    async def unusable(request: Request, error: RequestValidationError) -> JSONResponse:
        return _refusal(request, 422, flaws(error.errors()), None)

    @control.get("/healthz")
    def healthz() -> dict[str, str]:
        """Say that the process lives."""
        return {"status": "ok"}

    @control.get("/readyz")
    def readyz() -> JSONResponse:
        """Say whether the process can do its work, and if not why."""
        checks = health.checks()
        ready = all(check.ok for check in checks.values())
        told = {name: {"ok": check.ok, "reason": check.reason} for name, check in checks.items()}
        return JSONResponse({"ready": ready, "checks": told}, status_code=200 if ready else 503)

    @control.get("/metrics", dependencies=[Depends(admin_guard(parts.settings))])
    def show_metrics() -> Response:
        """Return Prometheus metrics."""
        health.observe()
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    needs_loopback_name = parts.settings.server.admin_token is None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await control(scope, receive, send)
        elif _is_model_route(scope["path"]):
            if proxy is not None:
                await proxy(scope, receive, send)
            else:
                message = "this process has no proxy role; ask one that has"
                await send_error(send, 503, message, kind="upstream_error", code="no_proxy_role")
        elif scope["path"].startswith(GUARDED) and (
            fault := _foreign_page(scope["headers"], needs_loopback_name=needs_loopback_name)
        ):
            await send_json(send, 403, {"detail": fault})
        else:
            await control(scope, receive, send)

    return app


def status_of(error: SecondNatureError) -> int:
    """Return the HTTP status that tells a client what it can do about an error."""
    match error:
        case RequestTooLargeError():
            return 413
        case RecordError():
            return 422
        case StoreUnavailableError() | LogUnavailableError():
            return 503
        case AliasMovedError() | EngineError() | CheckpointError():
            return 409
        case _:
            return 500


def _refusal(request: Request, status: int, message: str, headers: Mapping[str, str] | None) -> JSONResponse:
    body: dict[str, Any] = {"detail": message}
    if request.url.path.startswith("/v1/"):
        body = error_body(message, "invalid_request_error" if status < 500 else "server_error")
    return JSONResponse(body, status, dict(headers or {}))


def _is_model_route(path: str) -> bool:
    return (path == "/v1" or path.startswith("/v1/")) and path not in CONTROL_UNDER_V1


def _foreign_page(headers: Sequence[tuple[bytes, bytes]], *, needs_loopback_name: bool) -> str | None:
    """Say why a request looks like a web page's of another origin, None when it does not.

    A browser on this machine reaches loopback too: a page must not, be it by a plain form (other origin) or by a name
    of its own that it lets point here (DNS rebinding).
    """
    given = {name: value.decode("latin-1") for name, value in headers}
    host = given.get(b"host", "")
    origin = given.get(b"origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return f"control routes do not answer pages of another origin ({origin[:200]})"
    if needs_loopback_name and urlsplit(f"//{host}").hostname not in LOOPBACK_NAMES:
        return "control routes answer to 127.0.0.1 and localhost only until server.admin_token is set"
    return None
