"""LangSmith runs, as its clients dump them and its API exports them.

A file holds runs, one a line or in one list, or pages `{runs: [...]}`; runs stand apart or inside one another
(`child_runs`); a run may be told twice, at its beginning and at its end. Messages are read as LangChain serialises them
and as plain objects. `session_id` is LangSmith's name for a project: what makes a thread is in the metadata of the
topmost run. `feedback_stats`, which only counts what people said of a run, is not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from harness_adapters.adapter import Item, Skipped
from harness_adapters.calls import ModelCall, ToolRun, read_steps
from harness_adapters.chatlike import answers_of, batch, request_of
from harness_adapters.chatparts import Chat, content_of, json_text, loose, tools_of
from harness_adapters.fields import mapping, mappings, quoted, text
from harness_adapters.notes import Notes
from harness_adapters.recorded import values_of
from harness_adapters.source import Head, Source
from harness_adapters.steps import Step
from harness_adapters.times import instant

_TYPES = {"llm", "chain", "tool", "retriever", "embedding", "prompt", "parser"}
_MARKS = ("dotted_order", "trace_id", "parent_run_id", "child_runs", "inputs", "session_id", "start_time")
_THREAD = ("session_id", "thread_id", "conversation_id")
_PAGES = ("runs", "data")


class LangSmith:
    """Reads exported LangSmith runs."""

    name = "langsmith"
    unit = "run"

    def recognises(self, head: Head) -> bool:
        """Say whether any of the first records is a run."""
        found = [
            run
            for value in head.objects()
            for run in (value, *(r for name in _PAGES for r in mappings(value.get(name))))
        ]
        return any(_is_run(run) and run.get("run_type") in _TYPES for run in found)

    def read(self, source: Source) -> Iterator[Item]:
        """Yield the exchanges of the source's threads."""
        yield from read_steps(self.name, _steps(source), _read, from_root=True)


def _is_run(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("run_type"), str) and any(name in value for name in _MARKS)


def _steps(source: Source) -> Iterator[Step | Skipped]:
    place = 0
    for record in values_of(source, _PAGES):
        if isinstance(record, Skipped):
            yield record
            continue
        found = list(_runs(record.value))
        if not found:
            yield Skipped(record.line, "it is not a run", record.raw)
        for number, (run, above) in enumerate(found, 1):
            # An update of a run told before has neither its type nor its inputs.
            own = _id(run.get("id")) or f"run {place}"
            path = _path(run)
            trace = _id(run.get("trace_id")) or (path[0] if path else None) or above.get("trace") or own
            yield Step(
                place=place,
                line=record.line,
                trace=trace,
                id=own,
                parent=_id(run.get("parent_run_id")) or (path[-2] if len(path) > 1 else None) or above.get("id"),
                start=instant(run.get("start_time")) or _dotted_time(run),
                session=_thread(run),
                user=_id(_metadata(run).get("user_id")),
                data={key: value for key, value in run.items() if key != "child_runs"},
                cut=record.cut and number == len(found),
            )
            place += 1


