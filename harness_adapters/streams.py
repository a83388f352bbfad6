"""Streamed answers put together: server-sent events into chunks, chunks into the answer that was not streamed."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from harness_adapters.errors import RecordError
from harness_adapters.fields import mapping, mappings
from harness_adapters.jsontext import mended, parse

_JOINED = ("content", "refusal", "reasoning_content", "reasoning", "text")
_IGNORED = ("obfuscation",)
_OBJECTS = {"chat.completion.chunk": "chat.completion"}


def sse_events(body: bytes) -> list[str]:
    """Return the data of each server-sent event in a body.

    Comments and other fields are passed over, lines may end in CR, LF or both, and several `data` lines make one event.
    A last event that no blank line ends is kept only if it is whole: JSON, or `[DONE]`.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    events: list[str] = []
    data: list[str] = []
    for line in text.split("\n"):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            events.append("\n".join(data))
            data = []
    if data and ((tail := "\n".join(data)) == "[DONE]" or _object(tail) is not None):
        events.append(tail)
    return events


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects among the events of a body; `[DONE]` and what is not an object are left out.

    A character may be cut in two between the texts of two chunks: its halves stay for whoever joins them.
    """
    chunks = [chunk for event in sse_events(body) if (chunk := _object(event)) is not None]
    return [mended(chunk) if chunk.get("error") else chunk for chunk in chunks]


class Pieces(list[str]):
    """A text that comes in pieces."""


def joined(value: Any) -> Any:
    """Return a value with the texts in it that came in pieces put together, and cut characters mended."""
    if isinstance(value, Pieces):
        return mended("".join(value))
    if isinstance(value, list):
        return [joined(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {mended(name): joined(item) for name, item in cast("dict[Any, Any]", value).items()}
    return mended(value)


def grow(target: dict[str, Any], name: str, piece: object) -> None:
    """Add a piece to a text among some members; what is no text adds nothing."""
    held = target.get(name)
    if not isinstance(held, Pieces):
        held = target[name] = Pieces([held] if isinstance(held, str) else ())
    if isinstance(piece, str):
        held.append(piece)


def assemble(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the chunks of one streamed answer (chat or text completion) together as the server would have sent it whole.

    Texts, token ids and log-probabilities are joined per choice, tool calls per slot; members not known here are kept
    as they first came, and of odd types nothing is made. A new call id opens a new slot even at an index already used,
    as some servers put all parallel calls at index 0 (hermes-agent PR #3468).
    """
    response: dict[str, Any] = {}
    choices: dict[int, _Choice] = {}
    for chunk in chunks:
        for name, value in chunk.items():
            if name in ("choices", *_IGNORED):
                continue
            if (name == "usage" and value is not None) or response.get(name) is None:
                response[name] = value
        for part in mappings(chunk.get("choices")):
            index = part.get("index") or 0
            if type(index) is int:
                choices.setdefault(index, _Choice(index)).add(part)
    if isinstance(response.get("object"), str):
        response["object"] = _OBJECTS.get(response["object"], response["object"])
    response["choices"] = [choices[index].whole() for index in sorted(choices)]
    return joined(response)


class _Choice:
    def __init__(self, index: int) -> None:
        self.members: dict[str, Any] = {"index": index}
        self.message: dict[str, Any] = {}
        self.calls: list[dict[str, Any]] = []
        self.open: dict[object, dict[str, Any]] = {}
        self.is_chat = False

    def add(self, part: Mapping[str, Any]) -> None:
        for name, value in part.items():
            if name == "delta":
                self.is_chat = True
                self.add_delta(mapping(value))
            elif name == "token_ids" and isinstance(value, list):
                _extend(self.members, name, cast("list[Any]", value))
            elif name == "logprobs" and isinstance(value, Mapping):
                self.add_logprobs(cast("Mapping[str, Any]", value))
            elif name != "index":
                _join(self.members, name, value)

    def add_logprobs(self, logprobs: Mapping[str, Any]) -> None:
        held = self.members.get("logprobs")
        if not isinstance(held, dict):
            held = self.members["logprobs"] = dict[str, Any]()
        for name, value in logprobs.items():
            if isinstance(value, list):
                _extend(cast("dict[str, Any]", held), name, cast("list[Any]", value))
            elif not held.get(name):
                held[name] = value

    def add_delta(self, delta: Mapping[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                for call in mappings(value):
                    self.add_call(call)
            elif name == "function_call" and isinstance(value, Mapping):
                _join_function(self.message, name, cast("Mapping[str, Any]", value))
            else:
                _join(self.message, name, value)

    def add_call(self, call: Mapping[str, Any]) -> None:
        call_id, index = call.get("id"), call.get("index")
        if not isinstance(index, int | str | None):
            index = None
        slot = self.open.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        if slot is None or (call_id and slot.get("id") not in (None, "", call_id)):
            slot = {}
            self.calls.append(slot)
            self.open[index] = slot
        repeated = bool(call_id) and slot.get("id") == call_id
        for name, value in call.items():
            if name == "function":
                if isinstance(value, Mapping):
                    _join_function(slot, name, cast("Mapping[str, Any]", value), repeated=repeated)
            elif name != "index" and slot.get(name) is None and value is not None:
                slot[name] = value

    def whole(self) -> dict[str, Any]:
        whole = dict(self.members)
        if self.is_chat:
            for call in self.calls:
                call.setdefault("type", "function")
                if call["type"] == "function":
                    call["function"] = {"name": "", "arguments": "", **call.get("function", {})}
            message = {"role": "assistant", "content": None, **self.message}
            whole["message"] = {**message, "tool_calls": self.calls} if self.calls else message
        whole.setdefault("finish_reason", None)
        return whole


def _extend(target: dict[str, Any], name: str, more: list[Any]) -> None:
    held = target.get(name)
    target[name] = [*more] if not isinstance(held, list) else held
    if isinstance(held, list):
        held.extend(more)


def _join(target: dict[str, Any], name: str, value: object) -> None:
    """Join texts that come in pieces; of everything else keep what came first."""
    if name in _JOINED and isinstance(value, str):
        grow(target, name, value)
    elif target.get(name) is None:
        target[name] = value


def _join_function(holder: dict[str, Any], member: str, piece: Mapping[str, Any], *, repeated: bool = False) -> None:
    held = holder.get(member)
    if not isinstance(held, dict):
        held = holder[member] = dict[str, Any]()
    target = cast("dict[str, Any]", held)
    for name, value in piece.items():
        if name in ("name", "arguments"):
            # vLLM has sent `arguments: null` (vllm #9693); some servers repeat id and whole name in every piece.
            if not (repeated and name == "name" and target.get(name) and value == "".join(target[name])):
                grow(target, name, value)
        else:
            target.setdefault(name, value)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse(text.encode(), keep_halves=True)
    except RecordError:
        return None
    return value if isinstance(value, dict) else None
