"""What a hint says, by family and by the user's words: the table behind the rule writer.

Each text states the rule for the next reply and nothing of the answer. They are short and in the imperative, which
small models follow best; measured on a 135M model, "Answer in one short sentence only." took replies within 160
characters from 0 % to 83 %.
"""

import re
from collections.abc import Callable, Iterable

from hinting.languages import asked_language, written_language
from hinting.negation import negated

_DIGITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: number for number, word in enumerate(_DIGITS, start=1)} | {
    "a single": 1,
    "single": 1,
    "a couple of": 2,
}
_COUNT = re.compile(
    rf"\b({'|'.join(sorted(_NUMBERS, key=len, reverse=True))}|\d{{1,4}})"
    r"(?:\s*(?:-|–|or|to)\s*(\w+))?[\s-]+(?:short |brief |simple |full )*"  # noqa: RUF001 -- ranges are typed with a dash
    r"(sentence|line|word|paragraph|char|bullet|item|point)",
    re.IGNORECASE,
)
_MOST = {
    "sentence": ("Answer in one short sentence only.", "Answer in at most {n} short sentences."),
    "line": ("Answer on one single short line.", "Answer on at most {n} lines."),
    "word": ("Answer with one word only.", "Answer in at most {n} words."),
    "paragraph": ("Answer in one short paragraph.", "Answer in at most {n} short paragraphs."),
    "char": ("Keep the whole answer under {n} characters.", "Keep the whole answer under {n} characters."),
    "bullet": ("Answer with one bullet point only.", "Answer with at most {n} bullet points."),
    "item": ("Answer with one item only.", "Answer with at most {n} items."),
    "point": ("Answer with one point only.", "Answer with at most {n} points."),
}
_LONGER = re.compile(
    r"too (?:short|brief|terse)|(?:more|some|extra) (?:detail|depth|explanation|information)|\blonger\b|"
    r"elaborat|expand|in[- ]depth|thorough|go deeper|not enough|flesh (?:it|this) out",
    re.IGNORECASE,
)


_NUMBER_CHARS = 4


def _number(word: str) -> int | None:
    return int(word) if word.isdecimal() and len(word) <= _NUMBER_CHARS else _NUMBERS.get(word.lower())


def _length(words: str, _written: str) -> Iterable[str]:
    if count := _COUNT.search(words):
        low = _number(count[1]) or 1
        most = (_number(count[2]) if count[2] else None) or low
        one, several = _MOST[count[3].lower()]
        yield one if most == 1 else several.format(n=most)
        if count[3].lower() == "sentence" and most == 1:
            yield "Reply with exactly one short sentence and then stop."
        yield "Give only the direct answer, without introduction or explanation."
        return
    longer = _LONGER.search(words)
    if longer and not negated(words, longer.start()):
        yield "Give a fuller answer: explain each point in complete sentences."
        yield "Answer in detail, with the reasons and an example."
        return
    yield "Answer in one short sentence only."
    yield "Keep the answer brief: at most two short sentences."
    yield "Give only the direct answer, without introduction or explanation."


_PROSE = ("Write plain paragraphs of full sentences, without any list.",)
_DATA = "Answer with valid {form} only, without any text around it."
_FORMS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        r"number(?:ed|s)? (?:list|steps|points)|ordered list|numbered|step[- ]by[- ]step",
        ("Write the answer as a numbered list, one step per line.",),
        _PROSE,
    ),
    (
        r"bullet|\blists?\b|one per line|per line|point form|stichpunkt|viñetas|\bpuces\b",
        (
            "Write the answer as a bulleted list, one item per line.",
            "Start every item on a new line with a dash, and write nothing around the list.",
        ),
        _PROSE,
    ),
    (
        r"\btables?\b|\bcolumns?\b|tabelle|tableau",
        ("Write the answer as a table with a header row.",),
        ("Write plain sentences, without any table.",),
    ),
    *(
        (
            rf"\b{form}\b",
            (_DATA.format(form=form),),
            (f"Write plain sentences for a person to read, without any {form}.",),
        )
        for form in ("JSON", "YAML", "CSV", "XML", "HTML", "SQL")
    ),
    (
        r"\bcode\b|snippet|\bscript\b",
        ("Answer with one code block only, without any explanation.", "Show working code for what is asked."),
        ("Explain in words, without any code.",),
    ),
    (
        r"plain[- ]?text|unformatted",
        ("Write plain text without any markdown or other formatting.",),
        ("Format the answer with markdown.",),
    ),
    (
        r"markdown|formatting|asterisk|\bbold\b",
        ("Format the answer with markdown.",),
        ("Write plain text without any markdown or other formatting.",),
    ),
    (
        r"\bheadings?\b|\bheaders?\b|\btitles?\b",
        ("Put a short heading over each part.",),
        ("Write the answer without any heading.",),
    ),
    (
        r"\bprose\b|paragraphs?|full sentences|flowing text",
        _PROSE,
        ("Write the answer as a bulleted list, one item per line.",),
    ),
)


def _format(words: str, _written: str) -> Iterable[str]:
    unwanted: list[str] = []
    for pattern, wanted, instead in _FORMS:
        if found := re.search(pattern, words, re.IGNORECASE):
            if negated(words, found.start()):
                unwanted += instead
            else:
                yield from wanted
    yield from unwanted
    yield "Write the answer exactly in the format that the user asks for."


def _language(words: str, written: str) -> Iterable[str]:
    language = asked_language(words) or written_language(f"{written}\n{words}")
    if language is None:
        yield "Answer in the language of the user's own messages."
        return
    yield f"Answer in {language} only."
    yield f"Write every sentence of the reply in {language}, whatever language stands above."


