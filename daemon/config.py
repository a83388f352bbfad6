"""Configuration: one TOML file, the environment (`SECONDNATURE_SERVER__PORT=8701`), and what the command line says.

Unknown keys are refused with their path and the nearest valid name: a misspelt guard that is silently ignored is worse
than a service that does not start.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from daemon.config_faults import check_environment, check_file, explain
from daemon.config_sections import (
    CaptureSettings,
    EngineSettings,
    GateSettings,
    HintSettings,
    JudgeSettings,
    LearnerSettings,
    LoggingSettings,
    LogSettings,
    ModelSettings,
    RoundSettings,
    ServerSettings,
    StoreSettings,
)
from harness_adapters.errors import ConfigError
from hinting.graders import GraderConfig

PREFIX = "SECONDNATURE_"
CONFIG_VARIABLE = "SECONDNATURE_CONFIG"
"""Names the TOML file where the command line does not."""
NOT_SETTINGS = (CONFIG_VARIABLE, "SECONDNATURE_URL", "SECONDNATURE_ADMIN_TOKEN", "SECONDNATURE_TEST_")
"""How variables begin that share the prefix: the command line's own, and those left to whoever tests the service."""


def child_environment(**extra: str) -> dict[str, str]:
    """Return the environment for a child process: ours and `extra`, without our settings, which hold secrets."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(PREFIX)}
    return kept | extra


class Settings(BaseSettings):
    """The whole configuration. Build it with `load`, which explains what is wrong."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=PREFIX, env_nested_delimiter="__", use_attribute_docstrings=True
    )

    data_dir: Path = Path("var/secondnature")
    """Everything the daemon writes lies below it unless said otherwise."""
    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    log: LogSettings = LogSettings()
    store: StoreSettings = StoreSettings()
    server: ServerSettings = ServerSettings()
    capture: CaptureSettings = CaptureSettings()
    judge: JudgeSettings = JudgeSettings()
    hints: HintSettings = HintSettings()
    graders: tuple[GraderConfig, ...] = ()
    """What says whether a reply is right; see the README for an example. `kind` is `rule`, `schema`, `changed_call` or
    `python`."""
    rounds: RoundSettings = RoundSettings()
    learner: LearnerSettings = LearnerSettings()
    gate: GateSettings = GateSettings()
    logging: LoggingSettings = LoggingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the hook's signature; files of secrets are not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give the sources by rank: what `load` was handed, the environment, the TOML file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.engine.kind == "vllm" and self.engine.url is None:
            raise ValueError('engine.url is missing: with engine.kind = "vllm" say where it listens')
        if self.engine.kind == "embedded" and self.engine.url is None and self.model.path is None:
            raise ValueError("model.path is missing: name the folder of the base model's weights")
        if "@" in self.model.name or self.model.name == self.engine.base_model:
            raise ValueError(
                "model.name must differ from engine.base_model, which is the engine's own name for the base"
            )
        return self

    @property
    def log_path(self) -> Path:
        """File of the embedded log."""
        return self.log.path or self.data_dir / "log.sqlite"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the store."""
        url = self.store.url
        return url.get_secret_value() if url else f"sqlite:///{self.data_dir / 'store.sqlite'}"

    @property
    def spool_dir(self) -> Path:
        """Where records wait while the log is away."""
        return self.data_dir / "spool"

    @property
    def adapters_dir(self) -> Path:
        """Where each served version has its own immutable folder."""
        return self.data_dir / "adapters"

    @property
    def rounds_dir(self) -> Path:
        """Where each round has its directory."""
        return self.data_dir / "rounds"

    def describe(self) -> dict[str, Any]:
        """Return the effective configuration as plain JSON values, secrets hidden."""
        return self.model_dump(mode="json", by_alias=True)


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the configuration: `overrides` before the environment before the TOML file before the defaults.

    `path` defaults to what `SECONDNATURE_CONFIG` names, if anything. Raises ConfigError that names every fault.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    file = path or (Path(named) if named else None)
    check_file(file)
    check_environment(Settings, PREFIX, ignored=NOT_SETTINGS)

    class FromFile(Settings):
        """The settings with their file: pydantic-settings reads its place from the class."""

        model_config = SettingsConfigDict(toml_file=file)

    try:
        return FromFile(**(overrides or {}))
    except ValidationError as error:
        raise ConfigError(explain(error, Settings, PREFIX, file)) from None
    except SettingsError as error:
        raise ConfigError(f"the environment cannot be used: {error}; values of lists and tables are JSON") from error
