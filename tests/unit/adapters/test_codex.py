import json
from collections import Counter

import pytest
from adapter_files import RECORDINGS, head_of, jsonl, source_of
from codex_records import NEW, NOW, OLD, call, event, exited, item, line, message, meta, only, output, printed, read
from turns_told import outcomes, told

from harness_adapters.adapter import Skipped
from harness_adapters.codex import Codex
from harness_adapters.source import Head, Source, open_sources
from harness_adapters.trace import Author, Outcome, Trace, Turn

FOLDER = RECORDINGS / "codex"
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the recordings are not at {FOLDER}")


EXAMPLE = jsonl(
    meta(),
    event("task_started", turn_id=NEW),
    message("user", "count the files"),
    event("user_message", message="count the files", images=[]),
    event("agent_message", message="I look.", phase="commentary"),
    message("assistant", "I look."),
    call("c1", cmd="ls | wc -l"),
    output("c1", exited(0, "3\n")),
    event("agent_message", message="There are three."),
    message("assistant", "There are three."),
    event("task_complete", turn_id=NEW, last_agent_message="There are three."),
)
EXAMPLES = {
    "rollout": EXAMPLE,
    "bare": jsonl(
        {"id": NOW, "timestamp": "2025-07-01T10:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list them"}]},
        {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": '{"command": ["bash", "-lc", "ls"]}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output": "a b", "metadata": {"exit_code": 0}}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a and b"}]},
    ),
    "document": json.dumps(
        {
            "session": {"timestamp": "2025-05-01T10:00:00Z", "id": NOW, "instructions": ""},
            "items": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list them"}]},
                {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
                {"type": "local_shell_call_output", "call_id": "c1", "output": "a b"},
            ],
        },
        indent=1,
    ).encode(),
}  # fmt: skip
# Without a prompt, which is not printed.
PRINTED = jsonl(
    {"type": "thread.started", "thread_id": NOW},
    {"type": "turn.started"},
    printed("completed", id="item_0", type="reasoning", text="hm"),
    printed("started", id="item_1", type="command_execution", command="ls", status="in_progress"),
    printed(
        "completed",
        id="item_1",
        type="command_execution",
        command="ls",
        aggregated_output="a b",
        exit_code=0,
        status="completed",
    ),
    printed("completed", id="item_2", type="agent_message", text="a and b"),
    {"type": "turn.completed", "usage": {}},
)


@pytest.mark.parametrize("example", [*EXAMPLES.values(), PRINTED], ids=[*EXAMPLES, "printed"])
def test_the_examples_are_recognised_and_read(example: bytes) -> None:
    assert Codex().recognises(head_of(example))
    (trace,) = Codex().read(source_of(example))
    assert isinstance(trace, Trace)
    assert (trace.name, sum(len(t.tool_calls) for t in trace.turns)) == (NOW, 1)
    assert outcomes(trace) in ([Outcome.OK], [Outcome.UNKNOWN])
    assert trace.complete == (b"thread.started" not in example)


@pytest.mark.parametrize(
    "value",
    [
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "response_item"},
        {"type": "event_msg", "payload": []},
        {"type": "item.completed", "item": 5},
        {"id": "x", "timestamp": "t", "instructions": "be kind", "messages": []},
        {"session": "x", "items": []},
        {"type": {"x": 1}},
        5,
    ],
)
def test_records_of_others_are_not_recognised(value: object) -> None:
    assert not Codex().recognises(Head(b"", (value,)))


def test_a_rollout() -> None:
    trace = only(
        meta(base_instructions={"text": "You are an agent."}),
        event("task_started", turn_id=NEW),
        message("developer", "<permissions instructions>ask first</permissions instructions>"),
        message("user", "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>"),
        message("user", "<environment_context>\n<cwd>/work</cwd>\n</environment_context>"),
        message("user", "fix it"),
        event("user_message", message="fix it"),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x"),
        event("agent_message", message="I look."),
        message("assistant", "I look."),
        call("c1", cmd="cat a"),
        call("c2", cmd="cat b"),
        event("token_count", info=None),
        output("c1", exited(0, "A")),
        output("c2", exited(0, "B")),
        message("assistant", "Fixed."),
        event("agent_message", message="Fixed."),
    )
    assert [(t.author.value, t.place) for t in trace.turns] == [
        ("system", 0),
        ("system", 2),
        ("client", 3),
        ("client", 4),
        ("human", 5),
        ("agent", 9),
        ("tool", 13),
        ("tool", 14),
        ("agent", 15),
    ]
    answer = trace.turns[5]
    assert (answer.text, answer.message["reasoning_content"]) == ("I look.", "hm")
    assert [(c.id, c.name, c.place) for c in answer.tool_calls] == [
        ("c1", "exec_command", 10),
        ("c2", "exec_command", 11),
    ]
    assert [t.tool_call_id for t in trace.turns[6:8]] == ["c1", "c2"]
    assert (trace.complete, trace.inherited, trace.root) == (True, 0, trace.id)


