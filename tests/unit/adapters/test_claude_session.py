from typing import Any

import pytest
from claude_records import agent, call, only, record, result, said, user
from turns_told import outcomes, told

from harness_adapters.trace import Author, Outcome


@pytest.mark.parametrize(
    "written",
    [
        user("use the skill", isMeta=True),
        user("<command-name>/clear</command-name><command-message>clear</command-message>"),
        user("<local-command-stdout>bye</local-command-stdout>"),
        user([said("[Request interrupted by user for tool use]")]),
        user("<task-notification>done</task-notification>", origin={"kind": "task-notification"}),
        user("look at this", origin={"kind": "peer"}),
        user("<teammate-message id=x>look</teammate-message>"),
        user("Stop hook feedback: run the tests"),
        user("go on", promptSource="system"),
        user("go on", turnOrigin="auto_continuation"),
    ],
)
def test_what_the_client_writes_is_not_the_persons(written: dict[str, Any]) -> None:
    trace = only(user("hello"), agent("m1", said("Hi.")), written)
    assert trace.turns[-1].author is Author.CLIENT


def test_typed_text_beside_the_clients_blocks() -> None:
    trace = only(
        user([said("<ide_opened_file>a.py</ide_opened_file>"), said("no, the other one")], origin={"kind": "human"})
    )
    assert told(trace, Author.HUMAN) == [(0, "no, the other one")]


def test_a_compaction_leaves_the_trace_incomplete() -> None:
    trace = only(
        user("first"),
        agent("m1", said("Yes.")),
        record("system", subtype="compact_boundary", content="Conversation compacted"),
        user("Sum of it all: the person was unhappy.", isCompactSummary=True),
        user("next"),
    )
    assert told(trace, Author.HUMAN) == [(0, "first"), (4, "next")]
    assert trace.turns[2].author is Author.CLIENT
    assert not trace.complete


def test_errors_of_the_service_are_not_the_agents() -> None:
    trace = only(
        user("go"),
        record(
            "assistant",
            isApiErrorMessage=True,
            message={"id": "x", "model": "<synthetic>", "content": [said("API Error: 529 overloaded")]},
        ),
        user("again"),
        agent("m1", said("Here.")),
    )
    error = trace.turns[1]
    assert (error.author, error.shown, error.text) == (Author.FRAMEWORK, False, "API Error: 529 overloaded")
    assert [m["content"] for m in trace.prefix(3)] == ["go", "again"]


REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."


@pytest.mark.parametrize(
    ("written", "outcome"),
    [
        (result("c1", REFUSAL, is_error=True, toolUseResult=f"Error: {REFUSAL}"), Outcome.REJECTED_BY_HUMAN),
        (result("c1", "Stopped.", is_error=True, toolDenialKind="user-rejected"), Outcome.REJECTED_BY_HUMAN),
        (result("c1", "Stopped.", is_error=True, toolDenialKind="interrupted"), Outcome.CANCELLED),
        (result("c1", "Denied.", is_error=True, toolDenialKind="permission-rule"), Outcome.ERROR_ENV),
        (result("c1", "Permission to use Bash has been denied.", is_error=True), Outcome.ERROR_ENV),
        (result("c1", "<tool_use_error>File does not exist.</tool_use_error>", is_error=True), Outcome.ERROR_AGENT),
        (result("c1", "Exit code 2\nno such folder", is_error=True), Outcome.ERROR_AGENT),
        (result("c1", "Exit code 1", is_error=True), Outcome.OK_EMPTY),
        (result("c1", "Exit code 124\n", is_error=True), Outcome.ERROR_ENV),
        (result("c1", "", is_error=False), Outcome.OK_EMPTY),
        (result("c1", "No files found"), Outcome.OK_EMPTY),
        (result("c1", "Error: is how the page begins"), Outcome.OK),
        (result("c1", "half", toolUseResult={"stdout": "half", "interrupted": True}), Outcome.CANCELLED),
        (result("c1", "Running with id b1", toolUseResult={"backgroundTaskId": "b1"}), Outcome.STILL_RUNNING),
        (result("c1", "Launched.", toolUseResult={"status": "async_launched"}), Outcome.STILL_RUNNING),
        (result("c1", "x", toolUseResult={"status": "failed", "exitCode": 3}), Outcome.ERROR_AGENT),
    ],
)
def test_outcomes(written: dict[str, Any], outcome: Outcome) -> None:
    trace = only(user("go"), agent("m1", call("c1", command="grep -r x .")), written)
    assert outcomes(trace) == [outcome]


def test_servers_of_others_forget_the_flag() -> None:
    trace = only(user("go"), agent("m1", call("c1", "mcp__db__query")), result("c1", "Error: no such table (1)"))
    assert outcomes(trace) == [Outcome.ERROR_AGENT]


def test_results_of_several_calls_in_one_record_with_words_behind_them() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [said("a"), said("b")]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
        said("stop, that is the wrong folder"),
    ]
    trace = only(user("go"), agent("m1", call("c1"), call("c2")), user(blocks))
    assert [(t.author.value, t.text, t.place) for t in trace.turns[2:]] == [
        ("tool", "a\nb", 2),
        ("tool", "no", 2),
        ("human", "stop, that is the wrong folder", 2),
    ]


def test_pictures_stay() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    trace = only(user([picture, said("what is this?")]))
    assert trace.turns[0].message["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        said("what is this?"),
    ]
    assert trace.turns[0].text == "what is this?"
