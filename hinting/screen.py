"""The screen: a hint must not carry what only hindsight knows, nor orders that do not belong to a user.

A hint that names the answer makes the teacher copy it, and the student learns the answer in place of the reason.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from harness_adapters.messages import text_of
from harness_adapters.trace import Author, Trace, Turn
from hinting.grade import function_of, properties_of
from hinting.hint import Hint
from hinting.sentences import sentences
from hinting.signal import Signal, SignalKind

MAX_SENTENCES, MAX_CHARS = 3, 400
_SPAN_WORDS = 8
_VALUE_CHARS = 3

_REDACTED = re.compile(
    r"\b(?i:redacted)\b|\*{4,}|[\[<{(](?:[A-Z][A-Z_]*[_:#][A-Za-z0-9]+|"
    r"EMAIL|PHONE|NAME|PERSON|SECRET|TOKEN|API_KEY|PASSWORD|ADDRESS|CARD|IBAN|SSN|IP|URL|USER)[\]>})]"
)
_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|violate)\b[^.!?]{0,40}\b(?:rules?|instructions?|prompts?|guidelines?|policy|"
    r"policies|everything|above|previous|safety|training)\b|system prompt|developer (?:mode|message)|\byou are now\b|"
    r"\bfrom now on,? you are\b|jailbreak|\bpretend (?:to be|you)|do anything now|new instructions?:|"
    r"<\|[^|]*\|>|\[/?INST\]|</?s>|<</?SYS>>|</?(?:think|tool_call|tool_response|im_start|im_end)>|"
    r"^\s*(?:system|assistant)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_HINDSIGHT = re.compile(
    r"\bgrad(?:er|ers|ed|ing)\b|\btranscript|\brecord(?:ed|ing|ings)\b|\bhindsight\b|\bin the end\b|\beventually\b|"
    r"\bground[- ]truth\b|\b(?:expected|correct|gold|reference) (?:answer|reply|output|call)\b|"
    r"\b(?:this|the) (?:hint|trial|trace)\b|"
    r"\blater (?:turns?|messages?|repl(?:y|ies)|calls?)\b|\b(?:was|were|been) (?:marked|judged|rejected|corrected)\b|"
    r"\bthe (?:user|person) (?:will|later|then|went on)\b|\bbenchmark\b|\btest case",
    re.IGNORECASE,
)
_MONTHS = (
    "jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni?|july?|juli|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?|janvier|février|avril|juin|juillet|"
    "août|enero|febrero|marzo|abril|mayo|junio|julio|agosto|octubre|noviembre|diciembre"
)
_ENTITY = re.compile(
    r"(?P<url>(?:https?://|www\.)\S+)"
    r"|(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    rf"|(?P<date>\b\d{{1,2}}(?:st|nd|rd|th|\.)? (?:{_MONTHS})\b|\b(?:{_MONTHS})\.? \d{{1,4}}\b)"
    r"|(?P<token>[$€£¥#]?[\w][\w.,:/#+-]*\d[\w.,:/#%+-]*|[$€£¥#]?\d[\w.,:/#%+-]*)",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s*-?\s*(?:char(?:acter)?s?|letters?|words?|tokens?|sentences?|lines?|items?|bullets?|points?|steps?|paragraphs?|rows?|"
    r"columns?|pages?|seconds?|minutes?|hours?|days?|zeichen|wörter|sätze|zeilen|mots|phrases|palabras)\b",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:under|below|above|over|most|least|than|within|exceed|maximum|max|minimum|limit(?: of)?)\s*$", re.I
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)", re.IGNORECASE)


def screen(hint: Hint, trace: Trace, signal: Signal | None = None) -> str | None:
    """Return why a hint must not be tried, or None.

    Codes: `empty`, `too_long`, `redacted`, `injection`, `hindsight`, `tool_values`, `entity`, `verbatim`. The turn
    that shows the error (`signal.shown_by`; without a signal, the first human or tool turn after the target) may be
    quoted, as far as it states a rule and no value.
    """
    text = hint.text.strip()
    if not text:
        return "empty"
    if len(text) > MAX_CHARS or len(sentences(text)) > MAX_SENTENCES:
        return "too_long"
    for code, pattern in (("redacted", _REDACTED), ("injection", _INJECTION), ("hindsight", _HINDSIGHT)):
        if pattern.search(text):
            return code
    if _names_call(text, trace, hint.target):
        return "tool_values"
    known = _known(trace, hint.target)
    values = [*_entities(text), *(value for value in _later_values(trace, hint.target) if _stands_in(value, text))]
    if any(not _stands_in(value, known) for value in values):
        return "entity"
    later, quotable = _later(trace, hint.target, signal)
    allowed = _spans(known) | _spans(quotable)
    return "verbatim" if (_spans(text) & _spans(later)) - allowed else None


def _known(trace: Trace, target: int) -> str:
    """Everything the model was shown before the target turn, as one text."""
    shown = [json.dumps(trace.tools, default=dict, ensure_ascii=False)]
    for turn in trace.turns[:target]:
        shown += [
            turn.text,
            text_of(turn.message.get("content")),
            *(f"{call.name} {call.arguments}" for call in turn.tool_calls),
        ]
    return "\n".join(shown)


def _later(trace: Trace, target: int, signal: Signal | None) -> tuple[str, str]:
    """Return the text of the turns from the target on without the one that may be quoted, and that one's text."""
    rest = trace.turns[target:]
    showing: Turn | None = None
    if signal is not None:
        showing = trace.turns[signal.shown_by] if signal.shown_by is not None else None
    else:
        askers = (Author.HUMAN, Author.SIMULATED_USER, Author.TOOL)
        showing = next((turn for turn in rest[1:] if turn.author in askers), None)
    others = [turn for turn in rest if turn is not showing]
    said = [f"{turn.text}\n{' '.join(call.arguments for call in turn.tool_calls)}" for turn in others]
    evidence = signal.evidence if signal else ""
    if signal is not None and signal.kind is SignalKind.ACCEPTED_EDIT:
        # What the person kept is the answer itself, and no rule.
        return "\n".join([*said, evidence]), ""
    return "\n".join(said), f"{showing.text if showing else ''}\n{evidence}"


