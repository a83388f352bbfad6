"""The learner as a program: `python -m learner.run ROUND_DIR`.

Reads what `learner.config` describes, trains, and leaves either a checkpoint or a finding. Exit code 0: published, or
nothing worth publishing was found; 1: failed, for the reason in the last `failed` event. A learner that was killed is
started again on the same directory and begins the round anew; one whose checkpoint is there says so again and returns.
"""

import argparse
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Set before transformers is imported: a round needs no network, and its output is not a terminal.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Waiting threads sleep instead of spinning: on cores shared with the engine, spinning took four times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import torch
from pydantic import ValidationError
from torch import Tensor
from transformers.utils import logging as transformers_logging

from harness_adapters.errors import CheckpointError, LearnerError, SecondNatureError
from learner.batch import Row, micro_batches
from learner.checkpoint import Publication, load_optimizer_state, optimizer_state, publish, remove_unfinished
from learner.config import CHECKPOINT_DIR, ROUND_FILE, SAMPLES_FILE, RoundConfig
from learner.digests import Digests, digests_of
from learner.manifest import Manifest, read_manifest
from learner.model import Policy, load_policy
from learner.probe import Probe, read_probes
from learner.progress import ProgressLog
from learner.render import Renderer
from learner.sample import Sample, read_samples, sample_ids
from learner.step import FrozenProbe, Trainer, student_row

