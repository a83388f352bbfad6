"""OpenAI's Responses API: recorded calls, as a proxy or a test recorder keeps them.

A file holds JSON objects, one a line or in one list, of any of these shapes: a recorded call `{request, response |
response_sse, url?, status?, headers?}`; a request body; a response body; the events of streamed responses. A request
that names a `previous_response_id` holds only what is new: the calls of such a chain, in whatever order they stand in
the file, are read as the trace of one session, named by its first response.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness_adapters.adapter import Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange
from harness_adapters.fields import mapping, mappings, quoted, text
from harness_adapters.notes import Notes
from harness_adapters.recorded import Call, call_of, error_text, make_exchange, values_of
from harness_adapters.records import Record
from harness_adapters.response_chain import Chains
from harness_adapters.response_items import (
    HIDDEN,
    chat_messages,
    chat_request,
    chat_response,
    response_of,
    unknown_items,
)
from harness_adapters.server_tools import last_answer
from harness_adapters.source import Head, Source
from harness_adapters.streams import chunks_of
from harness_adapters.trace import Trace

_ECHOED = ("model", "instructions", "tools", "previous_response_id", "conversation", "metadata", "user")
"""What a response repeats of its request."""


class OpenAIResponses:
    """Reads recorded calls of the Responses API."""

    name = "openai_responses"
    unit = "exchange"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records has what only this API has."""
        return any(_is_ours(record) for record in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Exchange | Skipped]:
        """Yield what cannot be read, then the traces of the source's chains and the exchanges that are of none."""
        notes = Notes()
        with Chains() as chains:
            for item in _calls(source):
                if isinstance(item, Skipped):
                    yield item
                    continue
                record, call = item
                for kind in sorted(_unknown(call)):
                    reason = f"items of type {quoted(kind)} are not known to this version; what they say is left out"
                    yield from notes.once(reason, record)
                _add(chains, record, call)
            yield from chains.sessions()


def _calls(source: Source) -> Iterator[tuple[Record, Call] | Skipped]:
    events: list[Record] = []
    for record in values_of(source):
        is_event = isinstance(record, Record) and _is_event(record.value)
        begins = is_event and isinstance(record, Record) and record.value["type"] == "response.created"
        if events and (begins or not is_event):
            yield events[0], _answered(response_of(event.value for event in events))
            events = []
        if isinstance(record, Skipped):
            yield record
        elif is_event:
            events.append(record)
        else:
            try:
                yield record, _call(record.value)
            except RecordError as error:
                yield Skipped(record.line, str(error), record.raw)
    if events:
        yield events[0], _answered(response_of(event.value for event in events))


def _call(record: Mapping[str, Any]) -> Call:
    """Return the call of a record. Raises RecordError when its shape is none of ours."""
    call = call_of(record)
    if call is None and _is_response(record):
        return _answered(record)
    if call is None and _is_request(record):
        return Call(record)
    if call is None or not _is_call(call):
        raise RecordError("it is neither a request, a response, an event nor a recorded call of the Responses API")
    if call.streamed is None:
        return call
    events = chunks_of(call.streamed.encode("utf-8", "replace"))
    return replace(call, streamed=None, response=response_of(events) if events else None)


def _answered(response: Mapping[str, Any]) -> Call:
    """Return the call of a response that stands alone, with what it repeats of its request."""
    return Call({name: response[name] for name in _ECHOED if response.get(name)}, response)


def _unknown(call: Call) -> set[str]:
    return unknown_items(call.request.get("input")) | unknown_items((call.response or {}).get("output"))


def _add(chains: Chains, record: Record, call: Call) -> None:
    request, response = chat_request(call.request), call.response or {}
    new, said = chat_messages(call.request.get("input")), chat_messages(response.get("output"))
    hidden = any(item.get("type") in HIDDEN for item in mappings(call.request.get("input")))
    if hidden or "input" not in call.request:  # what was said is not recorded
        request.setdefault("conversation", "not recorded")
    exchange = make_exchange(
        OpenAIResponses.name,
        record,
        request,
        chat_response(response, last_answer(said)) if said or response.get("error") else None,
        endpoint="/v1/responses",
        headers=call.headers,
        http_status=call.status,
        error=error_text(response.get("error") or _failure(response), call.status),
        started_at=response.get("created_at"),
    )
    chains.add(
        exchange,
        response=text(response.get("id")),
        parent=text(request.get("previous_response_id")),
        conversation=_conversation(call.request) or _conversation(response),
        new=new,
        said=said,
    )


def _failure(response: Mapping[str, Any]) -> str | None:
    status = response.get("status")
    return f"the response is {status}" if status in ("failed", "cancelled") else None


def _conversation(body: Mapping[str, Any]) -> str:
    named = body.get("conversation")
    return text(named) or text(mapping(named).get("id"))


def _is_ours(record: Mapping[str, Any]) -> bool:
    if _is_event(record) or _is_response(record):
        return True
    try:
        _call(record)
    except RecordError:
        return False
    return True


def _is_event(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    members = ("response", "item", "item_id", "output_index", "sequence_number")
    if kind == "error":
        return "sequence_number" in value
    return isinstance(kind, str) and kind.startswith("response.") and any(name in value for name in members)


def _is_response(value: Mapping[str, Any]) -> bool:
    return value.get("object") == "response" and isinstance(value.get("output"), list)


def _is_call(call: Call) -> bool:
    url = call.url.partition("?")[0]
    return (
        url.endswith("/responses")
        or _is_response(call.response or {})
        or (call.streamed is not None and '"response.created"' in call.streamed)
        or _is_request(call.request)
    )


def _is_request(body: Mapping[str, Any]) -> bool:
    """Say whether a body is a request: embeddings have a `model` and an `input` too, but no items."""
    given = body.get("input")
    if not isinstance(body.get("model"), str) or any(name in body for name in ("messages", "output", "traceId")):
        return False
    if isinstance(given, str):
        return "instructions" in body or "previous_response_id" in body
    items = mappings(given)
    return bool(items) and all(isinstance(item.get("role") or item.get("type"), str) for item in items)
