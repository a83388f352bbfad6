from pathlib import Path
from typing import cast

import pytest
import torch
from broker import missing
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import PreTrainedModel

from learner.generate import Generated, draw, sample
from learner.packed import PackedLinear, pack_linears
from learner.render import Renderer

PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 17], [5, 6, 7], [20, 21, 22, 23, 24]]


def loaded(base: Path) -> PreTrainedModel:
    return cast(PreTrainedModel, AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval())


@pytest.fixture(scope="module")
def model(tiny_base: Path) -> PreTrainedModel:
    return loaded(tiny_base)


@pytest.fixture(scope="module")
def eos_ids(tiny_base: Path) -> frozenset[int]:
    # A few more ordinary ids, so that this random model ends its replies at different lengths.
    return Renderer(tiny_base).eos_ids | frozenset(range(100, 180))


def replies(model: PreTrainedModel, eos_ids: frozenset[int], seed: int = 3, **changes: int) -> list[Generated]:
    generator = torch.Generator().manual_seed(seed)
    return sample(model, PROMPTS, temperature=0.7, max_new_tokens=20, eos_ids=eos_ids, generator=generator, **changes)


def test_logprobs_are_of_the_distribution_sampled_from(model: PreTrainedModel, eos_ids: frozenset[int]) -> None:
    for prompt, reply in zip(PROMPTS, replies(model, eos_ids), strict=True):
        ids = torch.tensor([[*prompt, *reply.ids]])
        with torch.no_grad():
            logprobs = (model(input_ids=ids).logits[0] / 0.7).log_softmax(-1)
        expected = logprobs[len(prompt) - 1 : -1].gather(-1, ids[0, len(prompt) :, None])[:, 0]
        torch.testing.assert_close(torch.tensor(reply.logprobs), expected, rtol=1e-4, atol=1e-4)


def test_a_row_ends_at_its_end_of_turn_token_or_at_the_limit(model: PreTrainedModel, eos_ids: frozenset[int]) -> None:
    found = replies(model, eos_ids)
    assert len({len(reply.ids) for reply in found}) > 1
    for reply in found:
        assert len(reply.ids) == len(reply.logprobs)
        assert not eos_ids & set(reply.ids[:-1])
        assert reply.ids[-1] in eos_ids or len(reply.ids) == 20


def test_a_seed_gives_the_same_replies_and_another_seed_others(model: PreTrainedModel, eos_ids: frozenset[int]) -> None:
    assert replies(model, eos_ids) == replies(model, eos_ids)
    assert replies(model, eos_ids) != replies(model, eos_ids, seed=4)


def test_a_small_batch_limit_still_answers_every_prompt_in_its_place(
    model: PreTrainedModel, eos_ids: frozenset[int]
) -> None:
    found = replies(model, eos_ids, max_batch=2)
    assert len(found) == len(PROMPTS)
    assert all(reply.ids for reply in found)


def test_no_prompt_gives_no_reply(model: PreTrainedModel) -> None:
    generator = torch.Generator()
    assert sample(model, [], temperature=1.0, max_new_tokens=5, eos_ids=frozenset(), generator=generator) == []


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().repeat(20_000, 1)
    ids, logprobs = draw(logits, 1.0, torch.Generator().manual_seed(0))
    shares = torch.bincount(ids, minlength=4) / len(ids)
    assert (shares - torch.tensor([0.1, 0.2, 0.3, 0.4])).abs().max() < 0.02
    torch.testing.assert_close(logprobs, logits[0][ids])


def rows_of(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([PROMPTS[0]])).logits


def kinds(model: torch.nn.Module) -> set[type]:
    return {type(module) for module in model.modules() if isinstance(module, torch.nn.Linear)}


def test_packed_weights_give_the_same_logits_and_are_not_used_for_gradients(tiny_base: Path) -> None:
    model = loaded(tiny_base)
    before = rows_of(model)
    if not pack_linears(model):
        missing("this build of torch lacks the operators for packed weights")
    assert kinds(model) == {PackedLinear}
    torch.testing.assert_close(rows_of(model), before, rtol=1e-4, atol=1e-4)
    model(input_ids=torch.tensor([PROMPTS[0]])).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_without_the_operators_a_model_stays_as_it_is(tiny_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(tiny_base)
    before = rows_of(model)
    # What a build without them has in their place: a namespace in which no operator is found.
    monkeypatch.setattr(torch.ops, "mkldnn", torch.ops.built_without_it)
    assert not pack_linears(model)
    assert kinds(model) == {torch.nn.Linear}
    assert rows_of(model).equal(before)


def test_a_cold_temperature_takes_the_likeliest() -> None:
    ids, _ = draw(torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]]), 1e-3, torch.Generator().manual_seed(0))
    assert ids.tolist() == [1, 0]
