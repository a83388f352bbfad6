"""mini-swe-agent's trajectories: `{messages, info, trajectory_format}`, of its versions 1 and 2.

Version 1 writes its commands as text and is shown what came of them as a user's message. Version 2 keeps messages as
its model's interface has them, chat or responses, with what it knows about them under `extra`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.messages import calls_of, text_of
from harness_adapters.outcome import command_of, outcome_of
from harness_adapters.records import Record
from harness_adapters.trace import Author, Message, Outcome, ToolCall, Trace

_COMMAND = re.compile(r"```(?:bash|sh|mswea_bash_command)[ \t]*\n")
_RETURNED = re.compile(r"\A\s*<returncode>(-?\d{1,9})</returncode>")
_TIMED_OUT = re.compile(r"\A\s*the last command .{1,4000}? timed out", re.DOTALL | re.IGNORECASE)
_REJECTED = re.compile(r"\A\s*commands? not executed\.", re.IGNORECASE)
# What the harness puts before a person's words.
_SAID = re.compile(
    r"\A\s*(commands? not executed\. the user rejected your commands? with the following message:"
    r"|interrupted by user:|the user added a new task:)\s*(?P<said>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_NOTHING_SAID = ("", "Temporary interruption caught.")
_NOT_RUN = "action was not executed"


def is_mini(run: Mapping[str, Any]) -> bool:
    """Say whether a document is one of mini-swe-agent's."""
    info = mapping(run.get("info"))
    if not isinstance(run.get("messages"), list) and "messages" in run:
        return False
    known = text(run.get("trajectory_format")).startswith("mini-swe-agent") or "mini_version" in info
    return known or ({"exit_status", "submission", "model_stats"} <= info.keys() and "messages" in run)


def read_mini(run: Mapping[str, Any], harness: str, name: str, record: Record) -> Iterator[Trace | Skipped]:
    """Yield the trace of a run, whose places count messages."""
    messages = run.get("messages")
    told: list[dict[str, Any]] = []
    for place, message in enumerate(cast("list[object]", messages) if isinstance(messages, list) else []):
        if not isinstance(message, Mapping):
            yield Skipped(record.line, f"message {place} is not an object", orjson.dumps(message))
        told.append(_chat(mapping(message)))
    conversation = Conversation()
    submitted = mapping(run.get("info")).get("exit_status") == "Submitted"
    open_calls: Sequence[ToolCall] = ()
    for place, message in enumerate(told):
        role, extra = message.get("role"), mapping(message.get("extra"))
        shown = {member: value for member, value in message.items() if member != "extra"}
        if role == "assistant":
            turn = conversation.add(shown, place=place)
            open_calls = turn.tool_calls or _written(message, place)
            conversation.turns[-1] = replace(turn, tool_calls=tuple(open_calls))
        elif role == "tool":
            rejected = _is_rejected(told[place + 1 :])
            call = next((c for c in open_calls if c.id == message.get("tool_call_id")), None)
            conversation.add(shown, place=place, outcome=_judged(message, call, rejected=rejected))
        elif role == "exit":
            said = text_of(message.get("content"))
            conversation.add({**shown, "role": "user"}, place=place, author=Author.FRAMEWORK, text=said, shown=False)
        elif role == "user" and conversation.turns:
            succeeded = submitted and place == len(told) - 1
            open_calls = _user(conversation, shown, extra, place, open_calls, succeeded=succeeded)
        elif role is not None:
            conversation.add(shown, place=place)
    if conversation.turns:
        yield conversation.trace(harness, name, complete=not record.cut, is_named=False)


