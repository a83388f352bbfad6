"""What people ask in the demo: topics, lists, other work through the same model, and unrelated prompts."""

import random
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

SYSTEM = "You are a helpful assistant for customers of Northwind, an online shop."
TEMPERATURE = 0.3
"""Of every answer, as help desks tend to have it."""
LIST_TOKENS = 80
"""Where a list is cut: it has its lines by then."""
HELD_OUT = 32
TRAFFIC_LISTS = 44
"""As many as one round needs: on a laptop every answer costs about a second."""
SMALL_TALK = "Are you there?"

_PROMPTS: dict[str, Any] = tomllib.loads(files("ops.demo").joinpath("prompts.toml").read_text(encoding="utf-8"))

TOPICS: list[str] = _PROMPTS["topics"]
ACCEPTANCES: list[str] = _PROMPTS["acceptances"]
OTHER_WORK: list[str] = _PROMPTS["other_work"]
UNRELATED: list[str] = _PROMPTS["unrelated"]
COMPLAINTS: dict[str, list[str]] = _PROMPTS["complaints"]

_FORMS: list[str] = _PROMPTS["list_forms"]
LISTS = [_FORMS[n % len(_FORMS)].format(thing) for n, thing in enumerate(_PROMPTS["list_things"])]


def split_topics(seed: int, most: int) -> tuple[list[str], list[str]]:
    """Return the topics that traffic is about, at most `most`, and the held-out ones, which nobody asks before they are
    measured."""
    return _split(TOPICS, seed, most)


def split_lists(seed: int) -> tuple[list[str], list[str]]:
    """Return the lists asked for in traffic and the held-out ones."""
    return _split(LISTS, seed, TRAFFIC_LISTS)


def _split(items: Sequence[str], seed: int, most: int) -> tuple[list[str], list[str]]:
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - a simulation
    return shuffled[HELD_OUT:][:most], shuffled[:HELD_OUT]
