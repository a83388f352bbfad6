"""One optimizer step, and the two measures by which a round is stopped."""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness_adapters.errors import LearnerError
from learner.batch import Row, micro_batches
from learner.config import OptimizerSettings, RoundConfig
from learner.generate import sample as sample_replies
from learner.loss import masked_mean, masked_sum, reverse_kl_topk
from learner.model import Policy
from learner.relevance import relevance_mask, selected_count
from learner.sample import Sample
from learner.teacher import Scores, Teacher, join

# Mean divergence per token that rounding alone can cause between two computations of the same distribution.
_ROUNDING_NATS = {"float32": 1e-4, "bfloat16": 2e-2}

LINEAR_FALL = 0.9


@dataclass(frozen=True, slots=True)
class Scored:
    """A sample with its reply, what the teacher thinks of each token, and what a selected token weighs in the loss."""

    sample: Sample
    scores: Scores
    weight: float = 1.0


def student_row(sample: Sample) -> Row:
    """Return the sample as the student sees it: without the hint."""
    return Row(sample.student_prompt_ids, sample.completion_ids)


def teacher_row(sample: Sample) -> Row:
    """Return the sample as the teacher sees it: with the hint, where it has one."""
    return Row(sample.teacher_prompt_ids, sample.completion_ids)


