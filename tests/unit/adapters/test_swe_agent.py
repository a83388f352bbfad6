import json
from typing import Any

import pytest
from adapter_files import RECORDINGS, head_of, source_of
from test_mini_swe_agent import EXAMPLES as MINI_EXAMPLES

from harness_adapters.adapter import Skipped
from harness_adapters.source import need, open_sources
from harness_adapters.swe_agent import SweAgent
from harness_adapters.trace import Author, Outcome, Trace, Turn

SHARED = RECORDINGS / "swe_agent"
needs_recordings = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recordings are not at {SHARED}")


def step(response: str, action: str, observation: str, **more: Any) -> dict[str, Any]:
    state = '{"open_file": "n/a"}'
    return {
        "response": response,
        "action": action,
        "observation": observation,
        "thought": response,
        "state": state,
        **more,
    }


def said(role: str, content: object, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **more}


OLD: dict[str, Any] = {
    "environment": "swe_main",
    "trajectory": [
        step("Look.\n```\nls\n```", "ls\n", "a.py\n"),
        step("Edit.\n```\nedit 1:1\n```", "edit 1:1\n", "Your proposed edit has introduced new syntax error(s)."),
        step("Clean.\n```\nrm a.pyc\n```", "rm a.pyc\n", ""),
        step("Done.\n```\nsubmit\n```", "submit\n", "diff --git a/a.py b/a.py"),
    ],
    "history": [
        said("system", "You fix code."),
        said("user", "Here is how it is done: ...", is_demo=True),
        said("assistant", "Look.\n```\nls\n```", is_demo=True, action="ls\n"),
        said("user", "Fix issue 7."),
        said("assistant", "Look.\n```\nls\n```", action="ls\n"),
        said("user", "a.py\n(Open file: n/a)\nbash-$"),
        said("assistant", "Edit.\n```\nedit 1:1\n```", action="edit 1:1\n"),
        said("user", "Your proposed edit has introduced new syntax error(s).\n(Open file: n/a)\nbash-$"),
        said("assistant", "Clean.\n```\nrm a.pyc\n```", action="rm a.pyc\n"),
        said("user", "Your command ran successfully and did not produce any output.\nbash-$"),
        said("assistant", "Done.\n```\nsubmit\n```", action="submit\n"),
    ],
    "info": {"exit_status": "submitted", "submission": "diff --git a/a.py b/a.py", "model_stats": {}},
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
NEW: dict[str, Any] = {
    "trajectory": [
        step("I think aloud.", "", "", query=[said("system", "Fix."), said("user", "Issue 8.")]),
        step(
            "I run the tests.",
            "pytest",
            "bash: line 1: pytest: command not found",
            query=[
                said("system", "Fix."),
                said("user", "Issue 8."),
                said("assistant", "I think aloud.", message_type="assistant"),
                said("user", "Your output had no tool call.", message_type="user"),
            ],
        ),
        step("Exit due to cost limit", "", "Exited (autosubmitted)", query=[{}]),
    ],
    "history": [
        said("system", "Fix.", message_type="system_prompt"),
        said("user", [{"type": "text", "text": "Issue 8."}], message_type="observation"),
        said(
            "assistant",
            "I run the tests.",
            action="pytest",
            tool_calls=[CALL],
            message_type="action",
            thinking_blocks=[{"type": "thinking", "thinking": "Perhaps.", "signature": "x"}],
        ),
        said(
            "tool",
            "OBSERVATION:\nbash: line 1: pytest: command not found",
            tool_call_ids=["call_1"],
            message_type="observation",
        ),
        said("assistant", "Exit due to cost limit", action="", message_type="action"),
    ],
    "info": {"exit_status": "submitted (exit_cost)", "submission": "diff"},
    "environment": "main",
}
EXAMPLES = {
    "old": json.dumps(OLD).encode(),
    "new": json.dumps(NEW).encode(),
    **{f"mini_{name}": body for name, body in MINI_EXAMPLES.items()},
}
EXAMPLE = EXAMPLES["old"]


def only(run: object, name: str = "runs/issue-7.traj") -> Trace:
    (trace,) = SweAgent().read(source_of(json.dumps(run).encode(), name))
    assert isinstance(trace, Trace)
    return trace


def told(turns: tuple[Turn, ...]) -> list[tuple[int | None, Author, str]]:
    return [(turn.place, turn.author, turn.text) for turn in turns]


@pytest.mark.parametrize("body", EXAMPLES.values(), ids=list(EXAMPLES))
def test_every_shape_is_recognised(body: bytes) -> None:
    assert SweAgent().recognises(head_of(body))


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {"trajectory": []},
        {"trajectory": [3]},
        {"trajectory": [{"action": "run", "args": {}}]},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [], "info": {"model": "m"}},
        {"info": {}, "attempts": [3]},
    ],
)
def test_other_json_is_not_recognised(odd: object) -> None:
    assert not SweAgent().recognises(head_of(json.dumps(odd).encode()))


