"""How a person's message reads beside the request and the answer before it: correction, praise, repeat, retraction."""

import re
from functools import lru_cache
from itertools import pairwise

from hinting.cues import FAMILIES, Cue, find_cues, level

READ_CHARS = 400
"""How much of a message is read: complaints come first, and what is pasted behind them is not one."""

# Words that say nothing about a topic, so that a message of these and cue words alone asks for nothing new.
_FILLERS = frozenset(
    re.findall(
        r"\S+",
        """
        a asked ask about again all am an and another answer answers any anything are as at back be been
        before bit but by can could did do does done dont else ever every everything explain explanation for
        form from get getting gimme give given go going got had has have he hello help here hey hi how i id
        if ill im in into is isnt it its ive just keep kind know last let lets like little lot made make
        makes many maybe me mean message might more most much must my need needed needs next no not now of
        off oh ok okay on one only or other our out output over part please pls plz point put question reply
        respond response rewrite right said same say saying see send should show so some something sort
        still stuff such sure tell text than thanks that thats the them then there these they thing things
        think this those though time to too try up us use version very want wanted was way we well were what
        when where which while who why will wish with word words work would write writing written yes yet
        you your youre man dude bro mate sir seriously really actually instead previous whole entire der die
        das den dem ein eine einen ist es ich du sie mir mich dir bitte nicht mal noch auch doch und oder
        aber wie war le la les un une des de est et je tu vous moi sil te plait plaît svp stp ce que qui pas
        plus cest ça fait faites el los las una unos y yo tú por favor lo en más esto eso puedes hazlo whats
        wheres heres theres doesnt didnt couldnt wouldnt cant wasnt arent won supposed yourself limit leave
        feel feels feeling took takes spent times holy moly god jesus gosh wow whoa jeez oof ugh kindly
        guess hmm erm um uh em went goes come coming stop start started after until till already first
        second third minute minutes today friend anymore around down through onto own both each doing enough
        simply quite rather pretty fine alright yeah nah nope
        """,
    )
)
_PRAISE = re.compile(
    r"(?<!no )\b(thanks?|thank you|thx|ty|cheers|perfect(ly)?|great|awesome|excellent|nice|wonderful|brilliant"
    r"|lovely|love (it|this)|good (job|one"
    r"|work|answer|stuff)|well done|exactly( what i)?|got it|works? (great|now|perfectly|well)|that (works"
    r"|helps|helped|did it)|amazing|super|cool"
    r"|much better|fantastic|ideal|appreciate\w*|danke\w*|perfekt|prima|toll|genau|merci|parfait\w*|génial"
    r"|gracias|perfecto|genial|excelente|estupendo)\b"
    r"|谢谢|謝謝|很好|太好了|完美|不错|多谢|棒"
)
_CONTRAST = re.compile(
    r"\b(but|however|though|although|except|next time|could you|can you|please|still|too|aber|jedoch|mais|pero"
    r"|bitte|sans|sin|ohne)\b|但|不过|可是"
)
_EXAGGERATION = re.compile(
    r"\b(thanks|great|nice|awesome|wonderful|wow|lovely|cool),?( for)? (the|that|another|a"
    r"|this) ([\w-]+ )?(novel|essay|book|lecture|wall|sermon|speech"
    r"|dissertation|thesis|encyclop\w+|article|epic|saga)\b"
)
_CLOSING = re.compile(
    r"^(no|nope|nein|non|ok|okay|yes|yep)?[ ,.!]*((thats|that is|that was|that will be|thatll be) (all|it"
    r"|everything|fine|ok|okay|good|great|enough(?=\W*$))"
    r"|nothing( else| more)?|im (good|fine|done|all set)|all (good|set)|das (war|ist) alles|das wars"
    r"|cest (tout|bon)|(eso )?es todo"
    r"|not (now|today|right now|yet)|bye|goodbye|没有了|没了|就这些)\b"
)
_TAKEN_BACK = re.compile(
    r"\b(sorry|oops|whoops|apologies|pardon|ups|entschuldigung|désolée?|perdón)\b[^.?]{0,12}\b(i|ich|je|quise"
    r"|me)\b ?(really |actually )?(meant|mean|misspoke"
    r"|mistyped|forgot|was wrong|typed|shouldve|should have|wrote the wrong|gave you the wrong|meinte|voulais"
    r"|equivoqu\w+|misread|mixed|got|decir)"
    r"|\bmy (mistake|bad|fault|error|typo)\b|\bi (misspoke|mistyped|misread|was wrong|was mistaken|made a (typo"
    r"|mistake)|meant to (say|write|type|ask)"
    r"|should have (said|written|been|specified|mentioned|told)|shouldve (said|been|specified|mentioned)"
    r"|forgot to (say|mention|tell|add))\b"
    r"|\b(scratch that|never ?mind|disregard (that|my)|ignore (that|my))\b|\byou (are|were) right\b|\byoure right\b"
    r"|\b(mein fehler|mein irrtum|ich habe mich (vertippt|geirrt)|mon erreur|ma faute|mi error|me equivoqué"
    r"|culpa mía)\b|我(说|打|写|弄|记)错了|我的错"
)
# How a new request opens; what stands behind it is new as soon as it brings words of its own.
_REQUEST = re.compile(
    r"^(and |so |ok(ay)?,? |now,? |great,? |thanks[,.!]* |thank you[,.!]* |also,? |next,? |then,? |hi,? "
    r"|hello,? |please |pls |hey,? |well,? )*"
    r"((how|what|whats|which|who|whos|where|when|is there|are there|does|do you (know|have)|can (i|we)|could i"
    r"|should i|(can|could|would|will) you|id like|i (would like|need|want)"
    r" (to|you to|a|an|some|help)|write|list|name|give me (a|an|five|some|\d+|three|ten)|tell me|explain"
    r"|translate|summari[sz]e|describe|compare"
    r"|create|generate|draft|compose|suggest|recommend|find|search|show me|calculate|convert|help me|lets"
    r"|let us|add|implement|make (me )?(a|an)|book|cancel|order|check"
    r"|wie|was|wer|wo|wann|welche[rsn]?|schreib\w*|nenne|erkläre?|kannst du|können sie|comment|quel(le)?s?|qui"
    r"|quand|écris|explique|donne|peux-tu"
    r"|cómo|qué|cuál|quién|dónde|escribe|explica|dame|puedes)\b|(写|给我(写|列)|请问|什么|怎么|如何|帮我|翻译|列出"
    r"|介绍|解释))"
)
_PLAINLY_WRONG = re.compile(
    r"\b(wrong|incorrect|told you|i said|not what i|misunderst\w+|confusion|mix-?up|i wanted|i asked|already|falsch"
    r"|missverst\w+|faux|malentendu"
    r"|equivoc\w+)\b|误会|错了"
)
_ASKS_HOW = re.compile(r"\b(how (do|can|should|would|could)|what (should|can|do)) i\b")
_FOLLOW_UP = re.compile(
    r"^(now|next|also|then|and|actually,? lets|lets|additionally|another thing|one more)\b|\balso\b"
)
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")


