"""Prometheus metrics in a registry of our own. No trace, hint, session or adapter ids as labels: their number has no
bound, and an adapter's figures belong to the store."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
OVERHEAD_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)

ROUND_BUCKETS_S = (10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric as documented: what `secondnature_…` it is, its type, what it says, and its labels."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]


class Metrics:
    """Every metric of one daemon. Attributes are the metrics; `render` is what `/metrics` answers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rows: list[Row] = []
        # The proxy.
        self.requests = self._counter(
            "requests", "Requests answered, by endpoint, HTTP status and how they ended.", "endpoint", "code", "outcome"
        )
        self.request_seconds = self._histogram(
            "request_seconds", "From a request's first byte to the answer's last.", LATENCY_BUCKETS_S, "endpoint"
        )
        self.first_byte_seconds = self._histogram(
            "first_byte_seconds", "From a request's last byte to the answer's first.", LATENCY_BUCKETS_S, "endpoint"
        )
        self.overhead_seconds = self._histogram(
            "overhead_seconds",
            "From a request's last byte to its forwarding.",
            OVERHEAD_BUCKETS_S,
        )
        self.in_flight = self._gauge("in_flight_requests", "Requests being answered now.")
        self.base_fallbacks = self._counter(
            "base_fallbacks", "Requests the base model answered because the engine did not have the adapter."
        )
        self.ids_missing = self._counter("ids_missing", "Recorded answers without token ids.")
        # Capture, log and store.
        self.capture_dropped = self._counter("capture_dropped", "Records that could not be kept, by reason.", "reason")
        self.capture_appended = self._counter("capture_appended", "Records appended to the log.")
        self.spool_records = self._gauge("spool_records", "Records waiting on disk or in memory for the log.")
        self.spool_bytes = self._gauge("spool_bytes", "Bytes of the records that wait for the log.")
        self.log_lag_records = self._gauge("log_lag_records", "Records in the log that the tail has not yet stored.")
        self.tail_records = self._counter("tail_records", "Records the tail read, by what became of them.", "result")
        self.tail_halted = self._gauge("tail_halted", "1 while the tail stands still because of unreadable records.")
        # The street.
        self.stages = self._counter(
            "stage_items",
            "Exports without a model call, and traces, signals, judgements, hints and samples, by stage and result.",
            "stage",
            "result",
        )
        self.judge_votes = self._counter("judge_votes", "Votes of the judge, by what became of them.", "outcome")
        self.rounds = self._counter("rounds", "Rounds that ended, by result.", "result")
        self.round_seconds = self._histogram("round_seconds", "Duration of a round.", ROUND_BUCKETS_S)
        self.verdicts = self._counter("verdicts", "Verdicts of the gate.", "decision")
        # Serving and the engine.
        self.swaps = self._counter("swaps", "Changes of the served adapter that were tried, by result.", "result")
        self.swap_seconds = self._histogram(
            "swap_seconds", "From the decision to swap to the flip of the alias.", LATENCY_BUCKETS_S, "kind"
        )
        self.serving_generation = self._gauge("serving_generation", "Generation of the alias this process follows.")
        self.serving_base = self._gauge(
            "serving_base",
            "1 while the alias names the base. It stays 0 while the base answers for an adapter that the engine lacks; "
            "`secondnature_base_fallbacks_total` counts those answers.",
        )
        self.engine_up = self._gauge("engine_up", "1 while the engine answers its health check.")
        self.engine_restarts = self._counter("engine_restarts", "Times the embedded engine had to be started again.")
        self.task_restarts = self._counter("task_restarts", "Side tasks that died and were started again.", "task")
        info = Info("secondnature_build", "Version of this daemon.", registry=self.registry)
        info.info({"version": _version()})
        self._rows.append(Row("secondnature_build_info", "info", "Version of this daemon.", ("version",)))

    def table(self) -> dict[str, Row]:
        """Return every metric by the name under which it is exposed."""
        return {row.name: row for row in self._rows}

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        full = f"secondnature_{name}_total"
        self._rows.append(Row(full, "counter", text, labels))
        return Counter(full, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        full = f"secondnature_{name}"
        self._rows.append(Row(full, "gauge", text, ()))
        return Gauge(full, text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        full = f"secondnature_{name}"
        self._rows.append(Row(full, "histogram", text, labels))
        return Histogram(full, text, labels, buckets=buckets, registry=self.registry)


def _version() -> str:
    try:
        return version("secondnature")
    except PackageNotFoundError:
        return "unknown"
