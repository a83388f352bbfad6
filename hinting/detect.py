"""Signals by rule, without a model: which turns of a trace the turns behind them, or explicit feedback, show to be
wrong.

Rules are meant to miss little and to be cheap; whether a signal's hint helps is found out by trying it. Outcomes and
authors were judged when the trace was made, so that a tool's "error" in a page, a framework's validation text or a
client's notice is not taken for a person's complaint.
"""

from collections.abc import Iterator, Sequence

from harness_adapters.exchange import Feedback
from harness_adapters.trace import Author, Trace, Turn
from hinting.people_signals import people_signals, self_signals
from hinting.reading import is_praise, negative
from hinting.signal import CONFIDENCE, Fault, Signal, SignalKind, signal_id
from hinting.story import Story
from hinting.tool_signals import tool_signals


def detect(trace: Trace, feedback: Sequence[Feedback] = ()) -> list[Signal]:
    """Return the signals of a trace, in the order in which they are shown; those of explicit feedback come last.

    What a fork inherited was shown in the session it left.
    """
    story = Story(trace)
    found = [*tool_signals(story), *people_signals(story), *self_signals(story)]
    signals = [s for s in found if s.shown_by is None or s.shown_by >= trace.inherited]
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
    for human, agent in Story(trace).answered():
        if human.index < trace.inherited:
            continue
        if is_praise(human.text) or not negative(human.text):
            accepted.add(agent.index)
    return sorted(accepted - wrong)


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
