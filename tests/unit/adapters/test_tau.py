import json
from pathlib import Path
from typing import Any

import pytest
from adapter_files import RECORDINGS, head_of, source_of

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.source import need, open_sources
from harness_adapters.tau import Tau2, TauBench
from harness_adapters.trace import Author, Outcome, Trace

BENCH, BENCH2 = RECORDINGS / "tau_bench", RECORDINGS / "tau2"
needs_recordings = pytest.mark.skipif(not BENCH2.is_dir(), reason=f"the recordings are not at {RECORDINGS}")

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"seat": 3}'}}
RUN: dict[str, Any] = {
    "task_id": 4,
    "reward": 0.0,
    "info": {},
    "traj": [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Seat three, please."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "Error: seat 3 is taken"},
        {"role": "assistant", "content": "It is taken."},
        {"role": "user", "content": "Then nothing. ###STOP###"},
    ],
    "trial": 1,
}
SIMULATION: dict[str, Any] = {
    "id": "sim-a",
    "task_id": "9",
    "termination_reason": "user_stop",
    "reward_info": {"reward": 1.0},
    "trial": 0,
    "messages": [
        {"role": "assistant", "content": "How can I help?", "tool_calls": None, "raw_data": None},
        {
            "role": "user",
            "content": None,
            "tool_calls": [{"id": "u1", "name": "look", "arguments": {}, "requestor": "user"}],
        },
        {"id": "u1", "role": "tool", "content": "Error: no signal", "requestor": "user", "error": True},
        {"role": "user", "content": "My phone has no signal.", "tool_calls": None},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a1", "name": "check", "arguments": {"line": 1}, "requestor": "assistant"},
                {"id": "a2", "name": "check", "arguments": {"line": 2}, "requestor": "assistant"},
            ],
            "raw_data": {"choices": [{"message": {"content": "said twice"}}]},
        },
        {
            "role": "tool",
            "tool_messages": [
                {"id": "a1", "role": "tool", "content": "[]", "requestor": "assistant", "error": False},
                {"id": "a2", "role": "tool", "content": "no such line", "requestor": "assistant", "error": True},
            ],
        },
        {"role": "assistant", "content": "Line one is fine."},
        {"role": "user", "content": "Thanks. ###STOP###"},
    ],
}
RESULTS: dict[str, Any] = {
    "timestamp": "2031-01-01",
    "info": {
        "user_info": {"implementation": "user_simulator"},
        "environment_info": {
            "domain_name": "phones",
            "policy": "Be brief.",
            "tool_defs": {"check": {"name": "check", "doc": "Checks a line.", "params": {"type": "object"}}},
        },
    },
    "tasks": [{"id": "9"}],
    "simulations": [SIMULATION],
}
EXAMPLES = {"tau_bench": json.dumps([RUN]).encode(), "tau2": json.dumps(RESULTS).encode()}
EXAMPLE = EXAMPLES["tau2"]


def read(adapter: Adapter, value: object) -> list[Any]:
    return list(adapter.read(source_of(json.dumps(value).encode())))


def recorded(adapter: Adapter, path: Path) -> list[Trace]:
    (items,) = [list(adapter.read(need(source))) for source in open_sources([str(path)])]
    traces = [item for item in items if isinstance(item, Trace)]
    assert len(traces) == len(items)
    return traces


def test_each_adapter_recognises_its_own() -> None:
    for name, body in EXAMPLES.items():
        head = head_of(body)
        assert [a.name for a in (TauBench(), Tau2()) if a.recognises(head)] == [name]


@pytest.mark.parametrize(
    "odd", [None, 3, [], {}, {"traj": []}, {"info": 3}, {"info": {}}, {"messages": []}, {"simulations": 1}]
)
def test_other_json_is_not_recognised(odd: object) -> None:
    head = head_of(json.dumps(odd).encode())
    assert not TauBench().recognises(head)
    assert not Tau2().recognises(head)


def test_a_run_of_tau_bench() -> None:
    (trace,) = read(TauBench(), [RUN])
    assert trace.name == "task-4_trial-1"
    authors = [Author.SYSTEM, Author.SIMULATED_USER, Author.AGENT, Author.TOOL, Author.AGENT, Author.SIMULATED_USER]
    assert [turn.author for turn in trace.turns] == authors
    assert [turn.place for turn in trace.turns] == [0, 1, 2, 3, 4, 5]
    assert trace.turns[3].outcome is Outcome.ERROR_AGENT
    assert trace.turns[-1].text == "Then nothing."
    assert trace.turns[-1].message["content"] == "Then nothing. ###STOP###"


def test_the_same_task_run_twice_is_two_sessions() -> None:
    other = {**RUN, "traj": [*RUN["traj"][:2], {"role": "assistant", "content": "No."}]}
    first, second = read(TauBench(), [RUN, other])
    assert first.name == second.name
    assert first.id != second.id


def test_actions_written_as_text_are_calls() -> None:
    said = 'Thought:\nI look.\nAction:\n{"name": "find", "arguments": {"seat": 3}}'
    run = {
        "task_id": 1,
        "trial": 0,
        "traj": [
            {"role": "user", "content": "Seat three."},
            {"role": "assistant", "content": said},
            {"role": "user", "content": "API output: Error: seat 3 is taken"},
            {"role": "assistant", "content": 'Action:\n{"name": "respond", "arguments": {"content": "Taken."}}'},
            {"role": "assistant", "content": "Action:\n{broken}"},
        ],
    }
    (trace,) = read(TauBench(), [run])
    call, result = trace.turns[1].tool_calls[0], trace.turns[2]
    assert (call.name, json.loads(call.arguments)) == ("find", {"seat": 3})
    assert (result.author, result.tool_call_id, result.text) == (Author.TOOL, call.id, "Error: seat 3 is taken")
    assert result.outcome is Outcome.ERROR_AGENT
    assert trace.turns[1].message == {"role": "assistant", "content": said}
    assert trace.turns[3].tool_calls == trace.turns[4].tool_calls == ()


