"""Endpoint: a model behind any OpenAI-compatible chat route that answers in words. It is never the one we train."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from daemon.encoding import encode
from harness_adapters.errors import EngineError
from harness_adapters.messages import answer_of, text_of
from harness_adapters.trace import Message

RETRY_AFTER_S = 0.5
"""Pause before the second and last try, after an error that may pass."""
MAX_ANSWER_BYTES = 4 << 20
"""The longest answer that is read."""
TOLD_CHARS = 300
"""How much of an endpoint's own words an error repeats."""

_VERSIONED = re.compile(r"/v\d\w*(/|$)")


class Endpoint:
    """One model at `url`, with or without `/v1`, as a TextModel.

    `timeout_s` bounds each try. Closing `session` is the caller's. Errors carry the HTTP status where there was one,
    and never the key.
    """

    def __init__(
        self,
        url: str,
        model: str,
        session: aiohttp.ClientSession,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        root = url.rstrip("/")
        self._url = f"{root if _VERSIONED.search(root) else root + '/v1'}/chat/completions"
        self._model = model
        self._session = session
        self._key = api_key.strip() if api_key else ""
        self._timeout_s = timeout_s

    async def answer(
        self, messages: Sequence[Message], *, temperature: float, max_tokens: int, seed: int | None = None
    ) -> str:
        """Return the text of one answer, empty where it has none.

        An error that may pass is waited out once; a time-out is not, as that would double the wait. Raises EngineError.
        """
        body: dict[str, Any] = {
            "model": self._model,
            "messages": list(messages),
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        if seed is not None:
            body["seed"] = seed
        data = encode(body)
        try:
            return await self._ask(data)
        except EngineError as error:
            if not error.passing or isinstance(error.__cause__, TimeoutError):
                raise
        await asyncio.sleep(RETRY_AFTER_S)
        return await self._ask(data)

    async def _ask(self, data: bytes) -> str:
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            # A redirect would take the text elsewhere, and a POST would come out as a GET.
            async with self._session.post(
                self._url, data=data, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                status = response.status
                said = await self._read(response)
        except TimeoutError as error:
            raise EngineError(f"{self._url} did not answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, ValueError) as error:
            told = self._shown(str(error) or type(error).__name__)
            raise EngineError(
                f"{self._url} cannot be asked: {told}; see whether it runs and the address is right"
            ) from error
        if status != HTTPStatus.OK:
            raise EngineError(f"{self._url} answered {status}: {self._shown(_reason(said))}", status=status)
        return self._text(said)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        said = b""
        async for piece in response.content.iter_chunked(1 << 16):
            said += piece
            if len(said) > MAX_ANSWER_BYTES:
                raise EngineError(
                    f"{self._url} answered with more than {MAX_ANSWER_BYTES} bytes; see whether it is a model's",
                    status=response.status,
                )
        return said

    def _text(self, said: bytes) -> str:
        try:
            parsed = orjson.loads(said)
            message = answer_of(parsed) if isinstance(parsed, Mapping) else None
        except ValueError:
            message = None
        if message is None:
            told = self._shown(_reason(said))
            raise EngineError(f"{self._url} answered with something else than a chat completion: {told}", status=200)
        return text_of(message.get("content"))

    def _shown(self, text: str) -> str:
        """Return an endpoint's words without the key, which some repeat."""
        return (text.replace(self._key, "***") if self._key else text)[:TOLD_CHARS]


def _reason(said: bytes) -> str:
    try:
        error = orjson.loads(said)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, LookupError, TypeError):
        return said.decode(errors="replace")
