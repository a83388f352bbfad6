"""Who really wrote a message. Frameworks and clients write in the user's name; only a person's words correct
an agent."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from harness_adapters.messages import text_of
from harness_adapters.trace import Author, Message


class Attribution(NamedTuple):
    """The author, the words that are theirs, and why we think so."""

    author: Author
    text: str
    reason: str


COMPACTION = "compaction summary"

_ROLES = {
    "assistant": Author.AGENT,
    "tool": Author.TOOL,
    "function": Author.TOOL,
    "system": Author.SYSTEM,
    "developer": Author.SYSTEM,
}
# Anchored at the start, or at the end where the framework closes with a set phrase: people quote such texts in the
# middle.
_FRAMEWORK = re.compile(
    r"(validation feedback:|\d+ validation errors?\b|\[error\] you did not use a tool|invalid (format"
    r"|or incomplete response)"
    r"|could not parse (llm|your) output"
    r"|(your|the) (last |previous )?(output|response|reply|message) (could not be pars"
    r"|did not (contain|include) (a|any) (valid )?(tool|function)|must (be|contain|use) (a|one|valid)\b)"
    r"|error in code parsing:|please continue working on the task\b"
    r"|i encountered an error while trying to use the tool"
    r"|[^.]{0,60}\b(validation|parsing|schema) errors?\b.*fix the errors? and try again\.?\s*\Z)",
    re.IGNORECASE | re.DOTALL,
)
_COMPACTION = re.compile(
    r"(this session is being continued from a previous conversation|<conversation_summary>|<compaction"
    r"|<state_snapshot>|\[?(conversation|context) summary\b|summary of (the )?(previous|earlier) conversation\b"
    r"|another language model started to solve this problem)",
    re.IGNORECASE,
)
_CLIENT = re.compile(
    r"(\[request interrupted by user|# agents\.md instructions|caveat: the messages below were generated"
    r"|\[(tool|command|system) (output|notification|message)\]|<skill>\s*<name>)",
    re.IGNORECASE,
)
_SIMULATED = re.compile(
    r"^[ \t]*###(STOP|TRANSFER|OUT-OF-SCOPE)###[ \t]*$|###(STOP|TRANSFER|OUT-OF-SCOPE)###(?=\s*\Z)", re.M
)
# Blocks that clients put before, behind or instead of what the person typed.
_BLOCK = re.compile(
    r"<(environment_context|environment_details|system-reminder|system_reminder|user_shell_command|hook_prompt"
    r"|session_context|hook_context"
    r"|command-(?:name|message|args|contents)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout|stderr)"
    r"|task-notification|additional_context|open_and_recently_viewed_files|user_info|user_instructions|turn_aborted"
    r"|context|attached_files|ide_selection|ide_opened_file|skill)\b"
)
_ALSO_PEOPLES = ("context", "skill")
"""Blocks that people write too: where nothing stands beside them, a person is held to have."""
_WRAPPED = re.compile(
    r"<(?P<tag>user_query|user_message|task|feedback|user-prompt)>(?P<text>.*?)</(?P=tag)>\s*\Z", re.DOTALL
)


def author_of(message: Message) -> Attribution:
    """Say who wrote a message, and which part of it is theirs."""
    role = str(message.get("role") or "")
    text = text_of(message.get("content"))
    if role != "user":
        return Attribution(_ROLES.get(role, Author.CLIENT), text, f"role {role or 'missing'}")
    start = text.lstrip()
    if _FRAMEWORK.match(start):
        return Attribution(Author.FRAMEWORK, text, "validation text of a framework")
    if _COMPACTION.match(start):
        return Attribution(Author.CLIENT, text, COMPACTION)
    if _SIMULATED.search(text):
        return Attribution(Author.SIMULATED_USER, _SIMULATED.sub("", text).strip(), "control word of a user simulator")
    rest = _without_blocks(text) or _without_blocks(text, kept=_ALSO_PEOPLES)
    if text.strip() and not rest:
        return Attribution(Author.CLIENT, text, "only blocks written by the client")
    if _CLIENT.match(rest):
        return Attribution(Author.CLIENT, text, "text written by the client")
    if wrapped := _WRAPPED.match(rest):
        return Attribution(Author.HUMAN, wrapped["text"].strip(), "typed text in a client's wrapper")
    return Attribution(
        Author.HUMAN, rest, "typed text" if rest == text.strip() else "typed text beside a client's blocks"
    )


def _without_blocks(text: str, kept: Sequence[str] = ()) -> str:
    """Return what stands beside the clients' blocks in a text; blocks by the tags in `kept` stay."""
    parts: list[str] = []
    at = 0
    # Where a mark stands next, which is the same for all before it: looked for once, however often it is missing.
    ahead: dict[str, int] = {}

    def find(mark: str, start: int) -> int:
        if mark not in ahead or 0 <= ahead[mark] < start:
            ahead[mark] = text.find(mark, start)
        return ahead[mark]

    for opener in _BLOCK.finditer(text):
        if opener.start() < at or opener[1] in kept:
            continue
        begun = find(">", opener.end())
        closer = f"</{opener[1]}>"
        end = find(closer, begun) if begun >= 0 else -1
        if end >= 0:
            parts.append(text[at : opener.start()])
            at = end + len(closer)
    return "".join([*parts, text[at:]]).strip()
