import random
from typing import Any

import pytest
from exchange_sessions import MemoryLookup, traces_of
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_adapters.exchange import Exchange, Status
from harness_adapters.history import answer_key, history_keys
from harness_adapters.sessions import Assignment, assign, explicit_session, route_key
from harness_adapters.stitch import order, trace_of
from harness_adapters.trace import Author, Outcome

ON_ITS_WAY = "On its way. It left on Monday."
Messages = list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str | None, *calls: tuple[str, str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": a}} for i, a in calls
        ]
    return message


def exchange(at: int, messages: Messages, answer: dict[str, Any] | None, **changes: Any) -> Exchange:
    response = {"id": f"resp{at}", "choices": [{"index": 0, "message": answer}]} if answer else None
    members: dict[str, Any] = {
        "id": f"ex{at}",
        "endpoint": "/v1/chat/completions",
        "model": "m",
        "tenant": "t",
        "route_key": "r",
        "sequence": at,
        "status": Status.OK if answer else Status.UPSTREAM_ERROR,
        "started_at": 0.0,
        "request": {"model": "m", "messages": messages},
        "response": response,
        "version": f"a@v{at}",
    }
    return Exchange(**{**members, **changes})


def talk(name: str, rounds: int, first: int = 0) -> list[Exchange]:
    """One session of a client that repeats the history."""
    messages: Messages = [{"role": "system", "content": "be kind"}]
    made: list[Exchange] = []
    for at in range(rounds):
        messages = [*messages, user(f"{name} asks {at}")]
        made.append(exchange(first + at, messages, agent(f"{name} hears {at}")))
        messages = [*messages, agent(f"{name} hears {at}")]
    return made


def assigned(exchanges: list[Exchange]) -> list[Assignment]:
    lookup, found = MemoryLookup(), list[Assignment]()
    for item in exchanges:
        found.append(assign(item, lookup))
        lookup.remember(found[-1])
    return found


def sessions_of(exchanges: list[Exchange]) -> list[str]:
    return [assignment.session_id for assignment in assigned(exchanges)]


HEADERS = [
    ({"X-LiteLLM-Trace-Id": "a", "x-session-id": "b"}, {}, "a"),
    ({"x-litellm-session-id": "a", "x-claude-code-session-id": "c" * 8}, {}, "a"),
    ({"x-claude-code-session-id": "12345678", "session_id": "z"}, {}, "12345678"),
    ({"x-claude-code-session-id": "short", "conversation_id": "z"}, {}, "z"),
    ({"thread-id": "t", "x-session-id": "s"}, {}, "t"),
    ({"x-session-id": " s "}, {"metadata": {"session_id": "m"}}, "s"),
    ({"x-parent-session-id": "12345678"}, {}, None),
    ({}, {"metadata": {"session_id": "m", "user_id": "user_a_session_12345678"}}, "m"),
    ({}, {"metadata": {"user_id": "user_1_account_2_session_0a1b2c3d-1"}}, "0a1b2c3d-1"),
    ({}, {"metadata": {"user_id": '{"device_id": "d", "session_id": "s9"}'}}, "s9"),
    ({}, {"metadata": {"user_id": "somebody"}}, None),
    ({}, {"metadata": "x"}, None),
    ({}, {}, None),
]


@pytest.mark.parametrize(("headers", "body", "session"), HEADERS)
def test_the_session_a_client_names(headers: dict[str, str], body: dict[str, Any], session: str | None) -> None:
    assert explicit_session(headers, body) == session


ECHOES = [
    (agent("hi"), {"content": "hi", "role": "assistant"}),
    (agent("hi"), {**agent("hi"), "refusal": None, "annotations": [], "reasoning_content": "hm"}),
    (agent("\n\nhi"), agent("hi")),
    (agent("hi"), {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}),
    (agent("hi"), agent("<think>\nhm\n</think>\n\nhi")),
    (agent(None, ("c", "{}")), {"role": "assistant", "tool_calls": agent(None, ("c", "{}"))["tool_calls"]}),
    (agent(None, ("c", "{}")), agent("", ("c", "{}"))),
]


@pytest.mark.parametrize(("answered", "echoed"), ECHOES)
def test_an_answer_is_found_again_however_it_is_echoed(answered: dict[str, Any], echoed: dict[str, Any]) -> None:
    key = answer_key("t", {"messages": [user("a")], "model": "x"}, {"choices": [{"message": answered}]})
    assert key == history_keys("t", {"messages": [user("a"), echoed, user("b")], "model": "y"})[1]


