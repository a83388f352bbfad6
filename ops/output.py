"""What commands print: tables and JSON on stdout, messages on stderr. Recorded text is never trusted."""

import json as _json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daemon.encoding import encode

PIPE_WIDTH = 10_000

err = Console(stderr=True)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The TOML file; without one, the environment.")
]
UrlOption = Annotated[str | None, typer.Option("--url", help="The daemon's address; SECONDNATURE_URL without.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000)]


def show(rows: Sequence[dict[str, Any]], json: bool, columns: Sequence[str]) -> None:
    """Print rows as JSON, or as a table of some of their members."""
    if json:
        print_json(rows)
    else:
        print_table(columns, ([row[column] for column in columns] for row in rows))


def print_json(value: Any) -> None:
    """Print one JSON value."""
    typer.echo(_json.dumps(_json.loads(encode(value)), indent=2, ensure_ascii=False))


def print_line(value: Any) -> None:
    """Print one JSON value on a line."""
    typer.echo(encode(value).decode())


def say(text: str) -> None:
    """Print a message to stderr."""
    err.print(cell(text), markup=False, highlight=False, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[Any]], *, header: bool = True) -> None:
    """Print a table; into a pipe, a row a line."""
    table = Table(box=None, pad_edge=False, show_header=header and any(columns))
    for column in columns:
        # Ids are for copying: the other columns give way.
        table.add_column(column, no_wrap=column in ("id", "version", "turn", "state", "kind"), overflow="fold")
    # Whoever reads from a pipe wants a row a line.
    piped = not sys.stdout.isatty()
    for row in rows:
        cells = (cell(value) for value in row)
        table.add_row(*(Text(" ".join(cell.split()) if piped else cell) for cell in cells))
    Console(width=PIPE_WIDTH if piped else None).print(table, highlight=False)


def cell(value: Any) -> str:
    """Return a cell's text. Recorded text is untrusted: control characters are shown, never sent to the terminal."""
    if value is None:
        return "-"
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def mark(value: bool | None) -> str:
    """Return how a table says yes, no, or neither."""
    return {True: "yes", False: "no", None: "-"}[value]
