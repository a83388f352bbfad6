"""`secondnature doctor`: check what the configuration names before anything depends on it."""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp

import daemon
from daemon.config import Settings, load
from daemon.engine import EngineClient
from daemon.judging import open_endpoint
from daemon.lifecycle import Daemon, Role, open_log, roles_of
from daemon.store import Store
from harness_adapters.errors import ConfigError, SecondNatureError
from hinting.graders import load_graders

MIN_FREE_BYTES = 2 * 2**30


Check = tuple[str, Callable[[Settings], str]]


def examine(config: Path | None, roles: Iterable[str] = ("all",)) -> list[dict[str, Any]]:
    """Return one finding a check: `check`, `ok`, `found`. A wrong configuration is itself the only finding.

    What only the worker needs is checked where `roles` has it. Raises ConfigError for a role that is none.
    """
    wanted = roles_of(roles)
    try:
        settings = load(config)
    except ConfigError as error:
        return [{"check": "configuration", "ok": False, "found": str(error)}]
    findings = [{"check": "configuration", "ok": True, "found": str(config or "environment only")}]
    judge: tuple[Check, ...] = (("judge", _judge),) if settings.judge.url else ()
    of_worker = (("model files", _model_files), ("learner", _learner), ("graders", _graders), *judge)
    checks: tuple[Check, ...] = (
        ("python", _python),
        ("packages", _packages),
        ("data folder", _data_folder),
        *(of_worker if "worker" in wanted else ()),
        ("log", _log),
        ("store", _store),
        ("engine", lambda given: _engine(given, wanted)),
    )
    for name, check in checks:
        try:
            findings.append({"check": name, "ok": True, "found": check(settings)})
        except (SecondNatureError, OSError) as error:
            findings.append({"check": name, "ok": False, "found": str(error)})
    return findings


def _python(_: Settings) -> str:
    return sys.version.split()[0]


def _packages(_: Settings) -> str:
    """The names `daemon` and `ops` exist elsewhere on PyPI: make sure that ours are the ones imported."""
    home = Path(str(daemon.__file__)).parent
    if not (home / "proxy.py").is_file():
        raise ConfigError(f"another package named `daemon` shadows ours at {home}; use an environment of its own")
    return str(home.parent)


def _data_folder(settings: Settings) -> str:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.data_dir).free
    text = f"{settings.data_dir} has {free / 2**30:.1f} GiB free"
    if free < MIN_FREE_BYTES:
        raise ConfigError(
            f"{text}; spool and checkpoints need at least {MIN_FREE_BYTES / 2**30:.0f} GiB: free some or move data_dir"
        )
    return text


def _model_files(settings: Settings) -> str:
    path = settings.model.path
    if path is None:
        raise ConfigError(
            "model.path is not set; name the folder of the served model's weights, or no round can run here"
        )
    if not (path / "config.json").is_file() or not list(path.glob("*.safetensors")):
        raise ConfigError(
            f"{path} holds no config.json with safetensors; point model.path at the served model's folder"
        )
    return str(path)


def _learner(_: Settings) -> str:
    missing = [name for name in ("torch", "transformers", "peft") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} not installed; install secondnature[learner] where rounds shall run")
    return "torch, transformers and peft are installed"


def _graders(settings: Settings) -> str:
    if not settings.graders and not settings.hints.train_unverified:
        raise ConfigError(
            "no grader is configured, so no hint can pass its trials and nothing is ever learnt; add a [[graders]]"
            " table, or set hints.train_unverified"
        )
    load_graders(settings.graders)
    return ", ".join(grader.name for grader in settings.graders) or "none: hints teach unverified"


def _judge(settings: Settings) -> str:
    """Have the judge's model answer once, as a judge that is away is not missed: what the rules say stands."""

    async def ask() -> str:
        async with open_endpoint(settings.judge) as endpoint:
            await endpoint.answer([{"role": "user", "content": "Say yes."}], temperature=0, max_tokens=16)
        return f"{settings.judge.model} at {settings.judge.url} answers"

    return asyncio.run(ask())


def _log(settings: Settings) -> str:
    log = open_log(settings)
    try:
        return f"{settings.log.kind}, {log.lag_records()} records not read yet"
    finally:
        log.close()


def _store(settings: Settings) -> str:
    store = Store(settings.store_url)
    try:
        return f"{sum(store.counts().values())} rows"
    finally:
        store.close()


def _engine(settings: Settings, roles: frozenset[Role]) -> str:
    if settings.engine.url is None:
        Daemon(settings, roles)  # refuses roles that cannot have a child of their own
        return "embedded, started with the service"

    async def ask() -> str:
        async with aiohttp.ClientSession() as session:
            client = EngineClient.from_settings(settings, session)
            facts = await client.check_contract()
            return f"{'embedded' if facts.embedded else 'vLLM'} {facts.version} at {settings.engine.url}"

    return asyncio.run(ask())