@pytest.mark.parametrize(
    "other",
    [agent("ho"), agent("hi", ("c", "{}")), user("hi"), agent("hi", ("c", '{"a":1}')), agent("hi", ("d", "{}"))],
)
def test_another_message_is_another_history(other: dict[str, Any]) -> None:
    keys = [history_keys("t", {"messages": [m]})[0] for m in (agent("hi"), other)]
    assert keys[0] != keys[1]


def test_histories_of_tenants_and_users_are_apart_and_the_time_of_day_is_not() -> None:
    request = {"messages": [{"role": "system", "content": "It is 12:03:22"}, user("hi")]}
    later = {"messages": [{"role": "system", "content": "It is 12:04:59"}, user("hi")]}
    assert history_keys("t", request) == history_keys("t", later)
    assert history_keys("t", request)[0] != history_keys("u", request)[0]
    assert history_keys("t", request)[0] != history_keys("t", {**request, "user": "ann"})[0]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_interleaved_sessions_are_taken_apart(lengths: list[int], rng: random.Random) -> None:
    queues = [talk(f"s{n}", rounds, first=100 * n) for n, rounds in enumerate(lengths)]
    mixed: list[Exchange] = []
    while left := [q for q in queues if q]:
        mixed.append(rng.choice(left).pop(0))
    found = dict(zip([e.id for e in mixed], sessions_of(mixed), strict=True))
    groups = [{found[e.id] for e in talk(f"s{n}", rounds, 100 * n)} for n, rounds in enumerate(lengths)]
    assert all(len(group) == 1 for group in groups)
    assert len(set.union(*groups)) == len(lengths)


@given(st.permutations(talk("a", 5)))
def test_order_and_trace_do_not_depend_on_arrival(arrived: list[Exchange]) -> None:
    assert [e.id for e in order(arrived)] == [f"ex{n}" for n in range(5)]
    assert trace_of("s", "s", arrived) == trace_of("s", "s", talk("a", 5))


@given(st.permutations(talk("a", 4)))
def test_history_orders_before_sequence(arrived: list[Exchange]) -> None:
    turned = [exchange(9 - e.sequence, list(e.request["messages"]), agent(f"a hears {e.sequence}")) for e in arrived]
    assert [len(e.request["messages"]) for e in order(turned)] == [2, 4, 6, 8]


def test_a_trace_has_every_turn_once_with_what_sampled_it() -> None:
    trace = trace_of("s", "root", talk("a", 3))
    assert [t.text for t in trace.turns if t.author is Author.HUMAN] == ["a asks 0", "a asks 1", "a asks 2"]
    agents = [t for t in trace.turns if t.author is Author.AGENT]
    assert [(t.exchange_id, t.response_id, t.version) for t in agents] == [
        (f"ex{n}", f"resp{n}", f"a@v{n}") for n in range(3)
    ]
    assert [t.index for t in trace.turns] == list(range(7))
    assert (trace.id, trace.root, trace.complete, trace.tenant) == ("s", "root", True, "t")


def test_the_message_is_the_one_the_model_was_shown() -> None:
    echoed = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "extra": 1}
    trace = trace_of(
        "s", "s", [exchange(1, [user("q")], agent("a")), exchange(2, [user("q"), echoed, user("r")], agent("b"))]
    )
    assert trace.prefix(2) == [user("q"), echoed]
    assert trace.turns[1].exchange_id == "ex1"


def test_a_regenerated_answer_joins_and_the_branch_that_went_on_is_kept() -> None:
    start: Messages = [user("q"), agent("a"), user("r")]
    calls = [
        exchange(1, [user("q")], agent("a")),
        exchange(2, start, agent("first")),
        exchange(3, start, agent("second")),
        exchange(4, [*start, agent("first"), user("s")], agent("end")),
    ]
    assert len(set(sessions_of(calls))) == 1
    texts = [t.text for t in trace_of("s", "s", calls).turns]
    assert texts == ["q", "a", "r", "first", "s", "end"]
    assert [t.text for t in trace_of("s", "s", calls[:3]).turns][-1] == "second"


def test_the_same_request_behind_an_unrecorded_answer_joins() -> None:
    messages = [user("q"), agent("never recorded"), user("r")]
    assert len(set(sessions_of([exchange(1, messages, None), exchange(2, messages, agent("b"))]))) == 1


