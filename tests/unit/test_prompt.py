from dataclasses import replace
from typing import Any

import pytest
from traffic import exchange, said

from harness_adapters.errors import RenderError
from harness_adapters.exchange import Exchange, Sampled
from harness_adapters.prompt import Prompt, prompt_of
from harness_adapters.stitch import trace_of

TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


def asked(**request: Any) -> Exchange:
    made = exchange("a", [said("user", "What is tea?")], "A drink.", sequence=1)
    return replace(made, request={**made.request, **request})


def shown(made: Exchange) -> Prompt:
    return prompt_of(trace_of("s", "s", [made]), 1, made)


def test_a_prompt_holds_all_that_the_template_was_told() -> None:
    made = asked(tools=[TOOL], chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low")
    prompt = shown(replace(made, sampled=Sampled(prompt_ids=(1, 2), completion_ids=(3,))))
    assert prompt.messages == ({"role": "user", "content": "What is tea?"},)
    assert prompt.tools == (TOOL,)
    assert prompt.options == {"enable_thinking": False, "reasoning_effort": "low"}
    assert prompt.ids == (1, 2)


def test_each_turn_has_the_tools_of_its_own_call() -> None:
    first = asked(tools=[TOOL])
    messages = [said("user", "What is tea?"), said("assistant", "A drink."), said("user", "And coffee?")]
    second = exchange("b", messages, "One too.", sequence=2)
    trace = trace_of("s", "s", [first, second])
    assert prompt_of(trace, 1, first).tools == (TOOL,)
    assert prompt_of(trace, 3, second).tools == ()


def test_without_an_exchange_the_trace_tells() -> None:
    trace = trace_of("s", "s", [asked()])
    assert prompt_of(trace, 1) == Prompt(messages=tuple(trace.prefix(1)))


@pytest.mark.parametrize(
    "request_",
    [
        {"chat_template": "{{ messages }}"},
        {"documents": [{"title": "a", "text": "b"}]},
        {"continue_final_message": True, "add_generation_prompt": False},
    ],
)
def test_a_prompt_that_messages_do_not_determine_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(RenderError, match=f"the request set {next(iter(request_))}"):
        shown(asked(**request_))


def test_defaults_that_are_spelt_out_change_nothing() -> None:
    spelt = asked(chat_template=None, add_generation_prompt=True, continue_final_message=False, tools=None)
    assert shown(spelt) == shown(asked())
