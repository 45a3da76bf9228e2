"""How scenarios differ: the dotted keys whose values are not the same in all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

ABSENT = "–"
"""What stands where a scenario does not have a key, or says nothing there."""

_NAMES = frozenset({"name", "description", "overrides", "sweep", "track"})
"""Keys of a scenario that change nothing in the run."""


def differing_keys(scenarios: Sequence[Mapping[str, object]], room: int = 60) -> dict[str, list[str]]:
    """Each dotted key that differs with its value in each of *scenarios*, in the order in which they are met.

    >>> differing_keys([{"seed": 1, "mac": {"kind": "tdma"}}, {"seed": 1, "mac": {"kind": "aloha", "p": 0.5}}])
    {'mac.kind': ['tdma', 'aloha'], 'mac.p': ['–', '0.5']}

    Args:
        scenarios: as resolved.
        room: longer values are cut.
    """
    leaves = [dict(_leaves({key: own for key, own in one.items() if key not in _NAMES})) for one in scenarios]
    keys = dict.fromkeys(key for own in leaves for key in own)
    table = {key: [own.get(key, ABSENT) for own in leaves] for key in keys}
    return {key: [_cut(told, room) for told in row] for key, row in table.items() if len(set(row)) > 1}


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The values in nested mappings and lists of mappings, each with its dotted key."""
    if isinstance(value, Mapping) and value:
        nested = list(value.items())
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        nested = list(enumerate(value))
    else:
        if value is not None:
            yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        return
    for name, own in nested:
        yield from _leaves(own, f"{key}.{name}".lstrip("."))


def _cut(told: str, room: int) -> str:
    """*told* in one line that has room."""
    line = " ".join(told.split())
    return line if len(line) <= room else f"{line[: room - 1]}…"
