"""How failures of tools are told in results that carry no flag: in JSON documents, and at the start of a text.

Tools speak the language of whoever wrote them; the tables cover English, German, French, Spanish and Chinese. Only the
start of a text is read: what stands further in is content.
"""

import re
from collections.abc import Mapping
from typing import Any

_ERROR_MEMBERS = (
    *("error", "errors", "err", "error_message", "errormessage", "error_code", "exception", "fault", "fehler"),
    *("erreur", "erreurs", "errores", "fallo", "错误", "异常"),
)
_SUCCESS_MEMBERS = [
    "ok",
    "success",
    "successful",
    "succeeded",
    "is_success",
    "erfolg",
    "erfolgreich",
    "succes",
    "succès",
    "exito",
    "éxito",
    "成功",
]
_STATUS_MEMBERS = (
    *("status", "state", "result", "outcome", "resultado", "estado", "statut", "etat", "état", "ergebnis", "resultat"),
    *("状态", "结果"),
)
_CODE_MEMBERS = ("code", "http", "http_status", "httpstatus", "status_code", "statuscode", "status", "http_code")
_REASON_MEMBERS = (
    *(
        "message",
        "msg",
        "detail",
        "details",
        "reason",
        "hint",
        "title",
        "description",
        "text",
        "error_type",
        "type",
        "code",
    ),
    *(
        "meldung",
        "grund",
        "message_erreur",
        "raison",
        "motif",
        "libelle",
        "libellé",
        "mensaje",
        "motivo",
        "detalle",
        "codigo",
        "código",
        "消息",
        "原因",
    ),
)
_FAILED = re.compile(
    r"(error|fail|failed|failure|ko|nok|exception|fehler|fehlgeschlagen|échec|echec|erreur|échoué|fallo|fallid[oa]"
    r"|失败|错误)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"(refused|rejected|denied|declined|abgelehnt|verweigert|refusée?|rejetée?|rechazad[oa]|denegad[oa]|拒绝)",
    re.IGNORECASE,
)
"""Also what may be looked up of a thing: it tells of the call only where the reason alone stands beside it."""
_WHY = (
    "message",
    "msg",
    "reason",
    "detail",
    "grund",
    "meldung",
    "motif",
    "raison",
    "mensaje",
    "motivo",
    "原因",
)

_KINDS = (400, 401, 403, 404, 405, 409, 422, 429, 500, 502, 503, 504)


def failed_document(document: Mapping[str, Any]) -> bool:
    """Say whether a JSON result says of itself that it failed.

    A state or a code may be that of what was looked up, so it tells only beside a reason; that something was refused,
    where there is nothing else.
    """
    members = {str(name).lower(): value for name, value in document.items()}
    if any(members.get(name) for name in _ERROR_MEMBERS) or members.get("iserror") is True:
        return True
    if any(members.get(name) is False for name in _SUCCESS_MEMBERS):
        return True
    stated = [n for n in _STATUS_MEMBERS if isinstance(v := members.get(n), str) and _FAILED.fullmatch(v.strip())]
    if len(members) == 2 and any(members.get(name) for name in _WHY):
        if any(isinstance(v, str) and _REFUSED.fullmatch(v.strip()) for v in members.values()):
            return True
        # A kind of failure by HTTP's number and two digits more, as some services count them.
        if type(code := members.get("code")) is int and code // 100 in _KINDS:
            return True
    coded = [name for name in _CODE_MEMBERS if _is_http_error(members.get(name))]
    told = [*stated, *coded]
    return (
        any(members.get(name) for name in _REASON_MEMBERS if name not in told) or len(told) == len(members) > 0
        if told
        else False
    )


def _is_http_error(value: object) -> bool:
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return type(value) is int and 400 <= value <= 599


