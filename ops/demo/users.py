"""Simulated users of the help desk. They speak through the stock `openai` client and know nothing of Second Nature."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from openai import AsyncOpenAI, OpenAIError

from hinting.grade import GradeCase
from hinting.graders import RuleGrader
from ops.demo.rules import HouseRule
from ops.demo.scenario import ACCEPTANCES, LIST_TOKENS, SYSTEM, TEMPERATURE

LIST_LINES = 3
PATIENCE = 1
"""Complaints a user makes about one answer before giving up."""


@dataclass(slots=True)
class Traffic:
    """What the users have seen so far."""

    requests: int = 0
    failed: int = 0
    complaints: int = 0
    accepted: int = 0


class Desk:
    """The help desk as its users see it: an OpenAI endpoint and a house rule they hold it to."""

    def __init__(self, client: AsyncOpenAI, model: str, rule: HouseRule, at_once: int) -> None:
        self.traffic = Traffic()
        self._client = client
        self._model = model
        self._rule = rule
        self._grader = RuleGrader(rule.grader)
        self._slots = asyncio.Semaphore(at_once)

    async def ask(self, messages: Sequence[dict[str, str]], *, seed: int, max_tokens: int) -> str | None:
        """Ask for one answer, streamed as chat windows do. None when the request failed."""
        self.traffic.requests += 1
        try:
            stream = await self._client.chat.completions.create(
                model=self._model,
                messages=list(messages),  # type: ignore[arg-type] - plain dictionaries are what most callers send
                temperature=TEMPERATURE,
                max_tokens=max_tokens,
                seed=seed,
                stream=True,
            )
            parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        except OpenAIError:
            self.traffic.failed += 1
            return None
        return "".join(parts)

    async def holds(self, question: str, reply: str) -> bool:
        """Say whether a reply keeps the house rule."""
        case = GradeCase(messages=[{"role": "user", "content": question}], text=reply)
        return bool((await self._grader.grade(case)).passed)

    async def topic_session(self, question: str, seed: int) -> None:
        """Ask; complain in one's own words while the rule is broken; say so when it is kept."""
        rng = random.Random(seed)  # noqa: S311 - a simulation
        messages = opening(question)
        for attempt in range(PATIENCE + 1):
            reply = await self._say(messages, seed + attempt)
            if reply is None:
                return
            if await self.holds(question, reply):
                self.traffic.accepted += 1
                await self._say([*messages, answer(reply), user(rng.choice(ACCEPTANCES))], seed, last=True)
                return
            if attempt < PATIENCE:
                self.traffic.complaints += 1
                messages = [*messages, answer(reply), user(rng.choice(self._rule.complaints))]

    async def list_session(self, question: str, seed: int) -> None:
        """Ask for a list and be glad of one."""
        messages = opening(question)
        reply = await self._say(messages, seed, max_tokens=LIST_TOKENS)
        if reply is not None and lists_ok(reply):
            self.traffic.accepted += 1
            thanks = random.Random(seed).choice(ACCEPTANCES)  # noqa: S311 - a simulation
            await self._say([*messages, answer(reply), user(thanks)], seed, last=True)

    async def side_session(self, question: str, seed: int) -> None:
        """Do another team's work through the same model, and be content with it."""
        messages = [user(question)]
        reply = await self._say(messages, seed)
        if reply is not None:
            self.traffic.accepted += 1
            thanks = random.Random(seed).choice(ACCEPTANCES)  # noqa: S311 - a simulation
            await self._say([*messages, answer(reply), user(thanks)], seed, last=True)

    async def share(
        self,
        questions: Sequence[str],
        check: Callable[[str, str], Awaitable[bool]],
        seed: int,
        max_tokens: int | None = None,
    ) -> float:
        """Ask every question once and return the share of replies that pass `check`; a failed request does not."""

        async def one(number: int, question: str) -> bool:
            reply = await self._say(opening(question), seed + number, max_tokens=max_tokens)
            return reply is not None and await check(question, reply)

        passed = await asyncio.gather(*(one(number, question) for number, question in enumerate(questions)))
        return sum(passed) / len(passed)

    async def keep_asking(self, question: str, stop: asyncio.Event) -> None:
        """Ask short things without pause until told to stop, so that a swap happens under load."""
        seed = 0
        while not stop.is_set():
            await self._say(opening(question), seed, last=True)
            seed += 1
            await asyncio.sleep(0.2)

    async def _say(
        self, messages: Sequence[dict[str, str]], seed: int, *, max_tokens: int | None = None, last: bool = False
    ) -> str | None:
        async with self._slots:
            most = 8 if last else max_tokens or self._rule.answer_tokens
            return await self.ask(messages, seed=seed, max_tokens=most)


async def list_check(_: str, reply: str) -> bool:
    """Say whether a reply is a list."""
    return lists_ok(reply)


def lists_ok(reply: str) -> bool:
    """Say whether a reply has the form of a list: at least three lines that are not blank."""
    return sum(1 for line in reply.splitlines() if line.strip()) >= LIST_LINES


def opening(question: str) -> list[dict[str, str]]:
    """Return the first messages of a session."""
    return [{"role": "system", "content": SYSTEM}, user(question)]


def user(text: str) -> dict[str, str]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, str]:
    """Return an answer as clients echo it."""
    return {"role": "assistant", "content": text}
