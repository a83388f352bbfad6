"""PythonGrader: a grader of the operator's own, `module:function`, run in a child process.

The child keeps the daemon safe from whatever the function imports, prints or breaks, and a function that never
returns can be ended, which a thread cannot.
"""

import asyncio
import contextlib
import importlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from harness_adapters.trace import ToolCall
from hinting.grade import Grade, GradeCase
from hinting.signal import SignalKind

_MARK = "\x1egrade "
"""Sets the answer apart from anything else that reached the child's standard output."""


def _environment() -> dict[str, str]:
    """Return the environment without the daemon's own settings, which hold its secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SECONDNATURE_")}


class PythonGrader:
    """Calls `function(case: GradeCase)`, which answers True, False, None (abstain) or a `Grade`; may be async."""

    def __init__(self, name: str, entry_point: str) -> None:
        self.name = name
        self._entry_point = entry_point

    async def grade(self, case: GradeCase) -> Grade:
        """Run the function in a child process; the child is killed when the call is cancelled or times out."""
        request = {"entry_point": self._entry_point, "case": asdict(case)}
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hinting.python_grader",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**_environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            out, err = await child.communicate(json.dumps(request, default=dict).encode())
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        _, mark, answer = out.decode(errors="replace").rpartition(_MARK)
        if not mark:
            last = (err.decode(errors="replace").strip().splitlines() or [f"exit status {child.returncode}"])[-1]
            return Grade(passed=None, reason=f"{self._entry_point} gave no answer: {last}")
        return Grade(**json.loads(answer))


def _case(data: dict[str, Any]) -> GradeCase:
    for name in ("tool_calls", "failed_calls"):
        data[name] = tuple(ToolCall(**call) for call in data[name])
    kind = data.pop("kind")
    return GradeCase(**data, kind=SignalKind(kind) if kind else None)


async def _answer(request: dict[str, Any]) -> Grade:
    module, _, function = str(request["entry_point"]).partition(":")
    answer = getattr(importlib.import_module(module), function)(_case(request["case"]))
    if asyncio.iscoroutine(answer):
        answer = await answer
    if isinstance(answer, Grade):
        return answer
    if answer is None or isinstance(answer, bool):
        return Grade(passed=answer)
    raise TypeError(f"{request['entry_point']} answered {answer!r}; answer True, False, None or a Grade")


def main() -> None:
    """Grade one case: read the request from standard input, write the grade behind a mark to standard output."""
    request = json.loads(sys.stdin.buffer.read())
    with contextlib.redirect_stdout(sys.stderr):
        grade = asyncio.run(_answer(request))
    sys.stdout.write(_MARK + json.dumps(asdict(grade)))


if __name__ == "__main__":
    main()