_PROSE = re.compile(
    # A word for a failure, at most a few words before its colon, which nothing denies.
    r"(<(tool_use_error|error|fehler|erreur)>(?!\s*(0|none|null|no|keine?r?|aucune?|ningun\w*)?\s*</)|\[error\]"
    r"|(?-i:[a-z][\w-]*: error( \(|:))|[\w.]{0,120}?(error|exception)(\s+\w+){0,6}?\s*:(?!\s*(null|none|false|no"
    r"|0)\b)"
    r"|(?-i:\w[\w.]{0,120}?(Error|Exception)\()|traceback \(most recent call last\)"
    r"|fatal:|failure:|failed to\b|\d+ validation errors?\b|validation (error|feedback)|(?-i:panic: )|aborted:(?!\s*\d)"
    r"|denied:(?!\s*\d)|err!|(fehler|erreur|error|fallo)\b[^.\n:(\[]{0,24}[:(\[](?!\s*(null|none|0)\b)"
    r"|(错误|异常|失败|冲突|出错)[\uff1a:\uff0c,]|(fehler|erreur|fallo|error) [\w-]*\d"
    # A number of HTTP's with its words.
    r"|(http\S* |status |code )?[45]\d\d (bad|unauthori|payment|forbidden|not |method|request|conflict|gone|length"
    r"|precond|unsupp"
    r"|unproc|locked|too many|internal|service|gateway|client|server|servi|dienst|nicht|temp|time-?out|error|erreur"
    r"|fehler|mailbox)"
    r"|http(/\S+)? [45]\d\d\b|429 [\u2014\u2013-] (?!\d)"
    r"|(\w+ ){0,2}(request|connection|gateway|upstream|read) time-?out\W*$"
    r"|invalid (\w+ ){0,3}(argument|parameter|input|value|json|call|format|date|id\b)"
    r"|(ungültig|unzulässig|invalide|inválid|no válid)\w*\b"
    r"|unknown (tool|function|argument|parameter|option|command|field|extra|key|value|id\b)"
    r"|(tool|function) \S+ (not found|does not exist|is not available)|no such (tool|file|function|command|directory)"
    r"|(/bin/)?(ba|z)?sh: |command not found|your proposed edit has introduced new syntax error|did you mean\b"
    r"|(execution|command|request|tool( call)?) (has )?timed? ?out|timed? ?out\b(?!\s*[:=]\s*\d)|mcp error"
    r"|access denied|permission denied|not (authorized|permitted|allowed)\b|(unauthorized|forbidden)(?=\W*$|[:.,(])"
    r"|rate limit (exceeded|reached|hit)|rate limited|too many requests"
    r"|service unavailable|internal server error|connection (refused|reset|error|timed out)"
    r"|zeitüberschreitung|zugriff verweigert|délai (d.attente )?dépassé|accès refusé|tiempo (de espera )?agotado"
    r"|acceso denegado|请求?超时|连接超时|无权限|权限不足"
    r"|exit(ed)?( code| status)? [1-9]\d{0,2}\s*[:\u2014\u2013-])",
    re.IGNORECASE,
)
_VERDICT = re.compile(
    # Within its first few words a short result says what was not done.
    r"([\w'«»„“\"#/.()-]+ ){0,4}?(was |were |is |has been |could |wurde |a été |est |ha sido |fue )?"
    r"(refused|rejected|denied|declined|failed|aborted|(could )?not (be )?(executed|created|saved|sent|booked"
    r"|applied|changed"
    r"|updated|processed|completed|performed)|(abgelehnt|verweigert|fehlgeschlagen|gescheitert|nicht (ausgeführt"
    r"|angelegt"
    r"|gespeichert|gesendet|erlaubt|installiert|zulässig|möglich))|(refus|rejet)ée?s?|échou\w+"
    r"|(non|pas) (créée?|autorisée?|effectuée?|envoyée?)"
    r"|(rechazad|denegad|fallid)[oa]s?|no (cread|ejecutad|enviad|autorizad|permitid|admitid)[oa]s?"
    r"|(unknown|unbekannt|inconnue?s?|desconocid[oa]s?)(?=\W*$|\s?[;:.,(](?!\s*\d)| [('\"«„]| extra| value))"
    r"(?=\W|$)(?! (by|to|at|in|from|on|for)\b| \d)"
    r"|\S{0,12}(失败|被拒绝|不存在|未(写入|保存|发送|创建|提交)|无效|不合法|不允许)",
    re.IGNORECASE,
)
_EMPTY_IS_AN_ANSWER = re.compile(
    r"\b(no|0|none|zero|keine?|aucune?|sin|ningun\w*) (\w+ )?(failed|rejected|refused|errors?|fehler|erreurs?"
    r"|errores)\b",
    re.I,
)
_VERDICT_CHARS, _SHORT = 160, 400


def failed_text(text: str) -> bool:
    """Say whether a result in plain words begins like a failure."""
    if _PROSE.match(text):
        return True
    if len(text) > _SHORT:
        return False
    first = re.split(r"[\n.。!]", text[:_VERDICT_CHARS], maxsplit=1)[0]
    return bool(_VERDICT.match(first)) and not _EMPTY_IS_AN_ANSWER.search(first)


_ENVIRONMENT = re.compile(
    r"time-?d? ?out|rate.?limit|too many requests|(^|http|status|code)( error)?\W{0,3}(429|50[0234])\b"
    r"|service (is )?unavailable"
    r"|temporar(il)?y (unavailable|failure|error|down)|bad gateway|gateway time-?out|internal (server )?error"
    r"|econn\w+|enotfound"
    r"|quota( has been|_| is)? ?exceeded|overloaded|connection (was )?(refused|reset|error|aborted|closed)"
    r"|network (error|is|was)|unreachable"
    r"|name resolution|out of memory|no space left|try again later|under maintenance"
    r"|zeitüberschreitung|nicht (erreichbar|verfügbar)|antwortet nicht|vorübergehend|wartung|kontingent|überlastet"
    r"|indisponible|délai (d.attente )?dépassé|n.a pas répondu|hors service"
    r"|no disponible|mantenimiento|tiempo (de espera )?agotado|fallo interno|sin conexión"
    r"|超时|配额|维护|不可用|稍后再?试|没有响应|网络(错误|异常)|服务(繁忙|异常)",
    re.IGNORECASE,
)


def is_environment(text: str) -> bool:
    """Say whether a failure is told as one of the surroundings, which the agent could not help."""
    return bool(_ENVIRONMENT.search(text[:300]))
