"""From the bytes the proxy kept to an Exchange. Runs in the recorder's thread."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import orjson
import structlog

from daemon.encoding import TooDeepError
from daemon.exchange_raw import RawExchange
from daemon.log import LogRecord
from daemon.log_records import record_of
from daemon.sse import ID_MEMBERS, holders
from harness_adapters.exchange import Exchange, Sampled, Status, exchange_json
from harness_adapters.openai_chat import sampled_of
from harness_adapters.streams import assemble, chunks_of, sse_events

DONE = "[DONE]"

logger = structlog.get_logger()


def exchange_of(raw: RawExchange) -> Exchange:
    """Read a raw exchange. Never raises for what an upstream sent: what cannot be read is said in `error`."""
    status, error = raw.status, raw.error
    response: Mapping[str, Any] | None = None
    sampled: Sampled | None = None
    if raw.truncated:
        error = error or "the response was longer than capture.max_response_bytes; its content was not kept"
    elif raw.body:
        try:
            response, fault = _streamed(raw.body) if raw.streamed else _whole(raw.body)
            if status is Status.CLIENT_CANCELLED and raw.streamed and not fault:
                # The client had the last event and hung up before the connection was closed: it has its answer.
                status, error = Status.OK, None
            sampled = _sampled(response) if status is Status.OK and not fault else None
        except Exception as failure:  # noqa: BLE001 - an upstream may send anything; its record must be made
            fault = f"the engine's answer has an unknown shape: {type(failure).__name__}"
        if status is Status.OK and fault:
            status, error = Status.UPSTREAM_ERROR, fault
    if response is not None:
        for holder in holders(response):
            for name in ID_MEMBERS:
                holder.pop(name, None)
    return Exchange(
        id=raw.id,
        endpoint=raw.endpoint,
        model=raw.model,
        tenant=raw.tenant,
        route_key=raw.route_key,
        sequence=raw.sequence,
        status=status,
        started_at=raw.started_at,
        request=raw.request,
        response=response,
        sampled=sampled,
        version=raw.version,
        session=raw.session,
        user=raw.user,
        http_status=raw.http_status,
        error=error,
        first_byte_s=raw.first_byte_s,
        duration_s=raw.duration_s,
    )


def _streamed(body: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return the answer that the events make and what was wrong with them."""
    chunks = chunks_of(body)
    told = next((chunk["error"] for chunk in chunks if chunk.get("error")), None)
    parts = [chunk for chunk in chunks if not chunk.get("error")]
    response = assemble(parts) if parts else None
    if told is not None:
        return response, f"the engine sent an error in its stream: {_message(told)}"
    if DONE not in sse_events(body):
        return response, "the engine's stream ended before it was done"
    return response, None


def _whole(body: bytes) -> tuple[dict[str, Any] | None, str | None]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None, "the engine's answer is not JSON"
    if not isinstance(parsed, dict):
        return None, "the engine's answer is not a JSON object"
    return cast(dict[str, Any], parsed), None


def _sampled(response: Mapping[str, Any] | None) -> Sampled | None:
    # Log-probabilities that a client asked for need not be of the distribution sampled from: they are left out.
    found = sampled_of(response) if response is not None else None
    return replace(found, logprobs=None) if found else None


def _message(error: object) -> str:
    if isinstance(error, Mapping):
        return str(cast(Mapping[str, Any], error).get("message", ""))[:1000]
    return str(error)[:1000]


def recorded(ended: Exchange | RawExchange) -> tuple[Exchange, LogRecord, str]:
    """Return an exchange, its record, and why that is without content, if it is."""
    try:
        exchange = exchange_of(ended) if isinstance(ended, RawExchange) else ended
        return exchange, record_of(exchange), ""
    except Exception as error:  # noqa: BLE001 - a record without content is better than none
        reason = "too_deep" if isinstance(error, TooDeepError) else "not_json"
        logger.warning("exchange_without_content", exchange=ended.id, reason=reason, error=type(error).__name__)
    exchange = without_content(ended, reason)
    return exchange, record_of(exchange), reason


def without_content(ended: Exchange | RawExchange, reason: str) -> Exchange:
    """Return the terminal record of an exchange whose content cannot be kept."""
    exchange = exchange_of(replace(ended, body=b"")) if isinstance(ended, RawExchange) else ended
    return replace(exchange, request={}, response=None, sampled=None, error=f"content not recorded: {reason}")


def stub_of(record: LogRecord, reason: str) -> LogRecord:
    """Return an exchange's record without its content; feedback, which is short, as it is."""
    if record.kind != "exchange":
        return record
    return record_of(without_content(exchange_json.validate_json(record.value), reason))
