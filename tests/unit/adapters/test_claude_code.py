import json

import pytest
from adapter_files import RECORDINGS, head_of, jsonl, source_of
from claude_records import agent, call, only, read, record, result, said, user
from turns_told import outcomes, told

from harness_adapters.adapter import Skipped
from harness_adapters.claude_code import ClaudeCode
from harness_adapters.source import Head, Source, open_sources
from harness_adapters.trace import Author, Outcome, Trace, Turn

FOLDER = RECORDINGS / "claude_code"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the recordings are not at {FOLDER}")


EXAMPLE = jsonl(
    {"type": "summary", "summary": "An older session", "leafUuid": "u0"},
    user("count the files"),
    agent("m1", said("Let me look.")),
    agent("m1", call("c1", command="ls | wc -l")),
    result("c1", "3", is_error=False),
    agent("m2", said("There are three files.")),
)
EXAMPLES = {
    "session": EXAMPLE,
    "sub-agent": jsonl(
        user("where are the tests?"),
        user("look for tests", isSidechain=True, agentId="a1"),
        agent("m1", call("c1", "Grep", pattern="def test"), isSidechain=True, agentId="a1"),
        result("c1", "Found 2 files", isSidechain=True, agentId="a1"),
    ),
    "printed": jsonl(
        {"type": "system", "subtype": "init", "session_id": "s9", "uuid": "v1", "tools": ["Bash"]},
        {
            "type": "user",
            "uuid": "v0",
            "session_id": "s9",
            "isReplay": True,
            "message": {"role": "user", "content": "where am I?"},
        },
        {
            "type": "assistant",
            "uuid": "v2",
            "session_id": "s9",
            "parent_tool_use_id": None,
            "message": {"id": "m1", "role": "assistant", "content": [said("Hello."), call("c1", command="pwd")]},
        },
        {
            "type": "user",
            "uuid": "v3",
            "session_id": "s9",
            "parent_tool_use_id": None,
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "/home"}]},
        },
        {"type": "result", "subtype": "success", "session_id": "s9", "uuid": "v4", "result": "Hello."},
    ),
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_are_recognised(example: bytes) -> None:
    assert ClaudeCode().recognises(head_of(example))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "user", "content": "hi", "id": "1"},
        {"type": "session_meta", "payload": {"id": "x"}},
        {"type": "message", "role": "user", "content": "hi", "uuid": "x"},
        {"sessionId": "x", "messages": [{"type": "user", "content": "hi"}]},
        {"display": "hi", "project": "/p", "sessionId": "x", "timestamp": 5},
        {"type": ["user"], "uuid": {}, "parentUuid": 1},
        {"type": "summary", "summary": "x"},
        [],
        None,
    ],
)
def test_records_of_others_are_not_recognised(value: object) -> None:
    body = json.dumps(value).encode()
    assert not ClaudeCode().recognises(Head(body, (value,)))


def test_one_response_is_one_turn_though_its_lines_are_spread() -> None:
    trace = only(
        user("do it"),
        agent("m1", {"type": "thinking", "thinking": "hm"}),
        agent("m1", said("First.")),
        agent("m1", call("c1", command="a")),
        result("c1"),
        agent("m1", call("c2", "Read", file_path="b")),
        result("c2"),
        agent("m2", said("Ready.")),
    )
    turn = trace.turns[1]
    assert [t.author.value for t in trace.turns] == ["human", "agent", "tool", "tool", "agent"]
    assert (turn.text, turn.place, turn.response_id) == ("First.", 2, "m1")
    assert [(c.id, c.name, c.place) for c in turn.tool_calls] == [("c1", "Bash", 3), ("c2", "Read", 5)]
    assert turn.message["reasoning_content"] == "hm"
    assert [(t.tool_call_id, t.place) for t in trace.turns[2:4]] == [("c1", 4), ("c2", 6)]
    assert (trace.name, trace.complete, trace.inherited) == ("s1", True, 0)


def test_an_answer_without_text_stands_where_its_first_block_stands() -> None:
    trace = only(user("go"), agent("m1", {"type": "thinking", "thinking": ""}), agent("m1", call("c1")), result("c1"))
    assert (trace.turns[1].place, trace.turns[1].tool_calls[0].place) == (2, 2)
    assert trace.turns[1].message["content"] is None


def test_of_blocks_that_are_there_twice_the_last_line_counts() -> None:
    trace = only(
        user("go"),
        agent("m1", said("I look")),
        agent("m1", said("I look at it.")),
        agent("m1", call("c1", command="ls")),
        agent("m1", said("I look at it.")),
        agent("m1", call("c1", command="ls -l")),
        result("c1"),
    )
    assert told(trace, Author.AGENT) == [(4, "I look at it.")]
    assert [(c.arguments, c.place) for c in trace.turns[1].tool_calls] == [('{"command": "ls -l"}', 5)]


