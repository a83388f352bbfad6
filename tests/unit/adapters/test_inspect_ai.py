import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from adapter_files import RECORDINGS, head_of, source_of

from harness_adapters.adapter import Skipped
from harness_adapters.inspect_ai import InspectAI
from harness_adapters.source import need, open_sources
from harness_adapters.trace import Author, Outcome, Trace

SHARED = RECORDINGS / "inspect_ai"
needs_recordings = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recordings are not at {SHARED}")

SAMPLE: dict[str, Any] = {
    "id": "sum",
    "epoch": 2,
    "input": "What is in a.txt?",
    "target": "7",
    "messages": [
        {"role": "system", "content": "Use tools."},
        {"role": "user", "content": "attachment://aa11", "source": "input"},
        {
            "role": "assistant",
            "source": "generate",
            "content": [
                {"type": "reasoning", "reasoning": "I should look.", "redacted": False},
                {"type": "text", "text": "I look."},
            ],
            "tool_calls": [
                {"id": "c1", "function": "bash", "arguments": {"cmd": "cat b.txt"}},
                {"id": "c2", "function": "bash", "arguments": {}, "parse_error": "not JSON: {cmd"},
                {"id": "c3", "function": "bash", "arguments": {"cmd": "rm a.txt"}},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "function": "bash",
            "content": "",
            "error": {"type": "file_not_found", "message": "b.txt is not there"},
        },
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": "",
            "error": {"type": "parsing", "message": "not JSON: {cmd"},
        },
        {
            "role": "tool",
            "tool_call_id": "c3",
            "content": "",
            "error": {"type": "approval", "message": "Leave it alone."},
        },
        {"role": "user", "content": "Please proceed to the next step."},
        {"role": "assistant", "content": "attachment://bb22", "source": "generate"},
    ],
    "output": {"model": "m", "choices": []},
    "events": [
        {
            "event": "model",
            "input": [],
            "tools": [{"name": "bash", "description": "attachment://cc33", "parameters": {"type": "object"}}],
        },
        {"event": "approval", "approver": "human", "decision": "escalate", "call": {"id": "c1", "function": "bash"}},
        {"event": "approval", "approver": "human", "decision": "approve", "call": {"id": "c1", "function": "bash"}},
        {"event": "approval", "approver": "human", "decision": "reject", "call": {"id": "c3", "function": "bash"}},
    ],
    "attachments": {"aa11": "What is in a.txt?", "bb22": "It holds seven.", "cc33": "Runs a command."},
}
LOG: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"task": "sums", "created": "2031-01-01", "model": "m", "run_id": "r"},
    "plan": {"steps": []},
    "samples": [SAMPLE],
    "reductions": [{"scorer": "includes", "samples": [{"value": 1.0, "sample_id": "sum"}]}],
}
SUMMARY = {"id": "sum", "epoch": 2, "input": "What is in a.txt?", "target": "7", "scores": {}}
EXAMPLES = {"json": json.dumps(LOG).encode(), "sample": json.dumps(SAMPLE).encode()}
EXAMPLE = EXAMPLES["json"]


def only(**changed: Any) -> Trace:
    (trace,) = InspectAI().read(source_of(json.dumps({**LOG, "samples": [{**SAMPLE, **changed}]}).encode()))
    assert isinstance(trace, Trace)
    return trace


def test_a_sample_is_a_session() -> None:
    trace = only()
    assert trace.name == "sum/epoch-2"
    assert [(turn.place, turn.author, turn.text) for turn in trace.turns] == [
        (0, Author.SYSTEM, "Use tools."),
        (1, Author.HUMAN, "What is in a.txt?"),
        (2, Author.AGENT, "I look."),
        (3, Author.TOOL, "b.txt is not there"),
        (4, Author.TOOL, "not JSON: {cmd"),
        (5, Author.TOOL, "Leave it alone."),
        (6, Author.CLIENT, "Please proceed to the next step."),
        (7, Author.AGENT, "It holds seven."),
    ]
    assert trace.complete


def test_thinking_is_kept_beside_what_was_said() -> None:
    message = only().turns[2].message
    assert (message["content"], message["reasoning_content"]) == ("I look.", "I should look.")
    assert [json.loads(call.arguments) for call in only().turns[2].tool_calls] == [
        {"cmd": "cat b.txt"},
        {},
        {"cmd": "rm a.txt"},
    ]


def test_outcomes_are_told_by_the_errors_type() -> None:
    outcomes = [turn.outcome for turn in only().turns if turn.author is Author.TOOL]
    assert outcomes == [Outcome.ERROR_AGENT, Outcome.ERROR_AGENT, Outcome.REJECTED_BY_HUMAN]


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"content": "7"}, Outcome.UNKNOWN),
        ({"content": "x", "error": {"type": "timeout", "message": "too slow"}}, Outcome.ERROR_ENV),
        ({"content": "", "error": {"type": "sandbox_unavailable", "message": "gone"}}, Outcome.ERROR_ENV),
        ({"content": "", "error": {"type": "cancelled", "message": "stopped"}}, Outcome.CANCELLED),
        ({"content": "", "error": {"type": "unknown", "message": "connection refused"}}, Outcome.ERROR_ENV),
        ({"content": "", "error": {"type": "brand new", "message": "odd"}}, Outcome.ERROR_AGENT),
        ({"content": "", "tool_error": "an old log's error"}, Outcome.ERROR_AGENT),
        ({"content": "page of errors: none"}, Outcome.UNKNOWN),
        ({"content": ""}, Outcome.OK_EMPTY),
    ],
)
def test_a_result_is_judged(result: dict[str, Any], outcome: Outcome) -> None:
    trace = only(messages=[{"role": "tool", "tool_call_id": "c9", **result}], events=[])
    assert trace.turns[0].outcome is outcome


