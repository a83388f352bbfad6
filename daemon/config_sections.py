"""The sections of the configuration, their defaults and what each setting means."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from learner.config import (
    BatchSettings,
    GateBounds,
    GenerationSettings,
    LoraSettings,
    ObjectiveSettings,
    OptimizerSettings,
    StoppingSettings,
)

MIB = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class ModelSettings(_Section):
    """The model agents call and the weights it is trained from."""

    name: str = Field(default="agent", pattern=r"^[A-Za-z0-9._/-]+$")
    """The public model name. Adapters are named after it: `NAME@v1`, `NAME@v2`, …"""
    path: Path | None = None
    """Folder of the base model's weights and tokenizer; the learner and the embedded engine need it."""


class EngineSettings(_Section):
    """The inference engine: a child process of ours, or a vLLM somewhere else."""

    kind: Literal["embedded", "vllm"] = "embedded"
    """`embedded` starts a child process on this machine; `vllm` speaks to a server of yours."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Root of the engine's HTTP routes, without `/v1`. With kind `embedded`: a running one, instead of a child."""
    base_model: str = "base"
    """The engine's own name for the model without an adapter."""
    api_key: SecretStr | None = None
    """Sent to the engine instead of what the client sent; it never comes back to a client."""
    max_loras: int = Field(default=4, ge=3)
    """Adapters that may be used at once: the one serving, the one before it, and a candidate."""
    threads: int = Field(default=0, ge=0)
    """Torch threads of the embedded engine; 0 leaves the choice to torch."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds to reach the engine before the client gets a 502."""
    start_timeout_s: float = Field(default=300.0, gt=0)
    """Seconds the engine may take to answer when the daemon starts."""
    max_connections: int = Field(default=1024, ge=1)
    """Connections to the engine at once; more requests than that wait."""


class LogSettings(_Section):
    """The event log: SQLite in the data folder, or Kafka."""

    kind: Literal["embedded", "kafka"] = "embedded"
    """`embedded` is one SQLite file; `kafka` lets several proxies share the log with the worker."""
    path: Path | None = None
    """Of the embedded log; `DATA_DIR/log.sqlite` unless said otherwise."""
    bootstrap_servers: tuple[str, ...] = ("127.0.0.1:9092",)
    """Brokers to ask first, `host:port`."""
    topic: str = "secondnature"
    """Created at the first use if the brokers have none of that name."""
    group: str = "secondnature"
    """Consumer group, under which the position reached is committed; one worker a store reads in it."""
    assignment: Literal["group", "all"] = "group"
    """`group` joins the consumer group, so a worker that takes another's place waits until the brokers give it the
    partitions; `all` reads every partition at once. Either way there is one worker a store: workers on several hosts
    with one store are not supported yet."""
    partitions: int = Field(default=12, ge=1)
    """Of the topic, where it has to be created."""
    replication: int = Field(default=1, ge=1)
    """Of the topic, where it has to be created."""
    max_request_bytes: int = Field(default=MIB, ge=16 * 1024)
    """Largest message sent to the brokers; not above their `message.max.bytes`."""
    client: dict[str, bool | int | SecretStr] = {}
    """Further settings of kafka-python's clients, such as `security_protocol` and `sasl_mechanism`."""
    max_dead_in_a_row: int = Field(default=100, ge=1)
    """Unreadable records, one after the other, at which the worker stops reading instead of setting them aside."""
    max_dead_share: float = Field(default=0.05, ge=0, le=1)
    """The same as a share of the last 1000 records; 1 never stops it."""


class StoreSettings(_Section):
    """The store: any SQLAlchemy URL of SQLite or PostgreSQL."""

    url: SecretStr | None = None
    """`sqlite:///DATA_DIR/store.sqlite` unless said otherwise. Secret because it may carry a password."""


