"""Graders of tool calls: does a call fit its declared schema, and was the call that failed really changed."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from harness_adapters.trace import ToolCall
from hinting.grade import Grade, GradeCase, function_of

# Schemas come with the traffic. Keywords whose cost a client could blow up (regular expressions, dynamic references)
# are left unchecked, references are counted and stay inside the schema.
_CHECKED = (
    "type",
    "enum",
    "const",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)
_MAX_REFERENCES = 500
_MAX_SCHEMA_CHARS = 100_000


class _UnusableSchemaError(Exception):
    """The schema cannot be applied within bounds; the grader abstains."""


def _validator(schema: Any) -> Any:
    """Return a jsonschema validator of the checked keywords for this one use of the schema."""
    if not isinstance(schema, Mapping):
        raise _UnusableSchemaError("the declared schema is not an object")
    schema = {key: value for key, value in cast("Mapping[str, Any]", schema).items() if key != "$schema"}
    text = json.dumps(schema)
    if len(text) > _MAX_SCHEMA_CHARS or '"$schema"' in text:
        raise _UnusableSchemaError("the declared schema is too large or switches dialect inside")
    references = iter(range(_MAX_REFERENCES))
    known = cast("Mapping[str, Any]", Draft202012Validator.VALIDATORS)

    def ref(validator: Any, target: Any, instance: Any, where: Any) -> Iterator[ValidationError]:
        if next(references, None) is None or not str(target).startswith("#"):
            raise _UnusableSchemaError(f"the declared schema's reference {target!r} is remote or has no end")
        yield from known["$ref"](validator, target, instance, where) or ()

    def additional(validator: Any, allowed: Any, instance: Any, where: Any) -> Iterator[ValidationError]:
        if "patternProperties" not in where:
            yield from known["additionalProperties"](validator, allowed, instance, where) or ()

    checks = {name: known[name] for name in _CHECKED} | {"$ref": ref, "additionalProperties": additional}
    kind: Any = validators.create(
        Draft202012Validator.META_SCHEMA, checks, type_checker=Draft202012Validator.TYPE_CHECKER
    )
    return kind(schema, registry=Registry())


class SchemaGrader:
    """Passes when every call of the reply names a declared tool with valid JSON arguments that fit its schema.

    Abstains where the reply makes no call, no tools are declared, or the schema itself is unusable.
    """

    def __init__(self, name: str = "schema") -> None:
        self.name = name

    async def grade(self, case: GradeCase) -> Grade:
        """Grade the reply's calls."""
        if not case.tool_calls or not case.tools:
            return Grade(passed=None, reason="no call to check" if case.tools else "no tools are declared")
        return await asyncio.to_thread(_grade_calls, case)


def _grade_calls(case: GradeCase) -> Grade:
    declared = {str(function_of(tool).get("name")): function_of(tool) for tool in case.tools}
    for call in case.tool_calls:
        if call.name not in declared:
            return Grade(passed=False, reason=f"calls {call.name or 'something unreadable'!r}, which is not declared")
        try:
            arguments: Any = json.loads(call.arguments or "{}")
        except ValueError as error:
            return Grade(passed=False, reason=f"the arguments of {call.name} are not JSON: {error}")
        if not isinstance(arguments, dict):
            return Grade(passed=False, reason=f"the arguments of {call.name} are not a JSON object")
        schema = declared[call.name].get("parameters") or {}
        try:
            Draft202012Validator.check_schema(schema)
            error = next(iter(_validator(schema).iter_errors(arguments)), None)
        except (SchemaError, Unresolvable, RecursionError, _UnusableSchemaError) as unusable:
            return Grade(passed=None, reason=f"the schema of {call.name} is unusable: {str(unusable).splitlines()[0]}")
        if error is not None:
            return Grade(passed=False, reason=f"{call.name} at {error.json_path}: {error.message}")
    return Grade(passed=True, reason="every call fits its schema")


def _canonical(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except ValueError:
        return call.arguments.strip()


class ChangedCallGrader:
    """Passes when the reply calls every tool whose call had failed or was rejected again, with other arguments.

    Giving up, or turning to another tool, is not a recovery. Abstains where no call had failed, and where the failed
    call named a tool that is not declared, as then another tool is the right answer.
    """

    def __init__(self, name: str = "changed_call") -> None:
        self.name = name

    async def grade(self, case: GradeCase) -> Grade:
        """Grade the reply's calls against the failed ones."""
        if not case.failed_calls:
            return Grade(passed=None, reason="no call had failed")
        declared = {str(function_of(tool).get("name")) for tool in case.tools}
        for failed in case.failed_calls:
            if declared and failed.name not in declared:
                return Grade(passed=None, reason=f"{failed.name} is not declared, so it need not be called again")
            again = [_canonical(call) for call in case.tool_calls if call.name == failed.name]
            if not again:
                return Grade(passed=False, reason=f"{failed.name} is not called again")
            if _canonical(failed) in again:
                return Grade(passed=False, reason=f"{failed.name} is called with the same arguments")
        return Grade(passed=True, reason="the call was changed")
