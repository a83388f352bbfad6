"""Traces as signals are found in: turns, calls and results in a line each."""

from typing import Any

from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn

H, A, T, F = Author.HUMAN, Author.AGENT, Author.TOOL, Author.FRAMEWORK


def trace_of_turns(*turns: tuple[Any, ...]) -> Trace:
    made: list[Turn] = []
    for index, (author, text, *more) in enumerate(turns):
        extra: dict[str, Any] = more[0] if more else {}
        made.append(Turn(index=index, author=author, text=text, message={}, response_id=f"r{index}", **extra))
    return Trace(id="t", harness="x", tenant="d", turns=tuple(made), root="t")


def call(call_id: str, arguments: str, name: str = "get") -> dict[str, Any]:
    return {"tool_calls": (ToolCall(id=call_id, name=name, arguments=arguments),)}


def result(call_id: str, outcome: Outcome) -> dict[str, Any]:
    return {"tool_call_id": call_id, "outcome": outcome}
