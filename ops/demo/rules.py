"""House rules: what the desk is held to, as a grader's configuration and as what users say when it is broken.

The rules stand nowhere else. The daemon is given the grader and nothing more; what users say reaches it as traffic.
"""

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from harness_adapters.errors import ConfigError
from hinting.graders import RuleClause, RuleGraderConfig
from ops.demo.scenario import COMPLAINTS, TEMPERATURE

ASKS_FOR_LIST = r"\b(?:list|one per line|on each line|each on its own line)\b"


@dataclass(frozen=True, slots=True)
class HouseRule:
    """One rule. `grader` decides whether an answer keeps it; lists have a clause of their own."""

    name: str
    summary: str
    grader: RuleGraderConfig
    complaints: list[str]
    topics: int
    """How many topics its users ask about; the fewer hints the model follows, the more traffic a round needs."""
    answer_tokens: int
    """Where an answer is cut. One that was cut never passes a trial, so those that keep the rule have to end before."""


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
        complaints=COMPLAINTS["brief"],
        topics=72,
        answer_tokens=56,
    ),
    HouseRule(
        name="greeting",
        summary="every answer begins with a greeting, unless a list was asked for",
        grader=RuleGraderConfig(
            kind="rule",
            name="greeting",
            clauses=(
                RuleClause(when_user_matches=ASKS_FOR_LIST, min_lines=3),
                RuleClause(matches=r"(?i)^\W*(?:hello|hi|good (?:morning|afternoon|day))\b"),
            ),
        ),
        complaints=COMPLAINTS["greeting"],
        topics=72,
        answer_tokens=128,
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
        "hints": {"temperature": TEMPERATURE, "max_tokens": rule.answer_tokens, "max_concurrency": 16},
        "rounds": {
            "min_hints": 12,
            "min_validate": 2,
            "min_gate": 6,
            "validate_share": 0.12,
            "gate_share": 0.25,
            "max_offline": 4,
            "settle_s": 900,
        },
        "learner": {
            "seed": seed,
            "optimizer": {"learning_rate": 2e-3, "schedule": "linear"},
            "objective": {"preserve_weight": 0.5},
            "batch": {"repair": 12, "preserve": 8, "micro_batch": 4},
            "generation": {"max_new_tokens": 40},
            "stopping": {"max_steps": 10, "validate_every": 5, "patience": 2},
        },
        "gate": {"max_cases": 16, "temperature": TEMPERATURE},
        "logging": {"json": False},
    }
    grader = rule.grader.model_dump(exclude_none=True)
    return tomli_w.dumps({**settings, "graders": [grader]})
