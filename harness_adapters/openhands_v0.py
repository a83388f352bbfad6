"""Events of OpenHands' first version: actions and observations, put together into a session and those of its delegates.

An action that the model called a tool for carries the model's whole response, which is written once, however many
actions came of it; the observations tell by `tool_call_metadata`, or by `cause`, what they answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness_adapters.authors import author_of
from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.messages import answer_of, calls_of
from harness_adapters.outcome import command_of, outcome_of
from harness_adapters.trace import Author, Message, Outcome, ToolCall

Event = Mapping[str, Any]

# What was done with the conversation; none of it is said to the model.
_CONTROL_ACTIONS = (
    "change_agent_state",
    "condensation_request",
    "initialize",
    "null",
    "pause",
    "recall",
    "resume",
    "start",
    "stop",
)
RUNS_ON = -1
"""What stands in the place of an exit code while a command has not ended."""
_CONTROL_OBSERVATIONS = ("agent_state_changed", "null", "server_ready")
_NO_ARGUMENTS = ("thought", "confirmation_state", "security_risk")


def is_event(value: Event) -> bool:
    """Say whether an object is an action with its arguments, or an observation."""
    if isinstance(value.get("action"), str):
        return isinstance(value.get("args"), Mapping)
    return isinstance(value.get("observation"), str) and ("extras" in value or "cause" in value)


@dataclass(slots=True)
class Session:
    """A session's turns so far, and what is known about those that wait for something."""

    name: str
    """What sets a delegate's session apart; empty for the first."""
    conversation: Conversation = field(default_factory=Conversation)
    tools: Sequence[Mapping[str, Any]] = ()
    is_complete: bool = True
    open_calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    """The calls without a result, by their ids."""