def test_steps_and_their_observations_share_a_place() -> None:
    trace = only(OLD)
    assert trace.name == "issue-7"
    assert [(turn.place, turn.author) for turn in trace.turns] == [
        (None, Author.SYSTEM),
        (None, Author.HUMAN),
        *[(place, author) for place in range(4) for author in (Author.AGENT, Author.TOOL)],
    ]
    outcomes = [turn.outcome for turn in trace.turns if turn.author is Author.TOOL]
    assert outcomes == [Outcome.UNKNOWN, Outcome.ERROR_AGENT, Outcome.OK_EMPTY, Outcome.UNKNOWN]
    assert [json.loads(turn.tool_calls[0].arguments) for turn in trace.turns if turn.tool_calls][2] == {
        "command": "rm a.pyc\n"
    }
    assert all(turn.tool_calls[0].name == "bash" for turn in trace.turns if turn.tool_calls)


def test_a_prefix_is_what_the_model_was_shown() -> None:
    trace = only(OLD)
    history = [m for m in OLD["history"] if not m.get("is_demo")]
    shown = [{"role": m["role"], "content": m["content"]} for m in history]
    assert trace.prefix(len(trace.turns) - 1) == shown
    assert trace.turns[7].text == ""
    assert "ran successfully" in str(trace.turns[7].message["content"])
    assert not any("Here is how" in turn.text for turn in trace.turns)


def test_a_step_without_history_tells_itself() -> None:
    trace = only({**OLD, "history": []})
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(turn.shown for turn in trace.turns)
    assert [turn.text for turn in trace.turns[:2]] == ["Look.\n```\nls\n```", "a.py\n"]


def test_a_step_that_history_dropped_was_not_shown_again() -> None:
    dropped = [m for m in OLD["history"] if not str(m["content"]).startswith(("Edit.", "Your proposed"))]
    trace = only({**OLD, "history": dropped})
    assert [turn.place for turn in trace.turns if not turn.shown] == [1, 1]
    assert [turn.outcome for turn in trace.turns if not turn.shown] == [None, Outcome.ERROR_AGENT]


def test_nothing_is_said_twice_where_history_tells_it_otherwise() -> None:
    changed = [{**m, "content": f"{m['content']} (edited)"} if m["role"] == "assistant" else m for m in OLD["history"]]
    turns = only({**OLD, "history": changed}).turns
    assert [turn.place for turn in turns if turn.author is Author.AGENT] == [0, 1, 2, 3]
    assert turns[2].text.endswith("(edited)")
    without = [{name: value for name, value in m.items() if name != "action"} for m in changed]
    turns = only({**OLD, "history": without}).turns
    assert [turn.place for turn in turns if turn.author is Author.AGENT] == [0, 1, 2, 3]
    assert not turns[2].text.endswith("(edited)")


def test_the_same_step_twice_is_two_steps() -> None:
    again = step("Try.\n```\nmake\n```", "make\n", "no rule")
    history = [said("assistant", again["response"], action="make\n"), said("user", "no rule")] * 2
    trace = only({"trajectory": [again, again], "history": history, "environment": "e"})
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1]


def test_a_reprompt_is_the_frameworks() -> None:
    trace = only(NEW)
    assert told(trace.turns) == [
        (None, Author.SYSTEM, "Fix."),
        (None, Author.HUMAN, "Issue 8."),
        (0, Author.AGENT, "I think aloud."),
        (0, Author.FRAMEWORK, "Your output had no tool call."),
        (1, Author.AGENT, "I run the tests."),
        (1, Author.TOOL, "bash: line 1: pytest: command not found"),
        (2, Author.FRAMEWORK, "Exit due to cost limit\nExited (autosubmitted)"),
    ]
    assert [turn.shown for turn in trace.turns] == [True, True, False, False, True, True, False]


