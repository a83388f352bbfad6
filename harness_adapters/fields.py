"""Members of foreign JSON, which may be of any type or missing."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from harness_adapters.jsontext import mended


def text(value: object) -> str:
    """Return a text; empty where the value is none."""
    return value if isinstance(value, str) else ""


def quoted(name: object) -> str:
    """Return how a message names what a foreign file calls something."""
    return repr(str(name)[:60])


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object; an empty one where the value is none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; none where the value is no list."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]


def tool_call(call_id: object, name: object, arguments: object) -> dict[str, Any]:
    """Return a call in OpenAI's chat shape. Arguments that are no text yet become JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False, default=str)
    return {"id": text(call_id), "type": "function", "function": {"name": text(name), "arguments": written}}


def sole_text(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return parts as a message's content: as they are, but for a single one that is a text."""
    return text(parts[0].get("text")) if len(parts) == 1 and parts[0].get("type") == "text" else parts


def stem(source: str) -> str:
    """Return the name of a source's file, or of an archive's member, without folders and endings."""
    name = mended(re.split(r"[/\\!]", source)[-1])
    return re.sub(r"(\.(traj|jsonl?|eval|gz|zst))+\Z", "", name, flags=re.IGNORECASE) or name
