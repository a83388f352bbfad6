"""Trials: does a hint make the model get the turn right? The turn is sampled again, with the hint and without."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from harness_adapters.errors import EngineError, SecondNatureError
from harness_adapters.prompt import Prompt
from harness_adapters.trace import ToolCall, Trace
from hinting.grade import Grader, case_of
from hinting.graders import grade_all
from hinting.hint import Hint, HintState, Trial
from hinting.model import ChatModel, Sampling
from hinting.placement import PROBES, anchor, hint_block, splice, with_suffix
from hinting.reply import read_reply
from hinting.signal import Signal
from hinting.together import together

UNGRADED = "ungraded"
"""The reason of a hint whose every trial left the graders without an opinion; its trials say why."""


async def try_hints(
    trace: Trace,
    hints: Sequence[Hint],
    model: ChatModel,
    graders: Sequence[Grader],
    *,
    signal: Signal,
    prompt: Prompt,
    sampling: Sampling,
    rollouts: int = 3,
    max_concurrency: int = 4,
    threshold: float = 2 / 3,
    stop_at_full: bool = False,
    grade_timeout_s: float = 10.0,
    read: Callable[[str], tuple[str, tuple[ToolCall, ...]]] = read_reply,
) -> list[Hint]:
    """Try every hint on the signal's target turn and return them with their trials, the best first.

    Each candidate gets one rollout, and the other `rollouts - 1` only if that one passed; so does the turn without a
    hint, once for all candidates. Rollout `i` has seed `sampling.seed + i` on both sides. A hint passes when its mean
    is at least `threshold` and above the mean without it, an ungraded baseline counting as not passed: the recorded
    turn is known to have been wrong. A reply cut at `max_tokens` is never a pass.

    With `stop_at_full` the candidates are tried in their order until one passes all its rollouts; the rest are
    returned untried. Otherwise all are tried at once.

    `prompt` is what the model was shown before that turn; without recorded ids it is rendered. At most
    `max_concurrency` replies are sampled at once. An engine that refuses the prompt, or a template, makes the hint fail
    with the reason. Raises every other EngineError, since it says nothing of the hints: try again later. Raises
    ValueError when a hint is not of the signal's turn.
    """
    if any((hint.trace_id, hint.target) != (signal.trace_id, signal.target) for hint in hints):
        raise ValueError(
            f"try the hints of one turn at a time: not all are of turn {signal.target} of {signal.trace_id}"
        )
    if not graders:
        return [hint.tried((), HintState.FAILED, UNGRADED) for hint in hints]
    bench = _Bench(
        trace=trace,
        signal=signal,
        model=model,
        graders=graders,
        sampling=sampling,
        rollouts=rollouts,
        slots=asyncio.Semaphore(max_concurrency),
        grade_timeout_s=grade_timeout_s,
        read=read,
    )
    try:
        prompt_ids, at = await bench.placement(prompt)
        without = await bench.trials(prompt_ids, hinted=False)
    except SecondNatureError as error:
        return [hint.tried((), HintState.FAILED, _refusal(error)) for hint in hints]
    if len(without) == rollouts and all(trial.passed for trial in without):
        return [hint.tried(without, HintState.FAILED, "the turn passes without a hint") for hint in hints]

    async def tried(hint: Hint) -> Hint:
        try:
            hinted_prompt = splice(prompt_ids, at, await model.encode(hint_block(hint.text)))
            trials = await bench.trials(hinted_prompt, hinted=True)
        except SecondNatureError as error:
            return hint.tried(without, HintState.FAILED, _refusal(error))
        return _judged(hint.tried((*trials, *without), HintState.FAILED), threshold)

    if not stop_at_full:
        return sorted(await together(tried(hint) for hint in hints), key=_rank)
    done: list[Hint] = []
    for hint in hints:
        done.append(await tried(hint))
        if done[-1].state is HintState.PASSED and done[-1].score == 1.0:
            break
    return sorted([*done, *hints[len(done) :]], key=_rank)


def _refusal(error: SecondNatureError) -> str:
    """Say why the turn cannot be tried; raise the error again where it says nothing of the turn."""
    if isinstance(error, EngineError) and not error.refusal:
        raise error
    return f"{type(error).__name__}: {error}"


def _rank(hint: Hint) -> tuple[bool, float]:
    return hint.state is not HintState.PASSED, -(hint.score if hint.score is not None else -1.0)


def _judged(hint: Hint, threshold: float) -> Hint:
    """Settle a tried hint by its means."""
    if hint.score is None:
        return replace(hint, reason=UNGRADED)
    baseline = hint.baseline or 0.0
    if hint.score < threshold:
        why = next((trial.reason for trial in hint.trials if trial.hinted and trial.passed is False), "")
        return replace(
            hint, reason=f"passes {hint.score:.2f} of its trials, {threshold:.2f} wanted; {why}".rstrip("; ")
        )
    if hint.score <= baseline:
        return replace(hint, reason=f"passes {hint.score:.2f} of its trials, no more than without it ({baseline:.2f})")
    return replace(hint, state=HintState.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """One turn under trial."""

    trace: Trace
    signal: Signal
    model: ChatModel
    graders: Sequence[Grader]
    sampling: Sampling
    rollouts: int
    slots: asyncio.Semaphore
    grade_timeout_s: float
    read: Callable[[str], tuple[str, tuple[ToolCall, ...]]]

    async def placement(self, prompt: Prompt) -> tuple[list[int], int]:
        """Return the prompt's ids without a hint and the position at which a hint goes in."""
        ids = list(prompt.ids) if prompt.ids is not None else await self.model.render(prompt)
        probe_a, probe_b = [await self.model.render(with_suffix(prompt, probe)) for probe in PROBES]
        return ids, anchor(ids, probe_a, probe_b)

    async def trials(self, prompt: Sequence[int], *, hinted: bool) -> tuple[Trial, ...]:
        """Sample and grade one reply, and the rest at once if it passed."""
        first = await self._trial(prompt, 0, hinted=hinted)
        if first.passed is not True or self.rollouts == 1:
            return (first,)
        more = (self._trial(prompt, number, hinted=hinted) for number in range(1, self.rollouts))
        return (first, *await together(more))

    async def _trial(self, prompt: Sequence[int], number: int, *, hinted: bool) -> Trial:
        seed = (self.sampling.seed or 0) + number
        async with self.slots:
            reply = await self.model.complete(prompt, replace(self.sampling, seed=seed))
        text, calls = self.read(reply.text)
        case = case_of(self.trace, self.signal.target, text, calls, self.signal)
        grade = await grade_all(self.graders, case, timeout_s=self.grade_timeout_s)
        passed, reason = grade.passed, grade.reason
        if passed and reply.finish_reason == "length":
            # Nobody knows whether the rest would have passed: neither the hint nor its absence gets the credit.
            passed = False if hinted else None
            reason = f"cut at {self.sampling.max_tokens} tokens, so whether it passes cannot be said"
        return Trial(hinted=hinted, seed=seed, reply=reply.text, passed=passed, grader=grade.grader, reason=reason)
