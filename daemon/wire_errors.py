"""Errors in the shape of the API that was called: OpenAI's."""

from typing import Any

from starlette.types import Send

from daemon.body import encode_json

CONTROL_HEADER = "x-secondnature-control"
"""Stands in what the control routes answer, so that the command can tell a daemon from any other server of JSON."""

Headers = list[tuple[bytes, bytes]]


def error_body(message: str, kind: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the error object that OpenAI's clients read."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_event(message: str, code: str) -> bytes:
    """Return the server-sent event that tells a stream's reader that no more will come."""
    return b"data: " + encode_json(error_body(message, "upstream_error", code=code)) + b"\n\n"


async def send_error(
    send: Send,
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Headers | None = None,
) -> None:
    """Send a whole error response."""
    await send_json(send, status, error_body(message, kind, param=param, code=code), headers)


async def send_json(send: Send, status: int, value: dict[str, Any], headers: Headers | None = None) -> None:
    """Send a whole JSON response."""
    await send_whole(send, status, encode_json(value), [(b"content-type", b"application/json"), *(headers or [])])


async def send_whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a whole response and its length."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
