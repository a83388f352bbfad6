from typing import Any

import pytest
from codex_records import OLD, completed, event, item, line, message, meta, only
from turns_told import outcomes, told

from harness_adapters.trace import Author, Outcome

ASKED = [message("user", "fix it"), message("user", "fix it")]
EVENTS = [event("user_message", message="fix it"), event("user_message", message="fix it")]
ITEMS = [completed("UserMessage", content=[{"type": "text", "text": "fix it"}])] * 2


@pytest.mark.parametrize(
    "records",
    [ASKED, EVENTS, ITEMS, ASKED + EVENTS, EVENTS + ASKED, ASKED + ITEMS, ASKED + EVENTS + ITEMS, EVENTS + ITEMS[:1]],
)
def test_a_text_counts_as_often_as_it_was_sent_whatever_forms_it_has(records: list[dict[str, Any]]) -> None:
    trace = only(meta(), *records)
    assert [t.text for t in trace.turns if t.author is Author.HUMAN] == ["fix it", "fix it"]


def test_texts_of_the_agent_are_matched_too() -> None:
    trace = only(
        meta(),
        message("user", "go"),
        completed("AgentMessage", content=[{"type": "Text", "text": "Yes."}], phase="commentary"),
        message("assistant", "Yes."),
        completed("AgentMessage", content=[{"type": "Text", "text": "And no item."}]),
        completed("CommandExecution", command=["ls"], status="completed", exit_code=0),
    )
    assert told(trace, Author.AGENT) == [(3, "Yes.\nAnd no item.")]
    assert not trace.turns[1].tool_calls


def test_a_log_of_events_alone() -> None:
    trace = only(
        meta(),
        completed("UserMessage", content=[{"type": "text", "text": "list them"}]),
        completed(
            "CommandExecution",
            id="x1",
            command=["bash", "-lc", "ls"],
            status="failed",
            aggregated_output="no",
            exit_code=2,
        ),
        completed(
            "McpToolCall",
            id="x2",
            server="docs",
            tool="find",
            arguments={"q": 1},
            status="completed",
            result={"content": [{"type": "text", "text": "one"}]},
        ),
        completed("AgentMessage", content=[{"type": "Text", "text": "None."}]),
    )
    assert [(t.author.value, t.text, t.place) for t in trace.turns] == [
        ("human", "list them", 1),
        ("agent", "", 2),
        ("tool", "no", 2),
        ("agent", "", 3),
        ("tool", "one", 3),
        ("agent", "None.", 4),
    ]
    assert outcomes(trace) == [Outcome.ERROR_AGENT, Outcome.OK]
    assert [c.name for t in trace.turns for c in t.tool_calls] == ["command_execution", "docs__find"]


@pytest.mark.parametrize(
    "words",
    [
        "<user_shell_command>ls</user_shell_command>",
        "<turn_aborted>The person stopped it.</turn_aborted>",
        "<subagent_notification>{}</subagent_notification>",
        '<codex_internal_context source="goal">go on</codex_internal_context>',
        "<hook_prompt>run the tests</hook_prompt>",
        "Warning: apply_patch was requested via exec_command.",
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n",
    ],
)
def test_what_the_client_writes_is_not_the_persons(words: str) -> None:
    trace = only(meta(), message("user", words))
    assert [t.author for t in trace.turns] == [Author.CLIENT]


def test_what_no_event_tells_of_was_not_typed() -> None:
    trace = only(
        meta(),
        event("task_started"),
        message("user", "Always answer in verse."),
        message("user", "fix it"),
        event("user_message", message="fix it"),
        event("task_started"),
        message("user", "now without events"),
    )
    assert [t.author.value for t in trace.turns] == ["client", "human", "human"]


def test_the_clients_own_names_for_its_texts_count() -> None:
    def kind(name: str) -> dict[str, Any]:
        return {"internal_chat_message_metadata_passthrough": {"content_item_kinds": [name]}}

    trace = only(
        meta(),
        message("user", "Keep going.", **kind("goal.internal_context")),
        message("user", "I am done.", **kind("multi_agent.inter_agent_message")),
        message("user", "fix it", **kind("user.prompt")),
    )
    assert [t.author.value for t in trace.turns] == ["client", "framework", "human"]


def test_what_an_editor_puts_before_a_request_is_not_the_persons() -> None:
    words = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nno, the other file\n"
    trace = only(meta(), message("user", words), event("user_message", message=words))
    assert told(trace, Author.HUMAN) == [(1, "no, the other file")]
    assert trace.turns[0].message["content"] == words


def test_words_beside_what_the_client_writes_are_the_persons() -> None:
    agents = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>"
    trace = only(meta(), message("user", agents, "<environment_context>\n</environment_context>", "fix it"))
    assert told(trace, Author.HUMAN) == [(1, "fix it")]


def test_pictures_stay() -> None:
    parts = [
        {"type": "input_text", "text": "<image name=[Image #1]>"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "what is this?"},
    ]
    trace = only(meta(), item("message", role="user", content=parts), event("user_message", message="what is this?"))
    (turn,) = trace.turns
    assert (turn.author, turn.text) == (Author.HUMAN, "what is this?")
    assert turn.message["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def test_what_other_agents_write_is_not_the_persons() -> None:
    trace = only(
        meta(source={"subagent": {"thread_spawn": {"parent_thread_id": OLD, "depth": 1}}}),
        message("user", "look for tests"),
        line("inter_agent_communication", author="/lead", recipient="/lead/a", content="hurry"),
        item("agent_message", author="/lead", recipient="/lead/a", content=[{"type": "input_text", "text": "now"}]),
    )
    assert [(t.author.value, t.text) for t in trace.turns] == [
        ("framework", "look for tests"),
        ("framework", "hurry"),
        ("framework", "now"),
    ]
    assert trace.root == only(meta(OLD), message("user", "go")).id
