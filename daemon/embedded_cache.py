"""The batch being decoded: its rows, their cached keys and values, and attention over them.

Keys are cached with their rotary positions applied, so a row's columns may stand anywhere: `valid` says which are its
own. That lets rows of any length join, leave and share a prefix read once.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own documentation calls it F
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin

from daemon.embedded_sampling import Row

ATTENTION = "secondnature_grouped"


class LayerCache(CacheLayerMixin):
    """Keys and values of one layer, `[rows, heads, columns, width]`, in storage that grows ahead of need."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate storage shaped after the first states."""
        self._replace(key_states[:, :, :0], value_states[:, :, :0], room=key_states.shape[2] + 64)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new columns and return all."""
        if self.keys is None or self.values is None:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        end = self.used + key_states.shape[2]
        if end > self.keys.shape[2]:
            self._replace(*self.states(), room=end - self.used + end // 2)
        self.keys[:, :, self.used : end] = key_states
        self.values[:, :, self.used : end] = value_states
        self.used = end
        return self.states()

    def states(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the keys and values held, without the spare room."""
        assert self.keys is not None and self.values is not None
        return self.keys[:, :, : self.used], self.values[:, :, : self.used]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of columns after the next update, and where they begin."""
        return self.used + query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of columns held."""
        return self.used

    def get_max_length(self) -> int:
        """Return -1: there is no bound."""
        return -1

    def take(self, rows: torch.Tensor, columns: torch.Tensor | None = None) -> None:
        """Keep these rows (repeats allowed) and columns."""
        keys, values = self.states()
        if columns is not None and len(columns) < self.used:
            keys, values = keys.index_select(2, columns), values.index_select(2, columns)
        self._replace(keys.index_select(0, rows), values.index_select(0, rows), room=64)

    def join(self, other: "LayerCache") -> None:
        """Add the other's rows below, the shorter of the two shifted to the right."""
        width = max(self.used, other.used)
        joined = [
            torch.cat(
                [F.pad(mine, (0, 0, width - mine.shape[2], 0)), F.pad(theirs, (0, 0, width - theirs.shape[2], 0))]
            )
            for mine, theirs in zip(self.states(), other.states(), strict=True)
        ]
        self._replace(*joined, room=64)

    def _replace(self, keys: torch.Tensor, values: torch.Tensor, room: int) -> None:
        self.used = keys.shape[2]
        self.keys, self.values = F.pad(keys, (0, 0, 0, room)), F.pad(values, (0, 0, 0, room))


@dataclass(slots=True, eq=False)
class Batch:
    """Rows with their cache. `valid` `[rows, columns]` marks a row's own columns, `position` `[rows]` its next."""

    rows: list[Row]
    cache: Cache
    valid: torch.Tensor
    position: torch.Tensor
    last: torch.Tensor
    """The newest token of each row, not yet in the cache."""

    def layers(self) -> list[LayerCache]:
        """Return the cache's layers."""
        return self.cache.layers  # pyright: ignore[reportReturnType] -- filled with LayerCache alone

    def keep(self, kept: list[int]) -> None:
        """Keep these rows, repeats allowed, and the columns that any of them still uses."""
        index = torch.tensor(kept)
        self.rows = [self.rows[i] for i in kept]
        self.valid, self.position, self.last = self.valid[index], self.position[index], self.last[index]
        columns = self.valid.any(0).nonzero()[:, 0]
        self.valid = self.valid[:, columns]
        for layer in self.layers():
            layer.take(index, columns)

    def join(self, other: "Batch") -> None:
        """Add the other batch's rows below."""
        width = max(self.valid.shape[1], other.valid.shape[1])
        padded = [F.pad(valid, (width - valid.shape[1], 0)) for valid in (self.valid, other.valid)]
        self.valid = torch.cat(padded)
        self.position = torch.cat([self.position, other.position])
        self.last = torch.cat([self.last, other.last])
        self.rows += other.rows
        for mine, theirs in zip(self.layers(), other.layers(), strict=True):
            mine.join(theirs)


def grouped_attention(
    _module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend `query` `[B, H, T, D]` to `key`/`value` `[B, KV, S, D]`; return `[B, T, H, D]`.

    One new token per row is the usual case: its query heads are then folded into the time axis of their key head, so
    that the cached keys are read once instead of being copied once per query head.
    """
    rows, heads, length, width = query.shape
    groups = heads // key.shape[1]
    if length == 1:
        folded = query.reshape(rows, key.shape[1], groups, width)
        out = F.scaled_dot_product_attention(folded, key, value, attn_mask=attention_mask, scale=scaling)
        return out.reshape(rows, 1, heads, width), None
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
    return out.transpose(1, 2), None


AttentionInterface.register(ATTENTION, grouped_attention)
