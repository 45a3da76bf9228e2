"""Keys of scenarios that have another name now.

A file that states a format was written by netfl, into the folder of a run or of a sweep.  Its keys are read under their
present names, since nobody can correct it: its digest is that of the run.  In a scenario that a user writes, a former
name is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED_KEYS: Mapping[tuple[str, str], str] = {
    ("tuning", "candidates"): "trials",
    ("transport", "compression"): "assumed_compression",
    ("transport", "compression_down"): "assumed_compression_down",
}
"""Present name of a key by its section and its former name.  What the key means has not changed."""


def with_present_names(value: Any, section: str = "") -> Any:
    """Return a part of a scenario, the value of the key *section*, with the present names of its keys.

    The paths of a sweep stay, as its index has them, too.

    >>> with_present_names({"tuning": {"by": "loss", "candidates": 7}, "candidates": 7})
    {'tuning': {'by': 'loss', 'trials': 7}, 'candidates': 7}
    """
    if isinstance(value, list):
        return [with_present_names(entry, section) for entry in value]
    if not isinstance(value, dict) or section == "sweep":
        return value
    return {
        present_path(key, section): with_present_names(entry, key.rpartition(".")[2]) for key, entry in value.items()
    }


def present_path(path: str, section: str = "") -> str:
    """Return the dotted *path* of a key below *section* with present names.

    >>> present_path("tuning.candidates")
    'tuning.trials'
    """
    keys = path.split(".")
    sections = [section, *keys[:-1]]
    return ".".join(RENAMED_KEYS.get(place, place[1]) for place in zip(sections, keys, strict=True))
