"""Signals by rule, without a model: which turns of a trace the turns behind them, or explicit feedback, show to be
wrong.

Rules are meant to miss little and to be cheap; whether a signal's hint helps is found out by trying it. Outcomes and
authors were judged when the trace was made, so that a tool's "error" in a page, a framework's validation text or a
client's notice is not taken for a person's complaint.
"""

import json
from collections.abc import Iterator, Sequence

from harness_adapters.exchange import Feedback
from harness_adapters.outcome import rejection_reason
from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn
from hinting.reading import is_praise, negative, reads_as_correction, same_request, takes_back
from hinting.signal import Fault, Signal, SignalKind, signal_id

# How much each rule is trusted, from 0 to 1: its precision as judged on hand-labelled recordings, coarsely.
CONFIDENCE = {
    "rating": 0.95,
    "accepted_edit": 0.95,
    "comment": 0.9,
    "tool_retry_fixed": 0.9,
    "rejected_with_reason": 0.9,
    "correction": 0.85,
    "environment": 0.8,
    "correction_generic": 0.7,
    "tool_retry": 0.6,
    "repeat": 0.6,
    "rejected": 0.5,
}

_SUCCESS = (Outcome.OK, Outcome.OK_EMPTY, Outcome.UNKNOWN)


def detect(trace: Trace, feedback: Sequence[Feedback] = ()) -> list[Signal]:
    """Return the signals of a trace, in the order in which they are shown; those of explicit feedback come last.

    What a fork inherited was shown in the session it left.
    """
    shown = [*_tool_signals(trace), *_human_signals(trace)]
    signals = [s for s in shown if s.shown_by is None or s.shown_by >= trace.inherited]
    signals.sort(key=lambda s: (s.shown_by or 0, s.target))
    return [*signals, *_feedback_signals(trace, feedback)]


def accepted_turns(trace: Trace, feedback: Sequence[Feedback] = ()) -> list[int]:
    """Return the agent turns a person accepted.

    Such a turn was rated well, or thanked for, or the person went on to something else without a word against it. A
    turn that any signal is about is never accepted, nor is one that nothing followed.
    """
    wrong = {signal.target for signal in detect(trace, feedback)}
    liked = {f.response_id for f in feedback if f.rating is not None and f.rating > 0}
    accepted = {t.index for t in trace.turns if t.author is Author.AGENT and t.response_id and t.response_id in liked}
    for human, agent in _answered(trace):
        if human.index < trace.inherited:
            continue
        if is_praise(human.text) or not negative(human.text):
            accepted.add(agent.index)
    return sorted(accepted - wrong)


def _human_signals(trace: Trace) -> Iterator[Signal]:
    humans = [turn for turn in trace.turns if turn.author is Author.HUMAN]
    for human, agent in _answered(trace):
        earlier = [turn for turn in humans if turn.index < agent.index][-3:]
        request = earlier[-1].text if earlier else ""
        if families := reads_as_correction(human.text, request=request, answer=agent.text):
            rule = "correction_generic" if families == ["generic"] else "correction"
            fault = Fault.USER if takes_back(human.text) else Fault.AGENT
            fix = _next_agent(trace, human.index)
            yield _signal(trace, SignalKind.USER_CORRECTION, agent.index, human, rule, fix=fix, fault=fault)
        elif any(same_request(human.text, turn.text) for turn in earlier) and not is_praise(human.text):
            yield _signal(
                trace, SignalKind.USER_REPEAT, agent.index, human, "repeat", fix=_next_agent(trace, human.index)
            )


def _answered(trace: Trace) -> Iterator[tuple[Turn, Turn]]:
    """Yield each human turn that follows an agent's turn, with the nearest such turn."""
    agent: Turn | None = None
    for turn in trace.turns:
        if turn.author is Author.AGENT:
            agent = turn
        elif turn.author is Author.HUMAN and agent is not None and turn.text.strip():
            yield turn, agent


def _next_agent(trace: Trace, index: int) -> int | None:
    """Return the last agent turn before the person speaks again: what they had in the end."""
    last = None
    for turn in trace.turns[index + 1 :]:
        if turn.author is Author.HUMAN:
            break
        if turn.author is Author.AGENT:
            last = turn.index
    return last


def _tool_signals(trace: Trace) -> Iterator[Signal]:
    for turn in trace.turns:
        if turn.author is Author.FRAMEWORK:
            before = trace.turns[turn.index - 1] if turn.index else None
            if before and before.author is Author.AGENT:
                fix = _accepted_retry(trace, turn.index)
                rule = "tool_retry" if fix is None else "tool_retry_fixed"
                yield _signal(trace, SignalKind.TOOL_ERROR_RETRY, before.index, turn, rule, fix=fix)
        elif turn.outcome in (Outcome.ERROR_AGENT, Outcome.ERROR_ENV, Outcome.REJECTED_BY_HUMAN):
            agent, call = _call_of(trace, turn)
            if agent is not None:
                yield _tool_signal(trace, turn, agent, call)


