"""Talk to a running daemon over HTTP."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from harness_adapters.errors import ConfigError, SecondNatureError

URL_VARIABLE = "SECONDNATURE_URL"
TOKEN_VARIABLE = "SECONDNATURE_ADMIN_TOKEN"  # noqa: S105 - the name of a variable, not a secret
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_URL = "http://127.0.0.1:8700"


class DaemonUnreachableError(SecondNatureError):
    """No daemon answers at the address."""


class DaemonRefusedError(SecondNatureError):
    """The daemon answered, and the answer is no."""


class DaemonClient:
    """The control routes of one daemon. Address and admin token come from the environment unless given."""

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout_s: float = 60.0) -> None:
        self.url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get(TOKEN_VARIABLE)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            # What a machine says to itself is nothing for a proxy that leads out.
            remote = httpx.URL(self.url).host not in LOOPBACK
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=remote)
        except httpx.InvalidURL as error:
            raise ConfigError(f"{self.url} is no address of a daemon ({error}); see --url or {URL_VARIABLE}") from error

    def get(self, path: str, **params: str | int | None) -> Any:
        """Return the JSON of a GET. Raises DaemonUnreachableError or DaemonRefusedError."""
        return self._call("GET", path, params={k: v for k, v in params.items() if v is not None})

    def post(
        self, path: str, *, json: Mapping[str, Any] | None = None, content: bytes | None = None, attempts: int = 1
    ) -> Any:
        """Return the JSON of a POST. Raises DaemonUnreachableError or DaemonRefusedError.

        More than one attempt is for what may be done twice: an answer that does not come may be lost after the deed.
        """
        for _ in range(attempts - 1):
            with suppress(DaemonUnreachableError):
                return self._call("POST", path, json=json, content=content)
        return self._call("POST", path, json=json, content=content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.UnsupportedProtocol as error:
            raise ConfigError(f"{self.url} is no address of a daemon ({error}); see --url or {URL_VARIABLE}") from error
        except httpx.TransportError as error:
            raise DaemonUnreachableError(
                f"no daemon answers at {self.url} ({error}); start one with `secondnature serve`, "
                f"or set {URL_VARIABLE} to where it runs"
            ) from error
        if answer.is_success:
            try:
                return answer.json()
            except ValueError:
                raise DaemonRefusedError(
                    f"{self.url} answered {method} {path} with something else than a daemon does; is this one?"
                ) from None
        try:
            detail = answer.json().get("detail", answer.text)
        except ValueError:
            detail = answer.text
        raise DaemonRefusedError(f"{method} {path} was refused ({answer.status_code}): {detail}")
