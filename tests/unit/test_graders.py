import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from harness_adapters.errors import ConfigError
from harness_adapters.trace import ToolCall
from hinting.call_graders import ChangedCallGrader, SchemaGrader
from hinting.graders import Grade, GradeCase, GraderConfig, RuleGraderConfig, grade_all, load_graders
from hinting.python_grader import PythonGrader

CONFIG: TypeAdapter[GraderConfig] = TypeAdapter(GraderConfig)
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "book",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string"},
                "nights": {"type": "integer", "minimum": 1},
                "room": {"anyOf": [{"$ref": "#/$defs/Room"}, {"type": "null"}]},
            },
            "additionalProperties": False,
            "$defs": {"Room": {"type": "string", "enum": ["single", "double"]}},
        },
    },
}


def asked(user: str, reply: str) -> GradeCase:
    return GradeCase(messages=[{"role": "user", "content": user}], text=reply)


def called(arguments: str, name: str = "book", failed: tuple[ToolCall, ...] = (), tools: Any = (TOOL,)) -> GradeCase:
    call = ToolCall(id="1", name=name, arguments=arguments)
    return GradeCase(messages=[], text="", tools=tools, tool_calls=[call], failed_calls=failed)


def rule(*clauses: dict[str, Any]) -> Any:
    (grader,) = load_graders([RuleGraderConfig.model_validate({"kind": "rule", "clauses": clauses})])
    return grader


HOUSE = ({"unless_user_matches": r"\blist\b", "max_sentences": 1, "max_chars": 160}, {"min_lines": 3})


@pytest.mark.parametrize(
    ("user", "reply", "passed"),
    [
        ("What is tea?", "A hot drink.", True),
        ("What is tea?", "A hot drink. It is made of leaves.", False),
        ("What is tea?", "x" * 161, False),
        ("List three teas", "- green\n- black\n- white", True),
        ("LIST three teas", "Green.", False),
        ("What is tea?", "  ", False),
    ],
)
async def test_the_first_clause_that_applies_decides(user: str, reply: str, passed: bool) -> None:
    assert (await rule(*HOUSE).grade(asked(user, reply))).passed is passed


async def test_a_rule_for_other_questions_abstains() -> None:
    grade = await rule({"when_user_matches": "json", "is_json": True}).grade(asked("hello", "hi"))
    assert grade.passed is None


@pytest.mark.parametrize(
    ("clause", "good", "bad"),
    [
        ({"matches": r"\?$"}, "Which one?", "That one."),
        ({"not_matches": r"(?i)sorry"}, "Done.", "Sorry!"),
        ({"is_json": True}, '{"a": 1}', "a: 1"),
        ({"is_json": False}, "a: 1", "[1]"),
        ({"max_lines": 2}, "a\n\nb", "a\nb\nc"),
        ({"min_lines": 2}, "a\nb", "a"),
        ({"max_chars": 3}, "abc", "abcd"),
    ],
)
async def test_each_check(clause: dict[str, Any], good: str, bad: str) -> None:
    assert (await rule(clause).grade(asked("q", good))).passed is True
    grade = await rule(clause).grade(asked("q", bad))
    assert grade.passed is False
    assert grade.reason


async def test_the_last_human_message_decides_not_the_framework_s() -> None:
    grader = rule({"when_user_matches": "brief", "max_chars": 5}, {"max_chars": 100})
    messages = [
        {"role": "user", "content": "be brief"},
        {"role": "user", "content": "<reminder>tools changed</reminder>"},
    ]
    assert (await grader.grade(GradeCase(messages=messages, text="a long text"))).passed is True
    by_author = GradeCase(messages=messages, text="a long text", user_text="be brief")
    assert (await grader.grade(by_author)).passed is False


async def test_a_pattern_that_explodes_abstains() -> None:
    grade = await rule({"matches": r"^(a|a|aa)+$"}).grade(asked("q", "a" * 60 + "!"))
    assert grade.passed is None
    assert "longer than" in grade.reason


