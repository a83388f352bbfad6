from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signal_cases import A, F, H, T, call, result, trace_of_turns

from harness_adapters.exchange import Feedback
from harness_adapters.trace import Author, Outcome, ToolCall
from hinting.detect import accepted_turns, detect
from hinting.signal import Fault, SignalKind


def given_feedback(**members: Any) -> Feedback:
    whole: dict[str, Any] = {"id": "f1", "response_id": "r1", "tenant": "d", "created_at": 0.0, **members}
    return Feedback(**whole)


TALK = (
    (H, "What is a modem?"),
    (A, "A modem is a device. Its history began long ago, in the last century, with telephones."),
    (H, "Whoa, that's an essay. Short please."),
    (A, "A modem turns signals into data."),
    (H, "Thanks! What is a router?"),
    (A, "A router passes data on."),
)


def test_a_correction_points_at_the_answer_before_it_and_at_what_put_it_right() -> None:
    (signal,) = detect(trace_of_turns(*TALK))
    assert (signal.kind, signal.target, signal.shown_by, signal.fix) == (SignalKind.USER_CORRECTION, 1, 2, 3)
    assert (signal.fault, signal.evidence) == (Fault.AGENT, TALK[2][1])


def test_accepted_turns_are_those_people_went_on_from() -> None:
    assert accepted_turns(trace_of_turns(*TALK)) == [3]


def test_reading_a_session_again_finds_the_same_signals() -> None:
    assert detect(trace_of_turns(*TALK)) == detect(trace_of_turns(*TALK))
    assert detect(trace_of_turns(*TALK[:4]))[0].id == detect(trace_of_turns(*TALK))[0].id


def test_own_words_taken_back_are_not_the_agents_fault() -> None:
    start = ((H, "Explain modems at length"), (A, "A modem is a device with a long history."))
    (signal,) = detect(trace_of_turns(*start, (H, "That's too long. My mistake, I should have said that.")))
    assert signal.fault is Fault.USER
    assert detect(trace_of_turns(*start, (H, "Sorry, I meant routers, not modems"))) == []


def test_a_repeat() -> None:
    turns = ((H, "How do I reset my password?"), (A, "Passwords are secret."), (H, "how can I reset the password??"))
    (signal,) = detect(trace_of_turns(*turns))
    assert (signal.kind, signal.target) == (SignalKind.USER_REPEAT, 1)
    assert accepted_turns(trace_of_turns(*turns)) == []


def test_a_retry_with_other_arguments_that_works() -> None:
    turns = (
        (H, "order 7"),
        (A, "", call("c1", '{"id": "7"}')),
        (T, "Error: no such id", result("c1", Outcome.ERROR_AGENT)),
        (A, "", call("c2", '{"id": "#7"}')),
        (T, "sent", result("c2", Outcome.UNKNOWN)),
        (A, "It was sent."),
    )
    (signal,) = detect(trace_of_turns(*turns))
    assert (signal.kind, signal.target, signal.shown_by, signal.fix) == (SignalKind.TOOL_ERROR_RETRY, 1, 2, 3)
    assert (signal.fault, signal.evidence) == (Fault.AGENT, "Error: no such id")


@pytest.mark.parametrize(
    ("again", "outcome", "fix", "fault"),
    [
        (call("c2", '{ "id":"7"}'), Outcome.OK, None, Fault.ENVIRONMENT),
        (call("c2", '{"id": "8"}'), Outcome.ERROR_AGENT, None, Fault.AGENT),
        (call("c2", '{"id": "8"}', name="other"), Outcome.OK, None, Fault.AGENT),
        (call("c2", '{"id": "8"}'), Outcome.OK_EMPTY, 3, Fault.AGENT),
    ],
    ids=["identical repeat works: a flake", "fails again", "another tool", "empty is a success"],
)
def test_what_counts_as_put_right(again: dict[str, Any], outcome: Outcome, fix: int | None, fault: Fault) -> None:
    turns = (
        (H, "order 7"),
        (A, "", call("c1", '{"id": "7"}')),
        (T, "Error", result("c1", Outcome.ERROR_AGENT)),
        (A, "", again),
        (T, "x", result("c2", outcome)),
    )
    first = detect(trace_of_turns(*turns))[0]
    assert (first.target, first.fix, first.fault) == (1, fix, fault)


def test_the_environments_errors_are_not_the_agents() -> None:
    turns = ((H, "x"), (A, "", call("c1", "{}")), (T, "timed out", result("c1", Outcome.ERROR_ENV)))
    (signal,) = detect(trace_of_turns(*turns))
    assert signal.fault is Fault.ENVIRONMENT


