"""How fast recordings are read and searched for signals, and in how much memory.

For each format a file of generated sessions is written, then one four times as long. Each is read in a process of its
own, as `secondnature traces import --dry-run` and `secondnature signals` read it. The peaks of the two processes'
memory tell whether it grows with the file: their ratio is near 1 where it does not.

    python -m ops.bench.importing [--mb N] [--formats NAME,...] [--json]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from ops.bench.sessions import FORMATS
from ops.output import print_json, print_table

LONGER = 4
MIB = 1 << 20


def write(path: Path, format_name: str, size: int) -> None:
    """Write a file of at least `size` bytes."""
    _, pieces, end = FORMATS[format_name]
    written = 0
    with path.open("wb") as file:
        for piece in pieces():
            written += file.write(piece)
            if written >= size:
                file.write(end)
                return


def read(path: str) -> dict[str, Any]:
    """Read a file here, and return what was found, the seconds it took and this process's peak of memory, in MiB."""
    from ops.finding import find_signals  # noqa: PLC0415 - loading is not what is measured
    from ops.reading import FileReport  # noqa: PLC0415

    signals, started = 0, time.perf_counter()
    report: FileReport | None = None
    for found in find_signals([path]):
        if isinstance(found, FileReport):
            report = found
        else:
            signals += 1
    seconds = time.perf_counter() - started
    assert report is not None, "every file has a report"
    assert "torch" not in sys.modules, "reading loads no torch"
    return {
        "format": report.format,
        "sessions": report.sessions,
        "skipped": len(report.skipped),
        "signals": signals,
        "seconds": seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(format_name: str, megabytes: float, folder: Path) -> dict[str, Any]:
    """Write a format's two files, have each read, and return the figures of both."""
    told: list[dict[str, Any]] = []
    for times in (1, LONGER):
        path = folder / f"{format_name}-{times}"
        write(path, format_name, int(megabytes * times * MIB))
        command = [sys.executable, "-m", "ops.bench.importing", "--read", str(path)]
        figures = orjson.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        expected = FORMATS[format_name][0]
        if figures["format"] != expected or figures["skipped"] or not figures["signals"]:
            raise SystemExit(f"{format_name} was not read as {expected} throughout: {figures}")
        told.append({**figures, "mib_per_s": path.stat().st_size / MIB / figures["seconds"]})
        path.unlink()
    short, long = told
    return {"format": format_name, "short": short, "long": long, "ratio": long["peak_mib"] / short["peak_mib"]}


def main() -> None:
    """Measure the formats asked for and print a table or, with --json, all figures."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.importing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=16, help="MiB of the shorter file; the longer has four times that")
    parser.add_argument("--formats", default=",".join(FORMATS), help="some of: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print_json(read(options.read))
        return
    names = options.formats.split(",")
    if unknown := [name for name in names if name not in FORMATS]:
        parser.error(f"there is no format {', '.join(unknown)} here; there are: {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="secondnature-bench-") as folder:
        measured = [measure(name, options.mb, Path(folder)) for name in names]
    if options.json:
        print_json(measured)
        return
    short, long = (f"of {options.mb * times:g} MiB" for times in (1, LONGER))
    print_table(
        ("format", f"MiB/s {short}", f"MiB/s {long}", f"peak MiB {short}", f"peak MiB {long}", "ratio"),
        (
            (
                *(m["format"], m["short"]["mib_per_s"], m["long"]["mib_per_s"]),
                *(m["short"]["peak_mib"], m["long"]["peak_mib"], m["ratio"]),
            )
            for m in measured
        ),
    )


if __name__ == "__main__":
    main()
