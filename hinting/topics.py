"""The words of a message that carry what it is about, and what two messages share of them."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

# Words that say nothing about a topic, so that a message of these and cue words alone asks for nothing new.
_FILLERS = frozenset(
    re.findall(
        r"\S+",
        """
        a asked ask about again all am an and another answer answers any anything are as at back be been before
        bit but by can could did do does done dont else ever every everything explain explanation for form from
        get getting gimme give given go going got had has have he hello help here hey hi how i id if ill im in
        into is isnt it its ive just keep kind know last let lets like little lot made make makes many maybe me
        mean message might more most much must my need needed needs next no not now of off oh ok okay on one
        only or other our out output over part please pls plz point put question reply respond response rewrite
        right said same say saying see send should show so some something sort still stuff such sure tell text
        than thanks that thats the them then there these they thing things think this those though time to too
        try up us use version very want wanted was way we well were what when where which while who why will
        wish with word words work would write writing written yes yet you your youre man dude bro mate sir
        seriously really actually instead previous whole entire der die das den dem ein eine einen ist es ich du
        sie mir mich dir bitte nicht mal noch auch doch und oder aber wie war le la les un une des de est et je
        tu vous moi sil te plait plaît svp stp ce que qui pas plus cest ça fait faites el los las una unos y yo
        tú por favor lo en más esto eso puedes hazlo whats wheres heres theres doesnt didnt couldnt wouldnt cant
        wasnt arent won supposed yourself limit leave feel feels feeling took takes spent times holy moly god
        jesus gosh wow whoa jeez oof ugh kindly guess hmm erm um uh em went goes come coming stop start started
        after until till already first second third minute minutes today friend anymore around down through onto
        own both each doing enough simply quite rather pretty fine alright yeah nah nope mit auf für zu zum zur
        von vom bei ja nein jetzt dann denn also da wir ihr mein meine meinen dein deine ihre unser unsere avec
        dans sur sous au aux à par oui non alors donc maintenant mon ma mes ta tes votre vos nos notre il elle
        nous para sobre al del sí ahora entonces pues mi mis tus su sus se
        """,
    )
)
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
READ_CHARS = 1000
"""How much of a text is read for what it is about."""
_ECHO = re.compile(r"^\W*(?P<echo>[^.!?\n]{2,40}?)\s*[?\uff1f]+(?P<rest>.*)", re.DOTALL)
_ECHO_WORDS = 4
_REMINDER_CHARS, _REMINDER_WORDS = 120, 8
_REMINDS = re.compile(
    r"[?\uff1f]|\b(?:missing|forgot|fehlt|fehlen|noch|manque|falta|faltan|olvid\w+|oubli\w+)\b|[漏缺忘]"
)
_ASKS_ANEW = re.compile(
    r"\s*(?!what about|was ist mit)(what|which|where|when|who|how|why|do|does|did|is|are|can|could|was|wo|wann"
    r"|welche\w*|wer|wie|warum|où|quand|quel\w*|comment|pourquoi|qué|dónde|cuándo|cuál|cómo|por qué)\b"
)
_ENDING = re.compile(r"(?:es|en|er|s|n|e)$")
"""What tells the plural of a word from the word, in most of the languages here."""
_LEFT_OUT = frozenset(["missing", "forgot", "fehlt", "fehlen", "manque", "falta", "faltan"])
_PART = re.compile(r"[.!?;,(\uff1f\uff01\uff0c。]\s*")


def topic_of(text: str) -> frozenset[str]:
    """Return the words of the beginning of a text that say what it is about; of Chinese, its pairs of characters."""
    return _topic_of(text[:READ_CHARS])


@lru_cache(maxsize=256)
def _topic_of(text: str) -> frozenset[str]:
    return _words(text)


def _words(text: str) -> frozenset[str]:
    levelled = re.sub(r"['\u2019]", "", text.lower())
    words = {w for w in _WORD.findall(levelled) if w not in _FILLERS and not _HAN.search(w)}
    han = _HAN.findall(levelled)
    return frozenset(words | {a + b for a, b in pairwise(han)})


def _stems(words: Iterable[str]) -> set[str]:
    return {_ENDING.sub("", word) for word in words}


def same_request(text: str, earlier: str) -> bool:
    """Say whether a message asks again what an earlier one asked, by the overlap of their topic words.

    Words left out make a repeat, words put in the place of others make another request. Needs two topic words.
    """
    now, then = topic_of(text), topic_of(earlier)
    if min(len(now), len(then)) < 2:
        return False
    if now <= then:
        return len(now) >= 0.6 * len(then)
    return then < now and len(then) >= 0.8 * len(now)


def echoes(text: str, answer: str) -> bool:
    """Say whether a message opens by asking back a few words of the answer and goes on: "A double bed? We need two"."""
    found = _ECHO.match(text)
    if found is None or not _WORD.search(found["rest"]):
        return False
    words = topic_of(found["echo"])
    return 0 < len(found["echo"].split()) <= _ECHO_WORDS and bool(words) and words <= topic_of(answer)


def reminds(text: str, earlier: Iterable[str], told: Iterable[str]) -> bool:
    """Say whether a short message asks for, or misses, what its author spoke of before and the agent never did.

    As "And the towels?" does. `earlier` are the author's messages, `told` what the agent said since the first of them.
    """
    parts = [part for part in _PART.split(text[: _REMINDER_CHARS + 1]) if topic_of(part) - _LEFT_OUT]
    if len(text) > _REMINDER_CHARS or not parts or not _REMINDS.search(text.lower()):
        return False
    stems = _stems(topic_of(parts[-1]) - _LEFT_OUT)
    if len(parts[-1].split()) > _REMINDER_WORDS or not any(stems <= _stems(topic_of(said)) for said in earlier):
        return False
    return not _ASKS_ANEW.match(parts[-1].lower()) and not any(stems & _stems(_words(one)) for one in told)
