"""What became of a call that Codex made, from the text it was answered with and from what events say of it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness_adapters.fields import mapping, text
from harness_adapters.jsontext import value_in
from harness_adapters.outcome import command_of, outcome_of
from harness_adapters.trace import Outcome

_HEADER = re.compile(r"\A(?P<head>(?:[^\n]*\n){0,6}?)Output:(?:\n|\Z)")
_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (?P<code>-?\d{1,9})(?!\d)", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID (?P<process>\w+)", re.MULTILINE)
# How a refusal begins; the output of a command has a header before it.
_REFUSALS = (
    (
        re.compile(r"\A\s*([\w ]{1,30})?(rejected|denied|declined) by (the )?user\W*\Z", re.IGNORECASE),
        Outcome.REJECTED_BY_HUMAN,
    ),
    (re.compile(r"\A\s*aborted\b", re.IGNORECASE), Outcome.CANCELLED),
    (
        re.compile(r"\A[^\n]{0,400}\byou (should not|cannot) ask for escalated permissions", re.IGNORECASE),
        Outcome.ERROR_AGENT,
    ),
    (
        re.compile(
            r"\A[^\n]{0,400}?(rejected by user approval settings|blocked by policy|policy forbids\b"
            r"|(approval )?required by policy|rejected due to unacceptable risk|blocked by [\w-]+ (hook|sandbox))",
            re.IGNORECASE,
        ),
        Outcome.ERROR_ENV,
    ),
    (re.compile(r"\A\s*([\w ]{1,40} failed:|unsupported (custom |tool )*call\b)", re.IGNORECASE), Outcome.ERROR_AGENT),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """What an event says of a call: how its process ended, or whether it failed."""

    exit_code: int | None = None
    flag: bool | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The text of a result, out of the JSON it may be wrapped in, and what it means."""

    text: str
    outcome: Outcome
    process: str = ""
    """The number of the process that goes on."""
    is_of_process: bool = False
    """Whether it is what a process wrote, and not what the tool itself says."""


def facts_of(events: Iterable[Mapping[str, Any]]) -> dict[str, Fact]:
    """Return what events say of calls, by the call's id."""
    facts: dict[str, Fact] = {}
    for event in events:
        kind = text(event.get("type"))
        item = mapping(event.get("item")) if kind == "item_completed" else event
        code, status = item.get("exit_code"), item.get("status")
        result = mapping(item.get("result"))
        answer = mapping(result.get("Ok")) or result
        flag: bool | None = {"failed": True, "completed": False}.get(text(status))
        if type(item.get("success")) is bool:
            flag = not item["success"]
        if "Err" in result or item.get("error") or True in (answer.get("isError"), answer.get("is_error")):
            flag = True
        if type(code) is int or status == "declined":
            facts[text(item.get("call_id")) or text(item.get("id"))] = Fact(code if status != "declined" else None)
        elif flag is not None:
            facts[text(item.get("call_id")) or text(item.get("id"))] = Fact(flag=flag)
    return facts


def judge(said: str, arguments: str, fact: Fact) -> Judged:
    """Judge a result by its text, the arguments of its call, and what else is known of it."""
    said, exit_code = _unwrapped(said)
    header = _HEADER.match(said)
    body = said[header.end() :] if header else said
    if header is None and exit_code is None and (fact.exit_code is None or fact.exit_code < 0):
        for pattern, outcome in _REFUSALS:
            if pattern.match(said):
                return Judged(said, outcome)
    if exit_code is None and header and (exited := _EXITED.search(header["head"])):
        exit_code = int(exited["code"])
    elif exit_code is None and header and (running := _RUNNING.search(header["head"])):
        return Judged(said, Outcome.STILL_RUNNING, running["process"], True)
    is_of_process = exit_code is not None
    exit_code = fact.exit_code if exit_code is None else exit_code
    flag = None if exit_code is not None else fact.flag
    outcome = outcome_of(body, flag=flag, exit_code=exit_code, command=command_of(arguments))
    return Judged(said, outcome, is_of_process=is_of_process)


def _unwrapped(said: str) -> tuple[str, int | None]:
    """Return the text of `{"output": text, "metadata": {"exit_code": code}}`, as older versions write results."""
    if not said.startswith('{"'):
        return said, None
    document = mapping(value_in(said))
    code = mapping(document.get("metadata")).get("exit_code")
    if not isinstance(document.get("output"), str) or "metadata" not in document:
        return said, None
    return document["output"], code if type(code) is int else None
