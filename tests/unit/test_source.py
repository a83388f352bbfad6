import gzip
import io
import os
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.source import Source, Unreadable, open_sources

LINES = b'{"a": 1}\n{"b": 2}\n'


def contents(*paths: Path | str) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for source in open_sources([str(path) for path in paths]):
        found[source.name] = source.reason if isinstance(source, Unreadable) else source.stream.read()
    return found


def names(found: dict[str, bytes | str], below: Path) -> set[str]:
    return {name.removeprefix(f"{below}/") for name in found}


def test_a_folder_is_read_with_all_below_it_and_without_hidden_and_rejected_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "deep/er/b.jsonl", ".git/config", "a.jsonl.rejected.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(LINES)
    assert names(contents(tmp_path), tmp_path) == {"a.jsonl", "deep/er/b.jsonl"}


def test_a_pattern_names_many_files_and_one_that_matches_none_is_said(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.txt"):
        (tmp_path / name).write_bytes(LINES)
    assert names(contents(f"{tmp_path}/*.jsonl"), tmp_path) == {"a.jsonl", "b.jsonl"}
    assert "matches" in str(contents(f"{tmp_path}/*.csv")[f"{tmp_path}/*.csv"])


def test_a_file_named_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "[a].jsonl").write_bytes(LINES)
    assert contents(tmp_path / "[a].jsonl") == {f"{tmp_path}/[a].jsonl": LINES}


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(LINES), zstandard.compress(LINES), zstandard.compress(LINES[:9]) + zstandard.compress(LINES[9:])],
)
def test_compressed_files_are_read_through(packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed)
    assert contents(tmp_path) == {f"{tmp_path}/a": LINES}


@pytest.mark.parametrize("packed", [gzip.compress(os.urandom(70_000)), zstandard.compress(os.urandom(70_000))])
def test_a_compressed_file_that_was_cut_says_so(packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(packed[:-9])
    (source,) = open_sources([str(tmp_path / "a")])
    assert isinstance(source, Source)
    with pytest.raises(EOFError):
        source.stream.read()


def test_an_archive_is_read_member_by_member(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("x/a.jsonl", LINES)
        archive.writestr("b.gz", gzip.compress(LINES))
        archive.writestr("empty/", b"")
    assert contents(tmp_path) == {f"{tmp_path}/all.zip!x/a.jsonl": LINES, f"{tmp_path}/all.zip!b.gz": LINES}


def test_links_that_go_round_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(LINES)
    (tmp_path / "in/up").symlink_to(tmp_path)
    (tmp_path / "in/broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "same.jsonl").symlink_to(tmp_path / "in/a.jsonl")
    found = contents(tmp_path)
    assert [value for value in found.values() if value == LINES] == [LINES]
    assert "link" in str(found[f"{tmp_path}/in/up"])
    assert "No such file" in str(found[f"{tmp_path}/in/broken"])


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "neither" in str(contents(tmp_path / "pipe")[f"{tmp_path}/pipe"])
    assert "No such file" in str(contents(tmp_path / "missing")[f"{tmp_path}/missing"])


def test_an_empty_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    monkeypatch.chdir(tmp_path)
    assert "names nothing" in str(contents(""))


def test_a_zip_archive_that_was_cut_says_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("a.jsonl", LINES * 100)
    whole = (tmp_path / "all.zip").read_bytes()
    (tmp_path / "all.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "b.jsonl").write_bytes(LINES)
    found = contents(tmp_path)
    assert "cut or damaged" in str(found[f"{tmp_path}/all.zip"])
    assert found[f"{tmp_path}/b.jsonl"] == LINES


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "closed" in str(contents("-")["-"])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(gzip.compress(LINES))

    monkeypatch.setattr("sys.stdin", Stdin)
    assert contents("-") == {"-": LINES}


@given(st.binary(max_size=2000), st.integers(1, 300))
def test_the_head_takes_nothing_from_the_stream(body: bytes, head: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness_adapters.source.HEAD_BYTES", head)

        class Stdin:
            buffer = io.BytesIO(b" " + body)  # a first byte that no compression begins with

        patch.setattr("sys.stdin", Stdin)
        (source,) = open_sources(["-"])
        assert isinstance(source, Source)
        assert source.head.raw == (b" " + body)[:head]
        assert source.stream.read() == b" " + body
        assert source.position() == len(body) + 1