def _user(
    conversation: Conversation,
    message: Message,
    extra: Mapping[str, Any],
    place: int,
    open_calls: Sequence[ToolCall],
    *,
    succeeded: bool,
) -> Sequence[ToolCall]:
    """Add a user's message, which is the harness's or a result more often than a person's.

    Returns the calls that still wait for their results.
    """
    said = text_of(message.get("content"))
    before = conversation.turns[-1]
    kind = text(extra.get("interrupt_type"))
    is_first = not any(turn.author is Author.AGENT for turn in conversation.turns)
    spoken = _SAID.match(said)
    if kind.startswith("User") or (spoken and not (open_calls and _REJECTED.match(said))):
        own = spoken["said"].strip() if spoken else ""
        author = Author.CLIENT if own in _NOTHING_SAID else Author.HUMAN
        conversation.add(message, place=place, author=author, text=own if author is Author.HUMAN else said)
        return ()
    if kind:
        if written := text(extra.get("model_response")):
            conversation.add({"role": "assistant", "content": written}, place=place, shown=False)
        conversation.add(message, place=place, author=Author.FRAMEWORK, text=said)
    elif "actions" in extra or (before.author is Author.CLIENT and "returncode" in extra):
        # A command that a person typed, or its result.
        conversation.add(message, place=place, author=Author.CLIENT, text=said)
    elif open_calls:
        call = open_calls[0]
        outcome = _judged({**message, "extra": extra}, call, rejected=False, flag=False if succeeded else None)
        conversation.add(message, place=place, author=Author.TOOL, text=said, answers=call.id, outcome=outcome)
        return open_calls[1:]
    elif is_first:
        conversation.add(message, place=place)
    elif said:
        conversation.add(message, place=place, author=Author.FRAMEWORK, text=said)
    return ()


def _written(message: Message, place: int) -> Sequence[ToolCall]:
    """Return the command in an answer's text, where it holds the one that is asked for."""
    known = mappings(mapping(message.get("extra")).get("actions"))
    commands = [text(action.get("command")) for action in known] or _commands(text_of(message.get("content")))
    if len(commands) != 1:
        return ()
    return calls_of({"tool_calls": [tool_call(f"message-{place}", "bash", {"command": commands[0]})]})


def _commands(written: str) -> list[str]:
    """Return what stands in fences as a command; one that is not closed is none."""
    found: list[str] = []
    end = 0
    for fence in _COMMAND.finditer(written):
        if fence.start() < end:
            continue
        closer = written.find("\n```", fence.end())
        if closer < 0:
            break
        found.append(written[fence.end() : closer])
        end = closer + 4
    return found


def _is_rejected(following: Sequence[Message]) -> bool:
    """Say whether a person's refusal comes next behind the results of an answer's calls."""
    after = next((m for m in following if m.get("role") != "tool"), {})
    return mapping(after.get("extra")).get("interrupt_type") == "UserRejection"


def _judged(message: Message, call: ToolCall | None, *, rejected: bool, flag: bool | None = None) -> Outcome:
    extra, said = mapping(message.get("extra")), text_of(message.get("content"))
    failure, code = text(extra.get("exception_info")), extra.get("returncode")
    if failure == _NOT_RUN:
        return Outcome.REJECTED_BY_HUMAN if rejected else Outcome.CANCELLED
    if _REJECTED.match(said):
        return Outcome.REJECTED_BY_HUMAN
    if _TIMED_OUT.match(said):
        return Outcome.ERROR_ENV
    if failure:
        return outcome_of(failure, flag=True)
    if type(code) is not int:
        found = _RETURNED.match(said)
        code = int(found[1]) if found else None
    result = text(extra.get("raw_output")) or said
    if code == -1:
        flag, code = True, None  # what the harness notes where there was no code
    return outcome_of(result, flag=flag, exit_code=code, command=command_of(call.arguments) if call else "")


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the chat shape, with its `extra`; those of the responses interface are rewritten."""
    kept: dict[str, Any] = {
        name: message[name] for name in ("extra", "tool_call_id", "tool_calls") if message.get(name)
    }
    if message.get("type") == "function_call_output":
        return {
            **kept,
            "role": "tool",
            "tool_call_id": message.get("call_id"),
            "content": _plain(message.get("output")),
        }
    if isinstance(message.get("output"), list) and "role" not in message:
        return {**kept, **_answer(mappings(message["output"]))}
    if text(message.get("reasoning_content")):
        kept["reasoning_content"] = message["reasoning_content"]
    return {"role": message.get("role"), "content": _plain(message.get("content")), **kept}


def _answer(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    said = [_plain(item.get("content")) for item in items if item.get("type") == "message"]
    thought = [
        text_of(item.get("summary")) or text_of(item.get("content"))
        for item in items
        if item.get("type") == "reasoning"
    ]
    calls = [
        tool_call(item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments"))
        for item in items
        if item.get("type") == "function_call"
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": "\n".join(text_of(part) for part in said)}
    return (
        answer
        | ({"tool_calls": calls} if calls else {})
        | ({"reasoning_content": "\n".join(thought)} if any(thought) else {})
    )


def _plain(content: object) -> object:
    """Return content as one text where it is nothing but text."""
    return content if any("text" not in part for part in mappings(content)) else text_of(content)
