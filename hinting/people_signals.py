"""Signals in what people say of the agent's work, and in what the agent says of it itself."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from harness_adapters.messages import text_of
from harness_adapters.trace import Author, ToolCall, Turn
from hinting.asking import READ_CHARS, asks, ends_in_question
from hinting.cues import level
from hinting.effects import adds, amends, makes, undoes
from hinting.reaction import Reaction, admits, reaction
from hinting.reading import approves, closes, is_praise, only_praises, reads_as_correction, takes_back, without_praise
from hinting.signal import Fault, Signal, SignalKind, shown
from hinting.story import PEOPLE, SUCCESS, Story, arguments_of, is_identifier, values_of
from hinting.topics import echoes, reminds, same_request, topic_of

MEMORY = 200
"""How many turns back a person's words are held against what was said."""
NEAREST = 20
"""How many of the deeds before and after a person's words are held against each other."""
REWRITTEN_CHARS = 8
"""Characters of a text that was written and then written over; a shorter one may stand anywhere."""


def people_signals(story: Story) -> Iterator[Signal]:
    """Yield the corrections and repeats of the people in a story."""
    said = [turn for turn in story.turns if turn.author in PEOPLE]
    places = [turn.index for turn in said]
    for human, agent in story.answered():
        first, until = bisect_left(places, human.index - MEMORY), bisect_left(places, agent.index)
        redone, how = _redone(story, human, agent)
        found = _rule_for(story, human, agent, said[first:until], how)
        if found is None:
            continue
        kind, rule = found
        if kind is SignalKind.USER_REPEAT:
            target = agent.index  # what is asked for again is missing from the agent's last words
        else:
            target = redone.index if redone else _blamed(story, human.index, agent)
        fault = Fault.USER if takes_back(human.text) else Fault.AGENT
        yield shown(story.trace, kind, target, human, rule, fix=story.last_reply(human.index), fault=fault)


def self_signals(story: Story) -> Iterator[Signal]:
    """Yield what the agent itself saw: nothing had failed and nobody had spoken when it named a fault of its own."""
    for turn in story.turns[1:]:
        before = story.turns[turn.index - 1]
        if turn.author is not Author.AGENT or before.outcome not in SUCCESS or not admits(turn.text):
            continue
        agent, _ = story.call_of(before)
        if agent is not None:
            target = _blamed(story, turn.index, agent)
            yield shown(story.trace, SignalKind.SELF_CORRECTION, target, before, "self", fix=turn.index)


def _rule_for(
    story: Story, human: Turn, agent: Turn, before: Sequence[Turn], how: str | None
) -> tuple[SignalKind, str] | None:
    """Return what kind of signal a person's words are, and the rule by which; None where they are none. `before` are
    the turns of people before the agent's, `how` is the rule by which the agent redid something."""
    text, taken, earlier = human.text, _reaction(story, human.index), [turn.text for turn in before]
    families = reads_as_correction(text, request=earlier[-1] if earlier else "", answer=agent.text)
    if families and not (taken is Reaction.STANDS and families == ["generic"]):
        if how == "redone" or taken in (Reaction.OWNS, Reaction.REGRETS):
            return SignalKind.USER_CORRECTION, "correction_owned"
        return SignalKind.USER_CORRECTION, "correction_generic" if families == ["generic"] else "correction"
    if any(same_request(text, said) for said in earlier[-3:]) and not is_praise(text):
        return SignalKind.USER_REPEAT, "repeat"
    if not earlier or takes_back(text) or closes(text, agent.text) or approves(text) or only_praises(text):
        return None
    if taken is Reaction.OWNS:
        return SignalKind.USER_CORRECTION, "owned"
    if how:
        return SignalKind.USER_CORRECTION, how
    if echoes(text, agent.text):
        return SignalKind.USER_CORRECTION, "echo"
    if not ends_in_question(agent.text) and reminds(text, earlier, story.told(before[0].index, human.index)):
        return SignalKind.USER_REPEAT, "reminder"
    return None


def _reaction(story: Story, index: int) -> Reaction:
    """Return how the agent took what a person said, by its first words after that."""
    for turn in story.until_a_person(index):
        if turn.author is Author.AGENT:
            found = reaction(turn.text, text_of(turn.message.get("reasoning_content")))
            if found is not Reaction.NEITHER or turn.text.strip():
                return found
    return Reaction.NEITHER


def _blamed(story: Story, index: int, agent: Turn) -> int:
    """Return the turn a complaint is about: the last that changed something since a person spoke, else the agent's last
    words."""
    done = story.done(index, -1)
    return done[0][0].index if done else agent.index


def _redone(story: Story, human: Turn, agent: Turn) -> tuple[Turn | None, str | None]:
    """Return the turn whose deed the agent, once a person had spoken, took back or did again otherwise, and the rule.

    Neither where they had asked for something, had been asked, or chose from what the agent had named.
    """
    before, after = (story.done(human.index, step)[:NEAREST] for step in (-1, 1))
    if not before or not after or ends_in_question(agent.text) or topic_of(human.text) <= topic_of(agent.text):
        return None, None
    if asks(without_praise(level(human.text[:READ_CHARS]))):
        return None, None
    amended: Turn | None = None
    for _, again in after:
        for turn, call in before:
            if _taken_back(story, human, call, again) or (call.name == again.name and _altered(call, again)):
                return turn, "redone"
            if amended is None and amends(again.name) and values_of(again) & story.made_by(call):
                amended = turn
    return amended, amended and "amended"


def _taken_back(story: Story, human: Turn, call: ToolCall, again: ToolCall) -> bool:
    """Say whether a call undoes what another did: it names what that made, or what that alone was called with."""
    if not undoes(again.name):
        return False
    values, made = values_of(again), story.made_by(call)
    others = {value for value in values - values_of(call) - made if is_identifier(value)}
    of_it = any(story.is_of_one(value, human.index) for value in values & values_of(call))
    return bool(values & made) or (of_it and not others)


def _altered(call: ToolCall, again: ToolCall) -> bool:
    """Say whether two calls of a tool are about one thing and yet differ: the later writes over what the earlier wrote,
    or they share one thing's name, or most of their arguments."""
    first, second = arguments_of(call), arguments_of(again)
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    names = {*first, *second}
    same = [name for name in names if name in first and name in second and first[name] == second[name]]
    old, new = second.get("old_string", second.get("old_str")), first.get("new_string", first.get("new_str"))
    if isinstance(old, str) and isinstance(new, str):
        of_one_file = any(name in same for name in ("file_path", "path"))
        return of_one_file and len(old.strip()) >= REWRITTEN_CHARS and old in new
    if adds(call.name) or not len(names) / 2 <= len(same) < len(names):
        return False
    # To make or send somebody another thing is no second try.
    sure = 2 * len(same) > len(names) or any(is_identifier(str(first[name])) for name in same)
    return sure or not makes(call.name)
