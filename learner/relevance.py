"""Relevance masks: which of the completion's tokens the hint is about."""

import math

import torch
from torch import Tensor

from learner.config import ObjectiveSettings


def selected_count(tokens: int, objective: ObjectiveSettings) -> int:
    """Return how many of `tokens` maskable tokens the relevance mask keeps; known before any of them is scored."""
    if objective.relevance == "none" or tokens == 0:
        return tokens
    return math.ceil(objective.relevance_share * tokens)


def relevance_mask(divergence_T: Tensor, loss_mask_T: Tensor, objective: ObjectiveSettings) -> Tensor:
    """Return the part of `loss_mask_T` [T] to learn from, one completion at a time.

    `disagreement` keeps the share of tokens on which student and teacher differ most: there the hint speaks; where
    both agree it has nothing to say. Ties go to the earlier token, so that the count is exact.
    """
    if objective.relevance == "none":
        return loss_mask_T
    count = selected_count(int(loss_mask_T.sum()), objective)
    ranked = divergence_T.detach().masked_fill(~loss_mask_T, -math.inf).argsort(descending=True, stable=True)
    mask_T = torch.zeros_like(loss_mask_T)
    mask_T[ranked[:count]] = True
    return mask_T
