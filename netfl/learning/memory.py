"""How much memory the learners of a run will take, counted before it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from netfl.errors import Fault, ScenarioError
from netfl.registry import kind_of

if TYPE_CHECKING:
    import torch

    from netfl.learning.spec import LearnerSpec

_MODELS = 6
"""Models that a lane has at most beside its rule's: two versions, what is sent with each, and a copy of both."""
_TWIN = 2
"""Models that a lane has for its twin: that, and what is made of it."""
_HEARD = 3
"""Models for each user that is heard in a lane: its own, its base, its change."""
_REMEMBERED = 2
"""Two more where a rule remembers: what it knew of that user, and what it is to know."""
_COPIES = 6
"""How often there are the models that train at once: as they start, at work, before a step, and so on."""
_PROCESS = 300 << 20
"""Bytes of a worker that does nothing; one process alone is there already."""
_GB = 1e9
_GROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Where Linux tells the limit of a group of processes, what it uses, and what of that it can do without."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """What a run has to hold at once.

    Args:
        users: how many there are.
        most: how many of them may be heard in one round of a replica.
        parameters: those of θ.
        replicas: how many learn at once.
        workers: how many processes they learn in.
        twins: whether each lane has a central twin.
        examples: bytes of the examples, where they are not counted among what is there.
        number: bytes of a parameter.
    """

    users: int
    most: int
    parameters: int
    replicas: int
    workers: int = 1
    twins: bool = False
    examples: int = 0
    number: int = 4


def check_memory(learners: Mapping[str, LearnerSpec], load: MemoryEstimate, there: int | None) -> None:
    """Refuse what does not fit.

    Counted are all lanes' versions and rules, for each process one lane's updates, which its rule gets together, and
    those who train at once.  Not counted are what a model remembers of a step, versions before the newest from which
    somebody still trains, and, in one process, examples and checkpoints, of which no copies are made.

    Args:
        learners: by name.
        load: what they have to do.
        there: bytes of memory that can still be had; where nobody knows that, nothing is refused.

    Raises:
        ScenarioError: it does not fit.
    """
    needed = _needed(learners, load)
    if there is None or needed <= there:
        return
    short = f"the run needs {needed / _GB:.1f} GB of memory, and {there / _GB:.1f} GB are there"
    alone = _needed(learners, replace(load, workers=1))
    if alone <= there:
        remedy = f"take fewer: one process needs {alone / _GB:.1f} GB"
        raise ScenarioError([Fault("--workers", f"with so many {short}", load.workers, remedy)])
    kept = _kept(learners, load)
    name = max(kept, key=lambda one: kept[one])
    rule, much = kind_of(type(learners[name].aggregation)), f"{load.number * kept[name] / _GB:.1f} GB of users"
    heard = f"{load.number * _heard(kept, load) / _GB:.1f} GB"
    problem = (
        f"{short}: for {load.users} users and {load.parameters:,} parameters '{rule}' keeps "
        f"{much if kept[name] else 'nothing of users'}, and the updates of up to {load.most} who are heard together "
        f"take {heard}"
    )
    remedy = (
        "take fewer replicas or learners at once, fewer users or a smaller model, let fewer be heard in a round, or "
        "take a machine with more memory"
    )
    raise ScenarioError([Fault(f"learners.{name}.aggregation", problem, None, remedy)])


def _needed(learners: Mapping[str, LearnerSpec], load: MemoryEstimate) -> int:
    """Bytes of all that is counted."""
    from netfl.learning.batch_limits import max_jobs_at_once

    model, lanes, kept = load.parameters + 1, load.replicas * len(learners), _kept(learners, load)
    at_once = load.workers * _COPIES * model * min(lanes * load.most, max_jobs_at_once(model))
    numbers = sum(kept.values()) + lanes * (_MODELS + _TWIN * load.twins) * model + _heard(kept, load) + at_once
    return load.number * numbers + load.examples + (load.workers * _PROCESS if load.workers > 1 else 0)


def _kept(learners: Mapping[str, LearnerSpec], load: MemoryEstimate) -> dict[str, int]:
    """Numbers that the rule of each learner keeps, in all replicas."""
    return {name: load.replicas * one.aggregation.memory(load.users, load.parameters) for name, one in learners.items()}


def _heard(kept: Mapping[str, int], load: MemoryEstimate) -> int:
    """Numbers in the updates of one lane, in each process."""
    return load.workers * (_HEARD + _REMEMBERED * any(kept.values())) * load.most * (load.parameters + 1)


def free_memory(device: torch.device) -> int | None:
    """Bytes of memory that can still be had where *device* computes; ``None`` if that is not said."""
    if device.type != "cuda":
        return available()
    from torch.cuda import mem_get_info

    return int(mem_get_info(device)[0])


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
