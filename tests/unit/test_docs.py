"""The documentation names only what exists: commands, options, settings, metrics, files, make targets."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import venv
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


def test_another_torch_is_another_setup(tmp_path: Path) -> None:
    """`make setup TORCH=…` does something where an environment for another choice is ready."""
    for name in ("Makefile", "pyproject.toml", "scripts/install_torch.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.ready-auto").touch()

    def would_run(*variables: str) -> str:
        command = ["make", "--dry-run", "setup", *variables]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "install_torch.py" not in would_run("TORCH=auto")
    assert "install_torch.py cuda" in (commands := would_run("TORCH=cuda"))
    assert "rm -f .venv/.ready*" in commands


@pytest.mark.parametrize(
    ("does", "answers"),
    [
        ("echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'", True),
        ("echo 'No devices were found'", False),
        ("echo 'GPU 0: half of an answer'; echo 'no driver' >&2; exit 9", False),
        ("exec sleep 30", False),
    ],
)
def test_nvidia_smi_has_to_list_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, answers: bool
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    lists_gpu = runpy.run_path(str(ROOT / "scripts/install_torch.py"))["lists_gpu"]
    # A program that never answers is given up soon; one that answers gets the time it needs.
    assert lists_gpu(0.2 if "sleep" in does else 60.0) is answers


@pytest.mark.parametrize(
    ("choice", "installed", "commands"),
    [
        ("auto", "cuda", []),
        ("cpu", "cpu", []),
        ("cuda", "cuda", []),
        ("cuda", "cpu", ["pip uninstall .*torch", "pip install .*torch==.*"]),
        ("cpu", "cuda", ["pip uninstall .*torch", "pip install .*uv", "uv pip install .*=cpu torch==.*"]),
        ("cpu", None, ["pip install .*uv", "uv pip install .*=cpu torch==.*"]),
        ("auto", None, ["pip install .*torch==.*"]),
    ],
)
def test_torch_is_replaced_where_another_build_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, installed: str | None, commands: list[str]
) -> None:
    """In an environment without pip, where pip, uv and torch are files that write down what they are told."""
    venv.create(tmp_path / "venv", with_pip=False)
    fakes, told = tmp_path / "fakes", tmp_path / "told"
    fakes.mkdir()
    for tool in ("pip", "uv"):
        # Asked what it would install, this pip fails as one without an index does.
        (fakes / f"{tool}.py").write_text(
            "import sys\nif '--dry-run' in sys.argv:\n    sys.exit(1)\n"
            f"print({tool!r}, *sys.argv[1:], file=open({str(told)!r}, 'a'))\n"
        )
    if installed:
        (fakes / "torch.py").write_text(f"class version: cuda = {'12.8' if installed == 'cuda' else None!r}\n")
    smi = fakes / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    smi.chmod(0o755)
    done = subprocess.run(
        [str(tmp_path / "venv/bin/python"), str(ROOT / "scripts/install_torch.py"), choice],
        env={"PYTHONPATH": str(fakes), "PATH": f"{fakes}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ran = told.read_text().splitlines() if told.exists() else []
    assert len(ran) == len(commands), ran
    for line, command in zip(ran, commands, strict=True):
        assert re.fullmatch(command, line), (line, command)


def test_what_the_images_install_can_use_the_stores_and_learners_they_are_for() -> None:
    extras = re.findall(r"pip install [^\n]*'\.\[([\w,]+)\]'", read(ROOT / "Dockerfile"))
    assert [set(names.split(",")) for names in extras] == [{"postgres"}, {"learner", "postgres"}]
    assert "secondnature[learner,postgres]" in read(ROOT / "README.md")


def test_the_decision_on_libraries_names_those_without_a_ceiling() -> None:
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    needs = [*project["dependencies"], *(n for extra in ("learner", "demo", "postgres", "vllm") for n in extras[extra])]
    open_ended = {re.split(r"[\[>]", need)[0] for need in needs if "<" not in need} - {"secondnature"}
    said = read(ROOT / "docs/adr/0002-libraries.md").split("A floor only have")[1].split("developers")[0]
    assert set(re.findall(r"`([\w-]+)`", said)) == open_ended


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
