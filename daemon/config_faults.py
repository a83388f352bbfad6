"""What is wrong with a configuration, in words: each fault's place and the nearest valid name."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from harness_adapters.errors import ConfigError


def check_file(file: Path | None) -> None:
    """Raise ConfigError when the file cannot be read or is not TOML."""
    if file is None:
        return
    try:
        tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {file} is not TOML: {error}") from error


def check_environment(model: type[BaseModel], prefix: str, *, ignored: tuple[str, ...] = ()) -> None:
    """Raise ConfigError for variables with our prefix that name no section: the library passes over them in silence.

    `ignored` are the beginnings of variables that are not settings.
    """
    faults: list[str] = []
    for variable in sorted(os.environ):
        if not variable.upper().startswith(prefix) or variable.startswith(ignored):
            continue
        place = variable[len(prefix) :].lower().split("__")
        if place[0] not in model.model_fields:
            faults.append(f"  {variable}: unknown name{_nearest(model, place, prefix)}")
    if faults:
        raise ConfigError("the environment cannot be used:\n" + "\n".join(faults))


def explain(error: ValidationError, model: type[BaseModel], prefix: str, file: Path | None) -> str:
    """Return every fault of a refused configuration, one a line. Values are not shown: they may be secrets."""
    variables = {name.upper() for name in os.environ}
    lines: list[str] = []
    for fault in error.errors():
        place = [str(part) for part in fault["loc"]]
        variable = prefix + "__".join(place).upper()
        where = variable if variable in variables else ".".join(place)
        if fault["type"] == "extra_forbidden":
            wanted = _without_positions(fault["loc"])
            lines.append(f"  {where}: unknown name{_nearest(model, wanted, prefix if variable in variables else None)}")
        else:
            text = fault["msg"].removeprefix("Value error, ")
            lines.append(f"  {where}: {text}" if where else f"  {text}")
    return f"the configuration{f' of {file}' if file else ''} cannot be used:\n" + "\n".join(lines)


def _without_positions(loc: Sequence[int | str]) -> list[str]:
    """Drop list positions, and the kind that stands behind one where a list holds several kinds."""
    return [
        str(part)
        for at, part in enumerate(loc)
        if not isinstance(part, int) and not (0 < at < len(loc) - 1 and isinstance(loc[at - 1], int))
    ]


def _nearest(model: type[BaseModel], place: Sequence[str], prefix: str | None) -> str:
    """Say which valid name is nearest: first among those beside it, then elsewhere. With a prefix, as a variable."""
    names = list(dict.fromkeys(_names(model)))
    wanted = ".".join(place)
    parent, _, leaf = wanted.rpartition(".")
    beside = {name.rpartition(".")[2]: name for name in names if name.rpartition(".")[0] == parent}
    anywhere = {name.rpartition(".")[2]: name for name in reversed(names)}
    found = [beside[near] for near in difflib.get_close_matches(leaf, beside, n=1, cutoff=0.7)]
    found = found or [anywhere[near] for near in difflib.get_close_matches(leaf, anywhere, n=1, cutoff=0.7)]
    if not found and beside:
        return f" (valid here: {', '.join(sorted(beside))})"
    found = found or difflib.get_close_matches(wanted, names, n=1)
    if not found:
        return ""
    return f"; did you mean {prefix + found[0].replace('.', '__').upper() if prefix else found[0]}?"


def _names(model: type[BaseModel], parent: str = "") -> Iterator[str]:
    for field, info in model.model_fields.items():
        name = f"{parent}{info.alias or field}"
        yield name
        for section in _sections(info.annotation):
            yield from _names(section, f"{name}.")


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections(inner)