_CHECK_ROWS = 2
_PROBE_CANDIDATES = 12
_PROBES = 4
_WATCHED = 16
# Other hardware or precision may differ by this part of the parent's own shift; another adapter differs by more.
_START_DISTANCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A step as measured on *validate*, with what is needed to publish it."""

    step: int
    gap_nats: float
    drift_nats: float | None
    """None when there is no preservation sample to measure it on."""
    replies: list[Sample]
    """The repair samples with the replies that were measured."""
    adapter: dict[str, Tensor]
    optimizer: dict[str, Tensor]

    @property
    def figures(self) -> dict[str, float]:
        """Return gap and, where it is known, drift."""
        return {"gap_nats": self.gap_nats} | ({} if self.drift_nats is None else {"drift_nats": self.drift_nats})


def batches(samples: Sequence[Sample], size: int, order: random.Random) -> Iterator[list[Sample]]:
    """Yield batches for ever, epoch after epoch in fresh order; no sample stands in one batch twice."""
    size = min(size, len(samples))
    left: list[Sample] = []
    while True:
        batch, left = left[:size], left[size:]
        if len(batch) < size:
            present = {sample.id for sample in batch}
            epoch = order.sample(list(samples), len(samples))
            batch += [sample for sample in epoch if sample.id not in present][: size - len(batch)]
            taken = {sample.id for sample in batch} - present
            left = [sample for sample in epoch if sample.id not in taken]
        yield batch


def _choose(samples: Sequence[Sample], split: str, *, preserve: bool) -> list[Sample]:
    return [s for s in samples if s.split == split and (s.mode == "preserve") == preserve]


class Round:
    """One round: its samples by side and purpose, its trainer, and the best step so far."""

    def __init__(self, config: RoundConfig, trainer: Trainer, samples: Sequence[Sample], progress: ProgressLog) -> None:
        self.config, self.trainer, self.progress = config, trainer, progress
        self.repair = _choose(samples, "train", preserve=False)
        self.preserve = _choose(samples, "train", preserve=True) if config.objective.preserve_weight else []
        self.validate_repair = _choose(samples, "validate", preserve=False)
        # Where no accepted turn fell on the validate side, drift on those of the train side still bounds the damage.
        accepted = {split: _choose(samples, split, preserve=True) for split in ("validate", "train")}
        self.watched = accepted["validate"] or accepted["train"][:_WATCHED]
        self.learnt: list[set[str]] = [set()]
        """Ids of the samples each step learnt from, by step."""

    def missing(self) -> str | None:
        """Say what keeps the round from being run at all, if anything does."""
        for samples, side in ((self.repair, "train"), (self.validate_repair, "validate")):
            if not samples:
                return (
                    f"no usable repair sample is on the {side} side, so nothing can be learnt; collect more corrections"
                )
        return None

    def measure(self, step: int) -> Measured:
        """Measure gap and drift on *validate* and report them."""
        started = time.perf_counter()
        replies = self.trainer.with_replies(self.validate_repair, "validate")
        gap = self.trainer.mean_divergence(replies)
        drift = self.trainer.mean_divergence(self.watched) if self.watched else None
        measured = Measured(
            step=step,
            gap_nats=gap,
            drift_nats=drift,
            replies=replies,
            adapter=self.trainer.policy.adapter_state(),
            optimizer=optimizer_state(self.trainer.policy, self.trainer.optimizer) if step else {},
        )
        wall_s = time.perf_counter() - started
        self.progress.emit("validated", step=step, figures=measured.figures | {"wall_s": wall_s})
        return measured

    def train(self) -> tuple[Measured, Measured, bool]:
        """Train until no gain, too much drift, the last step, or an epoch of repair without a token to learn from.

        Return the start and the best step, measured, and whether such an epoch was the end.
        """
        stopping, batch = self.config.stopping, self.config.batch
        start = best = self.measure(0)
        rows = [student_row(sample) for sample in start.replies[:_CHECK_ROWS]]
        self.trainer.check_empty_hint(rows)
        probe = FrozenProbe(self.trainer, rows)
        order = random.Random(f"{self.config.seed}:order")  # noqa: S311  an order to repeat, not a secret
        repairs, preserves = (
            batches(s, n, order) for s, n in ((self.repair, batch.repair), (self.preserve, batch.preserve))
        )
        without_gain = 0
        for step in range(1, stopping.max_steps + 1):
            repair, preserve = next(repairs), next(preserves)
            tokenless: set[str] = set()
            while (figures := self.trainer.step(step, repair, preserve)) is None:
                # Fresh replies may all be no longer than skip_first; those to other samples need not be.
                tokenless |= {s.id for s in repair}
                if len(tokenless) == len(self.repair):
                    return start, best, True
                repair = next(repairs)
            self.learnt.append(self.learnt[-1] | {s.id for s in (*repair, *preserve)})
            self.progress.emit("step", step=step, figures=figures)
            if step == 1:
                probe.check()
            if step % stopping.validate_every and step < stopping.max_steps:
                continue
            now = self.measure(step)
            if now.drift_nats is not None and now.drift_nats > stopping.max_drift_nats:
                break
            without_gain = 0 if now.gap_nats < best.gap_nats else without_gain + 1
            best = min(best, now, key=lambda measured: measured.gap_nats)
            if without_gain >= stopping.patience:
                break
        return start, best, False

    def probes(self, best: Measured) -> list[Probe]:
        """Return the sequences on which the best step differs most from the start of the round."""
        self.trainer.policy.load_adapter_state(best.adapter, "the best step")
        rows = [student_row(s) for s in (*best.replies, *self.watched)][:_PROBE_CANDIDATES]
        found: list[tuple[float, Probe]] = []
        for group in micro_batches(rows, [row.length for row in rows], self.config.batch.micro_batch):
            pairs = zip(group, self.trainer.teacher.logprobs(group), self.trainer.policy.logprobs(group), strict=True)
            for row, before_T, after_T in pairs:
                probe = Probe(
                    ids=(*row.prompt_ids, *row.completion_ids),
                    start=len(row.prompt_ids),
                    before_logprobs=tuple(before_T.tolist()),
                    after_logprobs=tuple(after_T.tolist()),
                )
                found.append((float((after_T - before_T).abs().mean()), probe))
        return [probe for _, probe in sorted(found, key=lambda pair: -pair[0])[:_PROBES]]


def read_config(directory: Path) -> RoundConfig:
    """Read `round.json`. Raises LearnerError when it is missing or wrong."""
    path = directory / ROUND_FILE
    try:
        return RoundConfig.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise LearnerError(f"{path} is missing: this is not a round directory") from None
    except ValidationError as error:
        raise LearnerError(f"{path} cannot be used: {error}") from error


def _parent_id(config: RoundConfig, digests: Digests) -> str | None:
    if config.parent is None:
        return None
    manifest = read_manifest(config.parent)
    digests.check(manifest, config.parent)
    return manifest.id


def check_start(parent: Path, policy: Policy) -> None:
    """Raise CheckpointError unless the policy scores the parent's probes as the parent's learner did.

    What is taught is measured from here, so a start that is not what serves would make every figure wrong.
    """
    probes = read_probes(parent).probes
    rows = [Row(probe.ids[: probe.start], probe.ids[probe.start :]) for probe in probes]
    now_T = torch.cat(policy.logprobs(rows)).cpu()
    after_T = torch.tensor([value for probe in probes for value in probe.after_logprobs])
    before_T = torch.tensor([value for probe in probes for value in probe.before_logprobs])
    distance, shift = float((now_T - after_T).abs().mean()), float((after_T - before_T).abs().mean())
    if not distance <= _START_DISTANCE * shift:
        raise CheckpointError(
            f"{parent} does not score its own probes as it did when it was trained ({distance:.4f} nats a token away, "
            f"its shift being {shift:.4f}); was the base model changed?"
        )


def _say_published(manifest: Manifest, progress: ProgressLog) -> None:
    progress.emit("published", step=manifest.step, message=manifest.id, figures=manifest.figures)


def _standing(directory: Path, config: RoundConfig) -> Manifest:
    """Return the manifest of the checkpoint in `directory`. Raises LearnerError unless this round made it."""
    manifest = read_manifest(directory / CHECKPOINT_DIR)
    odd = [f"it is of {manifest.round_id}, not {config.id}"] if manifest.round_id != config.id else []
    unknown = sorted(set(manifest.sample_ids) - sample_ids(directory / SAMPLES_FILE))
    odd += [f"it learnt from {sample}, which {SAMPLES_FILE} lacks" for sample in unknown]
    if odd:
        raise LearnerError(
            f"{directory} holds another round's checkpoint: {odd[0]}. Move {CHECKPOINT_DIR} away, or give the round a "
            "directory of its own"
        )
    return manifest


def run_round(directory: Path, progress: ProgressLog) -> None:
    """Run the round in `directory` to a checkpoint or a finding. Raises SecondNatureError when it cannot be run."""
    config = read_config(directory)
    if (directory / CHECKPOINT_DIR).exists():
        _say_published(_standing(directory, config), progress)
        return
    remove_unfinished(directory)
    if config.threads:
        torch.set_num_threads(config.threads)
    digests = digests_of(config.base)
    parent_id = _parent_id(config, digests)
    renderer = Renderer(config.base)
    samples, refusals = read_samples(directory / SAMPLES_FILE, renderer, config)
    progress.emit("started", figures={"samples": len(samples), "refused": len(refusals)})
    for refusal in refusals:
        progress.emit("refused", message=f"{SAMPLES_FILE}, {refusal.place}: {refusal.reason}")
    policy = load_policy(config)
    if config.parent is not None:
        check_start(config.parent, policy)
    trainer = Trainer(config, policy, renderer.eos_ids)
    if config.parent is not None:
        load_optimizer_state(config.parent, policy, trainer.optimizer)
    this = Round(config, trainer, samples, progress)
    if (missing := this.missing()) is not None:
        progress.emit("finding", message=missing)
        return
    start, best, tokenless = this.train()
    if best.step == 0:
        why = (
            "no reply to any sample has a token to learn from; lower objective.skip_first"
            if tokenless
            else f"no step came closer to the hinted teacher than the {start.gap_nats:.4f} nats at the start within "
            f"a drift of {config.stopping.max_drift_nats} nats"
        )
        progress.emit("finding", message=f"{why}; nothing was published")
        return
    figures = best.figures | {"gap_before_nats": start.gap_nats}
    publication = Publication(
        step=best.step,
        adapter=best.adapter,
        optimizer=best.optimizer,
        probes=this.probes(best),
        sample_ids=tuple(sorted(this.learnt[best.step])),
        parent_id=parent_id,
        figures=figures,
    )
    _say_published(publish(directory, config, digests, publication), progress)


def _exit_with_stdin() -> None:
    """End at once when the starting process is gone, whose end of the pipe closes with it, however it ended."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the learner; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m learner.run", description="Train one round.")
    parser.add_argument("round_dir", type=Path, help="the directory with round.json and samples.jsonl")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    directory: Path = options.round_dir
    if options.exit_with_stdin:
        threading.Thread(target=_exit_with_stdin, daemon=True).start()
    transformers_logging.set_verbosity_error()
    try:
        with ProgressLog(directory) as progress:
            try:
                run_round(directory, progress)
            except SecondNatureError as error:
                progress.failed(str(error))
                raise
            except Exception as error:
                progress.failed(f"{type(error).__name__}: {error}")
                traceback.print_exc()
                raise LearnerError(f"the learner failed unexpectedly: {error}") from error
    except SecondNatureError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
