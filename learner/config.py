"""The learner's whole contract: what stands in a round directory.

    round.json       RoundConfig, written once by whoever starts the round
    samples.jsonl    one SampleSpec a line, unrendered
    progress.jsonl   one Progress event a line, appended by the learner
    checkpoint/      published by one rename when the round has something to publish

Nothing here needs a database or a network, so the same directory can be handed to a child process or a cluster job.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ROUND_FILE = "round.json"
SAMPLES_FILE = "samples.jsonl"
PROGRESS_FILE = "progress.jsonl"
CHECKPOINT_DIR = "checkpoint"

LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class _Settings(_Model):
    model_config = ConfigDict(allow_inf_nan=False)


class LoraSettings(_Settings):
    """Shape of the adapter. Rank and targets stay inside what vLLM can load."""

    rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] = 16
    """Rank r; one of those vLLM 0.32 accepts as `--max-lora-rank`."""
    alpha: float = 32.0
    """The update is alpha / rank times B A."""
    targets: tuple[str, ...] = LINEAR_LAYERS
    """Names of the linear layers that are adapted."""


class OptimizerSettings(_Settings):
    """AdamW."""

    learning_rate: float = Field(default=3e-4, gt=0)
    """Of the first step."""
    schedule: Literal["constant", "linear"] = "constant"
    """`linear` lowers the learning rate by equal amounts, to a tenth at `stopping.max_steps`."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled, on the adapter's own weights."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradients are scaled down to this norm."""


class ObjectiveSettings(_Settings):
    """The loss of ARCHITECTURE.md: reverse KL on repair samples, and on preservation samples weighted by λ."""

    top_k: int = Field(default=100, ge=1)
    """Student tokens compared one by one; the rest is one atom."""
    preserve_weight: float = Field(default=1.0, ge=0)
    """λ; 0 leaves preservation out."""
    skip_first: int = Field(default=0, ge=0)
    """Completion tokens of each hinted reply left out at its start, where a hint leaves its style."""
    relevance: Literal["none", "disagreement"] = "none"
    """Which of the remaining tokens count."""
    relevance_share: float = Field(default=1.0, gt=0, le=1)
    """Share of the completion's tokens the `disagreement` mask keeps, the largest disagreements first."""


class BatchSettings(_Settings):
    """What one optimizer step sees."""

    repair: int = Field(default=8, ge=1)
    """Samples of hinted turns."""
    preserve: int = Field(default=4, ge=0)
    """Samples of accepted turns."""
    micro_batch: int = Field(default=4, ge=1)
    """Sequences in memory at once; changes nothing but time and memory."""


class GenerationSettings(_Settings):
    """How the learner samples fresh replies for one-step samples from its current weights."""

    temperature: float = Field(default=0.6, gt=0)
    """Take what your agents use."""
    max_new_tokens: int = Field(default=80, ge=1)
    """Longest fresh reply; longer ones are learnt from as far as they go."""


class StoppingSettings(_Settings):
    """When a round ends. Gap and drift are measured on the *validate* samples, in nats per token."""

    max_steps: int = Field(default=12, ge=1)
    """Optimizer steps at most."""
    validate_every: int = Field(default=3, ge=1)
    """Steps between two measurements."""
    patience: int = Field(default=2, ge=1)
    """Measurements without a gain after which the round ends."""
    max_drift_nats: float = Field(default=0.5, gt=0)
    """Mean KL on accepted turns beyond which a step is not published and the round ends."""


class GateBounds(_Settings):
    """What a promotion needs. Guards compare the candidate with the adapter now serving, case by case.

    A guard's figure beyond its bound gives `hold`; with its whole 95 % interval beyond the bound it gives `reject`.
    """

    min_flagged: int = Field(default=8, ge=1)
    """Graded flagged cases below which the answer is `hold`."""
    min_passing: int = Field(default=4, ge=0)
    """Graded accepted cases below which the answer is `hold`."""
    max_passing_drop: float = Field(default=0.2, ge=0, le=1)
    """Share of passing turns that may stop passing, net of those that start to."""
    max_kl_nats: float = Field(default=0.5, gt=0)
    """Mean KL(candidate ‖ serving) per token on passing turns."""
    min_length_ratio: float = Field(default=0.5, ge=0)
    """Least mean reply length on passing turns, candidate over serving."""
    max_length_ratio: float = Field(default=2.0, gt=0)
    """Greatest of the same."""
    max_repetition: float = Field(default=0.2, ge=0, le=1)
    """Rise of the share of repeated word 4-grams, over all replies."""
    max_empty: float = Field(default=0.02, ge=0, le=1)
    """Rise of the share of empty replies."""


class RoundConfig(_Model):
    """`round.json`."""

    version: Literal[1] = 1
    id: str
    base: Path
    parent: Path | None = None
    """The checkpoint of the adapter served when the round started; None is the base itself."""
    seed: int = 0
    threads: int = Field(default=0, ge=0)
    """Torch threads; 0 leaves the choice to torch."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the base's weights; the adapter trains in float32 either way. CPUs are slower with bfloat16."""
    max_length: int = Field(default=2048, ge=2)
    """Longest prompt plus completion, in tokens; longer samples are refused, never cut."""
    lora: LoraSettings = LoraSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    batch: BatchSettings = BatchSettings()
    generation: GenerationSettings = GenerationSettings()
    stopping: StoppingSettings = StoppingSettings()


Event = Literal["started", "refused", "step", "validated", "published", "finding", "failed"]
Mode = Literal["offline", "one_step", "online", "preserve"]
Split = Literal["train", "validate", "gate"]


class SampleSpec(_Model):
    """One line of `samples.jsonl`: a turn to learn from, unrendered.

    `messages` is the prefix the model was shown. `prompt_ids` and `completion_ids` are what the server sampled, where
    it gave them; without them the learner renders, and refuses what does not round-trip. `hint` is None for
    `preserve`. `one_step` samples carry no completion: the learner samples it.
    """

    id: str
    mode: Mode
    split: Split
    session_id: str
    turn: int
    signal_ids: tuple[str, ...] = ()
    hint_id: str | None = None
    hint: str | None = None
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    template_options: dict[str, Any] = {}
    """Variables the client set for the chat template."""
    completion: dict[str, Any] | None = None
    """The assistant message, for modes that learn from a recorded reply."""
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    policy_version: str | None = None
    retokenised: bool = False


class Progress(_Model):
    """One line of `progress.jsonl`. `figures` are plain numbers in the units their names carry."""

    event: Event
    step: int = 0
    at: float
    """Unix time in seconds."""
    figures: dict[str, float] = {}
    message: str = ""
    """For `refused`, `finding` and `failed`: what happened and what to do."""