class Trainer:
    """Student, teacher and optimizer of one round. The teacher is the policy as it is now."""

    def __init__(self, config: RoundConfig, policy: Policy, eos_ids: frozenset[int]) -> None:
        self.config = config
        self.policy = policy
        self.teacher = Teacher(policy)
        settings = config.optimizer
        self.optimizer = torch.optim.AdamW(
            policy.trainable().values(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._eos_ids = eos_ids
        # The teacher never changes, so what it thinks of a recorded reply is computed once a round.
        self._recorded: dict[str, Scores] = {}

    def with_replies(self, samples: Sequence[Sample], purpose: str) -> list[Sample]:
        """Give each one-step sample a fresh reply of the student; `purpose` and the round's seed fix the draws."""
        waiting = [place for place, sample in enumerate(samples) if not sample.recorded]
        complete = list(samples)
        if waiting:
            settings = self.config.generation
            seed = random.Random(f"{self.config.seed}:{purpose}").getrandbits(63)  # noqa: S311  sampling, not secrecy
            replies = sample_replies(
                self.policy.causal,
                [samples[place].student_prompt_ids for place in waiting],
                temperature=settings.temperature,
                max_new_tokens=settings.max_new_tokens,
                eos_ids=self._eos_ids,
                generator=torch.Generator().manual_seed(seed),
            )
            skip_first = self.config.objective.skip_first
            for place, reply in zip(waiting, replies, strict=True):
                complete[place] = samples[place].with_reply(reply.ids, skip_first=skip_first, logprobs=reply.logprobs)
        return complete

    def score(self, samples: Sequence[Sample]) -> list[Scores]:
        """Return the teacher's scores of each sample's completion after its hinted prompt."""
        found = {s.id: self._recorded[s.id] for s in samples if s.id in self._recorded}
        missing = [s for s in samples if s.id not in found]
        lengths = [teacher_row(s).length for s in missing]
        for group in micro_batches(missing, lengths, self.config.batch.micro_batch):
            for sample, scores in zip(group, self.teacher.score([teacher_row(s) for s in group]), strict=True):
                found[sample.id] = scores
                if sample.recorded:
                    self._recorded[sample.id] = scores
        return [found[s.id] for s in samples]

    def divergence(self, rows: Sequence[Row], scores: Sequence[Scores]) -> list[Tensor]:
        """Return the reverse KL of the student on `rows` to the teacher's `scores`: per row, per token [T], in nats."""
        hidden_TH, batch = self.policy.hidden(rows)
        hidden_parts = hidden_TH.split(self.policy.chunk)
        score_parts = join(scores).split(self.policy.chunk)
        if len(hidden_parts) == 1:
            parts = [self._divergence(hidden_TH, score_parts[0])]
        else:
            # Recomputed in the backward pass, so that the logits of one chunk alone are ever held.
            parts = [
                checkpoint(self._divergence, hidden, score, use_reentrant=False)
                for hidden, score in zip(hidden_parts, score_parts, strict=True)
            ]
        return list(torch.cat(parts).split(batch.lengths))

    def _divergence(self, hidden_TH: Tensor, scores: Scores) -> Tensor:
        k = self.config.objective.top_k
        return reverse_kl_topk(self.policy.head(hidden_TH), self.teacher.logprobs_of(scores), k)

    def step(self, number: int, repair: Sequence[Sample], preserve: Sequence[Sample]) -> dict[str, float] | None:
        """Take one optimizer step; return its figures, or None when no reply has a token to learn from.

        The loss is the mean divergence over all selected tokens of the repair samples, plus λ times that over the
        preservation samples, whose teacher sees no hint. Raises LearnerError before the weights are touched when the
        loss or its gradient is not finite.
        """
        started = time.perf_counter()
        repair = self.with_replies(repair, f"step {number}")
        generated = time.perf_counter()
        objective = self.config.objective
        repair_tokens = sum(selected_count(s.selected, objective) for s in repair)
        preserve_tokens = sum(s.selected for s in preserve)
        if repair_tokens == 0:
            return None
        weights = [1 / repair_tokens] * len(repair) + [objective.preserve_weight / max(preserve_tokens, 1)] * len(
            preserve
        )
        samples = [*repair, *preserve]
        scored = [Scored(*three) for three in zip(samples, self.score(samples), weights, strict=True)]
        scoring_done = time.perf_counter()
        repair_sum, preserve_sum, grad_norm = self._update(number, scored)
        repair_nats, preserve_nats = repair_sum / repair_tokens, preserve_sum / max(preserve_tokens, 1)
        figures = {
            "loss": repair_nats + objective.preserve_weight * preserve_nats,
            "repair_nats": repair_nats,
            "grad_norm": grad_norm,
            "tokens": float(repair_tokens + preserve_tokens),
            "mask_share": (repair_tokens + preserve_tokens) / sum(len(s.completion_ids) for s in samples),
            "generation_s": generated - started,
            "scoring_s": scoring_done - generated,
            "update_s": time.perf_counter() - scoring_done,
        }
        return figures | ({"preserve_nats": preserve_nats} if preserve else {})

    def _update(self, number: int, scored: Sequence[Scored]) -> tuple[float, float, float]:
        """Return the summed divergence of the selected repair and preservation tokens, and the gradient's norm."""
        sums = {True: 0.0, False: 0.0}
        self.optimizer.zero_grad(set_to_none=True)
        lengths = [student_row(s.sample).length for s in scored]
        for group in micro_batches(scored, lengths, self.config.batch.micro_batch):
            values = self.divergence([student_row(s.sample) for s in group], [s.scores for s in group])
            loss = torch.zeros((), device=self.policy.device)
            for item, value_T in zip(group, values, strict=True):
                preserves = item.sample.mode == "preserve"
                mask_T = torch.tensor(item.sample.loss_mask, device=value_T.device)
                if not preserves:
                    mask_T = relevance_mask(value_T, mask_T, self.config.objective)
                total = masked_sum(value_T, mask_T)
                sums[preserves] += float(total.detach())
                loss = loss + item.weight * total
            if not torch.isfinite(loss):
                raise LearnerError(self._not_finite("loss", number))
            loss.backward()
        parameters = list(self.policy.trainable().values())
        grad_norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.optimizer.max_grad_norm)
        if not torch.isfinite(grad_norm):
            raise LearnerError(self._not_finite("gradient", number))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(number, self.config.optimizer, self.config.stopping.max_steps)
        self.optimizer.step()
        return sums[False], sums[True], float(grad_norm)

    def _not_finite(self, what: str, number: int) -> str:
        return (
            f"the {what} of step {number} is not finite; the weights were left as they were. Check the base and the "
            f"parent for NaN, or lower optimizer.learning_rate (now {self.config.optimizer.learning_rate})"
        )

    def mean_divergence(self, samples: Sequence[Sample]) -> float:
        """Return the mean reverse KL per selected token of samples with replies, in nats.

        On hinted samples this is the gap still to be learnt; on preservation samples the drift since the round began.
        Raises LearnerError when no token is selected or the mean is not finite.
        """
        if not any(s.selected for s in samples):
            raise LearnerError("no validate sample has a token to measure; lower objective.skip_first")
        values: list[Tensor] = []
        masks: list[Tensor] = []
        with torch.no_grad():
            lengths = [student_row(s).length for s in samples]
            for group in micro_batches(samples, lengths, self.config.batch.micro_batch):
                values += self.divergence([student_row(s) for s in group], self.score(group))
                masks += [torch.tensor(s.loss_mask) for s in group]
            nats = float(masked_mean(torch.cat(values).cpu(), torch.cat(masks)))
        if not math.isfinite(nats):
            raise LearnerError("the divergence measured on the validate samples is not finite; lower the learning rate")
        return nats

    def check_empty_hint(self, rows: Sequence[Row]) -> None:
        """Assert that, before any step, a teacher without a hint is the student: the loss is 0 to rounding.

        Raises LearnerError otherwise. A teacher scored with the wrong adapter makes every later figure meaningless.
        """
        with torch.no_grad():
            nats = float(torch.cat(self.divergence(rows, self.teacher.score(rows))).abs().mean())
        if not nats <= _ROUNDING_NATS[self.config.dtype]:
            raise LearnerError(
                f"at the start of the round an empty hint has a loss of {nats:.2e} nats instead of 0, so the teacher "
                "is not the policy the round started from; report this with round.json"
            )


def learning_rate(step: int, settings: OptimizerSettings, max_steps: int) -> float:
    """Return the learning rate of a step, counted from 1."""
    if settings.schedule == "constant" or max_steps == 1:
        return settings.learning_rate
    return settings.learning_rate * (1 - LINEAR_FALL * (step - 1) / (max_steps - 1))


class FrozenProbe:
    """Proves after the first step that the teacher stood still while the student moved."""

    def __init__(self, trainer: Trainer, rows: Sequence[Row]) -> None:
        self._trainer, self._rows = trainer, rows
        self._teacher, self._student = self._both()

    def _both(self) -> tuple[Tensor, Tensor]:
        rows = self._rows
        return torch.cat(self._trainer.teacher.logprobs(rows)), torch.cat(self._trainer.policy.logprobs(rows))

    def check(self) -> None:
        """Raise LearnerError unless the teacher's log-probabilities are bit-equal to before and the student's not."""
        teacher, student = self._both()
        if not torch.equal(teacher, self._teacher):
            raise LearnerError("the teacher changed during a step; it must stay the policy the round started from")
        if torch.equal(student, self._student):
            raise LearnerError("the first step left the student as it was; raise optimizer.learning_rate")
