"""Messages as vendors, frameworks and tracers write them, read as messages in OpenAI's chat shape.

One reader for all, as recorders pass on whatever the client had in hand: messages with a text or with parts, items of
Responses, LangChain's messages as plain objects, serialised, or as pairs of role and text; and requests and answers
with such messages in them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness_adapters.chatparts import Chat, Parts, call_of, is_models, is_part, json_text, loose, result_of, tools_of
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.ids import stable_id

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "function": "tool",
    "humanmessage": "user",
    "aimessage": "assistant",
    "systemmessage": "system",
    "toolmessage": "tool",
    "functionmessage": "tool",
}
_TYPED = ("human", "ai", "system", "tool", "function", "AIMessageChunk", "HumanMessageChunk", "ToolMessageChunk")
_HELD = ("messages", "contents", "input_messages", "input", "prompts", "prompt", "question", "query")


def request_of(value: object) -> Chat:
    """Return what a model was asked: `messages`, with `tools`, `model` and `previous_response_id` where told."""
    if not isinstance(value, Mapping) or _is_message(cast("Mapping[str, Any]", value)):
        return _without_definitions({"messages": chat_messages(value)})
    value = cast("Mapping[str, Any]", value)
    config = mapping(value.get("config"))
    names = ("system", "instructions", "system_instruction", "systemInstruction")
    system = next((holder[n] for holder in (value, config) for n in names if holder.get(n)), None)
    held = next((value[name] for name in _HELD if value.get(name)), None)
    if held is None and not system:
        held = _sole_text(value)
    elif isinstance(held, list) and held and all(isinstance(item, str) for item in cast("list[object]", held)):
        held = held[0]
    request: Chat = {"messages": [*system_messages(system), *chat_messages(held)]}
    if tools := tools_of(value.get("tools") or config.get("tools")):
        request["tools"] = tools
    return _without_definitions(
        request | {k: value[k] for k in ("model", "previous_response_id") if text(value.get(k))}
    )


def batch(asked: object, said: object) -> list[tuple[Any, Any]]:
    """Return the pairs of what was asked and what was said in a call, which may be of several prompts at once."""
    if not isinstance(asked, Mapping):
        return [(asked, said)]
    name = next((name for name in _HELD if asked.get(name)), "")
    prompts = cast("list[Any]", asked[name]) if name and isinstance(asked[name], list) else []
    is_batch = name in ("prompts", "messages") and all(
        isinstance(p, str if name == "prompts" else list) for p in prompts
    )
    if len(prompts) < 2 or not is_batch or any(map(_pair, prompts)):
        return [(asked, said)]
    found = mapping(said).get("generations")
    answers = cast("list[Any]", found) if isinstance(found, list) and len(found) == len(prompts) else []
    one_by_one = [{**mapping(said), "generations": [answer]} for answer in answers] or [said] + [None] * len(prompts)
    return [({**asked, name: [p]}, answer) for p, answer in zip(prompts, one_by_one, strict=False)]


def system_messages(value: object) -> list[Chat]:
    """Return the message that instructions apart from the messages make: a text, parts, or an object with parts."""
    if isinstance(value, Mapping):
        value = value.get("parts") or value.get("content") or [value]
    if isinstance(value, list):
        return _message({"role": "system", "content": value}, "system") if value else []
    return chat_messages(value, "system")


def _without_definitions(request: Chat) -> Chat:
    """Take out the tools' definitions, which one tracer puts among the messages."""
    kept: list[Chat] = []
    tools: list[Chat] = []
    for message in request["messages"]:
        definition = mapping(message.get("content_object"))
        message.pop("content_object", None)
        found = tools_of([definition]) if message["role"] == "tool" and not message.get("tool_call_id") else []
        if found and ("function" in definition or "parameters" in definition):
            tools += found
        else:
            kept.append(message)
    return {**request, "messages": kept, **({"tools": request.get("tools") or tools} if tools else {})}


def chat_messages(value: object, role: str = "user") -> list[Chat]:
    """Return the messages that a text, a message, or a list of such holds. `role` is whose a bare text is."""
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if isinstance(value, Mapping):
        return _of_object(cast("Mapping[str, Any]", value), role)
    if not isinstance(value, list):
        return []
    items = cast("list[Any]", value)
    if items and all(isinstance(item, list) for item in items) and not any(map(_pair, items)):
        items = items[0]  # one list for each prompt of a batch
    messages: list[Chat] = []
    was_bare = False
    for item in items:
        pair = _pair(item)
        is_bare = isinstance(item, Mapping) and is_part(cast("Mapping[str, Any]", item))
        new = _message({"role": pair[0], "content": pair[1]}, role) if pair else chat_messages(item, role)
        # Parts without a message round them, as of Responses, are one message as far as one author wrote on.
        joins = is_bare and was_bare and new and new[0]["role"] != "tool"
        joins = joins or ((is_bare or was_bare) and new and new[0]["role"] == "assistant")
        if joins and messages and messages[-1]["role"] == new[0]["role"]:
            _join(messages[-1], new.pop(0))
        messages += new
        was_bare = is_bare
    return messages


def answers_of(value: object) -> list[Chat]:
    """Return the messages that a model's output holds, however its answer is wrapped."""
    if not isinstance(value, Mapping) or _is_message(cast("Mapping[str, Any]", value)):
        return chat_messages(value, "assistant")
    value = cast("Mapping[str, Any]", value)
    for name in ("choices", "generations", "candidates"):
        found = value.get(name)
        while isinstance(found, list) and found and isinstance(found[0], list):
            found = found[0]
        if isinstance(found, list) and found:
            return [message for item in mappings(found) for message in answers_of(item)[:1]]
    for name in ("message", "messages", "output", "content", "text", "response", "answer", "delta"):
        if value.get(name) and (found := _of_member(value, name)):
            return found
    return (
        [] if not value or set(value) <= {"finish_reason", "index"} else chat_messages(_sole_text(value), "assistant")
    )


