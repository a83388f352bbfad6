"""House rules: what the desk is held to, as a grader's configuration and as what users say when it is broken.

The rules stand nowhere else. The daemon is given the grader and nothing more; what users say reaches it as traffic.
"""

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from harness_adapters.errors import ConfigError
from hinting.graders import RuleClause, RuleGraderConfig
from ops.demo.scenario import lines

ASKS_FOR_LIST = r"\b(?:list|one per line|on each line|each on its own line)\b"


@dataclass(frozen=True, slots=True)
class HouseRule:
    """One rule. `grader` decides whether an answer keeps it; lists have a clause of their own."""

    name: str
    summary: str
    grader: RuleGraderConfig
    complaints: tuple[str, ...]


BRIEF_COMPLAINTS = lines("""
Too long. One short sentence, please.
That was way too much text, keep it to a single sentence.
Please answer in one short sentence only.
I don't need an essay, just give me one line.
Shorter please! One sentence is enough.
Can you say that in a single short sentence?
Too wordy. Answer with one brief sentence.
Please be brief: one sentence.
I asked a simple question, I want a one-sentence answer.
TL;DR. Just one short sentence please.
Stop rambling and answer in one sentence.
Keep it short, one sentence at most.
I can't read all that on my phone. Make it one short sentence.
A single sentence would have done.
That is far too lengthy, please use one short sentence.
Could you be more concise? One sentence will do.
You talk too much. One short sentence, okay?
Next time one sentence only, please.
Please no long explanations, only one short sentence.
Wow, a wall of text. One short line please.
I just want a quick one-line answer.
Cut it down to a single line.
Less text please, just one short sentence.
Please keep your answers under one sentence's length, this is too long.
One sentence. Not five paragraphs.
In one short sentence, what do I do?
Just the answer in one short sentence, not the whole story.
Much shorter, please. A single sentence.
I said I was in a hurry: one short sentence!
Give me the short version in one sentence.
Your reply is too long for me, one sentence is plenty.
Condense this into one short sentence.
Short answers only, please, one sentence each.
Please sum it up in one sentence.
One line is enough for me, thanks.
That's a novel. One sentence, please.
Be concise. One sentence.
Brevity, please! One single sentence.
I only read the first sentence, so please write only one.
Way too much detail, answer me in a sentence.
I did not come here to read a book.
My eyes glazed over halfway through that.
Get to the point.
Just tell me what to do, nothing else.
I got lost in all of that.
Who has time to read all this?
Skip the lecture.
I stopped reading after the first bit.
Can you boil it down for me?
Just the gist, please.
You could have said that in ten words.
I only wanted the bottom line.
All that for such a simple question?
Please don't make me scroll.
Spare me the details.
I need the quick version, I'm on the bus.
No need for the whole story.
That was a mouthful.
Fewer words, please.
Straight to the point next time, please.
""")

GREETING_COMPLAINTS = lines("""
Start your answer with "Hello".
Please start your answer with the word "Hello".
You did not greet me. Start your answer with "Hello".
Begin every answer with "Hello", please.
It is rude to skip the greeting: start with "Hello".
Say "Hello" first, then answer.
The first word of your answer should be "Hello".
Always open with "Hello".
I expect an answer to begin with "Hello".
Could you start with "Hello" please?
""")

HOUSE_RULES = (
    HouseRule(
        name="brief",
        summary="one short sentence, unless a list was asked for",
        grader=RuleGraderConfig(
            kind="rule",
            name="brief",
            clauses=(
                RuleClause(when_user_matches=ASKS_FOR_LIST, min_lines=3),
                RuleClause(max_sentences=1, max_chars=160),
            ),
        ),
        complaints=BRIEF_COMPLAINTS,
    ),
    HouseRule(
        name="greeting",
        summary='every answer starts with "Hello", unless a list was asked for',
        grader=RuleGraderConfig(
            kind="rule",
            name="greeting",
            clauses=(
                RuleClause(when_user_matches=ASKS_FOR_LIST, min_lines=3),
                RuleClause(matches=r"^\W*Hello\b"),
            ),
        ),
        complaints=GREETING_COMPLAINTS,
    ),
)


def house_rule(name: str) -> HouseRule:
    """Return a house rule by name. Raises ConfigError that lists the names."""
    for rule in HOUSE_RULES:
        if rule.name == name:
            return rule
    raise ConfigError(f"there is no house rule {name!r}; --rule is one of {', '.join(r.name for r in HOUSE_RULES)}")


def config_for(rule: HouseRule, *, name: str, model: Path, data_dir: Path, seed: int) -> str:
    """Return the service's configuration as TOML. The house rule stands in it as a grader, and nowhere else."""
    settings = {
        "data_dir": str(data_dir),
        "model": {"name": name, "path": str(model)},
        "hints": {"temperature": 0.6, "max_tokens": 80, "max_concurrency": 16},
        "rounds": {
            "min_hints": 24,
            "min_validate": 6,
            "min_gate": 10,
            "validate_share": 0.15,
            "gate_share": 0.25,
            "max_offline": 12,
        },
        "learner": {
            "seed": seed,
            "optimizer": {"learning_rate": 1e-3},
            "batch": {"repair": 8, "preserve": 6, "micro_batch": 4},
            "generation": {"max_new_tokens": 40},
            "stopping": {"max_steps": 10, "validate_every": 2, "patience": 2},
        },
        "logging": {"json": False},
    }
    grader = rule.grader.model_dump(exclude_none=True)
    return tomli_w.dumps({**settings, "graders": [grader]})
