import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinting.sentences import sentences, trim


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("... !!", 0),
        ("Hello", 1),
        ("No full stop at the end", 1),
        ("Use a wrench, e.g. a small one. It costs 3.50 dollars.", 2),
        ("See https://example.com/a.html?x=1.5 for more. Then go.", 2),
        ("Dr. Smith met J. Doe vs. the U.S. team.", 1),
        ("We open at 9 a.m. and close at 5 p.m. Come by!", 2),
        ("Apples, pears, etc. are fruit.", 1),
        ("Apples, pears, etc. The end.", 2),
        ("See No. 5 on the list.", 1),
        ("The answer is no. Ask again.", 2),
        ("Well… maybe not", 1),
        ("Wait... Then it broke.", 2),
        ("Really?! Yes!!! ok. fine", 4),
        ('He said "Stop." Then he left.', 2),
        ("**Done.** Next one", 2),
        ("- one\n- two\n- three", 3),
        ("1. First. And more\n2. Second", 3),
        ("a long line that\nwraps here. And ends", 2),
        ("# Title\n\nBody text here.", 2),
        ("---\n\nText.", 1),
        ("```python\na.b. c\n```\nDone.", 2),
        ("今天好。明天见。", 2),
        ("यह अच्छा है। धन्यवाद।", 2),
    ],
)
def test_counts_as_a_reader_would(text: str, count: int) -> None:
    assert len(sentences(text)) == count, sentences(text)


@given(st.text())
def test_no_text_breaks_it_and_every_sentence_holds_a_word(text: str) -> None:
    assert all(any(c.isalnum() or c == "_" for c in sentence) for sentence in sentences(text))


@given(st.lists(st.sampled_from(["The cat sat.", "It rained!", "Who knows?", "Yes."]), max_size=8))
def test_plain_sentences_are_counted_exactly(said: list[str]) -> None:
    assert sentences(" ".join(said)) == said


@given(st.text(max_size=900), st.integers(1, 4), st.integers(10, 300))
def test_trim_keeps_its_bounds(text: str, most: int, chars: int) -> None:
    assert len(trim(text, max_sentences=most, max_chars=chars)) <= chars


def test_trim_cuts_at_a_word() -> None:
    assert trim("One two three four. Five.", max_sentences=1, max_chars=12) == "One two…"
