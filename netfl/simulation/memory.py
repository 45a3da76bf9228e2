"""Memory that a run needs, estimated before it starts, and memory that is free; see docs/running.md."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from netfl.errors import Fault, ScenarioError
from netfl.learning.codec import WHOLE, Codecs
from netfl.learning.device_store import rows_in_memory
from netfl.learning.payload import personal_numbers
from netfl.results.formatting import format_disk
from netfl.results.tables import CHUNK, STREAM_BYTES

if TYPE_CHECKING:
    from netfl.learning.data import Dataset
    from netfl.learning.spec import LearnerSpec
    from netfl.scenario.scenario import Scenario
    from netfl.simulation.workers.ray_cluster import Cluster

_RUN_BYTES = 150e6
"""Memory of the process without learning (docs/background/scale.md)."""
_LEARNING_RUN_BYTES = 450e6
"""Memory of the process with learning."""
_USER_BYTES = 400
"""Memory of each user in each replica without learning."""
_LEARNING_USER_BYTES = 2000
"""Memory of each user in each replica with learning."""
_REPLICA_BYTES = 40e3
"""Memory of each replica: its context, its random streams and its recorder."""
_ROUND_BYTES = 40
"""Memory of each round in each replica: its end, its costs, and room to grow."""
_DELIVERY_BYTES = 24
"""Memory of each delivery: its delay, and a copy while quantiles are computed."""
_ROW_BYTES = 1000
"""Memory of each recorded row until it is written: its numbers, its words, and copies while it is sorted."""
_CLOSING_ROW_BYTES = 200
"""Memory of each further row of an open round, which is in columns already."""
_ROUND_DISK_BYTES = 32
"""Smallest disk space of a round: its two times, in the table and in its stream."""
_REPLICA_DISK_BYTES = 2 * STREAM_BYTES
"""Smallest disk space of a replica: the streams of its rounds and of their deliveries or events."""
_LANE_MODELS = 6
"""Models of a lane beside the state of its aggregation: two versions, their messages, and a copy of each."""
_BASELINE_MODELS = 2
"""Models of a lane with a centralized baseline: the baseline and its result."""
_SENT_MODELS = 2
"""Models of a lane with a codec of broadcasts: the newest version as the server has it, and a copy."""
_NODE_MODELS = 2
"""Models of a lane for each node that merges below the server: its newest version, and the one before it."""
_UPDATE_MODELS = 3
"""Models of each delivered user of a lane: its own, its base, its change."""
_STATE_MODELS = 2
"""Two more if the aggregation keeps a state of users: the old and the new entry."""
_TRAINING_COPIES = 6
"""Copies of the models that train at once: at the start, during training, before a step, and so on."""
_CODING_COPIES = 6
"""Further copies of the models that train at once with a codec: change, draws and their words, result."""
_OWN_MODELS = 3
"""Models of each user while own models of a lane are evaluated: kept, before and after fine-tuning."""
_WORKER_BYTES = 300 << 20
"""Memory of an idle worker; a run in one process needs no further process."""


@dataclass(frozen=True, slots=True)
class _ControlGroup:
    """Files of a Linux control group, relative to the folder of control groups.

    Args:
        limit: the file with the limit, in bytes.
        usage: the file with the used bytes.
        statistics: the file with the kinds of memory.
        reclaimable: the kind of memory that is used but can be freed.
    """

    limit: str
    usage: str
    statistics: str
    reclaimable: str

    def free_bytes(self, folder: Path) -> int | None:
        """Return the unused part of the limit; ``None`` without a limit."""
        try:
            limit = int((folder / self.limit).read_text())
            usage = int((folder / self.usage).read_text())
            statistics = dict(line.split() for line in (folder / self.statistics).read_text().splitlines())
            return limit - usage + int(statistics[self.reclaimable])
        except (OSError, ValueError, KeyError):
            return None


_CONTROL_GROUPS = (
    _ControlGroup(  # version 2
        limit="memory.max",
        usage="memory.current",
        statistics="memory.stat",
        reclaimable="inactive_file",
    ),
    _ControlGroup(  # version 1
        limit="memory/memory.limit_in_bytes",
        usage="memory/memory.usage_in_bytes",
        statistics="memory/memory.stat",
        reclaimable="total_inactive_file",
    ),
)


@dataclass(frozen=True)
class MemoryEstimate:
    """Estimate of the memory that learning needs, on the device that trains: one formula for each holder.

    With b bytes for a number, n = parameters + 1 numbers in a model, L lanes, W workers and at most D deliveries in a
    round of a replica, these are

    - versions: b · n · L · 6, with 2 more each for a baseline and for a codec of broadcasts, 2 for each node that
      merges below the server, and the older versions that users may need: one for each user of each replica, or each
      round if these are fewer, if a learner's users start from the version of their last participation; and one for
      each round if a learner has ``on_loss: keep``, as a user that is never delivered may need all of them;
    - states: what the aggregations keep of users, in all lanes, at the server and at each of these nodes;
    - memory of the devices: b · L · N · θ for N users with a codec that has an error feedback, and for each lane what
      its rule of devices keeps, or a model of each user with ``base: own``;
    - updates, one lane at a time in each worker: b · n · W · D · 3, or 5 with states;
    - training: b · n · W · 6 · J, or 12 with a codec, where J ≤ L · D models train at once;
    - the evaluation of own models, one lane at a time in each worker: b · n · W · N · 3;
    - examples, where they are copied, and worker processes.

    Of the rows that devices keep, there are no more than the deliveries of all planned rounds fill.

    It does not count the activations of a step, older versions from which users still train, the copy of a lane's rows
    while their table grows, and, in one process, examples and checkpoints, which are not copied.

    Args:
        learners: the learners.
        users: number of users.
        max_deliveries: maximum number of deliveries in one round of a replica.
        parameters: size of θ.
        replicas: number of replicas that learn at once.
        workers: number of processes.
        has_baseline: whether each lane has a centralized baseline.
        example_bytes: size of copies of the examples.
        number_bytes: size of a parameter.
        gpu_bytes: free memory of the GPU that trains, which trains more models at once; ``None`` for a CPU.
        codecs: of updates and of broadcasts.
        nodes: number of nodes that merge below the server.
        rounds: number of rounds; ``None`` if it is unknown.
        personal: numbers of the layers that stay on a device, by the name of the learner.
        evaluates_own_models: whether the devices' own models are evaluated.
    """

    learners: Mapping[str, LearnerSpec]
    users: int
    max_deliveries: int
    parameters: int
    replicas: int
    workers: int = 1
    has_baseline: bool = False
    example_bytes: int = 0
    number_bytes: int = 4
    gpu_bytes: int | None = None
    codecs: Codecs = WHOLE
    nodes: int = 0
    rounds: float | None = None
    personal: Mapping[str, int] = field(default_factory=dict)
    evaluates_own_models: bool = False

    @classmethod
    def of(cls, scenario: Scenario, shape: tuple[int, ...], classes: int, replicas: int) -> MemoryEstimate:
        """Return the estimate for one process, with examples of a *shape* and a number of *classes*."""
        assert scenario.model is not None
        assert scenario.data is not None
        number_bytes = 4
        if scenario.precision == "float64":
            number_bytes = 8
        return cls(
            learners=scenario.learners,
            users=scenario.users,
            max_deliveries=scenario.access.max_deliveries(scenario.users, scenario.steps),
            parameters=scenario.model.parameters(shape, classes, scenario.data.tokens),
            replicas=replicas,
            has_baseline="weight_divergence" in scenario.evaluation.metrics,
            number_bytes=number_bytes,
            codecs=scenario.codecs,
            nodes=scenario.access.merging_nodes(scenario.users),
            rounds=scenario.planned_rounds,
            personal={
                name: personal_numbers(learner, scenario.model, scenario.data).all
                for name, learner in scenario.learners.items()
                if learner.device is not None
            },
            evaluates_own_models="own_models" in scenario.evaluation.metrics,
        )

    @property
    def total_bytes(self) -> int:
        """Sum of the bytes of all holders."""
        learning_bytes = self.version_bytes + self.state_bytes + self.update_bytes + self.training_bytes
        learning_bytes += self.device_bytes + self.own_evaluation_bytes
        return learning_bytes + self.example_bytes + self.process_bytes

    @property
    def version_bytes(self) -> int:
        """Bytes of the versions of all lanes, of their messages and baselines, and of copies."""
        models = _LANE_MODELS  # of each lane
        if self.has_baseline:
            models += _BASELINE_MODELS
        if self.codecs.down is not None:
            models += _SENT_MODELS
        models += _NODE_MODELS * self.nodes
        models += self._old_versions
        return self._model_bytes * self._lanes * models

    @property
    def old_version_bytes(self) -> int:
        """Bytes of older versions that users may need, as a part of `version_bytes`."""
        return self._model_bytes * self._lanes * self._old_versions

    @property
    def state_bytes(self) -> int:
        """Bytes of the aggregations' states of users."""
        numbers = 0  # of a replica
        for spec in self.learners.values():
            users = self.users
            if spec.aggregation.has_device_rows:
                users = self._kept_rows
            numbers += spec.aggregation.memory(users, self.parameters)
        return self.number_bytes * self.replicas * (1 + self.nodes) * numbers

    @property
    def device_bytes(self) -> int:
        """Bytes of what the devices remember of their last updates."""
        numbers = 0  # of a user in all learners
        if self.codecs.up is not None and self.codecs.up.has_error_feedback:
            numbers += len(self.learners) * self.parameters
        for name, spec in self.learners.items():
            if spec.base == "own":
                numbers += self.parameters + 1
            if spec.device is not None:
                numbers += spec.device.kept_numbers(self.parameters, self.personal.get(name, 0))
        return self.number_bytes * self.replicas * self._kept_rows * numbers

    @property
    def update_bytes(self) -> int:
        """Bytes of the updates that are delivered in one round of a lane, in all processes."""
        models = _UPDATE_MODELS  # of each delivered user
        if self.state_bytes > 0:
            models += _STATE_MODELS
        return self._model_bytes * self.workers * self.max_deliveries * models

    @property
    def training_bytes(self) -> int:
        """Bytes of the models that train at once, in all processes."""
        from netfl.learning.batch_limits import gpu_numbers_at_once, max_jobs_at_once

        numbers = None
        if self.gpu_bytes is not None:
            numbers = gpu_numbers_at_once(self.gpu_bytes, self.number_bytes)
        jobs = min(self._lanes * self.max_deliveries, max_jobs_at_once(self.parameters + 1, numbers))  # J
        copies = _TRAINING_COPIES
        if self.codecs.up is not None:
            copies += _CODING_COPIES
        return self._model_bytes * self.workers * copies * jobs

    @property
    def own_evaluation_bytes(self) -> int:
        """Bytes of the models of all users of a lane that are evaluated, in all processes."""
        if not self.evaluates_own_models:
            return 0
        return self._model_bytes * self.workers * _OWN_MODELS * self.users

    @property
    def process_bytes(self) -> int:
        """Bytes of the worker processes; none if there is one process, or if the models are on a GPU."""
        if self.workers == 1 or self.gpu_bytes is not None:
            return 0
        return self.workers * _WORKER_BYTES

    @property
    def _kept_rows(self) -> int:
        """Rows for which a table of the devices has memory, at most."""
        if self.rounds is None:
            return self.users
        return rows_in_memory(self.users, self.rounds * self.max_deliveries)

    @property
    def _old_versions(self) -> int:
        """Versions, at most, that users may need because of bases or of trainings in vain."""
        of_users = self.replicas * self.users  # one of each
        learners = self.learners.values()
        if any(spec.on_loss == "keep" for spec in learners):  # all in which a user has trained since its last delivery
            return of_users if self.rounds is None else int(self.rounds)
        if any(spec.base == "last_participation" for spec in learners):
            return of_users if self.rounds is None else min(of_users, int(self.rounds))
        return 0

    @property
    def _lanes(self) -> int:
        return self.replicas * len(self.learners)

    @property
    def _model_bytes(self) -> int:
        """Bytes of θ and t."""
        return self.number_bytes * (self.parameters + 1)


