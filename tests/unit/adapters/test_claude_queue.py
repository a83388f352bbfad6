import pytest
from claude_records import agent, call, only, queued, result, said, typed_meanwhile, user
from turns_told import told

from harness_adapters.trace import Author

WORK = (user("go"), agent("m1", said("I begin."), call("c1")))


def test_a_queued_message_that_becomes_a_record_counts_there() -> None:
    trace = only(
        *WORK,
        queued("enqueue", "use tabs"),
        result("c1"),
        queued("dequeue"),
        user("use tabs"),
        agent("m2", said("Yes.")),
    )
    assert told(trace, Author.HUMAN) == [(0, "go"), (5, "use tabs")]


def test_a_message_told_while_the_agent_works_counts_where_it_was_typed_and_stands_behind_the_results() -> None:
    trace = only(
        *WORK,
        queued("enqueue", "use tabs"),
        queued("popAll", "use tabs"),
        queued("enqueue", "use tabs, please"),
        queued("remove"),
        result("c1"),
        agent("m2", said("With tabs.")),
    )
    assert [(t.author.value, t.place) for t in trace.turns] == [
        ("human", 0),
        ("agent", 1),
        ("tool", 6),
        ("human", 4),
        ("agent", 7),
    ]
    assert trace.turns[3].text == "use tabs, please"


@pytest.mark.parametrize("prompt", ["use tabs", [said("use tabs")]])
def test_a_message_that_an_attachment_carries_counts_once(prompt: object) -> None:
    trace = only(
        *WORK,
        queued("enqueue", "use tabs"),
        result("c1"),
        typed_meanwhile(prompt, origin={"kind": "human"}),
        queued("remove", "use tabs", reason="absorbed_mid_turn"),
        agent("m2", said("Yes.")),
    )
    assert told(trace, Author.HUMAN) == [(0, "go"), (4, "use tabs")]


def test_the_same_words_typed_again_later_count_again() -> None:
    trace = only(
        *WORK,
        queued("enqueue", "use tabs"),
        queued("remove", reason="absorbed_mid_turn"),
        result("c1"),
        agent("m2", said("Spaces it is.")),
        user("use tabs"),
    )
    assert told(trace, Author.HUMAN) == [(0, "go"), (2, "use tabs"), (6, "use tabs")]


def test_two_messages_are_taken_out_of_the_queue_before_they_are_recorded() -> None:
    trace = only(
        *WORK,
        queued("enqueue", "one"),
        queued("enqueue", "two"),
        result("c1"),
        queued("dequeue"),
        queued("dequeue"),
        user("one"),
        user("two"),
    )
    assert told(trace, Author.HUMAN) == [(0, "go"), (7, "one"), (8, "two")]


def test_queued_commands_and_notifications_are_the_clients() -> None:
    trace = only(
        *WORK,
        queued("enqueue", "/review the last change"),
        queued("enqueue", "<task-notification>done</task-notification>"),
        result("c1"),
        queued("dequeue"),
        user("<command-name>/review</command-name><command-args>the last change</command-args>"),
        typed_meanwhile("<task-notification>done</task-notification>", commandMode="task-notification"),
        queued("remove", "<task-notification>done</task-notification>"),
        agent("m2", said("Yes.")),
    )
    assert told(trace, Author.HUMAN) == [(0, "go")]
    assert [t.place for t in trace.turns if t.author is Author.CLIENT] == [6, 7]


def test_a_message_the_agent_never_got_is_kept_but_not_shown() -> None:
    trace = only(*WORK, result("c1"), queued("enqueue", "no, stop"))
    last = trace.turns[-1]
    assert (last.author, last.text, last.place, last.shown) == (Author.HUMAN, "no, stop", 3, False)


def test_a_message_taken_out_for_a_reason_not_known_was_not_told() -> None:
    trace = only(*WORK, queued("enqueue", "stop"), queued("remove", "stop", reason="withdrawn"), result("c1"))
    assert told(trace, Author.HUMAN) == [(0, "go")]