@pytest.mark.parametrize(
    "config",
    [
        {"kind": "rule", "clauses": []},
        {"kind": "rule", "clauses": [{"when_user_matches": "x"}]},
        {"kind": "rule", "clauses": [{"matches": "("}]},
        {"kind": "rule", "clauses": [{"max_sentence": 1}]},
        {"kind": "python", "entry_point": "no colon"},
        {"kind": "other"},
    ],
)
def test_a_wrong_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CONFIG.validate_python(config)


def test_names_must_differ_and_modules_exist() -> None:
    with pytest.raises(ConfigError, match="share the name"):
        load_graders([CONFIG.validate_python({"kind": "schema"})] * 2)
    with pytest.raises(ConfigError, match="no module"):
        load_graders([CONFIG.validate_python({"kind": "python", "entry_point": "no_such.module:f"})])


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ('{"city": "Bern"}', True),
        ('{"city": "Bern", "nights": 2, "room": "single"}', True),
        ('{"city": "Bern", "room": null}', True),
        ("{}", False),
        ('{"city": 3}', False),
        ('{"city": "Bern", "nights": 0}', False),
        ('{"city": "Bern", "room": "suite"}', False),
        ('{"city": "Bern", "other": 1}', False),
        ('{"city": "Bern"', False),
        ('["Bern"]', False),
    ],
)
async def test_arguments_must_fit_the_declared_schema(arguments: str, passed: bool) -> None:
    assert (await SchemaGrader().grade(called(arguments))).passed is passed


async def test_an_undeclared_tool_fails_and_no_call_abstains() -> None:
    assert (await SchemaGrader().grade(called("{}", name="cook"))).passed is False
    assert (await SchemaGrader().grade(GradeCase(messages=[], text="hi", tools=(TOOL,)))).passed is None
    assert (await SchemaGrader().grade(called("{}", tools=()))).passed is None


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "nonsense"},
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"allOf": [{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#"}]},
        {
            "$ref": "#/$defs/a0",
            "$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {}},
        },
    ],
)
async def test_a_schema_that_cannot_be_applied_abstains(parameters: dict[str, Any]) -> None:
    tool = {"function": {"name": "book", "parameters": parameters}}
    grade = await SchemaGrader().grade(called('{"city": "Bern"}', tools=(tool,)))
    assert grade.passed is None
    assert "unusable" in grade.reason


async def test_a_client_s_regular_expressions_are_not_run() -> None:
    explosive = {"patternProperties": {"^(a|a|aa)+$": {}}, "additionalProperties": False}
    tool = {"function": {"name": "book", "parameters": explosive}}
    assert (await SchemaGrader().grade(called(json.dumps({"a" * 60 + "!": 1}), tools=(tool,)))).passed is True


FAILED = (ToolCall(id="1", name="book", arguments='{"city": "", "nights": 1}'),)


