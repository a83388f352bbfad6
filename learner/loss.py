"""The divergence between student and teacher, as pure tensor functions.

Shapes: T tokens, V vocabulary, K the student's likeliest ids. Everything is float32 and in nats.
"""

from collections.abc import Callable

import torch
from torch import Tensor

TeacherLogprobs = Callable[[Tensor], Tensor]
"""Maps ids [T, K] to the teacher's log-probabilities of them [T, K]."""

# Half a unit in the last place of 1.0: the smallest tail mass that 1 - exp(x) can hold in float32.
_LARGEST_LOG_HEAD = -torch.finfo(torch.float32).eps / 2


def log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - exp(x)) for x <= 0 without cancellation (Mächler 2012, "Accurately computing log(1 - exp(-|a|))").

    Results below log(2**-24), the resolution of float32 beside 1, are held there, so that neither the value nor the
    gradient becomes infinite.
    """
    x = x.clamp(max=_LARGEST_LOG_HEAD)
    return torch.where(x > -0.6931472, torch.log(-torch.expm1(x)), torch.log1p(-torch.exp(x)))


def logprobs_from(teacher_logits_TV: Tensor) -> TeacherLogprobs:
    """Return the teacher's log-probabilities as a function of ids, from its full logits [T, V]."""
    logits_TV = teacher_logits_TV.detach().float()
    log_normaliser_T1 = logits_TV.logsumexp(-1, keepdim=True)
    return lambda ids_TK: logits_TV.gather(-1, ids_TK) - log_normaliser_T1


def reverse_kl_topk(student_logits_TV: Tensor, teacher_logprobs: TeacherLogprobs, k: int) -> Tensor:
    """Return the reverse KL per token [T]: over the student's top K exactly, the rest as one tail atom.

    sum over v in TopK(s) of s_v log(s_v / q_v), plus (1 - S) log((1 - S) / (1 - Q)) with S and Q the mass the student
    and the teacher give those K ids. It is a lower bound of the full KL (the data-processing inequality) and equal to
    it for K >= V. Nothing is renormalised or clipped per entry: a renormalised top 1 has zero loss everywhere, and
    clipped entries can turn the gradient round.

    The gradient flows through the student alone; which ids are on top is held constant.
    """
    logits_TV = student_logits_TV.float()
    vocabulary = logits_TV.shape[-1]
    top_TK, ids_TK = logits_TV.topk(min(k, vocabulary), dim=-1)
    log_s_TK = top_TK - logits_TV.logsumexp(-1, keepdim=True)
    log_q_TK = teacher_logprobs(ids_TK).detach().float()
    head_T = (log_s_TK.exp() * (log_s_TK - log_q_TK)).sum(-1)
    if k >= vocabulary:
        return head_T
    log_tail_s_T = log1mexp(log_s_TK.logsumexp(-1))
    log_tail_q_T = log1mexp(log_q_TK.logsumexp(-1))
    return head_T + log_tail_s_T.exp() * (log_tail_s_T - log_tail_q_T)


def masked_sum(value_T: Tensor, mask_T: Tensor) -> Tensor:
    """Return the sum of the selected values. What is not selected has no influence, not even where it is not finite."""
    return torch.where(mask_T, value_T, torch.zeros_like(value_T)).sum()


def masked_mean(value_T: Tensor, mask_T: Tensor) -> Tensor:
    """Return the mean of the selected values over all tokens given, not per sequence.

    Raises ValueError when nothing is selected: the mean of nothing is not 0.
    """
    selected = int(mask_T.sum())
    if selected == 0:
        raise ValueError("no token is selected by the mask, so there is nothing to take the mean of")
    return masked_sum(value_T, mask_T) / selected
