import json
from typing import Any

import pytest
from adapter_files import head_of, items, jsonl, skipped, told, traces

from harness_adapters.adapter import Skipped
from harness_adapters.gemini_cli import GeminiCli
from harness_adapters.trace import Author, Outcome, Trace

ADAPTER = GeminiCli()
ABOUT = {
    "sessionId": "s-1",
    "projectHash": "ab12",
    "startTime": "2026-03-01T10:00:00Z",
    "lastUpdated": "2026-03-01T10:05:00Z",
}


def user(key: str, said: Any, **members: Any) -> dict[str, Any]:
    return {"id": key, "timestamp": "2026-03-01T10:00:00Z", "type": "user", "content": said, **members}


def model(key: str, said: Any, *calls: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**user(key, said), "type": "gemini", "model": "g", "tokens": None, "toolCalls": list(calls), **members}


def ran(key: str, output: str, status: str = "success", name: str = "run_shell_command", **args: Any) -> dict[str, Any]:
    member = "output" if status == "success" else "error"
    response = {"functionResponse": {"id": key, "name": name, "response": {member: output}}}
    return {"id": key, "name": name, "args": args, "status": status, "result": [response], "timestamp": "t"}


THOUGHT = {"subject": "Look", "description": "I read the folder.", "timestamp": "t"}
MESSAGES = [
    user("1", "How many recipes are there?"),
    model("2", "I count them.", ran("c-1", "Output: 12", command="ls recipes | wc -l"), thoughts=[THOUGHT]),
    model("3", "Twelve."),
]
OLD = json.dumps({**ABOUT, "messages": MESSAGES}, indent=2).encode()
NEW = jsonl(
    {**ABOUT, "kind": "main"},
    user("1", [{"text": "How many recipes are there?"}]),
    {"$set": {"lastUpdated": "2026-03-01T10:01:00Z"}},
    model("2", "I count them.", thoughts=[THOUGHT]),
    model(
        "2", "I count them.", {**MESSAGES[1]["toolCalls"][0], "status": "executing", "result": None}, thoughts=[THOUGHT]
    ),
    {**MESSAGES[1], "tokens": {"input": 5}},
    model("3", [{"text": "Twelve."}]),
)
EXAMPLE = NEW
EXAMPLES = {"one object": OLD, "log": NEW}


def only(*messages: Any, name: str = "session.jsonl") -> Trace:
    (trace,) = traces(ADAPTER, jsonl(ABOUT, *messages), name)
    return trace


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_session_is_read_from_both_shapes(body: bytes) -> None:
    (trace,) = traces(ADAPTER, body)
    assert (trace.name, trace.complete) == ("s-1", True)
    assert told(trace) == [
        ("human", "How many recipes are there?"),
        ("agent", "I count them."),
        ("tool", "Output: 12"),
        ("agent", "Twelve."),
    ]
    assert [turn.place for turn in trace.turns] == [0, 1, 1, 2]
    (call,) = trace.turns[1].tool_calls
    assert (call.name, call.place, call.id) == ("run_shell_command", 1, "c-1")
    assert (trace.turns[2].tool_call_id, trace.turns[2].outcome) == ("c-1", Outcome.OK)
    assert trace.turns[1].message["reasoning_content"] == "Look\nI read the folder."


CALLS = {
    "done": (ran("c", "12 files", name="glob"), Outcome.OK),
    "failed": (ran("c", "no such folder", "error", name="glob"), Outcome.ERROR_AGENT),
    "a command that failed": (ran("c", "Output: x\nExit Code: 2\nSignal: (none)", command="make"), Outcome.ERROR_AGENT),
    "nothing found": (ran("c", "Output: (empty)\nExit Code: 1", command="grep -r dill ."), Outcome.OK_EMPTY),
    "denied": (
        ran("c", "[Operation Cancelled] Reason: User did not allow tool call", "cancelled"),
        Outcome.REJECTED_BY_HUMAN,
    ),
    "denied lately": (
        ran("c", "[Operation Cancelled] Reason: User denied execution.", "cancelled"),
        Outcome.REJECTED_BY_HUMAN,
    ),
    "stopped": (
        ran("c", "[Operation Cancelled] Reason: User cancelled tool execution.", "cancelled"),
        Outcome.CANCELLED,
    ),
}


@pytest.mark.parametrize(("call", "outcome"), CALLS.values(), ids=CALLS.keys())
def test_what_became_of_a_call(call: dict[str, Any], outcome: Outcome) -> None:
    trace = only(user("1", "Go"), model("2", "", call))
    assert [turn.outcome for turn in trace.turns if turn.author is Author.TOOL] == [outcome]


