"""What is made of files that are damaged, and of those that hold more than one thing of a name."""

import gzip
import io
import json
import lzma
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from adapter_files import jsonl, source_of, told, traces

from harness_adapters import scan as scanning
from harness_adapters.adapter import Skipped
from harness_adapters.base import adapter_named, detect_adapter, read_traces
from harness_adapters.fields import stem
from harness_adapters.gather import Gather
from harness_adapters.langsmith import LangSmith
from harness_adapters.openai_responses import OpenAIResponses
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.records import Record, Unread, read_records
from harness_adapters.source import Source, Unreadable, open_sources
from harness_adapters.trace import Trace, trace_json

LINES = b"".join(b'{"number": %d, "a": 1}\n' % n for n in range(40000))


# Lists in objects

TWO = {"info": 1, "spans": [{"a": 1}, {"a": 2}], "between": {"spans": [{"no": 1}]}, "logs": [{"b": 1}], "after": [2]}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("piece", [1, 40, 1 << 18])
def test_every_named_list_of_an_object_is_read(indent: int | None, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "FIRST_PIECE", piece)
    monkeypatch.setattr(scanning, "LARGEST_PIECE", max(piece, 64))
    whole = json.dumps(TWO, indent=indent).encode()
    found = list(read_records(io.BytesIO(whole + b'\n{"c": 1}\n'), ("spans", "logs")))
    records = [item for item in found if isinstance(item, Record)]
    assert [record.value for record in records] == [{"a": 1}, {"a": 2}, {"b": 1}, {"c": 1}]
    assert [record.head.get("info") for record in records] == [1, 1, 1, None]
    assert len(found) == len(records)


def test_lists_beside_each_other_lose_nothing() -> None:
    run = {"id": "r1", "trace_id": "r1", "run_type": "llm", "inputs": {"messages": [{"role": "user", "content": "a"}]}}
    page = {"runs": [run], "next": None, "data": [{**run, "id": "r2", "trace_id": "r2"}]}
    for indent in (None, 1):
        found = traces(LangSmith(), json.dumps(page, indent=indent).encode())
        assert [trace.turns[0].text for trace in found] == ["a", "a"]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "content": "Tide?"}]'}
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"traceId": "a1", "spanId": "b1", "name": "chat", "startTimeUnixNano": "5", "attributes": listed}
    both = {
        "resourceLogs": [{"scopeLogs": [{"logRecords": []}]}],
        "resourceSpans": [{"scopeSpans": [{"spans": [span]}]}],
    }
    for indent in (None, 1):
        (trace,) = traces(OTelGenAI(), json.dumps(both, indent=indent).encode())
        assert told(trace) == [("human", "Tide?")]


