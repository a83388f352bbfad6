"""OpenTelemetry spans and log records, read from JSON in whatever form it was exported.

OTLP/JSON requests, whole or by the resource (members in camel or snake case); the span and log objects that the SDKs'
console exporters print; flat rows with an `attributes` mapping or `attributes.*` columns, as of data frames; pages and
lists of these. OTLP in protobuf is not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from harness_adapters.adapter import Skipped
from harness_adapters.attributes import attribute, attributes_of, is_value, plain
from harness_adapters.chatparts import loose
from harness_adapters.fields import mapping, mappings, stem, text
from harness_adapters.ids import stable_id
from harness_adapters.recorded import values_of
from harness_adapters.source import Head, Source
from harness_adapters.steps import Step
from harness_adapters.times import instant

LISTS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "batches", "data", "spans")
LOG = "LOG"
_RESOURCES = LISTS[:5]
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs", "scope_logs")
_ITEMS = ("spans", "logRecords", "log_records")
_METRICS = ("resourceMetrics", "resource_metrics")
_HEAD_SPANS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a span, or a log record. `body` is that of a log record."""

    name: str
    time: float | None = None
    attributes: dict[str, Any]
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span. A log record is one of kind LOG with a single event, under the id of the span it was written in."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start: float | None
    """Unix seconds, as `end`."""
    end: float | None
    attributes: dict[str, Any]
    events: tuple[Event, ...]
    status_code: str
    """UNSET, OK or ERROR."""
    status_message: str
    resource: dict[str, Any]
    """The attributes of what sent it."""
    cut: bool = False
    """Whether attributes of it were dropped for their number."""

    def attribute(self, *names: str) -> Any:
        """Return the first of the named attributes that there is and that is not empty; None without one."""
        for name in names:
            value = attribute(self.attributes, name)
            if value not in (None, "", "{}", [], {}):
                return value
        return None

    def name_in(self, *names: str) -> str | None:
        """Return the first of the named attributes that is an id; None without one."""
        return next((str(v) for name in names if isinstance(v := self.attribute(name), str | int)), None)

    def error(self) -> str | None:
        """Return what went wrong in it, empty where that was not said; None where nothing did."""
        exceptions = [event.attributes for event in self.events if event.name == "exception"]
        kind = attribute(self.attributes, "error.type")
        if self.status_code != "ERROR" and not exceptions and kind is None:
            return None
        told = [self.status_message, *(text(e.get("exception.message")) for e in exceptions)]
        return next((message for message in told if message), text(kind))


def from_otlp_json(document: Mapping[str, Any]) -> Iterator[Span]:
    """Yield the spans and log records of an OTLP/JSON request, or of one resource's part of it, in its order."""
    for name in _RESOURCES:
        for part in mappings(document.get(name)):
            yield from from_otlp_json(part)
    for name in _SCOPES:
        for scope in mappings(document.get(name)):
            yield from _of_items(scope, document.get("resource"))
    if not any(name in document for name in _SCOPES):
        yield from _of_items(document, document.get("resource"))


def _of_items(holder: Mapping[str, Any], resource: object) -> Iterator[Span]:
    for name in _ITEMS:
        for item in mappings(holder.get(name)):
            yield span_of({**item, "resource": item.get("resource") or resource}, is_log=name != "spans")


