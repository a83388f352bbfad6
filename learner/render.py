"""Messages in, token ids out: the base model's own chat template and tokenizer, or a refusal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from harness_adapters.errors import RenderError
from harness_adapters.trace import Message
from hinting.placement import PROBES, anchor, hint_block, splice, with_suffix

Tools = Sequence[Mapping[str, Any]]


def _end_of_turn_ids(base: Path, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    found: set[int] = set()
    if (base / "generation_config.json").is_file():
        eos = GenerationConfig.from_pretrained(base).eos_token_id
        found.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    if tokenizer.eos_token_id is not None:
        found.add(cast(int, tokenizer.eos_token_id))
    if not found:
        raise RenderError(
            f"neither the tokenizer nor generation_config.json in {base} names an end-of-turn token; add one"
        )
    return frozenset(found)


def _arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    # Templates write arguments with `tojson`: a JSON text would be quoted a second time, so it is parsed first.
    function = dict(call.get("function", {}))
    try:
        parsed = json.loads(function.get("arguments", ""))
    except (TypeError, ValueError):
        return dict(call)
    return {**call, "function": {**function, "arguments": parsed}} if isinstance(parsed, dict) else dict(call)


def _plain(message: Message) -> dict[str, Any]:
    """Return the message as chat templates expect it: text content, tool arguments as objects."""
    plain = {key: value for key, value in message.items() if value is not None}
    content = message.get("content")
    if isinstance(content, list):
        parts = cast(list[Mapping[str, Any]], content)
        other = sorted({str(part.get("type")) for part in parts} - {"text"})
        if other:
            raise RenderError(
                f"a {message.get('role')} message holds {', '.join(other)} parts; only text can be learnt from"
            )
        content = "\n".join(str(part["text"]) for part in parts)
    plain["content"] = content or ""
    if message.get("tool_calls"):
        plain["tool_calls"] = [_arguments(call) for call in message["tool_calls"]]
    return plain


class Renderer:
    """Renders with the tokenizer and chat template that stand in `base`. Nothing is fetched, no remote code runs."""

    def __init__(self, base: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True, trust_remote_code=False)
        self.tokenizer = cast(PreTrainedTokenizerBase, tokenizer)
        if not self.tokenizer.chat_template:
            raise RenderError(f"the tokenizer in {base} has no chat template, so messages cannot be rendered; add one")
        self.eos_ids = _end_of_turn_ids(base, self.tokenizer)
        self.vocabulary = int(cast(Any, AutoConfig.from_pretrained(base, local_files_only=True)).vocab_size)
        self._special: dict[str, int] = {
            token: index
            for token, index in cast(Any, self.tokenizer).get_added_vocab().items()
            if index in {*self.tokenizer.all_special_ids, *self.eos_ids}
        }

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens added."""
        return cast(list[int], self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        return cast(str, self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def render(self, messages: Sequence[Message], tools: Tools = ()) -> list[int]:
        """Return the prompt ids, generation prompt included. Raises RenderError when the template refuses."""
        return self.encode(self._text(messages, tools, generation_prompt=True))

    def completion_ids(self, messages: Sequence[Message], tools: Tools, completion: Message) -> list[int]:
        """Return the ids of a recorded reply up to and with its end-of-turn token, re-tokenised.

        Raises RenderError when the rendered reply is not the prompt plus the recorded text: then other ids were
        sampled than would be learnt.
        """
        prompt = self.render(messages, tools)
        full = self.encode(self._text([*messages, completion], tools, generation_prompt=False))
        if full[: len(prompt)] != prompt:
            raise RenderError("the rendered reply does not begin with the prompt's ids, so its own ids are unknown")
        tail = full[len(prompt) :]
        end = next((i for i, token in enumerate(tail) if token in self.eos_ids), None)
        if end is None:
            raise RenderError("the chat template does not close a reply with an end-of-turn token")
        ids = tail[: end + 1]
        self._check_reply(self.decode(ids[:-1]), _plain(completion))
        return ids

    def hinted(
        self, prompt_ids: Sequence[int], messages: Sequence[Message], tools: Tools, hint: str
    ) -> tuple[list[int], int]:
        """Return the teacher's prompt and the position at which the hint's ids were spliced into the student's.

        Raises RenderError when the anchor cannot be found, or when the hint would be more than plain text.
        """
        hint_ids = self.encode(hint_block(hint))
        if not set(self._special.values()).isdisjoint(hint_ids):
            raise RenderError("the hint holds a special token of the model; write it without")
        probe_a, probe_b = (self.render(with_suffix(messages, probe), tools) for probe in PROBES)
        at = anchor(prompt_ids, probe_a, probe_b)
        return splice(prompt_ids, at, hint_ids), at

    def refuse_markers(self, messages: Sequence[Message]) -> None:
        """Raise RenderError when a message quotes a special token, which the tokenizer would turn into a real one."""
        for place, message in enumerate(messages):
            quoted = next((token for token in self._special if token in json.dumps(message, ensure_ascii=False)), None)
            if quoted is not None:
                raise RenderError(
                    f"message {place} quotes the special token {quoted}, which would become a real turn marker"
                )

    def _text(self, messages: Sequence[Message], tools: Tools, *, generation_prompt: bool) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                [_plain(message) for message in messages],
                tools=[dict(tool) for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=generation_prompt,
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise RenderError(f"the chat template refuses the messages: {error}") from error
        return cast(str, text)

    def _check_reply(self, text: str, completion: Mapping[str, Any]) -> None:
        calls = cast(list[dict[str, Any]], completion.get("tool_calls", []))
        missing = [call["function"]["name"] for call in calls if call["function"]["name"] not in text]
        same = completion["content"] in text if calls else completion["content"].strip() == text.strip()
        if missing or not same:
            raise RenderError("the chat template changes the recorded reply, so its ids do not round-trip")