def _of_member(value: Mapping[str, Any], name: str) -> list[Chat]:
    held = value[name]
    if (name == "content" and isinstance(held, list | str)) or isinstance(value.get("tool_calls"), list):
        return _message({"role": "assistant", **value}, "assistant")
    return answers_of(held) if isinstance(held, Mapping) else chat_messages(held, "assistant")


def _sole_text(value: Mapping[str, Any]) -> str:
    texts = [item for item in value.values() if item is not None]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else json_text(value) if value else ""


def _pair(item: object) -> tuple[str, str] | None:
    if isinstance(item, list) and len(item) == 2 and all(isinstance(part, str) for part in item):
        role, said = cast("list[str]", item)
        if role in ("user", "assistant", "system", "tool", *_ROLES):
            return role, said
    return None


def _of_object(value: Mapping[str, Any], role: str) -> list[Chat]:
    if _is_message(value):
        return _message(value, role)
    if is_part(value):
        return _message({"role": "assistant" if is_models(value) else role, "content": [value]}, role)
    for name in ("message", "messages", "contents"):
        if isinstance(value.get(name), Mapping | list):
            return chat_messages(value[name], role)
    return chat_messages(_sole_text(value), role)


def _is_message(value: Mapping[str, Any]) -> bool:
    if isinstance(value.get("role"), str) or isinstance(value.get("parts"), list):
        return True
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        return True
    return value.get("type") in _TYPED and ("content" in value or isinstance(value.get("data"), Mapping))


def _message(value: Mapping[str, Any], role: str) -> list[Chat]:
    """Return a message; the results of tools that stand in it come before what else it says."""
    value = _plain(value)
    given = text(value.get("role")) or text(value.get("type")) or role
    role = _ROLES.get(given.lower().removesuffix("chunk"), given.lower())
    content = value.get("parts") or value.get("content") or value.get("contents")
    if isinstance(content, str) and content.startswith("[{") and any(map(is_part, mappings(loose(content)[0]))):
        content = loose(content)[0]  # parts that had to be made a text, as attributes cannot nest
    parts = Parts()
    for part in cast("list[Any]", content) if isinstance(content, list) else [content]:
        parts.add(json_text(part) if isinstance(content, Mapping) else part)
    extra = mapping(value.get("additional_kwargs"))
    told = next(
        (c for h in (value, extra) for n in ("tool_calls", "toolCalls") if (c := mappings(loose(h.get(n))[0]))), []
    )
    legacy = next((h["function_call"] for h in (value, extra) if isinstance(h.get("function_call"), Mapping)), None)
    calls = [call_of(call) for call in told] or ([call_of(legacy)] if legacy else parts.calls)
    thought = text(value.get("reasoning_content")) or text(extra.get("reasoning_content")) or "\n".join(parts.thought)
    said = parts.said[0]["text"] if len(parts.said) == 1 and parts.said[0].get("type") == "text" else parts.said or ""
    if role == "tool" and not parts.results:
        result = result_of({**value, "content": said})
        return [result | ({"content_object": content} if isinstance(content, Mapping) else {})]
    if not (said or calls or thought) and parts.results:
        return parts.results
    message: Chat = {"role": role, "content": said}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return [*parts.results, message]


def _plain(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(value.get("kwargs"), Mapping) and "lc" in value:
        name = value.get("id")
        name = name[-1] if isinstance(name, list) and name else ""
        return {**value["kwargs"], "type": name or value["kwargs"].get("type")}
    if isinstance(value.get("data"), Mapping) and value.get("type") in _TYPED:
        return {**value["data"], "type": value["type"]}
    return value


def with_ids(messages: Sequence[Chat]) -> list[Chat]:
    """Give calls and results that have no id one of their own, the same whenever the same history is told again."""
    waiting: list[tuple[str, str]] = []
    told: list[Chat] = []
    for index, message in enumerate(messages):
        calls: list[Chat] = message.get("tool_calls") or []
        if calls:
            named: list[Chat] = [
                {**c, "id": c["id"] or stable_id("call", index, n, c["function"])} for n, c in enumerate(calls)
            ]
            waiting += [(call["id"], call["function"]["name"]) for call in named]
            message = {**message, "tool_calls": named}  # noqa: PLW2901
        elif message["role"] == "tool":
            name, known = message.get("name"), message.get("tool_call_id")
            fitting = (
                [w for w in waiting if w[0] == known] if known else [w for w in waiting if not name or w[1] == name]
            )
            if fitting:
                waiting.remove(fitting[0])
            message = {**message, "tool_call_id": known or (fitting[0][0] if fitting else "")}  # noqa: PLW2901
        told.append(message)
    return told


def _join(message: Chat, more: Chat) -> None:
    before, after = message.get("content") or "", more.get("content") or ""
    if isinstance(before, str) and isinstance(after, str):
        message["content"] = "\n".join(filter(None, (before, after)))
    else:
        message["content"] = [*_listed(before), *_listed(after)]
    if more.get("reasoning_content"):
        message["reasoning_content"] = "\n".join(
            filter(None, (message.get("reasoning_content"), more["reasoning_content"]))
        )
    if more.get("tool_calls"):
        message["tool_calls"] = [*(message.get("tool_calls") or []), *more["tool_calls"]]


def _listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if content and isinstance(content, str) else list(content or [])
