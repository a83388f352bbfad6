"""What became of a tool call, judged from its result: explicit flag, then exit code, then the start of the text.

The body is never searched for the word "error": a page that speaks of errors is a success. Patterns are anchored at the
start of the result, and the meaning of an exit code depends on the command (grep answers 1 for "nothing found").
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from harness_adapters.trace import Outcome

_REJECTED = re.compile(
    r"(the )?user (doesn't|does not|did not|didn't) (want|approve|allow)|(the )?user (rejected|declined|denied"
    r"|cancelled)"
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
_ERROR = re.compile(
    r"(<tool_use_error>|<error>|\[error\]|[\w.]*(error|exception)(\s+\w+){0,6}?\s*[:(\[]"
    r"|traceback \(most recent call last\)"
    r"|fatal:|failure:|failed to\b|\d+ validation errors?\b|validation (error|feedback)"
    r"|invalid (\w+ ){0,3}(argument|parameter|input|value|json|call)"
    r"|unknown (tool|function)|(tool|function) \S+ (not found|does not exist|is not available)|no such (tool"
    r"|file|function|command)"
    r"|(/bin/)?(ba|z)?sh: |command not found|your proposed edit has introduced new syntax error|did you mean\b"
    r"|(execution|command|request|tool( call)?) (has )?timed? ?out|timed? ?out\b|mcp error|http(/\S+)? [45]\d\d\b"
    r"|access denied|permission denied|unauthorized|rate limit|too many requests|service unavailable"
    r"|internal server error"
    r"|connection (refused|reset|error|timed out))",
    re.IGNORECASE,
)
_ASKS_FOR_RETRY = re.compile(r"fix the errors? and try again\.?\s*$", re.IGNORECASE)
_ENVIRONMENT = re.compile(
    r"timed? ?out|rate.?limit|too many requests|(http|status|code)( error)?\W{0,3}(429|50[0234])\b"
    r"|service (is )?unavailable"
    r"|temporar(il)?y (unavailable|failure|error|down)|bad gateway|internal (server )?error|econn\w+"
    r"|quota exceeded|overloaded"
    r"|connection (was )?(refused|reset|error|aborted|closed)|network (error|is|was)|unreachable|name resolution"
    r"|out of memory|no space left|try again later|under maintenance",
    re.IGNORECASE,
)
_EXIT_CODE = re.compile(
    r"((process|command) )?(exit(ed with)?[ _](code|status)|exited with|return ?code)\s*[:=]?\s*(?P<code>-?\d+)",
    re.IGNORECASE,
)
_HEADER_LINES = 6
# Commands that answer 1 for "no" rather than "failed", alone or at the end of a pipe.
_ONE_MEANS_NO = re.compile(
    r"(^|[|;&(]\s*|['\"\[]\s*)(\w+=\S* )*(sudo )?(/\S*/)?(e|f|r|git )?(grep|rg|diff|cmp|test|\[|pgrep|which|ag)\b"
)


def outcome_of(text: str, *, flag: bool | None = None, exit_code: int | None = None, command: str = "") -> Outcome:
    """Judge one tool result.

    `flag` is the format's own error flag (true: failed), `exit_code` the recorded one (looked for at the start of the
    text where it was not recorded), `command` the shell command if the call was one. UNKNOWN means that nothing was
    said either way.
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
    if _ERROR.match(start) or _ASKS_FOR_RETRY.search(start):
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
            return " ".join(str(word) for word in cast("list[object]", value))
    return ""


def _header(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n", _HEADER_LINES)[:_HEADER_LINES]]


def _failure(text: str) -> Outcome:
    return Outcome.ERROR_ENV if _ENVIRONMENT.search(text[:300]) else Outcome.ERROR_AGENT


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
    return None


def _by_exit_code(code: int, text: str, command: str) -> Outcome:
    if code == 0:
        return _success(text)
    if code == -1:
        return Outcome.STILL_RUNNING
    if code == 1 and _ONE_MEANS_NO.search(command.strip().split("\n")[-1]):
        return Outcome.OK_EMPTY
    if code in (130, 143):
        return Outcome.CANCELLED
    if code in (124, 137):
        return Outcome.ERROR_ENV
    return Outcome.ERROR_AGENT


def _by_document(document: Mapping[str, Any] | list[Any]) -> Outcome:
    if not document:
        return Outcome.OK_EMPTY
    if isinstance(document, list):
        return Outcome.OK
    error = document.get("error") or document.get("errors")
    if error:
        return _failure(json.dumps(error)) if error is not True else _failure(str(document.get("message", "")))
    if document.get("isError") is True or document.get("success") is False or document.get("ok") is False:
        return _failure(str(document.get("message", "")))
    if str(document.get("status", "")).lower() in ("error", "failed", "failure"):
        return _failure(str(document.get("message", "")))
    return Outcome.OK


def _document(text: str) -> Mapping[str, Any] | list[Any] | None:
    if text[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping | list) else None


_REASON = re.compile(r"\bthe user said:\s*(?P<reason>.+)\Z", re.IGNORECASE | re.DOTALL)


def rejection_reason(text: str) -> str | None:
    """Return what the person said who rejected a call, where the harness passes it on."""
    found = _REASON.search(text)
    return found["reason"].strip() if found else None
