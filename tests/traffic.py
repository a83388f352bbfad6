"""Traffic as the proxy records it, for tests of what comes after."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daemon.encoding import encode
from daemon.exchange_raw import RawExchange
from daemon.log import LogRecord
from daemon.log_records import record_of
from harness_adapters.exchange import Exchange, Status
from harness_adapters.ids import stable_id


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def exchange(name: str, messages: Sequence[dict[str, str]], answer: str, *, sequence: int, **given: Any) -> Exchange:
    made = Exchange(
        id=name,
        endpoint="/v1/chat/completions",
        model="agent",
        tenant="default",
        route_key=stable_id("route", messages[0]["content"] if messages else name),
        sequence=sequence,
        status=Status.OK,
        started_at=float(sequence),
        request={"model": "agent", "messages": list(messages)},
        response={"id": f"resp-{name}", "choices": [{"index": 0, "message": said("assistant", answer)}]},
    )
    return replace(made, **given)


def raw(e: Exchange) -> RawExchange:
    """An exchange as the proxy hands it over."""
    return RawExchange(
        id=e.id,
        endpoint=e.endpoint,
        model=e.model,
        tenant=e.tenant,
        route_key=e.route_key,
        sequence=e.sequence,
        status=e.status,
        started_at=e.started_at,
        request=e.request,
        request_bytes=len(encode(e.request.get("messages"))),
        body=encode(e.response),
    )


def conversation(name: str, turns: int, *, start: int = 0) -> list[Exchange]:
    """A session whose client names none: each request repeats what was said."""
    messages = [said("user", f"{name}, question 0")]
    exchanges: list[Exchange] = []
    for turn in range(turns):
        answer = f"{name}, answer {turn}"
        exchanges.append(exchange(f"{name}-{turn}", messages, answer, sequence=start + turn))
        messages = [*messages, said("assistant", answer), said("user", f"{name}, question {turn + 1}")]
    return exchanges


def records(exchanges: Sequence[Exchange]) -> list[LogRecord]:
    return [record_of(e) for e in exchanges]
