"""Events of OpenHands' agent SDK (version 1), told apart by `kind`, put together into one session."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text, tool_call
from harness_adapters.messages import plain_content, text_of
from harness_adapters.openhands_v0 import RUNS_ON
from harness_adapters.outcome import command_of, outcome_of
from harness_adapters.trace import Author, Outcome

Event = Mapping[str, Any]

_RESULTS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")
_TURNS = (
    *_RESULTS,
    "SystemPromptEvent",
    "MessageEvent",
    "ActionEvent",
    "Condensation",
    "CondensationSummaryEvent",
    "ConversationErrorEvent",
)
# What was done with the conversation, and measured of it; none of it is said to the model.
_LEFT_OUT = (
    "CondensationRequest",
    "ConversationStateUpdateEvent",
    "HookExecutionEvent",
    "InterruptEvent",
    "LLMCompletionLogEvent",
    "PauseEvent",
    "StreamingDeltaEvent",
    "TokenEvent",
)


KINDS = (*_TURNS, *_LEFT_OUT)


def is_sdk_event(value: Event) -> bool:
    """Say whether an object is an event of the SDK, known to this version or not."""
    kind = text(value.get("kind"))
    return kind in KINDS or (bool(kind) and {"id", "timestamp", "source"} <= value.keys())


class SdkSession:
    """Turns events into the turns of a session, in their order."""

    def __init__(self, events: Sequence[tuple[int, Event]]) -> None:
        self.conversation = Conversation()
        self.tools: list[Mapping[str, Any]] = []
        self.is_complete = True
        self.unknown: dict[str, int] = {}
        """Kinds that are not known, each with the number of its first event among those given."""
        self._batches: dict[str, list[tuple[int, Event]]] = {}
        """The actions of each answer that called several tools at once."""
        self._results: dict[str, list[object]] = {}
        seen: dict[str, Event] = {}
        kept: list[tuple[int, int, Event]] = []
        for number, (place, event) in enumerate(events):
            event_id = text(event.get("id"))
            if not event_id or seen.get(event_id) != event:
                seen[event_id] = event
                kept.append((number, place, event))
        for _, place, event in kept:
            response = text(event.get("llm_response_id"))
            if event.get("kind") == "ActionEvent" and response:
                self._batches.setdefault(response, []).append((place, event))
        for number, place, event in kept:
            self._write(event, place, number)

    def _write(self, event: Event, place: int, number: int) -> None:
        kind = text(event.get("kind"))
        if kind == "ActionEvent":
            self._action(event, place)
        elif kind in _RESULTS:
            self._result(event, place)
        elif kind == "MessageEvent":
            self._message(event, place)
        elif kind == "SystemPromptEvent":
            self.tools = [_tool(tool) for tool in mappings(event.get("tools"))]
            prompts = (text(mapping(event.get(name)).get("text")) for name in ("system_prompt", "dynamic_context"))
            self.conversation.add({"role": "system", "content": "\n".join(filter(None, prompts))}, place=place)
        elif kind in ("Condensation", "CondensationSummaryEvent"):
            self.is_complete = False
            if summary := text(event.get("summary")):
                self._from_client(summary, place)
        elif kind == "ConversationErrorEvent":
            said = ": ".join(filter(None, (text(event.get("code")), text(event.get("detail")))))
            self._from_client(said, place, shown=False)
        elif kind not in _LEFT_OUT:
            self.unknown.setdefault(kind, number)

    def _from_client(self, said: str, place: int, *, shown: bool = True) -> None:
        told = {"role": "user", "content": said}
        self.conversation.add(told, place=place, author=Author.CLIENT, text=said, shown=shown)

    def _message(self, event: Event, place: int) -> None:
        said = mapping(event.get("llm_message"))
        role = "assistant" if event.get("source") == "agent" else text(said.get("role")) or "user"
        told: dict[str, Any] = {"role": role, "content": _content(said.get("content")), **_thinking(said)}
        if calls := mappings(said.get("tool_calls")):
            told["tool_calls"] = [_call({"tool_call": call}) for call in calls]
        from_client = event.get("source") == "environment" or (event.get("sender") and role == "user")
        author = Author.CLIENT if from_client else None
        self.conversation.add(told, place=place, author=author, text=text_of(told["content"]) if author else None)
        if added := text_of(_content(event.get("extended_content"))):
            self._from_client(added, place)

    def _action(self, event: Event, place: int) -> None:
        response = text(event.get("llm_response_id"))
        batch = self._batches.pop(response, []) if response else [(place, event)]
        if not batch:
            return  # it was written with the first action of its answer
        told: dict[str, Any] = {"role": "assistant", "content": _content(event.get("thought")), **_thinking(event)}
        told["tool_calls"] = [_call(action) for _, action in batch]
        places = [at for at, _ in batch]
        self.conversation.add(told, place=place, author=Author.AGENT, call_places=places, response_id=response or None)

    def _result(self, event: Event, place: int) -> None:
        call_id = text(event.get("tool_call_id"))
        content = _result_content(event)
        given = self._results.setdefault(call_id, []) if call_id else []
        if content in given:
            return  # said again when the conversation was resumed
        reason = text(event.get("rejection_reason"))
        told = {"role": "tool", "tool_call_id": call_id, "content": f"Action rejected: {reason}" if reason else content}
        outcome = _outcome(event, text_of(content), self._command(call_id))
        self.conversation.add(
            told, place=place, author=Author.TOOL, text=text_of(content), outcome=outcome, shown=not given
        )
        given.append(content)

    def _command(self, call_id: str) -> str:
        for turn in reversed(self.conversation.turns):
            for call in turn.tool_calls:
                if call.id == call_id:
                    return command_of(call.arguments)
        return ""


def _call(action: Event) -> Mapping[str, Any]:
    call = mapping(action.get("tool_call"))
    function = mapping(call.get("function")) or call
    arguments = function.get("arguments")
    if arguments is None:
        arguments = {k: v for k, v in mapping(action.get("action")).items() if k != "kind"}
    return tool_call(
        call.get("id") or call.get("call_id") or action.get("tool_call_id"),
        function.get("name") or action.get("tool_name"),
        arguments,
    )


def _thinking(said: Event) -> dict[str, str]:
    blocks = [text(block.get("thinking")) for block in mappings(said.get("thinking_blocks"))]
    thought = text(said.get("reasoning_content")) or "\n".join(filter(None, blocks))
    return {"reasoning_content": thought} if thought else {}


def _content(content: object) -> object:
    """Return content as one text where it is nothing but text, else as parts."""
    if isinstance(content, str):
        return content
    parts: list[Mapping[str, Any]] = []
    for part in mappings(content):
        urls = part.get("image_urls")
        if isinstance(urls, list):
            parts += [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        else:
            parts.append({"type": "text", "text": text(part.get("text"))})
    return plain_content(parts)


def _result_content(event: Event) -> object:
    kind = event.get("kind")
    if kind == "AgentErrorEvent":
        return text(event.get("error"))
    if kind == "UserRejectObservation":
        return text(event.get("rejection_reason"))
    observed = mapping(event.get("observation"))
    content = _content(observed.get("content"))
    if not content:
        content = "\n".join(filter(None, (text(observed.get(name)) for name in ("output", "error", "message"))))
    added = text_of(_content(event.get("extended_content")))
    return "\n".join((content, added)) if added and isinstance(content, str) else content


def _outcome(event: Event, content: str, command: str) -> Outcome:
    kind, observed = event.get("kind"), mapping(event.get("observation"))
    if kind == "UserRejectObservation":
        by_hook = event.get("rejection_source") == "hook"
        return Outcome.ERROR_AGENT if by_hook else Outcome.REJECTED_BY_HUMAN
    failed = kind == "AgentErrorEvent" or observed.get("is_error") is True or bool(observed.get("error"))
    code = observed.get("exit_code", mapping(observed.get("metadata")).get("exit_code"))
    code = code if type(code) is int else None
    if code == RUNS_ON:
        return Outcome.STILL_RUNNING
    judged = outcome_of(content, flag=True if failed and not code else None, exit_code=code, command=command)
    return Outcome.OK if judged is Outcome.UNKNOWN and observed.get("is_error") is False else judged


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if "function" in tool:
        return {"type": "function", "function": tool["function"]}
    function = {name: tool[name] for name in ("name", "description", "parameters") if tool.get(name)}
    return {"type": "function", "function": function}
