"""The small protocols through which hinting talks to a model; the daemon brings the implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness_adapters.prompt import Prompt
from harness_adapters.trace import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a reply is sampled. `seed` makes it repeatable on one engine."""

    temperature: float = 0.6
    top_p: float = 1.0
    max_tokens: int = 256
    seed: int | None = None
    pure: bool = False
    """Whether the temperature alone shapes the distribution: no `top_p`, and no defaults that the engine has taken from
    the model, such as its `top_k` or penalties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled reply: its ids, its text without special tokens, and why it ended (`stop` or `length`)."""

    ids: tuple[int, ...]
    text: str
    finish_reason: str


class Tokenizer(Protocol):
    """Renders messages with the model's own chat template and encodes plain text."""

    async def render(self, prompt: Prompt) -> list[int]:
        """Return the prompt ids, generation prompt included."""
        ...

    async def encode(self, text: str) -> list[int]:
        """Return the ids of plain text, without special tokens added."""
        ...


class ChatModel(Tokenizer, Protocol):
    """A model that completes token ids."""

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one reply. Raises EngineError when the engine cannot."""
        ...


class TextModel(Protocol):
    """A model that answers a conversation in words: one that helps to find lessons, not the one that is taught."""

    async def answer(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int, seed: int | None = None
    ) -> str:
        """Return the text of one answer, empty where it has none. Raises EngineError when the model cannot answer."""
        ...