@pytest.mark.parametrize(
    ("reply", "passed"),
    [
        (called('{"city": "Bern"}', failed=FAILED), True),
        (called('{ "nights":1, "city":"" }', failed=FAILED), False),
        (called('{"city": "Bern"}', name="cook", failed=FAILED), False),
        (GradeCase(messages=[], text="I give up.", tools=(TOOL,), failed_calls=FAILED), False),
        (called('{"city": "Bern"}'), None),
        (called("{}", failed=(ToolCall(id="1", name="bok", arguments="{}"),)), None),
    ],
)
async def test_only_the_same_call_changed_is_a_recovery(reply: GradeCase, passed: bool | None) -> None:
    assert (await ChangedCallGrader().grade(reply)).passed is passed


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "house_graders.py").write_text(
        "import os, time\n"
        "from hinting.graders import Grade\n"
        "def short(case):\n    print('noise'); return len(case.text) < 5\n"
        "async def later(case):\n    return Grade(passed=case.kind is None, reason='by hand')\n"
        "def abstains(case):\n    return None\n"
        "def raises(case):\n    raise KeyError('oops')\n"
        "def wrong(case):\n    return 'yes'\n"
        "def dies(case):\n    os._exit(3)\n"
        "def hangs(case):\n    open(case.evidence, 'w').write(str(os.getpid()))\n    while True: pass\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return "house_graders"


@pytest.mark.parametrize(
    ("function", "passed", "reason"),
    [
        ("short", True, ""),
        ("later", True, "by hand"),
        ("abstains", None, ""),
        ("raises", None, "oops"),
        ("wrong", None, "answer True"),
        ("dies", None, "exit status 3"),
        ("missing", None, "missing"),
    ],
)
async def test_a_python_grader_runs_apart(module: str, function: str, passed: bool | None, reason: str) -> None:
    call = ToolCall(id="1", name="book", arguments="{}")
    case = GradeCase(messages=[{"role": "user", "content": "q"}], text="ok", tool_calls=(call,), tools=(TOOL,))
    grade = await PythonGrader("own", f"{module}:{function}").grade(case)
    assert grade.passed is passed
    assert reason in grade.reason


async def test_a_python_grader_that_hangs_is_ended(module: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    case = GradeCase(messages=[], text="ok", evidence=str(pid))
    grade = await grade_all([PythonGrader("own", f"{module}:hangs")], case, timeout_s=3)
    assert (grade.passed, grade.grader) == (None, "own")
    assert "within 3 s" in grade.reason
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


class Says:
    """A grader that gives, raises or waits for what it was made with."""

    def __init__(self, answer: bool | Exception | str | None) -> None:
        self.name = f"says {answer}"
        self._answer = answer

    async def grade(self, case: GradeCase) -> Grade:
        if isinstance(self._answer, Exception):
            raise self._answer
        if isinstance(self._answer, str):
            await asyncio.Event().wait()
        return Grade(passed=bool(self._answer) if self._answer is not None else None, reason="because")


answers = st.sampled_from([True, False, None, ValueError("broken"), "hangs"])


@settings(deadline=None, max_examples=30)
@given(st.lists(answers, max_size=5))
async def test_any_no_is_a_no_and_silence_is_silence(given_answers: list[Any]) -> None:
    grade = await grade_all([Says(a) for a in given_answers], asked("q", "r"), timeout_s=0.02)
    spoken = [a for a in given_answers if isinstance(a, bool)]
    assert grade.passed is (all(spoken) if spoken else None)
    if "hangs" in given_answers and not spoken:
        assert "no answer within" in grade.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keywords = st.sampled_from(
    ["type", "properties", "required", "items", "anyOf", "$ref", "enum", "pattern", "minimum", "not"]
)
calls = st.builds(
    ToolCall,
    id=st.just("1"),
    name=st.sampled_from(["book", "other", ""]),
    arguments=st.text() | json_values.map(json.dumps),
)


@settings(deadline=None, max_examples=150)
@given(
    text=st.text(),
    user=st.text(),
    schema=st.dictionaries(keywords, json_values, max_size=4) | json_values,
    tool_calls=st.lists(calls, max_size=3),
    failed=st.lists(calls, max_size=2),
)
async def test_shipped_graders_answer_whatever_comes(
    text: str, user: str, schema: Any, tool_calls: list[ToolCall], failed: list[ToolCall]
) -> None:
    tools = [{"type": "function", "function": {"name": "book", "parameters": schema}}]
    case = GradeCase(
        messages=[{"role": "user", "content": user}], text=text, tools=tools, tool_calls=tool_calls, failed_calls=failed
    )
    for grader in (rule(*HOUSE), rule({"is_json": True, "not_matches": r"\d"}), SchemaGrader(), ChangedCallGrader()):
        grade = await grader.grade(case)
        assert grade.passed in (True, False, None)