def test_a_call_that_could_not_be_read_has_failed() -> None:
    call = {"id": "c1", "function": "bash", "arguments": {}, "parse_error": "not JSON"}
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "arguments could not be read"},
    ]
    assert only(messages=messages).turns[1].outcome is Outcome.ERROR_AGENT


def test_attached_texts_are_put_back() -> None:
    trace = only()
    assert trace.tools == (
        {
            "type": "function",
            "function": {"name": "bash", "description": "Runs a command.", "parameters": {"type": "object"}},
        },
    )
    assert "attachment://" not in str(trace)
    assert only(attachments={}).turns[-1].text == "attachment://bb22"


def test_old_logs_that_tell_no_sources_are_a_persons() -> None:
    messages = [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two?"},
    ]
    assert [turn.author for turn in only(messages=messages).turns] == [Author.HUMAN, Author.AGENT, Author.HUMAN]


def test_pictures_stay_parts() -> None:
    content = [{"type": "text", "text": "See."}, {"type": "image", "image": "attachment://aa11", "detail": "auto"}]
    turn = only(messages=[{"role": "user", "content": content}]).turns[0]
    assert turn.text == "See."
    assert turn.message["content"][1] == {"type": "image_url", "image_url": {"url": "What is in a.txt?"}}


def test_a_sample_that_failed_is_told_by_its_events() -> None:
    said = [{"role": "user", "content": "Hi.", "source": "input"}]
    answer = {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}
    failed: dict[str, Any] = {"messages": [], "error": {"message": "no disk", "traceback": "..."}}
    for event, more in (
        ({"event": "model", "input": said, "output": answer}, {}),
        (
            {"event": "model", "input": [], "input_refs": [[1, 2]], "output": answer},
            {"events_data": {"messages": [3, *said]}},
        ),
        ({"event": "model", "input": [], "input_refs": [[0, 1]], "output": answer}, {"message_pool": said}),
    ):
        trace = only(**failed, events=[event], **more)
        assert [(turn.author, turn.text) for turn in trace.turns] == [(Author.HUMAN, "Hi."), (Author.AGENT, "Hello.")]
        assert not trace.complete
    bare = only(**failed, events=[])
    assert [turn.text for turn in bare.turns] == ["What is in a.txt?"]


def test_compaction_leaves_a_session_incomplete() -> None:
    assert not only(events=[{"event": "compaction", "tokens_before": 9}]).complete


def test_an_archive_is_read_member_by_member(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    header = {name: value for name, value in LOG.items() if name not in ("samples", "reductions")}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": LOG["eval"], "plan": {}}))
        archive.writestr("_journal/summaries/1.json", json.dumps([SUMMARY]))
        archive.writestr("samples/sum_epoch_2.json", json.dumps(SAMPLE))
        archive.writestr("samples/sum_epoch_3.json", json.dumps({**SAMPLE, "epoch": 3}))
        archive.writestr("summaries.json", json.dumps([SUMMARY]))
        archive.writestr("reductions.json", json.dumps(LOG["reductions"]))
        archive.writestr("header.json", json.dumps(header))
    items: list[object] = []
    for source in map(need, open_sources([str(path)])):
        assert InspectAI().recognises(source.head), source.name
        items += InspectAI().read(source)
    assert [item.name for item in items if isinstance(item, Trace)] == ["sum/epoch-2", "sum/epoch-3"]
    assert len(items) == 2


def test_a_sample_whose_messages_stand_elsewhere_is_skipped() -> None:
    (skipped,) = InspectAI().read(source_of(json.dumps(SUMMARY).encode(), "log.eval!samples/sum_epoch_2/sample.json"))
    assert isinstance(skipped, Skipped)


def test_a_log_without_samples_holds_no_session() -> None:
    for samples in (None, []):
        assert list(InspectAI().read(source_of(json.dumps({**LOG, "samples": samples}).encode()))) == []


@pytest.mark.parametrize(
    "odd", [None, [], {"eval": 3}, {"eval": {"task": "x"}}, {"id": 1, "input": 2}, {"messages": []}]
)
def test_other_json_is_not_recognised(odd: object) -> None:
    assert not InspectAI().recognises(head_of(json.dumps(odd).encode()))


def test_a_message_of_an_odd_type_does_not_stop_the_rest() -> None:
    body = json.dumps({**SAMPLE, "messages": [None, SAMPLE["messages"][1]], "events": 3, "attachments": []}).encode()
    skipped, trace = InspectAI().read(source_of(body))
    assert isinstance(skipped, Skipped)
    assert isinstance(trace, Trace)
    assert [turn.place for turn in trace.turns] == [1]


@needs_recordings
def test_the_recordings() -> None:
    (path,) = SHARED.glob("*.json")
    (sample,) = json.loads(path.read_text())["samples"]
    (items,) = [list(InspectAI().read(need(source))) for source in open_sources([str(path)])]
    (trace,) = items
    assert isinstance(trace, Trace)
    assert trace.name == f"{sample['id']}/epoch-{sample['epoch']}"
    assert [turn.place for turn in trace.turns] == list(range(10))
    assert [turn.text for turn in trace.turns] == [message["content"] for message in sample["messages"]]
    assert sum(len(turn.tool_calls) for turn in trace.turns) == 4
    assert not any(turn.outcome in (Outcome.ERROR_AGENT, Outcome.ERROR_ENV) for turn in trace.turns)
    assert len(trace.tools) == 8
    assert "attachment://" not in str(trace)
