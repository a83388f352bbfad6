"""Who asks for what: messages that open as a request, answers that leave the person with a question or an offer."""

import re
from functools import lru_cache

from hinting.cues import level
from hinting.sentences import sentences

READ_CHARS = 400
"""How much of the beginning of a message is read, or of the end of an answer: complaints come first, questions last."""

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
_FOLLOW_UP = re.compile(
    r"^(now|next|also|then|and|actually,? lets|lets|additionally|another thing|one more)\b"
    r"|\b(?:i|we)(?:d| would)? also (?:like|need|want)\b|, also\b"
)
_INSTRUCTS = re.compile(
    r"^(and |so |ok(ay)?[,.]? |now,? |then,? |please |pls |bitte |por favor |yes,? |\W)*"
    r"(continue|go (on|ahead)|proceed|keep going|carry on|resume|(re)?run|deploy|commit|push|merge|rename|remove|delete"
    r"|refactor|move|fix|open|start|install|build|test|update|change|set|try|do|send|print|format|clean|release|publish"
    r"|ship|apply|replace|keep|put|use|turn|drop|revert|undo"
    r"|weiter|mach\w*|führ\w*|start\w*|lösch\w*|benenn\w*|füg\w*|änder\w*|setz\w*|nimm|schick\w*"
    r"|continue[zr]?|lance[zr]?|ajoute[zr]?|supprime[zr]?|renomme[zr]?|change[zr]?|envoie|envoyez|mets|mettez"
    r"|sigue|sigamos|continúa|ejecuta|añade|elimina|borra|renombra|cambia|envía|pon)\b"
    r"|^\W*(继续|接着|运行|提交|删除|添加|部署|改成|发送|重命名)"
)
_OFFERS = re.compile(
    r"(?<!\bor )\b(anything|something) (else|more)"
    r"( (that )?(i|we) (can|could|may) \w+( (you|for you|with))*)?( today)?\W*$"
    r"|\b(can|could|may) (i|we) (do|help|assist)\b.{0,30}\b(else|more|further)\b"
    r"|\bhow (else )?(can|may) (i|we) (help|assist)\b"
    r"|\b(noch|sonst)( noch)? (etwas|was|helfen)\b( tun| für (sie|dich) tun)?\W*$"
    r"|\bautre chose\b|\b(algo|nada) más\W*$|\ben algo más\b|还有(什么|其他|别的)"
)
_PLEASE = re.compile(
    r"\b(?:please|kindly|bitte|veuillez|merci de|por favor)(?: (?:also|first|auch))?"
    r" (?:provide|choose|confirm|tell|share|specify|select|indicate|give|send|reply|answer|bestätigen|nenn\w*"
    r"|teilen|geben|wählen|sagen|schicken|senden|confirmer|préciser|indiquer|choisir|donner|fournir|communiquer|dire|confirm[ae]|indi(?:ca|que)|elij[ae]|diga|dime"
    r"|dígame|facilite|proporcione)\b|\blet (?:me|us) know (?:which|what|when|how|where|who|whether)\b"
    r"|\b(?:nenn\w*|sag\w*|gib|geben) (?:sie )?(?:mir|uns) (?:doch )?bitte\b|请(?:确认|提供|告诉|选择|说明|告知|发)"
)


def opens_request(levelled: str) -> bool:
    """Say whether a text that went through `level` opens as the request for something new does."""
    return bool(_REQUEST.match(levelled))


def follows_up(levelled: str) -> bool:
    """Say whether a text that went through `level` opens as what comes after something done."""
    return bool(_FOLLOW_UP.match(levelled))


def asks(levelled: str) -> bool:
    """Say whether a text that went through `level` asks for something, or tells the agent to do it."""
    return bool(_REQUEST.match(levelled) or _FOLLOW_UP.search(levelled)) or any(
        sentence.rstrip(" .!").endswith(("?", "\uff1f")) or _INSTRUCTS.match(sentence)
        for sentence in sentences(levelled)
    )


def ends_in_question(answer: str) -> bool:
    """Say whether an answer left the person something to answer; the offer of more help, which ends many, is none."""
    return any(
        not _OFFERS.search(sentence) and (re.search(r"[?\uff1f]", sentence) or _PLEASE.search(sentence))
        for sentence in _last(answer[-READ_CHARS:])
    )


def ends_in_offer(answer: str) -> bool:
    """Say whether an answer ends in the offer of more help."""
    return any(_OFFERS.search(sentence) for sentence in _last(answer[-READ_CHARS:]))


@lru_cache(maxsize=64)
def _last(answer: str) -> tuple[str, ...]:
    """Return the last two sentences of the end of an answer, levelled; each is asked for several times."""
    return tuple(level(sentence) for sentence in sentences(answer)[-2:])
