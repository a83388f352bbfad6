import pytest
from correction_examples import EXAMPLES, Example
from hypothesis import given
from hypothesis import strategies as st

from hinting.cues import FAMILIES, family_of
from hinting.reading import is_praise, negative, reads_as_correction, takes_back
from hinting.topics import same_request


def read(example: Example) -> list[str]:
    return reads_as_correction(example.text, request=example.request, answer=example.answer)


def test_precision_and_recall_over_all_examples() -> None:
    hits = sum(bool(read(e)) for e in EXAMPLES if e.family)
    false = [e.text for e in EXAMPLES if not e.family and read(e)]
    assert len(EXAMPLES) >= 400
    assert hits / sum(e.family is not None for e in EXAMPLES) >= 0.97
    assert hits / (hits + len(false)) >= 0.98, false


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_found_and_named(family: str) -> None:
    own = [e for e in EXAMPLES if e.family == family]
    assert len(own) >= 15
    assert sum(bool(read(e)) for e in own) / len(own) >= 0.95
    assert sum(family in family_of(e.text) for e in own) / len(own) >= 0.9


def test_harmless_messages_are_not_negative() -> None:
    harmless = [e for e in EXAMPLES if not e.family]
    negatives = [e.text for e in harmless if negative(e.text)]
    assert len(negatives) / len(harmless) <= 0.05, negatives


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    assert set(family_of(text)) <= set(FAMILIES)
    assert set(reads_as_correction(text, request=text, answer=text)) <= set(FAMILIES)
    assert {type(f(text)) for f in (negative, is_praise, takes_back)} == {bool}
    assert same_request(text, text) in (True, False)


@given(st.sampled_from([e for e in EXAMPLES if e.family == "length"]))
def test_case_and_kind_of_apostrophe_change_nothing(example: Example) -> None:
    upper = example._replace(text=example.text.upper().replace("'", "\u2019"))
    assert read(upper) == read(example)


@pytest.mark.parametrize(
    ("now", "then", "same"),
    [
        ("How do I reset my password?", "how can I reset the password??", True),
        ("I asked how to reset my password!", "How do I reset my password?", True),
        ("List five fruits, one per line", "List five rivers, one per line", False),
        ("What is the capital of France?", "What is the capital of Spain?", False),
        ("yes", "yes", False),
        ("How do I reset my password on the old phone at work?", "How do I reset my password?", False),
        ("怎么修改我的密码", "怎么修改我的密码?", True),
    ],
)
def test_the_same_request(now: str, then: str, same: bool) -> None:
    assert same_request(now, then) is same


@pytest.mark.parametrize(
    "text", ["Sorry, I meant Paris", "my mistake, it is the blue one", "Mein Fehler!", "You're right, it works"]
)
def test_own_words_taken_back(text: str) -> None:
    assert takes_back(text)
    assert not reads_as_correction(text)


def test_sorry_alone_takes_nothing_back() -> None:
    assert not takes_back("Sorry, but that's wrong")
    assert reads_as_correction("Sorry, but that's wrong") == ["generic"]


def test_praise() -> None:
    assert is_praise("Perfect, thanks!")
    assert not is_praise("Thanks, but that's far too long")
    assert not is_praise("Thanks for the essay...")


def test_a_hostile_text_is_read_in_bounded_time() -> None:
    for piece in ("so ", "the ", "a the ", "i dont want the ", "no no, ", "<<", "keep it to under ", "1 2 "):
        reads_as_correction(piece * 20_000, request=piece * 1000, answer=piece * 1000)
