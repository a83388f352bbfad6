import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.authors import COMPACTION, author_of
from harness_adapters.trace import Author

USER_TEXTS = {
    "Fix the bug in a.py": Author.HUMAN,
    "Validation feedback:\nPlain text is not permitted\n\nFix the errors and try again.": Author.FRAMEWORK,
    "Your previous response did not contain a tool call in the right format": Author.FRAMEWORK,
    "Please continue working on the task on whatever approach you think is suitable.": Author.FRAMEWORK,
    "This session is being continued from a previous conversation that ran out of context.": Author.CLIENT,
    "<environment_context>\n<cwd>/a</cwd>\n</environment_context>": Author.CLIENT,
    "[Request interrupted by user for tool use]": Author.CLIENT,
    "# AGENTS.md instructions for /a\n\nuse tabs": Author.CLIENT,
    "Thanks! ###STOP###": Author.SIMULATED_USER,
    "What does 'Validation feedback:' mean?": Author.HUMAN,
    "Your response could not be parsed as JSON: expecting value": Author.FRAMEWORK,
    "Your last output must be a JSON object.": Author.FRAMEWORK,
    "2 validation errors for Order\nid: missing\nFix the errors and try again.": Author.FRAMEWORK,
    "Your response is not in the format I asked for.": Author.HUMAN,
    "The output is not valid JSON, please fix it.": Author.HUMAN,
    "Your reply was not in JSON as I asked": Author.HUMAN,
    "The page is still blank. Fix the errors and try again.": Author.HUMAN,
    "": Author.HUMAN,
}


@pytest.mark.parametrize(("text", "author"), USER_TEXTS.items())
def test_who_wrote_a_text_in_the_users_name(text: str, author: Author) -> None:
    assert author_of({"role": "user", "content": text}).author is author


def test_only_the_typed_words_are_the_persons() -> None:
    text = "<system-reminder>be good</system-reminder>\nthat is too long\n<environment_details>x</environment_details>"
    found = author_of({"role": "user", "content": text})
    assert (found.author, found.text) == (Author.HUMAN, "that is too long")
    assert author_of({"role": "user", "content": "<user_query>\nhi\n</user_query>"}).text == "hi"


def test_a_compaction_says_so() -> None:
    assert author_of({"role": "user", "content": "<conversation_summary>x"}).reason == COMPACTION


@pytest.mark.parametrize(
    ("role", "author"),
    [("assistant", Author.AGENT), ("tool", Author.TOOL), ("system", Author.SYSTEM), ("developer", Author.SYSTEM)],
)
def test_roles(role: str, author: Author) -> None:
    assert author_of({"role": role, "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}).text == "a"
    assert author_of({"role": role}).author is author


@given(st.text())
def test_any_text_has_an_author_and_a_reason(text: str) -> None:
    assert author_of({"role": "user", "content": text}).reason
