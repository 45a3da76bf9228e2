"""Memory that the learners of a run need, estimated before it starts, and memory that is free."""

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

_LANE_MODELS = 6
"""Models of a lane beside the state of its aggregation: two versions, their messages, and a copy of each."""
_BASELINE_MODELS = 2
"""Models of a lane with a centralized baseline: the baseline and its result."""
_UPDATE_MODELS = 3
"""Models of each delivered user of a lane: its own, its base, its change."""
_STATE_MODELS = 2
"""Two more if the aggregation keeps a state of users: the old and the new entry."""
_TRAINING_COPIES = 6
"""Copies of the models that train at once: at the start, during training, before a step, and so on."""
_PROCESS_BYTES = 300 << 20
"""Memory of an idle worker; a run in one process needs no further process."""
_GB = 1e9
_CGROUPS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)
"""Linux files, of cgroups v2 and v1: limit, usage, statistics, and the entry there of memory that can be freed."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The sizes that determine the memory of a run.

    Args:
        users: number of users.
        max_deliveries: maximum number of deliveries in one round of a replica.
        parameters: size of θ.
        replicas: that learn at once.
        workers: number of processes.
        has_baseline: whether each lane has a centralized baseline.
        example_bytes: size of copies of the examples.
        number_bytes: size of a parameter.
    """

    users: int
    max_deliveries: int
    parameters: int
    replicas: int
    workers: int = 1
    has_baseline: bool = False
    example_bytes: int = 0
    number_bytes: int = 4


def check_memory(learners: Mapping[str, LearnerSpec], estimate: MemoryEstimate, available_bytes: int | None) -> None:
    """Refuse a run that does not fit into memory.

    Counted are the versions and states of all lanes, for each process the updates of one lane, and the models that
    train at once.  Not counted are the activations of a step, older versions from which users still train, and, in one
    process, examples and checkpoints, which are not copied.

    Args:
        learners: by name.
        estimate: the sizes.
        available_bytes: the memory; ``None`` if unknown, then nothing is refused.

    Raises:
        ScenarioError: the run does not fit.
    """
    needed = _needed_bytes(learners, estimate)
    if available_bytes is None or needed <= available_bytes:
        return
    short = f"the run needs {needed / _GB:.1f} GB of memory, and {available_bytes / _GB:.1f} GB are there"
    alone = _needed_bytes(learners, replace(estimate, workers=1))
    if alone <= available_bytes:
        remedy = f"take fewer: one process needs {alone / _GB:.1f} GB"
        raise ScenarioError([Fault("--workers", f"with so many {short}", estimate.workers, remedy)])
    states = _state_numbers(learners, estimate)
    name = max(states, key=lambda learner: states[learner])
    rule = kind_of(type(learners[name].aggregation))
    state = f"{estimate.number_bytes * states[name] / _GB:.1f} GB of users" if states[name] else "nothing of users"
    updates = f"{estimate.number_bytes * _update_numbers(states, estimate) / _GB:.1f} GB"
    problem = (
        f"{short}: for {estimate.users} users and {estimate.parameters:,} parameters '{rule}' keeps "
        f"{state}, and the updates of up to {estimate.max_deliveries} who are heard together take {updates}"
    )
    remedy = (
        "take fewer replicas or learners at once, fewer users or a smaller model, let fewer be heard in a round, or "
        "take a machine with more memory"
    )
    raise ScenarioError([Fault(f"learners.{name}.aggregation", problem, None, remedy)])


def _needed_bytes(learners: Mapping[str, LearnerSpec], estimate: MemoryEstimate) -> int:
    from netfl.learning.batch_limits import max_jobs_at_once

    model, lanes = estimate.parameters + 1, estimate.replicas * len(learners)
    states = _state_numbers(learners, estimate)
    jobs = min(lanes * estimate.max_deliveries, max_jobs_at_once(model))
    numbers = sum(states.values()) + _update_numbers(states, estimate)
    numbers += lanes * (_LANE_MODELS + _BASELINE_MODELS * estimate.has_baseline) * model
    numbers += estimate.workers * _TRAINING_COPIES * model * jobs
    processes = estimate.workers * _PROCESS_BYTES if estimate.workers > 1 else 0
    return estimate.number_bytes * numbers + estimate.example_bytes + processes


def _state_numbers(learners: Mapping[str, LearnerSpec], estimate: MemoryEstimate) -> dict[str, int]:
    """Return the size of the aggregation states of each learner, over all replicas."""
    return {
        name: estimate.replicas * spec.aggregation.memory(estimate.users, estimate.parameters)
        for name, spec in learners.items()
    }


def _update_numbers(states: Mapping[str, int], estimate: MemoryEstimate) -> int:
    """Return the size of the updates of one lane, over all processes."""
    models = (_UPDATE_MODELS + _STATE_MODELS * any(states.values())) * estimate.max_deliveries
    return estimate.workers * models * (estimate.parameters + 1)


def free_memory(device: torch.device) -> int | None:
    """Return the free memory of *device* in bytes; ``None`` if unknown."""
    if device.type != "cuda":
        return available()
    from torch.cuda import mem_get_info

    return int(mem_get_info(device)[0])


def available(system: Path = Path("/")) -> int | None:
    """Return the free memory of this process in bytes; ``None`` if unknown.

    Args:
        system: root of the file system.
    """
    limits = [_cgroup_memory(system / "sys/fs/cgroup", *names) for names in _CGROUPS]
    limits.append(_machine_memory(system / "proc/meminfo"))
    return min((limit for limit in limits if limit is not None), default=None)


def _machine_memory(path: Path) -> int | None:
    """Return the free memory of the machine on Linux, and all its memory elsewhere."""
    try:
        lines = dict(line.split(":") for line in path.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        names = getattr(os, "sysconf_names", {})
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if "SC_PHYS_PAGES" in names else None


def _cgroup_memory(folder: Path, limit: str, used: str, stat: str, reclaimable: str) -> int | None:
    """Return the unused part of a cgroup's limit; ``None`` without a limit."""
    try:
        maximum, current = int((folder / limit).read_text()), int((folder / used).read_text())
        lines = dict(line.split() for line in (folder / stat).read_text().splitlines())
        return maximum - current + int(lines[reclaimable])
    except (OSError, ValueError, KeyError):
        return None
