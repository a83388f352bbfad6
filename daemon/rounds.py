"""From passed hints to a round directory, and from a round directory to a running learner."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from daemon.config import Settings, child_environment
from daemon.logs import get_logger
from daemon.store import RoundRow, Store
from harness_adapters.errors import LearnerError, RenderError
from harness_adapters.ids import stable_id
from harness_adapters.prompt import prompt_of
from harness_adapters.trace import Author, Trace
from hinting.detect import accepted_turns
from hinting.hint import Hint, HintState
from hinting.verify import UNGRADED
from learner.config import (
    CHECKPOINT_DIR,
    PROGRESS_FILE,
    ROUND_FILE,
    SAMPLES_FILE,
    Mode,
    Progress,
    RoundConfig,
    SampleSpec,
    Split,
)
from learner.split import split_of

logger = get_logger(__name__)

LEARNER_LOG = "learner.log"
UNDER_WAY = ("running", "published")
TRACES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class FlaggedTurn:
    """A turn that was corrected, with the best hint that passed for it."""

    trace: Trace
    hint: Hint
    split: Split


@dataclass(frozen=True, slots=True)
class AcceptedTurn:
    """A turn a person accepted."""

    trace: Trace
    turn: int
    split: Split


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to learn from and to measure on, by side."""

    flagged: dict[Split, list[FlaggedTurn]]
    accepted: dict[Split, list[AcceptedTurn]]
    fresh: int
    """Flagged turns of the train side that no round has tried to teach yet."""


def gather(store: Store, settings: Settings) -> Material:
    """Collect flagged and accepted turns with their sides."""
    return with_accepted(glance(store, settings), store, settings)


def with_accepted(material: Material, store: Store, settings: Settings) -> Material:
    """Add the accepted turns, whose sessions take long to read."""
    return replace(material, accepted=_accepted(store, settings))


def glance(store: Store, settings: Settings) -> Material:
    """Collect flagged turns with their sides, which is enough to say whether a round may start.

    A hint that taught what serves, or is being taught, is left out of train and validate. One from a round that came to
    nothing, or was rolled back, may try again, but does not by itself start a round. Gate turns serve every candidate
    once.
    """
    flagged: dict[Split, list[FlaggedTurn]] = defaultdict(list)
    rounds = store.rounds()
    taught = store.used_hints(_lineage(store, rounds, settings) | {r.id for r in rounds if r.state in UNDER_WAY})
    tried = store.used_hints({r.id for r in rounds if r.state != "failed"})
    fresh = 0
    for hint in _best_by_turn(store.hints(limit=settings.rounds.window), settings):
        trace = store.trace(hint.trace_id)
        # A hint of an older reading may be of a turn that is another now.
        if trace is None or hint.target >= len(trace.turns) or trace.turns[hint.target].author is not Author.AGENT:
            continue
        side = side_of(trace, settings)
        if side == "gate" or hint.id not in taught:
            flagged[side].append(FlaggedTurn(trace, hint, side))
            fresh += side == "train" and hint.id not in tried
    return Material(flagged, {}, fresh)


def _accepted(store: Store, settings: Settings) -> dict[Split, list[AcceptedTurn]]:
    """Read the latest sessions until every side has as many accepted turns as anything takes."""
    found: dict[Split, list[AcceptedTurn]] = {"train": [], "validate": [], "gate": []}
    wanted = max(settings.rounds.max_preserve, settings.gate.max_cases)
    after: str | None = None
    for _ in range(0, settings.rounds.window, TRACES_AT_ONCE):
        page = store.traces(limit=TRACES_AT_ONCE, after=after)
        for trace in page:
            side = side_of(trace, settings)
            if len(found[side]) < wanted:
                responses = [t.response_id for t in trace.turns if t.response_id]
                turns = accepted_turns(trace, store.feedback_for(responses, trace.tenant))
                found[side] += [AcceptedTurn(trace, turn, side) for turn in turns]
        if len(page) < TRACES_AT_ONCE or all(len(turns) >= wanted for turns in found.values()):
            break
        after = page[-1].id
    return found


def _lineage(store: Store, rounds: Sequence[RoundRow], settings: Settings) -> set[str]:
    """Return the rounds that made what serves: its own, its parent's, and so on to the base."""
    round_of = {row.version: row.round_id for row in store.adapters()}
    parent_of = {row.id: row.parent for row in rounds}
    found: set[str] = set()
    version = store.alias(settings.model.name).current
    while version is not None and (round_id := round_of.get(version)) is not None and round_id not in found:
        found.add(round_id)
        version = parent_of.get(round_id)
    return found


def side_of(trace: Trace, settings: Settings) -> Split:
    """Return the side of a session; the same for ever."""
    shares = settings.rounds
    return split_of(trace.root, trace.user, validate_share=shares.validate_share, gate_share=shares.gate_share)


def enough(material: Material, settings: Settings) -> str | None:
    """Say what is missing for a round to start by itself; None when nothing is."""
    wanted: dict[Split, int] = {
        "train": settings.rounds.min_hints,
        "validate": settings.rounds.min_validate,
        "gate": settings.rounds.min_gate,
    }
    for side, needed in wanted.items():
        found = len(material.flagged.get(side, ()))
        if found < needed:
            return f"{found} of {needed} hinted turns on the {side} side"
    if material.fresh < settings.rounds.min_hints:
        return f"{material.fresh} of {settings.rounds.min_hints} hinted turns that no round has tried to teach"
    return None


