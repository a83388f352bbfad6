"""Rows to decode, and how the next token of each is sampled and scored."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParams:
    """How one row is sampled. `logprobs` and `prompt_logprobs` count alternatives beside the token itself."""

    temperature: float
    top_p: float
    top_k: int
    """0 keeps every token."""
    logprobs: int | None
    prompt_logprobs: int | None
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScore:
    """A token with its log-probability in nats and, in descending order, the most probable alternatives."""

    id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


@dataclass(slots=True, eq=False)
class Row:
    """One sequence being decoded. Its noise comes from a generator of its own, whatever else is in the batch."""

    prompt: Sequence[int]
    adapter: str
    params: SampleParams
    generator: torch.Generator = field(init=False)
    prompt_scores: list[TokenScore | None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        seed = secrets.randbits(63) if self.params.seed is None else self.params.seed
        self.generator = torch.Generator().manual_seed(seed)


def sample(logits: torch.Tensor, rows: Sequence[Row]) -> list[TokenScore]:
    """Sample one token per row from `logits` `[rows, vocabulary]`.

    The log-probabilities are of the distribution sampled from: temperature, top-k and top-p applied. A temperature of
    0 takes the most probable token and reports it at temperature 1.
    """
    heat = torch.tensor([row.params.temperature or 1.0 for row in rows])
    logprob = torch.log_softmax(logits / heat[:, None], -1)
    for i, row in enumerate(rows):
        if row.params.temperature and (row.params.top_k or row.params.top_p < 1):
            logprob[i] = _truncate(logprob[i], row.params.top_k, row.params.top_p)
    chosen = logprob.argmax(-1)
    noisy = [i for i, row in enumerate(rows) if row.params.temperature]
    if noisy:
        # Inverse transform: one uniform number a token, drawn from the row's own generator.
        cumulative = logprob[noisy].exp().cumsum(-1)
        uniform = torch.stack([torch.rand(1, generator=rows[i].generator) for i in noisy]) * cumulative[:, -1:]
        chosen[noisy] = torch.searchsorted(cumulative, uniform, right=True)[:, 0].clamp(max=logprob.shape[1] - 1)
    return token_scores(logprob, chosen, [row.params.logprobs for row in rows])


def _truncate(logprob: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Keep the `top_k` most probable tokens, of these the fewest that hold `top_p` of the mass, and renormalise."""
    ordered, order = logprob.sort(descending=True)
    if top_k:
        ordered[top_k:] = -torch.inf
    mass = torch.softmax(ordered, -1)
    ordered[mass.cumsum(-1) - mass >= top_p] = -torch.inf
    return torch.empty_like(logprob).scatter_(0, order, torch.log_softmax(ordered, -1))


def token_scores(logprob: torch.Tensor, ids: torch.Tensor, counts: Sequence[int | None]) -> list[TokenScore]:
    """Read the log-probabilities of `ids` `[n]` from `logprob` `[n, vocabulary]`, with so many alternatives each."""
    own = logprob.gather(1, ids[:, None])
    wanted = [i for i, count in enumerate(counts) if count is not None]
    ranks = dict(zip(wanted, ((logprob[wanted] > own[wanted]).sum(1) + 1).tolist(), strict=True)) if wanted else {}
    most = max((count or 0 for count in counts), default=0)
    tops: dict[int, list[tuple[int, float]]] = {}
    if most:
        values, tokens = logprob[wanted].topk(most, -1)
        tops = {
            i: list(zip(t, v, strict=True)) for i, t, v in zip(wanted, tokens.tolist(), values.tolist(), strict=True)
        }
    return [
        TokenScore(id=token, logprob=value, rank=ranks.get(i, 0), top=tuple(tops.get(i, [])[: counts[i] or 0]))
        for i, (token, value) in enumerate(zip(ids.tolist(), own[:, 0].tolist(), strict=True))
    ]
