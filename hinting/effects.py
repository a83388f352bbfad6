"""Which calls only look and which change something, by the verbs in their tools' names."""

import re

_LOOKS = re.compile(
    r"^(get|search|find|list|read|look|lookup|check|calculate|compute|think|view|fetch|query|show|describe|retrieve|count"
    r"|verify|validate|preview|quote|estimate|compare|test|glob|grep|ls|cat|open|scroll|browse|web|download|load|inspect"
    r"|analy[sz]e|summari[sz]e|translate|status|history|availability|dry|ping|poll|wait|todo|plan|bash|shell|exec|run|python"
    r"|terminal|command|skill|task|agent|computer|click|type|press|stdin|write_stdin|abfrage\w*|such\w*|zeig\w*|les\w*|hol\w*|prüf\w*|pruef\w*|anzeig\w*|consult\w*|cherch\w*|recherch\w*|lire|voir"
    r"|vérifi\w*|verifi\w*|obtenir|afficher|busc\w*|leer|ver|listar|obtener|mostrar|comprob\w*|simul\w*)$",
    re.IGNORECASE,
)
_STATES = re.compile(r"^(status|history|availability|list|search|lookup|info|details)$", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-zäöüßéèàñ]+|[A-Z]+(?![a-z])")


def changes_something(tool: str) -> bool:
    """Say whether a tool of this name changes something, as far as its first word tells; commands of a shell may or may
    not, and are not said to."""
    words = _WORD.findall(tool)
    return bool(words) and not _LOOKS.match(words[0]) and not (len(words) > 1 and _STATES.match(words[-1]))


_UNDOES = re.compile(
    r"^(cancel|undo|revert|restore|recall|release|withdraw|retract|storn|widerruf|annul|anul|retir|revoc)", re.I
)

_AMENDS = re.compile(
    r"^(modif|chang|updat|edit|replac|correct|switch|move|adjust|amend|renam|reassign|swap|änder|aender|korrig|umbuch"
    r"|umstell|remplac|corrig|déplac|cambi|actualiz|correg|reemplaz)",
    re.I,
)
_ADDS = re.compile(r"^(add|append|insert|post|push|write|put|log|record|note|hinzu|füg|ajout|añad|anad|agreg)", re.I)

_SENDS = re.compile(r"^(send|mail|e-?mail|notify|message|reply|schick|versend|envoy|env[ií])", re.I)


def sends(tool: str) -> bool:
    """Say whether a tool of this name sends something to somebody."""
    return any(_SENDS.match(word) for word in _WORD.findall(tool)[:2])


def adds(tool: str) -> bool:
    """Say whether a tool of this name puts one more thing to others, so that calling it again alters nothing."""
    return any(_ADDS.match(word) for word in _WORD.findall(tool)[:2])


def amends(tool: str) -> bool:
    """Say whether a tool of this name alters a thing that is there."""
    return any(_AMENDS.match(word) for word in _WORD.findall(tool)[:2])


def undoes(tool: str) -> bool:
    """Say whether a tool of this name takes back what another did."""
    return any(_UNDOES.match(word) for word in _WORD.findall(tool)[:2])