def test_a_call_without_result_has_none_and_one_that_failed_without_text_has_its_display() -> None:
    waiting = {**ran("c", ""), "status": "executing", "result": None}
    failed = {**ran("d", ""), "status": "error", "result": None, "resultDisplay": "disk full"}
    trace = only(user("1", "Go"), model("2", "", waiting, failed))
    assert told(trace)[2:] == [("tool", "disk full")]
    assert len(trace.turns[1].tool_calls) == 2


def test_the_results_of_parallel_calls_are_told_apart() -> None:
    both = [ran("c", "one")["result"][0], ran("d", "two")["result"][0], {"text": "beside it"}]
    calls = [{**ran("c", ""), "result": both}, {**ran("d", ""), "result": both[:2]}]
    trace = only(user("1", "Go"), model("2", "", *calls))
    assert [turn.text for turn in trace.turns[2:]] == ["one\nbeside it", "two"]


def test_notices_are_of_the_client_and_were_not_shown() -> None:
    trace = only(
        user("1", "Go"), {**user("2", "Request cancelled."), "type": "info"}, {**user("3", "Quota."), "type": "error"}
    )
    assert [(turn.author, turn.shown) for turn in trace.turns[1:]] == [(Author.CLIENT, False)] * 2
    assert len(trace.prefix(3)) == 1


def test_what_a_person_typed_is_told_from_what_the_client_put_behind_it() -> None:
    files = [{"text": "Explain @a.md"}, {"text": "\n--- Content from referenced files ---"}, {"text": "\nIt is wrong."}]
    trace = only(user("1", files), user("2", [{"text": "long"}], displayContent=[{"text": "short"}]))
    assert [turn.text for turn in trace.turns] == ["Explain @a.md", "short"]
    assert "It is wrong." in trace.turns[0].message["content"]


def test_a_shortened_history_adds_only_what_the_client_wrote() -> None:
    call_part = {"functionCall": {"id": "c-1", "name": "run_shell_command", "args": {}}}
    history = [
        user("9", [{"text": "<state_snapshot>Recipes were counted.</state_snapshot>"}]),
        model("10", [{"text": "Got it."}]),
        {**MESSAGES[1], "content": [{"text": "I count them."}, call_part]},
        user("11", [ran("c-1", "[masked]")["result"][0]]),
        MESSAGES[2],
    ]
    trace = only(*MESSAGES, {"$set": {"messages": history}}, user("4", "And cakes?"))
    assert not trace.complete
    assert told(trace) == [
        ("human", "How many recipes are there?"),
        ("agent", "I count them."),
        ("tool", "Output: 12"),
        ("agent", "Twelve."),
        ("client", "<state_snapshot>Recipes were counted.</state_snapshot>"),
        ("client", "Got it."),
        ("human", "And cakes?"),
    ]


def test_updates_and_metadata_of_other_versions_are_read() -> None:
    body = jsonl(
        {"type": "session_metadata", **ABOUT},
        {"type": "user", "id": "1", "content": [{"text": "Hello"}]},
        {"type": "gemini", "id": "2", "content": [{"text": "Hi."}]},
        {"type": "message_update", "id": "2", "tokens": {"input": 10}},
    )
    (trace,) = traces(ADAPTER, body)
    assert (trace.name, told(trace)) == ("s-1", [("human", "Hello"), ("agent", "Hi.")])


def test_a_masked_history_changes_nothing() -> None:
    masked = {**MESSAGES[1], "toolCalls": [ran("c-1", "[masked]")]}
    trace = only(*MESSAGES, {"$set": {"messages": [MESSAGES[0], masked, MESSAGES[2]]}})
    assert trace.complete
    assert trace.turns[2].text == "Output: 12"


def test_a_version_that_writes_all_messages_at_each_turn_is_read() -> None:
    about = user("0", [{"text": "<session_context>\nToday is Monday.\n</session_context>"}])
    begun = {**MESSAGES[1], "content": "", "toolCalls": [{**ran("c-1", ""), "status": "executing", "result": None}]}
    lists = [
        [about],
        [about, MESSAGES[0]],
        [about, MESSAGES[0], begun],
        [about, *MESSAGES],
        [about, *MESSAGES, user("4", "Thanks")],
    ]
    info = {**user("5", "Update available"), "type": "info"}
    trace = only(info, *({"$set": {"messages": messages}} for messages in lists))
    assert trace.complete
    assert told(trace)[2:] == [
        ("human", "How many recipes are there?"),
        ("agent", "I count them."),
        ("tool", "Output: 12"),
        ("agent", "Twelve."),
        ("human", "Thanks"),
    ]
    assert [turn.author for turn in trace.turns[:2]] == [Author.CLIENT, Author.CLIENT]


