"""Messages in, token ids out: the base model's own chat template and tokenizer, or a refusal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from harness_adapters.errors import RenderError
from harness_adapters.prompt import Prompt
from harness_adapters.trace import Message
from hinting.placement import PROBES, anchor, hint_block, splice, with_suffix
from hinting.reply import read_reply
from learner.plain import plain_message, plain_tool, template_options, well_formed


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


class Renderer:
    """Renders with the tokenizer and chat template that stand in `base`. Nothing is fetched, no remote code runs."""

    def __init__(self, base: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True, trust_remote_code=False)
        self.tokenizer = cast(PreTrainedTokenizerBase, tokenizer)
        if not self.tokenizer.chat_template:
            raise RenderError(f"the tokenizer in {base} has no chat template, so messages cannot be rendered; add one")
        self.eos_ids = _end_of_turn_ids(base, self.tokenizer)
        self.vocabulary = int(cast(Any, AutoConfig.from_pretrained(base, local_files_only=True)).vocab_size)
        decoder = cast(Mapping[int, Any], cast(Any, self.tokenizer).added_tokens_decoder)
        named = {*self.tokenizer.all_special_ids, *self.eos_ids}
        # Turn markers are special tokens without being named ones (`<|im_start|>`, `<|start_header_id|>`).
        self._special = {str(token): i for i, token in decoder.items() if token.special or i in named}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens added."""
        return cast(list[int], self.tokenizer(well_formed(text), add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        return cast(str, self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def render(self, prompt: Prompt) -> list[int]:
        """Return the prompt ids, generation prompt included. Raises RenderError when the template refuses."""
        return self.encode(self._text(prompt, generation_prompt=True))

    def completion_ids(self, prompt: Prompt, completion: Message) -> list[int]:
        """Return the ids of a recorded reply up to and with its end-of-turn token, re-tokenised.

        Raises RenderError when the rendered reply is not the prompt plus the recorded text and tool calls: then other
        ids were sampled than would be learnt.
        """
        before = self.render(prompt)
        whole = replace(prompt, messages=(*prompt.messages, completion))
        full = self.encode(self._text(whole, generation_prompt=False))
        if full[: len(before)] != before:
            raise RenderError("the rendered reply does not begin with the prompt's ids, so its own ids are unknown")
        tail = full[len(before) :]
        end = next((i for i, token in enumerate(tail) if token in self.eos_ids), None)
        if end is None:
            raise RenderError("the chat template does not close a reply with an end-of-turn token")
        ids = tail[: end + 1]
        _check_reply(self.decode(ids[:-1]), plain_message(completion))
        return ids

    def hinted(self, prompt: Prompt, prompt_ids: Sequence[int], hint: str) -> tuple[list[int], int]:
        """Return the teacher's prompt and the position at which the hint's ids were spliced into the student's.

        Raises RenderError when the anchor cannot be found, or when the hint would be more than plain text.
        """
        hint_ids = self.encode(hint_block(hint))
        if not set(self._special.values()).isdisjoint(hint_ids):
            raise RenderError("the hint holds a special token of the model; write it without")
        probe_a, probe_b = (self.render(with_suffix(prompt, probe)) for probe in PROBES)
        at = anchor(prompt_ids, probe_a, probe_b)
        return splice(prompt_ids, at, hint_ids), at

    def refuse_markers(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Raise RenderError when a message or a declared tool quotes a special token: it would become a real one."""
        # As the template gets them: an agent may have escaped its tool arguments, and a marker in them.
        shown = [(f"message {place}", plain_message(message)) for place, message in enumerate(messages)]
        shown += [(f"the tool {tool.get('function', {}).get('name')}", plain_tool(tool)) for tool in tools]
        for place, content in shown:
            text = json.dumps(content, ensure_ascii=False)
            quoted = next((token for token in self._special if token in text), None)
            if quoted is not None:
                raise RenderError(f"{place} quotes the special token {quoted}, which would become a real turn marker")

    def _text(self, prompt: Prompt, *, generation_prompt: bool) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                [plain_message(message) for message in prompt.messages],
                tools=[plain_tool(tool) for tool in prompt.tools] or None,
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **template_options(prompt.options),
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise RenderError(f"the chat template refuses the messages: {error}") from error
        return cast(str, text)


def _arguments(value: object) -> str:
    """Return tool arguments in one form: JSON with sorted keys, or the text as it is where it is not JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, sort_keys=True)


def _check_reply(text: str, completion: Mapping[str, Any]) -> None:
    content: str = completion["content"]
    recorded = [
        (call["function"]["name"], _arguments(call["function"]["arguments"]))
        for call in cast(list[dict[str, Any]], completion.get("tool_calls", []))
    ]
    same = content.strip() == text.strip()
    if recorded:
        visible, calls = read_reply(text)
        if not calls or not all(call.name for call in calls):
            raise RenderError(
                "the chat template writes tool calls in a form that cannot be read back, so nobody can tell whether "
                "they are the recorded ones; only <tool_call>{JSON object}</tool_call> can. Record token ids instead"
            )
        read = [(call.name, _arguments(call.arguments)) for call in calls]
        same = read == recorded and content in text and visible == read_reply(content)[0]
    if not same:
        raise RenderError("the chat template changes the recorded reply, so its ids do not round-trip")