def estimate_memory(
    scenario: Scenario,
    max_deliveries: int | None = None,
    mean_deliveries: float = 0.0,
    rounds: float | None = None,
) -> float:
    """Estimate the bytes that a run of *scenario* in one process needs, without those on a GPU if there is one.

    Args:
        scenario: the scenario to run.
        max_deliveries: largest number of deliveries in a round of a replica; by default the largest possible one.
        mean_deliveries: mean number of deliveries in a round of a replica.
        rounds: number of rounds; by default that of the scenario, or 0 where it does not state one.
    """
    if rounds is None:
        rounds = scenario.planned_rounds or 0
    needed = _RUN_BYTES
    if scenario.learners:
        needed = _LEARNING_RUN_BYTES
    needed += sum(_bytes_before_loading(scenario, rounds, learning=True).values())
    needed += _DELIVERY_BYTES * mean_deliveries * rounds * scenario.replicas
    if scenario.model is None or scenario.data is None:
        return needed
    from netfl.learning.tensors import device_of, runs_on_gpu

    if runs_on_gpu(device_of("auto")):  # which holds the learners
        return needed
    estimate = MemoryEstimate.of(scenario, scenario.data.shape, scenario.data.classes, scenario.replicas)
    if max_deliveries is not None:
        estimate = replace(estimate, max_deliveries=max_deliveries)
    return needed + estimate.total_bytes


