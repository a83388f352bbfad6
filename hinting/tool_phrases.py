"""What a hint says after a tool's error: the rule of the tool's declared schema, never the later value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from harness_adapters.trace import ToolCall
from hinting.grade import function_of, properties_of

_UNKNOWN_TOOL = re.compile(
    r"(?:unknown|unrecognized|undefined|invalid|no such|unsupported|non-?existent) (?:tool|function)|"
    r"(?:tool|function)\b.{0,60}?\b(?:not (?:found|declared|defined|available|registered|supported)|"
    r"(?:does not|doesn't) exist)",
    re.IGNORECASE,
)
_BAD_JSON = re.compile(
    r"\bjson\b(?!\s*schema)|expecting (?:value|property name|',' delimiter)|unterminated string|"
    r"unexpected (?:token|end of)|(?:could not|cannot|failed to) (?:parse|decode)",
    re.IGNORECASE,
)
_UNEXPECTED = re.compile(
    r"(?:unexpected|unknown|unrecognized|extra|additional|unsupported) (?:keyword )?"
    r"(?:argument|parameter|field|input|propert|key)|extra inputs? (?:are|is) not permitted|"
    r"not (?:allowed|permitted) (?:argument|parameter|field)",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"missing|required|must (?:be provided|provide|include|specify)|cannot be (?:empty|blank|null)", re.I
)
_VALUE = re.compile(
    r"invalid|must be|should be|expected|not (?:a |an )?(?:valid|one of|of type|a member)|out of range|wrong type|"
    r"malformed|validation|cannot (?:convert|parse)|could not convert|format|"
    r"greater than|less than|at (?:least|most)",
    re.IGNORECASE,
)
_ABSENT = re.compile(
    r"not found|no such|(?:does not|doesn't) exist|enoent|404|cannot find|could not find", re.IGNORECASE
)

_MAX_NAMES_CHARS = 200


def _required(function: Mapping[str, Any]) -> list[str]:
    schema = function.get("parameters")
    found = cast("Mapping[str, Any]", schema).get("required") if isinstance(schema, Mapping) else None
    return [str(name) for name in cast("list[Any]", found)] if isinstance(found, list) else []


def _rule_of(argument: str, rule: Mapping[str, Any]) -> str:
    """Say what a property's schema demands: its kind, and that its values, form or bounds are declared."""
    if "enum" in rule or "const" in rule:
        return f"Give `{argument}` exactly one of the values that its schema lists."
    kind = rule.get("type")
    form = rule.get("format")
    noun = f"a {form} {kind}" if isinstance(form, str) and isinstance(kind, str) else f"a value of type {kind}"
    bounds = (
        " within its declared bounds"
        if {"minimum", "maximum", "minLength", "maxLength", "maxItems"} & set(rule)
        else ""
    )
    wanted = noun if isinstance(kind, str) else "a value of the kind that its description asks for"
    return f"Give `{argument}` {wanted}{bounds}."


def _names(names: Sequence[str]) -> str:
    """List names within the length a hint may have."""
    listed = ""
    for name in names:
        longer = f"{listed}, `{name}`" if listed else f"`{name}`"
        if len(longer) > _MAX_NAMES_CHARS:
            break
        listed = longer
    return listed


def tool_texts(error: str, call: ToolCall | None, tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (family, text) for a tool's error, most specific first; the last stands for errors of no known kind."""
    declared = {str(function_of(tool).get("name")): function_of(tool) for tool in tools}
    tool = call.name if call else ""
    if declared and (_UNKNOWN_TOOL.search(error) or (tool and tool not in declared)):
        yield "unknown_tool", f"Call only tools that are declared: {_names(list(declared))}."
        yield "unknown_tool", "Choose among the declared tools by their descriptions and copy the name exactly."
        return
    function = declared.get(tool, {})
    properties, required = properties_of(function), _required(function)
    mentioned = [name for name in properties if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", error)]
    of_tool = f" of `{tool}`" if tool in declared else ""
    if _BAD_JSON.search(error):
        yield "bad_json", f"Write the arguments{of_tool} as one valid JSON object with double-quoted keys and strings."
    if _UNEXPECTED.search(error):
        only = f": {_names(list(properties))}" if properties else ""
        yield "unexpected_argument", f"Pass only the arguments that the schema{of_tool} declares{only}."
    elif _MISSING.search(error):
        needed = [name for name in mentioned if name in required] or required or mentioned
        if needed:
            yield "missing_argument", f"Always give the required arguments{of_tool}: {_names(needed)}."
        yield "missing_argument", f"Before calling, check that every required argument{of_tool} is there and not empty."
    elif _VALUE.search(error):
        for name in mentioned[:2]:
            yield "invalid_value", _rule_of(name, properties[name])
        yield "invalid_value", f"Give each argument{of_tool} a value of the type and form that its schema declares."
    elif _ABSENT.search(error):
        yield (
            "not_found",
            "Use only names, ids and paths that stand in the conversation; look them up first if none does.",
        )
    yield "tool_error", f"Before calling, read the description and schema{of_tool} and follow them exactly."
