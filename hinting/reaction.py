"""How an agent takes what a person said of its work: it owns a mistake, it stands by its answer, or neither.

The agent's own next words are evidence that no list of complaints replaces: people correct politely, in passing, and
without a word that says so. Patterns are for levelled text (`hinting.cues.level`) in English, German, French, Spanish
and Chinese.
"""

import re
from enum import StrEnum

from hinting.cues import level

READ_CHARS = 320
"""How much of a reply is read: who owns a mistake does so at once."""


class Reaction(StrEnum):
    """What an agent's reply says of what it had done before."""

    OWNS = "owns"
    """It takes the blame, or takes back what it said."""
    REGRETS = "regrets"
    """It is sorry: so are polite agents whom nobody has corrected."""
    STANDS = "stands"
    """It repeats that it cannot, may not or need not."""
    NEITHER = "neither"


# It names its fault, or says that the person is right.
_ADMITS = re.compile(
    r"\b(youre|you are) (absolutely |completely |totally |quite |entirely |so |of course )*(right|correct)\b"
    r"|^(absolutely|quite|exactly) right\b"
    r"|\b(good|great|excellent|nice|fair) (catch|point)\b"
    r"|\b(that|this|it) (was|is|s) (my|our|a) (own )?(mistake|error|fault|bad|oversight|mix-?up|slip)\b"
    r"|\bmy (mistake|bad|error|fault|oversight)\b|\b(an|my) oversight\b|\boops\b|\bwhoops\b"
    r"|\bi (had |have |ve |completely |clearly |simply )*(misunderstood|misread|misheard|misinterpreted|overlooked"
    r"|forgot|confused|mixed up|mistook|mistyped|overcomplicated|jumped to|conflated)\b"
    r"|\bi (was|am|m) (wrong|mistaken|overcomplicating|conflating)\b|\bi (should|ought to) (not )?have\b"
    r"|\bi shouldnt have\b"
    r"|\b(thanks|thank you) for (the )?(catching|pointing|correct|flagging|spotting)\w*"
    r"|\b(corrected|revised) (understanding|version|solution|design|plan|proposal)\b|\bcritical (flaw|distinction)\b"
    r"|\b(mein fehler|mein versehen|da habe? ich mich|(sie|du) ha(ben|st) (völlig |ganz |natürlich |absolut )?recht"
    r"|ich ha(tte|be) .{0,60}\b(übersehen|verwechselt|vergessen|falsch)|war falsch|das hätte ich)\b|^(stimmt|ups"
    r"|ach so)\b"
    r"|\b((vous avez|tu as) (tout à fait |entièrement |absolument )?raison|mon erreur|au temps pour moi"
    r"|je me suis tromp\w+"
    r"|jai (mal|oublié|confondu|inversé|mélangé)|javais (mal|oublié|confondu))\b"
    r"|\b(mi error|error mío|fallo mío|culpa mía|ti?enes? (toda la )?razón|me (he )?equivo\w+|me confundí"
    r"|se me (pasó|olvidó))\b"
    r"|说得对|说得没错|是我(的)?(错|疏忽|失误)|我.{0,4}(弄|搞|看|记|理解|改|转|发|写|选|填|订|算|听|读)错|我(漏|忘)|是我没|疏忽"
)
# It says that it is sorry, or puts something right: politeness too has these words.
_REGRETS = re.compile(
    r"\bapologies\b|\b(i|we) (do |sincerely |must |truly |deeply )*apologi[sz]e\b"
    r"|^(oh |ah |so |very |im |i am |we are |were )*(so |very |really |terribly )?sorry\b(?! to hear| you\b| your)"
    r"|\b(sorry|pardon) (about|for) (that|the|my|this)\b"
    r"|\b(entschuldig\w*|verzeih\w*|tut mir leid|korrigiert)\b"
    r"|\b(mes excuses|je mexcuse|excusez|pardon\w*|désolée?|navrée?|je corrige|je rectifie|cest rectifié)\b"
    r"|\b(disculp\w*|perdon\w*|perdón|lo siento|lamento|lo corrijo|corregid[oa])\b"
    r"|抱歉|对不起|不好意思|已(改正|更正|纠正|改回|撤回)|更正|重发"
)
_STANDS = re.compile(
    r"\bunfortunately\b|\b(i|we) (am|m|are|re) (unable|not able|not allowed|not permitted)\b|\b(i|we) (can ?not|cant"
    r"|cannot)\b"
    r"|\bim (unable|not able|not allowed)\b|\b(i|we) understand (your|that|how|the|why)\b.{0,80}\b(but|however)\b"
    r"|\bas (i |previously )?(mentioned|explained|stated)\b|\baccording to (the|our|my)\b"
    r"|\b(records?|system|details|reservation|booking|profile|log)\b.{0,40}\b(shows?|says?|confirms?|has|indicates?)\b"
    r"|\b(i have|ive) (checked|looked|double-?checked|verified) (it |this |that )?again\b"
    r"|\b(not|isnt|arent) (possible|eligible|available|allowed)\b|\bpolicy\b"
    r"|\bleider\b|\b(kann|darf|können|dürfen) (ich|wir)\b.{0,60}\b(nicht|kein)|\bnicht möglich\b|\blaut\b|\btrotzdem\b"
    r"|\bmalheureusement\b|\bje ne (peux|puis)\b|\bnous ne pouvons\b|\bselon\b|\bimpossible\b|\bconfirment?\b"
    r"|\blamentablemente\b|\bno (puedo|podemos|es posible|me consta|consta|aparece)\b|\bsegún\b|\bdesgraciadamente\b"
    r"|很遗憾|无法|不能|没有(这样的|相应的)?(权限|工具|功能)|没有这样的|按规定|根据规定|系统(显示|里)|查了|确实(是|只|没)"
)
_THOUGHT = re.compile(
    r"\buser (is|s) (absolutely |completely )?(right|correct|unhappy|frustrated|annoyed|not happy|pointing out"
    r"|correcting"
    r"|(telling me|saying) (that )?(i|im)\b)|\b(i|my \w+) (made a mistake|was wrong|had a critical)\b"
    r"|\bi (misunderstood|misread|overlooked|was (wrong|conflating)|should(nt| not)? have|need to step back)\b"
    r"|\b(excellent|good) point\b|\boverco\w+ (this|it)\b"
)


