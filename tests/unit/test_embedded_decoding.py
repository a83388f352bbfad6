"""The embedded engine's decoding against transformers itself: any batch, any order of joining, any adapter."""

import asyncio
import inspect
import math
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peft import PeftModel
from tiny_model import make_tiny_adapter
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicCache
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from daemon.embedded_answer import Engine
from daemon.embedded_batch import BASE, BatchDecoder, load_tokenizer
from daemon.embedded_cache import Batch, Prompts, SlotLayer
from daemon.embedded_engine import create_app
from daemon.embedded_sampling import Row, SampleParams, sample
from daemon.embedded_worker import Generation, Worker
from harness_adapters.errors import RenderError
from learner.plain import template_options

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


def prompts(lengths: Sequence[int], fill: float) -> Prompts:
    """Rows as if their prompts had been read, all of whose states are `fill`."""
    cache, width = DynamicCache(), max(lengths)
    states = torch.full((len(lengths), 2, width, 4), fill)
    cache.update(states, states.clone(), 0)
    valid = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
    rows = [Row([1] * length, BASE, params()) for length in lengths]
    return Prompts(rows, cache, list(range(len(lengths))), valid)


def held(batch: Batch) -> list[torch.Tensor]:
    (layer,) = batch.cache.layers
    assert isinstance(layer, SlotLayer)
    assert layer.keys is not None
    assert layer.values is not None
    return [layer.keys, layer.values]


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
    st.data(),
)
def test_nothing_of_a_row_stays_behind_the_next_one_in_its_slot(
    first: list[int], second: list[int], data: st.DataObject
) -> None:
    batch = Batch(1)
    batch.join(prompts(first, math.nan), torch.zeros(len(first), dtype=torch.long))
    batch.join(prompts(second, 1.0), torch.zeros(len(second), dtype=torch.long))
    gone = data.draw(st.permutations(range(len(first))))
    batch.leave(list(gone))
    batch.join(prompts([1], 2.0), torch.zeros(1, dtype=torch.long))
    assert sorted(len(row.prompt) for row in batch.rows) == sorted([*second, 1])
    for states in held(batch):
        for slot, row in enumerate(batch.rows):
            assert (states[slot, :, : len(row.prompt)] > 0).all()
            assert (states[slot, :, len(row.prompt) :] == 0).all()


class Copies(TorchDispatchMode):
    """Counts tensors that are made with slots for a whole batch."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least, self.count = least, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and func.__name__.startswith(("new_zeros", "constant_pad_nd")):
            self.count += made.numel() >= self.least
        return made


def test_a_join_copies_the_cache_once_and_gives_back_what_is_no_longer_needed() -> None:
    batch, last = Batch(1), torch.zeros(16, dtype=torch.long)
    batch.join(prompts([100] * 16, 1.0), last)
    size = held(batch)[0].numel()
    with Copies(size) as copies:
        batch.join(prompts([100] * 16, 1.0), last)
    assert copies.count == 2  # keys and values
    assert held(batch)[0].shape == (32, 2, 128, 4)
    batch.leave(list(range(1, 32)))
    batch.join(prompts([1000], 1.0), last[:1])
    assert held(batch)[0].shape == (2, 2, 1024, 4)


async def test_rows_join_only_while_the_cache_stays_within_its_bound(tiny_base: Path) -> None:
    decoder = BatchDecoder(tiny_base)
    worker = Worker(decoder, load_tokenizer(tiny_base), max_batch=8, max_cells=300)
    sizes: list[tuple[int, int]] = []
    admit = decoder.admit

    def watched(rows: Sequence[Row]) -> Any:
        everyone = [*decoder.rows, *rows]
        sizes.append((len(everyone), max(len(row.prompt) for row in everyone)))
        return admit(rows)

    decoder.admit = watched
    lengths = (500, 20, 20, 120, 20, 20, 20)
    waiting = [
        worker.submit([5] * length, params(), slot=BASE, max_tokens=3, stop=(), stop_ids=frozenset())
        for length in lengths
    ]
    async with asyncio.timeout(60):
        for generation in waiting:
            event: Any = await generation.events.get()
            while not event.finish_reason:
                event = await generation.events.get()
    worker.close()
    assert sizes[0] == (1, 500)
    assert all(rows == 1 or rows * longest <= 300 for rows, longest in sizes)
    assert max(rows for rows, _ in sizes) > 1


def test_a_closed_loop_does_not_end_the_worker(tiny_base: Path) -> None:
    worker = Worker(BatchDecoder(tiny_base), load_tokenizer(tiny_base), max_batch=1)

    async def first_of(max_tokens: int) -> Generation:
        asked = worker.submit([5, 6], params(), slot=BASE, max_tokens=max_tokens, stop=(), stop_ids=frozenset())
        async with asyncio.timeout(60):
            assert not isinstance(await asked.events.get(), Exception)
        return asked

    left = asyncio.run(first_of(10**6))
    asyncio.run(first_of(1))  # there is room for one: what nobody reads has left
    assert left.cancelled
    assert worker.alive
    worker.close()


@pytest.mark.parametrize("function", [PreTrainedTokenizerBase.apply_chat_template, render_jinja_template])
def test_no_parameter_of_rendering_can_be_set_by_a_client(function: Any) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            with pytest.raises(RenderError, match=f"sets {name}, which"):
                template_options({name: None})
    assert template_options({"enable_thinking": False}) == {"enable_thinking": False}
    assert template_options(None) == {}


@pytest.mark.parametrize(
    ("path", "body", "work"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}, "chat"),
        ("/v1/completions", {"prompt": "hi", "max_tokens": 1}, "text"),
        ("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}, "chat"),
        ("/tokenize", {"prompt": "hi"}, "text"),
        ("/detokenize", {"tokens": [5, 6]}, "decode"),
    ],
)
async def test_reading_a_prompt_holds_nothing_up(
    tiny_base: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], work: str
) -> None:
    engine = Engine(tiny_base, name="base", max_model_len=0, max_batch=2, max_loras=1, max_rank=8)
    real, begun, healthy = getattr(engine.renderer, work), threading.Event(), threading.Event()

    def long(*given: Any, **named: Any) -> Any:
        begun.set()
        assert healthy.wait(30)
        return real(*given, **named)

    monkeypatch.setattr(engine.renderer, work, long)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(engine)), base_url="http://engine") as client:
        asking = asyncio.create_task(client.post(path, json=body))
        assert await asyncio.to_thread(begun.wait, 30)
        assert (await client.get("/health")).status_code == 200
        healthy.set()
        assert (await asking).status_code == 200
    engine.worker.close()
