"""Messages and tools as chat templates expect them. Needs no torch: the embedded engine renders by the same rules.

Members stand in the order vLLM gives them, so that templates which print a whole object make the same ids everywhere.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from harness_adapters.errors import RenderError
from harness_adapters.trace import Message

_PARAMETERS = frozenset(
    (
        *("self", "conversation", "conversations", "messages", "tools", "documents", "chat_template"),
        *("add_generation_prompt", "continue_final_message", "tokenize", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
    )
)
"""What `apply_chat_template` of transformers, and the templates' own renderer under it, take for parameters."""


def template_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the variables that a client set for the chat template.

    Raises RenderError for a name that is a parameter of `apply_chat_template`: a client could bring a template of its
    own, which is a program, and one that need not end.
    """
    taken = sorted(_PARAMETERS.intersection(options or ()))
    if taken:
        raise RenderError(
            f"chat_template_kwargs sets {', '.join(taken)}, which no client may: leave it out; only variables that the"
            " model's own chat template reads, such as enable_thinking, can be set"
        )
    return dict(options or {})


def well_formed(text: str) -> str:
    """Return a text in which a question mark stands for each half of a surrogate pair: UTF-8 has no bytes for one.

    JSON can spell such halves, and clients that cut a text at a fixed length send them.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def plain_message(message: Message) -> dict[str, Any]:
    """Return a message with its content as one text and its tool arguments as objects.

    Raises RenderError for content that is not text.
    """
    plain = {key: value for key, value in message.items() if value is not None}
    content = message.get("content")
    if isinstance(content, list):
        parts = cast(list[Any], content)
        if not all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts):
            raise RenderError(
                f"a {message.get('role')} message has content that is not text, and this model reads text only: send "
                "content as a string or as text parts"
            )
        content = "\n".join(part["text"] for part in parts)
    plain["content"] = content if content is not None else ""
    if message.get("tool_calls"):
        plain["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return plain


def plain_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a declared tool."""
    function = tool.get("function", {})
    named = {key: function[key] for key in ("name", "description", "parameters", "strict") if key in function}
    return {"type": "function", "function": {**named, **{k: v for k, v in function.items() if k not in named}}}


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function", {})
    # Templates write arguments with `tojson`: a JSON text would be quoted a second time, so it is parsed first.
    arguments = function.get("arguments") or "{}"
    if isinstance(arguments, str):
        # An agent's malformed arguments are shown as it wrote them.
        with suppress(ValueError):
            arguments = json.loads(arguments)
    return {
        "id": call.get("id"),
        "function": {"arguments": arguments, "name": function.get("name")},
        "type": "function",
    }
