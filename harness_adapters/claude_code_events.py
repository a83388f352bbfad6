"""The events that Claude Code logs to OpenTelemetry: prompts where they may be told, and what became of tools.

What the agent said is not among them, so the traces made of them are not complete.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from harness_adapters.chatparts import json_text
from harness_adapters.conversation import Conversation
from harness_adapters.fields import quoted, text, tool_call
from harness_adapters.notes import Notes
from harness_adapters.spans import LOG, of_step
from harness_adapters.steps import Step
from harness_adapters.trace import Message, Outcome, Trace

PREFIX = "claude_code."
_REDACTED = "<REDACTED>"
_LEFT_OUT = (
    *("api_", "auth", "at_mention", "compaction", "feedback_survey", "hook_", "internal_error", "mcp_server_"),
    *("permission_mode_changed", "plugin_", "skill_activated", "tool_"),
)
"""How events begin that carry no text and no outcome."""


def is_event(step: Step) -> bool:
    """Say whether a step is one of Claude Code's events."""
    return step.data["kind"] == LOG and step.data["name"].startswith(PREFIX)


def trace_of_events(harness: str, steps: Sequence[Step], notes: Notes) -> Trace | None:
    """Return the trace of a session's events; None where they carry no text and no calls."""
    conversation = Conversation()
    settled: set[str] = set()
    for step in sorted(steps, key=_when):
        span = of_step(step)
        event, told = span.name.removeprefix(PREFIX), span.attributes
        call_id = text(told.get("tool_use_id")) or f"call-{step.place}"
        if event == "user_prompt":
            prompt = text(told.get("prompt"))
            if prompt and prompt != _REDACTED:
                conversation.add({"role": "user", "content": prompt}, place=step.place)
            else:
                notes.add("prompts are not told; Claude Code logs them where OTEL_LOG_USER_PROMPTS is 1", step)
        elif event == "tool_decision" and told.get("decision") == "reject":
            by_human = text(told.get("source")).startswith("user")
            outcome = Outcome.REJECTED_BY_HUMAN if by_human else None
            conversation.add(_call(call_id, told), place=step.place)
            conversation.add(_result(call_id, ""), place=step.place, flag=True, outcome=outcome)
            settled.add(call_id)
        elif event == "tool_result" and call_id not in settled:
            said = next((told[name] for name in ("tool_output", "output", "error", "error_type") if told.get(name)), "")
            flag = {"true": False, "false": True}.get(str(told.get("success")).lower())
            conversation.add(_call(call_id, told), place=step.place)
            conversation.add(_result(call_id, json_text(said)), place=step.place, flag=flag)
            settled.add(call_id)
        elif not event.startswith(_LEFT_OUT):
            notes.add(f"events of type {quoted(span.name)} are not known to this version", step)
    if not conversation.turns:
        return None
    session = next((step.session for step in steps if step.session), steps[0].trace)
    return conversation.trace(harness, session, complete=False)


def _call(call_id: str, told: Mapping[str, Any]) -> Message:
    call = tool_call(call_id, told.get("tool_name"), told.get("tool_input") or told.get("tool_parameters") or "{}")
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _result(call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _when(step: Step) -> tuple[float, int, int]:
    count = str(step.data["attributes"].get("event.sequence"))
    return step.start or 0.0, int(count) if count.isdecimal() and len(count) < 20 else 0, step.place
