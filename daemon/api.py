"""The control routes: what is there, feedback in, rounds, promotion, rollback. Agents' keys do not open them."""

import hmac
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request, Response, status
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from daemon import rounds
from daemon.body import read_body
from daemon.capture import Recorder
from daemon.config import Settings
from daemon.cycle import Cycle
from daemon.proxy import tenant_of
from daemon.serving import Serving
from daemon.store import Store
from daemon.store_lessons import SignalState
from daemon.tail import Tail
from daemon.wire_errors import CONTROL_HEADER
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Feedback, exchange_json
from harness_adapters.ids import stable_id
from harness_adapters.trace import trace_json
from hinting.hint import Hint, HintState
from hinting.judge import Judged

T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "::1")


@dataclass(slots=True)
class Parts:
    """What the control routes stand on. A process without the worker role has no cycle and no tail."""

    settings: Settings
    store: Store
    serving: Serving
    recorder: Recorder
    engine_url: Callable[[], str]
    cycle: Cycle | None = None
    tail: Tail | None = None


class FeedbackIn(BaseModel):
    """What a person says of one response. At least one of rating, comment and accepted edit is needed."""

    model_config = ConfigDict(extra="forbid")

    response_id: str = Field(min_length=1, description="The `id` of the response, as the model's API returned it.")
    rating: float | None = Field(default=None, ge=-1, le=1, description="From -1 (wrong) to 1 (right).")
    comment: str | None = Field(default=None, max_length=20_000)
    accepted_edit: str | None = Field(default=None, max_length=200_000, description="The text the person kept.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.rating is None and not self.comment and self.accepted_edit is None:
            raise ValueError("give a rating, a comment or an accepted_edit")
        return self


class Rollback(BaseModel):
    """What to roll back from."""

    model_config = ConfigDict(extra="forbid")

    leave: str | None = Field(
        default=None, description="The version to leave. Where another serves already, nothing is changed."
    )


class Accepted(BaseModel):
    """The record is durable and will be read; `id` names it."""

    id: str


class Imported(BaseModel):
    """How many records were appended to the log. Records that were there before are dropped when they are read."""

    appended: int


def _lines_of(body: bytes, adapter: TypeAdapter[T], noun: str) -> list[T]:
    """Read JSON lines. Raises RecordError for the first that is not what it should be."""
    read: list[T] = []
    for number, line in enumerate(body.splitlines(), start=1):
        try:
            read.append(adapter.validate_json(line))
        except ValidationError as error:
            raise RecordError(f"line {number} is not {noun}: {_flaws_of(error)}; nothing was appended") from error
    return read


def admin_guard(settings: Settings) -> Callable[[Request], None]:
    """Return the check of the admin token; without a configured token only this machine is let in."""
    token = settings.server.admin_token

    def check(request: Request) -> None:
        if token is None:
            host = request.client.host if request.client else ""
            if host in LOOPBACK:
                return
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "control routes answer this machine only until server.admin_token is set; set it and send it as Bearer"
                " (the command takes it from SECONDNATURE_ADMIN_TOKEN)",
            )
        given = request.headers.get("authorization", "")
        # Headers are bytes, which are handed on as Latin-1: a token may be any text in UTF-8.
        if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {token.get_secret_value()}".encode()):
            raise HTTPException(
                status.HTTP_401_UNAUTHORIZED,
                "the admin token is missing or wrong; send it as `Authorization: Bearer …`; the command takes"
                " it from SECONDNATURE_ADMIN_TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check


def make_router(parts: Parts) -> APIRouter:
    """Return the control routes over the given parts."""
    router = APIRouter()
    control = APIRouter(prefix="/api", dependencies=[Depends(admin_guard(parts.settings)), Depends(_named)])
    store = parts.store
    body_within_limit = Depends(body_reader(parts.settings.server.max_request_bytes))

    # Plain functions run in threads: bodies are read on the event loop, and parsed off it.
    @router.post(
        "/v1/feedback",
        status_code=status.HTTP_202_ACCEPTED,
        openapi_extra=_takes("application/json", FeedbackIn.model_json_schema()),
    )
    def give_feedback(request: Request, body: Annotated[bytes, body_within_limit]) -> Accepted:
        """Record what a person thinks of a response; it takes the same way through the log as the traffic."""
        try:
            given = FeedbackIn.model_validate_json(body)
        except ValidationError as error:
            raise RecordError(f"this is no feedback: {_flaws_of(error)}; nothing was recorded") from error
        feedback = Feedback(
            id=stable_id("fb", given.response_id, uuid.uuid4()),
            response_id=given.response_id,
            tenant=tenant_of(request.headers),
            created_at=time.time(),
            rating=given.rating,
            comment=given.comment,
            accepted_edit=given.accepted_edit,
        )
        parts.recorder.feedback(feedback)
        return Accepted(id=feedback.id)

    @control.get("/status")
    def show_status() -> dict[str, Any]:
        """Return counts at every stage, what serves, and what the next round waits for."""
        return {
            "model": parts.settings.model.name,
            "engine": parts.engine_url(),
            "base": parts.settings.engine.base_model,
            **show_serving(),
            "counts": store.counts(),
            "lag_records": parts.tail.lag_records() if parts.tail else None,
            "waits_for": parts.cycle.waits_for if parts.cycle else None,
        }

    @control.get("/serving")
    def show_serving() -> dict[str, Any]:
        """Return what serves and what served before, as this process knows it; nothing is asked of the store."""
        alias = parts.serving.alias()
        return {
            "serving": parts.serving.current(),
            "previous": alias.previous if alias else None,
            "generation": alias.generation if alias else 0,
            "not_loaded": parts.serving.not_loaded(),
        }

    @control.get("/traces")
    def list_traces(limit: Annotated[int, Field(ge=1, le=1000)] = 50, after: str | None = None) -> list[dict[str, Any]]:
        """Return sessions, newest first, without their turns."""
        return [asdict(row) for row in store.trace_rows(limit=limit, after=after)]

    @control.get("/traces/{trace_id}")
    def show_trace(trace_id: str) -> dict[str, Any]:
        """Return one session with its turns."""
        return asdict(_found(store.trace(trace_id), "trace", trace_id))

    @control.post("/exchanges", openapi_extra=_takes("application/jsonl", {"type": "string"}))
    def import_exchanges(body: Annotated[bytes, body_within_limit]) -> Imported:
        """Append exchanges read from files, one JSON object a line. All of them are checked before any is appended."""
        exchanges = _lines_of(body, exchange_json, "an exchange")
        parts.recorder.keep(exchanges)
        return Imported(appended=len(exchanges))

    @control.post("/traces", openapi_extra=_takes("application/jsonl", {"type": "string"}))
    def import_traces(body: Annotated[bytes, body_within_limit]) -> Imported:
        """Append sessions read from files, one JSON object a line. All of them are checked before any is appended."""
        traces = _lines_of(body, trace_json, "a trace")
        parts.recorder.keep(traces)
        return Imported(appended=len(traces))

    @control.get("/signals")
    def list_signals(
        state: SignalState | None = None, limit: Annotated[int, Field(ge=1, le=1000)] = 50
    ) -> list[dict[str, Any]]:
        """Return signals with what became of them, newest first."""
        rows = store.signal_rows(state, limit)
        return [
            {**asdict(row.signal), "state": row.state, "reason": row.reason, "judged": _votes(row.judged)}
            for row in rows
        ]

    @control.get("/hints")
    def list_hints(
        state: HintState | None = None, limit: Annotated[int, Field(ge=1, le=1000)] = 50
    ) -> list[dict[str, Any]]:
        """Return hints with their trials, newest first."""
        return [_shown(hint) for hint in store.hints(state=state, limit=limit)]

    @control.get("/hints/{hint_id}")
    def show_hint(hint_id: str) -> dict[str, Any]:
        """Return one hint with its trials."""
        return _shown(_found(store.hint(hint_id), "hint", hint_id))

    @control.get("/dead-letters")
    def list_dead_letters(limit: Annotated[int, Field(ge=1, le=1000)] = 50) -> list[dict[str, Any]]:
        """Return records that could not be read, newest first, without their content."""
        return [
            {"place": d.place, "reason": d.reason, "bytes": len(d.raw), "created_at": d.created_at}
            for d in store.dead_letters(limit)
        ]

    @control.get("/rounds")
    def list_rounds() -> list[dict[str, Any]]:
        """Return all rounds with their states."""
        return [asdict(row) for row in store.rounds()]

    @control.get("/rounds/{round_id}")
    def show_round(round_id: str) -> dict[str, Any]:
        """Return one round with everything the learner has said so far."""
        row = _found(store.round(round_id), "round", round_id)
        progress = rounds.read_progress(Path(row.directory))
        return {**asdict(row), "progress": [event.model_dump(mode="json") for event in progress]}

    @control.post("/rounds", status_code=status.HTTP_202_ACCEPTED)
    def start_round() -> dict[str, str]:
        """Start a round with what there is, whatever the thresholds say."""
        if parts.cycle is None:
            raise HTTPException(status.HTTP_409_CONFLICT, "this process has no worker role; ask the worker")
        parts.cycle.ask_for_round()
        return {"state": "asked"}

    @control.get("/adapters")
    def list_adapters() -> list[dict[str, Any]]:
        """Return all versions, their states and verdicts."""
        verdicts = {verdict.version: verdict for verdict in store.verdicts()}
        return [
            {**asdict(row), "verdict": asdict(verdicts[row.version]) if row.version in verdicts else None}
            for row in store.adapters()
        ]

    @control.post("/adapters/{version:path}/promote")
    async def promote(version: str) -> dict[str, Any]:
        """Serve a version, whatever its verdict: a person's word. It is loaded and its effect checked first."""
        return asdict(await parts.serving.promote(version))

    @control.post("/rollback", openapi_extra=_takes("application/json", Rollback.model_json_schema(), required=False))
    def rollback(body: Annotated[bytes, body_within_limit]) -> dict[str, Any]:
        """Serve the previous version again. It is loaded and warm, so nothing is asked of the engine."""
        try:
            given = Rollback.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise RecordError(f"this is no rollback: {_flaws_of(error)}; nothing was changed") from error
        return asdict(parts.serving.rollback(given.leave))

    router.include_router(control)
    return router


def body_reader(limit: int) -> Callable[[Request], Awaitable[bytes]]:
    """Return what reads a request's body, up to `limit` bytes."""

    async def read(request: Request) -> bytes:
        body = await read_body(request.headers, request.receive, limit)
        if body is None:
            raise HTTPException(status.HTTP_400_BAD_REQUEST, "the client left before the request was complete")
        return body

    return read


def flaws(faults: Sequence[Mapping[str, Any]]) -> str:
    """Say what is wrong, as pydantic found it, without repeating what was sent."""
    return "; ".join(f"{'.'.join(map(str, f['loc']))} {f['msg']}".strip() for f in faults[:3])


def _flaws_of(error: ValidationError) -> str:
    return flaws(error.errors(include_url=False, include_input=False))


def _takes(media_type: str, schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {media_type: {"schema": schema}}}}


def _named(response: Response) -> None:
    response.headers[CONTROL_HEADER] = "1"


def _found(value: T | None, noun: str, name: str) -> T:
    if value is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no {noun} {name!r}")
    return value


def _votes(judged: Judged | None) -> dict[str, Any] | None:
    """Return what a judge said as the command line shows it; the signal stands beside it."""
    if judged is None:
        return None
    votes = [asdict(vote) for vote in judged.votes]
    return {"decided": judged.decided, "prompt": judged.prompt, "votes": votes}


def _shown(hint: Hint) -> dict[str, Any]:
    return {**asdict(hint), "score": hint.score, "baseline": hint.baseline}
