"""Whether a person's words want a thing or want it gone."""

import re

_NEGATOR = re.compile(
    r"\b(?:no|not|without|stop|don'?t|do not|never|instead of|rather than|remove|drop|avoid|enough|why|too many|"
    r"hate|less|fewer|nicht|kein\w*|ohne|sans|pas|sin|nada de)\b(?:\W+\w+){0,4}\W*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.,;:!?\n–—]|\b(?:but|just|please|sondern|mais|pero)\b", re.IGNORECASE)  # noqa: RUF001 -- dashes part clauses


def negated(text: str, at: int) -> bool:
    """Say whether what stands at `at` is unwanted: a negator comes before it in the same clause."""
    clause = _CLAUSE.split(text[:at].replace("’", "'"))[-1]  # noqa: RUF001 -- typographic apostrophe, as people type it
    return _NEGATOR.search(clause) is not None
