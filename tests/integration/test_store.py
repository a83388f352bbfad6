"""The store over SQLite and PostgreSQL: the same tests for both."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from postgres import Postgres, running_postgres

from daemon.store import AdapterRow, Alias, Ingested, RoundRow, Store
from harness_adapters.errors import AliasMovedError, ConfigError, StoreError, StoreUnavailableError
from harness_adapters.exchange import Exchange, Feedback, Sampled, Status
from harness_adapters.trace import Author, Outcome, ToolCall, Trace, Turn
from hinting.hint import HintSource, HintState, Trial, new_hint
from hinting.judge import Cast, Decided, Vote, decide
from hinting.signal import Fault, Signal, SignalKind
from learner.config import SampleSpec


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'deep' / 'store.sqlite'}"
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(Store(url)) as opened:
        yield opened


def exchange(number: int, **given: Any) -> Exchange:
    made = Exchange(
        id=f"ex-{number}",
        endpoint="/v1/chat/completions",
        model="agent",
        tenant="t",
        route_key="r",
        sequence=number,
        status=Status.OK,
        started_at=float(number),
        request={"messages": [{"role": "user", "content": "zażółć \x00 \U0001f511"}]},
        response={"id": f"resp-{number}", "choices": []},
        sampled=Sampled(prompt_ids=(1, 2), completion_ids=(3,), logprobs=(-0.25,)),
        user="u",
    )
    return replace(made, **given)


def ingested(number: int, session: str = "s", keys: tuple[str, ...] = (), **given: Any) -> Ingested:
    return Ingested(exchange(number, **given), session, "root", keys)


TRACE = Trace(
    id="s",
    harness="openai_chat",
    tenant="t",
    root="root",
    user="u",
    tools=({"type": "function", "function": {"name": "f"}},),
    turns=(
        Turn(index=0, author=Author.HUMAN, text="hi", message={"role": "user", "content": "hi"}),
        Turn(
            index=1,
            author=Author.AGENT,
            text="",
            message={"role": "assistant", "content": None},
            tool_calls=(ToolCall(id="c", name="f", arguments="{not json"),),
            outcome=Outcome.UNKNOWN,
        ),
    ),
)
SIGNAL = Signal(
    id="sig-1",
    trace_id="s",
    kind=SignalKind.USER_CORRECTION,
    target=1,
    shown_by=2,
    fix=None,
    fault=Fault.AGENT,
    confidence=0.75,
    evidence="no, shorter",
)


def test_an_exchange_is_stored_once_and_comes_back_whole(store: Store) -> None:
    entries = [ingested(n) for n in range(5)]
    assert store.ingest(entries) == 5
    assert store.ingest([*entries, ingested(5)]) == 1
    assert store.ingest([ingested(6), ingested(6, session="elsewhere")]) in (1, 2)
    assert store.exchanges_of("s")[:6] == [exchange(n) for n in range(6)]
    assert store.exchange("ex-3") == exchange(3)
    assert store.exchange("none") is None
    assert store.known_exchanges(["ex-1", "none"]) == {"ex-1"}
    assert store.known_exchanges([]) == set()
    assert store.ingest([]) == 0


def test_exchanges_of_a_session_follow_the_sequence_not_their_arrival(store: Store) -> None:
    store.ingest([ingested(n) for n in (4, 1, 3)])
    store.ingest([ingested(2)])
    assert [e.sequence for e in store.exchanges_of("s")] == [1, 2, 3, 4]


def test_a_refused_exchange_takes_its_whole_transaction_along(store: Store) -> None:
    with pytest.raises((StoreError, OverflowError)):
        store.ingest([ingested(1), ingested(2, sequence=2**80)])
    assert store.counts()["exchanges"] == 0
    assert store.counts()["sessions"] == 0


def test_keys_name_their_session_and_the_last_claim_counts(store: Store) -> None:
    store.ingest([ingested(1, "a", ("short", "long")), ingested(2, "b", ("short",))])
    assert store.sessions_of(["unknown", "long", "short"]) == {"long": "a", "short": "b"}
    assert store.sessions_of(["unknown"]) == store.sessions_of([]) == {}
    store.ingest([ingested(1, "c", ("long",))])
    assert store.sessions_of(["long"]) == {"long": "a"}
    # More than one statement may have parameters.
    assert store.sessions_of([*(f"k{n}" for n in range(260_000)), "long"]) == {"long": "a"}


def test_a_session_tells_its_root_and_who_opened_it(store: Store) -> None:
    store.ingest([ingested(1, "a")])
    assert (store.root_of("a"), store.user_of("a")) == ("root", "u")
    assert (store.root_of("none"), store.user_of("none")) == (None, None)


def test_sessions_are_dirty_until_they_were_read_as_they_are(store: Store) -> None:
    store.ingest([ingested(1, "a"), ingested(2, "b")])
    a, b = store.dirty_sessions(10)
    assert (a.id, a.root, a.user, a.tenant, b.id) == ("a", "root", "u", "t", "b")
    assert len(store.dirty_sessions(1)) == 1
    store.ingest([ingested(3, "a")])
    store.mark_read("a", a.revision)
    store.mark_read("b", b.revision)
    (again,) = store.dirty_sessions(10)
    assert again.id == "a"
    assert again.revision > a.revision
    store.mark_read("a", again.revision)
    store.mark_read("a", a.revision)
    assert store.dirty_sessions(10) == []
    store.ingest([ingested(3, "a")])
    assert store.dirty_sessions(10) == []


def test_feedback_marks_the_session_of_its_response(store: Store) -> None:
    store.ingest([ingested(1, "a"), ingested(2, "b")])
    for row in store.dirty_sessions(10):
        store.mark_read(row.id, row.revision)
    said = Feedback(id="fb-1", response_id="resp-2", tenant="t", created_at=1.0, rating=-1.0, comment="too long")
    assert store.put_feedback(said)
    assert not store.put_feedback(said)
    assert store.put_feedback(replace(said, id="fb-2", response_id="unknown"))
    assert [row.id for row in store.dirty_sessions(10)] == ["b"]
    assert store.feedback_for(["resp-1", "resp-2"], "t") == [said]
    assert store.feedback_for([], "t") == []


def test_feedback_of_another_tenant_changes_nothing(store: Store) -> None:
    store.ingest([ingested(1, "a")])
    (row,) = store.dirty_sessions(10)
    store.mark_read(row.id, row.revision)
    assert store.put_feedback(Feedback(id="fb-1", response_id="resp-1", tenant="other", created_at=1.0, rating=-1.0))
    assert store.dirty_sessions(10) == []
    assert store.feedback_for(["resp-1"], "t") == []


def test_traces_grow_and_are_paged_newest_first(store: Store) -> None:
    assert store.trace("s") is None
    for n in range(5):
        store.put_trace(replace(TRACE, id=f"s{n}"))
    longer = replace(TRACE, id="s1", turns=(*TRACE.turns, TRACE.turns[0]))
    store.put_trace(longer)
    assert store.trace("s1") == longer
    assert [t.id for t in store.traces(3)] == ["s4", "s3", "s2"]
    assert [t.id for t in store.traces(3, after="s2")] == ["s1", "s0"]
    assert store.traces(3, after="unknown") == []


def test_lists_of_traces_read_no_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        store.put_trace(replace(TRACE, id=f"s{n}", complete=n != 1))
    store.put_recorded(replace(TRACE, id="s3", harness="atif"))
    told = [(row.id, row.harness, row.tenant, row.turns, row.complete) for row in store.trace_rows(2)]
    assert told == [("s3", "atif", "t", 2, True), ("s2", "openai_chat", "t", 2, True)]
    assert [(row.id, row.complete) for row in store.trace_rows(5, after="s2")] == [("s1", False), ("s0", True)]


def test_a_recorded_session_is_replaced_by_a_longer_or_another_and_by_no_shorter(store: Store) -> None:
    other = replace(TRACE, turns=(replace(TRACE.turns[0], text="ho"), TRACE.turns[1]))
    longer = replace(TRACE, turns=(*TRACE.turns, replace(TRACE.turns[0], index=2)))
    steps = [(TRACE, True), (TRACE, False), (other, True), (other, False), (longer, True), (other, False)]
    revisions: list[int] = []
    for trace, is_new in steps:
        assert store.put_recorded(trace) is is_new
        revisions += [row.revision for row in store.dirty_sessions(9)]
    assert store.trace("s") == longer
    assert revisions == [1, 1, 2, 2, 3, 3]
    with pytest.raises(StoreError, match="another tenant's"):
        store.put_recorded(replace(longer, tenant="u"))


def test_a_store_of_an_older_version_is_given_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(Store(f"sqlite:///{path}")) as store:
        store.put_trace(TRACE)
    with closing(sqlite3.connect(path)) as db, db:
        for column in ("harness", "tenant", "turns", "complete"):
            db.execute(f"ALTER TABLE traces DROP COLUMN {column}")
    with closing(Store(f"sqlite:///{path}")) as store:
        (row,) = store.trace_rows(9)
        assert (row.harness, row.tenant, row.turns, row.complete) == ("openai_chat", "t", 2, True)
        assert not store.put_recorded(replace(TRACE, turns=TRACE.turns[:1]))
        assert store.trace("s") == TRACE


def test_signals_that_a_session_does_not_show_any_more_are_set_aside_with_their_hints(store: Store) -> None:
    signals = [replace(SIGNAL, id=f"sig-{n}", target=n) for n in range(3)]
    store.put_signals([*signals, replace(SIGNAL, id="other", trace_id="elsewhere")])
    store.set_signal_state("sig-1", "hinted")
    hints = [new_hint(signal, "Be brief.", HintSource.RULE, "length") for signal in signals]
    for hint in hints:
        store.put_hint(hint.tried((), HintState.PASSED))
    assert store.retire("s", ["sig-2"]) == 2
    assert store.retire("s", ["sig-2"]) == 0
    assert {row.signal.id: row.state for row in store.signal_rows()} == {
        "sig-0": "set_aside",
        "sig-1": "set_aside",
        "sig-2": "new",
        "other": "new",
    }
    assert [store.hint(hint.id).state for hint in hints] == [  # type: ignore[union-attr]
        HintState.REJECTED,
        HintState.REJECTED,
        HintState.PASSED,
    ]


def test_signals_are_new_once_and_keep_what_became_of_them(store: Store) -> None:
    other = replace(SIGNAL, id="sig-2")
    assert store.put_signals([SIGNAL, other]) == [SIGNAL, other]
    store.set_signal_state("sig-1", "hinted")
    store.set_signal_state("sig-2", "set_aside", "fault is environment")
    mended = replace(SIGNAL, fix=3, confidence=0.9)
    assert store.put_signals([mended]) == []
    assert store.signals() == [other, mended]
    assert store.signals("hinted", 10) == [mended]
    assert store.signals("new") == []
    (row,) = store.signal_rows("set_aside")
    assert (row.signal, row.state, row.reason) == (other, "set_aside", "fault is environment")
    with pytest.raises(StoreError, match="no signal unknown"):
        store.set_signal_state("unknown", "hinted")
    with pytest.raises(StoreError, match="cannot be 'odd'"):
        store.set_signal_state("sig-1", "odd")


def test_what_a_judge_said_stays_with_its_signal(store: Store) -> None:
    others = [replace(SIGNAL, id=f"sig-{number}") for number in (2, 3)]
    store.put_signals([SIGNAL, *others])
    assert store.as_judged([SIGNAL]) == [SIGNAL]
    wrong = Vote(cast=Cast.WRONG, fault=Fault.ENVIRONMENT, reason="naïve 北京")
    judged, left_open = decide(SIGNAL, [wrong, wrong]), decide(others[0], [wrong, Vote(cast=Cast.FAILED)])
    assert (judged.decided, left_open.decided) == (Decided.WRONG, Decided.OPEN)
    for each in (judged, left_open):
        store.put_judged(each)
        assert store.judged(each.signal.id) == each
    assert store.judged("sig-3") is None
    assert [(row.signal, row.judged) for row in store.signal_rows()] == [
        (others[1], None),
        (others[0], left_open),
        (judged.signal, judged),
    ]
    found_again = [replace(signal, fix=3, confidence=0.25) for signal in (SIGNAL, *others)]
    assert store.as_judged(found_again) == [replace(judged.signal, fix=3), *found_again[1:]]
    cleared = replace(found_again[0], fault=Fault.USER)  # by what was said since
    assert store.as_judged([cleared]) == [replace(cleared, confidence=judged.signal.confidence)]
    with pytest.raises(StoreError):
        store.put_judged(decide(replace(SIGNAL, id="unknown"), [wrong]))


def test_hints_are_replaced_by_what_their_trials_made_of_them(store: Store) -> None:
    hint = new_hint(SIGNAL, "Keep it to one sentence.", HintSource.RULE, "length")
    store.put_hint(hint)
    trial = Trial(hinted=True, seed=1, reply="ok", passed=None, grader="g")
    tried = hint.tried((trial, replace(trial, passed=True)), HintState.PASSED)
    store.put_hint(tried)
    store.put_hint(replace(hint, id="other"))
    assert store.hint(hint.id) == tried
    assert store.hint("none") is None
    assert store.hints("passed") == [tried]
    assert [h.id for h in store.hints(limit=10)] == ["other", hint.id]


def round_row(name: str, state: str = "running") -> RoundRow:
    return RoundRow(name, state, None, f"/rounds/{name}", 12.5, {"samples": {"offline": 1}})


def spec(name: str, hint: str | None) -> SampleSpec:
    return SampleSpec(
        id=name, mode="offline", split="train", session_id="s", turn=1, hint_id=hint, messages=({"role": "user"},)
    )


def test_rounds_move_on_and_keep_what_was_said_of_them(store: Store) -> None:
    store.open_round(round_row("round-1"), [])
    store.open_round(round_row("round-2"), [])
    store.set_round_state("round-1", "published", {"reason": ""})
    store.set_round_state("round-1", "promoted", {"reason": "gain", "candidate": "agent@v1"})
    row = store.round("round-1")
    assert row == replace(
        round_row("round-1", "promoted"),
        body={"samples": {"offline": 1}, "reason": "gain", "candidate": "agent@v1"},
    )
    assert [r.id for r in store.rounds()] == ["round-1", "round-2"]
    assert store.round("none") is None
    with pytest.raises(StoreError, match="no round none"):
        store.set_round_state("none", "failed")
    with pytest.raises(StoreError, match="a round cannot be 'odd'"):
        store.set_round_state("round-1", "odd")


def test_hints_go_by_their_round(store: Store) -> None:
    specs = [spec("a", "hint-1"), spec("b", "hint-2"), spec("c", None)]
    store.open_round(round_row("round-1"), specs)
    store.open_round(round_row("round-1"), specs)
    store.open_round(round_row("round-2"), [spec("a", "hint-3")])
    assert store.samples("round-1") == specs
    assert store.used_hints({"round-1", "round-2"}) == {"hint-1", "hint-2", "hint-3"}
    assert store.used_hints({"round-2", "round-9"}) == {"hint-3"}
    assert store.used_hints(set()) == set()


def test_verdicts_and_adapters(store: Store) -> None:
    store.open_round(round_row("round-1"), [])
    store.put_verdict("ckpt-1", "round-1", "agent@v1", "hold", {"figures": [1.5]})
    store.put_verdict("ckpt-1", "round-1", "agent@v1", "promote", {"figures": [2.5], "reasons": []})
    (verdict,) = store.verdicts()
    assert (verdict.checkpoint_id, verdict.version) == ("ckpt-1", "agent@v1")
    assert (verdict.round_id, verdict.decision) == ("round-1", "promote")
    assert verdict.body == {"figures": [2.5], "reasons": []}
    second, first = adapter(2), replace(adapter(1), round_id=None)
    for row in (second, replace(first, path="/elsewhere"), first):
        store.put_adapter(row)
    assert store.adapters() == [first, second]
    store.set_adapter_state("agent@v2", "refused")
    assert states(store) == ["candidate", "refused"]
    for refused in (lambda: store.set_adapter_state("agent@v2", "odd"), lambda: store.put_adapter(adapter(3, "odd"))):
        with pytest.raises(StoreError, match="cannot be 'odd'"):
            refused()
    assert states(store) == ["candidate", "refused"]


def adapter(number: int, state: str = "candidate") -> AdapterRow:
    return AdapterRow(f"agent@v{number}", number, f"ckpt-{number}", f"/a/{number}", "round-1", state, float(number))


def states(store: Store) -> list[str]:
    return [row.state for row in store.adapters()]


def test_a_flip_says_of_every_version_what_became_of_it(store: Store) -> None:
    for number in range(1, 4):
        store.put_adapter(adapter(number))
    flips: list[tuple[str | None, list[str]]] = [
        ("agent@v1", ["serving", "candidate", "candidate"]),
        ("agent@v2", ["previous", "serving", "candidate"]),
        ("agent@v1", ["serving", "previous", "candidate"]),
        ("agent@v3", ["previous", "retired", "serving"]),
        (None, ["retired", "retired", "previous"]),
        (None, ["retired", "retired", "retired"]),
        ("agent@v1", ["serving", "retired", "retired"]),
    ]
    for generation, (to, expected) in enumerate(flips):
        store.flip("agent", to, generation)
        assert states(store) == expected
        with pytest.raises(AliasMovedError):
            store.flip("agent", "agent@v2", generation)
        assert states(store) == expected


def test_only_a_flip_changes_the_state_of_what_the_alias_names(store: Store) -> None:
    for number in (1, 2):
        store.put_adapter(adapter(number))
        store.flip("agent", f"agent@v{number}", number - 1)
    for version in ("agent@v1", "agent@v2"):
        store.set_adapter_state(version, "retired")
    assert states(store) == ["previous", "serving"]
    with pytest.raises(StoreError, match="cannot be 'serving'; it is one of candidate, refused, retired"):
        store.set_adapter_state("agent@v1", "serving")


def test_the_alias_flips_only_from_where_one_looked(store: Store) -> None:
    assert store.alias("agent") == Alias("agent", 0, None, None)
    assert store.flip("agent", "agent@v1", 0) == Alias("agent", 1, "agent@v1", None)
    assert store.flip("agent", "agent@v2", 1) == Alias("agent", 2, "agent@v2", "agent@v1")
    for stale in (0, 1, 3):
        with pytest.raises(AliasMovedError, match=f"generation 2, not {stale}: it was flipped to agent@v2"):
            store.flip("agent", "agent@v3", stale)
    assert store.flip("agent", "agent@v1", 2) == store.alias("agent") == Alias("agent", 3, "agent@v1", "agent@v2")
    assert store.flip("agent", None, 3).current is None
    assert store.flip("other", "x", 0).generation == 1


def test_of_many_who_flip_at_once_exactly_one_does(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    together = threading.Barrier(8)

    def attempt(generation: int, number: int) -> bool:
        together.wait(30)
        try:
            stores[number % 4].flip("agent", f"agent@v{number}", generation)
        except AliasMovedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for generation in range(3):
            assert sum(pool.map(partial(attempt, generation), range(8))) == 1
    assert stores[0].alias("agent").generation == 3
    for store in stores:
        store.close()


def test_threads_and_processes_ingest_the_same_at_once(url: str) -> None:
    stores = [Store(url) for _ in range(2)]

    def work(worker: int) -> int:
        return sum(stores[worker % 2].ingest([ingested(n, f"s{n % 3}", (f"k{n % 5}",))]) for n in range(40))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 40
    assert stores[0].counts()["exchanges"] == 40
    assert sum(row.revision for row in stores[1].dirty_sessions(10)) == 40
    for store in stores:
        store.close()


def test_dead_letters_keep_the_original_bytes_once(store: Store) -> None:
    for _ in range(2):
        store.put_dead_letter("partition 0, offset 7", "not JSON", b"\xff\x00{")
    store.put_dead_letter("partition 0, offset 7", "not JSON", b"other")
    assert [(d.place, d.reason, d.raw) for d in store.dead_letters(10)] == [
        ("partition 0, offset 7", "not JSON", b"other"),
        ("partition 0, offset 7", "not JSON", b"\xff\x00{"),
    ]


def test_counts_by_noun_and_state(store: Store) -> None:
    store.ingest([ingested(1), ingested(2, status=Status.ABANDONED)])
    store.put_signals([SIGNAL])
    counts = store.counts()
    assert counts["exchanges"] == 2
    assert counts["exchanges/ok"] == counts["exchanges/abandoned"] == counts["signals/new"] == counts["sessions"] == 1
    assert counts["hints"] == 0
    assert "hints/passed" not in counts


def test_everything_is_there_after_a_restart(url: str) -> None:
    with closing(Store(url)) as store:
        store.ingest([ingested(1, keys=("k",))])
        store.flip("agent", "agent@v1", 0)
    with closing(Store(url)) as store:
        assert store.exchange("ex-1") == exchange(1)
        assert store.sessions_of(["k"]) == {"k": "s"}
        assert store.alias("agent").current == "agent@v1"


def test_a_locked_sqlite_store_says_so_and_recovers(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with closing(Store(f"sqlite:///{path}", busy_timeout_s=0.1)) as store:
        store.ingest([ingested(1)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked"):
                store.ingest([ingested(2)])
            assert store.exchange("ex-1") is not None
        assert store.ingest([ingested(2)]) == 1


def test_a_postgres_that_goes_and_comes_back(postgres: Postgres) -> None:
    with closing(Store(postgres.new_database(), busy_timeout_s=2)) as store:
        store.ingest([ingested(1)])
        postgres.stop()
        try:
            with pytest.raises(StoreUnavailableError, match="check that the database runs"):
                store.ingest([ingested(2)])
            with pytest.raises(StoreUnavailableError):
                store.counts()
        finally:
            postgres.start()
        assert store.ingest([ingested(1), ingested(2)]) == 1


@pytest.mark.parametrize("url", ["mysql://host/name", "nonsense", "sqlite://"])
def test_other_urls_are_refused_with_what_would_do(url: str) -> None:
    with pytest.raises(ConfigError, match="give sqlite:///FILE or postgresql://"):
        Store(url)


def test_no_password_stands_in_an_error() -> None:
    with (
        closing(Store("postgresql://me:hush@127.0.0.1:1/none", busy_timeout_s=1)) as store,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        store.counts()
    assert "hush" not in str(caught.value)
