import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hint_cases import call, corrected, failed_call, signal_of
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_adapters.errors import EngineError
from harness_adapters.prompt import prompt_of
from hinting.call_graders import ChangedCallGrader, SchemaGrader
from hinting.fake_model import FakeChatModel
from hinting.grade import Grader
from hinting.graders import RuleGraderConfig, load_graders
from hinting.hint import Hint, HintSource, HintState, new_hint
from hinting.model import Completion, Sampling
from hinting.placement import hint_block
from hinting.signal import SignalKind
from hinting.together import together
from hinting.verify import UNGRADED, try_hints

SHORT, LONG = "A hot drink.", "Tea is a drink. It is hot. People like it."
TRACE = corrected("Too long!", asked="What is tea?")
SIGNAL = signal_of(TRACE)
PROMPT = prompt_of(TRACE, 1)
SAMPLING = Sampling(max_tokens=200, seed=10)
ON_THE_TURN: Any = {"signal": SIGNAL, "prompt": PROMPT, "sampling": SAMPLING}


def one_sentence() -> Sequence[Grader]:
    clause = {"when_user_matches": "tea", "max_sentences": 1}
    return load_graders([RuleGraderConfig.model_validate({"kind": "rule", "clauses": [clause]})])


def hints(*texts: str) -> list[Hint]:
    return [new_hint(SIGNAL, text, HintSource.RULE, "length") for text in texts]


class Watched(FakeChatModel):
    """Counts what is asked of it, and how much at once."""

    busy = most = 0
    prompts: list[tuple[int, ...]]

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
        self.prompts = [*getattr(self, "prompts", []), tuple(prompt_ids)]
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        return await super().complete(prompt_ids, sampling)


def obeys(prompt: str, sampling: Sampling) -> str:
    """Short where told to be brief; where told to be merely shorter, two times of three."""
    if "brief" in prompt or ("shorter" in prompt and sampling.seed in (10, 12)):
        return SHORT
    return LONG


async def test_the_hint_that_works_best_comes_first_with_its_trials() -> None:
    model = Watched(obeys)
    tried = await try_hints(
        TRACE,
        hints("Be nice.", "Be shorter.", "Be brief."),
        model,
        one_sentence(),
        signal=SIGNAL,
        prompt=PROMPT,
        sampling=SAMPLING,
    )
    assert [hint.text for hint in tried] == ["Be brief.", "Be shorter.", "Be nice."]
    assert [hint.state for hint in tried] == [HintState.PASSED, HintState.PASSED, HintState.FAILED]
    assert [hint.score for hint in tried] == [1.0, 2 / 3, 0.0]
    assert {hint.baseline for hint in tried} == {0.0}
    assert tried[2].reason.startswith("passes 0.00 of its trials")
    assert "3 sentences" in tried[2].reason
    assert [(t.seed, t.reply) for t in tried[0].trials if t.hinted] == [(10, SHORT), (11, SHORT), (12, SHORT)]
    plain = tuple(await model.render(PROMPT))
    assert Counter(model.prompts)[plain] == 1, "without a hint it is run once for all candidates"
    assert len(model.prompts) == 1 + 1 + 3 + 3, "more rollouts only for what passed the first"


async def test_a_higher_threshold_wants_every_rollout() -> None:
    (hint,) = await try_hints(
        TRACE,
        hints("Be shorter."),
        FakeChatModel(obeys),
        one_sentence(),
        signal=SIGNAL,
        prompt=PROMPT,
        sampling=SAMPLING,
        threshold=0.67,
    )
    assert hint.state is HintState.FAILED
    assert "0.67 wanted" in hint.reason


async def test_the_recorded_ids_are_sent_with_the_hint_spliced_in() -> None:
    model = Watched(obeys)
    rendered = await model.render(PROMPT)
    recorded = [7, 7, *rendered]
    await try_hints(
        TRACE,
        hints("Be nice."),
        model,
        one_sentence(),
        signal=SIGNAL,
        prompt=replace(PROMPT, ids=tuple(recorded)),
        sampling=SAMPLING,
    )
    added = await model.encode(hint_block("Be nice."))
    without, hinted = model.prompts
    assert list(without) == recorded
    at = next(i for i in range(len(hinted)) if list(hinted[i : i + len(added)]) == added)
    assert [*hinted[:at], *hinted[at + len(added) :]] == recorded


async def test_a_turn_that_passes_unaided_needs_no_hint() -> None:
    model = Watched(lambda _prompt, _sampling: SHORT)
    (hint,) = await try_hints(TRACE, hints("Be nice."), model, one_sentence(), **ON_THE_TURN)
    assert (hint.state, hint.baseline, hint.score) == (HintState.FAILED, 1.0, None)
    assert "without a hint" in hint.reason
    assert len(model.prompts) == 3


async def test_a_hint_must_beat_the_turn_without_it() -> None:
    def lucky(prompt: str, sampling: Sampling) -> str:
        return LONG if sampling.seed == 12 else SHORT

    (hint,) = await try_hints(TRACE, hints("Be nice."), FakeChatModel(lucky), one_sentence(), **ON_THE_TURN)
    assert (hint.state, hint.score, hint.baseline) == (HintState.FAILED, 2 / 3, 2 / 3)
    assert "no more than without it" in hint.reason


@pytest.mark.parametrize("graders", [[], [ChangedCallGrader()], [SchemaGrader(), ChangedCallGrader()]])
async def test_what_no_grader_judges_is_ungraded(graders: list[Grader]) -> None:
    (hint,) = await try_hints(TRACE, hints("Be brief."), FakeChatModel(obeys), graders, **ON_THE_TURN)
    assert (hint.state, hint.reason) == (HintState.FAILED, UNGRADED)


