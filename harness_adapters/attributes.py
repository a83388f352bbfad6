"""Attributes of spans: OTLP's values as plain JSON, and what dotted names describe."""

from collections.abc import Mapping
from typing import Any, cast

from harness_adapters.chatparts import loose
from harness_adapters.fields import mapping, mappings, text

_MAX_DEPTH = 20


def attributes_of(value: object) -> dict[str, Any]:
    """Return attributes, told as an object, as a list of keys and values, or as either in JSON text."""
    value = loose(value)[0]
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return {text(pair.get("key")): plain(pair.get("value")) for pair in mappings(value)}


def is_value(value: Mapping[str, Any]) -> bool:
    """Say whether an object is an OTLP AnyValue."""
    return len(value) == 1 and next(iter(value)).lower().replace("_", "") in _VALUES


_VALUES = ("stringvalue", "boolvalue", "intvalue", "doublevalue", "arrayvalue", "kvlistvalue", "bytesvalue")


def plain(value: object) -> Any:
    """Return an OTLP AnyValue as plain JSON."""
    if not isinstance(value, Mapping) or not is_value(cast("Mapping[str, Any]", value)):
        return None if value == {} else value
    ((kind, held),) = cast("Mapping[str, Any]", value).items()
    kind = kind.lower().replace("_", "")
    if kind == "arrayvalue":
        items = mapping(held).get("values")
        return [plain(item) for item in cast("list[object]", items)] if isinstance(items, list) else []
    if kind == "kvlistvalue":
        return {text(pair.get("key")): plain(pair.get("value")) for pair in mappings(mapping(held).get("values"))}
    if kind == "intvalue" and isinstance(held, str) and len(held) < 20 and held.removeprefix("-").isdecimal():
        return int(held)
    return held


def attribute(attributes: Mapping[str, Any], name: str) -> Any:
    """Return an attribute by its dotted name, whether it stands under that name, is nested, or is told part by part."""
    if name in attributes:
        return attributes[name]
    prefix = f"{name}."
    told = {key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)}
    if told:
        return unflattened(told)
    first, _, rest = name.partition(".")
    while rest:
        if isinstance(attributes.get(first), Mapping):
            return attribute(attributes[first], rest)
        more, _, rest = rest.partition(".")
        first = f"{first}.{more}"
    return None


def unflattened(attributes: Mapping[str, Any]) -> Any:
    """Rebuild what dotted keys describe. Where all keys of a level are numbers it is a list, in the order of these."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        node = tree
        *path, last = key.split(".", _MAX_DEPTH)
        for part in path:
            held = node.get(part)
            if not isinstance(held, dict):
                held = node[part] = {} if held is None else {"": held}
            node = cast("dict[str, Any]", held)
        if isinstance(node.get(last), dict) and not isinstance(value, Mapping):
            node[last][""] = value
        else:
            node[last] = value
    return _listed(tree)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    tree = {key: _listed(item) for key, item in cast("dict[str, Any]", value).items()}
    if tree and all(key.isdecimal() and len(key) < 10 for key in tree):
        return [tree[key] for key in sorted(tree, key=int)]
    return tree
