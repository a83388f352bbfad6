"""Words by which people say that an answer was wrong, in families: what the detector finds and the hint writer reads.

A *strong* cue is a complaint wherever it stands ("I stopped reading"). A *weak* one is a complaint only in a message
that asks for nothing new: "shorter, please" is, "write a shorter poem about rain" is not. The tables cover English,
German, French, Spanish and Chinese; what they miss, a model has to find.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from hinting.cue_lists import LISTS
from hinting.cues_english import ENGLISH
from hinting.cues_other import CHINESE, FRENCH, GERMAN, SPANISH

FAMILIES = ("length", "format", "language", "tone", "missing_question", "wrong_entity", "generic")


class Cue(NamedTuple):
    """A cue found in a levelled text: its family, whether it is a complaint by itself, and where it stands."""

    family: str
    strong: bool
    start: int
    end: int


# Set phrases that hold a cue's words and complain of nothing.
_HARMLESS = re.compile(
    r"\bno (rush|worries|problem|hurry|pressure|big deal|doubt|offen[cs]e|kidding|idea|longer|thanks|thank you|thx)\b"
    r"|\bno need to (rush|hurry|worry|apologi[sz]e|be sorry)\b|\bin no (rush|hurry)\b|\bnot (at all|only|to mention)\b"
    r"|(?<=\w )(not|isnt|wasnt|arent|never) (too|very|that|so|overly|at all) (long|short|bad|wordy|verbose|formal"
    r"|much|rude)\b"
    r"|\bnot bad\b|\b(whats|what is|whats the|anything|something|nothing|goes|went|going) wrong\b"
    r"|\bwrong with (my|the|this)\b"
    r"|\b(if im not|correct me if im|unless im) (wrong|mistaken)\b|\bdont (worry|forget|mind|bother|hesitate"
    r"|get me wrong)\b"
    r"|\bthats (not a problem|no problem|right|correct)\b|\bnot (wrong|a problem)\b|\blong time\b|\bas (long"
    r"|soon) as\b"
    r"|\bwhy not\b|\bkein problem\b|\bpas de (problème|souci)\b|\bpas mal\b|\bno (hay problema|pasa nada)\b|没关系"
    r"|不要紧|没问题"
)


@lru_cache(maxsize=1024)
def level(text: str) -> str:
    """Return the text in lower case and single blanks, without apostrophes and harmless set phrases."""
    text = unicodedata.normalize("NFKC", text).lower()
    text = re.sub(r"['`\u2018\u2019\u00b4]", "", text)
    text = re.sub(r"[\"\u201c\u201d\u201e\u00ab\u00bb*_]", " ", text)
    return re.sub(r"\s+", " ", _HARMLESS.sub(" ", re.sub(r"\s+", " ", text))).strip()


@lru_cache(maxsize=256)
def find_cues(levelled: str) -> tuple[Cue, ...]:
    """Return every cue in a text that went through `level`, by where it stands."""
    cues = [
        Cue(family, strong, found.start(), found.end())
        for family, strong, quick, pattern in _patterns()
        if quick(levelled)
        for found in pattern.finditer(levelled)
    ]
    return tuple(sorted(cues, key=lambda cue: (cue.start, cue.end)))


def family_of(text: str) -> list[str]:
    """Return the families a correction belongs to, in the order of FAMILIES.

    Weak cues count only where no strong one says more than that something was wrong; `generic` is named beside other
    families only when a strong cue of it is all that is certain.
    """
    cues = find_cues(level(text))
    found = {cue.family for cue in cues if cue.strong}
    if found - {"generic"}:
        found -= {"generic"}
    else:
        weak = {cue.family for cue in cues}
        found = found | (weak - {"generic"} or weak)
    return [family for family in FAMILIES if family in found]


_CONTINUED = "\n    "
_BREAK = r"\n +"


_AT_WORD = r"(?<!\w)"


class _Pattern(NamedTuple):
    family: str
    strong: bool
    quick: Callable[[str], object]
    """Finds wherever `pattern` does, and in few other texts; what need not begin a word is found faster."""
    pattern: re.Pattern[str]


@cache
def _patterns() -> list[_Pattern]:
    patterns: list[_Pattern] = []
    for table in (ENGLISH, GERMAN, FRENCH, SPANISH):
        patterns += _compiled(table, _AT_WORD + r"(?:%s)(?!\w)")
    return patterns + _compiled(CHINESE, r"(?:%s)")  # no blanks between words, so no boundaries


def _compiled(table: Mapping[str, str], frame: str) -> list[_Pattern]:
    patterns: list[_Pattern] = []
    for family, block in table.items():
        for line in block.replace(_CONTINUED, "").strip().split("\n"):
            body = line.removeprefix("?")
            while found := re.search(r"<([A-Z]+)>", body):
                one_line = re.sub(_BREAK, "", LISTS[found[1]])
                body = body.replace(found[0], f"(?:{one_line})")
            quick = re.compile(frame.removeprefix(_AT_WORD) % body)
            patterns.append(_Pattern(family, not line.startswith("?"), quick.search, re.compile(frame % body)))
    return patterns
