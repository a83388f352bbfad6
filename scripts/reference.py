"""Write docs/configuration.md and docs/metrics.md from the code that defines them.

python scripts/reference.py          write both
python scripts/reference.py --check  exit 1 if either differs from what stands there
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from daemon.config import PREFIX, Settings
from daemon.metrics import Metrics

DOCS = Path(__file__).parent.parent / "docs"


def configuration() -> str:
    """Return the configuration reference, one table a section."""
    lines = [
        "# Configuration",
        "",
        "One TOML file (`secondnature serve --config FILE`), and the environment over it:",
        f"`{PREFIX}SECTION__KEY`, e.g. `{PREFIX}SERVER__PORT=8701`. Unknown keys are refused, with the nearest name.",
        "This page is written by `scripts/reference.py` from `daemon/config.py` and `daemon/config_sections.py`.",
    ]
    for path, section, rows in sections(Settings, ""):
        lines += ["", f"## `{path}`" if path else "## Top level", "", *([section, ""] if section else [])]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Walk a settings model and yield path, description and table rows of every section."""
    inner: list[tuple[str, type[BaseModel]]] = []
    rows: list[str] = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            inner.append((f"{path}.{key}".lstrip("."), kind))
            continue
        rows.append(f"| `{key}` | {type_name(field)} | {default_of(field)} | {description(field)} |")
    about = " ".join((model.__doc__ or "").split()) if path else ""
    if rows:
        yield path, about, rows
    for inner_path, kind in inner:
        yield from sections(kind, inner_path)


def type_name(field: FieldInfo) -> str:
    """Return a field's type as people write it."""
    kind: Any = field.annotation
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    for long in ("typing.", "pathlib.", "pydantic.types.", "hinting.graders.", "daemon.config_sections."):
        text = text.replace(long, "")
    if "GraderConfig" in text:
        text = "list of tables"
    return f"`{text}`".replace("|", "\\|")


def default_of(field: FieldInfo) -> str:
    """Return a field's default, or that it is needed."""
    if field.is_required():
        return "needed"
    default = field.default
    if default is None or isinstance(default, SecretStr):
        return "unset"
    return f"`{default}`"


def description(field: FieldInfo) -> str:
    """Return a field's description in one line."""
    return " ".join((field.description or "").split()).replace("|", "\\|")


def metrics() -> str:
    """Return the metrics reference."""
    lines = [
        "# Metrics",
        "",
        "Served at `/metrics`. No label carries the id of a trace, a hint or an adapter.",
        "This page is written by `scripts/reference.py` from `daemon/metrics.py`.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for row in Metrics().table().values():
        labels = ", ".join(f"`{label}`" for label in row.labels)
        lines.append(f"| `{row.name}` | {row.kind} | {labels} | {row.help} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check both pages."""
    pages = {DOCS / "configuration.md": configuration(), DOCS / "metrics.md": metrics()}
    stale = [page for page, text in pages.items() if not page.is_file() or page.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(f"{page} is stale; run scripts/reference.py", file=sys.stderr)  # noqa: T201 - talks to a person
        return 1 if stale else 0
    for page in stale:
        page.write_text(pages[page], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