def test_messages_without_ids_in_such_lists_are_told_once() -> None:
    nameless = [{name: value for name, value in message.items() if name != "id"} for message in MESSAGES]
    trace = only(
        {"$set": {"messages": nameless[:1]}}, {"$set": {"messages": nameless}}, {"$set": {"messages": nameless}}
    )
    assert [turn.text for turn in trace.turns] == [
        "How many recipes are there?",
        "I count them.",
        "Output: 12",
        "Twelve.",
    ]
    again = [*nameless, *nameless]
    assert (
        len(only({"$set": {"messages": nameless}}, {"$set": {"messages": again}}, {"$set": {"messages": again}}).turns)
        == 8
    )


def test_what_was_taken_back_is_a_trace_that_shares_its_beginning() -> None:
    body = jsonl(
        ABOUT, *MESSAGES, user("4", "Delete them"), model("5", "Done."), {"$rewindTo": "4"}, user("6", "Sort them")
    )
    gone, main = traces(ADAPTER, body)
    assert (main.name, [turn.text for turn in main.turns][-1], main.turns[-1].place) == ("s-1", "Sort them", 5)
    assert [turn.text for turn in gone.turns[gone.inherited :]] == ["Delete them", "Done."]
    assert (gone.root, gone.inherited) == (main.id, 4)


def test_a_sub_agent_works_for_the_session_its_folder_is_named_after() -> None:
    body = jsonl({**ABOUT, "sessionId": "sub-1", "kind": "subagent"}, user("1", "Find dill"), model("2", "Found."))
    (sub,) = traces(ADAPTER, body, "tmp/ab12/chats/s-1/sub-1.jsonl")
    (main,) = traces(ADAPTER, NEW, "tmp/ab12/chats/session-2026-03-01T10-00-s-1.jsonl")
    assert (sub.name, sub.root) == ("sub-1", main.id)


def test_files_put_behind_each_other_are_several_sessions() -> None:
    other = [{**ABOUT, "sessionId": "s-2"}, user("1", "Hello"), model("2", "Hi.")]
    first, second = traces(ADAPTER, NEW + jsonl(*other))
    assert (first.name, second.name) == ("s-1", "s-2")
    assert [turn.place for turn in second.turns] == [0, 1]


def test_pictures_stay_parts_and_thoughts_among_the_parts_are_no_text() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "aWk="}}
    trace = only(
        user("1", [{"text": "Look"}, picture]), model("2", [{"text": "hm", "thought": True}, {"text": "A cake."}])
    )
    assert trace.turns[0].message["content"][1]["image_url"]["url"] == "data:image/png;base64,aWk="
    assert trace.turns[1].text == "A cake."


def test_a_session_without_a_name_is_called_after_its_file() -> None:
    (trace,) = traces(ADAPTER, jsonl(*MESSAGES), "chats/session-x.jsonl")
    assert trace.name == "session-x"


def test_a_session_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    found = items(ADAPTER, OLD[:-300])
    (trace,) = (item for item in found if isinstance(item, Trace))
    assert (trace.complete, trace.turns[0].text) == (False, "How many recipes are there?")
    assert sum(isinstance(item, Skipped) for item in found) == 1


def test_records_of_an_unknown_type_are_told_once() -> None:
    (one,) = skipped(
        ADAPTER, jsonl(ABOUT, {"id": "7", "type": "hologram"}, {"id": "8", "type": "hologram"}, MESSAGES[0])
    )
    assert "hologram" in one.reason


@pytest.mark.parametrize("body", [*EXAMPLES.values(), jsonl(*MESSAGES), OLD[:700]])
def test_its_files_are_recognised(body: bytes) -> None:
    assert ADAPTER.recognises(head_of(body))


@pytest.mark.parametrize(
    "record",
    [
        {"sessionId": "s", "type": "user", "uuid": "u", "message": {"role": "user", "content": "x"}},
        {"sessionId": "s", "messages": [{"role": "user", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}]},
        [{"sessionId": "s", "messageId": 0, "type": "user", "message": "x"}],
        {},
    ],
)
def test_other_files_are_not_recognised(record: Any) -> None:
    assert not ADAPTER.recognises(head_of(jsonl(record)))


def test_what_is_odd_is_told_and_the_rest_is_read() -> None:
    odd = [
        {"$set": 3},
        {"$set": {"messages": [3, {"id": 4, "type": "user", "content": {"text": "odd"}}]}},
        {"$rewindTo": 5},
        model("2", None, {"id": 3, "args": 4, "result": 5, "status": 6}, thoughts=[7]),
        model("3", [None, 8, {"inlineData": 9}], {"result": [{"functionResponse": 1}], "status": "error"}),
        user("4", {"text": "one part"}),
        MESSAGES[0],
    ]
    found = items(ADAPTER, jsonl(ABOUT, *odd))
    (trace,) = (item for item in found if isinstance(item, Trace))
    assert told(trace)[-2:] == [("human", "one part"), ("human", "How many recipes are there?")]
