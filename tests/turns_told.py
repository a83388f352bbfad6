"""What the turns of a trace say, in short."""

from harness_adapters.trace import Author, Outcome, Trace


def told(trace: Trace, *authors: Author) -> list[tuple[int | None, str]]:
    """The places and texts of all turns, or of those of some authors."""
    return [(t.place, t.text) for t in trace.turns if not authors or t.author in authors]


def outcomes(trace: Trace) -> list[Outcome | None]:
    """What became of the calls, in the order of their results."""
    return [t.outcome for t in trace.turns if t.author is Author.TOOL]
