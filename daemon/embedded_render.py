"""Token ids from messages and text, and back, as vLLM 0.32 makes them from the same tokenizer and chat template."""

from collections.abc import Mapping, Sequence
from typing import Any

from daemon.embedded_api import ApiError
from daemon.embedded_sampling import TokenScore
from harness_adapters.errors import RenderError
from learner.plain import plain_message, plain_tool, template_options, well_formed


class Renderer:
    """Token ids from messages and text, and text from ids, by the model's own tokenizer and chat template.

    A text is refused unread where it must have more than `max_model_len` tokens.
    """

    def __init__(self, tokenizer: Any, *, max_model_len: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._longest = max(map(len, tokenizer.get_vocab()))
        self.vocabulary = len(tokenizer)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool,
        options: Mapping[str, Any] | None = None,
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Return the prompt ids of a conversation. Raises ApiError where it cannot be rendered, or is too long."""
        if not messages:
            raise ApiError(400, "the conversation is empty: send at least one message", param="messages")
        try:
            variables = template_options(options)
        except RenderError as error:
            raise ApiError(400, str(error), param="chat_template_kwargs") from error
        try:
            text = self._tokenizer.apply_chat_template(
                [plain_message(message) for message in messages],
                tools=[plain_tool(tool) for tool in tools] if tools else None,
                add_generation_prompt=add_generation_prompt,
                tokenize=False,
                **variables,
            )
        except RenderError as error:
            raise ApiError(400, str(error), param="messages") from error
        except Exception as error:
            # Templates are programs of the model's makers and raise what they like.
            raise ApiError(400, f"the chat template refuses this conversation: {error}", param="messages") from error
        return self.text(text, add_special_tokens=add_special_tokens, param="messages")

    def text(self, text: str, *, add_special_tokens: bool, param: str = "prompt") -> list[int]:
        """Return the ids of plain text. Raises ApiError, which names `param`, for a text that is too long."""
        # As vLLM does. A byte-level vocabulary spells each byte with one character, so no token is more characters of
        # text than its name has.
        if self._max_model_len is not None and len(text) > self._max_model_len * self._longest:
            raise ApiError(
                400,
                f"this model's context length is {self._max_model_len} tokens, and a prompt of {len(text)} characters"
                " has more; shorten the prompt",
                param=param,
            )
        return list(self._tokenizer(well_formed(text), add_special_tokens=add_special_tokens)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary's own name of each id."""
        return self._tokenizer.convert_ids_to_tokens(list(ids))

    def completion_logprobs(self, scores: Sequence[TokenScore], offset: int) -> dict[str, Any]:
        """Return the `logprobs` of a plain completion's choice; `offset` is where its text begins, in characters."""
        tokens = [self.decode([score.id]) for score in scores]
        offsets: list[int] = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token)
        return {
            "text_offset": offsets,
            "token_logprobs": [score.logprob for score in scores],
            "tokens": tokens,
            "top_logprobs": [
                {self.decode([token]): value for token, value in ((score.id, score.logprob), *score.top)}
                for score in scores
            ],
        }

    def chat_logprobs(self, scores: Sequence[TokenScore]) -> dict[str, Any]:
        """Return the `logprobs` of a chat completion's choice."""
        return {
            "content": [
                {**self._named(score.id, score.logprob), "top_logprobs": [self._named(*entry) for entry in score.top]}
                for score in scores
            ]
        }

    def prompt_logprobs(self, scores: Sequence[TokenScore | None] | None) -> list[dict[str, Any] | None] | None:
        """Return `prompt_logprobs`: per prompt token its score and the alternatives, by id; None for the first."""
        if scores is None:
            return None
        listed: list[dict[str, Any] | None] = []
        for score in scores:
            if score is None:
                listed.append(None)
                continue
            ranked = [(token, value, rank) for rank, (token, value) in enumerate(score.top, start=1)]
            entries = [(score.id, score.logprob, score.rank), *(entry for entry in ranked if entry[0] != score.id)]
            listed.append(
                {
                    str(token): {"logprob": value, "rank": rank, "decoded_token": self.decode([token])}
                    for token, value, rank in entries
                }
            )
        return listed

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        text = self.decode([token])
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
