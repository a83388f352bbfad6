"""Records of Claude Code's logs, made up, and the traces they make."""

from itertools import count
from typing import Any

from adapter_files import jsonl, source_of

from harness_adapters.adapter import Skipped
from harness_adapters.claude_code import ClaudeCode
from harness_adapters.trace import Trace

_numbers = count(1)


def record(kind: str, session: str = "s1", **members: Any) -> dict[str, Any]:
    base = {"type": kind, "uuid": f"u{next(_numbers)}", "parentUuid": None, "sessionId": session, "isSidechain": False}
    return base | members


def user(content: object, **members: Any) -> dict[str, Any]:
    return record("user", **members, message={"role": "user", "content": content})


def agent(message_id: str, *blocks: dict[str, Any], **members: Any) -> dict[str, Any]:
    return record("assistant", **members, message={"id": message_id, "role": "assistant", "content": list(blocks)})


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: object = "done", *, is_error: bool | None = None, **members: Any) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return user([block if is_error is None else {**block, "is_error": is_error}], **members)


def queued(operation: str, content: str | None = None, **members: Any) -> dict[str, Any]:
    base = {"type": "queue-operation", "operation": operation, "sessionId": "s1"}
    return (base if content is None else {**base, "content": content}) | members


def typed_meanwhile(prompt: object, **members: Any) -> dict[str, Any]:
    return record(
        "attachment", attachment={"type": "queued_command", "commandMode": "prompt", "prompt": prompt} | members
    )


def read(*records: dict[str, Any] | bytes) -> list[Trace | Skipped]:
    return list(ClaudeCode().read(source_of(jsonl(*records), "folder/file-7.jsonl")))


def only(*records: dict[str, Any] | bytes) -> Trace:
    (trace,) = read(*records)
    assert isinstance(trace, Trace)
    return trace
