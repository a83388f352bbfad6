"""What every adapter keeps to, over one small file of each shape it reads, and over those files damaged."""

import importlib
import io
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.base import ADAPTERS, adapter_named, detect_adapter, read_traces
from harness_adapters.errors import RecordError
from harness_adapters.records import Unread, read_records
from harness_adapters.source import Source, Unreadable, open_sources
from harness_adapters.trace import Author, Trace, trace_json

MODULES = {"tau_bench": "tau", "tau2": "tau"}


def examples() -> Iterator[tuple[str, str, bytes]]:
    """Yield format, shape and file, out of the tests of each adapter."""
    for adapter in ADAPTERS:
        module = importlib.import_module(f"test_{MODULES.get(adapter.name, adapter.name)}")
        shapes: dict[str, bytes] = getattr(module, "EXAMPLES", {})
        for shape, body in (shapes or {"": module.EXAMPLE}).items():
            if adapter.name not in MODULES or adapter.name in shape or not shape:
                yield adapter.name, shape, body


EXAMPLES = list(examples())
every_example = pytest.mark.parametrize(
    ("name", "shape", "body"), EXAMPLES, ids=[f"{name}-{shape}".strip("-") for name, shape, _ in EXAMPLES]
)


def opened(path: Path) -> Source:
    (source,) = open_sources([str(path)])
    assert isinstance(source, Source)
    return source


def read(body: bytes, adapter: Adapter, path: Path) -> tuple[list[Trace], list[Skipped]]:
    path.write_bytes(body)
    traces: list[Trace] = []
    skipped: list[Skipped] = []
    for source in open_sources([str(path)]):
        assert not isinstance(source, Unreadable)
        for item in read_traces(source, adapter):
            (skipped if isinstance(item, Skipped) else traces).append(item)  # type: ignore[arg-type]
    return traces, skipped


@every_example
def test_each_format_is_told_from_all_others(name: str, shape: str, body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(body)
    for source in open_sources([str(path)]):
        assert isinstance(source, Source)
        assert detect_adapter(source).name == name


@every_example
def test_a_whole_file_is_read_without_a_complaint(name: str, shape: str, body: bytes, tmp_path: Path) -> None:
    traces, skipped = read(body, adapter_named(name), tmp_path / "file")
    assert not skipped
    assert traces
    turns = [turn for trace in traces for turn in trace.turns]
    assert any(turn.author is Author.AGENT for turn in turns)


@pytest.mark.parametrize("name", [adapter.name for adapter in ADAPTERS])
def test_people_are_heard_in_every_format(name: str, tmp_path: Path) -> None:
    bodies = [body for of, _, body in EXAMPLES if of == name]
    turns = [
        t for body in bodies for trace in read(body, adapter_named(name), tmp_path / "file")[0] for t in trace.turns
    ]
    assert any(turn.author in (Author.HUMAN, Author.SIMULATED_USER) for turn in turns)
    assert any(turn.author is Author.TOOL for turn in turns)


@every_example
def test_turns_are_in_order_and_know_their_places_calls_and_outcomes(
    name: str, shape: str, body: bytes, tmp_path: Path
) -> None:
    for trace in read(body, adapter_named(name), tmp_path / "file")[0]:
        assert [turn.index for turn in trace.turns] == list(range(len(trace.turns)))
        for turn in trace.turns:
            assert (turn.outcome is not None) == (turn.author is Author.TOOL)
            assert turn.author is not Author.AGENT or turn.place is not None
            assert isinstance(turn.message.get("role"), str)
        assert trace_json.validate_json(trace_json.dump_json(trace)) == trace


@every_example
def test_reading_again_gives_the_same_sessions(name: str, shape: str, body: bytes, tmp_path: Path) -> None:
    first, _ = read(body, adapter_named(name), tmp_path / "file")
    again, _ = read(body, adapter_named(name), tmp_path / "file")
    assert first == again


@every_example
def test_a_file_behind_itself_holds_nothing_more(name: str, shape: str, body: bytes, tmp_path: Path) -> None:
    once, _ = read(body, adapter_named(name), tmp_path / "file")
    twice, _ = read(body.rstrip() + b"\n" + body, adapter_named(name), tmp_path / "file")
    assert {trace.id for trace in twice} == {trace.id for trace in once}
    assert sum(len(trace.turns) for trace in twice) == sum(len(trace.turns) for trace in once)


@pytest.mark.parametrize("name", [adapter.name for adapter in ADAPTERS])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_damage_makes_a_reader_fail_or_lose_in_silence(name: str, tmp_path: Path, data: st.DataObject) -> None:
    body = data.draw(st.sampled_from([body for of, _, body in EXAMPLES if of == name]))
    damaged = _damaged(body, data)
    traces, skipped = read(damaged, adapter_named(name), tmp_path / "file")
    lost = [part for part in read_records(io.BytesIO(damaged)) if isinstance(part, Unread)]
    lines = body.splitlines()
    if len(lines) > 1 and all(line.startswith(b"{") for line in lines):
        assert len(skipped) >= len(lost)
    else:  # of a document some adapters read a list item by item, so that less of it is lost
        assert skipped or traces or not lost
    for trace in traces:
        trace_json.validate_json(trace_json.dump_json(trace))


def _damaged(body: bytes, data: st.DataObject) -> bytes:
    kind = data.draw(st.sampled_from(["cut", "flip", "drop a line", "odd value", "shuffle lines", "insert"]))
    at = data.draw(st.integers(0, max(len(body) - 1, 0)))
    lines = body.split(b"\n")
    if kind == "cut":
        return body[:at]
    if kind == "flip":
        return body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    if kind == "drop a line":
        del lines[data.draw(st.integers(0, len(lines) - 1))]
        return b"\n".join(lines)
    if kind == "shuffle lines":
        random.Random(at).shuffle(lines)
        return b"\n".join(lines)
    if kind == "insert":
        return body[:at] + data.draw(st.binary(max_size=12)) + body[at:]
    odd = data.draw(
        st.sampled_from([b"null", b"NaN", b"[]", b"{}", b"17", b'"x"', b"1e999", b"true", b'[{"a":[null]}]'])
    )
    values = list(re.finditer(rb':\s*("(?:[^"\\]|\\.)*"|-?[\d.]+|true|false|null|\[\]|\{\})', body))
    if not values:
        return body
    value = data.draw(st.sampled_from(values))
    return body[: value.start(1)] + odd + body[value.end(1) :]


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_make_a_reader_fail(body: bytes) -> None:
    from harness_adapters.records import first_values
    from harness_adapters.source import Head

    head = Head(body, first_values(body))
    for adapter in ADAPTERS:
        adapter.recognises(head)
        for item in adapter.read(Source("x", io.BufferedReader(io.BytesIO(body)), head)):  # type: ignore[arg-type]
            assert item


def test_an_unknown_file_is_said_to_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"hello": "world"}')
    with pytest.raises(RecordError, match=r"claude_code.*openai_chat"):
        detect_adapter(opened(path))
