import pytest
from hint_cases import call, corrected, failed_call, signal_of, trace_of
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.trace import Author, Trace
from hinting.cues import family_of
from hinting.hint import Hint, HintSource
from hinting.screen import screen
from hinting.sentences import sentences
from hinting.signal import SignalKind
from hinting.write import OWN_WORDS, propose

FAMILIES = ("length", "format", "language", "tone", "missing_question", "wrong_entity", "generic", "unheard_of")


def texts(trace: Trace, family: str, kind: SignalKind = SignalKind.USER_CORRECTION, evidence: str | None = None) -> str:
    """The texts of one family, in one string."""
    hints = propose(trace, signal_of(trace, kind, evidence), lambda _: [family])
    return " | ".join(hint.text for hint in hints if hint.family != OWN_WORDS)


@pytest.mark.parametrize(
    ("family", "complaint", "wanted", "unwanted"),
    [
        ("length", "Too long!", "one short sentence", "line"),
        ("length", "One sentence, please.", "exactly one short sentence", "two"),
        ("length", "I said two sentences max", "at most 2 short sentences", "one short"),
        ("length", "2-3 sentences please", "at most 3 short sentences", "one short"),
        ("length", "in one line please", "one single short line", "sentence"),
        ("length", "2 or \u00b2 sentences please", "at most 2 short sentences", "one short"),
        ("length", f"3 to {'9' * 5000} sentences", "at most 3 short sentences", "one short"),
        ("length", "keep it under 50 words", "at most 50 words", "sentence"),
        ("length", "Max 160 characters", "under 160 characters", "sentence"),
        ("length", "a single paragraph", "one short paragraph", "bullet"),
        ("length", "Too short, more detail please", "fuller", "one short sentence"),
        ("length", "I don't need more detail", "one short sentence", "fuller"),
        ("format", "Can I have bullets?", "bulleted list", "without any list"),
        ("format", "stop using bullet points", "without any list", "bulleted"),
        ("format", "a list, not a table", "bulleted list", "with a header row"),
        ("format", "not a list but a table", "with a header row", "bulleted"),
        ("format", "I wanted a numbered list", "numbered list", "JSON"),
        ("format", "Please answer in JSON", "valid JSON only", "without any JSON"),
        ("format", "plain text please", "plain text without any markdown", "bulleted"),
        ("format", "no markdown", "plain text without any markdown", "Format the answer with markdown"),
        ("format", "just the code", "one code block only", "without any code"),
        ("language", "In German please", "Answer in German only.", "English"),
        ("language", "auf Deutsch bitte", "Answer in German only.", "English"),
        ("language", "not in English, in French", "French", "English"),
        ("language", "用中文回答", "Chinese", "English"),
        ("language", "No entiendo, por favor, no es mi lengua", "Spanish", "English"),
        ("language", "huh", "Answer in English only.", "French"),
        ("tone", "too formal", "relaxed", "professional"),
        ("tone", "be more professional", "professional", "relaxed"),
        ("tone", "no emojis", "no emojis", "formal"),
        ("tone", "stop apologizing", "Do not apologise", "formal"),
        ("missing_question", "You should have asked me which one", "one short question", "confirm"),
        ("missing_question", "get my confirmation first", "ask the user to confirm", "which one"),
        ("missing_question", "stop asking, I already told you", "Ask nothing", "confirm"),
        ("wrong_entity", "wrong order!", "exactly the number", "city"),
        ("wrong_entity", "wrong city", "exactly the place", "number"),
        ("wrong_entity", "not that", "name, number or item", "city"),
        ("generic", "that's wrong", "do exactly what its words ask", "sentence"),
    ],
)
def test_the_texts_follow_the_user_s_words(family: str, complaint: str, wanted: str, unwanted: str) -> None:
    found = texts(corrected(complaint), family)
    assert wanted in found
    assert unwanted not in found


def test_the_language_is_that_of_the_person_where_none_is_named() -> None:
    trace = corrected("Wie bitte?", asked="Was ist der Tee und wie ist das mit dem Koffein?")
    assert "Answer in German only." in texts(trace, "language")


def test_a_language_that_cannot_be_told_is_not_guessed() -> None:
    found = texts(corrected("huh", asked="Tee?"), "language")
    assert found == "Answer in the language of the user's own messages."


@pytest.mark.parametrize(
    ("complaint", "family"),
    [
        ("That was way too long.", "length"),
        ("Please use bullet points.", "format"),
        ("Auf Deutsch bitte!", "language"),
        ("Your tone is rude.", "tone"),
        ("You should have asked me first.", "missing_question"),
        ("That's the wrong order.", "wrong_entity"),
    ],
)
def test_the_cues_and_the_writer_know_the_same_families(complaint: str, family: str) -> None:
    trace = corrected(complaint)
    assert family in {hint.family for hint in propose(trace, signal_of(trace))}
    assert family in family_of(complaint)


