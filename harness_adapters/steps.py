"""Steps of recorded runs: spans, runs and observations of tracers, gathered into sessions.

Tracers record a tree of steps for each request that an application serves; a session may have several such trees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import orjson

from harness_adapters.adapter import Skipped
from harness_adapters.gather import Gather
from harness_adapters.ids import stable_id

_MAX_DEPTH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded step. `data` is what its adapter reads it from, as JSON."""

    place: int
    """Its index in the file, from 0."""
    line: int
    trace: str
    id: str
    data: dict[str, Any]
    parent: str | None = None
    start: float | None = None
    """Unix seconds."""
    session: str | None = None
    """What the step itself says its session is called."""
    user: str | None = None
    """Whom the step itself says it was for."""
    cut: bool = False
    """Whether its end is missing."""

    @property
    def raw(self) -> bytes:
        """What it was read from, as JSON."""
        return orjson.dumps(self.data)


def sessions(items: Iterable[Step | Skipped], *, from_root: bool = False) -> Iterator[Skipped | tuple[str, list[Step]]]:
    """Yield the sessions among steps, each with its steps in the order in which they began.

    A step belongs to the session that it names or that one above it names, the nearest first or, if `from_root`, the
    topmost; else to the only one that is named in its trace; else its trace is a session. Steps told twice are joined.
    """
    with Gather() as traces, Gather() as found:
        for item in items:
            if isinstance(item, Skipped):
                yield item
            else:
                data = item.raw
                traces.put(item.trace, stable_id("step", item.id, data), _stored(item, data))
        for trace, bodies in traces.groups():
            joined = _joined(bodies)
            for session, step in _named(trace, [step for step, _ in joined.values()], from_root):
                found.put(session, f"{trace} {step.id}", joined[step.id][1])
        for session, bodies in found.groups():
            yield session, _ordered([_loaded(body) for body in bodies])


def _stored(step: Step, data: bytes) -> bytes:
    return orjson.dumps({f.name: getattr(step, f.name) for f in fields(step)} | {"data": orjson.Fragment(data)})


def _loaded(body: bytes) -> Step:
    return Step(**orjson.loads(body))


def _joined(bodies: Iterable[bytes]) -> dict[str, tuple[Step, bytes]]:
    """Put together what was recorded of one step at its beginning and at its end; return each by its id."""
    joined: dict[str, tuple[Step, bytes]] = {}
    for body in bodies:
        step, told = _loaded(body), body
        if step.id in joined:
            before, _ = joined[step.id]
            more = {f.name: getattr(step, f.name) for f in fields(step) if getattr(step, f.name) is not None}
            data = before.data | {k: v for k, v in step.data.items() if v not in (None, {}, [], "")}
            step = replace(before, **more | {"place": before.place, "line": before.line, "data": data})
            told = _stored(step, step.raw)
        joined[step.id] = step, told
    return joined


def above(step: Step, steps: Mapping[str, Step]) -> Iterator[Step]:
    """Yield the steps above a step, the nearest first, and no more than a tree of steps is deep."""
    seen = {step.id}
    while (parent := steps.get(step.parent or "")) and parent.id not in seen and len(seen) < _MAX_DEPTH:
        seen.add(parent.id)
        yield parent
        step = parent


def _named(trace: str, steps: Sequence[Step], from_root: bool) -> Iterator[tuple[str, Step]]:
    by_id = {step.id: step for step in steps}
    every = {step.session for step in steps if step.session}
    sole = next(iter(every)) if len(every) == 1 else trace
    for step in steps:
        names = [s.session for s in (step, *above(step, by_id)) if s.session]
        yield (names[-1 if from_root else 0] if names else sole), step


def _ordered(steps: Sequence[Step]) -> list[Step]:
    by_id = {step.id: step for step in steps}
    keys: dict[str, tuple[float, int, int]] = {}
    last = 0.0
    for step in sorted(steps, key=lambda s: s.place):
        path = list(above(step, by_id))
        # One without a time began with the step it stands in, else where it stands in the file.
        last = next((s.start for s in (step, *path) if s.start is not None), last)
        keys[step.id] = (last, len(path), step.place)
    return sorted(steps, key=lambda step: keys[step.id])
