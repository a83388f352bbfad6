"""The judge of `secondnature signals --judge`: what the rules find in files is put before a model."""

import asyncio
import os
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, contextmanager

from pydantic import SecretStr, ValidationError

from daemon.config_sections import HintSettings, JudgeSettings
from daemon.judging import open_judge
from harness_adapters.errors import ConfigError
from harness_adapters.trace import Trace
from hinting.judge import Cast, Decided, Judge, unteachable
from hinting.signal import Signal
from hinting.together import together


class Judging:
    """Judges the signals of one session after the other, and keeps count."""

    def __init__(self, judge: Judge, runner: asyncio.Runner) -> None:
        self._judge = judge
        self._runner = runner
        self._min_confidence = HintSettings().min_confidence
        self._left_out = 0
        self._counts = Counter[Decided]()
        self._trouble = ""

    def __call__(self, trace: Trace, signals: Sequence[Signal]) -> list[Signal]:
        """Return the signals of a session as judged; those that could not teach anyway as they were."""
        asked = [signal for signal in signals if unteachable(signal, self._min_confidence) is None]
        self._left_out += len(signals) - len(asked)
        judged = {
            each.signal.id: each
            for each in self._runner.run(together(self._judge.judge(trace, signal) for signal in asked))
        }
        for each in judged.values():
            self._counts[each.decided] += 1
            lost = [vote.reason for vote in each.votes if vote.cast in (Cast.FAILED, Cast.TIMED_OUT, Cast.UNREADABLE)]
            self._trouble = lost[-1] if lost else self._trouble
        return [judged[signal.id].signal if signal.id in judged else signal for signal in signals]

    def told(self) -> str:
        """Say what came of it, and what last kept a vote from being cast."""
        counts = ", ".join(f"{self._counts[decided]} {decided.value.replace('_', ' ')}" for decided in Decided)
        left_out = f", {self._left_out} not asked about as they could not teach" if self._left_out else ""
        return f"judged: {counts}{left_out}" + (f"; a vote was lost: {self._trouble}" if self._trouble else "")


@contextmanager
def judging(url: str, model: str, key_variable: str | None = None) -> Generator[Judging]:
    """Open a judge, whose key stands in the environment's `key_variable`. Raises ConfigError where it cannot be."""
    key = None
    if key_variable is not None and not (key := os.environ.get(key_variable)):
        raise ConfigError(f"--judge-key-env: the environment has no {key_variable}; set it, or leave the option out")
    try:
        settings = JudgeSettings(url=url, model=model, api_key=SecretStr(key) if key else None)
    except ValidationError as error:
        faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())
        raise ConfigError(f"there is no such judge as --judge and --judge-model name ({faults})") from None
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        judge = runner.run(stack.enter_async_context(open_judge(settings)))
        assert judge is not None, "a url was given"
        try:
            yield Judging(judge, runner)
        finally:
            runner.run(stack.aclose())