@pytest.mark.parametrize(
    ("error", "wrong", "family", "wanted"),
    [
        ("'unit' is a required property", call(city="Bern"), "missing_argument", "`unit`"),
        ("Missing arguments", call(), "missing_argument", "`city`, `unit`"),
        ("Unknown tool: weather", call("weather", city="Bern"), "unknown_tool", "`get_weather`"),
        (
            "unit must be one of celsius, fahrenheit",
            call(city="Bern", unit="C"),
            "invalid_value",
            "`unit` exactly one of",
        ),
        (
            "invalid value for day",
            call(city="Bern", unit="celsius", day="soon"),
            "invalid_value",
            "`day` a date string",
        ),
        ("Could not parse JSON: unterminated string", call(), "bad_json", "valid JSON object"),
        (
            "got an unexpected keyword argument 'town'",
            call(town="Bern"),
            "unexpected_argument",
            "`city`, `unit`, `day`",
        ),
        ("city not found", call(city="Brn", unit="celsius"), "not_found", "stand in the conversation"),
        ("boom", call(city="Bern"), "tool_error", "read the description and schema of `get_weather`"),
    ],
)
def test_a_tool_s_error_names_the_schema_s_rule(error: str, wrong: object, family: str, wanted: str) -> None:
    trace = failed_call(error, wrong, call(city="Bern", unit="celsius", day="2026-11-30"))  # type: ignore[arg-type] -- parametrized
    signal = signal_of(trace, SignalKind.TOOL_ERROR_RETRY)
    hints = [hint for hint in propose(trace, signal) if hint.family == family]
    assert wanted in " ".join(hint.text for hint in hints)
    assert [screen(hint, trace, signal) for hint in hints] == [None] * len(hints)


@pytest.mark.parametrize(
    ("before", "after", "family", "wanted"),
    [
        ("One. Two. Three. Four. Five things to say.", "One thing.", "length", "one short sentence"),
        ("Tea.", "Tea is a hot drink made of leaves, and many people like it.", "length", "fuller"),
        ("- hot\n- wet\n- good", "It is hot, wet and good.", "format", "without any list"),
        ("It is hot, wet, good.", "- hot\n- wet\n- good", "format", "bulleted list"),
        ("It is **hot** and `wet`.", "It is hot and wet.", "format", "plain text"),
        ("The tea is hot and the cup is good.", "Der Tee ist heiß und die Tasse nicht.", "language", "German"),
        ("I will book it for you.", "Which day shall I book it?", "missing_question", "question"),
        ("Great choice! Tea is hot.", "Great choice. Tea is hot.", "tone", "exclamation"),
        ("Tea is hot today.", "Tea is cold today.", "generic", "words ask"),
    ],
)
def test_an_accepted_edit_names_the_kind_of_change_and_not_the_edit(
    before: str, after: str, family: str, wanted: str
) -> None:
    trace = trace_of((Author.HUMAN, "Tell me."), (Author.AGENT, before))
    hints = propose(trace, signal_of(trace, SignalKind.ACCEPTED_EDIT, after))
    assert wanted in " ".join(hint.text for hint in hints if hint.family == family)
    assert all(after not in hint.text and hint.family != OWN_WORDS for hint in hints)


def test_a_rejection_gives_the_reason_typed() -> None:
    trace = trace_of(
        (Author.HUMAN, "Clean up."),
        (Author.AGENT, "", [call("delete", path="/")]),
        (Author.TOOL, "The tool use was rejected. The user said:\nonly the build folder, and ask first"),
        tools=[{"type": "function", "function": {"name": "delete"}}],
    )
    hints = propose(trace, signal_of(trace, SignalKind.REJECTED_ACTION), lambda _: ["missing_question"])
    assert {"missing_question", "rejected_action", OWN_WORDS} == {hint.family for hint in hints}
    assert hints[-1].text.endswith('"only the build folder, and ask first"')
    assert any("`delete`" in hint.text for hint in hints)


@pytest.mark.parametrize(
    ("complaint", "wish"),
    [
        ("You forgot to cite the order number.", "Cite the order number."),
        ("That is bad. I expected you to keep it short, please!", "Keep it short."),
        ("Why didn\u2019t you greet me first?", "Greet me first."),
        ("From now on, please use metric units", "Use metric units."),
        ("No, you should always name the shop.", "Name the shop."),
        ("You should not do this.", None),
        ("You should have said so.", None),
        ("You did it wrong.", None),
        ("Why do you keep saying this?", None),
        ("You should " + "very " * 40 + "quickly stop.", None),
    ],
)
def test_a_wish_in_so_many_words_is_a_candidate_of_its_own(complaint: str, wish: str | None) -> None:
    trace = corrected(complaint)
    hints = propose(trace, signal_of(trace), lambda _: [])
    assert [hint.text for hint in hints if hint.family == "stated"] == ([wish] if wish else [])


