"""The policy: base model and LoRA adapter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import PreTrainedModel

from harness_adapters.errors import CheckpointError, LearnerError
from learner.batch import Padded, Row, pad
from learner.config import LoraSettings, RoundConfig
from learner.packed import pack_linears

ADAPTER_WEIGHTS = "adapter_model.safetensors"

# Logits held at once: 256 MiB in float32. Whole-sequence logits of a large vocabulary take tens of GB.
_LOGITS = 2**26


@dataclass(frozen=True, slots=True)
class Policy:
    """A base model wrapped with one LoRA adapter, whose tensors are all that trains."""

    model: PeftModel
    causal: PreTrainedModel
    """The base model, into whose layers the adapter has been put."""
    body: nn.Module
    """The transformer without its head: ids to last hidden states."""
    head: nn.Linear
    """Last hidden states to logits."""

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.head.weight.device

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the LoRA tensors by name."""
        return {name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad}

    def hidden(self, rows: Sequence[Row]) -> tuple[Tensor, Padded]:
        """Return the last hidden states [T, H] that predict the rows' completion tokens, row after row."""
        batch = pad(rows, self.device)
        hidden_BLH = self.body(input_ids=batch.ids_BL, use_cache=False).last_hidden_state
        return hidden_BLH[batch.row_T, batch.column_T], batch

    @property
    def chunk(self) -> int:
        """How many tokens' logits are computed at once."""
        return max(1, _LOGITS // self.head.out_features)

    def logprobs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Return each row's log-probabilities [T] of its completion at temperature 1, without gradient."""
        with torch.no_grad():
            hidden_TH, batch = self.hidden(rows)
            chosen: list[Tensor] = []
            for part_TH, target_T in zip(hidden_TH.split(self.chunk), batch.target_T.split(self.chunk), strict=True):
                logits_TV = self.head(part_TH).float()
                chosen.append(logits_TV.gather(-1, target_T[:, None])[:, 0] - logits_TV.logsumexp(-1))
        return list(torch.cat(chosen).split(batch.lengths))

    def adapter_state(self) -> dict[str, Tensor]:
        """Return copies of the adapter's tensors, named as PEFT saves them."""
        state = get_peft_model_state_dict(self.model, save_embedding_layers=False)
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in sorted(state.items())}

    def load_adapter_state(self, state: Mapping[str, Tensor], source: str) -> None:
        """Overwrite the adapter's tensors. Raises CheckpointError when names or shapes are not exactly ours."""
        ours = {name: tensor.shape for name, tensor in self.adapter_state().items()}
        theirs = {name: tensor.shape for name, tensor in state.items()}
        if ours != theirs:
            odd = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
            raise CheckpointError(
                f"{source} has another shape than this round's adapter, first at {odd[0]}; "
                "give the round the rank and targets of its parent, or start from the base"
            )
        set_peft_model_state_dict(self.model, dict(state))


def _load_base(config: RoundConfig) -> PreTrainedModel:
    dtype = getattr(torch, config.dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        model = AutoModelForCausalLM.from_pretrained(
            config.base,
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError) as error:
        raise LearnerError(f"the base model in {config.base} cannot be loaded: {error}") from error
    return cast(PreTrainedModel, cast(nn.Module, model).to(device).eval())


def _check_head(causal: PreTrainedModel, body: nn.Module, head: nn.Linear) -> None:
    """Some families scale or cap logits behind the head; scoring through the head alone would then be wrong."""
    ids = torch.arange(1, 5, device=head.weight.device)[None]
    with torch.no_grad():
        whole = causal(input_ids=ids, use_cache=False).logits
        ours = head(body(input_ids=ids, use_cache=False).last_hidden_state)
    if not whole.isfinite().all():
        raise LearnerError(
            f"{causal.name_or_path} gives logits that are not finite: its weights are damaged, or overflow"
        )
    if not torch.allclose(whole.float(), ours.float(), rtol=1e-3, atol=1e-3):
        raise LearnerError(
            f"{type(causal).__name__} changes its logits behind the linear head (scaling or soft-capping), "
            "which this learner does not compute; choose a base model with a plain head"
        )


def lora_config(settings: LoraSettings) -> LoraConfig:
    """Return the PEFT configuration: plain LoRA, as vLLM loads it, with B = 0 so that it starts as the base."""
    return LoraConfig(
        r=settings.rank,
        # PEFT annotates int but only divides by it; a whole number is kept whole for stricter readers of the file.
        lora_alpha=int(settings.alpha) if settings.alpha.is_integer() else cast(int, settings.alpha),
        target_modules=sorted(settings.targets),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )


def load_policy(config: RoundConfig) -> Policy:
    """Load the base and put a fresh adapter on it, then the parent's weights where there is a parent.

    The fresh adapter depends on `config.seed` alone. Raises LearnerError or CheckpointError when either does not fit.
    """
    causal = _load_base(config)
    body, head = causal.base_model, causal.get_output_embeddings()
    if not isinstance(head, nn.Linear) or body is causal:
        raise LearnerError(
            f"{type(causal).__name__} has no linear head on a body; choose a plain causal language model"
        )
    _check_head(causal, body, head)
    if head.weight.device.type == "cpu" and head.weight.dtype == torch.float32:
        # Sampling and the teacher's scores need no gradient and take about half the time with packed weights.
        pack_linears(causal)
    torch.manual_seed(config.seed)
    try:
        model = get_peft_model(causal, lora_config(config.lora))
    except ValueError as error:
        raise LearnerError(f"the adapter does not fit {config.base}: {error}") from error
    policy = Policy(cast(PeftModel, model), causal, body, head)
    if config.parent is not None:
        policy.load_adapter_state(load_file(config.parent / ADAPTER_WEIGHTS), str(config.parent))
        check_scaling(config.parent, config.lora)
    return policy


def check_scaling(parent: Path, settings: LoraSettings) -> None:
    """Raise CheckpointError when the parent was trained with another alpha, which would scale its tensors anew."""
    alpha = cast(LoraConfig, LoraConfig.from_pretrained(str(parent))).lora_alpha
    if not math.isclose(alpha, settings.alpha):
        raise CheckpointError(
            f"{parent} was trained with alpha {alpha}, not {settings.alpha}; give the round its parent's"
        )
