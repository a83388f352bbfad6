import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from round_dirs import config_for, spec_for

from harness_adapters.errors import LearnerError
from learner.batch import Row
from learner.config import BatchSettings, ObjectiveSettings, OptimizerSettings, RoundConfig
from learner.loss import logprobs_from, reverse_kl_topk
from learner.model import load_policy
from learner.render import Renderer
from learner.sample import Sample, render_sample
from learner.step import FrozenProbe, Trainer, learning_rate, student_row, teacher_row

NewTrainer = Callable[..., Trainer]


@pytest.fixture(scope="module")
def renderer(tiny_base: Path) -> Renderer:
    return Renderer(tiny_base)


@pytest.fixture
def new_trainer(tiny_base: Path, renderer: Renderer) -> NewTrainer:
    def make(**changes: Any) -> Trainer:
        config = config_for(tiny_base, **changes)
        return Trainer(config, load_policy(config), renderer.eos_ids)

    return make


def samples(renderer: Renderer, config: RoundConfig, mode: str, count: int) -> list[Sample]:
    return [render_sample(spec_for(n, mode), renderer, config) for n in range(count)]


def train(trainer: Trainer, renderer: Renderer, steps: int = 1) -> list[dict[str, float]]:
    repair = samples(renderer, trainer.config, "offline", 4)
    preserve = samples(renderer, trainer.config, "preserve", 2)
    found = [trainer.step(number, repair, preserve) for number in range(1, steps + 1)]
    return [figures for figures in found if figures is not None]


