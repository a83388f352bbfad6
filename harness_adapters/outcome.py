"""What became of a tool call, judged from its result: explicit flag, then exit code, then the start of the text.

The body is never searched for the word "error": a page that speaks of errors is a success. Patterns are anchored at the
start of the result, but for an exit code that ends a short one. What a code means depends on the command (grep answers
1 for "nothing found").
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from harness_adapters.failures import failed_document, failed_text, is_environment
from harness_adapters.trace import Outcome

_REJECTED = re.compile(
    r"(the )?user (doesn't|does not|did not|didn't) (want|approve|allow)"
    r"|(the )?user (rejected|declined|denied|cancelled) (this|the|your|that|it\b)( \w+)? ?(tool|call|action|command"
    r"|request|use|edit"
    r"|operation|change|permission|execution|plan)?"
    r"|(the )?user (rejected|declined|denied)\W*$"
    r"|(action|tool use|tool call|command) (was )?(rejected|denied|declined) by (the )?user|user_rejected",
    re.IGNORECASE,
)
_CANCELLED = re.compile(r"\[?request interrupted|(operation |tool call )?cancell?ed\b|aborted by|\^C", re.IGNORECASE)
_RUNNING = re.compile(r"((command|process) (is )?)?still running\b|process running with\b", re.IGNORECASE)
_EMPTY = re.compile(
    r"(\[\s*\]|\{\s*\}|null|none|\"\"|\(no (output|content)\)|no (files|matches|matching \w+|results"
    r"|data) (were )?found"
    r"|no (results|matches|output))\.?\s*$",
    re.IGNORECASE,
)
_ASKS_FOR_RETRY = re.compile(r"fix the errors? and try again\.?\s*$", re.IGNORECASE)
_EXIT_CODE = re.compile(
    r"((process|command) )?(exit(ed with)?[ _](code|status)|exited with|return ?code)\s*[:=]?\s*"
    r"(?P<code>-?\d{1,9})(?!\d)",
    re.IGNORECASE,
)
# What a short result ends in where the command, or the tool, tells its exit code last: on a line, or in brackets.
_LAST_CODE = re.compile(
    r"(?:^|\((?=[^()]*\)\s*\Z))"
    r"(?:rc|exit[ _](?:code|status)|return ?code|code (?:de )?retour|rückgabewert|código de salida|退出码)"
    r"[ :=]{1,3}(?P<code>\d{1,3})\)?\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)
_SHORT = 400
_TELLS_CODE = re.compile(r"(;|\|\||&&|\n)\s{0,9}echo\b[^;|&\n]{0,80}\$\?[^;|&\n]{0,80}\s{0,9}\Z")
_HEADER_LINES = 6
# Commands that answer 1 for "no" rather than "failed".
_ONE_MEANS_NO = re.compile(
    r"(\w+=\S* |sudo |xargs (-\S+ )*|time )*(/\S*/)?(e|f|r|z|git )?(grep|rg|diff|cmp|test|\[|pgrep|which|ag"
    r"|command -v)(\s|$)"
)
_PROBES = re.compile(r"(sudo )?(ls|stat|cat|find|which|command|test|head|file)\b.*2>\s?/dev/null", re.DOTALL)
_QUOTED = re.compile(r"'[^']*+'?|\"(?:[^\"\\]++|\\.)*+\"?")
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh -\w*c (?P<quote>['\"])(?P<script>.*)(?P=quote)\s*\Z", re.DOTALL)
_NEXT = re.compile(r"&&|\|\||[;|\n]")


def outcome_of(text: str, *, flag: bool | None = None, exit_code: int | None = None, command: str = "") -> Outcome:
    """Judge one tool result.

    `flag` is the format's own error flag (true: failed), `exit_code` the recorded one (looked for at the start of the
    text, and at the end of a short one, where it was not recorded), `command` the shell command if the call was one.
    UNKNOWN means that nothing was said either way.
    """
    start = text.lstrip()
    if _REJECTED.match(start) and flag is not False:
        return Outcome.REJECTED_BY_HUMAN
    if flag is True:
        return Outcome.CANCELLED if _CANCELLED.match(start) else _failure(start)
    if flag is False:
        return _success(start)
    if exit_code is None:
        exit_code = _exit_code(start)
    if exit_code is not None:
        return _by_exit_code(exit_code, start, command)
    if any(_RUNNING.match(line) for line in _header(start)):
        return Outcome.STILL_RUNNING
    if _CANCELLED.match(start):
        return Outcome.CANCELLED
    document = _document(start)
    if document is not None:
        return _by_document(document)
    if not start or _EMPTY.match(start):
        return Outcome.OK_EMPTY
    if failed_text(start) or _ASKS_FOR_RETRY.search(start):
        return _failure(start)
    return Outcome.UNKNOWN


def error_flag(message: Mapping[str, Any]) -> bool | None:
    """Return the error flag that some harness put on a tool message; None where there is none."""
    for name in ("is_error", "isError", "error"):
        if isinstance(message.get(name), bool):
            return message[name]
    return {"error": True, "success": False}.get(str(message.get("status")))


def command_of(arguments: str) -> str:
    """Return the shell command in a call's arguments; empty where it holds none."""
    document = _document(arguments)
    if not isinstance(document, Mapping):
        return ""
    for name in ("command", "cmd", "script"):
        value = document.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            words = [str(word) for word in cast("list[object]", value)]
            # Of a script that a shell is given, the script.
            return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return ""


