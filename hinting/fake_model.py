"""Models without weights for tests and dry runs, whose replies are given by a function."""

import json
from collections.abc import Callable, Sequence

from harness_adapters.errors import EngineError
from harness_adapters.messages import text_of
from harness_adapters.prompt import Prompt
from harness_adapters.trace import Message
from hinting.model import Completion, Sampling

START, END = 256, 257
"""The two special ids; every other id is one byte of UTF-8."""


class FakeChatModel:
    """A ChatModel with byte-level ids and a template like ChatML.

    Answers with `reply(prompt, sampling)`, where `prompt` is the prompt's text with its special ids left out.
    `opening` (with `{role}`) and `closing` are the template's text around each message, `generation` what follows the
    last one; each message also stands between the two special ids. The same prompt and sampling give the same reply.
    """

    def __init__(
        self,
        reply: Callable[[str, Sampling], str],
        *,
        opening: str = "{role}\n",
        closing: str = "\n",
        generation: str = "assistant\n",
    ) -> None:
        self._reply = reply
        self._opening = opening
        self._closing = closing
        self._generation = generation

    def _message(self, role: str, text: str) -> list[int]:
        head = self._opening.replace("{role}", role)
        return [START, *_bytes(head), *_bytes(text), END, *_bytes(self._closing)]

    async def render(self, prompt: Prompt) -> list[int]:
        """Return the prompt ids; tools and template options stand in a system message of their own."""
        told = [*prompt.tools, *([prompt.options] if prompt.options else [])]
        ids = self._message("system", json.dumps(told, default=dict)) if told else []
        for message in prompt.messages:
            calls = message.get("tool_calls")
            text = text_of(message.get("content")) + (json.dumps(calls, default=dict) if calls else "")
            ids += self._message(str(message.get("role", "user")), text)
        return [*ids, START, *_bytes(self._generation)]

    async def encode(self, text: str) -> list[int]:
        """Return the bytes of the text."""
        return _bytes(text)

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Answer by the function, cut at `max_tokens` bytes. Raises EngineError for ids it does not have."""
        if not prompt_ids or not all(0 <= token <= END for token in prompt_ids):
            raise EngineError(f"the prompt is empty or has ids outside 0..{END}; render it with this model", status=400)
        prompt = bytes(token for token in prompt_ids if token < START).decode(errors="replace")
        said = _bytes(self._reply(prompt, sampling))
        whole = len(said) < sampling.max_tokens
        ids = [*said, END] if whole else said[: sampling.max_tokens]
        text = bytes(ids[:-1] if whole else ids).decode(errors="ignore")
        return Completion(ids=tuple(ids), text=text, finish_reason="stop" if whole else "length")


class FakeTextModel:
    """A TextModel that answers with `reply(messages, seed)`, cut at `max_tokens` characters. Keeps what it is asked."""

    def __init__(self, reply: Callable[[Sequence[Message], int | None], str]) -> None:
        self._reply = reply
        self.asked: list[tuple[Message, ...]] = []

    async def answer(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int, seed: int | None = None
    ) -> str:
        """Answer by the function. Raises EngineError for what an endpoint refuses."""
        if not messages or max_tokens < 1 or temperature < 0:
            raise EngineError("no messages, no tokens to answer with, or a temperature below 0", status=400)
        self.asked.append(tuple(messages))
        return self._reply(messages, seed)[:max_tokens]


def _bytes(text: str) -> list[int]:
    return list(text.encode(errors="replace"))
