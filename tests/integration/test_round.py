"""Whole rounds, each learner a process of its own, as the daemon runs it."""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from round_dirs import (
    config_for,
    figures_of,
    learner_command,
    progress_of,
    run_learner,
    spec_for,
    specs,
    write_round,
)
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from learner.config import (
    CHECKPOINT_DIR,
    PROGRESS_FILE,
    BatchSettings,
    ObjectiveSettings,
    OptimizerSettings,
    RoundConfig,
    SampleSpec,
    StoppingSettings,
)
from learner.manifest import MANIFEST_FILE, Manifest, read_manifest, sha256_of
from learner.probe import PROBE_FILE, Probes
from learner.run import main, read_config

LONG = StoppingSettings(max_steps=400, validate_every=400)
DEADLINE_S = 120


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Path:
    """A round that was run to its end."""
    directory = write_round(tmp_path_factory.mktemp("finished"), config_for(tiny_base))
    ended = run_learner(directory)
    assert ended.returncode == 0, ended.stderr
    return directory


def until(directory: Path, learner: subprocess.Popen[bytes], ready: Callable[[bytes], bool]) -> None:
    """Wait until the progress file satisfies `ready`."""
    deadline = time.monotonic() + DEADLINE_S
    path = directory / PROGRESS_FILE
    while not (path.exists() and ready(path.read_bytes())):
        assert learner.poll() is None, "the learner ended by itself"
        assert time.monotonic() < deadline, "the learner made no progress"
        time.sleep(0.02)


def run_here(directory: Path) -> int:
    """Run a learner within this process: for rounds that end by themselves, and sooner."""
    return main([str(directory)])


