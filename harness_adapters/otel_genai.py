"""OpenTelemetry's conventions for generative AI: spans and events of model calls, agents and tools.

Messages are read in all the forms in which they are recorded: `gen_ai.input.messages` and `gen_ai.output.messages`, as
JSON text or structured, of a span or of an event `gen_ai.client.inference.operation.details`; one event a message
(`gen_ai.user.message`, `gen_ai.choice`, ...), of a span or logged; `gen_ai.prompt.{i}.*` and `gen_ai.completion.{i}.*`;
and what Google's ADK, the Vercel AI SDK, Pydantic AI and Langfuse's SDK put in attributes of their own. Claude Code's
events are read as far as they carry text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness_adapters.adapter import Item
from harness_adapters.calls import ModelCall, ToolRun, read_steps
from harness_adapters.chatlike import answers_of, chat_messages, request_of, system_messages
from harness_adapters.chatparts import Chat, content_of, json_text, loose, tools_of
from harness_adapters.claude_code_events import PREFIX, is_event, trace_of_events
from harness_adapters.fields import mapping, mappings, quoted, text
from harness_adapters.notes import Notes
from harness_adapters.source import Head, Source
from harness_adapters.spans import Event, Span, head_spans, span_steps, with_logs
from harness_adapters.steps import Step
from harness_adapters.trace import Trace

_DETAILS = "gen_ai.client.inference.operation.details"
_CHAT = {"chat", "text_completion", "generate_content", "completion", "completions", "message", "generate", "responses"}
_AGENT = {"invoke_agent", "invoke_workflow", "agent", "workflow"}
_LEFT_OUT = ("create_agent", "embedding", "memory", "plan", "rerank", "retrieval", "task", "unknown")
_INPUTS = (
    *("gen_ai.input.messages", "gen_ai.prompt", "gcp.vertex.agent.llm_request", "ai.prompt.messages", "ai.prompt"),
    *("gen_ai.content.prompt", "langfuse.observation.input"),
)
_OUTPUTS = (
    *("gen_ai.output.messages", "gen_ai.completion", "gcp.vertex.agent.llm_response", "ai.response"),
    *("gen_ai.content.completion", "langfuse.observation.output"),
)
_EVENTS = ("events", "all_messages_events")
_ENDS = ("gen_ai.choice", "gen_ai.content.completion", _DETAILS)
_MESSAGES = (*(f"gen_ai.{role}.message" for role in ("system", "user", "assistant", "tool")), *_ENDS)
_SYSTEM = ("gen_ai.system_instructions", "gen_ai.system.instructions")
_TOOLS = ("gen_ai.tool.definitions", "llm.request.functions", "ai.prompt.tools", "gen_ai.request.tools")
_OF_TRACELOOP = "traceloop.association.properties."
_SESSIONS = (
    *("gen_ai.conversation.id", "session.id", "langfuse.session.id"),
    *(f"{_OF_TRACELOOP}{name}" for name in ("session_id", "thread_id", "conversation_id", "chat_id")),
    *("gcp.vertex.agent.session_id", "conversation.id"),
)
_USERS = ("user.id", "enduser.id", "langfuse.user.id", f"{_OF_TRACELOOP}user_id")
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call_id")
_TOOL_NAMES = ("gen_ai.tool.name", "ai.toolCall.name", "mcp.tool.name", "traceloop.entity.name")
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args", "ai.toolCall.args", "ai.toolCall.input"),
    *("tool_arguments", "traceloop.entity.input"),
)
_RESULTS = (
    *("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "ai.toolCall.result", "ai.toolCall.output"),
    *("tool_response", "traceloop.entity.output"),
)
_OWN = ("gen_ai.", "gcp.vertex.agent.", "traceloop.")


class OTelGenAI:
    """Reads spans and events that follow OpenTelemetry's conventions for generative AI."""

    name = "otel_genai"
    unit = "span"

    def recognises(self, head: Head) -> bool:
        """Say whether the first spans have attributes or events of the conventions, and none of OpenInference's."""
        found = False
        for span in head_spans(head):
            if span.attribute("openinference.span.kind"):
                return False
            names = (*span.attributes, *(event.name for event in span.events))
            found = found or any(name.startswith((*_OWN, PREFIX)) or name == "gen_ai" for name in names)
        return found

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the exchanges of the source's sessions, and the traces of Claude Code's events."""
        yield from read_steps(self.name, span_steps(source, _SESSIONS, _USERS), _meaning)


def _meaning(steps: Sequence[Step], notes: Notes) -> Iterator[ModelCall | ToolRun | Trace]:
    trace = trace_of_events(OTelGenAI.name, [step for step in steps if is_event(step)], notes)
    if trace is not None:
        yield trace
    yield from _read([step for step in steps if not is_event(step)], notes)


def _read(steps: Sequence[Step], notes: Notes) -> Iterator[ModelCall | ToolRun]:
    for step, span in with_logs(steps):
        operation = text(span.attribute("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type")).lower()
        vercel = text(span.attribute("ai.operationId"))
        if operation in ("execute_tool", "tool") or vercel == "ai.toolCall" or _is_mcp(span):
            if span.attribute("gen_ai.tool.name") != "(merged tools)":
                yield _tool_run(step, span)
        elif operation in _AGENT or (vercel and not vercel.endswith((".doGenerate", ".doStream"))):
            yield from (replace(call, weak=True) for call in _calls(step, span))
        elif operation in _CHAT or (not operation and _is_ours(span)):
            calls = list(_calls(step, span))
            yield from calls
            if not calls and (operation or any(event.name in _MESSAGES for event in span.events)):
                notes.add(
                    "model calls are recorded without their messages; have them captured to learn from them", step
                )
        elif operation and not any(part in operation for part in _LEFT_OUT):
            notes.add(f"operations of type {quoted(operation)} are not known to this version", step)


def _is_mcp(span: Span) -> bool:
    return span.attribute("mcp.method.name") == "tools/call" or span.name.startswith("execute_tool ")


def _is_ours(span: Span) -> bool:
    return any(name.startswith(_OWN) for name in (*span.attributes, *(event.name for event in span.events)))


def _calls(step: Step, span: Span) -> Iterator[ModelCall]:
    """Yield the model call of a span; several where events without a span were put together."""
    given = [Event(name=text(e.get("event.name")), attributes={}, body=e) for e in _listed(span, _EVENTS)]
    groups = _grouped([*given, *span.events]) or [[]]
    if span.attribute(*_INPUTS, *_OUTPUTS, "pydantic_ai.all_messages") is not None:
        groups = [[event for group in groups for event in group]]
    for number, events in enumerate(groups):
        at = replace(step, id=f"{step.id} {number}") if number else step
        call = _call(at, span, events)
        if call.request["messages"] or call.answers:
            yield call


def _call(step: Step, span: Span, events: Sequence[Event]) -> ModelCall:
    details = [{**mapping(e.body), **e.attributes} for e in events if e.name == _DETAILS]
    whole = replace(span, attributes={k: v for told in (*details, span.attributes) for k, v in told.items()})
    request, cut = _request(whole)
    answers, is_cut = _answers(whole)
    if not request["messages"] and not answers:
        request["messages"], answers, is_cut = _of_events(events)
    system = system_messages(loose(whole.attribute(*_SYSTEM))[0])
    if system and not any(m["role"] == "system" for m in request["messages"][:1]):
        request["messages"] = [*system, *request["messages"]]
    tools = tools_of(_items(loose(whole.attribute(*_TOOLS))[0]))
    model = whole.attribute("gen_ai.request.model", "gen_ai.response.model", "ai.model.id")
    return ModelCall(
        step=step,
        request=request
        | ({"tools": tools} if tools else {})
        | ({"model": model} if isinstance(model, str) else {})
        | ({"cut": True} if cut or is_cut else {}),
        answers=answers,
        error=whole.error(),
        response_id=whole.name_in("gen_ai.response.id") or span.span_id or None,
    )


def _request(span: Span) -> tuple[Chat, bool]:
    for name in _INPUTS:
        value, cut = _content(span, name)
        request = request_of(value)
        messages = request["messages"]
        if cut and messages and not (messages[-1]["content"] or messages[-1].get("tool_calls")):
            messages.pop()  # of the last one only the role came through
        if messages:
            return request, cut
    return {"messages": []}, False


def _answers(span: Span) -> tuple[list[Chat], bool]:
    for name in _OUTPUTS:
        value, cut = _content(span, name)
        if name == "ai.response" and value is not None:
            calls = loose(span.attribute("ai.response.toolCalls"))[0]
            said = {"content": span.attribute("ai.response.text"), "tool_calls": calls}
            value = {"role": "assistant", "reasoning_content": span.attribute("ai.response.reasoning"), **said}
            value = value if said["content"] or calls else None
        answers = answers_of(value)
        if answers:
            return answers, cut
    value, cut = loose(span.attribute("pydantic_ai.all_messages"))
    return chat_messages(value), cut


def _content(span: Span, name: str) -> tuple[Any, bool]:
    value, cut = loose(span.attribute(name))
    is_told_whole = name in span.attributes or name == "ai.response"
    return (value, cut) if is_told_whole or not isinstance(value, Mapping) else (_items(value), cut)


def _items(value: Any) -> Any:
    """Return the items of what was told as `{i}.*`, without other members that stand beside them."""
    if not isinstance(value, Mapping):
        return value
    return [value[key] for key in sorted((k for k in value if k.isdecimal() and len(k) < 10), key=int)] or None


def _listed(span: Span, names: Sequence[str]) -> list[Mapping[str, Any]]:
    return mappings(loose(span.attribute(*names))[0])


def _grouped(events: Sequence[Event]) -> list[list[Event]]:
    """Put together the events of one call each: a call ends with its choices."""
    groups: list[list[Event]] = []
    before = _DETAILS
    for event in events:
        if event.name not in (*_MESSAGES, "gen_ai.content.prompt"):
            continue
        if not groups or event.name == _DETAILS or (before in _ENDS and event.name != before):
            groups.append([])
        groups[-1].append(event)
        before = event.name
    return groups


def _of_events(events: Sequence[Event]) -> tuple[list[Chat], list[Chat], bool]:
    messages: list[Chat] = []
    answers: list[Chat] = []
    cut = False
    for event in events:
        told = mapping(event.body) or ({"content": event.body} if isinstance(event.body, str) else {})
        told = told or mapping(loose(event.attributes.get("gen_ai.event.content"))[0]) or event.attributes
        role = event.name.removeprefix("gen_ai.").removesuffix(".message")
        cut = cut or any(
            loose(told.get(name))[1] for name in ("content", "message", "gen_ai.prompt", "gen_ai.completion")
        )
        if event.name == "gen_ai.choice":
            message = loose(told.get("message"))[0]
            if isinstance(message, Mapping):
                message = {"role": "assistant", **message}
            answers += answers_of(message if message else {"role": "assistant", **told})
        elif event.name == "gen_ai.content.prompt":
            messages += request_of(loose(told.get("gen_ai.prompt"))[0])["messages"]
        elif event.name == "gen_ai.content.completion":
            answers += answers_of(loose(told.get("gen_ai.completion"))[0])
        elif role in ("system", "user", "assistant", "tool"):
            messages += chat_messages({**told, "role": text(told.get("role")) or role})
    return messages, answers, cut


def _tool_run(step: Step, span: Span) -> ToolRun:
    error = span.error()
    result = span.attribute(*_RESULTS)
    if result is None:
        _, answers, _ = _of_events([e for e in span.events if e.name == "gen_ai.choice"])
        result = answers[0]["content"] if answers else error or (None if error is None else span.name)
    name = span.name_in(*_TOOL_NAMES) or span.name.removeprefix("execute_tool ").removeprefix("tools/call ")
    found = loose(result)[0]
    return ToolRun(
        step=step,
        call_id=span.name_in(*_CALL_IDS) or "",
        name=name,
        arguments=json_text(span.attribute(*_ARGUMENTS)),
        result=None if result is None else content_of(found) if isinstance(found, list) else json_text(result),
        failed=error is not None,
    )
