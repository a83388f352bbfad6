import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.outcome import command_of, error_flag, outcome_of
from harness_adapters.trace import Outcome

TEXTS = {
    "": Outcome.OK_EMPTY,
    "[]": Outcome.OK_EMPTY,
    "{}": Outcome.OK_EMPTY,
    "No files found": Outcome.OK_EMPTY,
    '{"order": 7, "state": "sent"}': Outcome.OK,
    '[{"error": "inside a list of rows"}]': Outcome.OK,
    '{"error": null, "rows": 3}': Outcome.OK,
    '{"error": "unknown field colour"}': Outcome.ERROR_AGENT,
    '{"success": false, "message": "rate limit exceeded"}': Outcome.ERROR_ENV,
    '{"status": "failed", "message": "no such id"}': Outcome.ERROR_AGENT,
    "Error: order not found": Outcome.ERROR_AGENT,
    "Error executing tool search: bad query": Outcome.ERROR_AGENT,
    "ValueError: x": Outcome.ERROR_AGENT,
    "Traceback (most recent call last):\n  File": Outcome.ERROR_AGENT,
    "2 validation errors:\n```json": Outcome.ERROR_AGENT,
    "Did you mean Mexico City?\n\nFix the errors and try again.": Outcome.ERROR_AGENT,
    "bash: frobnicate: command not found": Outcome.ERROR_AGENT,
    "<tool_use_error>String to replace not found</tool_use_error>": Outcome.ERROR_AGENT,
    "Error: connection refused": Outcome.ERROR_ENV,
    "HTTP 503 Service Unavailable": Outcome.ERROR_ENV,
    "EXECUTION TIMED OUT": Outcome.ERROR_ENV,
    "Error: 500 seats are not enough, only 3 left": Outcome.ERROR_AGENT,
    "HTTP 200 OK": Outcome.UNKNOWN,
    "sunny": Outcome.UNKNOWN,
    "This page explains what an error is and how to catch it.": Outcome.UNKNOWN,
    "All 4 tests passed, no errors": Outcome.UNKNOWN,
    "Exit code 2\nusage: foo": Outcome.ERROR_AGENT,
    "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhello": Outcome.OK,
    "Chunk ID: 1\nWall time: 0.1 seconds\nProcess running with session ID 5\nOutput:": Outcome.STILL_RUNNING,
    "Output:\nexit code 3 means retry": Outcome.UNKNOWN,
    '{"output": "x", "metadata": {"exit_code": 1}}': Outcome.ERROR_AGENT,
    "Exit code 137": Outcome.ERROR_ENV,
    "Exit code 130": Outcome.CANCELLED,
    f"Exit code: {'9' * 5000}": Outcome.UNKNOWN,
    f"exited with {'9' * 5000}": Outcome.UNKNOWN,
    "employee_id required (rc=22)": Outcome.ERROR_AGENT,
    "falta el destinatario (exit code 64)": Outcome.ERROR_AGENT,
    "set -e\nexit 1": Outcome.UNKNOWN,
    "A8 (exit 44)": Outcome.UNKNOWN,
    "<error>None of the rooms is free</error>": Outcome.ERROR_AGENT,
    '{"code": 42000, "message": "ok"}': Outcome.OK,
    "colonne inconnue : regime\ncode retour 2": Outcome.ERROR_AGENT,
    "3 rows\nrc=0": Outcome.OK,
    "#!/bin/sh\ntest -f a || exit 1": Outcome.UNKNOWN,
    "Latest tag: v2.0.0-rc1": Outcome.UNKNOWN,
    "Python 3.13.0-rc 2": Outcome.UNKNOWN,
    "That is told under exit code 3": Outcome.UNKNOWN,
    '{"code": 50667, "title": "Cologne"}': Outcome.OK,
    '{"code": 45000, "message": "paid"}': Outcome.OK,
    '{"status": "denied"}': Outcome.OK,
    '{"result": "invalid"}': Outcome.OK,
    '{"title": "Refund Ada", "status": "rejected"}': Outcome.OK,
    "Title: Error handling in Go": Outcome.UNKNOWN,
    "Severity: error": Outcome.UNKNOWN,
    "401-k contributions": Outcome.UNKNOWN,
    "Session timeout": Outcome.UNKNOWN,
    "<error>0</error>": Outcome.UNKNOWN,
    "<error-rate>0.1</error-rate>": Outcome.UNKNOWN,
    "<fehler>keine</fehler>": Outcome.UNKNOWN,
    "inconnu : 3 appels": Outcome.UNKNOWN,
    "colonne inconnue : regime": Outcome.ERROR_AGENT,
    '{"code": 40012, "msg": "no such name"}': Outcome.ERROR_AGENT,
    '{"code": 40012, "city": "Kyiv"}': Outcome.OK,
    '{"statut": "refusé", "motif": "centre manquant"}': Outcome.ERROR_AGENT,
    '{"claim": 7, "status": "rejected", "reason": "late"}': Outcome.OK,
    "<fehler><code>E17</code></fehler>": Outcome.ERROR_AGENT,
    "429 \u2013 zu viele Anfragen": Outcome.ERROR_ENV,
    "400 \u2013 500 euros": Outcome.UNKNOWN,
    "upstream request timeout": Outcome.ERROR_ENV,
    "jq: error (at a.json:1): Cannot index string": Outcome.ERROR_AGENT,
    "[Request interrupted by user for tool use]": Outcome.CANCELLED,
    "The user doesn't want to proceed with this tool use. The tool use was rejected": Outcome.REJECTED_BY_HUMAN,
}


