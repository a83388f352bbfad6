"""Model calls and runs of tools, found among recorded steps and made into exchanges.

A model call holds the whole history, and makes an exchange. The run of a tool tells what became of a call, and gives
its result where no model call shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from harness_adapters.adapter import Item, Skipped
from harness_adapters.chatlike import with_ids
from harness_adapters.chatparts import Chat, loose
from harness_adapters.exchange import Exchange
from harness_adapters.gather import Gather
from harness_adapters.history import answer_key, history_keys
from harness_adapters.messages import canonical
from harness_adapters.notes import Notes
from harness_adapters.recorded import make_exchange
from harness_adapters.records import Record
from harness_adapters.steps import Step, above, sessions
from harness_adapters.stitch import order
from harness_adapters.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A step that asked a model. `request` and `answers` are in OpenAI's chat shape."""

    step: Step
    request: Chat
    answers: Sequence[Chat] = ()
    error: str | None = None
    response_id: str | None = None
    weak: bool = False
    """Whether it only sums up the calls of an agent; it is told where its trace has no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """A step that ran a tool. `result` is None where none was recorded."""

    step: Step
    call_id: str
    name: str
    arguments: str = ""
    result: Any = None
    failed: bool = False
    sure: bool = True
    """Whether it is known to be a tool's; else it is one only if it carries out a call."""


@dataclass(slots=True)
class _Told:
    """A model call, its history, its answers, and the results of calls in these that no history shows."""

    call: ModelCall
    messages: list[Chat]
    answers: list[Chat]
    unshown: list[tuple[ToolRun, Chat]] = field(default_factory=list[tuple[ToolRun, Chat]])


def read_steps(
    harness: str,
    steps: Iterable[Step | Skipped],
    meaning: Callable[[Sequence[Step], Notes], Iterable[ModelCall | ToolRun | Trace]],
    *,
    from_root: bool = False,
) -> Iterator[Item]:
    """Yield what the steps of a source make. `meaning` says what a session's steps are, as far as they are any of it.

    Sessions are found as `sessions` says; where none is named, a trace that goes on from another is of its session.
    """
    notes, numbers = Notes(), count()
    with Gather() as answered:
        for item in sessions(steps, from_root=from_root):
            if isinstance(item, Skipped):
                yield item
                continue
            session, of_session = item
            calls: list[ModelCall] = []
            runs: list[ToolRun] = []
            for meant in meaning(of_session, notes):
                if isinstance(meant, Trace):
                    yield meant
                elif isinstance(meant, ToolRun):
                    runs.append(meant)
                else:
                    calls.append(meant)
            by_id = {step.id: step for step in of_session}
            told = [_told(call) for call in _counted(calls, by_id)]
            failed = _settle(told, runs, by_id, notes)
            if told and session == of_session[0].trace:
                session = _going_on(session, told, failed, answered)
            for exchange in _exchanges(harness, session, by_id, told, failed):
                yield replace(exchange, sequence=next(numbers))
    yield from notes.told()


def _going_on(session: str, told: Sequence[_Told], failed: set[str], answered: Gather) -> str:
    """Return the session that the calls of a trace go on from, by what was answered before; else that given."""
    first = told[0].messages
    session = next((s for key in history_keys("", {"messages": first}) if (s := answered.noted(key))), session)
    failed |= {c for m in first if (c := str(m.get("tool_call_id"))) and answered.noted(f"failed {session} {c}")}
    for call_id in failed:
        answered.note(f"failed {session} {call_id}", "known")
    for one in told:
        if one.answers:
            answer = {"choices": [{"message": one.answers[0]}]}
            answered.note(answer_key("", {"messages": one.messages}, answer) or "", session)
    return session


def _exchanges(
    harness: str, session: str, steps: Mapping[str, Step], told: Sequence[_Told], failed: set[str]
) -> list[Exchange]:
    users = {step.trace: step.user for step in reversed(list(steps.values())) if step.user}
    made: list[Exchange] = []
    for one in told:
        step = one.call.step
        user = next((s.user for s in (step, *above(step, steps)) if s.user), users.get(step.trace))
        named = partial(_exchange, one, harness=harness, session=session, user=user)
        messages = [_marked(message, failed) for message in one.messages]
        made.append(named(messages))
        messages = [*messages, *one.answers[:1]]
        for run, result in one.unshown:
            messages = [*messages, result]
            made.append(named(messages, run))
    return order(replace(exchange, sequence=n) for n, exchange in enumerate(made))


def _counted(calls: Sequence[ModelCall], by_id: Mapping[str, Step]) -> list[ModelCall]:
    """Leave out the second record of a call that a framework and the client below it both made."""
    strong = {call.step.trace for call in calls if not call.weak}
    kept: dict[str, ModelCall] = {}
    for call in calls:
        holders = [kept[s.id] for s in above(call.step, by_id) if s.id in kept]
        if call.weak and (call.step.trace in strong or holders):
            continue
        if not any(_same(holder, call) for holder in holders):
            kept[call.step.id] = call
    return list(kept.values())


def _same(one: ModelCall, other: ModelCall) -> bool:
    return [_saying(m) for m in one.answers[:1]] == [_saying(m) for m in other.answers[:1]]