def test_parallel_calls_are_told_apart_by_id() -> None:
    both = {"tool_calls": (*call("c1", '{"a": 1}')["tool_calls"], *call("c2", '{"a": 2}')["tool_calls"])}
    turns = (
        (H, "x"),
        (A, "", both),
        (T, "ok", result("c1", Outcome.OK)),
        (T, "Error", result("c2", Outcome.ERROR_AGENT)),
        (A, "", call("c3", '{"a": 3}')),
        (T, "ok", result("c3", Outcome.OK)),
    )
    (signal,) = detect(trace_of_turns(*turns))
    assert (signal.shown_by, signal.fix) == (3, 4)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The user doesn't want to proceed with this tool use.", Fault.UNKNOWN),
        ("The user doesn't want to proceed. To tell you how to proceed, the user said:\nuse tabs", Fault.AGENT),
    ],
)
def test_a_rejected_action(text: str, fault: Fault) -> None:
    turns = ((H, "x"), (A, "", call("c1", "{}")), (T, text, result("c1", Outcome.REJECTED_BY_HUMAN)))
    (signal,) = detect(trace_of_turns(*turns))
    assert (signal.kind, signal.fault) == (SignalKind.REJECTED_ACTION, fault)


def test_a_frameworks_refusal_is_a_tool_error_and_no_correction() -> None:
    turns = ((H, "x"), (A, "Paris"), (F, "Validation feedback: wrong, use a tool"), (A, "", call("c", "{}")))
    (signal,) = detect(trace_of_turns(*turns))
    assert (signal.kind, signal.target, signal.fix) == (SignalKind.TOOL_ERROR_RETRY, 1, 3)


@pytest.mark.parametrize(
    ("members", "kinds"),
    [
        ({"rating": -1.0}, [SignalKind.FEEDBACK]),
        ({"comment": "far too long"}, [SignalKind.FEEDBACK]),
        ({"comment": "perfect, thanks", "rating": 1.0}, []),
        ({"comment": "nice work"}, []),
        ({"rating": 1.0}, []),
        ({"accepted_edit": "B"}, [SignalKind.ACCEPTED_EDIT]),
        ({"accepted_edit": " A\n"}, []),
        ({"rating": -0.5, "comment": "no", "accepted_edit": "B"}, [SignalKind.FEEDBACK, SignalKind.ACCEPTED_EDIT]),
        ({"rating": -1.0, "response_id": "unknown"}, []),
    ],
)
def test_explicit_feedback(members: dict[str, Any], kinds: list[SignalKind]) -> None:
    trace = trace_of_turns((H, "q"), (A, "A"))
    signals = detect(trace, [given_feedback(**members)])
    assert [s.kind for s in signals] == kinds
    assert all(s.shown_by is None and s.target == 1 and s.evidence for s in signals)


def test_a_good_rating_accepts_and_a_bad_one_never_does() -> None:
    trace = trace_of_turns((H, "q"), (A, "A"))
    assert accepted_turns(trace) == []
    assert accepted_turns(trace, [given_feedback(rating=1.0)]) == [1]
    praised = trace_of_turns((H, "q"), (A, "A"), (H, "thanks"))
    assert accepted_turns(praised) == [1]
    assert accepted_turns(praised, [given_feedback(rating=-1.0)]) == []


turns_strategy = st.lists(
    st.tuples(
        st.sampled_from(list(Author)),
        st.sampled_from(["too long", "thanks", "What is a modem?", "no", "", "List three pears", "Error", "ok"]),
        st.fixed_dictionaries(
            {
                "outcome": st.none() | st.sampled_from(list(Outcome)),
                "tool_call_id": st.none() | st.sampled_from(["a", "b"]),
            }
        ),
        st.lists(st.sampled_from(["a", "b"]), max_size=2),
    ),
    max_size=12,
)


@given(turns_strategy)
def test_signals_of_any_trace_are_about_earlier_agent_turns_and_bar_acceptance(rows: list[Any]) -> None:
    turns = [
        (author, text, {**extra, "tool_calls": tuple(ToolCall(id=c, name="f", arguments=text) for c in calls)})
        for author, text, extra, calls in rows
    ]
    trace = trace_of_turns(*turns)
    signals = detect(trace)
    for signal in signals:
        assert trace.turns[signal.target].author is A
        assert signal.shown_by is not None
        assert signal.target < signal.shown_by
        assert signal.fix is None or (signal.fix > signal.target and trace.turns[signal.fix].author is A)
        assert 0 < signal.confidence <= 1
    assert len({s.id for s in signals}) == len(signals)
    accepted = accepted_turns(trace)
    assert not {s.target for s in signals} & set(accepted)
    assert all(trace.turns[index].author is A for index in accepted)
