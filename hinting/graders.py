"""Graders by configuration: which there are, how they are loaded, and how several make one grade."""

import asyncio
import importlib.util
import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, Self

import regex
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from harness_adapters.errors import ConfigError
from hinting.call_graders import ChangedCallGrader, SchemaGrader
from hinting.grade import Grade, GradeCase, Grader
from hinting.python_grader import PythonGrader
from hinting.sentences import sentences

__all__ = ["Grade", "GradeCase", "Grader", "GraderConfig", "RuleClause", "RuleGrader", "grade_all", "load_graders"]

_REGEX_TIMEOUT_S = 2.0


def _compiles(pattern: str) -> str:
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RuleClause(_Model):
    """What a reply must be when the last human message is such. All checks given must hold.

    The two conditions ignore case; `matches` and `not_matches` search the reply's text as written.
    """

    when_user_matches: Pattern | None = None
    unless_user_matches: Pattern | None = None
    max_sentences: int | None = Field(default=None, ge=1)
    max_chars: int | None = Field(default=None, ge=1)
    min_lines: int | None = Field(default=None, ge=1)
    max_lines: int | None = Field(default=None, ge=1)
    """Lines that are not blank."""
    matches: Pattern | None = None
    not_matches: Pattern | None = None
    is_json: bool | None = None

    @model_validator(mode="after")
    def _has_a_check(self) -> Self:
        if not self.model_fields_set - {"when_user_matches", "unless_user_matches"}:
            raise ValueError("a clause needs at least one check, such as max_sentences")
        return self


class RuleGraderConfig(_Model):
    """A declarative grader: the first clause whose condition holds decides; where none holds it abstains."""

    kind: Literal["rule"]
    name: str = "rule"
    clauses: tuple[RuleClause, ...] = Field(min_length=1)


class SchemaGraderConfig(_Model):
    """Calls must fit their declared schema."""

    kind: Literal["schema"]
    name: str = "schema"


class ChangedCallGraderConfig(_Model):
    """A failed or rejected call must be made again, changed."""

    kind: Literal["changed_call"]
    name: str = "changed_call"


class PythonGraderConfig(_Model):
    """A function of the operator's own."""

    kind: Literal["python"]
    name: str = "python"
    entry_point: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


GraderConfig = Annotated[
    RuleGraderConfig | SchemaGraderConfig | ChangedCallGraderConfig | PythonGraderConfig, Field(discriminator="kind")
]


def _found(pattern: str, text: str, flags: int = 0) -> bool:
    return regex.search(pattern, text, flags=flags, concurrent=True, timeout=_REGEX_TIMEOUT_S) is not None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _faults(clause: RuleClause, text: str) -> list[str]:
    """Say what of the clause the reply breaks."""
    faults: list[str] = []
    said, lines = len(sentences(text)), sum(1 for line in text.splitlines() if line.strip())
    for what, measured, least, most in (
        ("sentences", said, None, clause.max_sentences),
        ("characters", len(text.strip()), None, clause.max_chars),
        ("lines", lines, clause.min_lines, clause.max_lines),
    ):
        if least is not None and measured < least:
            faults.append(f"{measured} {what}, at least {least} wanted")
        if most is not None and measured > most:
            faults.append(f"{measured} {what}, at most {most} wanted")
    if clause.matches is not None and not _found(clause.matches, text):
        faults.append(f"does not match {clause.matches}")
    if clause.not_matches is not None and _found(clause.not_matches, text):
        faults.append(f"matches {clause.not_matches}")
    if clause.is_json is not None and _is_json(text) is not clause.is_json:
        faults.append("is not JSON" if clause.is_json else "is JSON")
    return faults


class RuleGrader:
    """Grades a reply's text by the first clause that applies to what the user asked. An empty reply never passes."""

    def __init__(self, config: RuleGraderConfig) -> None:
        self.name = config.name
        self._clauses = config.clauses

    async def grade(self, case: GradeCase) -> Grade:
        """Grade the reply's text, off the event loop."""
        return await asyncio.to_thread(self._grade, case)

    def _applies(self, clause: RuleClause, request: str) -> bool:
        when, unless = clause.when_user_matches, clause.unless_user_matches
        if when is not None and not _found(when, request, regex.IGNORECASE):
            return False
        return unless is None or not _found(unless, request, regex.IGNORECASE)

    def _grade(self, case: GradeCase) -> Grade:
        try:
            clause = next((c for c in self._clauses if self._applies(c, case.request)), None)
            if clause is None:
                return Grade(passed=None, reason="no clause applies to the last human message")
            faults = _faults(clause, case.text) if case.text.strip() else ["the reply is empty"]
        except TimeoutError:
            return Grade(passed=None, reason=f"a pattern took longer than {_REGEX_TIMEOUT_S:g} s; make it simpler")
        return Grade(passed=not faults, reason="; ".join(faults))


def load_graders(configs: Sequence[GraderConfig]) -> list[Grader]:
    """Build the configured graders, in order.

    Raises ConfigError when two share a name or a Python grader's module cannot be found.
    """
    repeated = [name for name, count in Counter(config.name for config in configs).items() if count > 1]
    if repeated:
        raise ConfigError(f"graders share the name {repeated[0]!r}; give each a name of its own")
    return [_load(config) for config in configs]


def _load(config: GraderConfig) -> Grader:
    match config:
        case RuleGraderConfig():
            return RuleGrader(config)
        case SchemaGraderConfig():
            return SchemaGrader(config.name)
        case ChangedCallGraderConfig():
            return ChangedCallGrader(config.name)
        case PythonGraderConfig():
            module = config.entry_point.partition(":")[0]
            try:
                found = importlib.util.find_spec(module)
            except (ImportError, ValueError):
                found = None
            if found is None:
                raise ConfigError(f"grader {config.name!r}: no module {module!r} can be imported; check entry_point")
            return PythonGrader(config.name, config.entry_point)


async def _guarded(grader: Grader, case: GradeCase, timeout_s: float) -> Grade:
    try:
        async with asyncio.timeout(timeout_s):
            grade = await grader.grade(case)
    except TimeoutError:
        return Grade(passed=None, reason=f"no answer within {timeout_s:g} s", grader=grader.name)
    except Exception as error:  # noqa: BLE001 -- an operator's grader may raise anything, and the street goes on
        return Grade(passed=None, reason=f"raised {type(error).__name__}: {error}", grader=grader.name)
    return Grade(passed=grade.passed, reason=grade.reason, grader=grader.name)


async def grade_all(graders: Sequence[Grader], case: GradeCase, *, timeout_s: float = 10.0) -> Grade:
    """Return one grade of all: False if any says so, None if all abstain, else True. Never raises.

    A grader that raises, or takes longer than `timeout_s` seconds, abstains and the reason says so.
    """
    grades = await asyncio.gather(*(_guarded(grader, case, timeout_s) for grader in graders))
    for verdict in (False, True, None):
        telling = [grade for grade in grades if grade.passed is verdict]
        if telling:
            reason = "; ".join(f"{grade.grader}: {grade.reason}" for grade in telling if grade.reason)
            return Grade(passed=verdict, reason=reason, grader="+".join(grade.grader for grade in telling))
    return Grade(passed=None, reason="no grader is configured")