def test_calls_of_tools_keep_their_names_and_ids() -> None:
    trace = only(NEW)
    agent, result = trace.turns[4:6]
    assert (agent.tool_calls[0].id, agent.tool_calls[0].name) == ("call_1", "bash")
    assert agent.message["reasoning_content"] == "Perhaps."
    assert (result.tool_call_id, result.message["role"], result.outcome) == ("call_1", "tool", Outcome.ERROR_AGENT)
    assert str(result.message["content"]).startswith("OBSERVATION:")


def test_a_reprompt_in_history_is_the_frameworks() -> None:
    reprompt = [said("assistant", "Hm."), said("user", "Your output was not formatted.")]
    history = [*OLD["history"][:4], *reprompt, *OLD["history"][4:]]
    turns = only({**OLD, "history": history}).turns
    assert told(turns[2:4]) == [(0, Author.AGENT, "Hm."), (0, Author.FRAMEWORK, "Your output was not formatted.")]


@pytest.mark.parametrize(
    ("observation", "outcome"),
    [
        ("Wrong flag!", Outcome.ERROR_AGENT),
        ("/x/*: cannot open `/x/*' (No such file or directory)", Outcome.ERROR_AGENT),
        ("cat: b.py: No such file or directory\n", Outcome.ERROR_AGENT),
        ("File b.py not found", Outcome.ERROR_AGENT),
        ("The command 'sleep 99' was cancelled because it took more than 30 seconds.", Outcome.ERROR_ENV),
        ("\nEXECUTION TIMED OUT", Outcome.ERROR_ENV),
        ("Script completed, no errors.", Outcome.UNKNOWN),
        ("a.py\nls: b: No such file or directory", Outcome.UNKNOWN),
    ],
)
def test_failures_are_told_by_their_text(observation: str, outcome: Outcome) -> None:
    trace = only({"trajectory": [step("x", "cat b.py", observation)], "environment": "e"})
    assert trace.turns[1].outcome is outcome


def test_every_attempt_is_a_session() -> None:
    attempts = [{**OLD, "trajectory": OLD["trajectory"][:1], "history": []}, OLD]
    first, second = SweAgent().read(source_of(json.dumps({"attempts": attempts, **OLD}).encode(), "issue-7.traj"))
    assert isinstance(first, Trace)
    assert isinstance(second, Trace)
    assert (first.name, second.name) == ("issue-7_attempt-0", "issue-7_attempt-1")
    assert [len(first.turns), len(second.turns)] == [2, 10]


def test_a_run_that_was_killed_keeps_its_steps() -> None:
    body = EXAMPLE[: EXAMPLE.index(b"Clean.")]
    skipped, trace = SweAgent().read(source_of(body))
    assert isinstance(skipped, Skipped)
    assert isinstance(trace, Trace)
    assert not trace.complete
    assert [turn.place for turn in trace.turns] == [0, 0, 1, 1]


def test_steps_of_odd_types_do_not_stop_the_rest() -> None:
    odd = [3, None, {"action": 3, "observation": ["x"], "response": None}, {}, OLD["trajectory"][0]]
    items = list(SweAgent().read(source_of(json.dumps({**OLD, "trajectory": [OLD["trajectory"][0], *odd]}).encode())))
    assert [isinstance(item, Skipped) for item in items] == [True, True, False]
    trace = items[-1]
    assert isinstance(trace, Trace)
    assert [turn.place for turn in trace.turns if turn.author is Author.AGENT and turn.tool_calls] == [0, 5]


@needs_recordings
def test_the_recordings() -> None:
    calls = errors = 0
    for path in sorted(SHARED.glob("*.traj")):
        run = json.loads(path.read_text())
        (items,) = [list(SweAgent().read(need(source))) for source in open_sources([str(path)])]
        (trace,) = items
        assert isinstance(trace, Trace)
        assert trace.name == path.stem
        agent = [turn for turn in trace.turns if turn.author is Author.AGENT]
        tool = [turn for turn in trace.turns if turn.author is Author.TOOL]
        assert [turn.place for turn in agent] == [turn.place for turn in tool] == list(range(len(run["trajectory"])))
        assert [turn.text.strip() for turn in agent] == [s["response"].strip() for s in run["trajectory"]]
        assert [turn.text for turn in tool] == [s["observation"] for s in run["trajectory"]]
        calls += sum(len(turn.tool_calls) for turn in agent)
        errors += sum(turn.outcome in (Outcome.ERROR_AGENT, Outcome.ERROR_ENV) for turn in tool)
        humans = [turn for turn in trace.turns if turn.author is Author.HUMAN]
        assert len(humans) == 1
    assert (calls, errors) == (54, 16)
