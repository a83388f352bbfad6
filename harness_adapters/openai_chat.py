"""OpenAI's chat completions: sampled ids out of an answer, and recorded files read as exchanges.

A file holds one JSON object a line, of any of these shapes: a request body; a response body; a recorded call
`{request, response | response_sse, url?, status?}`; a conversation `{messages, tools?}` as used for fine-tuning, whose
last assistant message is taken as the answer.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange, Sampled, Status
from harness_adapters.ids import stable_id
from harness_adapters.messages import messages_of
from harness_adapters.sessions import explicit_session, route_key
from harness_adapters.streams import assemble, chunks_of, sse_events

__all__ = ["OpenAIChat", "assemble", "chunks_of", "sampled_of", "sse_events"]

MAX_LINE_BYTES = 64 << 20


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
    """Reads recorded chat completions, one JSON object a line, in memory that does not grow with the file."""

    name = "openai_chat"

    def recognises(self, head: bytes) -> bool:
        """Say whether any of the file's first lines has one of the shapes read here."""
        for line in head.splitlines()[:20]:
            try:
                _parts(_parse(line))
            except RecordError:
                continue
            return True
        return False

    def read(self, path: Path) -> Iterator[Exchange | Skipped]:
        """Yield the file's exchanges; a line that cannot be read is yielded as Skipped, with its reason."""
        with path.open("rb") as stream:
            yield from self.read_stream(stream)

    def read_stream(self, stream: BinaryIO) -> Iterator[Exchange | Skipped]:
        """Yield the exchanges of an open file, as `read` does."""
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MAX_LINE_BYTES)
                yield Skipped(number, f"the line is longer than {MAX_LINE_BYTES} bytes")
            elif line.strip():
                try:
                    yield _exchange(line.strip(), number)
                except RecordError as error:
                    yield Skipped(number, str(error))


def _exchange(line: bytes, number: int) -> Exchange:
    record = _parse(line)
    request, response, http_status = _parts(record)
    headers = record.get("headers")
    strings = {k: v for k, v in headers.items() if isinstance(v, str)} if isinstance(headers, Mapping) else {}
    session, user = explicit_session(strings, request), request.get("user")
    user = user if isinstance(user, str) else None
    error = (response or {}).get("error")
    failed = bool(error) or (http_status is not None and http_status >= 400)
    status = Status.UPSTREAM_ERROR if failed else Status.OK if response else Status.ABANDONED
    return Exchange(
        id=stable_id("exchange", "openai_chat", number, line.decode()),
        endpoint=_endpoint(record.get("url"), request, response),
        model=str(request.get("model") or (response or {}).get("model") or "unknown"),
        tenant="default",
        route_key=route_key("default", request, session=session, user=user),
        sequence=number,
        status=status,
        started_at=_seconds((response or {}).get("created")),
        request=request,
        response=response,
        sampled=None if failed or response is None else sampled_of(response),
        session=session,
        user=user,
        http_status=http_status,
        error=_error_text(error, http_status) if failed else None,
        place=f"line {number}",
    )


def _parts(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, int | None]:
    """Return request, response and HTTP status of a record. Raises RecordError when its shape is none of ours."""
    if "request" in record:
        request = record["request"]
        if not isinstance(request, Mapping) or not isinstance(
            request.get("messages", request.get("prompt")), list | str
        ):
            raise RecordError("its `request` holds neither messages nor a prompt")
        status = record.get("status")
        return request, _recorded_response(record), status if type(status) is int else None
    if isinstance(record.get("messages"), list):
        return _conversation(record)
    if isinstance(record.get("choices"), list):
        return {}, record, None
    raise RecordError("it is neither a request, a response, a recorded call nor a conversation")


def _recorded_response(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    streamed, response = record.get("response_sse"), record.get("response")
    if isinstance(streamed, str):
        chunks = chunks_of(streamed.encode("utf-8", "surrogatepass"))
        return assemble(chunks) if chunks else None
    if response is None or isinstance(response, Mapping):
        return response
    raise RecordError("its `response` is not an object")


def _conversation(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, None]:
    messages = messages_of(record)
    if len(messages) != len(record["messages"]) or not all(isinstance(m.get("role"), str) for m in messages):
        raise RecordError("one of its messages is not an object with a role")
    if not messages or messages[-1]["role"] != "assistant":
        return record, None, None
    answer: dict[str, Any] = {"choices": [{"index": 0, "message": messages[-1], "finish_reason": None}]}
    return {**record, "messages": messages[:-1]}, answer, None


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _parse_leniently(line)
    if not isinstance(value, dict):
        raise RecordError("it is not a JSON object")
    return value


def _parse_leniently(line: bytes) -> object:
    """Read what strict JSON refuses and some recorders write: NaN and infinities, here null."""
    try:
        value = json.loads(line.decode(), parse_constant=lambda _: None)
        orjson.dumps(value)  # what cannot be written again, such as half a surrogate pair, is refused here
    except UnicodeDecodeError as error:
        raise RecordError(f"it is not UTF-8 (byte {error.start})") from error
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except (ValueError, TypeError) as error:
        raise RecordError(f"it is not JSON, or was cut off: {error}") from error
    return value


def _endpoint(url: object, request: Mapping[str, Any], response: Mapping[str, Any] | None) -> str:
    if isinstance(url, str) and "/v1/" in url:
        return "/v1/" + url.split("/v1/", 1)[1].split("?", 1)[0]
    is_text = "prompt" in request or (response or {}).get("object") == "text_completion"
    return "/v1/completions" if is_text else "/v1/chat/completions"


def _seconds(created: object) -> float:
    return float(created) if isinstance(created, int | float) and math.isfinite(created) else 0.0


def _error_text(error: object, http_status: int | None) -> str:
    if isinstance(error, Mapping):
        return str(error.get("message") or error)
    return str(error) if error else f"HTTP status {http_status}"