def test_an_aborted_turn_ends_the_answer() -> None:
    trace = only(
        meta(),
        message("user", "go"),
        message("assistant", "I"),
        event("turn_aborted", reason="interrupted"),
        message("assistant", "Again."),
    )
    assert told(trace, Author.AGENT) == [(2, "I"), (4, "Again.")]


def test_a_compaction_leaves_the_trace_incomplete() -> None:
    summary = line("compacted", message="They wanted it fixed.", replacement_history=[{"type": "message"}])
    trace = only(meta(), message("user", "go"), message("assistant", "Yes."), summary, message("user", "and on"))
    assert [t.author.value for t in trace.turns] == ["human", "agent", "client", "human"]
    assert not trace.complete
    assert not only(meta(), message("user", "go"), item("compaction", encrypted_content="x")).complete


def test_a_fork_carries_the_history_of_the_session_it_left() -> None:
    trace = only(
        meta(NOW, forked_from_id=OLD),
        meta(OLD),
        event("task_started", turn_id="019e0000-1111-7000-8000-00000000000a"),
        message("user", "one"),
        message("assistant", "First."),
        event("task_started", turn_id=NEW),
        message("user", "two"),
        message("assistant", "Second."),
    )
    assert (trace.name, trace.inherited, [t.text for t in trace.turns]) == (NOW, 2, ["one", "First.", "two", "Second."])
    assert trace.root != trace.id


def test_rollouts_behind_each_other_are_several_sessions() -> None:
    first, second = read(
        meta(OLD), message("user", "one"), meta(NOW), message("user", "two"), meta(NOW, git={}), message("user", "3")
    )
    assert isinstance(first, Trace) and isinstance(second, Trace)
    assert [(t.name, [u.text for u in t.turns]) for t in (first, second)] == [(OLD, ["one"]), (NOW, ["two", "3"])]
    assert [t.place for t in second.turns] == [3, 5]


def test_a_page_of_a_history_is_not_all_of_it() -> None:
    assert not only(meta(history_base={"thread_id": OLD, "end_byte_offset": 5}), message("user", "go")).complete


def test_a_file_without_its_beginning_is_incomplete_and_named_after_itself() -> None:
    trace = only(message("user", "go"))
    assert (trace.name, trace.complete) == ("rollout-7", False)


def test_a_printed_session_that_is_resumed() -> None:
    step = [
        {"type": "thread.started", "thread_id": NOW},
        {"type": "turn.started"},
        printed("started", id="item_0", item_type="command_execution", command="ls", status="in_progress"),
        printed(
            "completed", id="item_0", item_type="command_execution", command="ls", aggregated_output="x", exit_code=1
        ),
        printed("completed", id="item_1", item_type="assistant_message", text="Done."),
    ]
    trace = only(
        *step, *step, printed("completed", id="item_2", type="command_execution", command="rm x", status="declined")
    )
    assert [(t.author.value, t.place) for t in trace.turns] == [
        ("agent", 2),
        ("tool", 3),
        ("agent", 4),
        ("agent", 7),
        ("tool", 8),
        ("agent", 9),
        ("tool", 10),
    ]
    assert outcomes(trace) == [Outcome.ERROR_AGENT, Outcome.ERROR_AGENT, Outcome.REJECTED_BY_HUMAN]


def test_a_printed_session_behind_itself_holds_nothing_more() -> None:
    (trace,) = Codex().read(source_of(PRINTED * 3))
    assert isinstance(trace, Trace)
    assert [t.author.value for t in trace.turns] == ["agent", "tool", "agent"]