def test_a_text_that_begins_like_one_before_a_call_is_another() -> None:
    trace = only(
        user("go"),
        agent("m1", said("Let me check")),
        agent("m1", call("c1", command="ls")),
        agent("m1", said("Let me check the other file too.")),
        result("c1"),
    )
    assert [t for _, t in told(trace, Author.AGENT)] == ["Let me check\n\nLet me check the other file too."]


def test_the_root_of_a_fork_of_a_fork_is_the_first_session() -> None:
    first = user("go", uuid="u1")
    second = user("on", session="s2", uuid="u2", parentUuid="u1")
    third = user("on and on", session="s3", uuid="u3", parentUuid="u2")
    found = [item for item in read(first, second, third) if isinstance(item, Trace)]
    assert [trace.root for trace in found] == [found[0].id] * 3


def test_a_record_that_is_there_twice_counts_once() -> None:
    first = user("go")
    answer = result("c1", "ok")
    again = {**answer, "uuid": "another"}
    trace = only(first, agent("m1", said("Yes."), call("c1")), first, answer, again)
    assert [t.author.value for t in trace.turns] == ["human", "agent", "tool"]


def test_a_real_resend_counts_twice() -> None:
    trace = only(user("go on"), agent("m1", said("One.")), user("go on"), agent("m2", said("Two.")))
    assert told(trace, Author.HUMAN) == [(0, "go on"), (2, "go on")]


def test_sub_agents_have_traces_of_their_own() -> None:
    main, newer, older = read(
        user("do both"),
        agent("m1", call("c1", "Task"), call("c2", "Task")),
        user("look here", isSidechain=True, agentId="a1"),
        user("look there", isSidechain=True, uuid="side1"),
        agent("n1", said("Here."), isSidechain=True, agentId="a1"),
        agent("n2", said("There."), isSidechain=True, parentUuid="side1", uuid="side2"),
        user("more", isSidechain=True, parentUuid="side2", uuid="side3"),
        result("c1", "Here."),
        result("c2", "There."),
    )
    assert isinstance(main, Trace) and isinstance(newer, Trace) and isinstance(older, Trace)
    assert [t.name for t in (main, newer, older)] == ["s1", "s1/a1", "s1/side1"]
    assert main.root == newer.root == older.root == main.id
    assert [(t.author.value, t.text) for t in newer.turns] == [("framework", "look here"), ("agent", "Here.")]
    assert [t.text for t in older.turns] == ["look there", "There.", "more"]
    assert [t.author.value for t in main.turns] == ["human", "agent", "tool", "tool"]


def test_a_resumed_session_goes_on_from_the_one_it_copied() -> None:
    first, second = read(
        user("one", uuid="p1"),
        agent("m1", said("First."), uuid="p2", parentUuid="p1"),
        user("two", session="s2", parentUuid="p2"),
        agent("m2", said("Second."), session="s2"),
    )
    assert isinstance(first, Trace) and isinstance(second, Trace)
    assert [t.text for t in first.turns] == ["one", "First."]
    assert [t.text for t in second.turns] == ["one", "First.", "two", "Second."]
    assert (second.name, second.inherited, second.root, second.complete) == ("s2", 2, first.id, True)


def test_records_copied_under_a_new_session_are_inherited() -> None:
    origin = {"forkedFrom": {"sessionId": "s0", "messageUuid": "p1"}}
    trace = only(user("one", **origin), agent("m1", said("First."), **origin), user("two"))
    assert (trace.inherited, trace.name) == (2, "s1")
    assert trace.root != trace.id


def test_files_put_behind_each_other_are_several_sessions() -> None:
    shared = user("one", uuid="q1")
    first, second = read(shared, {**shared, "sessionId": "s2"}, user("two", session="s2"), user("three"))
    assert isinstance(first, Trace) and isinstance(second, Trace)
    assert [t.text for t in first.turns] == ["one", "three"]
    assert ([t.text for t in second.turns], second.inherited, second.root) == (["one", "two"], 1, first.id)


def test_a_session_whose_beginning_is_elsewhere_is_incomplete() -> None:
    assert not only(user("go on", parentUuid="elsewhere")).complete


def test_what_cannot_be_read_is_told() -> None:
    items = read(
        b'{"type": "user", "uuid": "x", "parentUuid',
        record("hologram", message={"role": "user", "content": "?"}),
        record("hologram"),
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        user("go"),
        agent("m1", {"type": "smell", "data": "x"}, said("Yes.")),
    )
    broken, unknown, block, trace = items
    assert isinstance(broken, Skipped) and isinstance(unknown, Skipped) and isinstance(block, Skipped)
    assert (broken.line, unknown.line, block.line) == (1, 2, 6)
    assert "'hologram'" in unknown.reason and "'smell'" in block.reason
    assert isinstance(trace, Trace)
    assert not trace.complete


