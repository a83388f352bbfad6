"""Short sessions to write, screen and try hints on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn
from hinting.signal import Fault, Signal, SignalKind, signal_id

WEATHER: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of one day.",
        "parameters": {
            "type": "object",
            "required": ["city", "unit"],
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "day": {"type": "string", "format": "date"},
            },
        },
    },
}


def call(name: str = "get_weather", **arguments: object) -> ToolCall:
    return ToolCall(id="call-1", name=name, arguments=json.dumps(arguments))


def turn(index: int, author: Author, text: str, calls: Sequence[ToolCall] = (), outcome: Outcome | None = None) -> Turn:
    roles = {Author.AGENT: "assistant", Author.TOOL: "tool", Author.SYSTEM: "system"}
    message: dict[str, Any] = {"role": roles.get(author, "user"), "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls
        ]
    return Turn(
        index=index,
        author=author,
        text=text,
        message=message,
        tool_calls=tuple(calls),
        tool_call_id="call-1" if author is Author.TOOL else None,
        outcome=outcome,
    )


def trace_of(*said: tuple[Author, str] | tuple[Author, str, Sequence[ToolCall]], tools: Sequence[Any] = ()) -> Trace:
    turns = tuple(turn(i, of[0], of[1], of[2] if len(of) == 3 else ()) for i, of in enumerate(said))
    return Trace(id="t", root="t", harness="openai_chat", tenant="default", turns=turns, tools=tuple(tools))


def corrected(
    complaint: str, *, asked: str = "What is tea?", answer: str = "Long talk.", after: str = "A drink."
) -> Trace:
    return trace_of((Author.HUMAN, asked), (Author.AGENT, answer), (Author.HUMAN, complaint), (Author.AGENT, after))


def failed_call(error: str, wrong: ToolCall, right: ToolCall) -> Trace:
    return trace_of(
        (Author.HUMAN, "How is the weather in Bern?"),
        (Author.AGENT, "", [wrong]),
        (Author.TOOL, error),
        (Author.AGENT, "", [right]),
        tools=[WEATHER],
    )


def signal_of(trace: Trace, kind: SignalKind = SignalKind.USER_CORRECTION, evidence: str | None = None) -> Signal:
    """The signal that turn 2 shows turn 1 to be wrong, or of evidence outside the conversation."""
    said = [turn.text for turn in trace.turns]
    return Signal(
        id=signal_id(trace.id, kind, 1, 2),
        trace_id=trace.id,
        kind=kind,
        target=1,
        shown_by=2 if evidence is None else None,
        fix=3 if len(said) > 3 else None,
        fault=Fault.AGENT,
        confidence=0.9,
        evidence=said[2] if evidence is None else evidence,
    )