class V0Sessions:
    """Turns events into the turns of sessions, in their order."""

    def __init__(self, events: Sequence[tuple[int, Event]]) -> None:
        self.sessions = [Session("")]
        self._open = [self.sessions[0]]
        """The session whose agent is at work, behind those that wait for it."""
        self._responses: dict[str, dict[str, int]] = {}
        """The places of the actions of each response, by the ids of their calls."""
        self._written: set[str] = set()
        self._called: dict[object, str] = {}
        """The ids of calls by those of their actions."""
        self._typed: set[object] = set()
        """The ids of commands a person ran."""
        self._waits_for_typed = False
        for place, event in events:
            about = mapping(event.get("tool_call_metadata"))
            response = text(mapping(about.get("model_response")).get("id"))
            if response and "action" in event:
                self._responses.setdefault(response, {})[text(about.get("tool_call_id"))] = place
        seen: dict[object, Event] = {}
        for place, event in events:
            event_id = _id(event)
            if event_id is None or seen.get(event_id) != event:
                self._write(event, place)
                seen[event_id] = event

    @property
    def _session(self) -> Session:
        return self._open[-1]

    def _add(self, message: Message, place: int, **said: Any) -> None:
        self._session.conversation.add(message, place=place, **said)

    def _write(self, event: Event, place: int) -> None:
        if isinstance(event.get("action"), str):
            self._action(text(event["action"]), event, mapping(event.get("args")), place)
        elif event.get("observation") not in _CONTROL_OBSERVATIONS:
            self._observation(text(event.get("observation")), event, place)

    def _action(self, action: str, event: Event, args: Event, place: int) -> None:
        if action in _CONTROL_ACTIONS:
            return
        source = self._source(action, event, args)
        if action == "system":
            self._session.tools = mappings(args.get("tools"))
            self._add({"role": "system", "content": text(args.get("content"))}, place)
        elif action == "condensation":
            self._session.is_complete = False
            if summary := text(args.get("summary")):
                self._from_client(summary, place)
        elif action == "message":
            role = "assistant" if source == "agent" else "user"
            self._session.open_calls = {}
            self._add({"role": role, "content": _content(args)}, place, **_client(source, text(args.get("content"))))
        elif source != "agent":
            # A command or a file that a person asked for beside the agent.
            self._typed.add(_id(event))
            self._waits_for_typed = True
            self._session.open_calls = {}
            self._from_client(text(args.get("command")) or text(args.get("code")) or text(args.get("path")), place)
        elif event.get("tool_call_metadata"):
            self._called_tool(action, event, args, place)
        elif action in ("finish", "reject"):
            said = (
                text(args.get("final_thought")) or _thought(args) or text(mapping(args.get("outputs")).get("content"))
            )
            self._add({"role": "assistant", "content": said}, place)
        else:
            arguments = {name: value for name, value in args.items() if name not in _NO_ARGUMENTS}
            call = tool_call(f"event-{place}", action, arguments)
            self._call(event, {"role": "assistant", "content": _thought(args), "tool_calls": [call]}, place)
        if action == "delegate" and source == "agent":
            self._open.append(Session(f"delegate-{place}"))
            self.sessions.append(self._open[-1])

    def _source(self, action: str, event: Event, args: Event) -> str:
        """Say whose an action is. Where it is not told, the first message is a person's."""
        if source := text(event.get("source")):
            return source
        if action != "message":
            return "agent"
        said = {"role": "user", "content": text(args.get("content"))}
        spoken = any(turn.author is not Author.SYSTEM for turn in self._session.conversation.turns)
        return "agent" if spoken and author_of(said).author is Author.HUMAN else "user"

    def _from_client(self, said: str, place: int) -> None:
        self._add({"role": "user", "content": said}, place, author=Author.CLIENT, text=said)

    def _called_tool(self, action: str, event: Event, args: Event, place: int) -> None:
        """Write the response that called a tool, unless an earlier action of the same response did."""
        about = mapping(event.get("tool_call_metadata"))
        call_id, response = text(about.get("tool_call_id")), mapping(about.get("model_response"))
        if _id(event) is not None:
            self._called[_id(event)] = call_id
        response_id = text(response.get("id"))
        answer = answer_of(response)
        if response_id in self._written:
            return
        if answer is None or call_id not in {call.id for call in calls_of(answer)}:
            arguments = {name: value for name, value in args.items() if name not in _NO_ARGUMENTS}
            call = tool_call(call_id, text(about.get("function_name")) or action, arguments)
            answer = {**(answer or {}), "role": "assistant", "tool_calls": [call]}
            answer.setdefault("content", _thought(args))
        elif response_id:
            self._written.add(response_id)
        kept = {name: answer[name] for name in ("tool_calls", "reasoning_content") if answer.get(name)}
        message = {"role": "assistant", "content": answer.get("content"), **kept}
        at = self._responses.get(response_id, {})
        places = [at.get(call.id, place) for call in calls_of(message)]
        self._call(event, message, place, call_places=places, response_id=response_id or None)

    def _call(self, event: Event, message: Message, place: int, **said: Any) -> None:
        self._add(message, place, **said)
        calls = self._session.conversation.turns[-1].tool_calls
        self._session.open_calls = {call.id: call for call in calls}
        if _id(event) is not None and calls:
            self._called.setdefault(_id(event), calls[0].id)

    def _observation(self, kind: str, event: Event, place: int) -> None:
        content, extras = text(event.get("content")), mapping(event.get("extras"))
        if kind == "delegate" and len(self._open) > 1:
            self._open.pop()
        if kind in ("recall", "microagent"):
            told = [mapping(item).get("content") for item in mappings(extras.get("microagent_knowledge"))]
            said = [content, text(extras.get("repo_instructions")), *map(text, told)]
            self._from_client("\n".join(filter(None, said)), place)
            return
        if kind == "condense":
            self._session.is_complete = False
            self._from_client(content, place)
            return
        about, cause = mapping(event.get("tool_call_metadata")), event.get("cause")
        if not about and (self._waits_for_typed if not isinstance(cause, int) else cause in self._typed):
            self._waits_for_typed = False
            self._from_client(content, place)
            return
        waiting = self._session.open_calls
        call_id = text(about.get("tool_call_id")) or (self._called.get(cause, "") if isinstance(cause, int) else "")
        if not call_id and not waiting and kind == "error":
            # The model's call could not be read, and is not recorded.
            told = {"role": "user", "content": content}
            self._add(told, place, author=Author.FRAMEWORK, text=content)
            return
        call_id = call_id or next(iter(waiting), "")
        call = waiting.pop(call_id, None)
        meta = mapping(extras.get("metadata"))
        shown = text(meta.get("prefix")) + content + text(meta.get("suffix"))
        outcome = _outcome(kind, event, content, command_of(call.arguments) if call else "")
        message = {"role": "tool", "tool_call_id": call_id, "content": shown}
        self._add(message, place, author=Author.TOOL, text=content, outcome=outcome)


def _id(event: Event) -> object:
    """Return the event's id, which may be missing, and has gaps in its order."""
    return event.get("id") if isinstance(event.get("id"), int | str) else None


def _client(source: str, said: str) -> dict[str, Any]:
    return {"author": Author.CLIENT, "text": said} if source not in ("agent", "user") else {}


def _thought(args: Event) -> str:
    thought = args.get("thought")
    return text(thought) or text(mapping(thought).get("text"))


def _content(args: Event) -> object:
    said, urls = text(args.get("content")), args.get("image_urls") or args.get("images_urls")
    if not isinstance(urls, list) or not urls:
        return said
    images = [{"type": "image_url", "image_url": {"url": url}} for url in cast("list[object]", urls)]
    return [{"type": "text", "text": said}, *images]


def _outcome(kind: str, event: Event, content: str, command: str) -> Outcome:
    extras = mapping(event.get("extras"))
    if kind == "user_rejected":
        return Outcome.REJECTED_BY_HUMAN
    code = mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    if code == RUNS_ON:
        return Outcome.STILL_RUNNING
    if type(code) is int and kind != "error":
        return outcome_of(content, exit_code=code, command=command)
    failed = kind == "error" or extras.get("error") is True or event.get("success") is False
    return outcome_of(content, flag=True if failed else None, command=command)