def test_every_prompt_of_a_batch_is_a_call() -> None:
    asked = {"messages": [[{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]]}
    said = {"generations": [[{"text": "1"}], [{"text": "2"}]]}
    run = {"id": "r1", "trace_id": "r1", "run_type": "llm", "start_time": "2025-03-01T09:00:00"}
    found = traces(LangSmith(), jsonl({**run, "inputs": asked, "outputs": said}))
    assert [told(trace) for trace in found] == [
        [("human", "one"), ("agent", "1")],
        [("human", "two"), ("agent", "2")],
    ]


# One name, two sessions


def test_another_session_of_the_same_name_is_said_to_be_left_out() -> None:
    def run(*said: str) -> dict[str, Any]:
        return {"sessionId": "s", "projectHash": "h", "messages": [{"type": "user", "content": text} for text in said]}

    def read(*runs: dict[str, Any]) -> list[Trace | Skipped]:
        other = {"sessionId": "between", "projectHash": "h", "messages": []}
        body = jsonl(*(record for document in runs for record in (document, other)))
        return list(read_traces(source_of(body), adapter_named("gemini_cli")))

    first, longer = read(run("a", "b"), run("a", "b", "c"), run("a"), run("a", "b", "c"))
    assert isinstance(first, Trace)
    assert isinstance(longer, Trace)
    assert (len(first.turns), len(longer.turns)) == (2, 3)
    _, other = read(run("a", "b"), run("a", "x", "c"))
    assert isinstance(other, Skipped)
    assert "'s'" in other.reason
    assert [turn.text for turn in trace_json.validate_json(other.raw).turns] == ["a", "x", "c"]


# Damaged files


def content(path: Path) -> tuple[bytes, str | None]:
    """Return what can be read of a file, line by line, and why no more."""
    (source,) = open_sources([str(path)])
    assert isinstance(source, Source)
    found = list(read_records(source.stream))
    told = [item.reason for item in found if isinstance(item, Unread)]
    return b"".join(item.raw + b"\n" for item in found if isinstance(item, Record)), told[0] if told else None


@pytest.mark.parametrize("length", [3000, 60000])
def test_of_a_file_that_was_cut_early_what_can_be_read_is(length: int, tmp_path: Path) -> None:
    noise = b"".join(b'{"noise": "%s", "a": 1}\n' % os.urandom(20).hex().encode() for _ in range(20000))
    for name, body in (("lines.gz", noise), ("document.gz", b"[\n" + noise.replace(b"}\n", b"},\n"))):
        packed = gzip.compress(body)[:length]
        (tmp_path / name).write_bytes(packed)
        read, reason = content(tmp_path / name)
        assert len(read) > length
        assert read.rstrip().splitlines()[-2] + b"\n" in noise
        assert reason


def test_standard_input_that_is_damaged_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for packed in (gzip.compress(LINES)[:12], b"\x28\xb5\x2f\xfd" + b"\xff" * 40):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
        (found,) = open_sources(["-"])
        assert isinstance(found, Unreadable)


def test_an_archive_with_a_damaged_member(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.jsonl", os.urandom(5000))
    packed = bytearray((tmp_path / "a.zip").read_bytes())
    packed[60:2000] = b"\xff" * 1940
    (tmp_path / "a.zip").write_bytes(packed)
    for found in open_sources([str(tmp_path / "a.zip")]):
        if isinstance(found, Source):
            assert any(isinstance(item, Unread) for item in read_records(found.stream))
    assert lzma.LZMAError in scanning.READ_ERRORS


def test_hidden_members_of_an_archive_are_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("a.jsonl", ".DS_Store", "__MACOSX/._a.jsonl", "x/.git/config", "./b.jsonl"):
            archive.writestr(name, LINES)
    assert [source.name.rpartition("!")[2] for source in open_sources([str(tmp_path / "a.zip")])] == [
        "a.jsonl",
        "./b.jsonl",
    ]


def test_names_of_files_that_are_not_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    Path(os.fsdecode(path)).write_bytes(jsonl({"messages": [{"role": "user", "content": "Moin"}]}))
    for source in open_sources([str(tmp_path)]):
        assert isinstance(source, Source)
        assert source.name.endswith("caf\ufffd.jsonl")
        assert list(read_traces(source, detect_adapter(source)))
    assert stem(os.fsdecode(path)) == "caf\ufffd"


def test_a_full_disk_is_an_error_of_the_disk() -> None:
    with Gather() as gather:
        gather._db.execute("PRAGMA max_page_count = 12")  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(OSError, match="TMPDIR"):
            for number in range(100):
                gather.put("group", str(number), b"x" * 10000)


# Histories that the server keeps


def chain(calls: int) -> bytes:
    def call(number: int) -> dict[str, Any]:
        before = {"previous_response_id": f"r{number - 1}"} if number else {}
        answer = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"answer {number}"}],
        }
        response = {"id": f"r{number}", "object": "response", "status": "completed", "output": [answer]}
        return {
            "request": {"model": "m", "input": [{"role": "user", "content": f"ask {number}"}], **before},
            "response": response,
        }

    return jsonl(*map(call, range(calls)))


def test_a_chain_twice_as_long_takes_twice_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    put = Gather.put

    def counted(gather: Gather, group: str, key: str, body: bytes) -> bool:
        kept.append(len(body))
        return put(gather, group, key, body)

    monkeypatch.setattr(Gather, "put", counted)
    sizes: list[int] = []
    for calls in (100, 200):
        kept.clear()
        (trace,) = traces(OpenAIResponses(), chain(calls))
        assert len(trace.turns) == 2 * calls
        sizes.append(sum(kept) + len(trace_json.dump_json(trace)))
    assert sizes[1] < 2.2 * sizes[0]
