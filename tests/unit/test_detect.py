import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.exchange import Feedback
from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn
from hinting.asking import ends_in_question
from hinting.detect import accepted_turns, detect
from hinting.signal import Fault, SignalKind

H, A, T, F = Author.HUMAN, Author.AGENT, Author.TOOL, Author.FRAMEWORK


def trace_of_turns(*turns: tuple[Any, ...]) -> Trace:
    made: list[Turn] = []
    for index, (author, text, *more) in enumerate(turns):
        extra: dict[str, Any] = more[0] if more else {}
        made.append(Turn(index=index, author=author, text=text, message={}, response_id=f"r{index}", **extra))
    return Trace(id="t", harness="x", tenant="d", turns=tuple(made), root="t")


def call(call_id: str, arguments: str, name: str = "get") -> dict[str, Any]:
    return {"tool_calls": (ToolCall(id=call_id, name=name, arguments=arguments),)}


def result(call_id: str, outcome: Outcome) -> dict[str, Any]:
    return {"tool_call_id": call_id, "outcome": outcome}


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


def done(name: str, result_text: str, **arguments: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An action of the agent that succeeds, and its result."""
    call_id = f"{name}-{sorted(arguments.items())}"
    return (
        (A, "", call(call_id, json.dumps(arguments), name)),
        (T, result_text, result(call_id, Outcome.OK)),
    )


BOOKED = done("create_booking", '{"id": "BK-77", "room": "twin"}', guest="Ada", room="twin")
CANCELLED = done("cancel_booking", '{"ok": true}', booking="BK-77")
EXTENDED = done("modify_booking", '{"ok": true}', booking="BK-77", bed="king")
AGAIN = done("create_booking", '{"id": "BK-78"}', guest="Ada", room="double")
OTHER = done("create_ticket", '{"id": "T-1"}', topic="parking")


@pytest.mark.parametrize(
    ("asked", "remark", "after", "found"),
    [
        ("Booked.", "My husband and I share a bed.", CANCELLED, True),
        ("Booked.", "My husband and I share a bed.", EXTENDED, True),
        ("Booked.", "My husband and I share a bed.", AGAIN, True),
        ("Booked. Can I do anything else for you?", "My husband and I share a bed.", EXTENDED, True),
        ("Booked.", "My husband and I share a bed.", OTHER, False),
        ("Booked.", "Can you give us a king bed?", EXTENDED, False),
        ("Booked.", "Yes, thanks!", EXTENDED, False),
        ("Booked. Which bed do you prefer?", "A king one.", EXTENDED, False),
        ("Booked. Please choose a bed, then I will note it.", "A king one.", EXTENDED, False),
    ],
)
def test_what_the_agent_takes_back_after_a_remark_was_wrong(
    asked: str, remark: str, after: tuple[tuple[Any, ...], ...], found: bool
) -> None:
    """No word of such a remark complains; what follows tells."""
    signals = detect(trace_of_turns((H, "A room for us two, please"), *BOOKED, (A, asked), (H, remark), *after))
    assert [(s.kind, s.target) for s in signals] == ([(SignalKind.USER_CORRECTION, 1)] if found else [])


def edited(path: str, old: str, new: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return done("Edit", "updated", file_path=path, old_string=old, new_string=new)


NAMED = (*edited("a.rs", "None", "first_scan_at: at"), *edited("b.rs", "", "mod checkin;"))
RENAMED = edited("a.rs", "first_scan_at", "firstScanAt")


@pytest.mark.parametrize(
    ("remark", "after", "found"),
    [
        ("the app only knows camel case", RENAMED, True),
        ("the app only knows camel case", edited("a.rs", "fn main()", "fn run()"), False),
        ("the app only knows camel case", edited("c.rs", "x", "y"), False),
        *((said, RENAMED, False) for said in ("Continue", "Rename it then.", "Looks good! Run the tests.", "Weiter.")),
        *((said, RENAMED, False) for said in ("Sigue con el paso 2.", "继续", "Can you use camel case?", "Thanks!")),
    ],
)
def test_text_written_over_after_a_remark(
    remark: str, after: tuple[tuple[Any, ...], tuple[Any, ...]], found: bool
) -> None:
    signals = detect(trace_of_turns((H, "Name the key"), *NAMED, (A, "Named."), (H, remark), *after))
    assert [(s.kind, s.target) for s in signals] == ([(SignalKind.USER_CORRECTION, 1)] if found else [])


OF_ADA = done("get_user", '{"id": "U-1"}', user="U-1")
ORDERED = done("create_order", '{"order": "R-10", "due": "2025-06-01"}', user="U-1", item="lamp", rush=False)


@pytest.mark.parametrize(
    "after",
    [
        done("cancel_order", "ok", user="U-1", order="R-2"),
        done("cancel_order", "ok", order="R-2", refund=False),
        done("update_address", "ok", user="U-1", valid_from="2025-06-01"),
        done("create_order", '{"order": "R-11"}', user="U-1", item="vase", gift=True),
        done("send_message", "ok", user="U-1", text="It is on its way."),
    ],
)
def test_what_only_looks_like_taking_back(after: tuple[tuple[Any, ...], tuple[Any, ...]]) -> None:
    """Who it is for, a flag and a date are shared by much."""
    talk = ((H, "A lamp, please"), *OF_ADA, *ORDERED, (A, "Ordered."), (H, "There is still the old one."), *after)
    assert detect(trace_of_turns(*talk)) == []


@pytest.mark.parametrize("name", ["add_item", "append_line", "write_stdin", "computer"])
def test_one_more_thing_is_no_second_try(name: str) -> None:
    first, second = (done(name, "ok", cart="C-1", unit="kg", what=what) for what in ("milk", "eggs"))
    assert detect(trace_of_turns((H, "Milk"), *first, (A, "It is in."), (H, "Eggs."), *second)) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("and the towels?", True),
        ("Perfect! And the towels?", True),
        ("and the parking?", False),  # asked for the first time
        ("towels", False),  # may well be the answer to something
        ("and the room?", False),  # spoken of by the agent
        ("Thank you. That was all about the room and the towels, we shall see you on Monday then", False),
    ],
)
def test_a_reminder_of_what_was_left_out(said: str, found: bool) -> None:
    signals = detect(
        trace_of_turns((H, "I need a room and fresh towels"), (A, "The room is yours."), (H, said), (A, "Noted."))
    )
    assert [(s.kind, s.target) for s in signals] == ([(SignalKind.USER_REPEAT, 1)] if found else [])


@pytest.mark.parametrize("offer", ["Can I do anything else for you?", "Kann ich sonst noch etwas tun?", "¿Algo más?"])
def test_no_to_an_offer_is_no_complaint(offer: str) -> None:
    for no in ("No.", "Nein.", "No, I have to run."):
        talk = ((H, "A room, please"), (A, f"It is yours. {offer}"), (H, no), (A, "Goodbye, sorry for the wait."))
        assert detect(trace_of_turns(*talk)) == []


QUESTIONS = {
    "Which one would you like? \U0001f642": True,
    "Please let me know which bed you prefer.": True,
    "Would you like something more spacious?": True,
    "Bitte nennen Sie mir Ihre Kundennummer.": True,
    "It is booked. Is there anything else I can help you with?": False,
    "Kann ich Ihnen sonst noch helfen?": False,
    "It is booked. Please note that breakfast is extra.": False,
    "Please let me know if you need more.": False,
}


@pytest.mark.parametrize(("answer", "is_question"), QUESTIONS.items())
def test_answers_that_end_in_a_question(answer: str, is_question: bool) -> None:
    assert ends_in_question(answer) is is_question


@pytest.mark.parametrize(
    "thanks", ["Much better, thank you.", "Perfect, that helps.", "Merci, parfait !", "谢谢, 很好"]
)
def test_thanks_are_no_correction_however_sorry_the_agent_is(thanks: str) -> None:
    talk = ((H, "What is tea?"), (A, "A drink."), (H, thanks), (A, "You're right, I apologize for my mistake."))
    assert detect(trace_of_turns(*talk)) == []