def _table(
    rows: tuple[tuple[str, tuple[str, ...]], ...], otherwise: tuple[str, ...]
) -> Callable[[str, str], Iterable[str]]:
    """Make a writer that takes the texts of the first row whose pattern the user's words match, else `otherwise`."""

    def write(words: str, _written: str) -> Iterable[str]:
        words = words.replace("’", "'")  # noqa: RUF001 -- typographic apostrophe, as people type it
        return next((texts for pattern, texts in rows if re.search(pattern, words, re.IGNORECASE)), otherwise)

    return write


_CASUAL = (
    "Write in a relaxed, friendly tone with everyday words.",
    "Talk as a helpful person would, not as a form letter.",
)
_FORMAL = ("Write in a formal, professional tone.", "Use complete, polite sentences without slang.")
_TONE = _table(
    (
        (r"emoji|smiley", ("Use no emojis.", "Write in plain words without emojis or exclamation marks.")),
        (r"exclamation", ("Use no exclamation marks.",)),
        (r"apolog|\bsorry\b", ("Do not apologise; go straight to the answer.",)),
        (r"jargon|technical|simpler|simple words|layman|understand", ("Use simple, everyday words and no jargon.",)),
        (
            r"sales|marketing|hype|pushy|enthusias|over the top|flatter",
            ("State the facts in a sober tone, without praise or advertising.",),
        ),
        (r"condescend|patroni[sz]|lectur|preach", ("Treat the user as an equal; give the facts without lecturing.",)),
        (r"(?:too|so|less|overly|not so) (?:\w+ )?(?:formal|stiff|robotic|cold|corporate|distant)", _CASUAL),
        (
            r"(?:too|so|less|overly) (?:\w+ )?(?:casual|informal|chummy|familiar|friendly|flippant)|unprofessional",
            _FORMAL,
        ),
        (r"informal|casual|friendl|warm|relax|human", _CASUAL),
        (r"formal|professional|serious|business", _FORMAL),
        (r"rude|polite|respect|tone|manner|snark|sarcas", ("Be polite and respectful.", "Use a calm, courteous tone.")),
    ),
    ("Use a calm, polite and factual tone.", "Match the tone of the user's own messages."),
)
_MISSING_QUESTION = _table(
    (
        (
            r"(?:stop|don't|do not|quit|no need to|why (?:do|are) you) (?:keep )?ask|too many questions|"
            r"already (?:told|said|gave)",
            ("Ask nothing; act on what the user has already said.",),
        ),
        (
            r"confirm|permission|approv|go[- ]?ahead|without (?:asking|checking)|check with me|"
            r"my (?:ok|okay|consent)|before (?:you )?\w+",
            (
                "Before any action that changes something, say what you will do and ask the user to confirm it.",
                "Do not act yet: ask for a clear yes first.",
            ),
        ),
    ),
    (
        "If a needed detail is missing, ask one short question for it and do not guess.",
        "Ask the user which one is meant before answering.",
        "End the reply with one question that asks for what is missing.",
    ),
)
_NOUNS = (
    (r"\bdates?\b|\bday\b|today|tomorrow|yesterday|week|month|\byear", "date"),
    (r"\btime\b|o'clock|hour|\b[ap]m\b", "time"),
    (r"order|booking|reservation|ticket|invoice|\bid\b|number", "number"),
    (r"address|city|country|town|place|street|airport|location", "place"),
    (r"file|folder|path|directory|branch|repo", "file or path"),
    (r"account|card|wallet", "account"),
    (r"price|amount|cost|total|quantity", "amount"),
    (r"version|model|product|item|size|colou?r", "item"),
    (r"name|person|customer|who\b|people", "name"),
)


def _wrong_entity(words: str, _written: str) -> Iterable[str]:
    noun = next((noun for pattern, noun in _NOUNS if re.search(pattern, words, re.IGNORECASE)), None)
    yield f"Use exactly the {noun or 'name, number or item'} that the user gave, and no other."
    yield f"Before answering, find in the user's own words which {noun or 'one'} is meant, and speak of that alone."


_GENERIC = _table(
    (
        (
            r"\b(?:vague|general|generic|abstract)\b|specific|precise",
            ("Be specific: name concrete facts and steps, and leave out general remarks.",),
        ),
        (r"too (?:complicated|technical|confusing|advanced)", ("Use simple, everyday words and no jargon.",)),
        (_LONGER.pattern, ("Give a fuller answer: explain each point in complete sentences.",)),
    ),
    (
        "Read the user's last request again and do exactly what its words ask.",
        "Answer only what was asked, in the form that was asked for.",
    ),
)
_REPEAT = _table(
    (),
    (
        "Answer the user's question directly and completely, starting with the first sentence.",
        "Do what the last request asks; if it cannot be done, say so plainly and why.",
    ),
)

_WRITERS: dict[str, Callable[[str, str], Iterable[str]]] = {
    "length": _length,
    "format": _format,
    "language": _language,
    "tone": _TONE,
    "missing_question": _MISSING_QUESTION,
    "wrong_entity": _wrong_entity,
    "repeat": _REPEAT,
    "generic": _GENERIC,
}


def texts_for(family: str, words: str, written: str = "") -> list[str]:
    """Return one to three hint texts of a family for the user's words; of `generic` where the family is unknown.

    `written` is what people wrote earlier in the session, by which their language is told.
    """
    texts = dict.fromkeys(_WRITERS.get(family, _GENERIC)(words, written))
    return list(texts)[:3]
