"""Batches: rows of token ids, padded on the right, and where in them the completion's tokens are predicted.

Shapes: B rows, L longest row, T scored tokens of all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt and the completion to score after it."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens the model must read: the last one predicts nothing that is scored."""
        return len(self.prompt_ids) + len(self.completion_ids) - 1


@dataclass(frozen=True, slots=True)
class Padded:
    """`ids_BL` padded on the right; token t of the T scored ones is predicted at `(row_T[t], column_T[t])`.

    No attention mask is needed: under causal attention no scored position can see the padding behind it.
    """

    ids_BL: Tensor
    row_T: Tensor
    column_T: Tensor
    target_T: Tensor
    """The ids that follow the scored positions."""
    lengths: tuple[int, ...]
    """Scored tokens of each row; they sum to T."""


def pad(rows: Sequence[Row], device: torch.device | str = "cpu") -> Padded:
    """Pad rows to one batch. The padding id is 0, which nothing scored ever sees."""
    ids_BL = torch.zeros(len(rows), max(row.length for row in rows), dtype=torch.long)
    for index, row in enumerate(rows):
        ids_BL[index, : row.length] = torch.tensor((*row.prompt_ids, *row.completion_ids)[:-1])
    lengths = tuple(len(row.completion_ids) for row in rows)
    starts = [len(row.prompt_ids) - 1 for row in rows]
    row_T = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(lengths))
    column_T = torch.cat([torch.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)])
    target_T = torch.tensor([token for row in rows for token in row.completion_ids])
    return Padded(ids_BL.to(device), row_T.to(device), column_T.to(device), target_T.to(device), lengths)


def micro_batches(items: Sequence[Item], lengths: Sequence[int], size: int) -> list[list[Item]]:
    """Group items into micro-batches of at most `size`, neighbours in length together, so that little is padding."""
    order = sorted(range(len(items)), key=lambda index: (lengths[index], index))
    return [[items[index] for index in order[at : at + size]] for at in range(0, len(order), size)]
