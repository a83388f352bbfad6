"""The embedded engine's decoding against transformers itself: any batch, any order of joining, any adapter."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import PeftModel
from tiny_model import make_tiny_adapter
from transformers import AutoModelForCausalLM

from daemon.embedded_batch import BASE, BatchDecoder
from daemon.embedded_sampling import Row, SampleParams, sample

VOCABULARY = 480
PROPERTY = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def params(temperature: float = 0.0, **changes: Any) -> SampleParams:
    given: dict[str, Any] = {"top_p": 1.0, "top_k": 0, "logprobs": 0, "prompt_logprobs": None, "seed": 1}
    return SampleParams(temperature=temperature, **(given | changes))


class World:
    """A decoder with an adapter, and transformers' own model of each."""

    def __init__(self, model_dir: Path, adapter: Path) -> None:
        self.decoder = BatchDecoder(model_dir)
        self.slot = self.decoder.load_adapter(adapter)
        base = [AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval() for _ in range(2)]
        self._models = {BASE: base[0], self.slot: PeftModel.from_pretrained(base[1], adapter).eval()}

    @torch.inference_mode()
    def logits(self, adapter: str, ids: Sequence[int]) -> torch.Tensor:
        return self._models[adapter](torch.tensor([list(ids)])).logits[0]

    def greedy(self, row: Row, count: int) -> list[int]:
        ids = list(row.prompt)
        for _ in range(count):
            ids.append(int(self.logits(row.adapter, ids)[-1].argmax()))
        return ids[len(row.prompt) :]


@pytest.fixture(scope="module")
def world(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tiny_base, make_tiny_adapter(tmp_path_factory.mktemp("adapter") / "one", tiny_base, seed=1))


@PROPERTY
@given(data=st.data())
def test_any_batch_decodes_as_each_row_alone(world: World, data: st.DataObject) -> None:
    shared = data.draw(st.lists(st.integers(3, VOCABULARY - 1), min_size=0, max_size=20))
    own = st.lists(st.integers(3, VOCABULARY - 1), min_size=1, max_size=25)
    tails = data.draw(st.lists(own, min_size=1, max_size=6))
    repeated = data.draw(st.booleans())
    prompts = [[*shared, *tail] for tail in (tails * 2 if repeated else tails)]
    adapters = [data.draw(st.sampled_from([BASE, world.slot])) for _ in prompts]
    rows = [Row(prompt, adapter, params()) for prompt, adapter in zip(prompts, adapters, strict=True)]
    counts = [data.draw(st.integers(1, 6)) for _ in rows]
    waiting = list(rows)
    made: dict[int, list[int]] = {id(row): [] for row in rows}
    while waiting or world.decoder.rows:
        before = list(world.decoder.rows)
        for row, score in zip(before, world.decoder.step(), strict=True):
            made[id(row)].append(score.id)
        joining = data.draw(st.integers(1 if not before else 0, len(waiting))) if waiting else 0
        newcomers, waiting = waiting[:joining], waiting[joining:]
        for row, score in zip(newcomers, world.decoder.admit(newcomers) if newcomers else [], strict=True):
            made[id(row)].append(score.id)
        done = [row for row, count in zip(rows, counts, strict=True) if len(made[id(row)]) >= count]
        world.decoder.drop(done)
    for row, count in zip(rows, counts, strict=True):
        assert made[id(row)] == world.greedy(row, count)


@PROPERTY
@given(length=st.integers(1, 300), alternatives=st.integers(0, 3), seed=st.integers(0, 99))
def test_prompt_scores_are_the_models_own(world: World, length: int, alternatives: int, seed: int) -> None:
    prompt = random.Random(seed).choices(range(3, VOCABULARY), k=length)
    row = Row(prompt, world.slot, params(prompt_logprobs=alternatives))
    world.decoder.admit([row])
    world.decoder.drop([row])
    logprob = torch.log_softmax(world.logits(world.slot, prompt), -1)
    assert row.prompt_scores is not None
    assert len(row.prompt_scores) == length
    assert row.prompt_scores[0] is None
    for position, score in enumerate(row.prompt_scores[1:]):
        assert score is not None
        assert score.id == prompt[position + 1]
        assert score.logprob == pytest.approx(float(logprob[position, score.id]), abs=1e-4)
        values, tokens = logprob[position].topk(alternatives)
        assert [value for _, value in score.top] == pytest.approx(values.tolist(), abs=1e-4)
        assert len(tokens) == len(score.top)


logit_rows = st.lists(st.floats(-8, 8, width=32), min_size=6, max_size=6)


@given(st.lists(logit_rows, min_size=1, max_size=4), st.floats(0.2, 2), st.integers(0, 6), st.floats(0.05, 1))
def test_sampling_keeps_to_the_truncated_distribution(
    logits: list[list[float]], temperature: float, top_k: int, top_p: float
) -> None:
    rows = [Row([1], BASE, params(temperature, top_k=top_k, top_p=top_p, seed=i)) for i in range(len(logits))]
    for score, raw in zip(sample(torch.tensor(logits), rows), logits, strict=True):
        probability = torch.softmax(torch.tensor(raw, dtype=torch.float64) / temperature, -1)
        ranked = sorted(range(6), key=lambda i: -float(probability[i]))
        kept = ranked[: top_k or 6]
        mass, nucleus = 0.0, list[int]()
        total = sum(float(probability[i]) for i in kept)
        for i in kept:
            if mass >= top_p + 1e-6:
                break
            nucleus.append(i)
            mass += float(probability[i]) / total
        # Ties may be cut either way, so the test goes by probability.
        assert float(probability[score.id]) >= float(probability[nucleus[-1]]) - 1e-6
        assert score.logprob <= 1e-6
        assert score.logprob >= float(probability[score.id].log()) - 1e-5


@given(logit_rows, st.lists(logit_rows, max_size=3), st.integers(0, 2**40), st.floats(0.2, 2))
def test_noise_belongs_to_the_row(raw: list[float], others: list[list[float]], seed: int, temperature: float) -> None:
    def draw(company: list[list[float]]) -> list[int]:
        rows = [Row([1], BASE, params(temperature, seed=seed + i)) for i in range(1 + len(company))]
        return [sample(torch.tensor([raw, *company]), rows)[0].id for _ in range(5)]

    assert draw([]) == draw(others)


def test_samples_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    rows = [Row([1], BASE, params(1.0, seed=7))]
    drawn = [sample(logits, rows)[0].id for _ in range(4000)]
    expected = torch.softmax(logits[0], -1)
    for token in range(4):
        assert drawn.count(token) / 4000 == pytest.approx(float(expected[token]), abs=0.03)
