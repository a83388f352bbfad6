"""LiteLLM's StandardLoggingPayload, one for each call that went through its proxy or library.

Read are chat completions, text completions, Responses and Anthropic messages, each in its own shape, and failed calls,
which have no response. Embeddings, pictures, files and the like are no conversation and are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from harness_adapters import anthropic_blocks, response_items
from harness_adapters.adapter import Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange, Status, exchange_json
from harness_adapters.fields import mapping, mappings, quoted, text
from harness_adapters.gather import Gather
from harness_adapters.jsontext import value_in
from harness_adapters.notes import Notes
from harness_adapters.openai_chat import sampled_of
from harness_adapters.recorded import make_exchange, values_of
from harness_adapters.records import Record
from harness_adapters.server_tools import each_answer, last_answer
from harness_adapters.sessions import explicit_session, route_key
from harness_adapters.source import Head, Source

_REDACTED = "redacted-by-litellm"
_MEMBERS = ("litellm_call_id", "trace_id", "hidden_params", "model_map_information", "response_cost")
_LEFT_OUT = re.compile(
    r"embedding|image|moderation|transcription|speech|rerank|search|batch|assistant|thread|get_messages|add_message|file"
    r"|fine_tuning|video|vector_store|container|sandbox|run_code|ocr|mcp_tool|skill|client_secret|_calls$"
    r"|^a?(ingest|query)$|(get|delete|cancel|compact)_responses|list_input_items"
)
_ENDPOINTS = {"responses": "/v1/responses", "messages": "/v1/messages", "text": "/v1/completions"}


class LiteLLM:
    """Reads LiteLLM's logs."""

    name = "litellm"
    unit = "exchange"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is a payload."""
        return any(_is_payload(_payload(record)) for record in head.objects())

    def read(self, source: Source) -> Iterator[Exchange | Skipped]:
        """Yield what cannot be read, then the source's exchanges.

        LiteLLM makes up a `trace_id` where the client named none, and gives it to the retries of a call. It names a
        session only where two calls of it succeeded, which is known at the end.
        """
        notes = Notes()
        with Gather() as gather:
            for record in values_of(source):
                if isinstance(record, Skipped):
                    yield record
                    continue
                payload = _payload(record.value)
                kind = str(payload.get("call_type"))
                if not _is_payload(payload):
                    yield Skipped(record.line, "it is not a StandardLoggingPayload: it has no call_type", record.raw)
                elif _LEFT_OUT.search(kind):
                    continue
                elif _holds(payload.get("messages"), _REDACTED) or _holds(payload.get("response"), _REDACTED):
                    reason = "LiteLLM was told not to log its texts; nor are such records behind it read"
                    yield from notes.once(reason, record)
                else:
                    try:
                        exchanges = list(_exchanges(record, payload))
                    except RecordError as error:
                        reason = f"{error} (call_type {quoted(kind)}; others like it are not told)"
                        yield from notes.once(reason, record)
                    else:
                        _keep(gather, text(payload.get("trace_id")), exchanges)
            yield from _kept(gather)


def _payload(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload, which some loggers put among the arguments of the call."""
    return mapping(record.get("standard_logging_object")) or record


def _is_payload(payload: Mapping[str, Any]) -> bool:
    return isinstance(payload.get("call_type"), str) and any(name in payload for name in _MEMBERS)


def _holds(value: object, sought: str) -> bool:
    """Say whether a text is one of those in a value."""
    if isinstance(value, Mapping | list):
        inner = value.values() if isinstance(value, Mapping) else cast("list[object]", value)
        return any(_holds(item, sought) for item in inner)
    return value == sought


def _keep(gather: Gather, trace_id: str, exchanges: list[Exchange]) -> None:
    new = [e for e in exchanges if gather.put(e.id, trace_id, exchange_json.dump_json(e))]
    if trace_id and any(exchange.status is Status.OK for exchange in new):
        gather.note(f"trace {trace_id}", "many" if gather.noted(f"trace {trace_id}") else "one")