def reaction(reply: str, thinking: str = "") -> Reaction:
    """Say how a reply, or what the agent thought before it, takes what the person said."""
    said = level(reply[:READ_CHARS])
    if _ADMITS.search(said):
        return Reaction.OWNS
    if _STANDS.search(said):
        return Reaction.STANDS
    if _THOUGHT.search(level(thinking[:READ_CHARS])):
        return Reaction.OWNS
    return Reaction.REGRETS if _REGRETS.search(said) else Reaction.NEITHER


def admits(reply: str) -> bool:
    """Say whether a text names a fault of its author's own."""
    return bool(_ADMITS.search(level(reply[:READ_CHARS])))


_EXPECTED = re.compile(
    r"\b(reproduc\w+ (the|this|that|it|your|a) ?(bug|issue|error|failure|problem|crash|behaviou?r|traceback)?"
    r"|(should|must|will|expected to|supposed to|going to) (now |still |first |indeed )*fail\b|failing (test|case)"
    r"|(see|watch|make sure|confirm|verify|check|prove) (that )?(it|the test|this|they|these) (now |still "
    r"|really )*fails?\b"
    r"|red (step|phase|test)|tests? (first|is red|are red)|on purpose|deliberately|negative test)"
)


def announces_failure(said: str) -> bool:
    """Say whether an agent wrote, before a call, that it is meant to fail: a test before its code, a bug reproduced."""
    return bool(_EXPECTED.search(level(said[-600:])))
