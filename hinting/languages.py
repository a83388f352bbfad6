"""Which language a person asks for or writes in, for the languages that can be told by script or by common words."""

import re
from typing import NamedTuple

from hinting.negation import negated


class _Language(NamedTuple):
    name: str
    called: str
    """Names people give it, as an alternation."""
    words: str = ""
    """Common words that few other languages share."""
    script: str = ""
    """A character class; only for languages with a script of their own here."""


_LANGUAGES = (
    _Language(
        "English",
        "english|englisch|anglais|inglés|inglese|inglês|engels",
        "the and is you what please with this are how",
    ),
    _Language(
        "German", "german|deutsch|allemand|alemán|tedesco", "der die das und ist nicht bitte ich mit auf wie ein"
    ),
    _Language(
        "French", "french|français|francais|französisch|francés", "le les est une pas vous merci dans je que avec des"
    ),
    _Language(
        "Spanish",
        "spanish|español|espanol|castellano|spanisch|espagnol",
        "el los es una por favor no qué cómo gracias con y",
    ),
    _Language("Italian", "italian|italiano|italienisch|italien", "il gli è una per favore non che come grazie sono di"),
    _Language("Portuguese", "portuguese|português|portugues", "os uma não por favor obrigado você como é com em"),
    _Language("Dutch", "dutch|nederlands|niederländisch", "het een niet alstublieft ik je wat hoe en van met"),
    _Language("Polish", "polish|polski|po polsku", "jest nie proszę jak się czy dziękuję na do w"),
    _Language("Swedish", "swedish|svenska|på svenska", "är inte och det jag hur tack att som en"),
    _Language("Turkish", "turkish|türkçe|turkce", "ve bir bu lütfen değil için ne teşekkürler çok ama"),
    _Language("Ukrainian", "ukrainian|українською|українська", script="[іїєґІЇЄҐ]"),
    _Language("Russian", "russian|русский|по-русски|на русском", script="[\u0400-\u04ff]"),
    _Language("Japanese", "japanese|日本語", script="[\u3040-\u30ff]"),
    _Language("Korean", "korean|한국어", script="[\uac00-\ud7af]"),
    _Language("Chinese", "chinese|mandarin|中文|汉语", script="[\u4e00-\u9fff]"),
    _Language("Arabic", "arabic|العربية", script="[\u0600-\u06ff]"),
    _Language("Hebrew", "hebrew|עברית", script="[\u0590-\u05ff]"),
    _Language("Greek", "greek|ελληνικά", script="[\u0370-\u03ff]"),
    _Language("Hindi", "hindi|हिन्दी|हिंदी", script="[\u0900-\u097f]"),
    _Language("Thai", "thai|ภาษาไทย", script="[\u0e00-\u0e7f]"),
)


def asked_language(text: str) -> str | None:
    """Return the language a text asks for by name, passing over those it does not want."""
    named = sorted(
        (match.start(), language.name)
        for language in _LANGUAGES
        for match in re.finditer(rf"(?<![a-z])(?:{language.called})(?![a-z])", text, re.IGNORECASE)
    )
    return next((name for at, name in named if not negated(text, at)), None)


def written_language(text: str) -> str | None:
    """Return the language a text is written in; None where too little tells it."""
    for language in _LANGUAGES:
        if language.script and len(re.findall(language.script, text)) >= 2:
            return language.name
    words = set(re.findall(r"[^\W\d_]+", text.lower()))
    counts = sorted(((len(words & set(lang.words.split())), lang.name) for lang in _LANGUAGES), reverse=True)
    return counts[0][1] if counts[0][0] >= 2 and counts[0][0] > counts[1][0] else None