def _tool_signal(trace: Trace, turn: Turn, agent: Turn, call: ToolCall | None) -> Signal:
    if turn.outcome is Outcome.REJECTED_BY_HUMAN:
        given = rejection_reason(turn.text) is not None
        rule, fault = ("rejected_with_reason", Fault.AGENT) if given else ("rejected", Fault.UNKNOWN)
        return _signal(trace, SignalKind.REJECTED_ACTION, agent.index, turn, rule, fault=fault)
    fix, flaky = _retry(trace, turn, call)
    if turn.outcome is Outcome.ERROR_ENV or flaky:
        return _signal(
            trace, SignalKind.TOOL_ERROR_RETRY, agent.index, turn, "environment", fix=fix, fault=Fault.ENVIRONMENT
        )
    rule = "tool_retry" if fix is None else "tool_retry_fixed"
    return _signal(trace, SignalKind.TOOL_ERROR_RETRY, agent.index, turn, rule, fix=fix)


def _call_of(trace: Trace, tool: Turn) -> tuple[Turn | None, ToolCall | None]:
    """Return the agent turn whose call a tool turn answers, and the call; the nearest calling turn where no id
    matches."""
    nearest: Turn | None = None
    for turn in reversed(trace.turns[: tool.index]):
        if turn.author is Author.AGENT and turn.tool_calls:
            for call in turn.tool_calls:
                if call.id and call.id == tool.tool_call_id:
                    return turn, call
            nearest = nearest or turn
    only = nearest.tool_calls[0] if nearest and len(nearest.tool_calls) == 1 else None
    return nearest, only


def _retry(trace: Trace, failed: Turn, call: ToolCall | None) -> tuple[int | None, bool]:
    """Return the turn that called the same tool with other arguments and did not fail, and whether the call was flaky:
    the same arguments worked later, so the call was not what was wrong."""
    if call is None:
        return None, False
    for turn in trace.turns[failed.index + 1 :]:
        if turn.outcome not in _SUCCESS or turn.author is not Author.TOOL:
            continue
        agent, again = _call_of(trace, turn)
        if agent is None or again is None or again.name != call.name or agent.index < failed.index:
            continue
        if _arguments(again) == _arguments(call):
            return None, True
        return agent.index, False
    return None, False


def _accepted_retry(trace: Trace, rejected: int) -> int | None:
    """Return the agent turn behind a framework's rejection, unless that was rejected as well."""
    for turn in trace.turns[rejected + 1 :]:
        if turn.author is Author.AGENT:
            after = trace.turns[turn.index + 1] if turn.index + 1 < len(trace.turns) else None
            return None if after and after.author is Author.FRAMEWORK else turn.index
    return None


def _arguments(call: ToolCall) -> object:
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def _feedback_signals(trace: Trace, feedback: Sequence[Feedback]) -> Iterator[Signal]:
    turns = {turn.response_id: turn for turn in trace.turns if turn.author is Author.AGENT and turn.response_id}
    for given in feedback:
        turn = turns.get(given.response_id)
        if turn is None:
            continue
        comment = (given.comment or "").strip()
        bad_rating = given.rating is not None and given.rating < 0
        bad_comment = bool(comment) and (given.rating or 0) <= 0 and not is_praise(comment)
        if bad_rating or bad_comment:
            rule = "rating" if bad_rating else "comment"
            yield _given(
                trace, SignalKind.FEEDBACK, turn, given, rule=rule, evidence=comment or f"rated {given.rating:g}"
            )
        if given.accepted_edit is not None and given.accepted_edit.strip() != turn.text.strip():
            yield _given(
                trace, SignalKind.ACCEPTED_EDIT, turn, given, rule="accepted_edit", evidence=given.accepted_edit
            )


def _signal(
    trace: Trace,
    kind: SignalKind,
    target: int,
    shown_by: Turn,
    rule: str,
    *,
    fix: int | None = None,
    fault: Fault = Fault.AGENT,
) -> Signal:
    return Signal(
        id=signal_id(trace.id, kind, target, shown_by.index),
        trace_id=trace.id,
        kind=kind,
        target=target,
        shown_by=shown_by.index,
        fix=fix,
        fault=fault,
        confidence=CONFIDENCE[rule],
        evidence=shown_by.text,
    )


def _given(trace: Trace, kind: SignalKind, turn: Turn, given: Feedback, *, rule: str, evidence: str) -> Signal:
    return Signal(
        id=signal_id(trace.id, kind, turn.index, given.id),
        trace_id=trace.id,
        kind=kind,
        target=turn.index,
        shown_by=None,
        fix=None,
        fault=Fault.AGENT,
        confidence=CONFIDENCE[rule],
        evidence=evidence,
    )
