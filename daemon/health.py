"""What the service knows of its own state: readiness with reasons, and the gauges read at each scrape."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from daemon.capture import Recorder
from daemon.capture_status import CaptureStatus
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.tail import Tail, TailState

STALL_S = 60.0
"""How long the tail may stand still with records before it."""
RECENT_S = 600.0
"""How long a dropped record is worth a word."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that has to be right. `reason` says what is wrong, or what is worth knowing."""

    ok: bool
    reason: str = ""


class EngineWatch:
    """The last answer of the engine's health check, kept by whoever asks it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._check = Check(ok=False, reason="the engine was not asked yet")

    def say(self, *, ok: bool, reason: str = "") -> None:
        """Keep an answer."""
        self._check = Check(ok, reason)
        self._metrics.engine_up.set(ok)

    def last(self) -> Check:
        """Return the last answer."""
        return self._check


class Health:
    """Reads the parts' own statuses; asks nothing over a network."""

    def __init__(
        self,
        metrics: Metrics,
        engine: Callable[[], Check],
        recorder: Recorder,
        tail: Tail | None,
        serving: Serving | None,
    ) -> None:
        self._metrics = metrics
        self._engine = engine
        self._recorder = recorder
        self._tail = tail
        self._serving = serving
        self._counted: Counter[str] = Counter()

    def checks(self) -> dict[str, Check]:
        """Return every check by name; the service is ready when all are ok.

        A log that is away does not make a proxy unready: its records wait in the spool and traffic goes on. It does
        make a worker unready, once its tail stands still. Nor do records that were dropped, or a version that is not
        loaded: agents are answered all the same, so the reason alone tells of them.
        """
        found = {"engine": self._engine(), "capture": _capture_check(self._recorder.status())}
        if self._serving is not None:
            missing = self._serving.not_loaded().items()
            told = [f"{version} is not loaded, the base answers in its place: {why}" for version, why in missing]
            found["serving"] = Check(ok=True, reason="; ".join(told))
        if self._tail is not None:
            found["tail"] = self._tail_check(self._tail)
        return found

    def observe(self) -> None:
        """Bring the gauges and the counters of what others count up to date."""
        metrics, recorder = self._metrics, self._recorder.status()
        metrics.spool_records.set(recorder.queue_records + recorder.spool_records)
        metrics.spool_bytes.set(recorder.queue_bytes + recorder.spool_bytes)
        metrics.capture_appended.inc(self._new("appended", recorder.appended))
        metrics.ids_missing.inc(self._new("ids missing", recorder.ids_missing))
        for reason, count in recorder.dropped.items():
            metrics.capture_dropped.labels(reason).inc(self._new(f"dropped {reason}", count))
        if self._tail is None:
            return
        tail = self._tail.status()
        metrics.log_lag_records.set(tail.lag_records)
        metrics.tail_halted.set(tail.state is TailState.HALTED)
        stored = tail.records - tail.duplicates - tail.dead_letters
        for result, count in (("stored", stored), ("repeated", tail.duplicates), ("dead_letter", tail.dead_letters)):
            metrics.tail_records.labels(result).inc(self._new(f"tail {result}", count))

    def _tail_check(self, tail: Tail) -> Check:
        status = tail.status()
        if status.state is TailState.HALTED:
            return Check(ok=False, reason=f"the tail has halted: {status.reason}")
        still_s = time.monotonic() - status.progress_at
        if still_s > STALL_S:
            return Check(
                ok=False,
                reason=f"the tail has made no progress for {still_s:.0f} s ({status.state}: {status.reason}),"
                f" {status.lag_records} records wait",
            )
        return Check(ok=True, reason=status.reason)

    def _new(self, name: str, count: int) -> int:
        """Return how much a count kept elsewhere has grown since it was last read."""
        grown = max(count - self._counted[name], 0)
        self._counted[name] += grown
        return grown


def _capture_check(recorder: CaptureStatus) -> Check:
    if not recorder.running:
        return Check(ok=False, reason="the recorder has ended and nothing is recorded: restart; its log says why")
    told: list[str] = []
    if not recorder.log_available:
        told.append(f"the event log is away; {recorder.queue_records + recorder.spool_records} records wait for it")
    if recorder.spool_fault:
        told.append(
            f"the spool's disk refuses records ({recorder.spool_fault}), {recorder.queue_records} wait in memory:"
            " make room on it"
        )
    since = time.monotonic() - RECENT_S
    recent = [
        f"{reason} {count}" for reason, count in sorted(recorder.dropped.items()) if recorder.dropped_at[reason] > since
    ]
    if recent:
        told.append(
            f"records were dropped within the last {RECENT_S / 60:.0f} minutes (counts since the start):"
            f" {', '.join(recent)}"
        )
    return Check(ok=True, reason="; ".join(told))
