"""Counting and trimming sentences as a reader would: graders, the hint writer and the screen share this one count."""

import re

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MARKER = re.compile(r"^\s*(?:[-*•+>]|#{1,6}|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+")
# A terminator, what may close behind it, then white space; full-width and Devanagari terminators need no space.
_END = re.compile(r"[.!?…؟]+[\"'”’»)\]*_`]*(?=\s)|[。！？।]+[”’」』）]*")  # noqa: RUF001 -- other scripts end sentences so
_BEFORE = r"(?:^|[\s(\[\"'])"
_NEVER_ENDS = re.compile(_BEFORE + r"(?:(?i:e\.g|i\.e|mr|mrs|ms|dr|prof|st|vs|cf|approx|z\.b|d\.h|bzw)|[A-HJ-Z])\.$")
_BEFORE_NUMBERS = re.compile(_BEFORE + r"(?i:no|nr|fig|art|vol|ch|sec|p)\.$")
_RARELY_ENDS = re.compile(_BEFORE + r"(?i:etc|inc|ltd|co|jr|sr|corp|(?:[a-z]\.)+[a-z])\.$|(?:\.{2,}|…)$")
_CAPITAL = re.compile(r"(?!I\b)[^\W\d_a-zß-öø-ÿ]")
_WORD = re.compile(r"\w")


def _units(text: str) -> list[str]:
    """Split text into the stretches no sentence crosses: list items, headings, lines; a wrapped line goes on."""
    units: list[str] = []
    for raw in _FENCE.sub("\ncode\n", text).splitlines():
        line = _MARKER.sub("", raw).strip()
        if not line:
            units.append("")
        elif units and units[-1] and line == raw.strip() and line[0].islower() and units[-1][-1] not in ".!?:…":
            units[-1] += " " + line
        else:
            units.append(line)
    return [unit for unit in units if _WORD.search(unit)]


def _split(unit: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for end in _END.finditer(unit):
        said, rest = unit[start : end.end()].strip(), unit[end.end() :].strip()
        if not rest or not _WORD.search(said) or not _WORD.search(rest):
            continue
        if _NEVER_ENDS.search(said) or (_BEFORE_NUMBERS.search(said) and rest[0].isdigit()):
            continue
        if _RARELY_ENDS.search(said) and not _CAPITAL.match(rest):
            continue
        parts.append(said)
        start = end.end()
    parts.append(unit[start:].strip())
    return parts


def sentences(text: str) -> list[str]:
    """Return the sentences of a reply, in order.

    A list item, a heading and a line are each at least one; text that ends without a full stop is one; a fenced code
    block is one. Decimals, URLs, initials, common abbreviations and dots that trail off end none.
    """
    return [part for unit in _units(text) for part in _split(unit)]


def trim(text: str, *, max_sentences: int, max_chars: int) -> str:
    """Return the first sentences of `text` on one line, cut at a word where they are longer than `max_chars`."""
    kept = " ".join(sentences(text)[:max_sentences])
    if len(kept) <= max_chars:
        return kept
    head = kept[: max_chars - 1]
    return (head.rsplit(None, 1)[0] if " " in head else head) + "…"