@pytest.mark.parametrize(("text", "outcome"), TEXTS.items())
def test_by_text(text: str, outcome: Outcome) -> None:
    assert outcome_of(text) is outcome


def test_the_flag_goes_before_the_text() -> None:
    assert outcome_of("Error: that is what the file says", flag=False) is Outcome.OK
    assert outcome_of("fine", flag=True) is Outcome.ERROR_AGENT
    assert outcome_of("The user doesn't want to proceed with this tool use.", flag=True) is Outcome.REJECTED_BY_HUMAN
    assert outcome_of("", flag=False) is Outcome.OK_EMPTY


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        ("rg foo src", Outcome.OK_EMPTY),
        ("cd /a && grep -r foo .", Outcome.OK_EMPTY),
        ("diff a b", Outcome.OK_EMPTY),
        ("bash -lc 'rg foo'", Outcome.OK_EMPTY),
        ("python run.py", Outcome.ERROR_AGENT),
        ("./latest", Outcome.ERROR_AGENT),
    ],
)
def test_what_exit_code_one_means_depends_on_the_command(command: str, outcome: Outcome) -> None:
    assert outcome_of("", exit_code=1, command=command) is outcome
    assert outcome_of("", exit_code=2, command=command) is Outcome.ERROR_AGENT


def test_the_code_a_line_prints_is_of_the_command_before() -> None:
    assert outcome_of("rc=1", command='grep -q x a; echo "rc=$?"') is Outcome.OK_EMPTY
    assert outcome_of("no such table\nrc=1", command="sqlite3 a.db 'select 1'; echo rc=$?") is Outcome.ERROR_AGENT
    assert outcome_of("rc=1", command="grep -q x a\necho rc=$?") is Outcome.OK_EMPTY
    assert outcome_of("rc=2", command="ls logs 2>/dev/null; echo rc=$?") is Outcome.OK_EMPTY
    assert outcome_of("rc=1", command="bash -lc 'grep -q x a; echo rc=$?'") is Outcome.OK_EMPTY
    assert outcome_of("rc=1", command="pytest 2>/dev/null; echo rc=$?") is Outcome.ERROR_AGENT
    assert outcome_of("rc=127", command="lls logs 2>/dev/null; echo rc=$?") is Outcome.ERROR_AGENT
    assert outcome_of("", exit_code=1, command="python build.py 2>/dev/null") is Outcome.ERROR_AGENT
    assert outcome_of("Exit code 1", command="pytest -q 2>/dev/null") is Outcome.ERROR_AGENT


@given(st.text(), st.none() | st.booleans(), st.none() | st.integers(-2, 255), st.text(max_size=20))
def test_any_result_has_an_outcome(text: str, flag: bool | None, code: int | None, command: str) -> None:
    assert outcome_of(text, flag=flag, exit_code=code, command=command) in Outcome


@given(st.text(alphabet="abc \n", min_size=3).map(lambda s: "page " + s))
def test_the_word_error_in_the_body_is_no_failure(text: str) -> None:
    assert outcome_of(text + " error: Exception failed") is Outcome.UNKNOWN


def test_flags_of_harnesses() -> None:
    assert error_flag({"is_error": True}) is True
    assert error_flag({"status": "error"}) is True
    assert error_flag({"error": False}) is False
    assert error_flag({"content": "x"}) is None


def test_commands_in_arguments() -> None:
    assert command_of('{"command": ["bash", "-lc", "rg x"]}') == "rg x"
    assert command_of('{"cmd": "ls"}') == "ls"
    assert command_of("{broken") == ""
