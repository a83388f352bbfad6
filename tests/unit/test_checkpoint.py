import json
from pathlib import Path

import pytest
import torch
from round_dirs import config_for, spec_for
from safetensors.torch import load_file

from harness_adapters.errors import CheckpointError, LearnerError
from learner import checkpoint as module
from learner.checkpoint import Publication, load_optimizer_state, optimizer_state, publish, remove_unfinished
from learner.config import CHECKPOINT_DIR, LoraSettings
from learner.digests import digests_of
from learner.manifest import Manifest, read_manifest
from learner.model import load_policy
from learner.probe import Probe
from learner.render import Renderer
from learner.sample import render_sample
from learner.step import Trainer

PROBE = Probe(ids=(1, 2, 3), start=2, before_logprobs=(-1.0,), after_logprobs=(-0.5,))


@pytest.fixture(scope="module")
def trained(tiny_base: Path) -> Trainer:
    config, renderer = config_for(tiny_base), Renderer(tiny_base)
    trainer = Trainer(config, load_policy(config), renderer.eos_ids)
    repair = [render_sample(spec_for(n, "offline"), renderer, config) for n in range(2)]
    for step in (1, 2):
        assert trainer.step(step, repair, []) is not None
    return trainer


def published(directory: Path, trainer: Trainer) -> Manifest:
    publication = Publication(
        step=2,
        adapter=trainer.policy.adapter_state(),
        optimizer=optimizer_state(trainer.policy, trainer.optimizer),
        probes=[PROBE],
        sample_ids=("a", "b"),
        parent_id=None,
        figures={"gap_nats": 0.1},
    )
    return publish(directory, trainer.config, digests_of(trainer.config.base), publication)


def test_a_published_checkpoint_proves_itself_and_has_nothing_vllm_refuses(tmp_path: Path, trained: Trainer) -> None:
    manifest = published(tmp_path, trained)
    assert read_manifest(tmp_path / CHECKPOINT_DIR) == manifest
    assert manifest.figures == {"gap_nats": 0.1}
    assert "gap_nats" not in json.dumps(manifest.hyperparameters)
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT_DIR]
    config = json.loads((tmp_path / CHECKPOINT_DIR / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["bias"], config["modules_to_save"]) == (8, 16, "none", None)
    assert not config["use_dora"]
    names = load_file(tmp_path / CHECKPOINT_DIR / "adapter_model.safetensors").keys()
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in names
    assert all(name.endswith((".lora_A.weight", ".lora_B.weight")) for name in names)


def test_the_next_round_starts_from_the_same_weights_and_optimizer(tmp_path: Path, trained: Trainer) -> None:
    published(tmp_path, trained)
    config = trained.config.model_copy(update={"parent": tmp_path / CHECKPOINT_DIR, "seed": 99})
    policy = load_policy(config)
    state, before = policy.adapter_state(), trained.policy.adapter_state()
    assert all(state[name].equal(tensor) for name, tensor in before.items())
    optimizer = torch.optim.AdamW(policy.trainable().values())
    load_optimizer_state(tmp_path / CHECKPOINT_DIR, policy, optimizer)
    continued = optimizer_state(policy, optimizer)
    assert all(continued[n].equal(t) for n, t in optimizer_state(trained.policy, trained.optimizer).items())
    assert {float(t) for n, t in continued.items() if n.endswith(".step")} == {2.0}


@pytest.mark.parametrize(
    "lora", [LoraSettings(rank=16, alpha=16), LoraSettings(rank=8, alpha=16, targets=("q_proj",)), LoraSettings(rank=8)]
)
def test_a_parent_of_another_shape_is_refused(tmp_path: Path, trained: Trainer, lora: LoraSettings) -> None:
    published(tmp_path, trained)
    with pytest.raises(CheckpointError, match="parent"):
        load_policy(trained.config.model_copy(update={"parent": tmp_path / CHECKPOINT_DIR, "lora": lora}))


def test_an_adapter_that_fits_no_layer_is_refused(trained: Trainer) -> None:
    lora = LoraSettings(rank=8, targets=("query_key_value",))
    with pytest.raises(LearnerError, match="does not fit"):
        load_policy(trained.config.model_copy(update={"lora": lora}))


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "optimizer.safetensors", "probe.json"])
def test_a_changed_file_is_noticed(tmp_path: Path, trained: Trainer, name: str) -> None:
    published(tmp_path, trained)
    path = tmp_path / CHECKPOINT_DIR / name
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match=name):
        read_manifest(tmp_path / CHECKPOINT_DIR)


def test_a_full_disk_publishes_nothing_and_leaves_nothing(
    tmp_path: Path, trained: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._write  # pyright: ignore[reportPrivateUsage]

    def on_a_full_device(path: Path, content: bytes) -> None:
        # The kernel's own device whose every write fails with "no space left".
        real(Path("/dev/full") if path.name == "optimizer.safetensors" else path, content)

    monkeypatch.setattr(module, "_write", on_a_full_device)
    with pytest.raises(LearnerError, match="the disk is full"):
        published(tmp_path, trained)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_learner_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp-123").mkdir()
    (tmp_path / "checkpoint.tmp-123" / "adapter_model.safetensors").write_bytes(b"half")
    (tmp_path / "samples.jsonl").write_bytes(b"")
    remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["samples.jsonl"]


def test_digests_tell_another_base_tokenizer_and_template_apart(tmp_path: Path, trained: Trainer) -> None:
    manifest = published(tmp_path, trained)
    ours = digests_of(trained.config.base)
    ours.check(manifest, tmp_path)
    for field, word in (
        ("base_sha256", "base model"),
        ("tokenizer_sha256", "tokenizer"),
        ("template_sha256", "template"),
    ):
        with pytest.raises(CheckpointError, match=word):
            ours.check(manifest.model_copy(update={field: "0" * 64}), tmp_path)


def test_each_file_counts_in_its_own_digest(tmp_path: Path, tiny_base: Path) -> None:
    for file in tiny_base.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    before = digests_of(tmp_path)
    assert before == digests_of(tiny_base)
    for name, changed in (
        ("config.json", "base"),
        ("tokenizer_config.json", "tokenizer"),
        ("chat_template.jinja", "template"),
    ):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        after = digests_of(tmp_path)
        fields = [
            field for field in ("base", "tokenizer", "template") if getattr(after, field) != getattr(before, field)
        ]
        assert fields == [changed]
        before = after


def test_a_base_without_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="safetensors"):
        digests_of(tmp_path)