def _kept(gather: Gather) -> Iterator[Exchange]:
    for _, (body, *_) in gather.groups():
        exchange = exchange_json.validate_json(body)
        trace_id = text(exchange.request.get("litellm_trace_id"))
        if exchange.session is None and gather.noted(f"trace {trace_id}") == "many":
            key = route_key(exchange.tenant, exchange.request, session=trace_id, user=exchange.user)
            exchange = replace(exchange, session=trace_id, route_key=key)
        yield exchange


def _exchanges(record: Record, payload: Mapping[str, Any]) -> Iterator[Exchange]:
    """Yield the exchanges of a payload. Raises RecordError when its shape is none of ours."""
    kind, failed = str(payload.get("call_type")), payload.get("status") == "failure"
    response = _read(payload.get("response"))
    request, said = _request(payload, kind), list[dict[str, Any]]()
    shape = (
        "responses" if "responses" in kind else "messages" if "anthropic" in kind else "text" if "text" in kind else ""
    )
    answer: Mapping[str, Any] | None = None
    if isinstance(response, str) and response:
        answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": response}}]}
    elif mappings(mapping(response).get("choices")):
        answer = mapping(response)
    elif isinstance(mapping(response).get("output"), list):
        said = response_items.chat_messages(mapping(response)["output"])
        answer = response_items.chat_response(mapping(response), last_answer(said))
    elif isinstance(mapping(response).get("content"), list):
        said = anthropic_blocks.answer_messages(mapping(response)["content"])
        answer = anthropic_blocks.chat_response(mapping(response), last_answer(said))
    elif response and not failed:
        raise RecordError("its response is neither an answer in chat shape, nor one of Responses or of Anthropic")
    if not request.get("messages") and not request.get("prompt") and answer is None:
        raise RecordError("it holds neither messages nor a response that can be read")
    metadata = mapping(payload.get("metadata"))
    headers = {k: v for k, v in mapping(metadata.get("requester_custom_headers")).items() if isinstance(v, str)}
    named = {"metadata": metadata.get("requester_metadata")}
    code = text(mapping(payload.get("error_information")).get("error_code"))
    users = [
        text(payload.get("end_user")),
        *(text(metadata.get(f"user_api_key_{who}_id")) for who in ("end_user", "user")),
    ]
    exchange = make_exchange(
        LiteLLM.name,
        record,
        request,
        answer,
        endpoint=_ENDPOINTS.get(shape, "/v1/chat/completions"),
        http_status=int(code) if code.isdecimal() and len(code) == 3 else None,
        error=_error(payload) if failed else None,
        sampled=sampled_of(answer) if answer else None,
        session=text(payload.get("session_id")) or explicit_session(headers, named) or None,
        user=next((user for user in users if user not in ("", "default_user_id")), None),
        started_at=payload.get("startTime"),
    )
    yield from each_answer(exchange, said)


def _request(payload: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the request in chat shape. The proxy logs instructions as a first system message."""
    given, parameters = _read(payload.get("messages")), mapping(payload.get("model_parameters"))
    inner = mapping(given)
    body = {**parameters, "model": payload.get("model"), "litellm_trace_id": payload.get("trace_id")}
    held = (
        inner.get("messages") or inner.get("input") or ([inner] if inner.get("role") else None) or inner.get("prompt")
    )
    given = held if inner else given
    if "responses" in kind:
        return response_items.chat_request({**body, "input": given})
    if "text" in kind:  # whose prompt is no conversation
        return {**body, "prompt": given}
    messages = [{"role": "user", "content": given}] if isinstance(given, str) and given else mappings(given)
    if "anthropic" in kind:
        if messages and messages[0].get("role") == "system":
            body.pop("system", None)
        return anthropic_blocks.chat_request({**body, "messages": messages})
    return {**body, "messages": messages}


def _read(value: object) -> object:
    """Return a value that some loggers write as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        found = value_in(value)
        return value if found is None else found
    return value


def _error(payload: Mapping[str, Any]) -> str:
    found = text(mapping(payload.get("error_information")).get("error_message")) or text(payload.get("error_str"))
    return found or "LiteLLM says that the call failed"