def spans_of(value: object) -> Iterator[Span]:
    """Yield the spans and log records of a value in any of the forms read here; none of what has another form."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from spans_of(item)
    elif isinstance(value, Mapping):
        document = cast("Mapping[str, Any]", value)
        if any(isinstance(document.get(name), list) for name in (*_RESOURCES, *_SCOPES, *_ITEMS)):
            yield from from_otlp_json(document)
        elif isinstance(document.get("data"), list):
            yield from spans_of(document["data"])
        elif _is_span(document):
            yield span_of(document, is_log=_is_log(document))


def _is_span(value: Mapping[str, Any]) -> bool:
    has_attributes = isinstance(value.get("attributes"), Mapping | list | str)
    if not has_attributes and not any(name.startswith("attributes.") for name in value):
        return "startTimeUnixNano" in value or "start_time_unix_nano" in value
    return bool(_first(value, _TRACE_IDS) or _first(mapping(value.get("context")), _TRACE_IDS)) or _is_log(value)


def _is_log(value: Mapping[str, Any]) -> bool:
    names = (
        "severityNumber",
        "severity_number",
        "observedTimeUnixNano",
        "observed_timestamp",
        "eventName",
        "event_name",
    )
    return any(name in value for name in names) or ("body" in value and "name" not in value)


_TRACE_IDS = ("traceId", "trace_id", "context.trace_id")
_SPAN_IDS = ("spanId", "span_id", "context.span_id", "id")
_PARENT_IDS = ("parentSpanId", "parent_span_id", "parent_id", "parentId")
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp")
_ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime")
_TIMES = ("timeUnixNano", "time_unix_nano", "timestamp", "observedTimeUnixNano", "observed_timestamp", "time")


def span_of(value: Mapping[str, Any], *, is_log: bool = False) -> Span:
    """Read one span or log record."""
    context, status = mapping(value.get("context")), mapping(value.get("status"))
    attributes = attributes_of(value.get("attributes"))
    attributes |= {k[11:]: v for k, v in value.items() if k.startswith("attributes.") and v is not None}
    resource = mapping(value.get("resource"))
    events = loose(value.get("events"))[0]
    code = status.get("code", status.get("status_code")) or _first(value, ("status_code", "statusCode", "status"))
    start = instant(_first(value, _TIMES if is_log else _STARTS))
    event = _event(value) if is_log else None
    return Span(
        trace_id=_id(_first(value, _TRACE_IDS) or _first(context, _TRACE_IDS)),
        span_id=_id(_first(value, _SPAN_IDS[:3]) or _first(context, _SPAN_IDS) or _first(value, _SPAN_IDS)),
        parent_id=_id(_first(value, _PARENT_IDS) or _first(mapping(value.get("parentSpanContext")), _SPAN_IDS)) or None,
        name=event.name if event else text(value.get("name")),
        kind=LOG if is_log else str(_first(value, ("kind", "span_kind")) or ""),
        start=start,
        end=start if is_log else instant(_first(value, _ENDS)),
        attributes=attributes,
        events=(event,) if event else tuple(_event(item) for item in mappings(events)),
        status_code=_status(str(code)),
        status_message=text(status.get("message"))
        or text(status.get("description"))
        or text(value.get("status_message")),
        resource=attributes_of(resource.get("attributes")) if "attributes" in resource else dict(resource),
        cut=bool(_first(value, ("droppedAttributesCount", "dropped_attributes_count"))),
    )


def _status(code: str) -> str:
    return next((name for end, name in _STATUSES if code.upper().endswith(end)), "UNSET")


_STATUSES = (("UNSET", "UNSET"), ("ERROR", "ERROR"), ("OK", "OK"), ("2", "ERROR"), ("1", "OK"))


def _event(value: Mapping[str, Any]) -> Event:
    attributes = attributes_of(value.get("attributes"))
    body = value.get("body")
    body = plain(body) if isinstance(body, Mapping) and is_value(cast("Mapping[str, Any]", body)) else loose(body)[0]
    told = (body if text(body).startswith("claude_code.") else None, value.get("name"), value.get("eventName"))
    told += (value.get("event_name"), attributes.get("event.name"))
    name = next((n for n in told if isinstance(n, str) and n), "")
    return Event(name=name, time=instant(_first(value, _TIMES)), attributes=attributes, body=body)


def _first(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def _id(value: object) -> str:
    found = str(value).removeprefix("0x") if isinstance(value, str | int) else ""
    return found if found.strip("0") else ""


def head_spans(head: Head) -> Iterator[Span]:
    """Yield the first spans of a source."""
    for count, span in enumerate(spans_of(list(head.values))):
        if count == _HEAD_SPANS:
            return
        yield span


def span_steps(source: Source, sessions: Sequence[str], users: Sequence[str]) -> Iterator[Step | Skipped]:
    """Yield a step for each span and log record of a source.

    `sessions` and `users` are the attributes that name these. What names no trace is of one that is called as its
    session is or, without one, as the file.
    """
    name, place = stem(source.name), 0
    for record in values_of(source, LISTS):
        if isinstance(record, Skipped):
            yield record
            continue
        found = list(
            spans_of({**record.value, "resource": record.value.get("resource") or record.head.get("resource")})
        )
        if not found and not _is_empty(record.value):
            yield Skipped(record.line, "it holds neither spans nor log records", record.raw)
        for number, span in enumerate(found, 1):
            session, is_log = span.name_in(*sessions), span.kind == LOG
            trace = span.trace_id or session or name
            stands_in = span.span_id if is_log else span.parent_id
            yield Step(
                place=place,
                line=record.line,
                trace=trace,
                id=stable_id("log", _data(span)) if is_log else f"{trace} {span.span_id or place}",
                parent=f"{trace} {stands_in}" if stands_in else None,
                start=span.start,
                session=session,
                user=span.name_in(*users),
                data=_data(span),
                cut=span.cut or (record.cut and number == len(found)),
            )
            place += 1


def _is_empty(value: Mapping[str, Any]) -> bool:
    """Say whether an object holds metrics, or nothing but empty lists where spans would stand."""
    held = [value[name] for name in (*LISTS, *_SCOPES, *_ITEMS) if name in value]
    empty = [isinstance(items, list) and all(_is_empty(mapping(item)) for item in items) for items in held]
    return any(name in value for name in _METRICS) or (bool(empty) and all(empty))


def _data(span: Span) -> dict[str, Any]:
    data = {f.name: getattr(span, f.name) for f in fields(span)}
    return data | {"events": [{f.name: getattr(event, f.name) for f in fields(event)} for event in span.events]}


def of_step(step: Step) -> Span:
    """Return the span a step was made of."""
    members: dict[str, Any] = {**step.data, "events": tuple(Event(**event) for event in step.data["events"])}
    return Span(**members)


def with_logs(steps: Sequence[Step]) -> list[tuple[Step, Span]]:
    """Return the spans of steps, with the log records written in them among their events.

    Records whose span is not there stand for it, each after the first with those that followed it in that span.
    """
    spans: dict[str, tuple[Step, Span]] = {}
    events: dict[str, list[Event]] = {}
    for step in sorted(steps, key=lambda s: s.data["kind"] == LOG):
        span = of_step(step)
        if span.kind != LOG:
            spans[step.id] = (step, span)
            continue
        key = step.parent or f"log {step.trace}"
        spans.setdefault(key, (step, replace(span, attributes={}, events=(), name="")))
        events.setdefault(key, []).extend(span.events)
    return [
        (step, replace(span, events=(*span.events, *events[key])) if key in events else span)
        for key, (step, span) in spans.items()
    ]