def own(trace: Trace, evidence: str) -> Hint:
    hint = propose(trace, signal_of(trace, SignalKind.FEEDBACK, evidence), lambda _: [])[-1]
    assert hint.family == OWN_WORDS
    return hint


def test_the_user_s_own_words_are_the_last_candidate() -> None:
    trace = corrected("x")
    assert '"Speak like a pirate, please."' in own(trace, "Speak like a pirate, please.").text
    quoted = own(trace, 'Say "aye" [always]. Two. Three. Four.').text
    assert "'aye' (always). Two. Three." in quoted
    assert "Four" not in quoted
    assert "[" not in quoted
    for evidence in ("", "rated -1"):
        rated = propose(trace, signal_of(trace, SignalKind.FEEDBACK, evidence), lambda _: [])
        assert {hint.family for hint in rated} == {"generic"}


@given(
    complaint=st.text(max_size=700),
    asked=st.text(max_size=50),
    families=st.lists(st.sampled_from(FAMILIES), max_size=4, unique=True),
    kind=st.sampled_from(list(SignalKind)),
)
def test_every_hint_is_short_unique_and_of_its_signal(
    complaint: str, asked: str, families: list[str], kind: SignalKind
) -> None:
    trace = corrected(complaint, asked=asked)
    signal = signal_of(trace, kind)
    hints = propose(trace, signal, lambda _: families)
    assert hints == propose(trace, signal, lambda _: families)
    assert len({hint.id for hint in hints}) == len(hints) > 0
    for hint in hints:
        assert len(sentences(hint.text)) <= 3
        assert len(hint.text) <= 400
        assert (hint.source, hint.target, hint.signal_ids) == (HintSource.RULE, 1, (signal.id,))
    for family in {hint.family for hint in hints} & set(FAMILIES):
        assert 1 <= sum(hint.family == family for hint in hints) <= 3
    spoken = kind not in (SignalKind.ACCEPTED_EDIT, SignalKind.TOOL_ERROR_RETRY)
    if any(c.isalnum() for c in complaint):
        assert (hints[-1].family == OWN_WORDS) == spoken


WORDS = """
too long short one two three sentence line words bullets list table json plain text german
french in not no stop please formal rude emoji ask confirm before wrong order city file
date name which more detail 40 160
"""
words = st.sampled_from(WORDS.split())


@given(
    complaint=st.lists(words, min_size=1, max_size=14).map(" ".join),
    families=st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=6, unique=True),
    kind=st.sampled_from([SignalKind.USER_CORRECTION, SignalKind.FEEDBACK, SignalKind.USER_REPEAT]),
)
def test_the_screen_lets_every_hint_by_rule_pass(complaint: str, families: list[str], kind: SignalKind) -> None:
    trace = corrected(complaint, after="Order A-4711 is on its way to 12 Main Street.")
    signal = signal_of(trace, kind)
    for hint in propose(trace, signal, lambda _: families):
        if hint.family != OWN_WORDS:
            assert screen(hint, trace, signal) is None, hint.text
            assert screen(hint, trace) is None, hint.text


names = st.from_regex(r"[a-z_]{3,20}", fullmatch=True)


@given(
    tool=names,
    properties=st.dictionaries(names, st.sampled_from(["string", "integer", "boolean", "array"]), max_size=30),
    error=st.sampled_from(
        [
            "missing required field",
            "unknown tool",
            "invalid value",
            "Expecting value: JSON",
            "unexpected argument",
            "no",
        ]
    ),
    mention=st.integers(0, 29),
    value=st.from_regex(r"[A-Z]{2}-[0-9]{5}", fullmatch=True),
)
def test_the_screen_lets_every_tool_hint_by_rule_pass(
    tool: str, properties: dict[str, str], error: str, mention: int, value: str
) -> None:
    schema = {
        "type": "object",
        "properties": {k: {"type": v} for k, v in properties.items()},
        "required": [*properties],
    }
    named = [*properties, ""][mention % (len(properties) + 1)]
    trace = trace_of(
        (Author.HUMAN, "Do it."),
        (Author.AGENT, "", [call(tool)]),
        (Author.TOOL, f"{error} {named}"),
        (Author.AGENT, "", [call(tool, **dict.fromkeys(properties, value))]),
        tools=[{"type": "function", "function": {"name": tool, "parameters": schema}}],
    )
    signal = signal_of(trace, SignalKind.TOOL_ERROR_RETRY)
    for hint in propose(trace, signal):
        if hint.family != OWN_WORDS:
            assert screen(hint, trace, signal) is None, hint.text