async def test_a_cut_reply_is_no_pass() -> None:
    (hint,) = await try_hints(
        TRACE,
        hints("Be brief."),
        FakeChatModel(obeys),
        one_sentence(),
        signal=SIGNAL,
        prompt=PROMPT,
        sampling=Sampling(max_tokens=5, seed=10),
    )
    assert (hint.state, hint.score, hint.baseline) == (HintState.FAILED, 0.0, None)
    assert "cut at 5 tokens" in hint.trials[0].reason


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_of_the_engine_fails_the_hint_it_met(status: int) -> None:
    def refuses(prompt: str, sampling: Sampling) -> str:
        if "nice" in prompt:
            raise EngineError("prompt too long", status=status)
        return obeys(prompt, sampling)

    tried = await try_hints(
        TRACE,
        hints("Be nice.", "Be brief."),
        FakeChatModel(refuses),
        one_sentence(),
        signal=SIGNAL,
        prompt=PROMPT,
        sampling=SAMPLING,
    )
    assert [hint.state for hint in tried] == [HintState.PASSED, HintState.FAILED]
    assert "prompt too long" in tried[1].reason


async def test_a_template_that_hides_the_anchor_fails_every_hint() -> None:
    tried = await try_hints(
        TRACE,
        hints("Be brief.", "Be nice."),
        FakeChatModel(obeys),
        one_sentence(),
        signal=SIGNAL,
        prompt=replace(PROMPT, ids=(1, 2, 3)),
        sampling=SAMPLING,
    )
    assert [hint.state for hint in tried] == [HintState.FAILED] * 2
    assert all(hint.reason.startswith("RenderError") for hint in tried)


@pytest.mark.parametrize("status", [None, 200, 401, 404, 429, 500, 503, 504])
async def test_an_engine_that_is_away_or_lacks_the_adapter_says_nothing_of_the_hints(status: int | None) -> None:
    def away(prompt: str, sampling: Sampling) -> str:
        if "brief" in prompt:
            raise EngineError("connection refused", status=status)
        return LONG

    with pytest.raises(EngineError, match="connection refused"):
        await try_hints(
            TRACE,
            hints("Be nice.", "Be brief."),
            FakeChatModel(away),
            one_sentence(),
            signal=SIGNAL,
            prompt=PROMPT,
            sampling=SAMPLING,
        )


async def test_hints_of_another_turn_are_refused() -> None:
    other = signal_of(corrected("x"))
    stray = Hint(
        id="h", trace_id=other.trace_id, target=3, signal_ids=(), text="x", source=HintSource.HUMAN, family="human"
    )
    with pytest.raises(ValueError, match="one turn at a time"):
        await try_hints(TRACE, [stray], FakeChatModel(obeys), one_sentence(), **ON_THE_TURN)


async def test_a_failed_call_is_tried_with_its_graders() -> None:
    trace = failed_call("'unit' is a required property", call(city="Bern"), call(city="Bern", unit="celsius"))
    signal = signal_of(trace, SignalKind.TOOL_ERROR_RETRY)

    def calls(prompt: str, sampling: Sampling) -> str:
        unit = ', "unit": "celsius"' if "required arguments" in prompt else ""
        return f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "Bern"{unit}}}}}</tool_call>'

    texts = ("Be brief.", "Always give the required arguments: `city`, `unit`.")
    candidates = [new_hint(signal, text, HintSource.RULE, "missing_argument") for text in texts]
    tried = await try_hints(
        trace,
        candidates,
        FakeChatModel(calls),
        [SchemaGrader(), ChangedCallGrader()],
        signal=signal,
        prompt=prompt_of(trace, signal.target),
        sampling=Sampling(max_tokens=500),
    )
    assert [(hint.text, hint.state) for hint in tried] == [(texts[1], HintState.PASSED), (texts[0], HintState.FAILED)]
    assert "same arguments" in tried[1].reason
    assert "unit" in tried[1].reason


@settings(max_examples=40, deadline=None)
@given(good=st.lists(st.booleans(), min_size=1, max_size=6), concurrency=st.integers(1, 4), rollouts=st.integers(1, 4))
async def test_never_more_at_once_than_allowed_and_the_passed_first(
    good: list[bool], concurrency: int, rollouts: int
) -> None:
    model = Watched(obeys)
    texts = [f"{'Be brief' if works else 'Be nice'} {number}." for number, works in enumerate(good)]
    tried = await try_hints(
        TRACE,
        hints(*texts),
        model,
        one_sentence(),
        signal=SIGNAL,
        prompt=PROMPT,
        sampling=SAMPLING,
        rollouts=rollouts,
        max_concurrency=concurrency,
    )
    assert model.most <= concurrency
    assert sorted(hint.text for hint in tried) == sorted(texts)
    assert [hint.state is HintState.PASSED for hint in tried] == sorted(good, reverse=True)
    assert [hint.text for hint in tried if "brief" in hint.text] == [text for text in texts if "brief" in text]


async def test_the_first_error_of_several_calls_ends_the_others_and_is_raised_itself() -> None:
    ended: list[int] = []

    async def call(number: int) -> int:
        try:
            if number == 1:
                raise EngineError("away")
            await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    async with asyncio.timeout(20):
        with pytest.raises(EngineError, match="away"):
            await together(call(number) for number in range(3))
    assert sorted(ended) == [0, 1, 2]


async def test_the_results_of_several_calls_keep_their_order() -> None:
    async def call(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        return number

    assert await together(call(number) for number in range(5)) == [0, 1, 2, 3, 4]
    assert await together(call(number) for number in ()) == []
