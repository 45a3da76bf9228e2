"""Keys of scenarios whose values differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from netfl.results.formatting import shortened

ABSENT = "–"
"""Value of a key that a scenario does not have."""

_IGNORED_KEYS = frozenset({"name", "description", "overrides", "sweep", "track"})
"""Keys of a scenario that do not affect the run."""


def differing_keys(scenarios: Sequence[Mapping[str, object]], max_chars: int = 60) -> dict[str, list[str]]:
    """Return each dotted key that differs with its value in each of *scenarios*, cut to *max_chars*.

    >>> differing_keys([{"seed": 1, "mac": {"kind": "tdma"}}, {"seed": 1, "mac": {"kind": "aloha", "p": 0.5}}])
    {'mac.kind': ['tdma', 'aloha'], 'mac.p': ['–', '0.5']}
    """
    leaves = [dict(_leaves({key: spec[key] for key in spec if key not in _IGNORED_KEYS})) for spec in scenarios]
    keys = dict.fromkeys(key for values in leaves for key in values)
    table = {key: [values.get(key, ABSENT) for values in leaves] for key in keys}
    return {
        key: [shortened(" ".join(value.split()), max_chars) for value in row]
        for key, row in table.items()
        if len(set(row)) > 1
    }


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values in nested mappings and lists of mappings with their dotted keys."""
    items: list[tuple[object, object]] = []
    if isinstance(value, Mapping) and value:
        items = list(value.items())
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        items = list(enumerate(value))
    elif value is not None:
        yield key, _leaf_text(value)
    for name, child in items:
        yield from _leaves(child, f"{key}.{name}".lstrip("."))


def _leaf_text(value: object) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.10g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