def test_what_is_no_run_or_no_message_is_skipped() -> None:
    skipped, another, trace = read(TauBench(), [{"task_id": 1, "traj": None}, {**RUN, "traj": [3, RUN["traj"][1]]}])
    assert isinstance(skipped, Skipped)
    assert "message 0" in another.reason
    assert [turn.place for turn in trace.turns] == [1]


def test_a_run_that_never_began_is_nothing() -> None:
    assert read(TauBench(), [{"task_id": 1, "trial": 0, "traj": [], "info": {"error": "no key"}}]) == []


def test_a_simulation_of_tau2() -> None:
    (trace,) = read(Tau2(), RESULTS)
    assert trace.name == "sim-a"
    assert [turn.place for turn in trace.turns] == [None, 0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert (trace.turns[0].author, trace.turns[0].text) == (Author.SYSTEM, "Be brief.")
    assert trace.turns[1].author is Author.AGENT
    assert trace.turns[-1].text == "Thanks."
    assert trace.tools[0]["function"] == {
        "name": "check",
        "description": "Checks a line.",
        "parameters": {"type": "object"},
    }
    assert "said twice" not in str(trace)


def test_the_customers_own_tools_are_not_the_agents() -> None:
    (trace,) = read(Tau2(), RESULTS)
    called, answered = trace.turns[2], trace.turns[3]
    assert (called.author, len(called.tool_calls), called.shown) == (Author.SIMULATED_USER, 1, False)
    assert (answered.author, answered.outcome, answered.shown) == (Author.CLIENT, None, False)
    assert [message["role"] for message in trace.prefix(5)] == ["system", "assistant", "user"]


def test_results_that_came_together_have_one_place() -> None:
    (trace,) = read(Tau2(), RESULTS)
    first, second = trace.turns[6:8]
    assert [(turn.place, turn.tool_call_id) for turn in (first, second)] == [(5, "a1"), (5, "a2")]
    assert (first.outcome, second.outcome) == (Outcome.OK_EMPTY, Outcome.ERROR_AGENT)
    assert [json.loads(call.arguments) for call in trace.turns[5].tool_calls] == [{"line": 1}, {"line": 2}]


def test_a_simulation_in_a_file_of_its_own() -> None:
    source = source_of(json.dumps(SIMULATION).encode(), "sim-a.json")
    assert Tau2().recognises(source.head)
    (trace,) = Tau2().read(source)
    assert isinstance(trace, Trace)
    assert trace.name == "sim-a"
    assert trace.turns[0].author is Author.AGENT


def test_what_describes_a_run_holds_no_session() -> None:
    about = {**RESULTS, "simulations": []}
    assert read(Tau2(), about) == []
    del about["simulations"]
    assert Tau2().recognises(head_of(json.dumps(about).encode()))
    assert read(Tau2(), about) == []


def test_spoken_simulations_are_skipped() -> None:
    spoken = {**SIMULATION, "messages": None, "ticks": [{"tick_id": 0}]}
    (skipped,) = read(Tau2(), {**RESULTS, "simulations": [spoken]})
    assert "spoken" in skipped.reason


def test_results_cut_off_keep_what_was_written() -> None:
    body = EXAMPLE[: EXAMPLE.index(b"Line one")]
    skipped, trace = Tau2().read(source_of(body))
    assert isinstance(skipped, Skipped)
    assert isinstance(trace, Trace)
    assert not trace.complete
    assert trace.turns[-1].place in (4, 5, 6)


@needs_recordings
def test_the_recordings_of_tau_bench() -> None:
    (path,) = BENCH.glob("*.json")
    runs = json.loads(path.read_text())
    traces = recorded(TauBench(), path)
    assert len(traces) == 11
    assert sum(len(turn.tool_calls) for trace in traces for turn in trace.turns) == 78
    assert sum(turn.outcome is Outcome.ERROR_AGENT for trace in traces for turn in trace.turns) == 14
    for run, trace in zip(runs, traces, strict=True):
        assert trace.name == f"task-{run['task_id']}_trial-{run['trial']}"
        assert [turn.place for turn in trace.turns] == list(range(len(run["traj"])))
        assert [turn.message["content"] for turn in trace.turns] == [message["content"] for message in run["traj"]]
        assert not any(turn.author is Author.HUMAN for turn in trace.turns)


@needs_recordings
def test_the_recordings_of_tau2() -> None:
    paths = sorted(BENCH2.glob("*-results.json"))
    simulations = [s for path in paths for s in json.loads(path.read_text())["simulations"]]
    traces = [trace for path in paths for trace in recorded(Tau2(), path)]
    assert len(traces) == 12
    turns = [turn for trace in traces for turn in trace.turns]
    of_user = sum(len(turn.tool_calls) for turn in turns if turn.author is Author.SIMULATED_USER)
    assert (sum(len(turn.tool_calls) for turn in turns), of_user) == (31, 1)
    assert sum(turn.outcome is Outcome.ERROR_AGENT for turn in turns) == 3
    for simulation, trace in zip(simulations, traces, strict=True):
        assert trace.name == simulation["id"]
        contents = [message["content"] for message in simulation["messages"]]
        assert [turn.message["content"] for turn in trace.turns[1:]] == contents
        assert [turn.place for turn in trace.turns[1:]] == list(range(len(contents)))
        for turn, message in zip(trace.turns[1:], simulation["messages"], strict=True):
            if message.get("requestor") == "user":
                assert (turn.author, turn.outcome) == (Author.CLIENT, None)
