"""The embedded engine's one decoding thread: takes requests, joins them to the running batch, streams tokens back."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon.embedded_batch import BatchDecoder
from daemon.embedded_sampling import Row, SampleParams, TokenScore
from daemon.logs import get_logger

logger = get_logger(__name__)

MAX_CELLS = 65_536
"""Bound on rows times the longest row's tokens when a row joins, which is what the cache holds. A lone row may be
longer, and rows grow while they are decoded."""
ADMIT_TOKENS = 2048
"""Prompt tokens read between two decoding steps: a bound on how long new prompts hold up the running rows."""


class TextStream:
    """Turns one row's ids into text as they come, special tokens left out.

    Text is held back while it ends inside a UTF-8 character, and while its end may be the start of a stop string.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._hold = max(map(len, self._stop), default=1) - 1
        self._ids: list[int] = []
        self._start = 0
        self._read = 0
        self._waiting = ""
        self.stopped_by: str | None = None

    def push(self, token: int) -> str:
        """Add one id and return the text it makes certain; afterwards `stopped_by` may name a stop string."""
        self._ids.append(token)
        # Decoding from an earlier id on keeps the spacing rules of tokenizers that look at the token before.
        before = self._decode(self._ids[self._start : self._read])
        now = self._decode(self._ids[self._start :])
        if now.endswith("\ufffd"):
            return ""
        self._start, self._read = self._read, len(self._ids)
        self._waiting += now[len(before) :]
        found = [(at, stop) for stop in self._stop if (at := self._waiting.find(stop)) >= 0]
        if found:
            at, self.stopped_by = min(found, key=lambda place: place[0])
            text, self._waiting = self._waiting[:at], ""
            return text
        cut = len(self._waiting) - self._hold
        text, self._waiting = self._waiting[: max(cut, 0)], self._waiting[max(cut, 0) :]
        return text

    def finish(self) -> str:
        """Return what was held back for a stop string that never came; half a character is dropped."""
        text, self._waiting = self._waiting, ""
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one step added to a generation. `finish_reason` is set on the last."""

    text: str
    score: TokenScore
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    prompt_scores: list[TokenScore | None] | None = None
    """On the first, where they were asked for."""


@dataclass(slots=True, eq=False, kw_only=True)
class Generation:
    """One request as the worker sees it. The caller reads `events` until a `finish_reason` or an exception."""

    row: Row
    text: TextStream
    max_tokens: int
    stop_ids: frozenset[int]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    events: asyncio.Queue[Delta | Exception] = field(default_factory=asyncio.Queue[Delta | Exception])
    cancelled: bool = False
    """Set by the caller when nobody waits any more; the row leaves the batch before the next step."""
    produced: int = 0

    @property
    def length(self) -> int:
        """Tokens of the prompt and the reply so far."""
        return len(self.row.prompt) + self.produced


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded adapter: where it came from and its name inside the batch."""

    path: Path
    slot: str


