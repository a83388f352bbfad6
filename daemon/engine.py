"""EngineClient: the daemon's side of an inference engine, the same against vLLM and the embedded engine."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import aiohttp
import orjson

from daemon.config import Settings
from harness_adapters.errors import EngineError
from harness_adapters.prompt import Prompt
from hinting.model import Completion, Sampling
from hinting.together import together

OLDEST_VLLM = (0, 32)
"""The oldest version these routes were tested with; 0.22 to 0.24 could mix adapters up (vllm #47724)."""
SCORES_AT_ONCE = 16
HOW_TO_START = (
    "start vLLM like this: VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --served-model-name {base}"
    " --enable-lora --max-loras 4 --max-cpu-loras 8 --max-lora-rank 16 --api-server-count 1"
)
NEUTRAL: Mapping[str, float] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Leaves the distribution as the model gives it. vLLM fills in what is left out from `generation_config.json`."""
HEALTH_S = 3.0
"""An engine that takes longer than this to say that it is well is not."""
PROBE_NAME = "secondnature-start-up-probe"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What a start-up check found out about an engine."""

    version: str
    embedded: bool


class EngineClient:
    """One engine at `base_url` (without `/v1`), whose base model is called `model` there.

    Every method raises EngineError, with the HTTP status where there was one. Closing `session` is the caller's.
    """

    def __init__(
        self, base_url: str, session: aiohttp.ClientSession, *, model: str = "base", api_key: str | None = None
    ) -> None:
        self._url = base_url.rstrip("/")
        self._session = session
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._embedded: bool | None = None
        self.model = model

    @classmethod
    def from_settings(cls, settings: Settings, session: aiohttp.ClientSession, *, url: str | None = None) -> Self:
        """Return a client of the configured engine; `url` is that of an engine started as a child."""
        where, key = url or settings.engine.url, settings.engine.api_key
        if where is None:
            raise ValueError("no engine to speak to: neither is engine.url configured nor was one started")
        secret = key.get_secret_value() if key else None
        return cls(where, session, model=settings.engine.base_model, api_key=secret)

    async def health(self) -> bool:
        """Return whether the engine says it is well; False when it cannot be reached or does not answer in time."""
        try:
            async with asyncio.timeout(HEALTH_S):
                await self._call("GET", "/health")
        except (EngineError, TimeoutError):
            return False
        return True

    async def version(self) -> str:
        """Return the engine's version."""
        return await self._read("GET", "/version", None, lambda answer: str(answer["version"]))

    async def models(self) -> list[str]:
        """Return the names of the base model and of every loaded adapter."""
        return await self._read("GET", "/v1/models", None, lambda answer: [str(card["id"]) for card in answer["data"]])

    async def load_adapter(self, name: str, path: Path) -> None:
        """Load an adapter from a folder. A name and a path are used once only; weights never change in place."""
        await self._call("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})

    async def unload_adapter(self, name: str) -> None:
        """Forget an adapter; requests already running on it go on."""
        await self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    async def render(self, prompt: Prompt) -> list[int]:
        """Return the prompt ids of a conversation, generation prompt included."""
        body: dict[str, Any] = {"model": self.model, "messages": list(prompt.messages), "add_generation_prompt": True}
        if prompt.tools:
            body["tools"] = list(prompt.tools)
        if prompt.options:
            body["chat_template_kwargs"] = dict(prompt.options)
        return await self._tokens(body)

    async def encode(self, text: str) -> list[int]:
        """Return the ids of plain text, without special tokens added."""
        return await self._tokens({"model": self.model, "prompt": text, "add_special_tokens": False})

    async def complete(self, model: str, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one reply of `model`, the base or an adapter."""
        body: dict[str, Any] = {
            "model": model,
            "prompt": list(prompt_ids),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "return_token_ids": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.pure:
            body |= NEUTRAL

        def completion(answer: Any) -> Completion | None:
            choice = answer["choices"][0]
            if choice.get("token_ids") is None:
                return None
            ids = tuple(int(token) for token in choice["token_ids"])
            return Completion(ids=ids, text=str(choice["text"]), finish_reason=choice["finish_reason"])

        completed = await self._read("POST", "/v1/completions", body, completion)
        if completed is None:
            raise EngineError(f"{self._url} returned no token ids; {self._advice()}", status=200)
        return completed

    async def score(self, model: str, ids: Sequence[int], start: int) -> list[float]:
        """Return the log-probabilities of `ids[start:]` under `model`, in nats, each after all ids before it.

        They are at temperature 1, over the whole vocabulary. `start` is at least 1: nothing stands before the first id.
        """
        if not 1 <= start <= len(ids):
            raise ValueError(f"start is {start}; it must lie between 1 and the number of ids, {len(ids)}")
        if await self._is_embedded():
            return await self._score_prompt(model, ids, start)
        # vLLM computes prompt_logprobs for a whole batch at once, and its CPU build dies of it when another request
        # is in the batch. One next-token request a position is exact, and the prefix cache makes it cheap.
        slots = asyncio.Semaphore(SCORES_AT_ONCE)

        async def one(at: int) -> float:
            async with slots:
                return await self._score_next(model, ids[:at], ids[at])

        return await together(one(at) for at in range(start, len(ids)))

    async def _score_prompt(self, model: str, ids: Sequence[int], start: int) -> list[float]:
        body: dict[str, Any] = {**NEUTRAL, "model": model, "prompt": list(ids), "temperature": 1.0}
        body |= {"max_tokens": 1, "prompt_logprobs": 0}

        def scores(answer: Any) -> list[float] | None:
            found = answer["choices"][0].get("prompt_logprobs")
            if found is None or len(found) != len(ids):
                return None
            return [float(found[i][str(ids[i])]["logprob"]) for i in range(start, len(ids))]

        scored = await self._read("POST", "/v1/completions", body, scores)
        if scored is None:
            raise EngineError(f"{self._url} did not score every prompt token; {self._advice()}", status=200)
        return scored

    async def _score_next(self, model: str, prefix: Sequence[int], token: int) -> float:
        body: dict[str, Any] = {
            **NEUTRAL,
            "model": model,
            "prompt": list(prefix),
            "max_tokens": 1,
            "temperature": 1.0,
            "logprobs": 1,
            "logprob_token_ids": [token],
            "return_tokens_as_token_ids": True,
        }
        return await self._read(
            "POST",
            "/v1/completions",
            body,
            lambda answer: float(answer["choices"][0]["logprobs"]["top_logprobs"][0][f"token_id:{token}"]),
        )

    async def _is_embedded(self) -> bool:
        if self._embedded is None:
            self._embedded = (await self._told())[1]
        return self._embedded

    async def _told(self) -> tuple[str, bool]:
        """Return the engine's version, and whether it is the embedded one."""
        return await self._read(
            "GET", "/version", None, lambda told: (str(told["version"]), told.get("engine") == "secondnature-embedded")
        )

    def for_model(self, name: str) -> "EngineModel":
        """Return the base model or an adapter as a ChatModel."""
        return EngineModel(self, name)

    async def check_contract(self) -> EngineFacts:
        """Check that this engine can be used safely. Raises EngineError that says how to start it."""
        version, embedded = await self._told()
        if not embedded and _numbers(version) < OLDEST_VLLM:
            least = ".".join(map(str, OLDEST_VLLM))
            raise EngineError(f"vLLM {version} at {self._url} is too old: install {least} or newer")
        names = await self.models()
        if self.model not in names:
            raise EngineError(f"{self._url} serves no model called {self.model!r}, only {names}; {self._advice()}")
        await self._check_adapters()
        return EngineFacts(version=version, embedded=embedded)

    async def _check_adapters(self) -> None:
        """Ask for an adapter that cannot exist: an engine that can load adapters says so in OpenAI's shape."""
        try:
            await self.load_adapter(PROBE_NAME, Path("/nonexistent") / PROBE_NAME)
        except EngineError as error:
            if error.status == 404 and PROBE_NAME in str(error):
                return
            reason = "loads no adapters at run time" if error.status == 404 else f"cannot load adapters ({error})"
            raise EngineError(f"{self._url} {reason}; {self._advice()}", status=error.status) from error
        raise EngineError(f"{self._url} says it loaded an adapter that does not exist; {self._advice()}")

    async def _tokens(self, body: Mapping[str, Any]) -> list[int]:
        return await self._read("POST", "/tokenize", body, lambda answer: [int(token) for token in answer["tokens"]])

    async def _read(self, method: str, route: str, body: Mapping[str, Any] | None, members: Callable[[Any], T]) -> T:
        """Return what `members` finds in the JSON answer. Raises EngineError where the answer has another shape."""
        data = await self._call(method, route, body)
        try:
            return members(orjson.loads(data))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            told = f"{type(error).__name__}: {error}"
            raise EngineError(
                f"{self._url}{route} answered with something else than an engine does ({told}): is this one?",
                status=200,
            ) from error

    async def _call(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> bytes:
        headers = {**self._headers, "content-type": "application/json"}
        data = None if body is None else orjson.dumps(body)
        try:
            async with self._session.request(method, self._url + route, data=data, headers=headers) as response:
                answer = await response.read()
                if response.status >= 400:
                    _fail(f"{self._url}{route}", response.status, answer)
                return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            told = str(error) or type(error).__name__
            raise EngineError(f"{self._url}{route} cannot be reached: {told}; see whether the engine runs") from error

    def _advice(self) -> str:
        return HOW_TO_START.format(base=self.model)


@dataclass(frozen=True, slots=True)
class EngineModel:
    """One model of an engine, the base or an adapter, as hinting knows it."""

    engine: EngineClient
    name: str

    async def render(self, prompt: Prompt) -> list[int]:
        """Return the prompt ids, generation prompt included."""
        return await self.engine.render(prompt)

    async def encode(self, text: str) -> list[int]:
        """Return the ids of plain text, without special tokens added."""
        return await self.engine.encode(text)

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one reply."""
        return await self.engine.complete(self.name, prompt_ids, sampling)

    async def score(self, ids: Sequence[int], start: int) -> list[float]:
        """Return the log-probabilities of `ids[start:]`, in nats."""
        return await self.engine.score(self.name, ids, start)


def _fail(place: str, status: int, answer: bytes) -> NoReturn:
    try:
        message = str(orjson.loads(answer)["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = answer.decode(errors="replace")[:500]
    raise EngineError(f"{place} answered {status}: {message}", status=status)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `0.32.0rc1` is (0, 32)."""
    parts = version.split(".")[:2]
    return tuple(int("".join(char for char in part if char.isdigit()) or 0) for part in parts)