def _header(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n", _HEADER_LINES)[:_HEADER_LINES]]


def _failure(text: str) -> Outcome:
    return Outcome.ERROR_ENV if is_environment(text) else Outcome.ERROR_AGENT


def _success(text: str) -> Outcome:
    return Outcome.OK_EMPTY if not text or _EMPTY.match(text) else Outcome.OK


def _exit_code(text: str) -> int | None:
    document = _document(text)
    if isinstance(document, Mapping):
        inner = document.get("metadata")
        for holder in (document, inner if isinstance(inner, Mapping) else {}):
            for name in ("exit_code", "exitCode", "returncode", "return_code"):
                if type(holder.get(name)) is int:
                    return holder[name]
        return None
    for line in _header(text):
        if line.lower().startswith("output:"):
            break
        if found := _EXIT_CODE.match(line):
            return int(found["code"])
    last = _LAST_CODE.search(text) if len(text) <= _SHORT else None
    return int(last["code"]) if last else None


def _by_exit_code(code: int, text: str, command: str) -> Outcome:
    if code == 0:
        return _success(text)
    if code < 0:  # ended by a signal
        return Outcome.CANCELLED if code in (-2, -15) else Outcome.ERROR_ENV
    if code == 1 and _ONE_MEANS_NO.match(_last_command(command)):
        return Outcome.OK_EMPTY
    if code <= 2 and _LAST_CODE.fullmatch(text.strip()) and _PROBES.match(_last_command(command)):
        return Outcome.OK_EMPTY  # a probe: it hides the error and shows only whether there was one
    if code in (130, 143):
        return Outcome.CANCELLED
    if code in (124, 137):
        return Outcome.ERROR_ENV
    return Outcome.ERROR_AGENT


def _last_command(command: str) -> str:
    """Return the last simple command of a line, whose exit code is the line's or the one that the line prints."""
    if script := _SHELL.match(command.strip()):
        command = script["script"]
    command = _TELLS_CODE.sub("", command)
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), command.strip())
    start = max((end.end() for end in _NEXT.finditer(masked)), default=0)
    return command.strip()[start:].lstrip(" (")


def _by_document(document: Mapping[str, Any] | list[Any]) -> Outcome:
    if not document:
        return Outcome.OK_EMPTY
    if isinstance(document, list):
        return Outcome.OK
    if failed_document(document):
        return _failure(json.dumps(document, ensure_ascii=False))
    return Outcome.OK


def _document(text: str) -> Mapping[str, Any] | list[Any] | None:
    if text[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping | list) else None


_REASON = re.compile(
    r"\b(?:the user said|with the following message|reason):\s*(?P<reason>.+)\Z", re.IGNORECASE | re.DOTALL
)


def rejection_reason(text: str) -> str | None:
    """Return what the person said who rejected a call, where the harness passes it on."""
    found = _REASON.search(text)
    return found["reason"].strip() if found else None
