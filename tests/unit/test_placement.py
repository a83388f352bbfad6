"""A hint goes right behind the last message's text, whatever the template, and takes nothing away."""

import chat_model_contract
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.errors import RenderError
from harness_adapters.prompt import Prompt
from hinting.fake_model import END, START, FakeChatModel
from hinting.model import Sampling
from hinting.placement import PROBES, anchor, hint_block, splice, with_suffix

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts}),
    min_size=1,
    max_size=6,
)
frames = st.text("ab[ \n<|>:é", max_size=6)


def echo(prompt: str, sampling: Sampling) -> str:
    return f"{len(prompt)} characters, seed {sampling.seed}"


async def test_the_fake_model_holds_the_contract() -> None:
    await chat_model_contract.hold(FakeChatModel(echo))


@given(messages=messages, opening=frames, closing=frames, generation=frames, hint=texts.filter(str.strip))
async def test_a_spliced_hint_equals_the_hint_written_into_the_message(
    messages: list[dict[str, str]], opening: str, closing: str, generation: str, hint: str
) -> None:
    model = FakeChatModel(echo, opening=opening, closing=closing, generation=generation)
    prompt = await model.render(Prompt(messages=tuple(messages)))
    probes = [await model.render(with_suffix(Prompt(messages=tuple(messages)), probe)) for probe in PROBES]
    at = anchor(prompt, *probes)
    added = await model.encode(hint_block(hint))
    hinted = splice(prompt, at, added)

    assert prompt[at] == END, "the anchor is the end of the last message's text"
    assert hinted == await model.render(with_suffix(Prompt(messages=tuple(messages)), hint_block(hint)))
    assert hinted[:at] + hinted[at + len(added) :] == prompt


@given(messages=messages, hint=texts.filter(str.strip))
async def test_recorded_ids_keep_their_history(messages: list[dict[str, str]], hint: str) -> None:
    """Recorded ids may differ from a fresh rendering in their history: sampled text can be tokenised in other ways."""
    model = FakeChatModel(echo)
    recorded = [START, START, *(await model.render(Prompt(messages=tuple(messages))))]
    probes = [await model.render(with_suffix(Prompt(messages=tuple(messages)), probe)) for probe in PROBES]
    at = anchor(recorded, *probes)
    added = await model.encode(hint_block(hint))
    hinted = splice(recorded, at, added)
    assert hinted[:2] == [START, START]
    assert hinted[2:] == await model.render(with_suffix(Prompt(messages=tuple(messages)), hint_block(hint)))


async def test_list_content_takes_the_hint_as_a_part_of_its_own() -> None:
    parts = Prompt(messages=({"role": "user", "content": [{"type": "text", "text": "hello"}]},))
    assert with_suffix(parts, " more").messages[-1]["content"] == [
        {"type": "text", "text": "hello"},
        {"type": "text", "text": " more"},
    ]


def test_a_prompt_without_messages_or_without_a_common_end_is_refused() -> None:
    with pytest.raises(RenderError, match="no message"):
        with_suffix(Prompt(messages=()), "x")
    with pytest.raises(RenderError, match="share a token"):
        anchor([1, 2], [1, 3], [1, 4])


def test_a_closing_that_shares_a_token_with_the_text_is_refused() -> None:
    """7 and 8 are what the template puts behind a message; in the prompt the text has merged with 7."""
    assert anchor([1, 2, 7, 8], [1, 2, 3, 7, 8], [1, 2, 4, 7, 8]) == 2
    with pytest.raises(RenderError, match="share a token"):
        anchor([1, 27, 8], [1, 2, 3, 7, 8], [1, 2, 4, 7, 8])