def _saying(message: Chat) -> tuple[str, list[str]]:
    return str(message.get("content")).strip(), [call["function"]["name"] for call in message.get("tool_calls") or []]


def _told(call: ModelCall) -> _Told:
    messages, answers = list(call.request["messages"]), list(call.answers)
    if len(answers) > len(messages) and [*map(canonical, messages)] == [*map(canonical, answers[: len(messages)])]:
        answers = answers[len(messages) :]  # an agent's state at its end begins with that at its beginning
    if any(answer["role"] != "assistant" for answer in answers):
        at = len(answers) - (answers[-1]["role"] == "assistant")
        messages, answers = messages + answers[:at], answers[at:]
    named = with_ids([*messages, *answers[:1]])
    return _Told(call, named[: len(messages)], [*named[len(messages) :], *answers[1:]])


def _settle(told: Sequence[_Told], runs: Sequence[ToolRun], by_id: Mapping[str, Step], notes: Notes) -> set[str]:
    """Find the calls that the runs of tools carried out, and add results that are not shown. Returns what failed."""
    said: dict[str, Chat] = {}
    owners: dict[str, _Told] = {}
    for one in told:
        said |= {call["id"]: call["function"] for m in one.messages for call in m.get("tool_calls") or ()}
        for call in one.answers[0].get("tool_calls") or () if one.answers else ():
            said[call["id"]], owners[call["id"]] = call["function"], one
    known = {run.call_id for run in runs}
    open_calls = [call_id for call_id in said if call_id not in known]
    of_step: dict[str, str] = {}
    found: dict[str, ToolRun] = {}
    for run in runs:
        # A call to an MCP server may be recorded by the agent, the client and the server: they stand in one another.
        outer = next((of_step[s.id] for s in above(run.step, by_id) if s.id in of_step), None)
        call_id = run.call_id if run.call_id in said else None
        if call_id is None and outer is not None and said[outer]["name"] in (run.name, ""):
            call_id = outer
        if call_id is None:
            call_id = _fitting(run, open_calls, said)
        if call_id is None:
            if outer is None and run.sure:
                notes.add("tools ran for calls that no model call in their session shows", run.step)
            continue
        of_step[run.step.id] = call_id
        before = found.get(call_id, run)
        result = run.result if before.result is None else before.result
        found[call_id] = replace(before, result=result, failed=run.failed or before.failed)
    shown = {call["id"] for one in told for m in one.messages for call in m.get("tool_calls") or ()}
    for call_id, run in found.items():
        if call_id in owners and call_id not in shown and run.result is not None:
            owners[call_id].unshown.append((run, _result(call_id, run)))
    for one in told:
        one.messages = _completed(one.messages, found)
    return {call_id for call_id, run in found.items() if run.failed}


def _result(call_id: str, run: ToolRun) -> Chat:
    message: Chat = {"role": "tool", "tool_call_id": call_id, "content": run.result}
    return message | ({"is_error": True} if run.failed else {})


def _completed(messages: Sequence[Chat], found: Mapping[str, ToolRun]) -> list[Chat]:
    """Put the results of tools where a history goes on behind their calls without them."""
    told = {message.get("tool_call_id") for message in messages if message["role"] == "tool"}
    whole: list[Chat] = []
    missing: list[str] = []
    asked: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            # A result of a call by another id may well be the one that is missing.
            missing = missing if message.get("tool_call_id") in asked else []
        else:
            whole += [_result(call_id, found[call_id]) for call_id in missing]
            asked = [call["id"] for call in message.get("tool_calls") or ()]
            missing = [c for c in asked if c not in told and c in found and found[c].result is not None]
        whole.append(message)
    if messages and messages[-1]["role"] == "tool":
        whole += [_result(call_id, found[call_id]) for call_id in missing]
    return whole


def _fitting(run: ToolRun, open_calls: list[str], said: Mapping[str, Chat]) -> str | None:
    named = [call_id for call_id in open_calls if said[call_id]["name"] == run.name]
    arguments = loose(run.arguments)[0]
    alike = [call_id for call_id in named if loose(said[call_id]["arguments"])[0] == arguments]
    for call_id in alike if run.call_id else (*alike, *named):
        open_calls.remove(call_id)
        return call_id
    return None


def _marked(message: Chat, failed: set[str]) -> Chat:
    is_failed = message["role"] == "tool" and message.get("tool_call_id") in failed
    return {**message, "is_error": True} if is_failed else message


def _exchange(
    one: _Told, messages: list[Chat], run: ToolRun | None = None, *, harness: str, session: str, user: str | None
) -> Exchange:
    """Make the exchange of a model call or, of `run`, one of a history that ends with its result."""
    call, step = one.call, run.step if run else one.call.step
    answers = [] if run else one.answers
    request = {**call.request, "messages": messages}
    if step.cut or call.request.get("cut"):
        request["cut"] = True
    response = None
    if answers:
        choices = [{"index": n, "message": message, "finish_reason": None} for n, message in enumerate(answers)]
        response = {"id": call.response_id or step.id, "choices": choices}
    return make_exchange(
        harness,
        Record(step.place, step.line, step.data),
        request,
        response,
        endpoint="/v1/chat/completions",
        error=None if answers or run else call.error,
        session=session,
        user=user,
        started_at=step.start,
    )
