"""Talk to a running daemon over HTTP."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

import httpx

from harness_adapters.errors import ConfigError, SecondNatureError

URL_VARIABLE = "SECONDNATURE_URL"
TOKEN_VARIABLE = "SECONDNATURE_ADMIN_TOKEN"  # noqa: S105 - the name of a variable, not a secret
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_URL = "http://127.0.0.1:8700"
LONGEST_REASON = 2000


class DaemonUnreachableError(SecondNatureError):
    """No daemon answers at the address, or not in time."""


class DaemonRefusedError(SecondNatureError):
    """The daemon answered, and the answer is no; `status` is the answer's HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotADaemonError(SecondNatureError):
    """What answers at the address is something else."""


class DaemonClient:
    """The control routes of one daemon. Address and admin token come from the environment unless given."""

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self.url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get(TOKEN_VARIABLE)
        if token and not token.isprintable():
            raise ConfigError(f"the admin token holds characters that no header can carry; see {TOKEN_VARIABLE}")
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        try:
            # What a machine says to itself is nothing for a proxy that leads out.
            remote = httpx.URL(self.url).host not in LOOPBACK
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=remote)
        except httpx.InvalidURL as error:
            raise ConfigError(f"{self.url} is no address of a daemon ({error}); see --url or {URL_VARIABLE}") from error

    def get(self, path: str, **params: str | int | None) -> Any:
        """Return the JSON of a GET. Raises DaemonUnreachableError, DaemonRefusedError or NotADaemonError."""
        return self._call("GET", path, params={k: v for k, v in params.items() if v is not None})

    def post(
        self, path: str, *, json: Mapping[str, Any] | None = None, content: bytes | None = None, attempts: int = 1
    ) -> Any:
        """Return the JSON of a POST. Raises DaemonUnreachableError, DaemonRefusedError or NotADaemonError.

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
        from daemon.wire_errors import CONTROL_HEADER  # noqa: PLC0415 - keeps `--help` fast

        stranger = f"{self.url} answered {method} {path} with something else than a daemon does; is this one?"
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.UnsupportedProtocol as error:
            raise ConfigError(f"{self.url} is no address of a daemon ({error}); see --url or {URL_VARIABLE}") from error
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise DaemonUnreachableError(
                f"{self.url} did not answer {method} {path} in time ({self._timeout_s:g} s); what was asked for may"
                " have happened all the same: look before you ask again"
            ) from error
        except httpx.TransportError as error:
            raise DaemonUnreachableError(
                f"no daemon answers at {self.url} ({error}); start one with `secondnature serve`, "
                f"or set {URL_VARIABLE} to where it runs"
            ) from error
        except httpx.RequestError as error:
            raise NotADaemonError(f"{stranger} ({error})") from error
        value = _json(answer)
        if not answer.is_success:
            reason = f"{method} {path} was refused ({answer.status_code}): {_reason(answer, value)}"
            raise DaemonRefusedError(reason, answer.status_code)
        if CONTROL_HEADER not in answer.headers or value is None:
            raise NotADaemonError(stranger)
        return value


def segment(name: str) -> str:
    """Return a name as one segment of a path, whatever it holds."""
    return quote(os.fsencode(name), safe="").replace(".", "%2E")


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _reason(answer: httpx.Response, value: Any) -> str:
    """Return why an answer is no, in one line."""
    told = cast("dict[str, Any]", value).get("detail") if isinstance(value, dict) else None
    if told is None and answer.has_redirect_location:
        return f"it leads to {answer.headers['location']}; give the daemon's own address, see --url or {URL_VARIABLE}"
    text = " ".join(str(answer.text if told is None else told).split())
    return text[:LONGEST_REASON] or answer.reason_phrase or "without a reason"