def start_learner(directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(learner_command(directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def events(directory: Path) -> list[str]:
    return [line.event for line in progress_of(directory)]


def test_a_round_learns_and_publishes_its_best_step(finished: Path) -> None:
    steps, validated = figures_of(finished, "step"), figures_of(finished, "validated")
    assert steps[-1]["repair_nats"] < steps[0]["repair_nats"]
    assert min(v["gap_nats"] for v in validated[1:]) < 0.9 * validated[0]["gap_nats"]
    assert validated[0]["drift_nats"] == pytest.approx(0, abs=1e-4)
    for figure in ("loss", "grad_norm", "tokens", "mask_share", "generation_s", "scoring_s", "update_s"):
        assert figure in steps[0]
    best = min(progress_of(finished), key=lambda line: line.figures.get("gap_nats", float("inf")))
    manifest = read_manifest(finished / CHECKPOINT_DIR)
    last = progress_of(finished)[-1]
    assert (last.event, last.step, last.message) == ("published", best.step, manifest.id)
    assert manifest.step == best.step
    assert last.figures == manifest.figures
    assert manifest.figures["gap_nats"] == best.figures["gap_nats"]
    assert manifest.figures["gap_before_nats"] == validated[0]["gap_nats"]
    assert manifest.parent is None
    assert set(manifest.sample_ids) <= {spec.id for spec in specs() if spec.split == "train"}


def test_the_checkpoint_loads_in_peft_and_shifts_its_probes_as_it_says(finished: Path, tiny_base: Path) -> None:
    probes = Probes.model_validate_json((finished / CHECKPOINT_DIR / PROBE_FILE).read_bytes()).probes
    base = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, finished / CHECKPOINT_DIR).eval()

    def logprobs(probe_ids: tuple[int, ...], start: int) -> torch.Tensor:
        ids = torch.tensor([probe_ids])
        with torch.no_grad():
            rows = model(input_ids=ids).logits[0].log_softmax(-1)
        return rows[start - 1 : -1].gather(-1, ids[0, start:, None])[:, 0]

    assert probes
    shifts: list[float] = []
    for probe in probes:
        before, after = torch.tensor(probe.before_logprobs), torch.tensor(probe.after_logprobs)
        torch.testing.assert_close(logprobs(probe.ids, probe.start), after, rtol=1e-3, atol=1e-3)
        with model.disable_adapter():
            torch.testing.assert_close(logprobs(probe.ids, probe.start), before, rtol=1e-3, atol=1e-3)
        shifts.append(float((after - before).abs().mean()))
    assert shifts == sorted(shifts, reverse=True)
    assert shifts[0] > 0.05


def test_a_second_round_continues_from_its_parent(finished: Path, tmp_path: Path, tiny_base: Path) -> None:
    directory = write_round(tmp_path, config_for(tiny_base, id="round-2", parent=finished / CHECKPOINT_DIR))
    ended = run_learner(directory)
    assert ended.returncode == 0, ended.stderr
    first, second = read_manifest(finished / CHECKPOINT_DIR), read_manifest(directory / CHECKPOINT_DIR)
    assert second.parent == first.id
    assert second.id != first.id
    # The teacher is now the policy of the first round: no drift from it at the start.
    assert figures_of(directory, "validated")[0]["drift_nats"] == pytest.approx(0, abs=1e-4)
    steps = [
        {
            float(t)
            for name, t in load_file(where / CHECKPOINT_DIR / "optimizer.safetensors").items()
            if name.endswith(".step")
        }
        for where in (finished, directory)
    ]
    assert steps == [{first.step}, {first.step + second.step}]


def test_a_parent_that_is_not_what_it_was_is_refused(
    finished: Path, tmp_path: Path, tiny_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are sound and its base has the right digest, and still another policy would be taught from."""
    parent = tmp_path / "parent"
    shutil.copytree(finished / CHECKPOINT_DIR, parent)
    probes = Probes.model_validate_json((parent / PROBE_FILE).read_bytes())
    other = tuple(p.model_copy(update={"after_logprobs": p.before_logprobs[::-1]}) for p in probes.probes)
    (parent / PROBE_FILE).write_text(probes.model_copy(update={"probes": other}).model_dump_json())
    manifest = Manifest.model_validate_json((parent / MANIFEST_FILE).read_bytes())
    files = {**manifest.files, PROBE_FILE: sha256_of(parent / PROBE_FILE)}
    (parent / MANIFEST_FILE).write_text(manifest.model_copy(update={"files": files}).model_dump_json())
    directory = write_round(tmp_path / "round", config_for(tiny_base, id="round-2", parent=parent))
    assert run_here(directory) == 1
    assert "does not score its own probes" in capsys.readouterr().err
    assert not (directory / CHECKPOINT_DIR).exists()


def test_without_an_accepted_turn_to_validate_on_drift_is_measured_on_those_learnt_from(
    tmp_path: Path, tiny_base: Path
) -> None:
    lines = [s for s in specs() if (s.mode, s.split) != ("preserve", "validate")]
    directory = write_round(tmp_path, config_for(tiny_base), lines)
    assert run_here(directory) == 0
    assert all("drift_nats" in figures for figures in figures_of(directory, "validated"))


def test_a_round_in_which_nothing_can_be_measured_says_so(
    tmp_path: Path, tiny_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [s for s in specs() if s.mode != "offline"]
    directory = write_round(tmp_path, config_for(tiny_base, objective=ObjectiveSettings(skip_first=50)), lines)
    assert run_here(directory) == 1
    assert "lower objective.skip_first" in capsys.readouterr().err


def test_a_round_that_has_published_says_so_again_at_once(finished: Path) -> None:
    """Its daemon may have been killed before it read so, or the learner before it said so."""
    before, last = (finished / PROGRESS_FILE).read_bytes(), progress_of(finished)[-1]
    assert run_here(finished) == 0
    again = progress_of(finished)[-1]
    assert (finished / PROGRESS_FILE).read_bytes().startswith(before)
    assert again == last.model_copy(update={"at": again.at})
    assert len(progress_of(finished)) == len(before.splitlines()) + 1


def test_a_learner_killed_between_its_checkpoint_and_its_last_word(
    finished: Path, tmp_path: Path, tiny_base: Path
) -> None:
    directory = write_round(tmp_path, config_for(tiny_base))
    shutil.copytree(finished / CHECKPOINT_DIR, directory / CHECKPOINT_DIR)
    lines = (finished / PROGRESS_FILE).read_bytes().splitlines(keepends=True)
    unsaid = b"".join(line for line in lines if b'"event":"published"' not in line)
    (directory / PROGRESS_FILE).write_bytes(unsaid + b'{"event":"publ')
    assert run_here(directory) == 0
    manifest, last = read_manifest(directory / CHECKPOINT_DIR), progress_of(directory)[-1]
    assert (last.event, last.step, last.message) == ("published", manifest.step, manifest.id)
    assert events(directory).count("published") == 1


@pytest.mark.parametrize(
    ("changes", "lines", "reason"),
    [
        ({"id": "round-2"}, specs(), "it is of round-1, not round-2"),
        ({}, [s for s in specs() if s.mode == "preserve"], "learnt from offline-train-4, which samples.jsonl lacks"),
    ],
)
def test_the_checkpoint_of_another_round_is_not_taken_for_its_own(
    finished: Path, tmp_path: Path, changes: dict[str, str], lines: list[SampleSpec], reason: str
) -> None:
    directory = write_round(tmp_path, read_config(finished).model_copy(update=changes), lines)
    shutil.copytree(finished / CHECKPOINT_DIR, directory / CHECKPOINT_DIR)
    assert run_here(directory) == 1
    last = progress_of(directory)[-1]
    assert last.event == "failed"
    assert "another round's checkpoint" in last.message
    assert reason in last.message
    assert read_manifest(directory / CHECKPOINT_DIR) == read_manifest(finished / CHECKPOINT_DIR)


def test_two_runs_of_one_round_give_the_same_bytes(finished: Path, tmp_path: Path, tiny_base: Path) -> None:
    directory = write_round(tmp_path, config_for(tiny_base))
    assert run_here(directory) == 0
    assert read_manifest(directory / CHECKPOINT_DIR) == read_manifest(finished / CHECKPOINT_DIR)


def test_a_killed_learner_leaves_no_checkpoint_and_is_started_again(
    finished: Path, tmp_path: Path, tiny_base: Path
) -> None:
    directory = write_round(tmp_path, config_for(tiny_base, stopping=LONG))
    with start_learner(directory) as learner:
        until(directory, learner, lambda seen: b'"event":"step"' in seen)
        learner.send_signal(signal.SIGKILL)
    assert not (directory / CHECKPOINT_DIR).exists()
    (directory / "checkpoint.tmp-1").mkdir()
    write_round(directory, config_for(tiny_base))
    assert run_learner(directory).returncode == 0
    assert events(directory).count("started") == 2
    assert not list(directory.glob("checkpoint.tmp-*"))
    # As if it had never been killed.
    assert read_manifest(directory / CHECKPOINT_DIR) == read_manifest(finished / CHECKPOINT_DIR)


def test_a_second_learner_is_turned_away(tmp_path: Path, tiny_base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_round(tmp_path, config_for(tiny_base, stopping=LONG))
    with start_learner(directory) as learner:
        until(directory, learner, lambda seen: b"started" in seen)
        assert run_here(directory) == 1
        learner.kill()
    assert "another learner" in capsys.readouterr().err
    assert "failed" not in events(directory)


def test_a_write_that_fails_leaves_no_checkpoint(tmp_path: Path, tiny_base: Path) -> None:
    directory = write_round(tmp_path, config_for(tiny_base))
    limit = 64 * 1024  # The progress file fits, the adapter does not.
    ended = subprocess.run(
        learner_command(directory),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 1
    last = progress_of(directory)[-1]
    assert last.event == "failed"
    assert "could not be written" in last.message
    assert not list(directory.glob("checkpoint*"))
    assert run_here(directory) == 0
    read_manifest(directory / CHECKPOINT_DIR)


def test_a_parent_of_another_base_is_refused(
    finished: Path, tmp_path: Path, tiny_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "base"
    shutil.copytree(tiny_base, other)
    template = other / "chat_template.jinja"
    template.write_text(template.read_text() + "\n")
    directory = write_round(tmp_path / "round", config_for(other, parent=finished / CHECKPOINT_DIR))
    assert run_here(directory) == 1
    assert "another chat template" in progress_of(directory)[-1].message
    assert "Traceback" not in capsys.readouterr().err


def failing(tmp_path: Path, config: RoundConfig) -> str:
    directory = write_round(tmp_path, config)
    assert run_here(directory) == 1
    last = progress_of(directory)[-1]
    assert last.event == "failed"
    assert not list(directory.glob("checkpoint*"))
    return last.message


def test_a_base_with_nan_weights_fails_and_publishes_nothing(tmp_path: Path, tiny_base: Path) -> None:
    broken = tmp_path / "base"
    shutil.copytree(tiny_base, broken)
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"].fill_(float("nan"))
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    assert "not finite" in failing(tmp_path / "round", config_for(broken))


def test_a_missing_base_fails_with_its_name(tmp_path: Path) -> None:
    assert "no-such-model" in failing(tmp_path / "round", config_for(tmp_path / "no-such-model"))


def test_no_gain_is_a_finding_and_not_a_checkpoint(tmp_path: Path, tiny_base: Path) -> None:
    stopping = StoppingSettings(max_steps=2, validate_every=1, max_drift_nats=1e-9)
    directory = write_round(tmp_path, config_for(tiny_base, stopping=stopping))
    assert run_here(directory) == 0
    last = progress_of(directory)[-1]
    assert last.event == "finding"
    assert "nothing was published" in last.message
    # Too much drift at the first measure ended the round.
    assert events(directory).count("step") == 1
    assert not (directory / CHECKPOINT_DIR).exists()


SHORT_REPLIES = ObjectiveSettings(skip_first=12)
"""Fresh replies of these rounds have 12 tokens at most, so that none has a token to learn from."""
ANSWER = {"role": "assistant", "content": "Your parcel left the warehouse on Monday. " * 3}
MEASURED_ON = spec_for(9, "offline", "validate", completion=ANSWER)


def test_a_round_whose_replies_have_no_token_to_learn_from_says_just_that(tmp_path: Path, tiny_base: Path) -> None:
    lines = [*(spec_for(n, "one_step") for n in range(6)), MEASURED_ON]
    directory = write_round(tmp_path, config_for(tiny_base, objective=SHORT_REPLIES), lines)
    assert run_here(directory) == 0
    assert events(directory) == ["started", "validated", "finding"]
    assert "no reply to any sample has a token to learn from; lower objective.skip_first" in (
        progress_of(directory)[-1].message
    )
    assert not (directory / CHECKPOINT_DIR).exists()


def test_a_batch_without_a_token_to_learn_from_is_passed_over(tmp_path: Path, tiny_base: Path) -> None:
    """One sample of five can be learnt from, and each batch holds one."""
    lines = [*(spec_for(n, "one_step") for n in range(4)), spec_for(5, "offline", completion=ANSWER), MEASURED_ON]
    config = config_for(tiny_base, objective=SHORT_REPLIES, batch=BatchSettings(repair=1, preserve=0))
    directory = write_round(tmp_path, config, lines)
    assert run_here(directory) == 0
    steps = [line.step for line in progress_of(directory) if line.event == "step"]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert "finding" not in events(directory)
    assert read_manifest(directory / CHECKPOINT_DIR).sample_ids == ("offline-train-5",)


def test_a_round_over_a_base_in_bfloat16_publishes(tmp_path: Path, tiny_base: Path) -> None:
    directory = write_round(tmp_path, config_for(tiny_base, dtype="bfloat16"))
    assert run_here(directory) == 0
    weights = load_file(directory / CHECKPOINT_DIR / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    second = write_round(
        tmp_path / "second",
        config_for(tiny_base, id="round-2", dtype="bfloat16", parent=directory / CHECKPOINT_DIR),
    )
    assert run_here(second) == 0, progress_of(second)[-1].message


def test_a_round_stops_when_patience_runs_out(tmp_path: Path, tiny_base: Path) -> None:
    config = config_for(
        tiny_base,
        optimizer=OptimizerSettings(learning_rate=0.3),
        stopping=StoppingSettings(max_steps=40, validate_every=1, patience=2, max_drift_nats=1e3),
    )
    directory = write_round(tmp_path, config)
    assert run_here(directory) == 0
    gaps = [figures["gap_nats"] for figures in figures_of(directory, "validated")]
    best = min(gaps)
    assert len(gaps) < 41
    assert len(gaps) - 1 - gaps.index(best) == 2


def test_bad_lines_are_refused_by_number_and_the_rest_is_learnt(tmp_path: Path, tiny_base: Path) -> None:
    long = spec_for(3, "offline", completion={"role": "assistant", "content": "tomorrow " * 3000}, id="too-long")
    lines = ['{"id": "torn', *specs(), long]
    directory = write_round(tmp_path, config_for(tiny_base), lines)
    assert run_here(directory) == 0
    refused = [line.message for line in progress_of(directory) if line.event == "refused"]
    assert len(refused) == 2
    assert "line 1" in refused[0]
    assert "too-long" in refused[1]
    assert "max_length" in refused[1]
    assert (directory / CHECKPOINT_DIR).is_dir()


@pytest.mark.parametrize("side", ["train", "validate"])
def test_nothing_to_learn_from_is_a_finding(tmp_path: Path, tiny_base: Path, side: str) -> None:
    kept = [spec for spec in specs() if spec.mode == "preserve" or spec.split != side]
    directory = write_round(tmp_path, config_for(tiny_base), kept)
    assert run_here(directory) == 0
    last = progress_of(directory)[-1]
    assert last.event == "finding"
    assert side in last.message


@pytest.mark.parametrize("content", [None, "{", '{"id": "round-1", "base": "x", "colour": "blue"}'])
def test_a_directory_without_a_usable_round_file_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "round.json").write_text(content)
    assert run_here(tmp_path) == 1
    assert "round.json" in progress_of(tmp_path)[-1].message


def test_a_damaged_checkpoint_is_reported_and_not_overwritten(finished: Path, tmp_path: Path) -> None:
    directory = tmp_path / "round"
    shutil.copytree(finished, directory)
    weights = directory / CHECKPOINT_DIR / "adapter_model.safetensors"
    damaged = weights.read_bytes()[:-4] + os.urandom(4)
    weights.write_bytes(damaged)
    assert run_here(directory) == 1
    assert "adapter_model.safetensors" in progress_of(directory)[-1].message
    assert weights.read_bytes() == damaged
