"""OpenInference's conventions: spans whose attributes describe model calls and tools, as Phoenix and Arize keep them.

Attributes are read flat (`llm.input_messages.{i}.message.content`, ...), nested, and as the columns of a data frame.
Where a model call has no messages, its input and output are taken, as text or as the JSON that they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness_adapters.adapter import Item, Skipped
from harness_adapters.attributes import unflattened
from harness_adapters.calls import ModelCall, ToolRun, read_steps
from harness_adapters.chatlike import answers_of, chat_messages, request_of
from harness_adapters.chatparts import Chat, content_of, json_text, loose, tools_of
from harness_adapters.fields import mapping, mappings, quoted, text
from harness_adapters.notes import Notes
from harness_adapters.source import Head, Source
from harness_adapters.spans import LOG, Span, head_spans, of_step, span_steps
from harness_adapters.steps import Step

_KIND = "openinference.span.kind"
_LEFT_OUT = {"AGENT", "CHAIN", "RETRIEVER", "EMBEDDING", "RERANKER", "GUARDRAIL", "EVALUATOR", "PROMPT", "UNKNOWN"}
_SESSIONS, _USERS = ("session.id",), ("user.id",)
_THREADS = ("session_id", "thread_id", "conversation_id")
_JSON = "application/json"


class OpenInference:
    """Reads spans that follow OpenInference's conventions."""

    name = "openinference"
    unit = "span"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first spans names its kind by the conventions, or holds messages by them."""
        names = (_KIND, "llm.input_messages", "llm.output_messages")
        return any(span.attribute(*names) is not None for span in head_spans(head))

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the exchanges of the source's sessions."""
        yield from read_steps(self.name, _steps(source), _read)


def _steps(source: Source) -> Iterator[Step | Skipped]:
    for step in span_steps(source, _SESSIONS, _USERS):
        if isinstance(step, Step) and not step.session:
            metadata = mapping(loose(of_step(step).attribute("metadata"))[0])
            found = next((metadata[name] for name in _THREADS if isinstance(metadata.get(name), str | int)), None)
            step = replace(step, session=None if found is None else str(found))  # noqa: PLW2901
        yield step


def _read(steps: Sequence[Step], notes: Notes) -> Iterator[ModelCall | ToolRun]:
    for step in steps:
        span = of_step(step)
        kind = (text(span.attribute(_KIND)) or span.kind).upper()
        if kind == "LLM":
            call = _model_call(step, span)
            if call.request["messages"] or call.answers:
                yield call
            else:
                notes.add(
                    "model calls are recorded without their messages; have them captured to learn from them", step
                )
        elif kind == "TOOL":
            yield _tool_run(step, span)
        elif kind in ("AGENT", "CHAIN") and span.parent_id is None:
            call = _summary(step, span)
            if call.request["messages"] and call.answers:
                yield call
        elif span.attribute(_KIND) and kind not in _LEFT_OUT and span.kind != LOG:
            notes.add(f"spans of kind {quoted(kind)} are not known to this version", step)


def _messages(span: Span, name: str, role: str) -> list[Chat]:
    value = loose(span.attribute(name))[0]
    items = [mapping(_rebuilt(item)) for item in value] if isinstance(value, list) else []
    return [m for item in items for m in chat_messages(mapping(item.get("message")) or item, role)]


def _rebuilt(value: Any, levels: int = 50) -> Any:
    """Rebuild an item whose members have dotted names, down to its messages' calls and parts."""
    if isinstance(value, Mapping):
        value = unflattened(value)
    if not levels:
        return value
    if isinstance(value, Mapping):
        return {key: _rebuilt(item, levels - 1) for key, item in value.items()}
    return [_rebuilt(item, levels - 1) for item in value] if isinstance(value, list) else value


def _model_call(step: Step, span: Span) -> ModelCall:
    asked, is_cut = _value(span, "input")
    said, is_said_cut = _value(span, "output")
    request = request_of(asked) if isinstance(asked, Mapping) else {"messages": []}
    told = _messages(span, "llm.input_messages", "user")
    if told:
        cut = False
    else:
        told, cut = request["messages"] or chat_messages(asked), is_cut
    answers = _messages(span, "llm.output_messages", "assistant")
    if not answers:
        answers, cut = answers_of(said), cut or is_said_cut
    definitions = [mapping(_rebuilt(item)) for item in mappings(span.attribute("llm.tools"))]
    tools = tools_of([mapping(d.get("tool")).get("json_schema") or d.get("json_schema") or d for d in definitions])
    if not tools:
        tools = tools_of(mapping(loose(span.attribute("llm.invocation_parameters"))[0]).get("tools"))
    tools = tools or request.get("tools") or []
    model = span.attribute("llm.model_name")
    return ModelCall(
        step=step,
        request={"messages": told}
        | ({"tools": tools} if tools else {})
        | ({"model": model} if isinstance(model, str) else {})
        | ({"cut": True} if cut else {}),
        answers=answers,
        error=span.error(),
        response_id=span.span_id or None,
    )


def _summary(step: Step, span: Span) -> ModelCall:
    """Return what an agent was asked and answered, as the topmost span tells it."""
    asked, said = _value(span, "input")[0], _value(span, "output")[0]
    return ModelCall(
        step=step,
        request=request_of(asked),
        answers=answers_of(said),
        response_id=span.span_id or None,
        weak=True,
    )


def _value(span: Span, name: str) -> tuple[Any, bool]:
    value = span.attribute(f"{name}.value")
    kind = span.attribute(f"{name}.mime_type")
    return loose(value) if kind in (_JSON, None) else (value, False)


def _tool_run(step: Step, span: Span) -> ToolRun:
    error = span.error()
    result = span.attribute("output.value")
    found = _value(span, "output")[0]
    message = answers_of(found)[:1] if isinstance(found, Mapping) and "tool_call_id" in found else []
    if message:
        result = message[0]["content"]
    elif result is not None:
        result = content_of(found) if isinstance(found, list) else json_text(result)
    elif error is not None:
        result = error or span.name
    call_id = span.attribute("tool_call.id", "tool.id", "tool.call_id", "gen_ai.tool.call.id")
    call_id = call_id or (message[0].get("tool_call_id") if message else None)
    name = span.attribute("tool.name", "tool_call.function.name")
    return ToolRun(
        step=step,
        call_id=str(call_id) if isinstance(call_id, str | int) else "",
        name=text(name) or span.name,
        arguments=json_text(span.attribute("tool_call.function.arguments", "input.value", "tool.parameters")),
        result=result,
        failed=error is not None or bool(message and message[0].get("is_error")),
    )
