"""How much memory the learners of a run will take, counted before it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from netfl.errors import Fault, ScenarioError
from netfl.registry import kind_of

if TYPE_CHECKING:
    from netfl.learning.settings import LearnerSpec

_NUMBER = 4
"""Bytes of a parameter."""
_MODELS = 6
"""Models that a lane has at least while it learns: two versions, a base, what is made of it, gradients, and a spare."""
_PROCESS = 300 << 20
"""Bytes of a worker that does nothing; one process alone is there already."""
_GB = 1e9
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Where Linux tells the limit of a group of processes, what it uses, and what of that it can do without."""


def check(learners: Mapping[str, LearnerSpec], users: int, parameters: int, replicas: int, workers: int) -> None:
    """Refuse what does not fit into the memory that is there; where a system does not say how much that is, nothing.

    Args:
        learners: by name.
        users: how many there are.
        parameters: those of θ.
        replicas: how many learn at once.
        workers: how many processes they learn in.

    Raises:
        ScenarioError: it does not fit.
    """
    there = available()
    kept = {name: replicas * one.aggregation.memory(users, parameters) for name, one in learners.items()}
    models = sum(kept.values()) + replicas * len(learners) * _MODELS * (parameters + 1)
    needed = _NUMBER * models + (workers * _PROCESS if workers > 1 else 0)
    if there is None or needed <= there:
        return
    name = max(kept, key=lambda one: kept[one])
    kind = kind_of(type(learners[name].aggregation))
    much = f"keeps {_NUMBER * kept[name] / _GB:.1f} GB in {replicas} replicas"
    own = much if kept[name] else "keeps nothing of users"
    problem = (
        f"the run needs {needed / _GB:.1f} GB of memory, and {there / _GB:.1f} GB are there: for {users} users and "
        f"{parameters:,} parameters '{kind}' {own}"
    )
    remedy = "take fewer replicas or learners at once, fewer users or a smaller model, or a machine with more memory"
    raise ScenarioError([Fault(f"learners.{name}.aggregation", problem, None, remedy)])


def available(system: Path = Path("/")) -> int | None:
    """Bytes of memory that can still be had; ``None`` if the system does not say.

    Args:
        system: where its files begin.
    """
    found = [_limit(system / "sys/fs/cgroup", *names) for names in _GROUPS] + [_free(system / "proc/meminfo")]
    return min((one for one in found if one is not None), default=None)


def _free(path: Path) -> int | None:
    """What the machine has left: on Linux what it says; elsewhere all that it has."""
    try:
        lines = dict(line.split(":") for line in path.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        names = getattr(os, "sysconf_names", {})
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_PHYS_PAGES" in names else None


def _limit(folder: Path, limit: str, used: str, stat: str, spare: str) -> int | None:
    """What a group of processes has left of its limit; ``None`` if it has none."""
    try:
        most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
        lines = dict(line.split() for line in (folder / stat).read_text().splitlines())
        return most - taken + int(lines[spare])
    except (OSError, ValueError, KeyError):
        return None
