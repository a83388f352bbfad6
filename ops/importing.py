"""`secondnature traces import`: files in, exchanges and traces to the daemon's log."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any

from rich.console import Console

from harness_adapters.adapter import Skipped
from harness_adapters.exchange import Exchange, exchange_json
from harness_adapters.trace import Trace, trace_json
from ops.client import DaemonClient, DaemonRefusedError, DaemonUnreachableError
from ops.output import cell
from ops.reading import FileReport, read_files
from ops.rejected import Rejects

BATCH_RECORDS, BATCH_BYTES = 200, 8 << 20
"""What one request carries at most; a single record may be longer."""

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Before each further try while the daemon takes nothing, as its log is away or behind."""


def import_files(
    paths: Sequence[str],
    client: DaemonClient | None,
    *,
    format_name: str | None = None,
    keep_rejected: bool = True,
    progress: Console | None = None,
) -> list[FileReport]:
    """Read files and append what they hold; without a client only read. Returns one report a file.

    Exchanges and traces are named by their content, so importing a file twice changes nothing. What could not be read
    is kept beside each file, with the reason. A daemon that takes nothing is waited for about a minute. Raises what the
    client raises, with how far it came; what was appended by then stays.
    """
    reports: list[FileReport] = []
    senders: list[_Sender] = []
    with ExitStack() as stack:
        rejects = stack.enter_context(Rejects()) if client is not None and keep_rejected else None

        def sending(report: FileReport) -> Callable[[Exchange | Trace], None]:
            assert client is not None
            if rejects is not None:
                rejects.begin(report)
            senders.append(_Sender(client, report, progress))
            return senders[-1].add

        each = sending if client else None
        try:
            for report, trace in read_files(paths, format_name=format_name, each=each, progress=progress):
                if trace is None:
                    reports.append(report)
                    while senders:
                        senders.pop().flush()
        except (DaemonRefusedError, DaemonUnreachableError) as error:
            raise _with_progress(error, reports, senders) from error
    return reports


def _with_progress(
    error: DaemonRefusedError | DaemonUnreachableError, reports: list[FileReport], senders: list["_Sender"]
) -> Exception:
    unfinished = [s.report for s in senders if not any(s.report is report for report in reports)]
    appended = sum(report.appended for report in (*reports, *unfinished))
    last = (*reports, *unfinished)[-1:]
    where = f", reading {last[0].path}" if last else ""
    told = f"{error}; {appended} records had been appended{where}: import again, what is there already is dropped"
    if isinstance(error, DaemonRefusedError):
        return DaemonRefusedError(told, error.status)
    return DaemonUnreachableError(told)


class _Sender:
    """Appends a file's records in batches, in their order."""

    def __init__(self, client: DaemonClient, report: FileReport, progress: Console | None) -> None:
        self.report = report
        self._client = client
        self._progress = progress
        self._route = ""
        self._batch: list[tuple[int, bytes]] = []
        self._size = 0

    def add(self, item: Exchange | Trace) -> None:
        """Send a record with the next batch."""
        if isinstance(item, Exchange):
            route, line, place = "/api/exchanges", exchange_json.dump_json(item), item.place
        else:
            route, line, place = "/api/traces", trace_json.dump_json(item), item.turns[0].place if item.turns else None
        is_full = len(self._batch) >= BATCH_RECORDS or self._size + len(line) >= BATCH_BYTES
        if self._batch and (route != self._route or is_full):
            self.flush()
        self._route = route
        self._batch.append((place or 0, line))
        self._size += len(line) + 1

    def flush(self) -> None:
        """Send what waits."""
        batch, self._batch, self._size = self._batch, [], 0
        if batch:
            self.report.appended += self._send(batch)

    def _send(self, batch: Sequence[tuple[int, bytes]]) -> int:
        """Append a batch and return how many were; a record the daemon does not take is skipped with its reason."""
        try:
            answer = self._patiently(b"\n".join(line for _, line in batch))
        except DaemonRefusedError as error:
            if error.status not in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY):
                raise
            # What a daemon takes is its own affair, so the record that it refuses is found by halving.
            if half := len(batch) // 2:
                return self._send(batch[:half]) + self._send(batch[half:])
            ((place, line),) = batch
            reason = str(error)
            if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                reason = f"{len(line)} bytes are more than the daemon takes; raise server.max_request_bytes there"
            self._skip(place, line, reason)
            return 0
        return int(answer["appended"])

    def _skip(self, place: int, line: bytes, reason: str) -> None:
        """Note a record that was read and not taken, at its line or, where that is not known, at its place."""
        unit = self.report.unit
        if unit == "line":
            self.report.skip(Skipped(place + 1, reason, line))
        else:
            self.report.skip(Skipped(0, f"what begins at {unit} {place} was not taken: {reason}", line))

    def _patiently(self, body: bytes) -> Any:
        for pause_s in PAUSES_S:
            try:
                return self._client.post(self._route, content=body)
            except DaemonRefusedError as error:
                if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                if self._progress is not None:
                    told = f"the daemon takes nothing now, trying again in {pause_s:g} s: {error}"
                    self._progress.print(cell(told), markup=False, highlight=False, soft_wrap=True)
            time.sleep(pause_s)
        return self._client.post(self._route, content=body)
