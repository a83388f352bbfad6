"""Langfuse traces and observations, as its API, its client and its exports give them.

A file holds traces with their observations, `{trace, observations}`, pages `{data: [...]}`, or traces and observations
by themselves, one a line or in one list; members are in camel or snake case, inputs and outputs objects or JSON text.
Scores are not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness_adapters.adapter import Item, Skipped
from harness_adapters.calls import ModelCall, ToolRun, read_steps
from harness_adapters.chatlike import answers_of, request_of
from harness_adapters.chatparts import content_of, json_text, loose
from harness_adapters.fields import mapping, mappings, quoted, stem, text
from harness_adapters.notes import Notes
from harness_adapters.recorded import values_of
from harness_adapters.source import Head, Source
from harness_adapters.steps import Step
from harness_adapters.times import instant

_TYPES = {"SPAN", "GENERATION", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
_OF_OBSERVATION = ("traceId", "trace_id", "parentObservationId", "parent_observation_id")
_OF_TRACE = ("sessionId", "session_id", "userId", "user_id", "htmlPath", "html_path", "observations", "bookmarked")
_TRACE = "TRACE"


class Langfuse:
    """Reads exported Langfuse traces."""

    name = "langfuse"
    unit = "observation"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is an observation or a trace."""
        for value in head.objects():
            for item in (value, *mappings(value.get("data"))):
                inner = mappings(item.get("observations"))
                if _is_observation(item) or any(_type(o) in _TYPES for o in inner) or _is_bare_trace(item):
                    return True
        return False

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the exchanges of the source's sessions."""
        yield from read_steps(self.name, _steps(source), _read)


def _get(value: Mapping[str, Any], *names: str) -> Any:
    """Return the first of the members that is there and not null, by its name in either case."""
    for name in names:
        snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
        found = value.get(name) if value.get(name) is not None else value.get(snake)
        if found is not None:
            return found
    return None


def _type(value: Mapping[str, Any]) -> str:
    return text(value.get("type")).upper()


def _is_observation(value: Mapping[str, Any]) -> bool:
    return _type(value) in _TYPES and any(name in value for name in _OF_OBSERVATION[:2]) and "level" in value


def _is_bare_trace(value: Mapping[str, Any]) -> bool:
    """Say whether it is a trace without its observations, as exported by themselves."""
    is_trace = all(name in value for name in ("id", "timestamp", "input", "output", "name"))
    return is_trace and sum(name in value for name in _OF_TRACE) >= 2


def _parts(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the traces and observations of a record, a trace before its observations and with its type put in."""
    if isinstance(value.get("data"), list) and "type" not in value:
        for item in mappings(value["data"]):
            yield from _parts(item)
        return
    trace = mapping(value.get("trace")) or value
    inner = value.get("observations", trace.get("observations"))
    if _type(value) and any(name in value for name in _OF_OBSERVATION):
        yield value
    elif isinstance(inner, list) or any(name in trace for name in _OF_TRACE):
        yield {key: item for key, item in trace.items() if key not in ("observations", "scores")} | {"type": _TRACE}
        for observation in mappings(inner):
            yield {**observation, "traceId": _get(observation, "traceId") or trace.get("id")}


def _steps(source: Source) -> Iterator[Step | Skipped]:
    name, place = stem(source.name), 0
    for record in values_of(source, ("data",)):
        if isinstance(record, Skipped):
            yield record
            continue
        found = list(_parts(record.value))
        if not found:
            yield Skipped(record.line, "it is neither a trace nor an observation", record.raw)
        for number, part in enumerate(found, 1):
            is_trace = part.get("type") == _TRACE
            own = text(part.get("id")) or f"observation {place}"
            trace = own if is_trace else text(_get(part, "traceId")) or name
            above = text(_get(part, "parentObservationId"))
            yield Step(
                place=place,
                line=record.line,
                trace=trace,
                id=f"trace {own}" if is_trace else own,
                parent=None if is_trace else above or f"trace {trace}",
                start=instant(_get(part, "startTime", "timestamp")),
                session=text(_get(part, "sessionId")) or None,
                user=text(_get(part, "userId")) or None,
                data={**part},
                cut=record.cut and number == len(found),
            )
            place += not is_trace


def _read(steps: Sequence[Step], notes: Notes) -> Iterator[ModelCall | ToolRun]:
    for step in steps:
        kind = _type(step.data)
        failed = text(step.data.get("level")).upper() == "ERROR"
        message = text(_get(step.data, "statusMessage"))
        if kind in ("GENERATION", _TRACE):
            call = _model_call(step, (message or "the call failed") if failed else None)
            if call.weak and not (call.request["messages"] and call.answers):
                continue
            if call.request["messages"] or call.answers:
                yield call
            else:
                notes.add("generations are recorded without their messages", step)
        elif kind in ("TOOL", "SPAN"):
            yield _tool_run(step, failed, message)
        elif kind not in _TYPES:
            notes.add(f"observations of type {quoted(kind)} are not known to this version", step)


def _model_call(step: Step, error: str | None) -> ModelCall:
    asked, cut = loose(step.data.get("input"))
    said, is_cut = loose(step.data.get("output"))
    request = request_of(asked)
    model = _get(step.data, "model", "providedModelName")
    return ModelCall(
        step=step,
        request=request
        | ({"model": model} if isinstance(model, str) and model else {})
        | ({"cut": True} if cut or is_cut else {}),
        answers=answers_of(said),
        error=error,
        response_id=step.id,
        weak=_type(step.data) == _TRACE,
    )


def _tool_run(step: Step, failed: bool, message: str) -> ToolRun:
    asked, said = loose(step.data.get("input"))[0], loose(step.data.get("output"))[0]
    metadata = mapping(loose(step.data.get("metadata"))[0])
    told = next((m for m in answers_of(said) if m["role"] == "tool"), None) if isinstance(said, Mapping) else None
    if told:
        result = told["content"]
    elif said in (None, "", {}):
        result = (message or "the tool failed") if failed else said if said is None else ""
    else:
        result = content_of(said)
    ids = (told or {}).get("tool_call_id"), *(h.get(n) for h in (metadata, mapping(asked)) for n in _CALL_IDS)
    return ToolRun(
        step=step,
        call_id=next((found for found in ids if isinstance(found, str) and found), ""),
        name=text(step.data.get("name")),
        arguments=json_text(asked),
        result=result,
        failed=failed or bool(told and told.get("is_error")),
        sure=_type(step.data) == "TOOL",
    )


_CALL_IDS = ("tool_call_id", "toolCallId", "gen_ai.tool.call.id")
