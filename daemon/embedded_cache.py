"""The batch being decoded: its rows, their cached keys and values, and attention over them.

A row has a slot, and fills its columns from the first on; behind them stand zeros, as a masked column still takes part
in a product, where what is not a number would spread. A row that joins is written into the next free slot, the last
one moves into the slot of a row that leaves: neither touches the others, however many there are.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own documentation calls it F
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer

from daemon.embedded_sampling import Row

ATTENTION = "secondnature_grouped"
COLUMN_BLOCK = 128
"""Columns are allocated in blocks of this many."""


class SlotLayer(CacheLayerMixin):
    """Keys and values of one layer, `[slots, heads, columns, width]`. `position` says where each row writes next."""

    def __init__(self) -> None:
        super().__init__()
        self.position = torch.zeros(0, dtype=torch.long)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Begin with no slots, shaped after the first states `[rows, heads, columns, width]`."""
        self.keys, self.values = key_states[:0, :, :0].clone(), value_states[:0, :, :0].clone()
        self.is_initialized = True

    def fit(self, slots: int, columns: int) -> None:
        """Make room. Where that takes a copy, what is beyond is given back."""
        assert self.keys is not None and self.values is not None
        if slots <= self.keys.shape[0] and columns <= self.keys.shape[2]:
            return
        room = -(-columns // COLUMN_BLOCK) * COLUMN_BLOCK
        self.keys, self.values = (_resized(states, slots, room) for states in (self.keys, self.values))

    def put(self, slot: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write a row's states `[heads, columns, width]` into a slot that there is room for."""
        for held, states in ((self.keys, keys), (self.values, values)):
            assert held is not None
            held[slot, :, : states.shape[1]] = states
            held[slot, :, states.shape[1] :] = 0

    def move(self, source: int, target: int) -> None:
        """Copy a row from one slot to another."""
        for held in (self.keys, self.values):
            assert held is not None
            held[target] = held[source]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new column of every row, each at its own position; return the rows up to the longest."""
        rows = len(self.position)
        columns = int(self.position.max()) + 1
        self.fit(rows, columns)
        assert self.keys is not None and self.values is not None
        every = torch.arange(rows)
        self.keys[every, :, self.position] = key_states[:, :, 0]
        self.values[every, :, self.position] = value_states[:, :, 0]
        return self.keys[:rows, :, :columns], self.values[:rows, :, :columns]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of columns after the next update, and where they begin."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of columns the longest row has."""
        return int(self.position.max()) if len(self.position) else 0

    def get_max_length(self) -> int:
        """Return -1: there is no bound."""
        return -1


def _resized(states: torch.Tensor, slots: int, columns: int) -> torch.Tensor:
    """Return a copy of `[slots, heads, columns, width]` states with other numbers of slots and columns."""
    sized = states.new_zeros(slots, states.shape[1], columns, states.shape[3])
    kept = states[:slots, :, :columns]
    sized[: kept.shape[0], :, : kept.shape[2]] = kept
    return sized


@dataclass(slots=True, eq=False)
class Prompts:
    """Rows whose prompts were read together.

    `source` names each row's place in the cache, `valid` `[places, columns]` the columns there that are its prompt's.
    """

    rows: list[Row]
    cache: DynamicCache
    source: list[int]
    valid: torch.Tensor


@dataclass(slots=True, eq=False)
class Batch:
    """The running rows. `position` `[rows]` is the column of a row's next token, `last` that token."""

    layers: int
    rows: list[Row] = field(default_factory=list[Row])
    position: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    last: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    cache: Cache = field(init=False)

    def __post_init__(self) -> None:
        self.cache = Cache(layers=[SlotLayer() for _ in range(self.layers)])

    def join(self, prompts: Prompts, last: torch.Tensor) -> None:
        """Take in rows whose prompts were read, with the first token sampled for each."""
        columns = [valid.nonzero()[:, 0] for valid in prompts.valid]
        joining = torch.tensor([len(row.prompt) for row in prompts.rows])
        position = torch.cat([self.position, joining])
        for layer, read in zip(self._slots(), prompts.cache.layers, strict=True):
            assert isinstance(read, DynamicLayer) and read.keys is not None and read.values is not None
            if not layer.is_initialized:
                layer.lazy_initialization(read.keys, read.values)
            layer.fit(len(position), int(position.max()))
            for slot, source in enumerate(prompts.source, start=len(self.rows)):
                own = columns[source]
                layer.put(slot, read.keys[source].index_select(1, own), read.values[source].index_select(1, own))
        self.rows += prompts.rows
        self.position = position
        self.last = torch.cat([self.last, last])

    def leave(self, gone: list[int]) -> None:
        """Drop these rows; the last ones take their slots."""
        for slot in sorted(gone, reverse=True):
            end = len(self.rows) - 1
            if slot != end:
                for layer in self._slots():
                    layer.move(end, slot)
                self.rows[slot] = self.rows[end]
                self.position[slot], self.last[slot] = self.position[end].clone(), self.last[end].clone()
            self.rows.pop()
            self.position, self.last = self.position[:end], self.last[:end]

    def mask(self) -> torch.Tensor:
        """Tell each layer where the rows write, and return which columns each may see, `[rows, 1, 1, columns]`."""
        for layer in self._slots():
            layer.position = self.position
        return (torch.arange(int(self.position.max()) + 1) <= self.position[:, None])[:, None, None]

    def _slots(self) -> list[SlotLayer]:
        return self.cache.layers  # pyright: ignore[reportReturnType] -- filled with SlotLayer alone


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
