"""Fresh replies from the current weights: a batched sampler with a key-value cache."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.modeling_utils import PreTrainedModel


@dataclass(frozen=True, slots=True)
class Generated:
    """One sampled reply. `logprobs` are of the distribution sampled from, its temperature included, in nats."""

    ids: tuple[int, ...]
    """Up to and with the end-of-turn token, or as many as the limit allows."""
    logprobs: tuple[float, ...]


def draw(logits_BV: Tensor, temperature: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one id per row by inverting the cumulative distribution; return ids [B] and their log-probabilities [B].

    Several times faster on CPUs than `torch.multinomial` over a large vocabulary, and exact to float64.
    """
    logprob_BV = torch.log_softmax(logits_BV.float() / temperature, -1)
    cumulative_BV = logprob_BV.double().exp().cumsum(-1)
    uniform_B1 = torch.rand(len(logits_BV), 1, generator=generator, dtype=torch.float64).to(logits_BV.device)
    ids_B1 = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:], right=True)
    ids_B1 = ids_B1.clamp(max=logits_BV.shape[-1] - 1)
    return ids_B1[:, 0], logprob_BV.gather(-1, ids_B1)[:, 0]


def _sample_batch(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float,
    max_new_tokens: int,
    eos_ids: Collection[int],
    generator: torch.Generator,
) -> list[Generated]:
    device = model.device
    longest = max(map(len, prompts))
    ids_BL = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask_BL = torch.zeros_like(ids_BL)
    for index, prompt in enumerate(prompts):
        ids_BL[index, longest - len(prompt) :] = torch.tensor(list(prompt))
        mask_BL[index, longest - len(prompt) :] = 1
    input_BL, mask_BL = ids_BL.to(device), mask_BL.to(device)
    position_BL = (mask_BL.cumsum(-1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    alive = list(range(len(prompts)))
    ids: list[list[int]] = [[] for _ in prompts]
    logprobs: list[list[float]] = [[] for _ in prompts]
    for _ in range(max_new_tokens):
        logits_BV = model(
            input_ids=input_BL,
            attention_mask=mask_BL,
            position_ids=position_BL,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        next_B, logprob_B = draw(logits_BV, temperature, generator)
        for index, token, logprob in zip(alive, next_B.tolist(), logprob_B.tolist(), strict=True):
            ids[index].append(token)
            logprobs[index].append(logprob)
        going = [place for place, index in enumerate(alive) if ids[index][-1] not in eos_ids]
        if not going:
            break
        position_BL = position_BL[:, -1:] + 1
        if len(going) < len(alive):
            alive = [alive[place] for place in going]
            keep = torch.tensor(going, device=device)
            cache.batch_select_indices(keep)
            next_B, mask_BL, position_BL = next_B[keep], mask_BL[keep], position_BL[keep]
        input_BL = next_B[:, None]
        mask_BL = torch.cat([mask_BL, mask_BL.new_ones(len(alive), 1)], -1)
    return [Generated(tuple(i), tuple(p)) for i, p in zip(ids, logprobs, strict=True)]


def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float,
    max_new_tokens: int,
    eos_ids: Collection[int],
    generator: torch.Generator,
    max_batch: int = 32,
) -> list[Generated]:
    """Sample one reply per prompt, in the prompts' order.

    `model` is a causal language model, with a LoRA adapter in its layers or not; `generator` lives on the CPU, so that
    a seed means the same draws on every device. Rows leave the batch as they finish. Prompts of similar length are
    run together, at most `max_batch` at once.
    """
    replies: dict[int, Generated] = {}
    order = sorted(range(len(prompts)), key=lambda index: (len(prompts[index]), index))
    with torch.no_grad():
        for at in range(0, len(order), max_batch):
            group = order[at : at + max_batch]
            generated = _sample_batch(
                model,
                [prompts[index] for index in group],
                temperature=temperature,
                max_new_tokens=max_new_tokens,
                eos_ids=eos_ids,
                generator=generator,
            )
            replies |= zip(group, generated, strict=True)
    return [replies[index] for index in range(len(prompts))]
