"""What every ChatModel must keep, whatever stands behind it: run `hold` on each implementation."""

from collections.abc import Mapping
from typing import Any

import pytest

from harness_adapters.errors import EngineError
from harness_adapters.prompt import Prompt
from hinting.model import ChatModel, Sampling
from hinting.placement import PROBES, anchor, hint_block, splice, with_suffix

_MESSAGES = (
    {"role": "system", "content": "You help people."},
    {"role": "user", "content": "What is a ferry?"},
    {"role": "assistant", "content": "A boat for people and cars."},
    {"role": "user", "content": "Name one, please."},
)
CONVERSATION = Prompt(messages=_MESSAGES)
TOOLS: tuple[Mapping[str, Any], ...] = (
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}},
)


async def hold(model: ChatModel) -> None:
    """Check the whole contract."""
    await _renders(model)
    await _encodes(model)
    await _takes_a_hint(model)
    await _completes(model)
    await _refuses(model)


async def _renders(model: ChatModel) -> None:
    ids = await model.render(CONVERSATION)
    assert ids == await model.render(CONVERSATION), "rendering is repeatable"
    assert all(type(token) is int and token >= 0 for token in ids)
    assert len(await model.render(Prompt(messages=_MESSAGES[:2]))) < len(ids)
    other = Prompt(messages=(*_MESSAGES[:-1], {"role": "user", "content": "Name two, please."}))
    assert await model.render(other) != ids, "what the messages say is in the ids"
    assert await model.render(Prompt(messages=_MESSAGES, tools=TOOLS)), "tools never keep a conversation from rendering"
    options = Prompt(messages=_MESSAGES, options={"enable_thinking": False})
    assert await model.render(options), "nor does what the client tells the template"


async def _encodes(model: ChatModel) -> None:
    assert await model.encode("") == []
    ids = await model.encode("a short note")
    assert ids == await model.encode("a short note")
    assert len(await model.encode("a short note, and then some more of it")) > len(ids), "no fixed length, no padding"


async def _takes_a_hint(model: ChatModel) -> None:
    prompt = await model.render(CONVERSATION)
    probes = [await model.render(with_suffix(CONVERSATION, probe)) for probe in PROBES]
    at = anchor(prompt, *probes)
    assert 0 < at < len(prompt), "the template closes the last message and opens the reply"
    hint = await model.encode(hint_block("Be brief."))
    hinted = splice(prompt, at, hint)
    assert hinted[:at] == prompt[:at]
    assert hinted[at + len(hint) :] == prompt[at:]
    assert (await model.complete(hinted, Sampling(max_tokens=4, seed=0))).finish_reason in {"stop", "length"}


async def _completes(model: ChatModel) -> None:
    prompt = await model.render(CONVERSATION)
    sampling = Sampling(temperature=0.8, max_tokens=8, seed=7)
    first, again = [await model.complete(prompt, sampling) for _ in range(2)]
    assert first == again, "a seed makes a reply repeatable"
    assert 0 < len(first.ids) <= 8
    assert all(type(token) is int for token in first.ids)
    assert first.finish_reason in {"stop", "length"}
    assert len((await model.complete(prompt, Sampling(max_tokens=1, seed=7))).ids) == 1
    assert "<|" not in first.text, "the text has no special tokens"


async def _refuses(model: ChatModel) -> None:
    with pytest.raises(EngineError):
        await model.complete([], Sampling(max_tokens=1))