def test_two_people_who_open_alike_stay_apart() -> None:
    assert len(set(sessions_of([exchange(1, [user("hi")], agent("a")), exchange(2, [user("hi")], agent("b"))]))) == 2


def test_two_people_who_open_alike_and_are_answered_alike_part_where_they_say_something_else() -> None:
    start: Messages = [user("hi"), agent("Hello!")]
    calls = [
        exchange(1, [user("hi")], agent("Hello!")),
        exchange(2, [user("hi")], agent("Hello!")),
        exchange(3, [*start, user("Where is my parcel?")], agent(ON_ITS_WAY)),
        exchange(4, [*start, user("Cancel my order.")], agent("Done.")),
        exchange(5, [*start, user("Where is my parcel?"), agent(ON_ITS_WAY), user("Too long!")], None),
        exchange(6, [*start, user("Cancel my order."), agent("Done."), user("Thanks!")], agent("Bye.")),
    ]
    found = assigned(calls)
    assert found[4].session_id == found[2].session_id
    assert found[5].session_id == found[3].session_id != found[2].session_id
    assert found[3].root == found[2].root
    traces = {t.id: t for t in traces_of(calls)}
    assert [t.text for t in traces[found[4].session_id].turns][-1] == "Too long!"
    fork = traces[found[5].session_id]
    assert [t.text for t in fork.turns] == ["hi", "Hello!", "Cancel my order.", "Done.", "Thanks!", "Bye."]
    assert fork.inherited == 2


@pytest.mark.parametrize("session", [None, "client-1"])
def test_an_edited_message_opens_a_session_of_its_own_under_the_same_root(session: str | None) -> None:
    start: Messages = [user("q"), agent("a")]
    named, listed = [user("Name a river.")], [user("Name ten rivers.")]
    calls = [
        exchange(1, [user("q")], agent("a"), session=session),
        exchange(2, [*start, *named], agent("The Nile is."), session=session),
        exchange(3, [*start, user("Name a river."), agent("The Nile is."), user("Too long!")], None, session=session),
        exchange(4, [*start, *listed], agent("Nile, Amazon"), session=session),
        exchange(
            5, [*start, user("Name ten rivers."), agent("Nile, Amazon"), user("Fine.")], agent("Good."), session=session
        ),
    ]
    found = assigned(calls)
    assert len({f.session_id for f in found[:3]}) == 1
    assert found[3].session_id == found[4].session_id != found[0].session_id
    assert {f.root for f in found} == {found[0].session_id}
    first, fork = traces_of(calls)
    assert first.turns[-1].text == "Too long!"
    assert (first.inherited, fork.inherited) == (0, 2)


def test_two_regenerated_answers_that_both_go_on_are_two_sessions() -> None:
    start: Messages = [user("q"), agent("a"), user("r")]
    calls = [
        exchange(1, [user("q")], agent("a")),
        exchange(2, start, agent("first")),
        exchange(3, start, agent("second")),
        exchange(4, [*start, agent("first"), user("s")], agent("x")),
        exchange(5, [*start, agent("second"), user("t")], agent("y")),
    ]
    found = assigned(calls)
    assert len({f.session_id for f in found[:4]}) == 1
    assert found[4].session_id != found[0].session_id
    assert found[4].root == found[0].session_id


def test_a_named_session_that_is_cleared_or_compacted_goes_on_as_another_under_its_root() -> None:
    summary = user("This session is being continued from a previous conversation. The user asked q.")
    calls = [
        exchange(1, [user("q")], agent("a"), session="client-1"),
        exchange(2, [user("q"), agent("a"), user("r")], agent("b"), session="client-1"),
        exchange(3, [user("something else")], agent("c"), session="client-1"),
        exchange(4, [summary, user("go on")], agent("d"), session="client-1"),
        exchange(5, [user("q")], agent("again"), session="client-1"),
    ]
    found = assigned(calls)
    assert found[1].session_id == found[0].session_id
    assert len({f.session_id for f in found}) == 4, "asking the same again opens anew"
    assert {f.root for f in found} == {found[0].session_id}


