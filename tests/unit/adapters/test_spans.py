from typing import Any

from adapter_files import head_of, jsonl, source_of
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.adapter import Skipped
from harness_adapters.attributes import plain
from harness_adapters.jsontext import parse
from harness_adapters.spans import LOG, Event, from_otlp_json, head_spans, span_steps, spans_of
from harness_adapters.steps import Step, sessions

SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "parentSpanId": "",
    "name": "a walk",
    "kind": 3,
    "startTimeUnixNano": "1740823200000000000",
    "endTimeUnixNano": 1740823201000000000,
    "attributes": [
        {"key": "steps", "value": {"intValue": "7"}},
        {"key": "dogs", "value": {"arrayValue": {"values": [{"stringValue": "Rex"}, {"boolValue": True}]}}},
        {"key": "way", "value": {"kvlistValue": {"values": [{"key": "to", "value": {"doubleValue": 1.5}}]}}},
        {"key": "none", "value": {}},
    ],
    "events": [{"name": "barked", "timeUnixNano": "1740823200500000000", "attributes": []}],
    "status": {"code": "STATUS_CODE_ERROR", "message": "it rained"},
}
LOGGED = {
    "timeUnixNano": "1740823200000000000",
    "spanId": "eee19b7ec3c1b174",
    "body": {"stringValue": "wet"},
    "attributes": [],
}
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "walks"}}]}


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"spans": list(spans)}]}]}


def snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in k): snake(v) for k, v in value.items()}
    return [snake(item) for item in value] if isinstance(value, list) else value


def test_a_request() -> None:
    (span,) = from_otlp_json(request(SPAN))
    assert (span.name, span.kind, span.parent_id, span.start, span.end) == (
        "a walk",
        "3",
        None,
        1740823200.0,
        1740823201.0,
    )
    assert span.attributes == {"steps": 7, "dogs": ["Rex", True], "way": {"to": 1.5}, "none": None}
    assert span.events == (Event(name="barked", time=1740823200.5, attributes={}),)
    assert (span.status_code, span.status_message, span.error()) == ("ERROR", "it rained", "it rained")
    assert span.resource == {"service.name": "walks"}
    assert list(from_otlp_json(snake(request(SPAN)))) == [span]
    assert list(from_otlp_json(request(SPAN)["resourceSpans"][0])) == [span]
    assert list(spans_of([request(SPAN), {"data": [SPAN]}])) == [span, *spans_of(SPAN)]


def test_a_request_of_logs() -> None:
    (record,) = from_otlp_json({"resourceLogs": [{"scopeLogs": [{"logRecords": [{**LOGGED, "eventName": "rain"}]}]}]})
    assert (record.kind, record.name, record.span_id, record.events[0].body) == (LOG, "rain", "eee19b7ec3c1b174", "wet")


def test_places_and_lines_are_those_of_the_file() -> None:
    body = jsonl(request(SPAN, {**SPAN, "spanId": "2"}), b"{", request({**SPAN, "spanId": "3", "traceId": ""}))
    found = list(span_steps(source_of(body, "walks.jsonl"), (), ()))
    assert [(s.place, s.line, s.trace == SPAN["traceId"]) for s in found if isinstance(s, Step)] == [
        (0, 1, True),
        (1, 1, True),
        (2, 3, False),
    ]
    assert [s.line for s in found if isinstance(s, Skipped)] == [2]
    assert [name for name, _ in (s for s in sessions(found) if not isinstance(s, Skipped))] == [
        SPAN["traceId"],
        "walks",
    ]


def test_an_empty_request_is_no_error_and_one_of_another_shape_is() -> None:
    empty = [{"resourceSpans": []}, request(), {"resourceMetrics": [{"scopeMetrics": []}]}]
    odd = [{"resourceSpans": [{"scopeSpans": [{"spens": [SPAN]}]}]}, {"resourceSpans": 3}, {"x": []}]
    assert list(span_steps(source_of(jsonl(*empty)), (), ())) == []
    assert [type(item) for item in span_steps(source_of(jsonl(*odd)), (), ())] == [Skipped] * 3


def test_a_loop_of_parents_ends() -> None:
    one, other = {**SPAN, "spanId": "1", "parentSpanId": "2"}, {**SPAN, "spanId": "2", "parentSpanId": "1"}
    ((_, steps),) = [
        s for s in sessions(span_steps(source_of(jsonl(request(one, other))), (), ())) if not isinstance(s, Skipped)
    ]
    assert len(steps) == 2


def test_a_document_that_was_cut_off_gives_its_whole_spans() -> None:
    body = jsonl(request(SPAN, {**SPAN, "spanId": "2"}))[:-40]
    found = list(span_steps(source_of(body), (), ()))
    assert [type(item) for item in found] == [Skipped, Step, Step]
    assert [item.cut for item in found if isinstance(item, Step)] == [False, True]
    assert len(list(head_spans(head_of(body)))) == 2


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = ["key", "value", "values", "intValue", "spans", "attributes", "traceId"]
    lists = st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=3)})})
    return lists | st.fixed_dictionaries({"kvlistValue": inner}) | st.dictionaries(st.sampled_from(names), inner)


_texts = st.text(max_size=5)
_values = st.recursive(st.fixed_dictionaries({"stringValue": _texts}) | st.none() | st.integers() | _texts, _deeper)


@given(_values)
def test_anything_is_read(value: Any) -> None:
    plain(value)
    list(spans_of(value))
    list(
        from_otlp_json(
            {"resourceSpans": value, "scopeSpans": [{"spans": [value, {"attributes": value, "events": value}]}]}
        )
    )


def test_numbers_that_no_other_reader_takes_are_read_as_elsewhere() -> None:
    assert parse(b'[NaN, 1e999, 100000000000000000000, 18446744073709551615, "x"]') == [
        None,
        None,
        1e20,
        2**64 - 1,
        "x",
    ]
    assert parse(b"[NaN, 1" + b"0" * 400 + b"]") == [None, None]
