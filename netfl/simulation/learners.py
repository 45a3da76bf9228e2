"""Who learns in a run: the learners of a staged scenario, in this process or in several, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.errors import ScenarioError
from netfl.learning import memory
from netfl.learning.data import Examples
from netfl.learning.model_selection import ModelSelection
from netfl.learning.validation_split import user_weights
from netfl.learning.workers.ray_cluster import Cluster, ray_workers
from netfl.results.model_snapshots import SnapshotWriter
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.learning_session import LearnerProtocol, LearningSession
from netfl.simulation.setup import RunSetup, streams_of

if TYPE_CHECKING:
    from netfl.learning.learner import LearningTask

_LEARNT = {"seed", "users", "data", "partition", "model", "learners", "evaluate", "precision"}
"""The sections of a scenario on which learning depends, beside its rounds."""


def build_learner(
    staged: RunSetup, device: str = "auto", workers: int = 1, cluster: Cluster | None = None
) -> LearnerProtocol:
    """The learners of a staged scenario, at work on *device*, in so many *workers* if these are more than one.

    They are processes of this machine, or actors on *cluster*.

    Raises:
        ScenarioError: there is no such device, or not the memory that they need, on this machine; also with Ray, if
            that starts here.
    """
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.workers.pool import ParallelLearner

    task = _learning_task(staged, device)
    if cluster is None or cluster.address is None:  # nodes elsewhere have other memory and other devices
        _check_memory(staged, task, workers, cluster)
    if cluster is not None:
        return ParallelLearner(workers, task, ray_workers(cluster))
    return ParallelLearner(workers, task) if workers > 1 else BatchedLearner(task)


def _learning_task(staged: RunSetup, device: str) -> LearningTask:
    from netfl.learning.learner import LearningTask
    from netfl.learning.tensors import DTYPES
    from netfl.learning.user_data import ReplicaData

    scenario, dataset = staged.scenario, staged.dataset
    if scenario.model is None or dataset is None:
        raise ValueError("a scenario without a model or data has no learners")
    participation = _participation(staged)
    validation: Sequence[Examples | None] = staged.validation or [None] * len(staged.replicas)
    replicas = [
        ReplicaData(
            replica=replica,
            dataset=dataset,
            split=split,
            streams=streams_of(scenario, replica).at("learning"),
            validation=examples,
            participation=participation.get(replica),
        )
        for replica, split, examples in zip(staged.replicas, staged.splits, validation, strict=True)
    ]
    return LearningTask(
        learners=scenario.learners,
        model=scenario.model,
        replicas=replicas,
        evaluate=scenario.evaluation,
        rounds=scenario.steps,
        rare_classes=scenario.rare_classes,
        feedback_learner=scenario.access.info.learner,
        tokens=None if scenario.data is None else scenario.data.tokens,
        device=device,
        dtype=DTYPES[scenario.precision or "float32"],
    )


def _check_memory(staged: RunSetup, task: LearningTask, workers: int, cluster: Cluster | None) -> None:
    """Refuse learners that do not fit into the memory of this machine.

    Args:
        staged: what is run.
        task: of all lanes.
        workers: maximum number of processes.
        cluster: Ray on this machine, where each worker has its own examples; ``None`` without Ray.

    Raises:
        ScenarioError: the learners do not fit.
    """
    from netfl.learning.tensors import device_of
    from netfl.learning.workers.sharding import shard_lanes

    scenario, number_bytes = staged.scenario, task.dtype.itemsize
    data = task.replicas[0].dataset
    where = device_of("cpu" if cluster is not None and not cluster.gpus else task.device)
    processes = len(shard_lanes(len(scenario.learners), len(staged.replicas), workers))
    copies = processes if cluster is not None else int(where.type != "cpu" or number_bytes != data.train_x.itemsize)
    estimate = memory.MemoryEstimate(
        users=scenario.users,
        max_deliveries=scenario.access.max_deliveries(scenario.users, scenario.steps),
        parameters=task.model.parameters(data.train_x.shape[1:], data.classes, task.tokens),
        replicas=len(staged.replicas),
        workers=processes,
        has_baseline="weight_divergence" in scenario.evaluation.metrics,
        example_bytes=copies * number_bytes * (data.train_x.size + data.test_x.size),
        number_bytes=number_bytes,
    )
    try:
        memory.check_memory(scenario.learners, estimate, memory.free_memory(where))
    except ScenarioError as error:
        raise ScenarioError(scenario.located(error.faults)) from None


@contextmanager
def open_learner(
    staged: RunSetup, device: str, workers: int = 1, cluster: Cluster | None = None, *, learning: bool
) -> Iterator[LearnerProtocol | None]:
    """The learners at work, if they are to learn."""
    if not learning:
        yield None
        return
    learner = build_learner(staged, device, workers, cluster)
    with learner.working():
        yield learner


def open_session(staged: RunSetup, learner: LearnerProtocol | None, folder: Path, again: str = "") -> LearningSession:
    """The lessons of a run in *folder*, with the checkpoints, choices and versions that its scenario asks for.

    Args:
        staged: what is run.
        learner: who learns; ``None`` for a trace.
        folder: the run directory.
        again: the command that goes on with the run; by default ``netfl resume``.

    Raises:
        MachineError: there are checkpoints, and no one can go on from them.
    """
    if learner is None:
        return LearningSession(None, CheckpointStore(folder))
    scenario = staged.scenario
    keeper = CheckpointStore(folder, scenario.model_dump(mode="json", include=_LEARNT), scenario.checkpoint, again)
    return LearningSession(learner, keeper, _choices(staged, learner), _album(staged, learner, folder))


def _participation(staged: RunSetup) -> dict[int, NDArray[np.float64]]:
    """In what share of the rounds users are heard, by replica, where the access states it."""
    access, settings = staged.scenario.access, staged.settings
    stated = {one.replica: access.participation_rates(one.users, one.streams, one.label_mix) for one in settings}
    return {replica: rates for replica, rates in stated.items() if rates is not None}


def _choices(staged: RunSetup, learner: LearnerProtocol | None) -> ModelSelection | None:
    """The choices among learners that the scenario asks for."""
    choose = staged.scenario.evaluation.choose
    if learner is None or staged.dataset is None or not choose:
        return None
    return ModelSelection(choose, learner.lanes, [user_weights(staged.dataset, split) for split in staged.splits])


def _album(staged: RunSetup, learner: LearnerProtocol | None, folder: Path) -> SnapshotWriter | None:
    """Where versions are kept, if that is wanted."""
    scenario = staged.scenario
    if learner is None or scenario.model is None or staged.dataset is None or not scenario.versions_kept:
        return None
    data = staged.dataset
    tokens = None if scenario.data is None else scenario.data.tokens
    layout = scenario.model.open(data.train_x.shape[1:], data.classes, tokens).layout
    trained = {name for name, one in scenario.learners.items() if one.objective.has_threshold}
    return SnapshotWriter(folder, learner.lanes, layout, trained, scenario.versions_kept)
