"""What a complaint says should have been done, as an instruction: "You forgot to attach it" becomes "Attach it"."""

import re

from hinting.sentences import sentences

_LEAST, _MOST = 4, 120
_WANTED = re.compile(
    r"""
    (?:(?:no|please|but|and|well),?\ )*
    (?:
        you\ (?:forgot\ to|were\ supposed\ to|have\ to|must|should(?:\ always|\ at\ least)?)
        | you\ (?:did\ not|didn'?t)(?:\ even)?
        | (?:i|we)\ (?:expect(?:ed)?|want(?:ed)?|told|asked)\ you\ to
        | why\ (?:(?:do|did)\ you\ not|(?:don'?t|didn'?t)\ you)
        | (?:next\ time|from\ now\ on),?(?:\ please)?
    )
    \ (?!(?:have|be|do|you|i|it|that|this|not|never|the|a|an)\b)
    (?P<wanted>[a-z][^?!.]*?)(?:,?\ please)?[.?!]*
    """,
    re.IGNORECASE | re.VERBOSE,
)


def stated(complaint: str) -> list[str]:
    """Return the wishes that stand in a complaint in so many words, in English, as instructions."""
    said = (_WANTED.fullmatch(sentence.strip()) for sentence in sentences(complaint.replace("\u2019", "'")))
    wanted = [match["wanted"] for match in said if match is not None]
    return [f"{wish[0].upper()}{wish[1:]}." for wish in wanted if _LEAST <= len(wish) <= _MOST]
