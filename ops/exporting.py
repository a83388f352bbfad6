"""`secondnature traces export`: sessions of files or of the daemon, written in formats of other tools."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from daemon.encoding import encode
from harness_adapters.export import to_atif, to_openai_chat
from harness_adapters.trace import Trace, trace_json
from ops.client import DaemonClient, segment
from ops.reading import FileReport, read_files

WRITERS: Mapping[str, Callable[[Trace], dict[str, Any]]] = {"openai_chat": to_openai_chat, "atif": to_atif}
PAGE = 100


def exported(paths: Sequence[str], format_name: str, client: DaemonClient | None) -> Iterator[str | FileReport]:
    """Yield each session as one line of JSON, from the files or, where there is a client, from the daemon.

    Of files, the report of each comes when it has been read, as far as that went.
    """
    write = WRITERS[format_name]
    if client is not None:
        for trace in _of_daemon(client):
            yield encode(write(trace)).decode()
        return
    for report, trace in read_files(paths):
        yield report if trace is None else encode(write(trace)).decode()


def _of_daemon(client: DaemonClient) -> Iterator[Trace]:
    after: str | None = None
    while page := client.get("/api/traces", limit=PAGE, after=after):
        for row in page:
            yield trace_json.validate_python(client.get(f"/api/traces/{segment(row['id'])}"))
        after = page[-1]["id"]
