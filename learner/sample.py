"""Sample: what one optimizer step sees of one turn, as token ids; and the reading and rendering of `samples.jsonl`."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from harness_adapters.errors import LearnerError, RenderError
from harness_adapters.prompt import Prompt
from learner.config import Mode, RoundConfig, SampleSpec, Split
from learner.render import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One rendered turn. `completion_ids` are empty for a one-step sample until a reply has been sampled.

    The teacher's prompt is the student's with the ids of the hint, if it has one, inserted at `hint_at`; that is
    asserted, because a teacher that differs anywhere else teaches something that no hint says.
    """

    id: str
    mode: Mode
    split: Split
    student_prompt_ids: tuple[int, ...]
    teacher_prompt_ids: tuple[int, ...]
    hint_at: int
    completion_ids: tuple[int, ...] = ()
    loss_mask: tuple[bool, ...] = ()
    """Of the completion's tokens; the target turn's alone are ever selected."""
    behaviour_logprobs: tuple[float, ...] | None = None
    """Of the distribution sampled from (its temperature included), in nats."""
    policy_version: str | None = None

    def __post_init__(self) -> None:
        student, teacher = self.student_prompt_ids, self.teacher_prompt_ids
        after = len(student) - self.hint_at
        assert after >= 0
        assert teacher[: self.hint_at] == student[: self.hint_at], "the prompts differ before the hint"
        assert teacher[len(teacher) - after :] == student[self.hint_at :], "the prompts differ behind the hint"
        assert len(self.loss_mask) == len(self.completion_ids)

    @property
    def recorded(self) -> bool:
        """Whether the reply stands in the record and so is the same at every step."""
        return self.mode != "one_step"

    @property
    def selected(self) -> int:
        """How many completion tokens the loss mask selects."""
        return sum(self.loss_mask)

    def with_reply(
        self,
        ids: Sequence[int],
        *,
        skip_first: int,
        logprobs: Sequence[float] | None = None,
        version: str | None = None,
    ) -> "Sample":
        """Return the sample with its completion; the first `skip_first` tokens are masked, where hints leave style."""
        return replace(
            self,
            completion_ids=tuple(ids),
            loss_mask=tuple(place >= skip_first for place in range(len(ids))),
            behaviour_logprobs=None if logprobs is None else tuple(logprobs),
            policy_version=version,
        )


def _reply(spec: SampleSpec, prompt: Prompt, renderer: Renderer) -> tuple[int, ...]:
    if spec.completion_ids is not None:
        return spec.completion_ids
    if spec.completion is None:
        raise RenderError(f"a sample of mode {spec.mode} needs a recorded completion; build it again from its trace")
    renderer.refuse_markers([spec.completion])
    return tuple(renderer.completion_ids(prompt, spec.completion))


def render_sample(spec: SampleSpec, renderer: Renderer, config: RoundConfig) -> Sample:
    """Turn a spec into ids: the recorded ones where there are any, rendered ones otherwise.

    Raises RenderError with the reason where the ids would be a guess, stand outside the vocabulary, or are too many.
    """
    if (spec.hint is None) != (spec.mode == "preserve"):
        raise RenderError(f"a sample of mode {spec.mode} {'needs' if spec.hint is None else 'cannot have'} a hint")
    renderer.refuse_markers(spec.messages, spec.tools)
    shown = Prompt(messages=spec.messages, tools=spec.tools, options=spec.template_options)
    prompt = spec.prompt_ids if spec.prompt_ids is not None else tuple(renderer.render(shown))
    if not prompt:
        raise RenderError("the prompt is empty, so no token of the reply can be predicted from anything")
    if spec.hint is None:
        teacher, at = prompt, len(prompt)
    else:
        hinted, at = renderer.hinted(shown, prompt, spec.hint)
        teacher = tuple(hinted)
    sample = Sample(
        id=spec.id,
        mode=spec.mode,
        split=spec.split,
        student_prompt_ids=prompt,
        teacher_prompt_ids=teacher,
        hint_at=at,
    )
    reply: tuple[int, ...] = ()
    if sample.recorded:
        reply = _reply(spec, shown, renderer)
        if not reply:
            raise RenderError("the recorded completion has no token")
        if spec.logprobs is not None and len(spec.logprobs) != len(reply):
            raise RenderError(
                f"{len(spec.logprobs)} log-probabilities were recorded for {len(reply)} completion tokens"
            )
        # A hint changes the style of a reply's first tokens; preservation knows no hint and guards every token.
        skip_first = 0 if spec.hint is None else config.objective.skip_first
        sample = sample.with_reply(reply, skip_first=skip_first, logprobs=spec.logprobs, version=spec.policy_version)
        if not sample.selected:
            raise RenderError(f"the completion has {len(reply)} tokens, all within skip_first={skip_first}")
    outside = next((token for token in (*teacher, *reply) if not 0 <= token < renderer.vocabulary), None)
    if outside is not None:
        raise RenderError(
            f"id {outside} is outside the vocabulary of {renderer.vocabulary}: another tokenizer wrote it"
        )
    length = len(teacher) + (len(reply) if sample.recorded else config.generation.max_new_tokens)
    if length > config.max_length:
        raise RenderError(f"hinted prompt and reply take {length} tokens, more than max_length={config.max_length}")
    return sample


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line or sample that does not train, and why."""

    place: str
    """`line 7`, or `line 7 (sample-…)` where the line could be read."""
    reason: str


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    except FileNotFoundError:
        raise LearnerError(
            f"{path} is missing: the round directory was not written in full; start the round again"
        ) from None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"


def sample_ids(path: Path) -> set[str]:
    """Return the ids of the readable lines of `samples.jsonl`. Raises LearnerError when the file is missing."""
    found: set[str] = set()
    for _, line in _lines(path):
        with suppress(ValidationError):
            found.add(SampleSpec.model_validate_json(line).id)
    return found


def read_samples(path: Path, renderer: Renderer, config: RoundConfig) -> tuple[list[Sample], list[Refusal]]:
    """Read and render `samples.jsonl`; what cannot be used is refused with its line and reason, the rest is kept.

    Gate samples are neither rendered nor returned: the learner must not see what it will be judged on.
    Raises LearnerError when the file is missing.
    """
    samples: list[Sample] = []
    refusals: list[Refusal] = []
    seen: set[str] = set()
    for number, line in _lines(path):
        place = f"line {number}"
        try:
            spec = SampleSpec.model_validate_json(line)
            place = f"line {number} ({spec.id})"
            if spec.id in seen:
                raise RenderError("an earlier line has the same id")  # noqa: TRY301  one way out for every reason
            seen.add(spec.id)
            if spec.split != "gate":
                samples.append(render_sample(spec, renderer, config))
        except ValidationError as error:
            refusals.append(Refusal(place, _reason(error)))
        except RenderError as error:
            refusals.append(Refusal(place, str(error)))
    return samples, refusals
