"""Conversation: turns put together one by one, with their authors, calls and outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness_adapters.authors import COMPACTION, author_of
from harness_adapters.ids import stable_id
from harness_adapters.messages import calls_of, canonical, text_of
from harness_adapters.outcome import command_of, error_flag, outcome_of
from harness_adapters.trace import Author, Message, Outcome, ToolCall, Trace, Turn


class Conversation:
    """Collects the turns of one session in the order in which the agent saw them."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.is_compacted = False
        """Whether a message sums up what was said before it."""
        self._calls: dict[str, ToolCall] = {}

    def add(
        self,
        message: Message,
        *,
        place: int | None = None,
        author: Author | None = None,
        text: str | None = None,
        call_places: Sequence[int | None] = (),
        answers: str | None = None,
        flag: bool | None = None,
        exit_code: int | None = None,
        outcome: Outcome | None = None,
        exchange_id: str | None = None,
        response_id: str | None = None,
        version: str | None = None,
        shown: bool = True,
    ) -> Turn:
        """Add a message in OpenAI's chat shape and return its turn.

        What the format does not say is found out: the author and which part of the text is theirs, and of a tool's
        result the outcome, from `flag` (true: failed), `exit_code`, the call's command and the text. `call_places` are
        the places of the message's calls where they have some of their own. `answers` is the id of the call a result
        belongs to, where that is not the message's `tool_call_id`.
        """
        found_author, found_text, reason = author_of(message)
        self.is_compacted = self.is_compacted or reason == COMPACTION
        author = author or found_author
        calls: tuple[ToolCall, ...] = ()
        if author in (Author.AGENT, Author.SIMULATED_USER):
            calls = calls_of(message)
            if call_places:
                calls = tuple(replace(c, place=p) for c, p in zip(calls, call_places, strict=True))
            self._calls.update({call.id: call for call in calls})
        call_id = answers or message.get("tool_call_id")
        if author is Author.TOOL and outcome is None:
            call = self._calls.get(str(call_id))
            outcome = outcome_of(
                text_of(message.get("content")),
                flag=error_flag(message) if flag is None else flag,
                exit_code=exit_code,
                command=command_of(call.arguments) if call else "",
            )
        turn = Turn(
            index=len(self.turns),
            author=author,
            text=found_text if text is None else text,
            message=message,
            tool_calls=calls,
            tool_call_id=str(call_id) if call_id else None,
            outcome=outcome if author is Author.TOOL else None,
            exchange_id=exchange_id,
            response_id=response_id,
            version=version,
            place=place,
            shown=shown,
        )
        self.turns.append(turn)
        return turn

    def trace(
        self,
        harness: str,
        name: str | None,
        *,
        tenant: str = "default",
        parent: str | None = None,
        user: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        complete: bool = True,
        inherited: int = 0,
        is_named: bool = True,
    ) -> Trace:
        """Return the trace of the turns so far.

        Its id comes from the harness and the session's name, or from the messages where names are not unique to a
        session (`is_named` false). `parent` is the name of the first session that it was forked from or works for.
        """
        key = name if is_named and name else [canonical(turn.message) for turn in self.turns]
        trace_id = stable_id("session", harness, tenant, name, key)
        return Trace(
            id=trace_id,
            harness=harness,
            tenant=tenant,
            turns=tuple(self.turns),
            root=stable_id("session", harness, tenant, parent, parent) if parent else trace_id,
            user=user,
            tools=tuple(tools),
            complete=complete,
            inherited=inherited,
            name=name,
        )
