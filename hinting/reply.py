"""Taking a sampled reply apart: visible text, tool calls, thinking."""

import json
import re
from typing import Any, cast

from harness_adapters.trace import ToolCall

_THINKING = re.compile(r"\A\s*(?:<think>)?.*?</think>\s*", re.DOTALL)
_OPEN_THINKING = re.compile(r"\A\s*<think>.*\Z", re.DOTALL)
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)


def _call(number: int, raw: str) -> ToolCall:
    try:
        parsed: Any = json.loads(raw)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not isinstance(name := cast("dict[str, Any]", parsed).get("name"), str):
        return ToolCall(id=f"call_{number}", name="", arguments=raw)
    arguments = cast("dict[str, Any]", parsed).get("arguments", {})
    # Some templates write the arguments as JSON text in JSON; both are kept as the text of the arguments alone.
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=f"call_{number}", name=name, arguments=text)


def read_reply(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Split raw model text into what the user sees and the calls it makes.

    Reads the `<tool_call>{"name": …, "arguments": …}</tool_call>` form of Hermes, Qwen and kin. A call that cannot be
    read keeps its raw text under an empty name, so that graders see a broken call rather than none.
    """
    visible = _OPEN_THINKING.sub("", _THINKING.sub("", text, count=1))
    calls = tuple(_call(number, match[1]) for number, match in enumerate(_CALL.finditer(visible)))
    return _CALL.sub("", visible).strip(), calls