def test_what_cannot_be_read_is_told() -> None:
    *skipped, trace = read(
        meta(),
        b'{"type": "response_item", "payl',
        line("hologram"),
        line("hologram"),
        item("teleport_request"),
        event("sneezed"),
        event("token_count"),
        {"record_type": "state"},
        message("user", "go"),
    )
    assert [s.line for s in skipped if isinstance(s, Skipped)] == [2, 3, 5, 6]
    assert isinstance(trace, Trace)
    assert not trace.complete


def test_a_line_that_is_broken_before_the_first_one_leaves_the_session_incomplete() -> None:
    *_, trace = read(b'{"type": "session_me', meta(), message("user", "go"))
    assert isinstance(trace, Trace)
    assert not trace.complete


def test_odd_types_do_not_stop_the_reading() -> None:
    trace = only(
        line("session_meta", id=5, source=[], base_instructions="x", forked_from_id={}),
        item("message", role=5, content={"a": 1}),
        item("message", role="user", content=[None, 5, {"type": "input_text", "text": None}]),
        item("reasoning", summary="x", content=5),
        item("function_call", name=None, arguments={"a": 1}, call_id=None),
        item("function_call_output", call_id=[], output=None),
        item("function_call_output", call_id="?", output={"a": 1}),
        event("user_message", message=None, images=[5]),
        event("item_completed", item="x"),
        event("exec_command_end", call_id=5, exit_code="0"),
        event("mcp_tool_call_end", result="x"),
        line("compacted", message=5),
        {"type": "turn_context", "payload": {"turn_id": 5}},
        message("user", "go"),
    )
    assert [t.author.value for t in trace.turns][-1] == "human"
    assert trace.name == "rollout-7"


def recorded() -> Trace:
    traces: list[Trace | Skipped] = []
    for source in open_sources([str(p) for p in FOLDER.glob("rollout-*.jsonl")]):
        assert isinstance(source, Source)
        assert Codex().recognises(source.head)
        traces += Codex().read(source)
    (trace,) = traces
    assert isinstance(trace, Trace)
    return trace


@needs_recordings
def test_a_recorded_session() -> None:
    trace = recorded()
    authors = Counter(t.author for t in trace.turns)
    assert (authors[Author.HUMAN], authors[Author.CLIENT]) == (2, 1)
    assert sum(len(t.tool_calls) for t in trace.turns) == 105
    assert authors[Author.TOOL] == 102, "three searches ran on the server, without results of their own"
    # Five failures by the folder's count: in two of them rg found nothing, which is no error.
    assert Counter(outcomes(trace))[Outcome.ERROR_AGENT] == 3
    assert trace.complete


@needs_recordings
def test_every_recorded_place_with_a_label_is_a_turn_or_a_call() -> None:
    trace = recorded()
    at = places(trace)
    owner = {c.id: c.place for t in trace.turns for c in t.tool_calls}
    for text in (FOLDER / "labels.jsonl").read_text().splitlines():
        label = json.loads(text)
        turn = at[label["turn"]]
        if label["kind"] == "tool_error_retry":
            assert turn.outcome is Outcome.ERROR_AGENT
            assert owner[str(turn.tool_call_id)] == label["target"]
            assert at[label["fix"]].author is Author.AGENT
        elif label["trap"] == "no_match_exit_code":
            assert turn.outcome is Outcome.OK_EMPTY
        elif label["trap"] == "poll":
            assert turn.author is Author.AGENT or turn.outcome is Outcome.STILL_RUNNING
        elif label["trap"] == "error_word_in_success":
            assert turn.outcome is Outcome.OK


@needs_recordings
def test_each_recorded_text_is_there_once() -> None:
    trace = recorded()
    said = "\n".join(t.text for t in trace.turns if t.author in (Author.AGENT, Author.HUMAN))
    for path in FOLDER.glob("rollout-*.jsonl"):
        for text in path.read_text().splitlines():
            payload = json.loads(text)["payload"]
            if payload.get("type") in ("agent_message", "user_message"):
                assert said.count(payload["message"]) == 1


def places(trace: Trace) -> dict[int | None, Turn]:
    return {p: t for t in trace.turns for p in (t.place, *(c.place for c in t.tool_calls))}
