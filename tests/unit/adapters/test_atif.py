import json
from typing import Any

import pytest
from adapter_files import head_of, items, jsonl, skipped, told, traces

from harness_adapters.adapter import Skipped
from harness_adapters.atif import Atif
from harness_adapters.trace import Author, Outcome, Trace

ADAPTER = Atif()
AGENT = {
    "name": "gardener",
    "version": "1.0",
    "model_name": "m",
    "tool_definitions": [{"type": "function", "function": {"name": "water"}}],
}


def step(source: str, said: Any, **members: Any) -> dict[str, Any]:
    return {"source": source, "message": said, **members}


def call(key: str, name: str = "water", **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": key, "function_name": name, "arguments": arguments}


def result(key: str | None, content: Any, **members: Any) -> dict[str, Any]:
    return {"source_call_id": key, "content": content, **members}


def acted(said: Any, calls: list[dict[str, Any]], *results: dict[str, Any], **members: Any) -> dict[str, Any]:
    return step("agent", said, tool_calls=calls, observation={"results": list(results)}, **members)


def document(*steps: Any, **members: Any) -> dict[str, Any]:
    numbered = [{"step_id": n, **s} if isinstance(s, dict) else s for n, s in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.6", "session_id": "run-1", "agent": AGENT, "steps": numbered, **members}


STEPS = [
    step("system", "You keep a garden."),
    step("user", "Water the roses."),
    acted(
        "I water them.", [call("c-1", bed="roses", litres=5)], result("c-1", "done"), reasoning_content="Roses are dry."
    ),
    step("agent", "The roses are watered."),
]
EXAMPLE = json.dumps(document(*STEPS), indent=2).encode()
EXAMPLES = {"document": EXAMPLE, "lines": jsonl(document(*STEPS), document(*STEPS, session_id="run-2"))}


def only(*steps: Any, **members: Any) -> Trace:
    (trace,) = traces(ADAPTER, json.dumps(document(*steps, **members)).encode())
    return trace


def test_a_trajectory_is_a_trace() -> None:
    trace = only(*STEPS)
    assert (trace.name, trace.complete, trace.inherited) == ("run-1", True, 0)
    assert told(trace) == [
        ("system", "You keep a garden."),
        ("human", "Water the roses."),
        ("agent", "I water them."),
        ("tool", "done"),
        ("agent", "The roses are watered."),
    ]
    assert [turn.place for turn in trace.turns] == [0, 1, 2, 2, 3]
    assert json.loads(trace.turns[2].tool_calls[0].arguments) == {"bed": "roses", "litres": 5}
    assert (trace.turns[2].tool_calls[0].id, trace.turns[3].tool_call_id) == ("c-1", "c-1")
    assert trace.turns[2].message["reasoning_content"] == "Roses are dry."
    assert trace.tools == tuple(AGENT["tool_definitions"])


@pytest.mark.parametrize("version", ["ATIF-v1.0", "ATIF-v1.4", "ATIF-v1.8", "ATIF-v2.3"])
def test_every_version_is_read(version: str) -> None:
    assert len(only(*STEPS, schema_version=version).turns) == 5


def test_calls_with_the_same_id_are_all_kept() -> None:
    trace = only(acted("Both.", [call("c", bed="a"), call("c", bed="b")], result("c", "one"), result("c", "two")))
    assert [json.loads(c.arguments)["bed"] for c in trace.turns[0].tool_calls] == ["a", "b"]
    assert [turn.text for turn in trace.turns[1:]] == ["one", "two"]


def test_a_result_without_a_call_id_belongs_to_the_only_call_or_to_none() -> None:
    trace = only(
        acted("One.", [call("c-1")], result(None, "done")),
        step("agent", "Type: ls", observation={"results": [result(None, "a b")]}),
        acted("", [call("c-2"), call("c-3")], result(None, "both done")),
    )
    tools = [turn for turn in trace.turns if turn.author is Author.TOOL]
    assert [turn.tool_call_id for turn in tools] == ["c-1", None, None]


def test_outcomes_are_judged_by_what_the_result_says() -> None:
    trace = only(
        acted("", [call("c-1")], result("c-1", "Error: no hose")),
        acted("", [call("c-2")], result("c-2", "no hose", extra={"is_error": True})),
        acted("", [call("c-3")], result("c-3", "no hose", extra={"exit_code": 2})),
        acted("", [call("c-4")], result("c-4", None, subagent_trajectory_ref=[{"trajectory_path": "sub.json"}])),
    )
    error = Outcome.ERROR_AGENT
    assert [turn.outcome for turn in trace.turns if turn.outcome] == [error, error, error, Outcome.UNKNOWN]


def test_copied_steps_are_inherited() -> None:
    copied = [{**s, "is_copied_context": True} for s in STEPS]
    main = only(*STEPS, continued_trajectory_ref="trajectory.cont-1.json")
    trace = only(*copied, step("user", "Now the beans."), step("agent", "Done."), session_id="run-1-cont-1")
    assert trace.inherited == 5
    assert told(trace)[trace.inherited :] == [("human", "Now the beans."), ("agent", "Done.")]
    assert trace.root == main.id


def test_embedded_trajectories_are_traces_of_their_own() -> None:
    deeper = document(step("agent", "Very deep."), trajectory_id="sub-2", session_id=None)
    sub = document(
        step("user", "Find the hose."), step("agent", "Found."), trajectory_id="sub-1", subagent_trajectories=[deeper]
    )
    nameless = document(step("agent", "Hm."), session_id=None)
    body = json.dumps(document(*STEPS, trajectory_id="main", subagent_trajectories=[sub, nameless])).encode()
    found = traces(ADAPTER, body)
    assert [trace.name for trace in found] == ["run-1", "sub-1", "sub-2", "run-1-2"]
    assert [trace.root for trace in found] == [found[0].id] * 4
    assert sum(len(trace.turns) for trace in found) == 9


def test_no_two_trajectories_of_a_file_have_one_name() -> None:
    names = ["run", "run-1", "run", "run", "run-2", "run"]
    body = jsonl(*(document(step("user", f"{n}"), session_id=name) for n, name in enumerate(names)))
    found = traces(ADAPTER, body)
    assert len({trace.name for trace in found}) == len({trace.id for trace in found}) == len(names)


def test_trajectories_of_one_run_in_one_file_are_told_apart() -> None:
    body = jsonl(document(*STEPS, trajectory_id="t-1"), document(*STEPS[:2], trajectory_id="t-2"))
    assert [(trace.name, len(trace.turns)) for trace in traces(ADAPTER, body)] == [("run-1", 5), ("t-2", 2)]


def test_a_trajectory_without_a_name_is_called_after_its_file() -> None:
    (trace,) = traces(ADAPTER, json.dumps(document(*STEPS, session_id=None)).encode(), "logs/trajectory.json")
    assert trace.name == "trajectory"


def test_pictures_are_parts() -> None:
    source = {"media_type": "image/png", "path": "rose.png"}
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]
    trace = only(step("user", parts), acted("", [call("c")], result("c", [{"type": "text", "text": "a rose"}])))
    assert trace.turns[0].message["content"][1] == {"type": "image_url", "image_url": {"url": "rose.png"}}
    assert [turn.text for turn in trace.turns] == ["What is it?", "", "a rose"]


def test_what_ran_without_a_model_is_not_the_agents() -> None:
    trace = only(acted("Watering.", [call("c")], result("c", "done"), llm_call_count=0))
    assert [(turn.author, turn.tool_calls) for turn in trace.turns] == [(Author.FRAMEWORK, ()), (Author.TOOL, ())]


def test_a_step_with_only_an_observation_says_nothing_itself() -> None:
    trace = only(step("system", "", observation={"results": [result(None, "rain")]}))
    assert told(trace) == [("tool", "rain")]


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    found = items(ADAPTER, EXAMPLE[:-200])
    (trace,) = (item for item in found if isinstance(item, Trace))
    assert (trace.complete, told(trace)[1]) == (False, ("human", "Water the roses."))
    assert sum(isinstance(item, Skipped) for item in found) == 1


def test_steps_of_an_unknown_source_are_told_once_and_broken_ones_each() -> None:
    found = skipped(ADAPTER, jsonl(document(step("moon", "x"), step("moon", "y"), 3, None, *STEPS)))
    assert ["moon" in item.reason for item in found].count(True) == 1
    assert len(found) == 3
    (other,) = skipped(ADAPTER, jsonl({"schema_version": "ATIF-v1.6", "steps": 3}))
    assert "steps" in other.reason


@pytest.mark.parametrize("body", [*EXAMPLES.values(), EXAMPLE[:400]])
def test_its_files_are_recognised(body: bytes) -> None:
    assert ADAPTER.recognises(head_of(body))


@pytest.mark.parametrize(
    "record",
    [
        {"steps": [{"step_id": 1}]},
        {"schema_version": 3, "steps": []},
        {"messages": []},
        {"agent": {}, "steps": [{"source": "user"}]},
        {},
    ],
)
def test_other_files_are_not_recognised(record: Any) -> None:
    assert not ADAPTER.recognises(head_of(jsonl(record)))


def test_what_is_odd_is_read_as_far_as_it_goes() -> None:
    odd = [
        {
            "source": "agent",
            "message": {"a": 1},
            "tool_calls": [3, {"arguments": "raw"}],
            "observation": {"results": [4, {}]},
        },
        {"source": "user", "message": [3, {"type": "image"}], "observation": 5, "extra": 6},
        {"source": "agent", "message": None, "llm_call_count": "0", "reasoning_content": 7},
        STEPS[1],
    ]
    extra = {"secondnature": 5}
    trace = only(*odd, agent=[], extra=extra, subagent_trajectories=[3, {"steps": 4}], trajectory_id=8)
    assert told(trace)[-1] == ("human", "Water the roses.")
