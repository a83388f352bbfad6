from typing import Any

import pytest
from adapter_files import jsonl, told, traces
from test_openai_responses import ADAPTER, CALL, OUTPUT, REASONING, call, response, said, user

from harness_adapters.response_items import chat_messages
from harness_adapters.trace import Outcome


def test_parallel_calls_are_one_message() -> None:
    second = {**CALL, "id": "fc_2", "call_id": "call_2"}
    (message,) = chat_messages([said("I look."), CALL, second])
    assert (message["content"], [c["id"] for c in message["tool_calls"]]) == ("I look.", ["call_1", "call_2"])


def test_an_output_that_names_the_item_instead_of_the_call_finds_it() -> None:
    messages = chat_messages([CALL, {**OUTPUT, "call_id": "fc_1"}])
    assert messages[1]["tool_call_id"] == "call_1"


SERVER_CALLS: dict[str, tuple[dict[str, Any], str, str, Outcome]] = {
    "mcp": (
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "ports",
            "server_label": "sea",
            "arguments": "{}",
            "output": "3 ports",
        },
        "ports",
        "3 ports",
        Outcome.UNKNOWN,
    ),
    "failed mcp": (
        {"type": "mcp_call", "id": "mcp_1", "name": "ports", "arguments": "{}", "error": "no access", "output": None},
        "ports",
        "no access",
        Outcome.ERROR_AGENT,
    ),
    "web search": (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tide"}},
        "web_search",
        '{"status": "completed"}',
        Outcome.OK,
    ),
    "code": (
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1/0",
            "container_id": "c",
            "status": "completed",
            "outputs": [{"type": "logs", "logs": "ZeroDivisionError"}],
        },
        "code_interpreter",
        '{"status": "completed", "outputs": [{"type": "logs", "logs": "ZeroDivisionError"}]}',
        Outcome.OK,
    ),
    "failed search": (
        {"type": "file_search_call", "id": "fs_1", "queries": ["tide"], "status": "failed", "results": None},
        "file_search",
        "failed",
        Outcome.ERROR_AGENT,
    ),
}


@pytest.mark.parametrize(("item", "name", "result", "outcome"), SERVER_CALLS.values(), ids=SERVER_CALLS.keys())
def test_tools_that_the_server_ran(item: dict[str, Any], name: str, result: str, outcome: Outcome) -> None:
    record = call({"input": "Which ports?"}, response("resp_1", REASONING, item, said("Three.")))
    (trace,) = traces(ADAPTER, jsonl(record))
    assert [turn.author.value for turn in trace.turns] == ["human", "agent", "tool", "agent"]
    assert trace.turns[1].tool_calls[0].name == name
    assert (trace.turns[2].text, trace.turns[2].outcome) == (result, outcome)
    assert trace.turns[3].response_id == "resp_1"
    assert {turn.place for turn in trace.turns} == {0}


CLIENT_CALLS: dict[str, tuple[list[dict[str, Any]], str, str, Outcome]] = {
    "custom tool": (
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
        ],
        "select 1",
        "1",
        Outcome.UNKNOWN,
    ),
    "shell": (
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls x"]}},
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [{"stdout": "", "stderr": "no x", "outcome": {"type": "exit", "exit_code": 2}}],
            },
        ],
        '{"commands": ["ls x"]}',
        "Exit code: 2\nno x",
        Outcome.ERROR_AGENT,
    ),
    "local shell": (
        [
            {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "l", "output": "a b"},
        ],
        '{"type": "exec", "command": ["ls"]}',
        "a b",
        Outcome.UNKNOWN,
    ),
    "patch": (
        [
            {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no such file"},
        ],
        '{"type": "delete_file", "path": "a"}',
        "no such file",
        Outcome.ERROR_AGENT,
    ),
    "approval": (
        [
            {"type": "mcp_approval_request", "id": "c", "name": "drop", "arguments": "{}", "server_label": "db"},
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": False, "reason": "wrong table"},
        ],
        "{}",
        "The user declined this call. The user said: wrong table",
        Outcome.REJECTED_BY_HUMAN,
    ),
}


@pytest.mark.parametrize(("given", "arguments", "result", "outcome"), CLIENT_CALLS.values(), ids=CLIENT_CALLS.keys())
def test_tools_that_the_client_ran(given: list[dict[str, Any]], arguments: str, result: str, outcome: Outcome) -> None:
    (trace,) = traces(ADAPTER, jsonl(call({"input": [user("Go"), *given]}, response("resp_1", said("Done.")))))
    assert trace.turns[1].tool_calls[0].arguments == arguments
    assert (trace.turns[2].text, trace.turns[2].outcome, trace.turns[2].tool_call_id) == (result, outcome, "c")


def test_a_refusal_is_what_the_model_said() -> None:
    refusal = {**said(), "content": [{"type": "refusal", "refusal": "I cannot."}]}
    (trace,) = traces(ADAPTER, jsonl(call({"input": "Do it"}, response("resp_1", refusal))))
    assert told(trace)[-1] == ("agent", "I cannot.")


def test_pictures_and_files_stay_parts() -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "https://x/a.png", "detail": "low"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    (message,) = chat_messages([{"role": "user", "content": parts}])
    assert message["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
