"""Anthropic's Messages API: recorded calls, as a proxy or a test recorder keeps them.

A file holds JSON objects, one a line or in one list, of any of these shapes: a recorded call `{request, response |
response_sse, url?, status?, headers?}`; a request body; a response body. Streams are raw server-sent events, with an
`error` event where the call failed after it had begun. Counting tokens is no call of the model and is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness_adapters.adapter import Skipped
from harness_adapters.anthropic_blocks import answer_messages, chat_request, chat_response, message_of
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.recorded import Call, call_of, error_text, make_exchange, values_of
from harness_adapters.records import Record
from harness_adapters.server_tools import each_answer, last_answer
from harness_adapters.source import Head, Source
from harness_adapters.streams import chunks_of

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use")
_COUNTING = "/count_tokens"


class AnthropicMessages:
    """Reads recorded calls of the Messages API."""

    name = "anthropic_messages"
    unit = "exchange"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records has what only this API has."""
        return any(_is_ours(record) for record in head.objects())

    def read(self, source: Source) -> Iterator[Exchange | Skipped]:
        """Yield the source's exchanges; a call in which the server ran tools makes several."""
        for record in values_of(source):
            if isinstance(record, Skipped):
                yield record
                continue
            try:
                call = _call(record.value)
            except RecordError as error:
                yield Skipped(record.line, str(error), record.raw)
            else:
                if _COUNTING not in call.url:
                    yield from _exchanges(record, call)


def _exchanges(record: Record, call: Call) -> Iterator[Exchange]:
    message = call.response
    if call.streamed is not None:
        events = chunks_of(call.streamed.encode("utf-8", "replace"))
        message = message_of(events) if events else None
    said = answer_messages(message["content"]) if message and message.get("content") else []
    exchange = make_exchange(
        AnthropicMessages.name,
        record,
        chat_request(call.request),
        chat_response(message, last_answer(said)) if message else None,
        endpoint="/v1/messages",
        headers=call.headers,
        http_status=call.status,
        error=error_text((message or {}).get("error"), call.status),
    )
    yield from each_answer(exchange, said)


def _call(record: Mapping[str, Any]) -> Call:
    """Return the call of a record. Raises RecordError when its shape is none of ours."""
    call = call_of(record)
    if call is None and isinstance(record.get("messages"), list):
        call = Call(record)
    if call is None and (_is_message(record) or record.get("type") == "error"):
        return Call({}, record)
    if call is None:
        raise RecordError("it is neither a request, a response nor a recorded call of the Messages API")
    if not isinstance(call.request.get("messages"), list):
        raise RecordError("its `request` holds no messages")
    return call


def _is_ours(record: Mapping[str, Any]) -> bool:
    try:
        call = _call(record)
    except RecordError:
        return False
    url = call.url.partition("?")[0]
    return (
        url.endswith(("/v1/messages", _COUNTING))
        or any(name.lower() == "anthropic-version" for name in call.headers)
        or _is_message(mapping(call.response))
        or (call.streamed is not None and '"message_start"' in call.streamed)
        or _is_request(call.request)
    )


def _is_message(value: Mapping[str, Any]) -> bool:
    return (
        value.get("type") == "message" and value.get("role") == "assistant" and isinstance(value.get("content"), list)
    )


def _is_request(body: Mapping[str, Any]) -> bool:
    blocks = (block for message in mappings(body.get("messages")) for block in mappings(message.get("content")))
    return (
        any(block.get("type") in _BLOCKS for block in blocks)
        or any("input_schema" in tool and text(tool.get("name")) for tool in mappings(body.get("tools")))
        or ("system" in body and "max_tokens" in body and isinstance(body["system"], str | list))
    )
