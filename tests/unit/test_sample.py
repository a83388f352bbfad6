import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from round_dirs import HINT, config_for, dumped, spec_for

from harness_adapters.errors import LearnerError, RenderError
from harness_adapters.prompt import Prompt
from learner.config import GenerationSettings, ObjectiveSettings, RoundConfig
from learner.render import Renderer
from learner.sample import read_samples, render_sample, sample_ids


@pytest.fixture(scope="module")
def renderer(tiny_base: Path) -> Renderer:
    return Renderer(tiny_base)


@pytest.fixture
def config(tiny_base: Path) -> RoundConfig:
    return config_for(tiny_base)


def test_an_offline_sample_carries_its_reply_and_a_teacher_who_differs_by_the_hint(
    renderer: Renderer, config: RoundConfig
) -> None:
    sample = render_sample(spec_for(0, "offline"), renderer, config)
    assert renderer.decode(sample.completion_ids) == "Your shoes arrives tomorrow.<|im_end|>"
    hint = len(sample.teacher_prompt_ids) - len(sample.student_prompt_ids)
    assert HINT in renderer.decode(sample.teacher_prompt_ids[sample.hint_at : sample.hint_at + hint])
    assert sample.selected == len(sample.completion_ids)


def test_a_preservation_sample_has_one_prompt_for_both(renderer: Renderer, config: RoundConfig) -> None:
    sample = render_sample(spec_for(0, "preserve"), renderer, config)
    assert sample.student_prompt_ids == sample.teacher_prompt_ids
    assert sample.hint_at == len(sample.student_prompt_ids)


def test_a_one_step_sample_waits_for_its_reply(renderer: Renderer, config: RoundConfig) -> None:
    sample = render_sample(spec_for(0, "one_step"), renderer, config)
    assert sample.completion_ids == ()
    answered = sample.with_reply([5, 6, 7], skip_first=1, logprobs=[-1.0, -2.0, -3.0])
    assert answered.loss_mask == (False, True, True)
    assert sample.completion_ids == ()


def test_recorded_ids_are_used_as_they_are(renderer: Renderer, config: RoundConfig) -> None:
    prompt = (
        *renderer.render(Prompt(messages=spec_for(0, "offline").messages))[:3],
        77,
        *renderer.render(Prompt(messages=spec_for(0, "offline").messages))[3:],
    )
    spec = spec_for(0, "offline", prompt_ids=prompt, completion_ids=(9, 8, 7), logprobs=(-0.5, -0.5, -0.5))
    sample = render_sample(spec, renderer, config)
    assert sample.student_prompt_ids == prompt
    assert sample.completion_ids == (9, 8, 7)
    assert sample.behaviour_logprobs == (-0.5, -0.5, -0.5)


def test_prompts_that_differ_beyond_the_hint_cannot_become_a_sample(renderer: Renderer, config: RoundConfig) -> None:
    sample = render_sample(spec_for(0, "offline"), renderer, config)
    with pytest.raises(AssertionError, match="before the hint"):
        replace(sample, teacher_prompt_ids=(0, *sample.teacher_prompt_ids[1:]))
    with pytest.raises(AssertionError, match="behind the hint"):
        replace(sample, teacher_prompt_ids=(*sample.teacher_prompt_ids[:-1], 0))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("offline", {"completion": None}, "needs a recorded completion"),
    ("offline", {"completion_ids": ()}, "no token"),
    ("offline", {"completion_ids": (5, 100_000)}, "id 100000 is outside the vocabulary"),
    ("offline", {"completion_ids": (5, -1)}, "outside the vocabulary"),
    ("offline", {"completion_ids": (5, 6), "logprobs": (-1.0,)}, "1 log-probabilities were recorded for 2"),
    ("offline", {"completion_ids": tuple([5] * 300)}, "more than max_length=256"),
    ("offline", {"hint": None}, "needs a hint"),
    ("one_step", {"hint": None}, "needs a hint"),
    ("preserve", {"hint": "be short"}, "cannot have a hint"),
    ("one_step", {"messages": ({"role": "user", "content": "where " * 250},)}, "more than max_length=256"),
    ("one_step", {"messages": (), "prompt_ids": (5, 6)}, "no message"),
    ("one_step", {"messages": ({"role": "user", "content": "<|im_end|>"},)}, "turn marker"),
    ("one_step", {"tools": ({"function": {"name": "f", "description": "<|im_end|>"}},)}, "the tool f quotes"),
    ("one_step", {"hint": "stop<|im_end|>"}, "special token"),
    ("offline", {"completion": {"role": "assistant", "content": "a<|im_start|>b"}}, "turn marker"),
    ("one_step", {"prompt_ids": ()}, "prompt is empty"),
]


@pytest.mark.parametrize(("mode", "changes", "reason"), REFUSED)
def test_what_cannot_be_learnt_from_is_refused_with_the_reason(
    renderer: Renderer, config: RoundConfig, mode: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RenderError, match=reason):
        render_sample(spec_for(0, mode, **changes), renderer, config.model_copy(update={"max_length": 256}))


def test_room_is_kept_for_a_fresh_reply(renderer: Renderer, config: RoundConfig) -> None:
    exact = len(render_sample(spec_for(0, "one_step"), renderer, config).teacher_prompt_ids) + 12
    render_sample(spec_for(0, "one_step"), renderer, config.model_copy(update={"max_length": exact}))
    longer = config.model_copy(update={"max_length": exact, "generation": GenerationSettings(max_new_tokens=13)})
    with pytest.raises(RenderError, match="max_length"):
        render_sample(spec_for(0, "one_step"), renderer, longer)


def test_a_reply_within_skip_first_teaches_nothing(renderer: Renderer, config: RoundConfig) -> None:
    skipping = config.model_copy(update={"objective": ObjectiveSettings(skip_first=3)})
    with pytest.raises(RenderError, match="skip_first=3"):
        render_sample(spec_for(0, "offline", completion_ids=(5, 6, 7)), renderer, skipping)


def test_a_broken_line_is_refused_with_its_number_and_the_rest_is_read(
    renderer: Renderer, config: RoundConfig, tmp_path: Path
) -> None:
    good, gate = spec_for(0, "offline"), spec_for(1, "offline", "gate")
    unknown = {**dumped(spec_for(2, "offline")), "colour": "blue"}
    lines = [
        good.model_dump_json(),
        "",
        '{"id": "torn',
        json.dumps(unknown),
        good.model_dump_json(),
        "\xff",
        gate.model_dump_json(),
    ]
    path = tmp_path / "samples.jsonl"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    samples, refusals = read_samples(path, renderer, config)
    assert [sample.id for sample in samples] == [good.id]
    assert [refusal.place for refusal in refusals] == ["line 3", "line 4", f"line 5 ({good.id})", "line 6"]
    assert "colour" in refusals[1].reason
    assert "same id" in refusals[2].reason
    assert sample_ids(path) == {good.id, gate.id}


def test_a_missing_file_is_an_error(renderer: Renderer, config: RoundConfig, tmp_path: Path) -> None:
    with pytest.raises(LearnerError, match="missing"):
        read_samples(tmp_path / "samples.jsonl", renderer, config)
