"""The documentation names only what exists: commands, options, settings, metrics, files, make targets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from daemon.config import load
from ops.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def commands_in(page: Path) -> set[tuple[str, ...]]:
    """Return the words of every `secondnature …` command in the page's code."""
    code = "\n".join([*re.findall(r"```.*?```", read(page), re.DOTALL), *re.findall(r"`[^`\n]+`", read(page))])
    found: set[tuple[str, ...]] = set()
    for words in re.findall(r"secondnature((?: +(?:--)?[a-zA-Z-]+)+)", code):
        found.add(tuple(words.split()))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_exists_with_its_options(page: Path) -> None:
    root = get_command(app)
    for words in commands_in(page):
        names = [word for word in words if not word.startswith("-")]
        command, path = root, list[str]()
        for name in names:
            inner = getattr(command, "commands", {}).get(name)
            if inner is None:
                break
            command, path = inner, [*path, name]
        assert path, f"{page.name} names `secondnature {' '.join(words)}`, which is no command"
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if word.startswith("--"):
                assert word in {*options, "--help"}, f"{page.name}: `{' '.join(path)}` has no {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_linked_and_named_file_exists(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", read(page)):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
    for name in re.findall(r"`((?:daemon|harness_adapters|hinting|learner|ops|scripts)/[\w./]+)`", read(page)):
        assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    for page in PAGES:
        for code in re.findall(r"```.*?```|`[^`\n]+`", read(page), re.DOTALL):
            for name in re.findall(r"\bmake ([a-z-]+)", code):
                assert name in targets, f"{page.name} names `make {name}`"


def test_every_toml_block_is_a_configuration(tmp_path: Path) -> None:
    blocks = [block for page in PAGES for block in re.findall(r"```toml\n(.*?)```", read(page), re.DOTALL)]
    assert blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.toml"
        file.write_text(block, encoding="utf-8")
        load(file)


def test_reference_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_command_explains_itself() -> None:
    runner = CliRunner()
    for path in ([], ["traces"], ["signals"], ["hints"], ["rounds"], ["adapters"], ["serve"], ["demo"], ["rollback"]):
        result = runner.invoke(app, [*path, "--help"])
        assert result.exit_code == 0, result.output
