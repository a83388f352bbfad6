"""Requests and answers of the embedded engine, in the shapes of vLLM 0.32."""

import secrets
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from daemon.embedded_worker import Delta
from learner.plain import well_formed

MAX_LOGPROBS = 20
# Of a list with a million faults, a million reports would be more than the memory holds.
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)]
Objects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]

_OTHER_ANSWER: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "use_beam_search": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "logit_bias": ({},),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "structured_outputs": (),
    "response_format": ({"type": "text"},),
}
"""Members that would change the answer and are not done here, with the values that change nothing."""
_OTHER_PROMPT: dict[str, tuple[Any, ...]] = {
    "chat_template": (),
    "documents": ([],),
    "continue_final_message": (False,),
}
"""Members that would change the prompt and are not done here, with the values that change nothing."""


class ApiError(Exception):
    """A request that is answered with an error in OpenAI's shape."""

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param

    def body(self) -> dict[str, Any]:
        """Return the error as OpenAI's clients expect it."""
        # Both may quote the request, which may hold what UTF-8 cannot.
        message, param = well_formed(self.message), self.param and well_formed(self.param)
        return {"error": {"message": message, "type": self.kind, "param": param, "code": self.status}}

    def response(self) -> JSONResponse:
        """Return the HTTP answer."""
        return JSONResponse(self.body(), status_code=self.status)


class _Request(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_prompt(cls, data: Any) -> Any:
        return _refuse(data, _OTHER_PROMPT)


class StreamOptions(BaseModel):
    """What a stream ends with."""

    include_usage: bool = False


class Generate(_Request):
    """What chat and plain completions have in common."""

    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1)
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: str | Annotated[list[str], Field(fail_fast=True)] | None = None
    stop_token_ids: Annotated[list[int], Field(fail_fast=True)] | None = None
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    prompt_logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    return_token_ids: bool = False

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        """Read null as "not given": many clients send every field they know."""
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in cast(dict[str, Any], data).items() if value is not None}

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_answer(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = _refuse(cast(dict[str, Any], data), _OTHER_ANSWER)
        if given.get("stream_options") and not given.get("stream"):
            raise ValueError("stream_options can only be given with stream=true")
        if given.get("stream") and given.get("prompt_logprobs") is not None:
            raise ValueError("prompt_logprobs are not available when stream=true")
        return given

    def stops(self) -> list[str]:
        """Return the stop strings."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in stop if text]


class CompletionRequest(Generate):
    """`POST /v1/completions`: one prompt, as text or as ids."""

    prompt: str | TokenIds
    max_tokens: int = Field(default=16, ge=1)
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS)
    add_special_tokens: bool = True

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, data: Any) -> Any:
        """Take a list of one prompt for that prompt."""
        prompt = cast(dict[str, Any], data).get("prompt") if isinstance(data, dict) else None
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
            if len(cast(list[Any], prompt)) > 1:
                raise ValueError("the embedded engine takes one prompt a request")
            return {**data, "prompt": prompt[0]}
        return data


class ChatRequest(Generate):
    """`POST /v1/chat/completions`."""

    messages: Objects
    tools: Objects | None = None
    tool_choice: Literal["none", "auto"] | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=MAX_LOGPROBS)
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeRequest(_Request):
    """`POST /tokenize`: a prompt, or messages to be rendered."""

    prompt: str | None = None
    messages: Objects | None = None
    tools: Objects | None = None
    add_generation_prompt: bool = True
    add_special_tokens: bool | None = None
    """Left out: yes for a prompt; no for messages, whose template writes its own."""
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _one_of(self) -> "TokenizeRequest":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeRequest(_Request):
    """`POST /detokenize`."""

    tokens: TokenIds


class LoadAdapterRequest(BaseModel):
    """`POST /v1/load_lora_adapter`."""

    lora_name: str
    lora_path: str
    load_inplace: bool = False


class UnloadAdapterRequest(BaseModel):
    """`POST /v1/unload_lora_adapter`."""

    lora_name: str


def _refuse(data: Any, members: Mapping[str, tuple[Any, ...]]) -> Any:
    """Return a request as it is. Raises ValueError for a member to ignore which would be a wrong answer."""
    given = cast(dict[str, Any], data) if isinstance(data, dict) else {}
    for name, neutral in members.items():
        if given.get(name) is not None and given[name] not in neutral:
            # Cut: it may be a whole document.
            raise ValueError(
                f"the embedded engine does not support {name}={given[name]!r:.100}: leave it out, or use vLLM"
            )
    return data


def new_id(prefix: str) -> str:
    """Return an id for one answer."""
    return f"{prefix}-{secrets.token_hex(8)}"


def usage(prompt: int, completion: int) -> dict[str, int]:
    """Return the token counts of one answer."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def ending(delta: Delta) -> dict[str, Any]:
    """Return the members of a choice that say why it ended."""
    return {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}


def model_card(name: str, root: str, *, parent: str | None = None, max_model_len: int | None = None) -> dict[str, Any]:
    """Return one entry of `/v1/models`."""
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "secondnature", "root": root}
    return {**card, "parent": parent, "max_model_len": max_model_len}
