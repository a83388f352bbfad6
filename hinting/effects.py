"""Which calls only look and which change something, by the verbs in their tools' names."""

import re

_WORD = re.compile(r"[A-Z]?[a-zäöüßéèàñí]+|[A-Z]+(?![a-z])")
_OF_WHOM = re.compile(r"^(mcp__.*?__|functions\.|[\w-]+\.)(?=\w)")
"""Whose tool it is, as some harnesses put before its name."""
_LOOKS = re.compile(
    r"^(get|search|find|list|read|look|lookup|check|calculate|compute|think|view|fetch|query|show|describe|retrieve"
    r"|count|verify|validate|preview|quote|estimate|compare|test|glob|grep|ls|cat|open|scroll|browse|web|download|load"
    r"|inspect|analy[sz]e|summari[sz]e|translate|status|history|availability|dry|ping|poll|wait|todo|plan|skill|task"
    r"|agent|computer|click|type|press|key|screenshot|navigate|goto|abfrage\w*|such\w*|zeig\w*|les\w*|hol\w*|prüf\w*"
    r"|pruef\w*|anzeig\w*|consult\w*|cherch\w*|recherch\w*|lire|voir|vérifi\w*|verifi\w*|obtenir|afficher|busc\w*"
    r"|leer|ver|listar|obtener|mostrar|comprob\w*|simul\w*)$",
    re.IGNORECASE,
)
_COMMANDS = re.compile(
    r"^(bash|shell|exec|execute|run|python|terminal|command|stdin|ipython|powershell)$", re.IGNORECASE
)
_STATES = re.compile(r"^(status|history|availability|list|search|lookup|info|details|view)$", re.IGNORECASE)
_UNDOES = re.compile(
    r"^(cancel|undo|revert|restore|recall|release|withdraw|retract|storn|widerruf|annul|anul|retir|revoc)",
    re.IGNORECASE,
)
_AMENDS = re.compile(
    r"^(modif|chang|updat|edit|replac|correct|switch|move|adjust|amend|renam|reassign|swap|änder|aender|korrig|umbuch"
    r"|umstell|remplac|corrig|déplac|cambi|actualiz|correg|reemplaz)",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"^(add|append|insert|post|push|write|put|log|record|note|hinzu|füg|ajout|añad|anad|agreg)", re.IGNORECASE
)

_MAKES = re.compile(
    r"^(create|make|open|new|issue|send|mail|e-?mail|notify|message|reply|erstell|schick|versend|cré|envoy|crea|env[ií])",
    re.IGNORECASE,
)


def changes_something(tool: str) -> bool:
    """Say whether a tool of this name changes something, as far as its first words tell; commands of a shell may or may
    not, and are not said to."""
    words = _words(tool)
    if not words or _LOOKS.match(words[0]) or any(_COMMANDS.match(word) for word in words[:2]):
        return False
    return len(words) == 1 or not _STATES.match(words[-1])


def undoes(tool: str) -> bool:
    """Say whether a tool of this name takes back what another did."""
    return _begins(tool, _UNDOES)


def amends(tool: str) -> bool:
    """Say whether a tool of this name alters a thing that is there."""
    return _begins(tool, _AMENDS)


def adds(tool: str) -> bool:
    """Say whether a tool of this name puts one more thing to others, so that calling it again alters nothing."""
    return _begins(tool, _ADDS)


def makes(tool: str) -> bool:
    """Say whether a tool of this name makes something, or sends it: what is called again may be for another one."""
    return _begins(tool, _MAKES)


def _begins(tool: str, verb: re.Pattern[str]) -> bool:
    return any(verb.match(word) for word in _words(tool)[:2])


def _words(tool: str) -> list[str]:
    return _WORD.findall(_OF_WHOM.sub("", tool))