class ServerSettings(_Section):
    """The one port that agents and operators speak to."""

    host: str = "127.0.0.1"
    """Address to listen on; loopback unless told otherwise."""
    port: int = Field(default=8700, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    admin_token: SecretStr | None = None
    """Without one, control routes and metrics answer only to this machine itself."""
    max_request_bytes: int = Field(default=32 * MIB, ge=1024)
    """Longer request bodies are answered with 413."""
    drain_s: float = Field(default=30.0, ge=0)
    """How long requests in flight may go on after a stop was asked for."""


class CaptureSettings(_Section):
    """What is recorded of the traffic, and how much of it may wait in memory."""

    enabled: bool = True
    """Off, traffic passes through and nothing is learnt from it."""
    ask_for_ids: bool | Literal["auto"] = "auto"
    """Ask the engine for token ids. `auto` stops asking an engine that refuses the question."""
    max_response_bytes: int = Field(default=16 * MIB, ge=1024)
    """Longest response kept of one request; a longer one is recorded without its content."""
    max_queue_records: int = Field(default=4096, ge=1)
    """Records that may wait in memory for the recorder. Further ones wait there without their content, up to four times
    as many records in all; beyond that only what was noted before forwarding is left, which the next start records as
    `abandoned`. Both are counted as dropped, `queue_full`."""
    max_queue_bytes: int = Field(default=256 * MIB, ge=MIB)
    """Bytes of the same; a record that would exceed them waits without its content."""
    max_spool_bytes: int = Field(default=4 * 1024 * MIB, ge=MIB)
    """Bytes on disk that may wait for the log while it is away."""


class HintSettings(_Section):
    """How hints are tried before they may teach."""

    rollouts: int = Field(default=3, ge=1)
    """Replies sampled with a candidate hint; all but the first only where the first passed."""
    threshold: float = Field(default=0.6, gt=0, le=1)
    """Least mean pass rate of a hint's trials."""
    temperature: float = Field(default=0.6, ge=0)
    """Of trial replies; take what your agents use."""
    max_tokens: int = Field(default=256, ge=1)
    """Longest trial and gate reply. A reply cut there never counts as a pass."""
    max_concurrency: int = Field(default=8, ge=1)
    """Turns tried at once, and gate cases answered at once."""
    min_confidence: float = Field(default=0.5, ge=0, le=1)
    """Signals below it are set aside."""
    train_unverified: bool = False
    """Let hints train that no grader could judge."""


class JudgeSettings(_Section):
    """A model that votes on what the rules found before hints are written for it. Off unless `url` is set. Recorded
    text around each signal is sent there."""

    url: str | None = Field(default=None, pattern=r"^https?://[^\s@?#]+$")
    """Address of an OpenAI-compatible endpoint, with or without `/v1`. A key belongs into `api_key`."""
    model: str | None = Field(default=None, min_length=1)
    """The endpoint's name of the model."""
    api_key: SecretStr | None = None
    """Sent to the endpoint as a bearer token."""
    votes: int = Field(default=3, ge=1, le=99)
    """Asked for each signal. More than half of those cast decide, at least two where more than one is asked."""
    temperature: float = Field(default=0.7, ge=0, le=2)
    """Of the votes; at 0 they are all alike."""
    timeout_s: float = Field(default=20.0, gt=0)
    """Seconds a vote may take before it counts as an abstention. After twelve in a row without an answer none is asked
    for a minute."""
    max_calls_per_day: int = Field(default=2000, ge=0)
    """Votes a day (UTC) of one process; signals beyond it pass unjudged. The one retry after a passing error of the
    endpoint is not counted."""
    max_concurrency: int = Field(default=4, ge=1)
    """Votes asked for at once."""

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.url is not None and self.model is None:
            raise ValueError("model is missing: with a judge's url say which model there judges")
        return self


class RoundSettings(_Section):
    """When a round starts and what goes into it."""

    auto: bool = True
    """Start rounds without being asked. Off, `secondnature rounds start` does."""
    min_hints: int = Field(default=8, ge=1)
    """Passed hints on *train* sessions before a round starts."""
    min_validate: int = Field(default=2, ge=1)
    """Of the same on *validate* sessions."""
    min_gate: int = Field(default=8, ge=1)
    """Of the same on *gate* sessions."""
    max_hints: int = Field(default=256, ge=1)
    """Hinted turns of each side that go into one round."""
    validate_share: float = Field(default=0.2, gt=0, lt=1)
    """Share of sessions on which the learner decides when to stop."""
    gate_share: float = Field(default=0.2, gt=0, lt=1)
    """Share of sessions that candidates are measured on and that nothing is learnt from."""
    max_preserve: int = Field(default=256, ge=0)
    """Accepted turns of each side that go in, to keep what works."""
    max_offline: int = Field(default=256, ge=0)
    """Recorded replies to learn from, beside the fresh ones that every hinted turn gives."""
    window: int = Field(default=10_000, ge=1)
    """Latest hints and traces that a round looks at."""
    settle_s: float = Field(default=300.0, ge=0)
    """Longest wait for hints still being tried, once there is enough for a round."""
    poll_s: float = Field(default=1.0, gt=0)
    """Pause between two looks at the store."""

    @model_validator(mode="after")
    def _leaves_training(self) -> Self:
        if self.validate_share + self.gate_share >= 1:
            raise ValueError("validate_share + gate_share must be below 1, or no session is left to train on")
        return self


class LearnerSettings(_Section):
    """What the learner is told; the sections are the learner's own."""

    seed: int = 0
    """Plus the round's number, seeds everything random in a round."""
    threads: int = Field(default=0, ge=0)
    """Torch threads of the learner; 0 leaves the choice to torch."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the base's weights; the adapter trains in float32 either way. CPUs are slower with bfloat16."""
    max_length: int = Field(default=2048, ge=2)
    """Longest prompt plus completion, in tokens; longer samples are refused, never cut."""
    lora: LoraSettings = LoraSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    batch: BatchSettings = BatchSettings()
    generation: GenerationSettings = GenerationSettings()
    stopping: StoppingSettings = StoppingSettings()


class GateSettings(_Section):
    """What a candidate has to show before it serves."""

    enabled: bool = True
    """Off, every candidate that loads and has its effect is served, whatever its verdict."""
    temperature: float = Field(default=0.6, ge=0)
    """Of the replies to gate cases."""
    max_cases: int = Field(default=64, ge=1)
    """Held-out turns of each kind, flagged and accepted, that a candidate answers."""
    bounds: GateBounds = GateBounds()


class LoggingSettings(_Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is written."""
    json_lines: bool | None = Field(default=None, alias="json")
    """JSON lines or text; unset means text on a terminal and JSON elsewhere."""