def test_odd_types_do_not_stop_the_reading() -> None:
    block, trace = read(
        record("user", message=None),
        record("user", message={"role": "user", "content": 5}),
        record(
            "assistant",
            message={"id": 5, "content": [None, 5, "plain", {"type": None}, {"type": "tool_use", "input": None}]},
        ),
        record("attachment", attachment=[]),
        {"type": "queue-operation", "operation": None, "sessionId": "s1", "content": {}},
        {
            "type": "user",
            "uuid": 7,
            "sessionId": 8,
            "message": {"content": [{"type": "tool_result", "content": {"a": 1}}]},
        },
        user("go", toolUseResult=[], origin="x", parentUuid=[]),
    )
    assert isinstance(block, Skipped) and isinstance(trace, Trace)
    assert [t.author.value for t in trace.turns] == ["agent", "tool", "human"]


def test_a_log_without_ids_is_named_after_its_file() -> None:
    assert only({"type": "user", "uuid": "u", "parentUuid": None, "message": {"content": "hi"}}).name == "file-7"


def test_what_is_printed_names_the_session_in_its_own_way() -> None:
    body = EXAMPLES["printed"]
    (trace,) = ClaudeCode().read(source_of(body))
    assert isinstance(trace, Trace)
    assert (trace.name, [t.text for t in trace.turns]) == ("s9", ["where am I?", "Hello.", "/home"])


def recorded(name: str) -> Trace:
    traces: list[Trace | Skipped] = []
    for source in open_sources([str(FOLDER / name)]):
        assert isinstance(source, Source)
        assert ClaudeCode().recognises(source.head)
        traces += ClaudeCode().read(source)
    (trace,) = traces
    assert isinstance(trace, Trace)
    return trace


COUNTS = {
    # file: human messages (those told in band among them), responses, calls, results that failed or were declined
    "session-196820da.jsonl": (13, 47, 65, 2),
    "session-3fe1b6bc.jsonl": (8, 67, 76, 5),
    "session-9eda1058.jsonl": (3, 5, 3, 1),
}


@needs_recordings
@pytest.mark.parametrize(("name", "counts"), COUNTS.items())
def test_recorded_sessions(name: str, counts: tuple[int, int, int, int]) -> None:
    trace = recorded(name)
    failed = (Outcome.ERROR_AGENT, Outcome.ERROR_ENV, Outcome.REJECTED_BY_HUMAN)
    assert counts == (
        sum(t.author is Author.HUMAN for t in trace.turns),
        sum(t.author is Author.AGENT for t in trace.turns),
        sum(len(t.tool_calls) for t in trace.turns),
        sum(t.outcome in failed for t in trace.turns),
    )
    assert trace.complete
    assert Outcome.UNKNOWN not in outcomes(trace)


@needs_recordings
def test_every_recorded_place_with_a_label_is_a_turn_or_a_call() -> None:
    traces = {trace.name: trace for trace in map(recorded, COUNTS)}
    for line in (FOLDER / "labels.jsonl").read_text().splitlines():
        label = json.loads(line)
        at = places(traces[label["session"]])
        if label.get("trap") == "duplicate_record":
            assert label["turn"] not in at
            continue
        assert at[label["turn"]].author is not Author.AGENT
        if label["kind"] == "user_correction":
            assert at[label["turn"]].author is Author.HUMAN
        if label["kind"] == "tool_error_retry":
            assert at[label["turn"]].outcome is Outcome.ERROR_AGENT
        for place in (label["target"], label["fix"]):
            assert place is None or at[place].author is Author.AGENT


@needs_recordings
def test_each_recorded_text_is_there_once() -> None:
    for name in COUNTS:
        trace = recorded(name)
        said = [t.text for t in trace.turns if t.author in (Author.HUMAN, Author.AGENT) and t.text]
        assert len(said) == len(set(said))
        for line in (FOLDER / name).read_text().splitlines():
            value = json.loads(line)
            content = (value.get("message") or {}).get("content")
            for block in content if isinstance(content, list) else []:
                if value["type"] == "assistant" and block["type"] == "text":
                    assert sum(block["text"] in t.text for t in trace.turns if t.author is Author.AGENT) == 1


def places(trace: Trace) -> dict[int | None, Turn]:
    return {p: t for t in trace.turns for p in (t.place, *(c.place for c in t.tool_calls))}
