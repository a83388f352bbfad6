"""Signals held against hand labels: precision and recall a kind, targets, faults, and false alarms a trap.

Labels stand in `labels.jsonl` files, one place a line: `file`, `session`, `turn`, `kind` (`none` for what only looks
like a signal), `target`, `fix`, `agent_fault`, and `trap` for why a negative looks like a positive. Places marked
`ambiguous` are left out. A place without a label says nothing, so precision counts labelled places alone.

A signal answers the label at its place or, where none says that there is nothing, one beside it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from harness_adapters.errors import RecordError
from hinting.place import Finding
from hinting.signal import Fault

LABELS_FILE = "labels.jsonl"
TOLERANCE = 1
"""How many places a signal may stand from its label."""

GROUPS = {
    "tool_error_retry": "tool_error_retry",
    "user_correction": "user",
    "user_repeat": "user",
    "rejected_action": "rejected_action",
    "self_correction": "self_correction",
}


class Label(BaseModel):
    """One labelled place."""

    model_config = ConfigDict(frozen=True)

    file: str
    """Below the folder that is scored."""
    session: str
    turn: int
    kind: str
    target: int | None = None
    fix: int | None = None
    agent_fault: bool = False
    trap: str | None = None
    ambiguous: bool = False
    note: str = ""

    @field_validator("file")
    @classmethod
    def _is_below(cls, file: str) -> str:
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or "\0" in file:
            raise ValueError("a label's file is a path below the folder that is scored")
        return file

    @property
    def group(self) -> str | None:
        """The kinds that are scored together; None of a place where there is no signal."""
        return GROUPS.get(self.kind)


def read_labels(root: Path) -> list[Label]:
    """Return the labels of every `labels.jsonl` below a folder. Raises RecordError for a line that is none."""
    labels: list[Label] = []
    for path in sorted(root.rglob(LABELS_FILE)):
        below = PurePosixPath(path.parent.relative_to(root).as_posix())
        for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            if line.strip():
                try:
                    label = Label.model_validate_json(line)
                except ValidationError as error:
                    flaws = (f"{'.'.join(map(str, e['loc']))} {e['msg']}".strip() for e in error.errors())
                    raise RecordError(f"{path}:{number}: not a label: {'; '.join(flaws)}") from error
                if label.kind != "none" and label.group is None:
                    raise RecordError(f"{path}:{number}: the kind {label.kind!r} is none of none, {', '.join(GROUPS)}")
                labels.append(label.model_copy(update={"file": str(below / label.file)}))
    return labels


@dataclass(slots=True)
class FileFacts:
    """What scoring has to know of a labelled file beside its findings."""

    agent_turns: int = 0
    sessions: set[str] = field(default_factory=set[str])
    """What its sessions are called."""


@dataclass(frozen=True, slots=True)
class _Match:
    label: Label
    finding: Finding


def score(
    labels: Iterable[Label],
    findings: Iterable[Finding],
    files: Mapping[str, FileFacts],
    min_confidence: float,
) -> dict[str, Any]:
    """Score findings, whose files are named as the labels name them.

    A finding trains when its fault is the agent's and its confidence at least `min_confidence`. Returns the report as
    one JSON object.
    """
    found, told = list(findings), list(labels)
    places: dict[tuple[str, str | None], list[Label]] = defaultdict(list)
    for label in told:
        # Where a source names no sessions, its places are one row, and labels give its sessions names of their own.
        known = label.file in files and label.session in files[label.file].sessions
        places[label.file, label.session if known else None].append(label)
    matched = _matches(places, found)
    taken = {id(match.finding) for match in matched}
    stray = [(label, f) for label, f in _near(places, found) if id(f) not in taken]
    scored = [label for label in told if not label.ambiguous]
    hits = [match for match in matched if not match.label.ambiguous]
    nothing = [label for label in scored if label.kind == "none"]
    alarmed = {
        label: [f for at, f in stray if at is label and f.fault is Fault.AGENT and f.confidence >= min_confidence]
        for label in nothing
    }
    rung = [label for label in nothing if alarmed[label]]
    fault_right = [m for m in hits if (m.finding.fault is Fault.AGENT) == m.label.agent_fault]
    target_right = [m for m in hits if m.finding.target == m.label.target]
    hit = {id(match.label) for match in hits}
    return {
        "kinds": {group: _kind(group, scored, hits, stray) for group in dict.fromkeys(GROUPS.values())},
        "false_alarm_rate": _share(len(rung), len(nothing)),
        "false_alarm_counts": {"alarms": len(rung), "n": len(nothing)},
        "traps": _traps(nothing, rung),
        "signals_per_100_turns": _rates(found, files),
        "target_exact": _share(len(target_right), len(hits)),
        "fault_accuracy": _share(len(fault_right), len(hits)),
        "fault_counts": {"right": len(fault_right), "n": len(hits)},
        "missed": [_told(label) for label in scored if label.group and id(label) not in hit],
        "false_alarms": [{**_told(label), "found": [f.kind.value for f in alarmed[label]]} for label in rung],
    }


def _near(
    places: Mapping[tuple[str, str | None], Sequence[Label]], found: Iterable[Finding]
) -> list[tuple[Label, Finding]]:
    """Return each finding with each label it stands at, or next to."""
    return [
        (label, f)
        for f in found
        for label in (*places.get((f.file, f.session), ()), *places.get((f.file, None), ()))
        if f.turn is not None and abs(f.turn - label.turn) <= TOLERANCE
    ]


def _matches(places: Mapping[tuple[str, str | None], Sequence[Label]], found: Sequence[Finding]) -> list[_Match]:
    """Pair labels with findings of their kinds, each with one, the nearest and the same kind first."""
    near = _near(places, found)
    nothing = _at_nothing(near)
    pairs = [
        (label, f)
        for label, f in near
        if label.group and label.group == GROUPS.get(f.kind.value) and (f.turn == label.turn or id(f) not in nothing)
    ]
    pairs.sort(key=lambda p: (abs((p[1].turn or 0) - p[0].turn), p[0].kind != p[1].kind.value))
    labels, findings = set[int](), set[int]()
    matches: list[_Match] = []
    for label, f in pairs:
        if id(label) not in labels and id(f) not in findings:
            labels.add(id(label))
            findings.add(id(f))
            matches.append(_Match(label, f))
    return matches


def _at_nothing(near: Iterable[tuple[Label, Finding]]) -> set[int]:
    """Return the ids of the findings that stand exactly where a label says that there is nothing."""
    return {id(f) for label, f in near if label.kind == "none" and not label.ambiguous and label.turn == f.turn}


def _kind(
    group: str, labels: Sequence[Label], hits: Sequence[_Match], stray: Sequence[tuple[Label, Finding]]
) -> dict[str, Any]:
    n = sum(label.group == group for label in labels)
    right = sum(match.label.group == group for match in hits)
    # A finding next to several labels is one false alarm. At or next to an ambiguous one it is none, unless a sure
    # label says that there is nothing right where it stands.
    doubtful = {id(f) for label, f in stray if label.ambiguous} - _at_nothing(stray)
    wrong = {id(f) for _, f in stray if GROUPS.get(f.kind.value) == group} - doubtful
    p, r = _share(right, right + len(wrong)), _share(right, n)
    f1 = None if p is None or r is None else 2 * p * r / (p + r) if p + r else 0.0
    return {"p": p, "r": r, "f1": f1 if n else None, "n": n}


def _traps(nothing: Sequence[Label], rung: Sequence[Label]) -> dict[str, dict[str, int]]:
    alarms = Counter(label.trap or "none given" for label in rung)
    return {
        trap: {"alarms": alarms[trap], "n": n}
        for trap, n in sorted(Counter(label.trap or "none given" for label in nothing).items())
    }


def _rates(found: Sequence[Finding], files: Mapping[str, FileFacts]) -> dict[str, float | None]:
    turns: Counter[str] = Counter()
    signals: Counter[str] = Counter()
    for file, facts in files.items():
        turns[str(PurePosixPath(file).parent)] += facts.agent_turns
    for f in found:
        signals[str(PurePosixPath(f.file).parent)] += 1
    return {folder: _share(100 * signals[folder], turns[folder]) for folder in sorted(turns)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _told(label: Label) -> dict[str, Any]:
    members = {"file", "session", "turn", "kind", "target", "trap", "note"}
    return label.model_dump(include=members, exclude_none=True)
