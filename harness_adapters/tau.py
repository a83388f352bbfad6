"""tau-bench and tau2-bench: benchmarks in which one model plays the agent and another its customer.

tau-bench writes a list of `{task_id, trial, reward, info, traj}`, where `traj` are chat messages of an agent that calls
tools, or of one that writes its actions as text. tau2-bench writes `{info, tasks, simulations}`, or each simulation to
a file of its own. What is spoken (`ticks`) is not read, nor what providers sent (`raw_data`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.jsontext import value_in
from harness_adapters.messages import text_of
from harness_adapters.outcome import outcome_of
from harness_adapters.recorded import values_of
from harness_adapters.records import Record
from harness_adapters.source import Head, Source
from harness_adapters.trace import Author, Message, ToolCall, Trace

_CONTROL = re.compile(r"###(?:STOP|TRANSFER|OUT-OF-SCOPE)###")
"""What the customer's model writes to end the conversation."""
_OBSERVED = "API output: "
"""How the result of an action that was written as text begins."""
_WRITTEN = re.compile(r"\bAction:\s*(?=\{)")


class TauBench:
    """Reads tau-bench's results."""

    name = "tau_bench"
    unit = "message"

    def recognises(self, head: Head) -> bool:
        """Say whether the file holds runs of tasks with their messages."""
        return any("task_id" in value and isinstance(value.get("traj"), list) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield a trace for each run of a task."""
        for record in values_of(source):
            if isinstance(record, Skipped):
                yield record
            elif isinstance(record.value.get("traj"), list):
                yield from _run(record)
            else:
                yield Skipped(record.line, "it has no list `traj`", record.raw)


def _run(record: Record) -> Iterator[Trace | Skipped]:
    conversation = Conversation()
    for place, message in enumerate(cast("list[object]", record.value["traj"])):
        if isinstance(message, Mapping):
            _add_chat(conversation, cast(Message, message), place)
        else:
            yield Skipped(record.line, f"message {place} of `traj` is not an object", orjson.dumps(message))
    if conversation.turns:
        name = _task_name(record.value)
        yield conversation.trace(TauBench.name, name, complete=not record.cut, is_named=False)


def _add_chat(conversation: Conversation, message: Message, place: int) -> None:
    said = text_of(message.get("content"))
    if message.get("role") != "user":
        turn = conversation.add(message, place=place)
        if turn.author is Author.AGENT and not turn.tool_calls and (call := _written_call(said, f"message-{place}")):
            conversation.turns[-1] = replace(turn, tool_calls=(call,))
    elif said.startswith(_OBSERVED):
        result = said.removeprefix(_OBSERVED)
        calls = conversation.turns[-1].tool_calls if conversation.turns else ()
        answers = calls[0].id if calls else None
        judged = outcome_of(result)
        conversation.add(message, place=place, author=Author.TOOL, text=result, answers=answers, outcome=judged)
    else:
        conversation.add(message, place=place, author=Author.SIMULATED_USER, text=_spoken(said))


def _written_call(said: str, call_id: str) -> ToolCall | None:
    """Return the call in what an agent wrote that has no tools to call; None where it only speaks."""
    found = _WRITTEN.search(said)
    if found is None:
        return None
    call = mapping(value_in(said[found.end() :]))
    name = text(call.get("name"))
    if not name or name == "respond":
        return None
    return ToolCall(id=call_id, name=name, arguments=json.dumps(call.get("arguments"), ensure_ascii=False))


def _spoken(said: str) -> str:
    return " ".join(part.strip() for part in _CONTROL.split(said)).strip()


def _task_name(run: Mapping[str, Any]) -> str:
    return f"task-{run.get('task_id')}_trial-{run.get('trial')}"


class Tau2:
    """Reads tau2-bench's results."""

    name = "tau2"
    unit = "message"

    def recognises(self, head: Head) -> bool:
        """Say whether the file holds what describes a run, or is one simulation of a run."""
        return any(_is_results(value) or _is_simulation(value) for value in head.objects())

    def read(self, source: Source) -> Iterator[Trace | Skipped]:
        """Yield a trace for each simulation."""
        for record in values_of(source, ("simulations",)):
            if isinstance(record, Skipped):
                yield record
            elif isinstance(record.value.get("messages"), list):
                yield from _simulation(record)
            elif isinstance(record.value.get("ticks"), list):
                yield Skipped(record.line, "it is a spoken simulation, which this version does not read", record.raw)
            elif not _is_results(record.value) and not _is_simulation(record.value):
                yield Skipped(record.line, "it is not a simulation", record.raw)


def _is_results(value: Mapping[str, Any]) -> bool:
    info = mapping(value.get("info"))
    return "environment_info" in info and ("user_info" in info or "agent_info" in info)


def _is_simulation(value: Mapping[str, Any]) -> bool:
    return {"id", "task_id", "termination_reason"} <= value.keys() and ("reward_info" in value or "messages" in value)


def _simulation(record: Record) -> Iterator[Trace | Skipped]:
    run = record.value
    about = mapping(mapping(record.head.get("info")).get("environment_info"))
    messages = cast("list[object]", run["messages"])
    conversation = Conversation()
    policy = text(run.get("policy")) or text(about.get("policy"))
    if policy and not any(message.get("role") == "system" for message in mappings(messages)):
        conversation.add({"role": "system", "content": policy})
    for place, message in enumerate(messages):
        if isinstance(message, Mapping):
            _add_message(conversation, cast(Message, message), place)
        else:
            yield Skipped(record.line, f"message {place} of the simulation is not an object", orjson.dumps(message))
    if any(turn.place is not None for turn in conversation.turns):
        name = text(run.get("id"))
        yield conversation.trace(
            Tau2.name, name or _task_name(run), tools=_tools(about), complete=not record.cut, is_named=bool(name)
        )


def _add_message(conversation: Conversation, message: Message, place: int) -> None:
    role, content = message.get("role"), message.get("content")
    of_user = message.get("requestor") == "user"
    if role == "tool" and isinstance(message.get("tool_messages"), list):
        for result in mappings(message["tool_messages"]):
            _add_message(conversation, {"role": "tool", **result}, place)
    elif role == "tool":
        result = {"role": "tool", "tool_call_id": text(message.get("id")), "content": content}
        flag = message.get("error")
        # What the customer's own tools answered, the agent never saw.
        author, shown = (Author.CLIENT, False) if of_user else (Author.TOOL, True)
        conversation.add(result, place=place, author=author, flag=flag if isinstance(flag, bool) else None, shown=shown)
    else:
        calls = [_call(call) for call in mappings(message.get("tool_calls"))]
        told = {"role": role, "content": content} | ({"tool_calls": calls} if calls else {})
        if role != "user":
            conversation.add(told, place=place)
        else:
            said = text_of(content)
            shown = bool(said) or not calls
            if said:
                told.pop("tool_calls", None)
            conversation.add(told, place=place, author=Author.SIMULATED_USER, text=_spoken(said), shown=shown)


def _call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    return call if "function" in call else tool_call(call.get("id"), call.get("name"), call.get("arguments"))


def _tools(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools that the results describe, which they do where they were asked to."""
    given = about.get("tool_defs")
    found = mappings(list(cast("Mapping[str, object]", given).values()) if isinstance(given, Mapping) else given)
    return [tool if "function" in tool else _tool(tool) for tool in found]


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = {
        "name": text(tool.get("name")),
        "description": text(tool.get("doc")) or text(tool.get("description")),
        "parameters": mapping(tool.get("params") or tool.get("parameters")),
    }
    return {"type": "function", "function": function}
