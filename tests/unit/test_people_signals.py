"""Corrections and repeats that no word of complaint tells: deeds redone after a remark, and reminders."""

import json
from typing import Any

import pytest
from signal_cases import A, H, T, call, result, trace_of_turns

from harness_adapters.trace import Outcome
from hinting.asking import ends_in_question
from hinting.detect import detect
from hinting.signal import SignalKind


def done(name: str, result_text: str, **arguments: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """An action of the agent that succeeds, and its result."""
    call_id = f"{name}-{sorted(arguments.items())}"
    return (
        (A, "", call(call_id, json.dumps(arguments), name)),
        (T, result_text, result(call_id, Outcome.OK)),
    )


BOOKED = done("book_room", '{"id": "BK-77", "room": "twin"}', guest="Ada", room="twin")
CANCELLED = done("cancel_booking", '{"ok": true}', booking="BK-77")
EXTENDED = done("modify_booking", '{"ok": true}', booking="BK-77", bed="king")
AGAIN = done("book_room", '{"id": "BK-78"}', guest="Ada", room="double")
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


@pytest.mark.parametrize("name", ["functions.exec_command", "execute_bash", "mcp__fs__view", "str_replace_editor"])
def test_to_look_twice_changes_nothing(name: str) -> None:
    first, second = (done(name, "ok", command="view", path=f"{at}.py", lines=9) for at in ("a", "b"))
    assert detect(trace_of_turns((H, "Look"), *first, (A, "I see."), (H, "The app is in Rust."), *second)) == []


def test_what_was_made_and_is_carried_on_with_does_not_train() -> None:
    made = done("create_ticket", '{"id": "T-100", "status": "open"}', topic="printer")
    closed = done("update_ticket", "ok", ticket="T-100", status="closed")
    talk = ((H, "The printer is stuck"), *made, (A, "Noted."), (H, "It prints again."), *closed)
    assert [signal.confidence < 0.5 for signal in detect(trace_of_turns(*talk))] == [True]


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
        ("Which towels do you have?", False),
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
    "Please don't hesitate to write.": False,
    "Is it the blue one or something else?": True,
    "Let me know which bed you want.": True,
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