def recording_bytes(rows: float, round_rows: float) -> float:
    """Return the memory of *rows* that are recorded, *round_rows* of them in each round of all replicas."""
    return _ROW_BYTES * min(rows, CHUNK) + _CLOSING_ROW_BYTES * max(0.0, round_rows - CHUNK)


def check_disk(scenario: Scenario, folder: Path) -> None:
    """Refuse a run of which not even the times of its rounds fit on the disk of *folder*.

    Raises:
        ScenarioError: the run does not fit.
    """
    free = shutil.disk_usage(folder).free
    known_rounds = scenario.planned_rounds or 0
    needs = {"rounds": _ROUND_DISK_BYTES * known_rounds, "replicas": _REPLICA_DISK_BYTES}
    for key, of_replica in needs.items():
        needed = of_replica * scenario.replicas
        if needed > free:
            problem = f"they need at least {format_disk(needed)} of disk, but {format_disk(free)} are available"
            remedy = f"use fewer {key}, or free some space"
            raise ScenarioError(scenario.located([Fault(key, problem, None, remedy)]))


def check_before_loading(scenario: Scenario, *, learning: bool) -> None:
    """Refuse a run whose users, rounds, replicas or generated examples do not fit into memory.

    Raises:
        ScenarioError: the run does not fit.
    """
    free = available()
    remedies = {
        "users": "use fewer users or replicas",
        "rounds": "use fewer rounds or replicas",
        "replicas": "use fewer replicas",
        "data": "use fewer examples",
    }
    rounds = scenario.planned_rounds or 0  # a duration states none, and the dry run estimates them
    for key, needed in _bytes_before_loading(scenario, rounds, learning=learning).items():
        if free is not None and needed > free:
            problem = f"they need {format_memory(needed)} of memory, but {format_memory(free)} are available"
            raise ScenarioError(scenario.located([Fault(key, problem, None, remedies[key])]))


