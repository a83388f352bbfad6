"""How a person's message reads beside the request and the answer before it: correction, praise, repeat, retraction."""

import re
from collections.abc import Sequence

from hinting.asking import READ_CHARS, ends_in_offer, ends_in_question, follows_up, opens_request
from hinting.cues import FAMILIES, Cue, find_cues, level
from hinting.sentences import sentences
from hinting.topics import topic_of

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
    r"|bitte|sans|sin|ohne|allerdings|toutefois|cependant|par contre|en revanche|sin embargo|aunque|solo que"
    r"|only (that|thing)|just that)\b|但|不过|可是|只是|就是"
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
_PLAINLY_WRONG = re.compile(
    r"\b(wrong|incorrect|told you|i said|not what i|misunderst\w+|confusion|mix-?up|i wanted|i asked|already|falsch"
    r"|missverst\w+|faux|malentendu"
    r"|equivoc\w+|why i asked|i mentioned|as i (said|asked|wrote)|(se|te) (lo|la) (dije|puse|pedí)|te (decía|dije"
    r"|puse)|comme je"
    r"|(schon|doch|bereits) gesagt|steht \w* ?oben)\b|误会|错了|我(已经|都|刚)?说过|我说的是"
)
_ASKS_HOW = re.compile(r"\b(how (do|can|should|would|could)|what (should|can|do)) i\b")


def reads_as_correction(text: str, *, request: str = "", answer: str = "") -> list[str]:
    """Return the families of the complaint that `text` makes about `answer`, given for `request`; none if it
    makes none."""
    levelled = level(text[:READ_CHARS])
    if not levelled or _CLOSING.match(levelled):
        return []
    read = without_praise(levelled)
    cues = find_cues(read)
    strong = {cue.family for cue in cues if cue.strong}
    opens_anew = bool(opens_request(read) or _ASKS_HOW.search(read))
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


def _weak(read: str, cues: Sequence[Cue], request: str, answer: str, *, opens_anew: bool) -> set[str]:
    """Return the families whose weak cues make a complaint: those beside which the message brings nothing new."""
    after = follows_up(read)
    found: set[str] = set()
    for family in {cue.family for cue in cues if not cue.strong}:
        # Complaints of length come in the most wordings, so they may bring a word of their own.
        allowed = 1 if family == "length" and not opens_anew else 0
        own = [cue for cue in cues if cue.family == family]
        if _news(read, own, request, answer) <= allowed and (not after or family in ("length", "tone")):
            found.add(family)
    return found


def negative(text: str) -> bool:
    """Say whether a message has any word against the answer before it, even in passing."""
    levelled = level(text[:READ_CHARS])
    if _CLOSING.match(levelled):
        return False
    cues = find_cues(without_praise(levelled))
    return any(cue.strong for cue in cues) and not (
        opens_request(levelled) and all(c.family != "generic" for c in cues)
    )


def is_praise(text: str) -> bool:
    """Say whether a message thanks or praises, and takes nothing of it back."""
    levelled = level(text[:READ_CHARS])
    return bool(_PRAISE.search(levelled)) and not any(cue.strong for cue in find_cues(without_praise(levelled)))


def only_praises(text: str) -> bool:
    """Say whether a message thanks or praises in every sentence."""
    return all(_praises(sentence) for sentence in sentences(level(text[:READ_CHARS])))


def closes(text: str, answer: str = "") -> bool:
    """Say whether a message only ends the conversation, as a no does to the offer of more help in `answer`."""
    levelled = level(text[:READ_CHARS])
    return bool(_CLOSING.match(levelled)) or (ends_in_offer(answer) and bool(_NO.match(levelled)))


_YES = re.compile(
    r"^(oh |ah |well |great,? |perfect,? |super,? |thanks,? )?(yes|yep|yeah|yup|sure|ok|okay|alright|go ahead"
    r"|please do|(sounds|looks) good|lgtm|all good|fine|deal"
    r"|ja|jo|gern|klar|einverstanden|in ordnung|passt|oui|ouais|daccord|allez-y|volontiers|ça marche|sí|si|dale|vale"
    r"|claro"
    r"|de acuerdo|adelante)\b|^(好|行|可以|对|嗯|没问题|是的)"
)


def approves(text: str) -> bool:
    """Say whether a message agrees to what the answer before it said or offered, and takes nothing of it back."""
    levelled = level(text[:READ_CHARS])
    return bool(_YES.match(levelled)) and not _CONTRAST.search(levelled)


def takes_back(text: str) -> bool:
    """Say whether the person corrects their own words, so that the answer before was right as far as it could know."""
    return bool(_TAKEN_BACK.search(level(text[:READ_CHARS])))


def without_praise(levelled: str) -> str:
    """Return the text without the sentences that only praise, or that tell what others did."""
    kept = (s for s in sentences(levelled) if not _praises(s) and (not _ELSEWHERE.search(s) or _BLAMES.search(s)))
    return " ".join(kept)


def _praises(sentence: str) -> bool:
    return bool(_PRAISE.search(sentence)) and not _CONTRAST.search(sentence) and not _EXAGGERATION.search(sentence)


# Where other people went wrong.
_ELSEWHERE = re.compile(
    r"\b(?:at|from|with|by|in) (?:my|our|the) (?:last|previous|old|former) (?:job|shop|store|company|office|hotel"
    r"|provider|bank|clinic)\b"
    r"|\b(?:beim?|im|in der|von der) (?:letzten|vorigen|alten|anderen|früheren) (?:betrieb|laden|shop|firma|werkstatt"
    r"|hotel|bank|anbieter|stelle|praxis|geschäft)\b"
    r"|\ben (?:la|el) (?:otr[oa]|anterior) (?:tienda|banco|hotel|compañía|empresa|taller)\b"
    r"|\b(?:dans|chez) mon ancien(?:ne)? (?:magasin|banque|hôtel|agence|boutique|mairie|opérateur)\b|上一家|别家"
)
# Where the agent is spoken to, or what it did is held against what was asked.
_BLAMES = re.compile(
    r"\b(?:you|your|du|dich|dein\w*|ihr|ihnen|vous|votre|tú|usted|te)\b|[你您]"
    r"|\bi (?:asked|said|meant|wanted)\b|^(?:no|wrong|this is wrong|that is not)\b"
)


def _answers_a_question(read: str, answer: str) -> bool:
    """Say whether the agent had asked, or had offered more and is told no, and nothing in the message says plainly that
    it had gone wrong before."""
    asked = ends_in_question(answer) or (ends_in_offer(answer) and bool(_NO.match(read)))
    return asked and not _PLAINLY_WRONG.search(read)


_NO = re.compile(r"^(?:no|nope|nein|non|nee)\b|^(?:没|不|没有)[了。!\uff0c,]")


def _news(read: str, cues: Sequence[Cue], request: str, answer: str) -> int:
    """Count the topic words of a message that neither a cue, nor the request, nor the answer before it accounts for."""
    covered = "".join(" " if any(cue.start <= at < cue.end for cue in cues) else c for at, c in enumerate(read))
    return len(topic_of(covered) - topic_of(request) - topic_of(answer))
