"""Records of Codex's rollouts, made up, and the traces they make."""

import json
from typing import Any

from adapter_files import jsonl, source_of

from harness_adapters.adapter import Skipped
from harness_adapters.codex import Codex
from harness_adapters.trace import Trace

OLD = "019e0000-0000-7000-8000-000000000001"
NOW = "019e1111-0000-7000-8000-000000000002"
NEW = "019e2222-0000-7000-8000-000000000003"
"""Ids of sessions and turns, in the order in which they were given."""


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-01T10:00:00Z", "type": kind, "payload": payload}


def meta(session: str = NOW, **members: Any) -> dict[str, Any]:
    return line("session_meta", **{"id": session, "cwd": "/work", "cli_version": "0.125.0", "source": "cli"} | members)


def item(kind: str, **members: Any) -> dict[str, Any]:
    return line("response_item", type=kind, **members)


def event(kind: str, **members: Any) -> dict[str, Any]:
    return line("event_msg", type=kind, **members)


def message(role: str, *texts: str, **members: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words} for words in texts], **members)


def completed(kind: str, **members: Any) -> dict[str, Any]:
    return event("item_completed", thread_id=NOW, item={"type": kind, "id": "i"} | members)


def call(call_id: str, name: str = "exec_command", **arguments: Any) -> dict[str, Any]:
    return item("function_call", name=name, call_id=call_id, arguments=json.dumps(arguments))


def output(call_id: str, said: object) -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output=said)


def exited(code: int, said: str = "") -> str:
    return f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{said}"


def running(process: int) -> str:
    return f"Chunk ID: 1\nWall time: 1.0 seconds\nProcess running with session ID {process}\nOutput:\n"


def printed(phase: str, **members: Any) -> dict[str, Any]:
    return {"type": f"item.{phase}", "item": members}


def read(*records: dict[str, Any] | bytes) -> list[Trace | Skipped]:
    return list(Codex().read(source_of(jsonl(*records), "folder/rollout-7.jsonl")))


def only(*records: dict[str, Any] | bytes) -> Trace:
    (trace,) = read(*records)
    assert isinstance(trace, Trace)
    return trace