def _bytes_before_loading(scenario: Scenario, rounds: float, *, learning: bool) -> dict[str, float]:
    """Return the bytes of the users, *rounds*, replicas and generated examples, by the key of the scenario."""
    user_bytes = _USER_BYTES
    if learning and scenario.learners:
        user_bytes = _LEARNING_USER_BYTES
    needed = {
        "users": float(user_bytes) * scenario.users * scenario.replicas,
        "rounds": float(_ROUND_BYTES) * rounds * scenario.replicas,
        "replicas": _REPLICA_BYTES * scenario.replicas,
    }
    if scenario.data is not None and (learning or scenario.access.info.needs_data):
        needed["data"] = scenario.data.memory
    return needed


def check_learners(
    scenario: Scenario, data: Dataset, replicas: int, device: str, workers: int, cluster: Cluster | None
) -> None:
    """Refuse learners that do not fit into the memory of this machine, or of its GPU if they train there.

    Args:
        scenario: the scenario of the run.
        data: its examples.
        replicas: number of replicas that the run has.
        device: of the learners.
        workers: maximum number of processes.
        cluster: Ray on this machine, where each worker has its own examples; ``None`` without Ray.

    Raises:
        ScenarioError: the learners do not fit.
    """
    from netfl.learning.sharding import shard_lanes
    from netfl.learning.tensors import device_of, free_gpu_memory, runs_on_gpu

    # the memory that the learners can use
    if cluster is not None and not cluster.gpus:  # the workers have no GPU
        device = "cpu"
    training_device = device_of(device)
    gpu_bytes = None
    kind = "memory"
    free = available()
    if runs_on_gpu(training_device):
        gpu_bytes = free_gpu_memory(training_device)
        kind = "GPU memory"
        free = gpu_bytes

    # the memory that they need
    estimate = MemoryEstimate.of(scenario, data.train_x.shape[1:], data.classes, replicas)
    processes = len(shard_lanes(len(scenario.learners), replicas, workers))
    if cluster is not None or gpu_bytes is not None:  # each process has its own examples
        copies = processes
    elif estimate.number_bytes != data.train_x.itemsize:  # examples of another precision are converted once
        copies = 1
    else:
        copies = 0
    numbers = data.train_x.size + data.test_x.size + sum(examples.x.size for examples in data.test_sets.values())
    example_bytes = copies * estimate.number_bytes * numbers
    needed = replace(estimate, workers=processes, example_bytes=example_bytes, gpu_bytes=gpu_bytes)

    if free is not None and needed.total_bytes > free:
        problem = (
            f"they need {format_memory(needed.total_bytes)} of {kind}, but {format_memory(free)} are available: for "
            f"{needed.users} users and {needed.parameters:,} parameters the aggregations keep "
            f"{format_memory(needed.state_bytes)} for users, and the updates of up to {needed.max_deliveries} users in "
            f"one round take {format_memory(needed.update_bytes)}"
        )
        if needed.old_version_bytes:
            problem += f"; versions that users may still need take up to {format_memory(needed.old_version_bytes)}"
        if needed.device_bytes:
            problem += f"; devices keep {format_memory(needed.device_bytes)} for their next updates"
        remedy = "use fewer workers, replicas, learners or users, a smaller model, or fewer deliveries in a round"
        raise ScenarioError(scenario.located([Fault("learners", problem, None, remedy)]))


def format_memory(size: float) -> str:
    """Format a number of bytes in GB."""
    return f"{size / 1e9:,.3g} GB"


def available(system: Path = Path("/")) -> int | None:
    """Return the free memory of this process in bytes, by the files below *system*; ``None`` if unknown."""
    limits = [group.free_bytes(system / "sys/fs/cgroup") for group in _CONTROL_GROUPS]
    limits.append(_machine_memory(system / "proc/meminfo"))
    limits.append(_address_space(system / "proc/self/statm"))
    return min((limit for limit in limits if limit is not None), default=None)


def _address_space(path: Path) -> int | None:
    """Return what a limit of this process, as of ``ulimit -v``, leaves; ``None`` without a limit, or if unknown."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    try:
        used = int(path.read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - used)


def _machine_memory(path: Path) -> int | None:
    """Return the free memory of the machine on Linux, and all its memory elsewhere."""
    try:
        lines = dict(line.split(":") for line in path.read_text(encoding="ascii").splitlines())
        return int(lines["MemAvailable"].split()[0]) << 10  # from KiB
    except (OSError, ValueError, KeyError):
        if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):  # Windows
            return None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
