"""Continuous batched decoding of one model with LoRA adapters, in float32 on the CPU. Runs in the child process.

Rows of different adapters share a batch (PEFT's mixed-batch inference) and join or leave it between steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 -- torch's own documentation calls it F
from peft import LoraConfig, PeftModel, load_peft_weights, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.cache_utils import Cache, DynamicCache

from daemon.embedded_cache import ATTENTION, Batch, Prompts
from daemon.embedded_sampling import Row, TokenScore, sample, token_scores
from learner.packed import pack_linears

BASE = "__base__"
"""PEFT's name, in a mixed batch, for rows without an adapter."""
SCORE_CHUNK = 128
"""Positions whose full-vocabulary logits are held at once while a prompt is scored."""
MIN_SHARED = 8
"""Shared prompt prefixes shorter than this are not worth a pass of their own."""


def set_threads(threads: int) -> None:
    """Set how many threads torch computes with; 0 leaves the choice to torch."""
    if threads:
        torch.set_num_threads(threads)


def load_tokenizer(model_dir: Path) -> Any:
    """Return the model's own tokenizer; nothing is downloaded."""
    return AutoTokenizer.from_pretrained(model_dir, local_files_only=True)


class BatchDecoder:
    """One model, its adapters, and the batch now being decoded. Every call belongs to one thread."""

    def __init__(self, model_dir: Path) -> None:
        model = AutoModelForCausalLM.from_pretrained(
            model_dir,
            dtype=torch.float32,
            attn_implementation=ATTENTION,
            use_safetensors=True,
            local_files_only=True,
        ).eval()
        kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ValueError(
                f"{model_dir} has layers of the kinds {sorted(kinds)}, but the embedded engine runs full attention"
                " only; serve this model with vLLM"
            )
        pack_linears(model)
        self._model: Any = model
        self._base: Any = model
        self._layers: int = model.config.num_hidden_layers
        self._batch: Batch | None = None
        self._adapters = 0
        eos: int | list[int] | None = model.generation_config.eos_token_id
        self.eos_ids = frozenset([eos] if isinstance(eos, int) else eos or [])
        self.max_positions: int = model.config.max_position_embeddings

    @property
    def rows(self) -> list[Row]:
        """The rows in the batch, in the order of what `step` returns."""
        return self._batch.rows if self._batch else []

    def clear(self) -> None:
        """Drop every row."""
        self._batch = None

    def drop(self, rows: Sequence[Row]) -> None:
        """Take these rows out of the batch."""
        if not self._batch or not rows:
            return
        gone = set(map(id, rows))
        with torch.inference_mode():
            self._batch.leave([i for i, row in enumerate(self._batch.rows) if id(row) in gone])
        if not self._batch.rows:
            self._batch = None

    def admit(self, rows: Sequence[Row]) -> list[TokenScore]:
        """Read the rows' prompts, put them behind the running ones, and return the first token of each."""
        plain = [row for row in rows if row.params.prompt_logprobs is None]
        scored = [row for row in rows if row.params.prompt_logprobs is not None]
        by_row: dict[int, TokenScore] = {}
        with torch.inference_mode():
            for group in ([plain] if plain else []) + [[row] for row in scored]:
                prompts, logits = self._prefill(group) if group is plain else self._prefill_scored(group[0])
                sampled = sample(logits, group)
                by_row.update({id(row): score for row, score in zip(group, sampled, strict=True)})
                self._batch = self._batch or Batch(self._layers)
                self._batch.join(prompts, torch.tensor([score.id for score in sampled]))
        return [by_row[id(row)] for row in rows]

    def step(self) -> list[TokenScore]:
        """Return the next token of each row now in the batch."""
        batch = self._batch
        if not batch:
            return []
        with torch.inference_mode():
            logits = self._forward(batch.last[:, None], batch.position[:, None], batch.mask(), batch.cache, batch.rows)
            batch.position = batch.position + 1
            scores = sample(logits[:, -1], batch.rows)
            batch.last = torch.tensor([score.id for score in scores])
        return scores

    def load_adapter(self, path: Path) -> str:
        """Load a PEFT LoRA adapter and return its name inside a mixed batch.

        Raises ValueError, KeyError or RuntimeError when it does not fit the model.
        """
        # A name of our own: PEFT's become attribute names, which may not contain a dot.
        name = f"slot{self._adapters}"
        self._adapters += 1
        config = LoraConfig.from_pretrained(str(path))
        config.inference_mode = True
        if isinstance(self._model, PeftModel):
            self._model.add_adapter(name, config)
        else:
            self._model = PeftModel(self._base, config, adapter_name=name)
        try:
            self._fill(name, path)
        except Exception:
            self.unload_adapter(name)
            raise
        self._model.eval()
        return name

    def unload_adapter(self, name: str) -> None:
        """Free an adapter's weights; no row may use it any more."""
        if len(self._model.peft_config) > 1:
            self._model.delete_adapter(name)
        else:
            self._model = self._model.unload()  # PEFT's wrapper cannot run without an adapter

    def _fill(self, name: str, path: Path) -> None:
        result = set_peft_model_state_dict(self._model, load_peft_weights(str(path), device="cpu"), adapter_name=name)
        wrong = [*(key for key in result.missing_keys if f".{name}." in key), *result.unexpected_keys]
        if wrong:
            raise ValueError(f"its weights do not match its configuration: {wrong[:3]}")

    def _forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        cache: Cache,
        rows: Sequence[Row],
        *,
        keep: int = 1,
    ) -> torch.Tensor:
        return self._model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=keep,
            **self._applied(rows),
        ).logits

    def _applied(self, rows: Sequence[Row]) -> dict[str, list[str]]:
        """Return what PEFT has to be told of the rows' adapters. Those that share one are not picked apart by layer."""
        if not isinstance(self._model, PeftModel):
            return {}
        names = [row.adapter for row in rows]
        if names[0] == BASE or len(set(names)) > 1:
            return {"adapter_names": names}
        if self._model.active_adapter != names[0]:
            self._model.set_adapter(names[0], inference_mode=True)
        return {}

    def _prefill(self, rows: list[Row]) -> tuple[Prompts, torch.Tensor]:
        """Read the prompts of several rows, left-padded; equal prompts and a common prefix are read once."""
        firsts: dict[tuple[str, tuple[int, ...]], int] = {}
        unique: list[Row] = []
        origin: list[int] = []
        for row in rows:
            key = (row.adapter, tuple(row.prompt))
            if key not in firsts:
                firsts[key] = len(unique)
                unique.append(row)
            origin.append(firsts[key])
        cache, prompts = DynamicCache(), [row.prompt for row in unique]
        shared = _common_prefix(prompts) if len({row.adapter for row in unique}) == 1 else 0
        if shared:
            causal = torch.ones(1, 1, shared, shared, dtype=torch.bool).tril()
            self._forward(torch.tensor([prompts[0][:shared]]), torch.arange(shared)[None], causal, cache, unique[:1])
            cache.batch_repeat_interleave(len(unique))
        width = max(map(len, prompts)) - shared
        ids = torch.zeros(len(unique), width, dtype=torch.long)
        valid = torch.ones(len(unique), shared + width, dtype=torch.bool)
        for i, prompt in enumerate(prompts):
            padding = shared + width - len(prompt)
            ids[i, padding:] = torch.tensor(prompt[shared:])
            valid[i, shared : shared + padding] = False
        positions = (valid.cumsum(1) - 1).clamp(min=0)[:, shared:]
        causal = torch.ones(width, shared + width, dtype=torch.bool).tril(shared)
        # Padding sees itself: with nothing to see its softmax would be NaN, and spread through its values.
        itself = F.pad(torch.eye(width, dtype=torch.bool), (shared, 0))
        mask = (valid[:, None] & causal) | itself
        logits = self._forward(ids, positions, mask[:, None], cache, unique)[:, -1]
        return Prompts(rows, cache, origin, valid), logits[origin]

    def _prefill_scored(self, row: Row) -> tuple[Prompts, torch.Tensor]:
        """Read one prompt in chunks, keeping the log-probability of each of its tokens."""
        cache, length = DynamicCache(), len(row.prompt)
        ids, alternatives = torch.tensor([row.prompt]), row.params.prompt_logprobs or 0
        scores: list[TokenScore | None] = [None]
        logits = torch.empty(0)
        for start in range(0, length, SCORE_CHUNK):
            end = min(start + SCORE_CHUNK, length)
            mask = torch.ones(1, 1, end - start, end, dtype=torch.bool).tril(start)
            logits = self._forward(ids[:, start:end], torch.arange(start, end)[None], mask, cache, [row], keep=0)[0]
            targets = ids[0, start + 1 : end + 1]
            scores += token_scores(
                torch.log_softmax(logits[: len(targets)], -1), targets, [alternatives] * len(targets)
            )
        row.prompt_scores = scores
        return Prompts([row], cache, [0], torch.ones(1, length, dtype=torch.bool)), logits[-1:]


def _common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many leading ids all prompts share, leaving each at least one of its own; 0 if too few to matter."""
    if len(prompts) < 2:
        return 0
    limit = min(map(len, prompts)) - 1
    shared = next((i for i in range(limit) if any(p[i] != prompts[0][i] for p in prompts)), limit)
    return shared if shared >= MIN_SHARED else 0
