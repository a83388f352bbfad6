"""Hints by rule: for one signal, the texts that its words, its tool's error or its edit call for."""

import re
from collections.abc import Callable, Iterator, Sequence

from harness_adapters.outcome import rejection_reason
from harness_adapters.trace import Author, Trace
from hinting.cues import family_of
from hinting.grade import failed_calls, function_of
from hinting.hint import Hint, HintSource, new_hint
from hinting.languages import written_language
from hinting.phrases import texts_for
from hinting.sentences import sentences, trim
from hinting.signal import Signal, SignalKind
from hinting.stated import stated
from hinting.tool_phrases import tool_texts

OWN_WORDS = "own_words"
_OWN_SENTENCES, _OWN_CHARS = 3, 300
_OWN = {
    SignalKind.USER_REPEAT: 'Answer this in full: "{words}"',
    SignalKind.REJECTED_ACTION: 'Before acting, respect this: "{words}"',
}
_OWN_OTHERWISE = 'The user says: "{words}"'
_RATING_ALONE = re.compile(r"rated -?[\d.]+")
_LIST_LINE = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", re.MULTILINE)
_MARKUP = re.compile(r"\*\*|^#{1,6} |`", re.MULTILINE)

Drafts = Iterator[tuple[str, str]]


def propose(trace: Trace, signal: Signal, families: Callable[[str], Sequence[str]] = family_of) -> list[Hint]:
    """Return the candidate hints for one signal, the most specific first and the user's own words last.

    Each family found in the evidence gives one to three texts. The own words are one more candidate, but not where
    nobody spoke (a tool's error is the recorded failure itself), nor for an accepted edit: there they are the answer,
    and a teacher shown the answer teaches nothing (Goyal 2026).
    """
    texts: dict[str, str] = {}
    for family, text in (*_by_rule(trace, signal, families), *_own_words(signal)):
        texts.setdefault(text, family)
    return [new_hint(signal, text, HintSource.RULE, family) for text, family in texts.items()]


def _by_rule(trace: Trace, signal: Signal, families: Callable[[str], Sequence[str]]) -> Drafts:
    match signal.kind:
        case SignalKind.TOOL_ERROR_RETRY:
            call = next(iter(failed_calls(trace, signal)), None)
            yield from tool_texts(signal.evidence, call, trace.tools)
        case SignalKind.ACCEPTED_EDIT:
            yield from _by_edit(trace, signal)
        case SignalKind.USER_REPEAT:
            yield from (("repeat", text) for text in texts_for("repeat", signal.evidence))
        case SignalKind.REJECTED_ACTION:
            yield from _by_words(trace, signal, families)
            yield from _by_rejection(trace, signal)
        case _:
            yield from _by_words(trace, signal, families)


def _by_words(trace: Trace, signal: Signal, families: Callable[[str], Sequence[str]]) -> Drafts:
    people = (Author.HUMAN, Author.SIMULATED_USER)
    written = "\n".join(turn.text for turn in trace.turns[: signal.target] if turn.author in people)
    words = _words(signal)
    found = families(words)
    for family in found:
        yield from ((family, text) for text in texts_for(family, words, written))
    yield from (("stated", text) for text in stated(words))
    if not found:
        yield from (("generic", text) for text in texts_for("generic", words, written))


def _by_rejection(trace: Trace, signal: Signal) -> Drafts:
    declared = {str(function_of(tool).get("name")) for tool in trace.tools}
    for call in [call for call in failed_calls(trace, signal) if call.name in declared][:1]:
        yield (
            "rejected_action",
            f"Call `{call.name}` only in a way that the user's wishes allow; choose its arguments anew.",
        )
    yield (
        "rejected_action",
        "Before an action that changes something, take the narrowest form of it that does what was asked.",
    )


def _by_edit(trace: Trace, signal: Signal) -> Drafts:
    """Name what kind of change turned the recorded reply into the text the person kept."""
    before, after = trace.turns[signal.target].text, signal.evidence
    was, now = written_language(before), written_language(after)
    if now and was and now != was:
        yield from (("language", text) for text in texts_for("language", f"in {now}"))
    lists = (len(_LIST_LINE.findall(before)) >= 2, len(_LIST_LINE.findall(after)) >= 2)
    if lists in ((True, False), (False, True)):
        words = "a bulleted list" if lists[1] else "no list"
        yield from (("format", text) for text in texts_for("format", words))
    elif _MARKUP.search(before) and not _MARKUP.search(after):
        yield from (("format", text) for text in texts_for("format", "no markdown"))
    if len(after) <= 0.7 * len(before):
        count = len(sentences(after))
        words = f"at most {count} sentences" if 1 <= count <= 5 and not lists[1] else "shorter"
        yield from (("length", text) for text in texts_for("length", words))
    elif len(after) >= 1.4 * len(before):
        yield from (("length", text) for text in texts_for("length", "more detail"))
    if after.rstrip().endswith("?") and not before.rstrip().endswith("?"):
        yield from (("missing_question", text) for text in texts_for("missing_question", ""))
    for mark, name in (("!", "exclamation marks"), ("sorry", "sorry")):
        if mark in before.lower() and mark not in after.lower():
            yield from (("tone", text) for text in texts_for("tone", name))
    yield from (("generic", text) for text in texts_for("generic", ""))


def _words(signal: Signal) -> str:
    """Return what a person said in the evidence: without a harness's preamble, and nothing for a bare rating."""
    if signal.kind is SignalKind.REJECTED_ACTION:
        return rejection_reason(signal.evidence) or signal.evidence
    return "" if _RATING_ALONE.fullmatch(signal.evidence) else signal.evidence


def _own_words(signal: Signal) -> Drafts:
    """Quote a person as guidance. Quotes inside are changed, as they would end the quote."""
    if signal.kind in (SignalKind.ACCEPTED_EDIT, SignalKind.TOOL_ERROR_RETRY):
        return
    plain = _words(signal).translate(str.maketrans('"[]', "'()"))
    if words := trim(plain, max_sentences=_OWN_SENTENCES, max_chars=_OWN_CHARS):
        yield OWN_WORDS, _OWN.get(signal.kind, _OWN_OTHERWISE).format(words=words)