def build_specs(store: Store, material: Material, settings: Settings) -> list[SampleSpec]:
    """Turn the material of the train and validate sides into unrendered samples.

    Every flagged turn gives a one-step sample and, on the train side, up to `rounds.max_offline` of them an offline one
    from the recorded reply; every accepted turn gives a preservation sample, up to `rounds.max_preserve` a side.
    """
    specs: list[SampleSpec | None] = []
    sides: tuple[Split, ...] = ("train", "validate")
    limits = settings.rounds
    for side in sides:
        flagged = material.flagged.get(side, [])[: limits.max_hints]
        specs += [_spec(store, t.trace, t.hint.target, mode="one_step", side=side, hint=t.hint) for t in flagged]
        if side == "train":
            recorded = flagged[: limits.max_offline]
            specs += [_spec(store, t.trace, t.hint.target, mode="offline", side=side, hint=t.hint) for t in recorded]
        accepted = material.accepted.get(side, [])[: limits.max_preserve]
        specs += [_spec(store, turn.trace, turn.turn, mode="preserve", side=side) for turn in accepted]
    return [spec for spec in specs if spec is not None]


def write_round(directory: Path, config: RoundConfig, specs: Iterable[SampleSpec]) -> None:
    """Write `samples.jsonl`, then `round.json`: a directory with a `round.json` is complete.

    Raises LearnerError for a directory that holds a checkpoint already: it is another round's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / CHECKPOINT_DIR).exists():
        raise LearnerError(f"{directory} holds a checkpoint already: it is another round's, and stays as it is")
    with (directory / SAMPLES_FILE).open("w", encoding="utf-8") as file:
        for spec in specs:
            file.write(spec.model_dump_json(exclude_none=True) + "\n")
    half = directory / f"{ROUND_FILE}.part"
    half.write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    half.replace(directory / ROUND_FILE)


def read_progress(directory: Path) -> list[Progress]:
    """Read what the learner has said so far; a line cut off in mid-write is left for the next read."""
    events: list[Progress] = []
    try:
        lines = (directory / PROGRESS_FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return events
    for line in lines:
        try:
            events.append(Progress.model_validate_json(line))
        except ValidationError:
            continue
    return events


async def run_learner(directory: Path, threads: int) -> int:
    """Run the learner on a round directory as a child process and return its exit code.

    The child is ended with the caller, and ends by itself when its standard input closes: a learner never outlives the
    daemon that will start it again, however that one ends. A group of its own keeps a terminal's Ctrl-C from it.
    Raises OSError when it cannot be started.
    """
    environment = child_environment(**({"OMP_NUM_THREADS": str(threads)} if threads else {}))
    with (directory / LEARNER_LOG).open("ab") as log:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "learner.run",
            str(directory),
            "--exit-with-stdin",
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        return await child.wait()
    finally:
        if child.returncode is None:
            child.terminate()
            try:
                await asyncio.wait_for(child.wait(), timeout=10)
            except TimeoutError:
                child.kill()
                await child.wait()


def _best_by_turn(hints: Sequence[Hint], settings: Settings) -> list[Hint]:
    """Keep one hint a turn: the best that may teach.

    A handful of trials says little, so hints of one wording share theirs: of those that passed on a turn, the one with
    the best mean over all turns it was tried on is kept.
    """
    trials: dict[str, list[bool]] = defaultdict(list)
    for hint in hints:
        trials[hint.text] += [trial.passed for trial in hint.trials if trial.hinted and trial.passed is not None]

    def rank(hint: Hint) -> tuple[bool, float, float]:
        shared = trials[hint.text]
        return hint.state is HintState.PASSED, sum(shared) / max(len(shared), 1), hint.score or 0.0

    best: dict[tuple[str, int], Hint] = {}
    for hint in hints:
        key = (hint.trace_id, hint.target)
        if _may_teach(hint, settings) and (key not in best or rank(hint) > rank(best[key])):
            best[key] = hint
    return list(best.values())


def _may_teach(hint: Hint, settings: Settings) -> bool:
    ungraded = hint.state is HintState.FAILED and hint.reason == UNGRADED
    return hint.state is HintState.PASSED or (settings.hints.train_unverified and ungraded)


def _spec(
    store: Store, trace: Trace, turn: int, *, mode: Mode, side: Split, hint: Hint | None = None
) -> SampleSpec | None:
    """Return the sample of a turn; None, and why in the log, where its prompt cannot be rendered again."""
    target = trace.turns[turn]
    exchange = store.exchange(target.exchange_id) if target.exchange_id else None
    try:
        prompt = prompt_of(trace, turn, exchange)
    except RenderError as error:
        logger.warning("turn_left_out", trace=trace.id, turn=turn, reason=str(error))
        return None
    recorded = exchange.sampled if exchange else None
    keeps_reply = mode in ("offline", "preserve")
    return SampleSpec(
        id=stable_id("smp", trace.id, turn, mode, hint.id if hint else ""),
        mode=mode,
        split=side,
        session_id=trace.id,
        turn=turn,
        signal_ids=hint.signal_ids if hint else (),
        hint_id=hint.id if hint else None,
        hint=hint.text if hint else None,
        messages=tuple(dict(message) for message in prompt.messages),
        tools=tuple(dict(tool) for tool in prompt.tools),
        template_options=dict(prompt.options),
        completion=dict(target.message) if keeps_reply else None,
        prompt_ids=prompt.ids,
        completion_ids=recorded.completion_ids if recorded and keeps_reply else None,
        logprobs=recorded.logprobs if recorded and keeps_reply else None,
        policy_version=target.version,
        retokenised=recorded is None,
    )