def _runs(value: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """Yield the runs in a record, each with the id and the trace of the one it stands in."""
    waiting: list[tuple[Mapping[str, Any], Mapping[str, str]]] = [(value, {})]
    while waiting:
        run, above = waiting.pop()
        if not _is_run(run) and not (run.get("id") and ("trace_id" in run or "dotted_order" in run)):
            waiting += [(inner, above) for name in reversed(_PAGES) for inner in reversed(mappings(run.get(name)))]
            continue
        yield run, above
        path = _path(run)
        trace = _id(run.get("trace_id")) or (path[0] if path else "") or above.get("trace") or _id(run.get("id")) or ""
        own = {"id": _id(run.get("id")) or "", "trace": trace}
        waiting += [(child, own) for child in reversed(mappings(run.get("child_runs")))]


def _id(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def _path(run: Mapping[str, Any]) -> list[str]:
    """Return the ids of the runs from the topmost down to this one."""
    return [part.partition("Z")[2] for part in text(run.get("dotted_order")).split(".") if "Z" in part]


def _dotted_time(run: Mapping[str, Any]) -> float | None:
    when = text(run.get("dotted_order")).rpartition(".")[2].partition("Z")[0]
    try:
        return datetime.strptime(when[:21], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _metadata(run: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(run.get("extra")).get("metadata"))


def _thread(run: Mapping[str, Any]) -> str | None:
    metadata = _metadata(run)
    return next((found for name in _THREAD if (found := _id(metadata.get(name)))), None)


def _read(steps: Sequence[Step], notes: Notes) -> Iterator[ModelCall | ToolRun]:
    for step in steps:
        run = step.data
        kind = text(run.get("run_type"))
        if kind == "llm":
            calls = [call for call in _model_calls(step, run) if call.request["messages"] or call.answers]
            yield from calls
            if not calls:
                notes.add("model calls are recorded without their messages", step)
        elif kind == "tool":
            yield _tool_run(step, run)
        elif kind == "chain" and step.parent is None:
            calls = _model_calls(step, run, weak=True)
            yield from (call for call in calls if call.request["messages"] and call.answers)
        elif kind not in _TYPES:
            notes.add(f"runs of type {quoted(kind)} are not known to this version", step)


def _model_calls(step: Step, run: Mapping[str, Any], weak: bool = False) -> Iterator[ModelCall]:
    asked, said = loose(run.get("inputs")), loose(run.get("outputs"))
    for number, (inputs, outputs) in enumerate(batch(asked[0], said[0])):
        at = replace(step, id=f"{step.id} {number}") if number else step
        yield _model_call(at, run, inputs, outputs, cut=asked[1] or said[1], weak=weak)


def _model_call(step: Step, run: Mapping[str, Any], inputs: Any, outputs: Any, *, cut: bool, weak: bool) -> ModelCall:
    if isinstance(inputs, Mapping) and isinstance(inputs.get("kwargs"), Mapping) and "messages" not in inputs:
        inputs = inputs["kwargs"]  # of a function that was traced
    request = request_of(inputs)
    parameters = mapping(mapping(run.get("extra")).get("invocation_params"))
    metadata = _metadata(run)
    tools: list[Chat] = request.get("tools") or tools_of(parameters.get("tools") or parameters.get("functions"))
    models = (
        request.get("model"),
        metadata.get("ls_model_name"),
        parameters.get("model"),
        parameters.get("model_name"),
    )
    model = next((name for name in models if isinstance(name, str) and name), None)
    return ModelCall(
        step=step,
        request=request
        | ({"tools": tools} if tools else {})
        | ({"model": model} if model else {})
        | ({"cut": True} if cut else {}),
        answers=answers_of(outputs),
        error=text(run.get("error")) or ("the run failed" if run.get("status") == "error" else None),
        response_id=step.id,
        weak=weak,
    )


def _tool_run(step: Step, run: Mapping[str, Any]) -> ToolRun:
    error = text(run.get("error")) or ("the run failed" if run.get("status") == "error" else "")
    outputs, inputs = loose(run.get("outputs"))[0], loose(run.get("inputs"))[0]
    held = outputs.get("output", outputs) if isinstance(outputs, Mapping) and outputs else outputs
    message = next((m for m in answers_of(held) if m["role"] == "tool"), None) if isinstance(held, Mapping) else None
    if message:
        result = message["content"]
    elif held in (None, {}, ""):
        result = error or (None if held is None else "")
    else:
        result = content_of(held)
    arguments = (
        next((inputs[n] for n in ("input", "args") if n in inputs), inputs) if isinstance(inputs, Mapping) else inputs
    )
    asked = mapping(inputs)
    call_id = (message or {}).get("tool_call_id") or (asked.get("id") if asked.get("type") == "tool_call" else None)
    call_id = call_id or _metadata(run).get("tool_call_id")
    return ToolRun(
        step=step,
        call_id=_id(call_id) or "",
        name=text(run.get("name")),
        arguments=json_text(arguments),
        result=result,
        failed=bool(error) or bool(message and message.get("is_error")),
    )
