"""Recorded calls: a request and its response, however the recorder laid them out, made into an exchange."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from harness_adapters.adapter import Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange, Sampled, Status
from harness_adapters.ids import stable_id
from harness_adapters.jsontext import mended, parse
from harness_adapters.records import Record, read_records
from harness_adapters.sessions import explicit_session, route_key
from harness_adapters.source import Source
from harness_adapters.times import instant


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call. `streamed` is the raw text of its event stream."""

    request: Mapping[str, Any]
    response: Mapping[str, Any] | None = None
    streamed: str | None = None
    status: int | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def call_of(record: Mapping[str, Any]) -> Call | None:
    """Return the call that a record `{request, response | response_sse, status?, url?, headers?}` holds; None where it
    is of another shape.

    Bodies may be JSON text, or stand under `body`. Raises RecordError when they are neither.
    """
    if "request" not in record:
        return None
    request = _body(record["request"], "request")
    if request is None:
        raise RecordError("its `request` is empty")
    streamed, response, status, headers = (record.get(k) for k in ("response_sse", "response", "status", "headers"))
    if isinstance(response, str) and response.lstrip().startswith(("event:", "data:")):
        streamed = response
    url = record.get("url")
    return Call(
        request=request,
        response=None if isinstance(streamed, str) else _body(response, "response"),
        streamed=streamed if isinstance(streamed, str) else None,
        status=status if type(status) is int else None,
        url=url if isinstance(url, str) else "",
        headers={k: v for k, v in headers.items() if isinstance(v, str)} if isinstance(headers, Mapping) else {},
    )


def _body(value: object, member: str) -> Mapping[str, Any] | None:
    if isinstance(value, str) and value.strip():
        try:
            value = parse(mended(value).encode())
        except RecordError as error:
            raise RecordError(f"its `{member}` is a text that cannot be read: {error}") from error
    if isinstance(value, Mapping) and isinstance(value.get("body"), Mapping | str) and "messages" not in value:
        return _body(cast("Mapping[str, Any]", value)["body"], member)
    if value is None or value == "":
        return None
    if not isinstance(value, Mapping):
        raise RecordError(f"its `{member}` is not an object")
    return value


def make_exchange(
    harness: str,
    record: Record,
    request: Mapping[str, Any],
    response: Mapping[str, Any] | None,
    *,
    endpoint: str,
    headers: Mapping[str, str] | None = None,
    http_status: int | None = None,
    error: str | None = None,
    sampled: Sampled | None = None,
    session: str | None = None,
    user: str | None = None,
    started_at: object = None,
) -> Exchange:
    """Make an exchange of a record's request and response, both in the shape of OpenAI's chat completions.

    `error` says that the call failed, and how. The id comes from the record's content, with its place only where the
    response has no id of its own, so that reading a call twice gives one exchange.
    """
    session = session or explicit_session(headers or {}, request)
    named = user or request.get("user") or request.get("safety_identifier")
    user = named if isinstance(named, str) else None
    response_id = (response or {}).get("id")
    failed = error is not None
    return Exchange(
        id=stable_id("exchange", harness, response_id or record.index, record.raw),
        endpoint=endpoint,
        model=str(request.get("model") or (response or {}).get("model") or "unknown"),
        tenant="default",
        route_key=route_key("default", request, session=session, user=user),
        sequence=record.index,
        status=Status.UPSTREAM_ERROR if failed else Status.OK if response else Status.ABANDONED,
        started_at=instant(started_at) or 0.0,
        request=request,
        response=response,
        sampled=None if failed else sampled,
        session=session,
        user=user,
        harness=harness,
        http_status=http_status,
        error=error,
        place=record.index,
    )


def values_of(source: Source, lists: tuple[str, ...] = ()) -> Iterator[Record | Skipped]:
    """Yield the records of a source that are objects, and a Skipped for what is none."""
    for record in read_records(source.stream, lists):
        if not isinstance(record, Record):
            yield Skipped(record.line, record.reason, record.raw)
        elif not isinstance(record.value, Mapping):
            yield Skipped(record.line, "it is not a JSON object", record.raw)
        else:
            yield record


def error_text(error: object, http_status: int | None) -> str | None:
    """Return what went wrong with a call, by its response's `error` and its HTTP status; None where nothing did."""
    if isinstance(error, Mapping) and error:
        return str(error.get("message") or error)
    if error:
        return str(error)
    return f"HTTP status {http_status}" if http_status is not None and http_status >= 400 else None
