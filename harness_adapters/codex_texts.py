"""What was said in a rollout, once each: Codex writes a text as an item, as an event, or as both."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from harness_adapters.authors import author_of
from harness_adapters.fields import mapping, mappings, text
from harness_adapters.messages import text_of
from harness_adapters.trace import Author

_IMAGE_TAG = re.compile(r"\A\s*</?image\b[^>]*>\s*\Z")
_IDE = re.compile(
    r"\A\s*# Context from my IDE setup:.*?(^## My request for Codex:\s*(?P<words>.*))?\Z", re.DOTALL | re.MULTILINE
)
# What the client puts in the person's role, alone in its message.
_FRAGMENT = re.compile(
    r"\A\s*(<(?P<tag>(?!send_user_message)[a-z]+_[a-z_]+|permissions instructions)\b[^>]*>.*</(?P=tag)>\s*\Z"
    r"|warning: (the maximum number of unified exec|apply_patch was requested via|your account was flagged))",
    re.DOTALL | re.IGNORECASE,
)
_FORMS = ("response_item", "event", "item")


@dataclass(slots=True)
class Spoken:
    """A text and who is held to have said it."""

    role: str
    parts: list[Mapping[str, Any]]
    kinds: list[str] = field(default_factory=list[str])
    """What the client says of the parts, where it does."""
    is_typed: bool = False
    """Whether an event tells of it too, as events do of what a person typed."""
    is_context: bool = False
    """Whether events tell of what was typed at the time, and not of this."""


def spoken_once(rows: Sequence[tuple[int, str, Mapping[str, Any]]]) -> dict[int, Spoken]:
    """Return what was said, by the number of the row that stands for it: an item where there is one.

    A text that is there n times in one form was said n times, whatever the other forms hold.
    """
    spoken: dict[int, Spoken] = {}
    known: dict[tuple[str, str], list[int]] = {}
    for form in _FORMS:
        told = {key: list(indices) for key, indices in known.items()}
        for index, (_, kind, payload) in enumerate(rows):
            said = _said(form, kind, payload)
            if said is None:
                continue
            key = (said.role, " ".join(typed(said.parts).split()))
            if form != _FORMS[0]:
                said.is_typed = text(payload.get("kind")) in ("", "plain")
                if not key[1]:
                    continue
                if told.get(key):
                    first = spoken[told[key].pop(0)]
                    first.is_typed = first.is_typed or said.is_typed
                    continue
            spoken[index] = said
            known.setdefault(key, []).append(index)
    _mark_context(rows, spoken)
    return spoken


def _mark_context(rows: Sequence[tuple[int, str, Mapping[str, Any]]], spoken: Mapping[int, Spoken]) -> None:
    task, tasks = 0, list[int]()
    for _, kind, payload in rows:
        task += kind == "event_msg" and payload.get("type") in ("task_started", "turn_started")
        tasks.append(task)
    told = {tasks[index] for index, said in spoken.items() if said.role == "user" and said.is_typed}
    for index, said in spoken.items():
        said.is_context = not said.is_typed and tasks[index] in told and bool(typed(said.parts).strip())


def _said(form: str, kind: str, payload: Mapping[str, Any]) -> Spoken | None:
    """Return what a record says in one of the forms."""
    inner = payload.get("type")
    if form == "response_item":
        if kind != "response_item" or inner != "message":
            return None
        kinds = mapping(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds")
        known = [text(k) for k in cast("list[object]", kinds)] if isinstance(kinds, list) else []
        return Spoken(text(payload.get("role")) or "user", parts_of(payload.get("content")), known)
    if kind != "event_msg":
        return None
    if form == "event" and inner in ("user_message", "agent_message"):
        parts = [*_images(payload.get("images")), *parts_of(payload.get("message"))]
        return Spoken("user" if inner == "user_message" else "assistant", parts)
    item = mapping(payload.get("item"))
    if form == "item" and inner == "item_completed" and item.get("type") in ("UserMessage", "AgentMessage"):
        return Spoken("user" if item["type"] == "UserMessage" else "assistant", parts_of(item.get("content")))
    return None


def parts_of(content: object) -> list[Mapping[str, Any]]:
    """Return the content of an item or event as parts of a chat message."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts: list[Mapping[str, Any]] = []
    for part in mappings(content):
        if isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
        elif isinstance(part.get("image_url"), str):
            parts.extend(_images([part["image_url"]]))
        elif "encrypted_content" not in part:
            parts.append(part)
    return parts


def _images(urls: object) -> list[Mapping[str, Any]]:
    found = cast("list[object]", urls) if isinstance(urls, list) else []
    return [{"type": "image_url", "image_url": {"url": url}} for url in found if isinstance(url, str)]


def typed(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the words of a message without the marks round its images, what stands beside them that only a client
    writes, and what an editor put before them."""
    texts = [said for part in parts if not _IMAGE_TAG.match(said := text(part.get("text")))]
    words = "".join([said for said in texts if not _is_fragment(said)] or texts)
    request = _IDE.match(words)
    return request["words"] or "" if request else words


def _is_fragment(words: str) -> bool:
    return bool(_FRAGMENT.match(words)) or author_of({"role": "user", "content": words}).author is Author.CLIENT


def attributed(said: Spoken, *, is_sub: bool) -> tuple[Author, str]:
    """Say who wrote a text of the user's role, and which part of it is theirs. `is_sub`: in a sub-agent's session."""
    whole = text_of(list(said.parts))
    kinds = [*said.kinds, *["unknown"] * len(said.parts)]
    own = [p for p, kind in zip(said.parts, kinds, strict=False) if kind == "unknown" or kind.startswith("user.")]
    words = typed(own)
    if not own and kinds[0].startswith("multi_agent."):
        return Author.FRAMEWORK, whole
    if not own or said.is_context or _is_fragment(words) or (_IDE.match(whole) and not words.strip()):
        return Author.CLIENT, whole
    found = author_of({"role": "user", "content": words})
    if is_sub and found.author is Author.HUMAN:
        return Author.FRAMEWORK, whole
    return found.author, found.text
