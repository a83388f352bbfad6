"""From sessions to tried hints: what the tail has stored is read, signals are found, hints written and tried."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from daemon.config import Settings
from daemon.engine import EngineClient
from daemon.logs import get_logger
from daemon.metrics import Metrics
from daemon.serving import Serving
from daemon.store import SessionRow, Store
from harness_adapters.errors import EngineError, RenderError, StoreUnavailableError
from harness_adapters.exchange import Exchange
from harness_adapters.prompt import prompt_of
from harness_adapters.stitch import trace_of
from harness_adapters.trace import Trace
from hinting.detect import detect
from hinting.graders import Grader
from hinting.hint import Hint, HintState
from hinting.judge import Cast, Decided, Judge, unteachable
from hinting.model import Sampling
from hinting.screen import screen
from hinting.signal import GIVEN, Signal
from hinting.together import together
from hinting.verify import try_hints
from hinting.write import propose

AT_ONCE = 64
"""Sessions or signals taken up in one pass."""

MOST_TRIES = 20
"""Failures of the engine on one signal after which it gives way to later ones."""

logger = get_logger(__name__)


class Lessons:
    """Finds what there is to learn. A session or signal that cannot be read is put aside and never blocks the next."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        engine: EngineClient,
        serving: Serving,
        *,
        graders: list[Grader],
        metrics: Metrics,
        judge: Judge | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._serving = serving
        self._graders = graders
        self._metrics = metrics
        self._judge = judge
        self._failed: Counter[str] = Counter()
        """How often an engine that was there failed on a signal's trials."""

    async def read_sessions(self) -> bool:
        """Read sessions that have changed into traces and signals; return whether there were any."""
        sessions = await asyncio.to_thread(self._store.dirty_sessions, AT_ONCE)
        for session in sessions:
            try:
                await asyncio.to_thread(self._read, session)
            except StoreUnavailableError:
                raise
            except Exception as error:
                # One session nobody foresaw must not keep all later ones from being read.
                logger.exception("session_unreadable", session=session.id)
                await asyncio.to_thread(self._put_aside, session, f"{type(error).__name__}: {error}")
        return bool(sessions)

    def _read(self, session: SessionRow) -> None:
        exchanges = self._store.exchanges_of(session.id)
        trace = self._trace_of(session, exchanges)
        responses = [t.response_id for t in trace.turns if t.response_id]
        found = detect(trace, self._store.feedback_for(responses, trace.tenant))
        self._store.put_trace(trace)
        new = self._store.put_signals(self._store.as_judged(found))
        if not exchanges:
            self._store.retire(trace.id, [signal.id for signal in found])
        self._store.mark_read(session.id, session.revision)
        self._metrics.stages.labels("trace", "read").inc()
        for signal in new:
            self._metrics.stages.labels("signal", signal.kind.value).inc()
            logger.info("signal_found", signal=signal.id, kind=signal.kind.value, trace=trace.id, target=signal.target)

    def _trace_of(self, session: SessionRow, exchanges: Sequence[Exchange]) -> Trace:
        if not exchanges and (recorded := self._store.trace(session.id)):
            return recorded
        return trace_of(session.id, session.root, exchanges, self._store.user_of(session.root))

    def _put_aside(self, session: SessionRow, reason: str) -> None:
        self._store.put_dead_letter(f"session {session.id}", reason, session.id.encode())
        self._store.mark_read(session.id, session.revision)

    async def write_hints(self) -> bool:
        """Write, screen and try hints for new signals, the oldest first; return whether any was settled."""
        signals = await asyncio.to_thread(self._store.oldest_signals, "new", AT_ONCE)
        slots = asyncio.Semaphore(self._settings.hints.max_concurrency)

        async def one(signal: Signal) -> bool:
            async with slots:
                return await self._settle(signal)

        return any(await together(one(signal) for signal in signals))

    async def _settle(self, signal: Signal) -> bool:
        """Bring one signal to an end; False leaves it for the next pass."""
        try:
            state, reason = await self._hint(signal)
        except StoreUnavailableError as error:
            logger.warning("trial_postponed", signal=signal.id, reason=str(error))
            return False
        except EngineError as error:
            logger.warning("trial_postponed", signal=signal.id, reason=str(error))
            # An engine that is away says nothing of the signal. One that answers and fails, again and again, does.
            self._failed[signal.id] += not error.passing
            if self._failed[signal.id] < MOST_TRIES:
                return False
            state, reason = "set_aside", f"the engine failed {MOST_TRIES} times on it, at last with: {error}"
        except Exception as error:
            # As with sessions: one signal nobody foresaw must not be tried for ever.
            logger.exception("signal_unreadable", signal=signal.id)
            state, reason = "set_aside", f"could not be worked on: {type(error).__name__}: {error}"
        await asyncio.to_thread(self._store.set_signal_state, signal.id, state, reason)
        return True

    async def _judged(self, trace: Trace, signal: Signal) -> tuple[Signal, str]:
        """Return a signal as judged, and why it is refuted, if it is. What was judged once is not judged again."""
        known = await asyncio.to_thread(self._store.judged, signal.id)
        if known is not None or self._judge is None or signal.kind in GIVEN:  # what a person gave needs no vote
            return signal, known.refuted if known else ""
        judged = await self._judge.judge(trace, signal)
        self._metrics.stages.labels("judgement", judged.decided.value).inc()
        if judged.decided is Decided.UNASKED:
            logger.info("signal_unjudged", signal=signal.id, reason=judged.reason)
            return signal, ""
        for vote in judged.votes:
            self._metrics.judge_votes.labels(vote.cast.value).inc()
            if vote.cast in (Cast.FAILED, Cast.TIMED_OUT):
                logger.warning("vote_missing", signal=signal.id, reason=vote.reason)
        await asyncio.to_thread(self._store.put_judged, judged)
        logger.info("signal_judged", signal=signal.id, decided=judged.decided.value, prompt=judged.prompt)
        return judged.signal, judged.refuted

    async def _hint(self, signal: Signal) -> tuple[str, str]:
        """Return what became of a signal and why. Raises EngineError while the engine is away."""
        store, settings = self._store, self._settings.hints
        trace = await asyncio.to_thread(store.trace, signal.trace_id)
        if trace is None:
            return "set_aside", "its trace is gone"
        if reason := unteachable(signal, settings.min_confidence):
            return "set_aside", reason  # no vote could make it teach
        signal, refuted = await self._judged(trace, signal)
        if reason := refuted or unteachable(signal, settings.min_confidence):
            return "set_aside", reason
        candidates, refused = screened(trace, signal)
        exchange_id = trace.turns[signal.target].exchange_id
        exchange = await asyncio.to_thread(store.exchange, exchange_id) if exchange_id else None
        if exchange is not None and exchange.tenant != trace.tenant:
            exchange = None  # a recorded session may name any exchange
        try:
            prompt = prompt_of(trace, signal.target, exchange)
        except RenderError as error:
            return "set_aside", str(error)
        tried = await try_hints(
            trace,
            candidates,
            self._engine.for_model(self._serving.current()),
            self._graders,
            signal=signal,
            prompt=prompt,
            sampling=Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens),
            rollouts=settings.rollouts,
            max_concurrency=settings.rollouts,
            threshold=settings.threshold,
            stop_at_full=True,
        )
        for hint in (*tried, *refused):
            await asyncio.to_thread(store.put_hint, hint)
            self._metrics.stages.labels("hint", hint.state.value).inc()
        passed = any(hint.state is HintState.PASSED for hint in tried)
        logger.info("hints_tried", signal=signal.id, tried=len(tried), passed=passed, screened_out=len(refused))
        return ("hinted", "") if passed else ("set_aside", "no hint passed its trials")


def screened(trace: Trace, signal: Signal) -> tuple[list[Hint], list[Hint]]:
    """Return the candidate hints for a signal: those that may be tried, and those a screen rejected, with its code."""
    candidates: list[Hint] = []
    refused: list[Hint] = []
    for hint in propose(trace, signal):
        code = screen(hint, trace, signal)
        if code is None:
            candidates.append(hint)
        else:
            refused.append(hint.tried((), HintState.REJECTED, code))
    return candidates, refused
