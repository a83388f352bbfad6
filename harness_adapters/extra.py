"""What formats of other tools cannot say of a trace, kept beside it under a name of its own, and read back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness_adapters.conversation import Conversation
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.messages import calls_of, text_of
from harness_adapters.trace import Author, Message, Outcome, ToolCall, Trace, Turn

NAMESPACE = "secondnature"


def turn_extra(turn: Turn, told: Message) -> dict[str, Any]:
    """Return what `told`, the message that the format will give back for a turn, does not say of it."""
    message = turn.message
    extra: dict[str, Any] = {"author": turn.author.value}
    changed = {name: value for name, value in message.items() if name not in told or told[name] != value}
    gone = [name for name in told if name not in message]
    said = {
        "set": changed,
        "unset": gone,
        "text": None if turn.text == text_of(message.get("content")) else turn.text,
        "outcome": turn.outcome.value if turn.outcome else None,
        "calls": None if _plain(turn.tool_calls) == _plain(calls_of(message)) else _plain(turn.tool_calls),
        "answers": None if turn.tool_call_id == message.get("tool_call_id") else turn.tool_call_id,
        "exchange_id": turn.exchange_id,
        "response_id": turn.response_id,
        "version": turn.version,
    }
    return extra | {name: value for name, value in said.items() if value not in (None, {}, [])}


def trace_extra(trace: Trace) -> dict[str, Any]:
    """Return what a file says of the trace as a whole, with the turns in it that the model was not shown."""
    hidden = [
        {"at": turn.index, **turn_extra(turn, {})}  # the message stands in `set`
        for turn in trace.turns
        if not turn.shown
    ]
    names = ("id", "root", "name", "harness", "tenant", "user", "complete", "inherited")
    return {**{name: getattr(trace, name) for name in names}, **({"hidden": hidden} if hidden else {})}


class Retold:
    """A trace put together again from what a format says and what was kept beside it."""

    def __init__(self, extra: object) -> None:
        self._extra = mapping(extra)
        self._hidden = mappings(self._extra.get("hidden"))
        self._conversation = Conversation()

    def add(self, told: Message, extra: object, place: int) -> None:
        """Add the next turn that the model was shown."""
        self._add_hidden(place)
        self._add(told, mapping(extra), place, shown=True)

    def trace(self, harness: str, name: str | None, tools: Sequence[Mapping[str, Any]]) -> Trace:
        """Return the trace. `harness` and `name` are for one of which nothing was kept."""
        self._add_hidden(None)
        extra, whole = self._extra, self._extra.get("complete") is not False
        inherited, kept = (
            extra.get("inherited"),
            {n: text(extra.get(n)) for n in ("id", "root", "harness", "tenant", "user")},
        )
        named = extra.get("name", name)
        trace = self._conversation.trace(
            kept["harness"] or harness,
            named if isinstance(named, str) else None,
            tenant=kept["tenant"] or "default",
            user=kept["user"] or None,
            tools=tools,
            complete=whole,
            inherited=inherited if type(inherited) is int and inherited > 0 else 0,
        )
        trace_id = kept["id"] or trace.id
        return replace(trace, id=trace_id, root=kept["root"] or trace_id)

    def _add_hidden(self, place: int | None) -> None:
        while self._hidden and (place is None or self._hidden[0].get("at") == len(self._conversation.turns)):
            self._add({}, self._hidden.pop(0), place, shown=False)

    def _add(self, told: Message, extra: Mapping[str, Any], place: int | None, *, shown: bool) -> None:
        unset = extra.get("unset")
        gone = unset if isinstance(unset, list) else ()
        message = {**{k: v for k, v in told.items() if k not in gone}, **mapping(extra.get("set"))}
        author = next((author for author in Author if author == extra.get("author")), None)
        turn = self._conversation.add(
            message,
            place=place,
            author=author,
            text=None if author is None else text(extra.get("text", text_of(message.get("content")))),
            answers=text(extra.get("answers")) or None,
            outcome=next((outcome for outcome in Outcome if outcome == extra.get("outcome")), None),
            exchange_id=text(extra.get("exchange_id")) or None,
            response_id=text(extra.get("response_id")) or None,
            version=text(extra.get("version")) or None,
            shown=shown,
        )
        if calls := mappings(extra.get("calls")):  # that the agent wrote as text
            told_calls = [
                ToolCall(id=text(c.get("id")), name=text(c.get("name")), arguments=text(c.get("arguments")))
                for c in calls
            ]
            self._conversation.turns[-1] = replace(turn, tool_calls=tuple(told_calls))


def _plain(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    return [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
