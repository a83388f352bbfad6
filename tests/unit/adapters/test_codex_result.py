import json
from typing import Any

import pytest
from codex_records import call, event, exited, item, message, meta, only, output, running
from turns_told import outcomes

from harness_adapters.trace import Author, Outcome


def test_a_poll_brings_the_result_of_the_call_that_started_the_process() -> None:
    trace = only(
        meta(),
        message("user", "go"),
        call("c1", cmd="rg needle"),
        output("c1", running(7)),
        call("c2", "write_stdin", session_id=7, chars=""),
        output("c2", running(7)),
        call("c3", "write_stdin", session_id=7, chars="\u0003"),
        output("c3", "write_stdin failed: stdin is closed for this session"),
        call("c4", "write_stdin", session_id=7),
        output("c4", exited(1)),
    )
    results = [t for t in trace.turns if t.author is Author.TOOL]
    assert [(t.tool_call_id, t.message["tool_call_id"], t.place) for t in results] == [
        ("c1", "c1", 3),
        ("c1", "c2", 5),
        ("c3", "c3", 7),
        ("c1", "c4", 9),
    ]
    assert outcomes(trace) == [Outcome.STILL_RUNNING, Outcome.STILL_RUNNING, Outcome.ERROR_AGENT, Outcome.OK_EMPTY]


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (exited(0, "fine"), Outcome.OK),
        (exited(0), Outcome.OK_EMPTY),
        (exited(2, "grep: x: No such file"), Outcome.ERROR_AGENT),
        (exited(1), Outcome.OK_EMPTY),
        (exited(124, "command timed out"), Outcome.ERROR_ENV),
        (exited(0, "Error: how errors are handled\nexec command rejected by user"), Outcome.OK),
        ("Exit code: 1\nWall time: 0.1 seconds\nOutput:\n", Outcome.OK_EMPTY),
        (json.dumps({"output": "fine", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}), Outcome.OK),
        (json.dumps({"output": "", "metadata": {"exit_code": 1}}), Outcome.OK_EMPTY),
        ("exec command rejected by user", Outcome.REJECTED_BY_HUMAN),
        ("patch rejected by user", Outcome.REJECTED_BY_HUMAN),
        ("patch rejected: writing outside of the project; rejected by user approval settings", Outcome.ERROR_ENV),
        ("exec_command failed: rejected: blocked by policy", Outcome.ERROR_ENV),
        ("`rm -rf /` rejected: policy forbids commands starting with `rm`", Outcome.ERROR_ENV),
        ("approval required by policy, but AskForApproval is set to Never", Outcome.ERROR_ENV),
        (
            "approval policy is Never; reject command — you should not ask for escalated permissions if the approval "
            "policy is Never",
            Outcome.ERROR_AGENT,
        ),
        ("aborted by user after 3.2s", Outcome.CANCELLED),
        ("aborted", Outcome.CANCELLED),
        ("apply_patch verification failed: no such line", Outcome.ERROR_AGENT),
        ("unsupported call: exec", Outcome.ERROR_AGENT),
        ({"content": "no such tool", "success": False}, Outcome.ERROR_AGENT),
        ({"content": "there", "success": True}, Outcome.OK),
        ([{"type": "input_text", "text": "Error: no such page (404)"}], Outcome.ERROR_AGENT),
        ("Plan updated", Outcome.UNKNOWN),
        ('{"results": 3}', Outcome.OK),
    ],
)
def test_outcomes(said: object, outcome: Outcome) -> None:
    trace = only(meta(), message("user", "go"), call("c1", cmd="grep -rn needle ."), output("c1", said))
    assert outcomes(trace) == [outcome]


def test_older_results_are_unwrapped_where_they_are_read_and_kept_as_they_were_shown() -> None:
    shown = json.dumps({"output": "a b", "metadata": {"exit_code": 0}})
    turn = only(
        meta(), message("user", "go"), call("c1", "shell", command=["bash", "-lc", "ls"]), output("c1", shown)
    ).turns[-1]
    assert (turn.text, turn.message["content"]) == ("a b", shown)


def test_the_script_is_judged_and_not_the_shell_it_is_given_to() -> None:
    trace = only(
        meta(),
        message("user", "go"),
        call("c1", "shell", command=["bash", "-lc", "grep -c x a"]),
        output("c1", json.dumps({"output": "0", "metadata": {"exit_code": 1}})),
    )
    assert outcomes(trace) == [Outcome.OK_EMPTY]


@pytest.mark.parametrize(
    ("fact", "outcome"),
    [
        (event("exec_command_end", call_id="c1", exit_code=3, status="failed"), Outcome.ERROR_AGENT),
        (event("exec_command_end", call_id="c1", exit_code=0, status="completed"), Outcome.OK),
        (event("patch_apply_end", call_id="c1", success=False, stderr="x"), Outcome.ERROR_AGENT),
        (event("patch_apply_end", call_id="c1", success=True), Outcome.OK),
        (event("mcp_tool_call_end", call_id="c1", result={"Err": "gone"}), Outcome.ERROR_AGENT),
        (
            event("mcp_tool_call_end", call_id="c1", result={"Ok": {"content": [], "isError": True}}),
            Outcome.ERROR_AGENT,
        ),
        (event("item_completed", item={"type": "FileChange", "id": "c1", "status": "failed"}), Outcome.ERROR_AGENT),
        (event("item_completed", item={"type": "CommandExecution", "id": "c1", "exit_code": 4}), Outcome.ERROR_AGENT),
        (event("exec_command_end", call_id="other", exit_code=3), Outcome.UNKNOWN),
    ],
)
def test_events_say_what_a_text_does_not(fact: dict[str, Any], outcome: Outcome) -> None:
    patch = item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin Patch")
    answer = item("custom_tool_call_output", call_id="c1", output="that was it")
    trace = only(meta(), message("user", "go"), patch, answer, fact)
    assert outcomes(trace) == [outcome]
    assert trace.turns[1].tool_calls[0].arguments == "*** Begin Patch"


def test_calls_of_tools_that_the_server_runs() -> None:
    trace = only(
        meta(),
        message("user", "go"),
        item("web_search_call", status="completed", action={"type": "search", "query": "x"}),
        item("local_shell_call", call_id="c1", action={"type": "exec", "command": ["ls"]}),
        message("assistant", "Found."),
    )
    answer = trace.turns[1]
    assert [(c.name, c.place) for c in answer.tool_calls] == [("web_search", 2), ("local_shell", 3)]
    assert json.loads(answer.tool_calls[0].arguments) == {"type": "search", "query": "x"}
    assert (answer.place, answer.text) == (4, "Found.")


def test_calls_and_results_that_are_there_twice_count_once() -> None:
    begun = call("c1", cmd="ls")
    trace = only(
        meta(), message("user", "go"), begun, begun, output("c1", exited(0, "a")), output("c1", exited(0, "a"))
    )
    assert [t.author.value for t in trace.turns] == ["human", "agent", "tool"]
    assert len(trace.turns[1].tool_calls) == 1


def test_ids_that_are_used_again_do_not_lose_calls() -> None:
    step = [call("call_0", cmd="ls"), output("call_0", exited(0, "a"))]
    trace = only(meta(), message("user", "go"), *step, *step)
    assert [t.author.value for t in trace.turns] == ["human", "agent", "tool", "agent", "tool"]
