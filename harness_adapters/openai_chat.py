"""OpenAI's chat completions: sampled ids out of an answer, and recorded files read as exchanges.

A file holds JSON objects, one a line or in one list, of any of these shapes: a request body; a response body; a
recorded call `{request, response | response_sse, url?, status?}`; a conversation `{messages, tools?}` as used for
fine-tuning, whose last assistant message is taken as the answer; the chunks of streamed answers. A conversation that
was exported here is read as the trace that it was.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

from harness_adapters.adapter import Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange, Sampled
from harness_adapters.extra import NAMESPACE, Retold
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.messages import messages_of
from harness_adapters.recorded import Call, call_of, error_text, make_exchange, values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.streams import assemble, chunks_of
from harness_adapters.trace import Message, Trace

CHUNK = "chat.completion.chunk"
MAX_STREAMS = 100
"""How many answers may come at the same time."""


def sampled_of(response: Mapping[str, Any]) -> Sampled | None:
    """Return the ids that vLLM reports for the first choice when asked for `return_token_ids`.

    None unless both prompt and completion ids are there, are ids, and agree with `usage.completion_tokens` where that
    is given; nothing is padded or guessed. Log-probabilities are those of the chosen tokens, and are left out unless
    there is a finite one for each id; whether they are of the distribution sampled from, the caller has to know.
    """
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(c, Mapping) for c in choices):
        return None
    first = cast("Mapping[str, Any]", choices[0])
    prompt = _ids(response.get("prompt_token_ids") or first.get("prompt_token_ids"))
    completions = [_ids(choice.get("token_ids")) for choice in choices]
    if prompt is None or completions[0] is None:
        return None
    usage = response.get("usage")
    told = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if told is not None and told != sum(len(ids or ()) for ids in completions):
        return None
    return Sampled(
        prompt_ids=prompt, completion_ids=completions[0], logprobs=_logprobs(first.get("logprobs"), len(completions[0]))
    )


def _ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value or not all(type(item) is int and item >= 0 for item in value):
        return None
    return tuple(cast("list[int]", value))


def _logprobs(value: object, length: int) -> tuple[float, ...] | None:
    if not isinstance(value, Mapping):
        return None
    content = value.get("content")
    if isinstance(content, list):
        found: list[Any] = [item.get("logprob") if isinstance(item, Mapping) else None for item in content]
    else:
        tokens = value.get("token_logprobs")
        found = cast("list[Any]", tokens) if isinstance(tokens, list) else []
    if len(found) != length or not all(isinstance(p, int | float) and math.isfinite(p) for p in found):
        return None
    return tuple(float(p) for p in found)


class OpenAIChat:
    """Reads recorded chat completions."""

    name = "openai_chat"
    unit = "exchange"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records has one of the shapes read here."""
        for record in head.objects():
            if _is_exported(record):
                return True
            try:
                _parts(record)
            except RecordError:
                continue
            return True
        return False

    def read(self, source: Source) -> Iterator[Trace | Exchange | Skipped]:
        """Yield the source's exchanges, and the traces that were exported."""
        streams = _Streams()
        for record in values_of(source):
            if isinstance(record, Record) and record.value.get("object") == CHUNK:
                yield from streams.add(record)
                continue
            yield from streams.end()
            if isinstance(record, Skipped):
                yield record
            elif _is_exported(record.value):
                yield _retold(record)
            else:
                try:
                    yield _exchange(record, _parts(record.value))
                except RecordError as error:
                    yield Skipped(record.line, str(error), record.raw)
        yield from streams.end()


class _Streams:
    """The chunks of streamed answers, which may be mixed: those of one answer have an id, or none."""

    def __init__(self) -> None:
        self._open: dict[str, list[Record]] = {}
        self._unfinished: dict[object, bool] = {}
        """Whether each choice of the answer without an id is still being written."""

    def add(self, record: Record) -> Iterator[Exchange]:
        """Take in a chunk; yield what answers are no longer waited for."""
        key, choices = text(record.value.get("id")), mappings(record.value.get("choices"))
        if not key and choices:
            if self._unfinished and not any(self._unfinished.values()):
                yield from self._answer("")
                self._unfinished = {}
            self._unfinished |= {str(choice.get("index")): not choice.get("finish_reason") for choice in choices}
        elif len(self._open) > MAX_STREAMS and key not in self._open:
            yield from self._answer(next(iter(self._open)))
        self._open.setdefault(key, []).append(record)

    def end(self) -> Iterator[Exchange]:
        """Yield what answers there are."""
        for key in list(self._open):
            yield from self._answer(key)

    def _answer(self, key: str) -> Iterator[Exchange]:
        if chunks := self._open.pop(key, []):
            yield _exchange(chunks[0], Call({}, assemble([chunk.value for chunk in chunks])))


def _exchange(record: Record, call: Call) -> Exchange:
    response = call.response
    if call.streamed is not None:
        chunks = chunks_of(call.streamed.encode("utf-8", "replace"))
        response = assemble(chunks) if chunks else None
    error = error_text((response or {}).get("error"), call.status)
    return make_exchange(
        OpenAIChat.name,
        record,
        call.request,
        response,
        endpoint=_endpoint(call.url, call.request, response),
        headers=call.headers,
        http_status=call.status,
        error=error,
        sampled=sampled_of(response) if response else None,
        started_at=(response or {}).get("created"),
    )


def _is_exported(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get(NAMESPACE), Mapping) and isinstance(record.get("messages"), list)


def _retold(record: Record) -> Trace:
    extra = mapping(record.value[NAMESPACE])
    beside = mappings(extra.get("turns"))
    retold = Retold(extra)
    for at, message in enumerate(messages_of(record.value)):
        retold.add(message, beside[at] if at < len(beside) else {}, record.index)
    return retold.trace(OpenAIChat.name, None, mappings(record.value.get("tools")))


def _parts(record: Mapping[str, Any]) -> Call:
    """Return the call of a record. Raises RecordError when its shape is none of ours."""
    call = call_of(record)
    if call is not None:
        if "messages" in call.request:
            _messages(call.request)
        elif not isinstance(call.request.get("prompt"), list | str):
            raise RecordError("its `request` holds neither messages nor a prompt")
        return call
    if isinstance(record.get("messages"), list):
        return _conversation(record)
    if isinstance(record.get("choices"), list):
        return Call({}, record)
    raise RecordError("it is neither a request, a response, a recorded call nor a conversation")


def _conversation(record: Mapping[str, Any]) -> Call:
    messages = _messages(record)
    if messages[-1]["role"] != "assistant":
        return Call(record)
    answer: dict[str, Any] = {"choices": [{"index": 0, "message": messages[-1], "finish_reason": None}]}
    return Call({**record, "messages": messages[:-1]}, answer)


def _messages(request: Mapping[str, Any]) -> list[Message]:
    """Return a request's messages. Raises RecordError where there is none, or one is none."""
    messages = messages_of(request)
    if not messages or len(messages) != len(request["messages"]):
        raise RecordError("its `messages` are not a list of one or more objects")
    if not all(isinstance(message.get("role"), str) for message in messages):
        raise RecordError("one of its messages has no role")
    return messages


def _endpoint(url: str, request: Mapping[str, Any], response: Mapping[str, Any] | None) -> str:
    if "/v1/" in url:
        return "/v1/" + url.split("/v1/", 1)[1].split("?", 1)[0]
    is_text = "prompt" in request or (response or {}).get("object") == "text_completion"
    return "/v1/completions" if is_text else "/v1/chat/completions"