class Worker:
    """Owns the decoder and its thread. Its public methods may be called from the event loop."""

    def __init__(self, decoder: BatchDecoder, tokenizer: Any, *, max_batch: int, max_cells: int = MAX_CELLS) -> None:
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._max_batch = max_batch
        self._max_cells = max_cells
        self._inbox: queue.SimpleQueue[Generation | Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[Generation] = deque()
        self._running: dict[int, Generation] = {}
        self._retired: set[str] = set()
        self.generated_tokens = 0
        self.prompt_tokens = 0
        self._thread = threading.Thread(target=self._run, name="decoder", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the decoding thread runs."""
        return self._thread.is_alive()

    @property
    def running(self) -> int:
        """Rows now in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests not yet in the batch."""
        return len(self._waiting) + self._inbox.qsize()

    def submit(
        self,
        prompt: Sequence[int],
        params: SampleParams,
        *,
        slot: str,
        max_tokens: int,
        stop: Sequence[str],
        stop_ids: frozenset[int],
    ) -> Generation:
        """Queue one request. Call from the event loop that will read its events."""
        text = TextStream(self._tokenizer, stop)
        row = Row(prompt, slot, params)
        generation = Generation(row=row, text=text, max_tokens=max_tokens, stop_ids=stop_ids)
        self._inbox.put(generation)
        return generation

    async def load(self, path: Path) -> Adapter:
        """Load an adapter between two steps. Raises what the decoder raises when it does not fit."""
        return Adapter(path, await self._call(lambda: self._decoder.load_adapter(path)))

    def retire(self, adapter: Adapter) -> None:
        """Free an adapter as soon as no request uses it."""
        self._inbox.put(lambda: self._retired.add(adapter.slot))

    def close(self) -> None:
        """Stop the thread after the step it is in."""
        self._inbox.put(None)
        self._thread.join(timeout=10)

    async def _call(self, work: Callable[[], str]) -> str:
        done: Future[str] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 -- handed to the caller, who knows what to make of it
                done.set_exception(error)

        self._inbox.put(run)
        return await asyncio.wrap_future(done)

    def _run(self) -> None:
        while self._receive():
            try:
                self._step()
            except Exception as error:
                # One bad step must not end the service: its rows fail, the next ones are served.
                logger.exception("decoding_failed", rows=len(self._running))
                self._decoder.clear()
                self._send([(generation, error) for generation in self._running.values()])
                self._running.clear()

    def _receive(self) -> bool:
        """Take everything from the inbox, waiting only while there is nothing to decode; False means stop."""
        idle = not self._running and not self._waiting and not self._retired
        while True:
            try:
                item = self._inbox.get(block=idle)
            except queue.Empty:
                return True
            idle = False
            if item is None:
                return False
            if isinstance(item, Generation):
                self._waiting.append(item)
            else:
                item()

    def _step(self) -> None:
        gone = [generation for generation in self._running.values() if generation.cancelled]
        self._leave(gone)
        self._waiting = deque(generation for generation in self._waiting if not generation.cancelled)
        used = {generation.row.adapter for generation in [*self._running.values(), *self._waiting]}
        for slot in self._retired - used:
            self._decoder.unload_adapter(slot)
        self._retired &= used
        events = self._advance(self._decoder.rows, self._decoder.step())
        newcomers = self._next_waiting()
        if newcomers:
            self._running.update({id(generation.row): generation for generation in newcomers})
            rows = [generation.row for generation in newcomers]
            events += self._advance(rows, self._decoder.admit(rows))
        self._send(events)

    def _next_waiting(self) -> list[Generation]:
        taken: list[Generation] = []
        tokens, rows = 0, len(self._running)
        longest = max((generation.length for generation in self._running.values()), default=0)
        while self._waiting and rows < self._max_batch:
            tokens += len(self._waiting[0].row.prompt)
            longest, rows = max(longest, self._waiting[0].length), rows + 1
            if (taken and tokens > ADMIT_TOKENS) or (rows > 1 and rows * longest > self._max_cells):
                break
            taken.append(self._waiting.popleft())
        self.prompt_tokens += sum(len(generation.row.prompt) for generation in taken)
        return taken

    def _advance(self, rows: Sequence[Row], scores: Sequence[TokenScore]) -> list[tuple[Generation, Delta | Exception]]:
        """Turn one token per row into events, and let finished rows leave."""
        events: list[tuple[Generation, Delta | Exception]] = []
        finished: list[Generation] = []
        for row, score in zip(list(rows), scores, strict=True):
            generation = self._running[id(row)]
            delta = self._delta(generation, score)
            events.append((generation, delta))
            if delta.finish_reason:
                finished.append(generation)
        self.generated_tokens += len(scores)
        self._leave(finished)
        return events

    def _delta(self, generation: Generation, score: TokenScore) -> Delta:
        generation.produced += 1
        prompt_scores, generation.row.prompt_scores = generation.row.prompt_scores, None
        text, reason, stop_reason = "", None, None
        if score.id in generation.stop_ids:
            reason = "stop"
            stop_reason = None if score.id in self._decoder.eos_ids else score.id
        else:
            text = generation.text.push(score.id)
            if generation.text.stopped_by is not None:
                reason, stop_reason = "stop", generation.text.stopped_by
            elif generation.produced >= generation.max_tokens:
                reason = "length"
        if reason:
            text += generation.text.finish()
        return Delta(text=text, score=score, finish_reason=reason, stop_reason=stop_reason, prompt_scores=prompt_scores)

    def _leave(self, generations: Sequence[Generation]) -> None:
        self._decoder.drop([generation.row for generation in generations])
        for generation in generations:
            del self._running[id(generation.row)]

    def _send(self, events: Sequence[tuple[Generation, Delta | Exception]]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Generation, Delta | Exception]]] = {}
        for generation, event in events:
            by_loop.setdefault(generation.loop, []).append((generation, event))
        for loop, batch in by_loop.items():
            try:
                loop.call_soon_threadsafe(_deliver, batch)
            except RuntimeError:
                # The loop is closed: nobody reads any more.
                for generation, _ in batch:
                    generation.cancelled = True


def _deliver(events: Sequence[tuple[Generation, Delta | Exception]]) -> None:
    for generation, event in events:
        generation.events.put_nowait(event)