def test_only_the_adapter_trains_and_it_starts_as_the_base(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer()
    assert all(".lora_" in name for name in trainer.policy.trainable())
    row = student_row(samples(renderer, trainer.config, "offline", 1)[0])
    with trainer.policy.model.disable_adapter():
        base = trainer.policy.logprobs([row])
    assert trainer.policy.logprobs([row])[0].equal(base[0])


def test_padding_and_micro_batches_change_no_score(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer()
    rows = [teacher_row(s) for s in samples(renderer, trainer.config, "offline", 5)]
    alone = [trainer.policy.logprobs([row])[0] for row in rows]
    together = trainer.policy.logprobs([*rows, Row((1,), (2,))])
    for one, other in zip(alone, together, strict=False):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_kept_teacher_scores_give_the_divergence_of_the_full_logits(
    new_trainer: NewTrainer, renderer: Renderer
) -> None:
    trainer = new_trainer()
    train(trainer, renderer, steps=2)
    sample = samples(renderer, trainer.config, "offline", 1)[0]
    [found] = trainer.divergence([student_row(sample)], trainer.score([sample]))
    policy, n = trainer.policy, len(sample.completion_ids)
    student_ids = torch.tensor([[*sample.student_prompt_ids, *sample.completion_ids]])
    teacher_ids = torch.tensor([[*sample.teacher_prompt_ids, *sample.completion_ids]])
    with torch.no_grad():
        student_logits = policy.model(input_ids=student_ids).logits[0, -n - 1 : -1]
        with policy.model.disable_adapter():
            teacher_logits = policy.model(input_ids=teacher_ids).logits[0, -n - 1 : -1]
    expected = reverse_kl_topk(student_logits, logprobs_from(teacher_logits), trainer.config.objective.top_k)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_chunked_logits_give_the_same_loss_and_gradient(
    new_trainer: NewTrainer, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gradient(trainer: Trainer) -> dict[str, torch.Tensor]:
        train(trainer, renderer, steps=1)
        return {name: p.grad.clone() for name, p in trainer.policy.trainable().items() if p.grad is not None}

    whole = gradient(new_trainer())
    monkeypatch.setattr("learner.model._LOGITS", 5 * renderer.vocabulary)
    trainer = new_trainer()
    assert trainer.policy.chunk == 5
    chunked = gradient(trainer)
    assert whole.keys() == chunked.keys()
    for name, expected in whole.items():
        torch.testing.assert_close(chunked[name], expected, rtol=1e-3, atol=1e-6)


def test_the_mean_is_over_the_tokens_of_the_whole_batch(new_trainer: NewTrainer, renderer: Renderer) -> None:
    """A long and a short reply: neither the micro-batch nor the sequence may get a weight of its own."""
    losses: list[float] = []
    for micro_batch in (1, 2, 4):
        trainer = new_trainer(batch=BatchSettings(repair=4, preserve=2, micro_batch=micro_batch))
        long = render_sample(
            spec_for(0, "offline", completion={"role": "assistant", "content": "Tomorrow. " * 12}),
            renderer,
            trainer.config,
        )
        short = render_sample(spec_for(1, "offline"), renderer, trainer.config)
        values = trainer.divergence([student_row(long), student_row(short)], trainer.score([long, short]))
        mean = float(torch.cat(values).detach().mean())
        figures = trainer.step(1, [long, short], [])
        assert figures is not None
        assert figures["repair_nats"] == pytest.approx(mean, rel=1e-4)
        losses.append(figures["grad_norm"])
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-3)


def test_the_loss_falls_and_preservation_is_weighted(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer(objective=ObjectiveSettings(preserve_weight=0.5))
    figures = train(trainer, renderer, steps=8)
    assert figures[-1]["repair_nats"] < 0.8 * figures[0]["repair_nats"]
    assert figures[0]["preserve_nats"] == pytest.approx(0, abs=1e-4)
    last = figures[-1]
    assert last["loss"] == pytest.approx(last["repair_nats"] + 0.5 * last["preserve_nats"])


def test_preservation_holds_the_policy_where_it_was(new_trainer: NewTrainer, renderer: Renderer) -> None:
    drifts: list[float] = []
    for weight in (0.0, 5.0):
        trainer = new_trainer(objective=ObjectiveSettings(preserve_weight=weight))
        train(trainer, renderer, steps=8)
        drifts.append(trainer.mean_divergence(samples(renderer, trainer.config, "preserve", 2)))
    assert drifts[1] < 0.5 * drifts[0]


def test_an_empty_hint_has_no_loss_before_the_first_step_and_one_after(
    new_trainer: NewTrainer, renderer: Renderer
) -> None:
    trainer = new_trainer()
    rows = [student_row(s) for s in samples(renderer, trainer.config, "offline", 3)]
    trainer.check_empty_hint(rows)
    train(trainer, renderer, steps=2)
    with pytest.raises(LearnerError, match="empty hint"):
        trainer.check_empty_hint(rows)


def test_the_teacher_stands_still_while_the_student_moves(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer()
    probe = FrozenProbe(trainer, [student_row(s) for s in samples(renderer, trainer.config, "offline", 3)])
    with pytest.raises(LearnerError, match="left the student as it was"):
        probe.check()
    train(trainer, renderer)
    probe.check()
    # What must not happen: the teacher follows the weights being trained.
    trainer.teacher._frozen = {n: p.detach() for n, p in trainer.policy.trainable().items()}  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LearnerError, match="teacher changed"):
        probe.check()


def test_fresh_replies_come_from_the_weights_as_they_are_now(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer(optimizer=OptimizerSettings(learning_rate=3e-2))
    waiting = samples(renderer, trainer.config, "one_step", 4)
    before = trainer.with_replies(waiting, "again")
    assert [s.completion_ids for s in trainer.with_replies(waiting, "again")] == [s.completion_ids for s in before]
    assert all(s.behaviour_logprobs is not None for s in before)
    train(trainer, renderer, steps=3)
    assert [s.completion_ids for s in trainer.with_replies(waiting, "again")] != [s.completion_ids for s in before]


def test_a_ratio_to_the_behaviour_policy_is_one_when_a_step_starts(tiny_base: Path, renderer: Renderer) -> None:
    config = config_for(tiny_base)
    trainer = Trainer(config, load_policy(config), renderer.eos_ids)
    train(trainer, renderer, steps=2)
    replies = trainer.with_replies(samples(renderer, config, "one_step", 4), "ratio")
    scored = torch.cat(trainer.policy.logprobs([student_row(s) for s in replies]))
    sampled = torch.tensor([logprob for s in replies for logprob in s.behaviour_logprobs or ()])
    assert config.generation.temperature == 1.0
    assert float((scored - sampled).exp().mean()) == pytest.approx(1, abs=1e-3)


def test_the_relevance_mask_learns_from_its_share_of_the_tokens(new_trainer: NewTrainer, renderer: Renderer) -> None:
    everything = new_trainer()
    half = new_trainer(objective=ObjectiveSettings(relevance="disagreement", relevance_share=0.5))
    repair = samples(renderer, half.config, "offline", 4)
    all_of_it, part = everything.step(1, repair, []), half.step(1, repair, [])
    assert all_of_it is not None
    assert part is not None
    assert part["tokens"] == sum(math.ceil(s.selected / 2) for s in repair)
    assert part["mask_share"] == pytest.approx(0.5, abs=0.1)
    assert part["repair_nats"] > all_of_it["repair_nats"]


def test_a_base_in_bfloat16_trains_an_adapter_in_float32(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer(dtype="bfloat16")
    assert trainer.policy.head.weight.dtype == torch.bfloat16
    assert {p.dtype for p in trainer.policy.trainable().values()} == {torch.float32}
    rows = [student_row(s) for s in samples(renderer, trainer.config, "offline", 3)]
    trainer.check_empty_hint(rows)
    probe = FrozenProbe(trainer, rows)
    figures = train(trainer, renderer, steps=8)
    probe.check()
    assert figures[-1]["repair_nats"] < 0.8 * figures[0]["repair_nats"]
    assert {state["exp_avg"].dtype for state in trainer.optimizer.state.values()} == {torch.float32}
    replies = trainer.with_replies(samples(renderer, trainer.config, "one_step", 2), "fresh")
    assert all(s.completion_ids for s in replies)


def test_a_batch_without_a_token_to_learn_from_takes_no_step(new_trainer: NewTrainer, renderer: Renderer) -> None:
    trainer = new_trainer(objective=ObjectiveSettings(skip_first=50))
    before = trainer.policy.adapter_state()
    assert trainer.step(1, samples(renderer, trainer.config, "one_step", 2), []) is None
    after = trainer.policy.adapter_state()
    assert all(after[name].equal(tensor) for name, tensor in before.items())


@pytest.mark.parametrize("poisoned", ["lora_A", "lora_B"])
def test_a_loss_that_is_not_finite_leaves_the_weights_as_they_were(
    new_trainer: NewTrainer, renderer: Renderer, poisoned: str
) -> None:
    trainer = new_trainer()
    name, parameter = next((n, p) for n, p in trainer.policy.trainable().items() if poisoned in n)
    with torch.no_grad():
        parameter.fill_(math.inf)
    others = {n: p.detach().clone() for n, p in trainer.policy.trainable().items() if n != name}
    with pytest.raises(LearnerError, match="not finite"):
        train(trainer, renderer)
    assert all(trainer.policy.trainable()[n].equal(tensor) for n, tensor in others.items())
    assert not trainer.optimizer.state


def test_the_learning_rate_stands_or_falls_to_a_tenth() -> None:
    constant = OptimizerSettings(learning_rate=0.01)
    assert {learning_rate(step, constant, 9) for step in range(1, 10)} == {0.01}
    linear = OptimizerSettings(learning_rate=0.01, schedule="linear")
    rates = [learning_rate(step, linear, 9) for step in range(1, 10)]
    assert rates[0] == 0.01
    assert rates[-1] == pytest.approx(0.001)
    falls = [a - b for a, b in pairwise(rates)]
    assert falls == pytest.approx([falls[0]] * 8)
    assert learning_rate(1, linear, 1) == 0.01
