import json
from typing import Any

from adapter_files import source_of

from harness_adapters.swe_agent import SweAgent
from harness_adapters.trace import Author, Outcome, Trace, Turn

CALL = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
MINI: dict[str, Any] = {
    "info": {"exit_status": "Submitted", "submission": "diff", "model_stats": {}, "mini_version": "1.9"},
    "messages": [
        {"role": "system", "content": "Answer with one command."},
        {"role": "user", "content": "Fix issue 9."},
        {"role": "assistant", "content": "No command yet."},
        {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks."},
        {"role": "assistant", "content": "Look.\n```bash\ngrep x a.py\n```"},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\n</output>"},
        {"role": "assistant", "content": "Run.\n```bash\npython a.py\n```"},
        {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno file\n</output>"},
        {"role": "assistant", "content": "Wipe.\n```bash\nrm -r x\n```"},
        {
            "role": "user",
            "content": "Command not executed. The user rejected your command with the following message: not x",
        },
        {"role": "assistant", "content": "Wait.\n```bash\nsleep 99\n```"},
        {"role": "user", "content": "The last command <command>sleep 99</command> timed out and has been killed."},
        {"role": "assistant", "content": "End.\n```bash\necho DONE\n```"},
        {"role": "user", "content": "diff"},
    ],
    "trajectory_format": "mini-swe-agent-1",
}
MINI_2: dict[str, Any] = {
    "info": {"exit_status": "Submitted", "submission": "diff", "model_stats": {}, "mini_version": "2.1"},
    "messages": [
        {"role": "system", "content": "Use bash."},
        {"role": "user", "content": "Fix issue 10."},
        {
            "role": "user",
            "content": "No tool calls found.",
            "extra": {"interrupt_type": "FormatError", "model_response": "Hm."},
        },
        {"role": "assistant", "content": "", "tool_calls": [CALL], "extra": {"actions": [{"command": "pytest"}]}},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "<returncode>-1</returncode>",
            "extra": {"raw_output": "", "returncode": -1, "exception_info": "action was not executed"},
        },
        {
            "role": "user",
            "content": "Commands not executed. The user rejected your commands with the following message: use make",
            "extra": {"interrupt_type": "UserRejection"},
        },
        {
            "object": "response",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Make it is."}]},
                {"type": "message", "content": [{"type": "output_text", "text": "I use make."}]},
                {"type": "function_call", "call_id": "call_2", "name": "bash", "arguments": '{"command": "make"}'},
            ],
            "extra": {"actions": [{"command": "make", "tool_call_id": "call_2"}]},
        },
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": "<returncode>0</returncode>built",
            "extra": {"raw_output": "built", "returncode": 0},
        },
        {"role": "user", "content": "User command: \n```bash\nls\n```", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "user", "content": "<returncode>0</returncode>a.py", "extra": {"raw_output": "a.py", "returncode": 0}},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}
EXAMPLES = {"version_1": json.dumps(MINI).encode(), "version_2": json.dumps(MINI_2).encode()}
EXAMPLE = EXAMPLES["version_1"]


def only(run: object, name: str = "runs/issue-7.traj") -> Trace:
    (trace,) = SweAgent().read(source_of(json.dumps(run).encode(), name))
    assert isinstance(trace, Trace)
    return trace


def told(turns: tuple[Turn, ...]) -> list[tuple[int | None, Author, str]]:
    return [(turn.place, turn.author, turn.text) for turn in turns]


def test_mini_reads_commands_in_its_answers() -> None:
    trace = only(MINI, "issue-9.traj.json")
    assert trace.name == "issue-9"
    assert [turn.place for turn in trace.turns] == list(range(14))
    assert [turn.author for turn in trace.turns[:4]] == [Author.SYSTEM, Author.HUMAN, Author.AGENT, Author.FRAMEWORK]
    calls = [call for turn in trace.turns for call in turn.tool_calls]
    assert [json.loads(call.arguments)["command"] for call in calls] == [
        "grep x a.py",
        "python a.py",
        "rm -r x",
        "sleep 99",
        "echo DONE",
    ]
    results = [turn for turn in trace.turns if turn.author is Author.TOOL]
    assert [turn.tool_call_id for turn in results] == [call.id for call in calls]
    assert [turn.outcome for turn in results] == [
        Outcome.OK_EMPTY,
        Outcome.ERROR_AGENT,
        Outcome.REJECTED_BY_HUMAN,
        Outcome.ERROR_ENV,
        Outcome.OK,
    ]
    assert trace.prefix(14) == MINI["messages"]


def test_mini_2_tells_its_interruptions() -> None:
    trace = only(MINI_2, "issue-10.traj.json")
    assert told(trace.turns) == [
        (0, Author.SYSTEM, "Use bash."),
        (1, Author.HUMAN, "Fix issue 10."),
        (2, Author.AGENT, "Hm."),
        (2, Author.FRAMEWORK, "No tool calls found."),
        (3, Author.AGENT, ""),
        (4, Author.TOOL, "<returncode>-1</returncode>"),
        (5, Author.HUMAN, "use make"),
        (6, Author.AGENT, "I use make."),
        (7, Author.TOOL, "<returncode>0</returncode>built"),
        (8, Author.CLIENT, "User command: \n```bash\nls\n```"),
        (9, Author.CLIENT, "<returncode>0</returncode>a.py"),
        (10, Author.FRAMEWORK, "diff"),
    ]
    assert [turn.outcome for turn in trace.turns if turn.author is Author.TOOL] == [
        Outcome.REJECTED_BY_HUMAN,
        Outcome.OK,
    ]
    assert trace.turns[7].message["reasoning_content"] == "Make it is."
    assert [call.id for turn in trace.turns for call in turn.tool_calls] == ["call_1", "call_2"]