def reads_as_correction(text: str, *, request: str = "", answer: str = "") -> list[str]:
    """Return the families of the complaint that `text` makes about `answer`, given for `request`; none if it
    makes none."""
    levelled = level(text[:READ_CHARS])
    if not levelled or _CLOSING.match(levelled):
        return []
    read = _without_praise(levelled)
    cues = find_cues(read)
    strong = {cue.family for cue in cues if cue.strong}
    opens_anew = bool(_REQUEST.match(read) or _ASKS_HOW.search(read))
    answers = _answers_a_question(read, answer)
    if opens_anew and _news(read, [cue for cue in cues if cue.strong], request, answer) >= 2:
        strong = set[str]()
    if takes_back(text) and not strong - {"wrong_entity", "generic"}:
        return []
    if answers:
        strong -= {"generic"}
    found = strong
    if not strong - {"generic"} and not answers:
        found = strong | _weak(read, cues, request, answer, opens_anew=opens_anew)
    return [family for family in FAMILIES if family in (found - {"generic"} or found)]


def _weak(read: str, cues: list[Cue], request: str, answer: str, *, opens_anew: bool) -> set[str]:
    """Return the families whose weak cues make a complaint: those beside which the message brings nothing new."""
    follows_up = bool(_FOLLOW_UP.match(read))
    found: set[str] = set()
    for family in {cue.family for cue in cues if not cue.strong}:
        # Complaints of length come in the most wordings, so they may bring a word of their own.
        allowed = 1 if family == "length" and not opens_anew else 0
        own = [cue for cue in cues if cue.family == family]
        if _news(read, own, request, answer) <= allowed and (not follows_up or family in ("length", "tone")):
            found.add(family)
    return found


def negative(text: str) -> bool:
    """Say whether a message has any word against the answer before it, even in passing."""
    levelled = level(text[:READ_CHARS])
    if _CLOSING.match(levelled):
        return False
    cues = find_cues(_without_praise(levelled))
    return any(cue.strong for cue in cues) and not (
        _REQUEST.match(levelled) and all(c.family != "generic" for c in cues)
    )


def is_praise(text: str) -> bool:
    """Say whether a message thanks or praises, and takes nothing of it back."""
    levelled = level(text[:READ_CHARS])
    return bool(_PRAISE.search(levelled)) and not any(cue.strong for cue in find_cues(_without_praise(levelled)))


def takes_back(text: str) -> bool:
    """Say whether the person corrects their own words, so that the answer before was right as far as it could know."""
    return bool(_TAKEN_BACK.search(level(text[:READ_CHARS])))


def same_request(text: str, earlier: str) -> bool:
    """Say whether a message asks again what an earlier one asked, by the overlap of their topic words.

    Words left out make a repeat, words put in the place of others make another request. Needs two topic words.
    """
    now, then = _topic(text), _topic(earlier)
    if min(len(now), len(then)) < 2:
        return False
    if now <= then:
        return len(now) >= 0.6 * len(then)
    return then < now and len(then) >= 0.8 * len(now)


def _without_praise(levelled: str) -> str:
    """Return the text without the sentences that only praise."""
    sentences = re.split(r"(?<=[.!?。])\s*", levelled)
    kept = [s for s in sentences if not _PRAISE.search(s) or _CONTRAST.search(s) or _EXAGGERATION.search(s)]
    return " ".join(kept).strip()


def _answers_a_question(read: str, answer: str) -> bool:
    """Say whether the agent had asked, and nothing in the message says plainly that it had gone wrong before."""
    return answer.rstrip().endswith(("?", "\uff1f")) and not _PLAINLY_WRONG.search(read)


def _news(read: str, cues: list[Cue], request: str, answer: str) -> int:
    """Count the topic words of a message that neither a cue, nor the request, nor the answer before it accounts for."""
    covered = "".join(" " if any(cue.start <= at < cue.end for cue in cues) else c for at, c in enumerate(read))
    return len(_topic(covered) - _topic(request) - _topic(answer))


@lru_cache(maxsize=256)
def _topic(text: str) -> frozenset[str]:
    levelled = re.sub(r"['\u2019]", "", text.lower())
    words = {w for w in _WORD.findall(levelled) if w not in _FILLERS and not _HAN.search(w)}
    han = _HAN.findall(levelled)
    return frozenset(words | {a + b for a, b in pairwise(han)})
