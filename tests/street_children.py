"""Programs that tests start as processes of their own and kill: `tail LOG STORE`, `proxy LOG SPOOL`."""

import sys
import threading
import time
from pathlib import Path

from log_children import open_log
from traffic import exchange, raw, said

from daemon.capture import Begun, Recorder
from daemon.store import Store
from daemon.tail import Tail
from harness_adapters.exchange import Exchange, Feedback


def begun(e: Exchange) -> Begun:
    return Begun(
        exchange_id=e.id,
        route_key=e.route_key,
        tenant=e.tenant,
        started_at=e.started_at,
        model=e.model,
        endpoint=e.endpoint,
        sequence=e.sequence,
    )


def tail(log: str, store: str) -> None:
    Tail(open_log(log), Store(store), max_records=5, poll_s=0.1).run(threading.Event())


def proxy(log: str, spool: str, name: str, timeout_s: str) -> None:
    """Begin a request, say so, end it, and so on; every tenth is never ended, every seventh gets feedback."""
    recorder = Recorder(open_log(log, timeout_s=float(timeout_s)), Path(spool))
    for number in range(1_000_000):
        e = exchange(f"{name}-{number}", [said("user", f"key {number % 3}")], "x" * 200, sequence=number)
        recorder.begin(begun(e))
        print(f"begun {e.id}", flush=True)  # noqa: T201 - the parent reads it
        if number % 10 != 9:
            recorder.end_raw(raw(e))
        if number % 7 == 6:
            recorder.feedback(Feedback(id=f"fb-{e.id}", response_id=f"resp-{e.id}", tenant="default", created_at=1.0))
            print(f"feedback fb-{e.id}", flush=True)  # noqa: T201
        time.sleep(0.002)


if __name__ == "__main__":
    {"tail": tail, "proxy": proxy}[sys.argv[1]](*sys.argv[2:])