@settings(deadline=None)  # every prefix is stitched anew
@given(st.lists(st.integers(0, 3), min_size=1, max_size=24), st.booleans())
def test_a_trace_only_ever_grows(choices: list[int], named: bool) -> None:
    """Whatever is repeated, edited or regenerated: no turn that stood in a trace is replaced by another message."""
    history: Messages = []
    made: list[Exchange] = []
    for at, choice in enumerate(choices):
        cut = [len(history), max(len(history) - 2, 0), len(history) // 4 * 2, 0][choice]
        history = [*history[:cut], user(f"asks {at % 3}")]
        made.append(exchange(at, history, agent(f"hears {choice % 2}"), session="client-1" if named else None))
        history = [*history, agent(f"hears {choice % 2}")]
    before: dict[str, list[str]] = {}
    for count in range(1, len(made) + 1):
        for trace in traces_of(made[:count]):
            now = [t.text for t in trace.turns]
            then = before.get(trace.id, [])
            # Its last answer may be given anew; all before it stays.
            kept = max(len(then) - 1, 0)
            assert now[:kept] == then[:kept]
            before[trace.id] = now


def test_a_failed_exchange_brings_its_messages_alone() -> None:
    messages: Messages = [user("q"), agent("a"), user("too long")]
    trace = trace_of("s", "s", [exchange(1, [user("q")], agent("a")), exchange(2, messages, None)])
    assert [t.text for t in trace.turns] == ["q", "a", "too long"]
    answered = [exchange(2, messages, agent("b")), exchange(3, messages, None)]
    assert [t.text for t in trace_of("s", "s", answered).turns][-1] == "b"
    broken_off = exchange(4, messages, agent("hal"), status=Status.CLIENT_CANCELLED)
    assert [t.text for t in trace_of("s", "s", [broken_off]).turns][-1] == "too long"


def test_side_calls_of_a_named_session_stand_under_its_root() -> None:
    def named(at: int, system: str, tools: list[str], *history: dict[str, Any]) -> Exchange:
        request = {
            "messages": [{"role": "system", "content": system}, *history, user(str(at))],
            "tools": [{"type": "function", "function": {"name": name}} for name in tools],
        }
        return exchange(at, [], agent("x"), request=request, session="client-1")

    calls = [
        named(1, "be kind", ["f"]),
        named(2, "make a title", []),
        named(3, "be kind", ["f"], user("1"), agent("x")),
        named(4, "be kind", ["g"]),
    ]
    found = assigned(calls)
    main = found[0].session_id
    assert found[2].session_id == main
    assert len({assignment.session_id for assignment in found}) == 3
    assert {assignment.root for assignment in found} == {main}


@pytest.mark.parametrize("extra", [{"previous_response_id": "r"}, {"conversation": "c"}])
def test_history_on_the_server_makes_a_trace_incomplete(extra: dict[str, Any]) -> None:
    request = {"messages": [user("q")], **extra}
    assert not trace_of("s", "s", [exchange(1, [], agent("a"), request=request)]).complete


def test_a_compaction_makes_a_trace_incomplete() -> None:
    summary = user("This session is being continued from a previous conversation. The user asked q.")
    after = exchange(2, [summary, user("go on")], agent("b"))
    assert not trace_of("s", "s", [after]).complete


def test_tool_turns_carry_outcomes_by_their_command() -> None:
    messages: Messages = [
        user("q"),
        agent(None, ("c1", '{"command": "rg x"}'), ("c2", "{}")),
        {"role": "tool", "tool_call_id": "c1", "content": "Exit code 1"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no"},
    ]
    trace = trace_of("s", "s", [exchange(1, messages, agent("b"))])
    assert [t.outcome for t in trace.turns if t.author is Author.TOOL] == [Outcome.OK_EMPTY, Outcome.ERROR_AGENT]


def test_traces_of_a_mixed_log() -> None:
    traces = traces_of([*talk("a", 2), *talk("b", 3, first=10)])
    assert [len(t.turns) for t in traces] == [5, 7]


def test_no_exchange_no_trace() -> None:
    with pytest.raises(ValueError, match="no exchange"):
        trace_of("s", "s", [])


def test_route_keys_are_those_of_the_session_or_its_opening() -> None:
    first, second = talk("a", 2)
    assert route_key("t", first.request) == route_key("t", second.request)
    assert route_key("t", first.request) != route_key("u", first.request)
    assert route_key("t", first.request, session="s") == route_key("t", {}, session="s")
    assert route_key("t", {"prompt": "a"}) != route_key("t", {"prompt": "b"})
