"""The adapters there are, which of them a source asks for, and the traces it holds."""

from collections.abc import Callable, Iterator, Sequence

from harness_adapters.adapter import Adapter, Skipped
from harness_adapters.anthropic_messages import AnthropicMessages
from harness_adapters.atif import Atif
from harness_adapters.claude_code import ClaudeCode
from harness_adapters.codex import Codex
from harness_adapters.errors import RecordError
from harness_adapters.exchange import Exchange
from harness_adapters.gemini_cli import GeminiCli
from harness_adapters.inspect_ai import InspectAI
from harness_adapters.langfuse import Langfuse
from harness_adapters.langsmith import LangSmith
from harness_adapters.litellm import LiteLLM
from harness_adapters.openai_chat import OpenAIChat
from harness_adapters.openai_responses import OpenAIResponses
from harness_adapters.openhands import OpenHands
from harness_adapters.openinference import OpenInference
from harness_adapters.otel_genai import OTelGenAI
from harness_adapters.source import Source
from harness_adapters.stitch import Grouping
from harness_adapters.swe_agent import SweAgent
from harness_adapters.tau import Tau2, TauBench
from harness_adapters.trace import Trace, trace_json

__all__ = ["ADAPTERS", "Adapter", "Skipped", "adapter_named", "detect_adapter", "read_traces"]

ADAPTERS: tuple[Adapter, ...] = (
    ClaudeCode(),
    Codex(),
    GeminiCli(),
    OpenHands(),
    SweAgent(),
    TauBench(),
    Tau2(),
    InspectAI(),
    Atif(),
    OTelGenAI(),
    OpenInference(),
    LangSmith(),
    Langfuse(),
    LiteLLM(),
    OpenAIResponses(),
    AnthropicMessages(),
    OpenAIChat(),
)
"""In the order in which they are asked: what is told by a member of its own comes before what only looks alike."""


def detect_adapter(source: Source, adapters: Sequence[Adapter] = ADAPTERS) -> Adapter:
    """Return the first adapter that recognises the source. Raises RecordError when none does."""
    for adapter in adapters:
        if adapter.recognises(source.head):
            return adapter
    if not source.head.raw:
        raise RecordError(f"{source.name}: it is empty")
    known = ", ".join(adapter.name for adapter in adapters)
    raise RecordError(f"{source.name}: no adapter recognises how it begins; the formats known are: {known}")


def adapter_named(name: str) -> Adapter:
    """Return the adapter of a format. Raises RecordError when there is none of this name."""
    for adapter in ADAPTERS:
        if adapter.name == name:
            return adapter
    known = ", ".join(adapter.name for adapter in ADAPTERS)
    raise RecordError(f"there is no format {name!r}; the formats known are: {known}")


def read_traces(
    source: Source, adapter: Adapter, each: Callable[[Exchange | Trace], None] | None = None
) -> Iterator[Trace | Skipped]:
    """Yield the traces of a source; exchanges are grouped into sessions, which come last.

    What is there twice is yielded once; a trace that has the id of another, and says something else, is skipped. `each`
    is called with every exchange and every trace that stands in the source as such, as they are read.
    """
    with Grouping() as grouping:
        for item in adapter.read(source):
            if isinstance(item, Skipped):
                yield item
                continue
            is_new = grouping.add(item) if isinstance(item, Exchange) else grouping.is_new(item)
            if is_new and each is not None:
                each(item)
            if isinstance(item, Trace) and is_new is not False:
                yield item if is_new else _other(item, adapter.unit)
        yield from grouping.traces()


def _other(trace: Trace, unit: str) -> Skipped:
    place = (trace.turns[0].place if trace.turns else None) or 0
    reason = f"a session before it is called {trace.name!r:.80} too and says something else; only that one is read"
    line, where = (place + 1, "") if unit == "line" else (0, f"what begins at {unit} {place}: ")
    return Skipped(line, where + reason, trace_json.dump_json(trace))
