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
    leaves = []  # of each scenario, by dotted key
    for scenario in scenarios:
        relevant = {key: value for key, value in scenario.items() if key not in _IGNORED_KEYS}
        leaves.append(dict(_leaves(relevant)))
    differing = {}
    for key in dict.fromkeys(key for of_scenario in leaves for key in of_scenario):
        values = [of_scenario.get(key, ABSENT) for of_scenario in leaves]
        if len(set(values)) > 1:
            differing[key] = [shortened(" ".join(value.split()), max_chars) for value in values]
    return differing


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
    if isinstance(value, float):
        return f"{value:.10g}"
    return json.dumps(value, ensure_ascii=False, default=str)