def _entities(text: str) -> Iterator[str]:
    """Yield what looks like a value of one case: links, addresses, dates, and words that hold a number.

    Short numbers, ordinals, and numbers that measure a reply ("160 characters", "at most 200") state rules.
    """
    for match in _ENTITY.finditer(text):
        value = match[0].rstrip(".,:;/#+-!?)'\"")
        bare = re.sub(r"[\s.,:-]", "", value)
        counts = bare.isdigit() and (
            _UNIT.match(text, match.start() + len(value)) or _LIMIT.search(text[: match.start()])
        )
        if match["token"] and (counts or (bare.isdigit() and len(value) < 3) or _ORDINAL.fullmatch(value)):
            continue
        if match["token"] and re.fullmatch(r"\d(?:[-–]|\.)\d", value):  # noqa: RUF001 -- ranges are typed with a dash
            continue
        yield value


def _stands_in(value: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def _spans(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + _SPAN_WORDS]) for i in range(len(words) - _SPAN_WORDS + 1)}


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _leaves(inner)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value).strip()


def _later_values(trace: Trace, target: int) -> Iterator[str]:
    """Yield the argument values of the calls from the target turn on, without words that the tools declare."""
    vocabulary = {word.casefold() for tool in trace.tools for word in _words_of(tool)}
    for call in (call for turn in trace.turns[target:] for call in turn.tool_calls):
        try:
            values = list(_leaves(json.loads(call.arguments)))
        except ValueError:
            continue
        yield from (value for value in values if len(value) >= _VALUE_CHARS and value.casefold() not in vocabulary)


def _names_call(text: str, trace: Trace, target: int) -> bool:
    """Say whether a declared tool is named together with a value it is later called with."""
    names = {str(function_of(tool).get("name")) for tool in trace.tools}
    called = {call.name for turn in trace.turns[target:] for call in turn.tool_calls}
    named = any(_stands_in(name, text) for name in names & called)
    return named and any(_stands_in(value, text) for value in _later_values(trace, target))


def _words_of(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tool's name and its arguments' names and types: words a rule may use even where a value is the same."""
    function = function_of(tool)
    yield str(function.get("name"))
    for name, rule in properties_of(function).items():
        yield name
        yield str(rule.get("type"))
