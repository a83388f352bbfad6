"""The teacher: the policy frozen at the start of the round, reading the hint."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from learner.batch import Row
from learner.loss import TeacherLogprobs
from learner.model import Policy

# Elements of gathered head rows held at once: 64 MiB in float32.
_GATHERED = 2**24


@dataclass(frozen=True, slots=True)
class Scores:
    """What is kept of scored tokens: enough for the exact log-probability of any id, at H + 1 numbers a token."""

    hidden_TH: Tensor
    log_normaliser_T: Tensor

    def split(self, sizes: int | Sequence[int]) -> list["Scores"]:
        """Split along the tokens, as `torch.split` does."""
        sizes = sizes if isinstance(sizes, int) else list(sizes)
        parts = zip(self.hidden_TH.split(sizes), self.log_normaliser_T.split(sizes), strict=True)
        return [Scores(hidden_TH, normaliser_T) for hidden_TH, normaliser_T in parts]


def join(scores: Sequence[Scores]) -> Scores:
    """Put the tokens of several scores behind one another."""
    return Scores(torch.cat([s.hidden_TH for s in scores]), torch.cat([s.log_normaliser_T for s in scores]))


class Teacher:
    """Scores rows with the adapter as it was when the teacher was made, whatever the policy has learnt since."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._frozen = {name: parameter.detach().clone() for name, parameter in policy.trainable().items()}

    @contextmanager
    def _in_place(self) -> Generator[None]:
        # Storage is exchanged, not copied into: the student's tensors come back bit for bit.
        parameters = self._policy.trainable()
        students = {name: parameter.data for name, parameter in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = self._frozen[name]
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = students[name]

    def score(self, rows: Sequence[Row]) -> list[Scores]:
        """Score the rows' completions in one batch, without gradient."""
        head, chunk = self._policy.head, self._policy.chunk
        with torch.no_grad(), self._in_place():
            hidden_TH, batch = self._policy.hidden(rows)
            normaliser_T = torch.cat([head(part_TH).float().logsumexp(-1) for part_TH in hidden_TH.split(chunk)])
        # Cloned, so that keeping one completion's scores does not keep its whole batch alive.
        parts = Scores(hidden_TH, normaliser_T).split(batch.lengths)
        return [Scores(part.hidden_TH.clone(), part.log_normaliser_T.clone()) for part in parts]

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Return each row's log-probabilities [T] of its completion at temperature 1, without gradient."""
        with self._in_place():
            return self._policy.logprobs(rows)

    def logprobs_of(self, scores: Scores) -> TeacherLogprobs:
        """Return the log-probabilities of scored tokens as a function of ids [T, K], without gradient."""
        weight_VH, bias_V = self._policy.head.weight, self._policy.head.bias

        def at(ids_TK: Tensor) -> Tensor:
            step = max(1, _GATHERED // (ids_TK.shape[1] * weight_VH.shape[1]))
            with torch.no_grad():
                pairs = zip(scores.hidden_TH.split(step), ids_TK.split(step), strict=True)
                logits_TK = torch.cat([torch.einsum("th,tkh->tk", hidden, weight_VH[ids]) for hidden, ids in pairs])
                # Heads without a bias are the rule; PyTorch's types do not say that it may be None.
                if bias_V is not None:  # pyright: ignore[reportUnnecessaryComparison]
                    logits_TK = logits_TK + bias_V[ids_TK]
                return logits_TK.float() - scores.log_normaliser_T[:, None]

        return at
