"""Learners of a run, in this process or in several, with the checkpoints and model versions that are kept of them."""

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
from netfl.types import RunObserver, RunProgress, RunStart

if TYPE_CHECKING:
    from netfl.learning.learner import LearningTask

_LEARNT = {"seed", "users", "data", "partition", "model", "learners", "evaluate", "precision"}
"""Sections of a scenario that learning depends on, besides its rounds."""


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
    setup: RunSetup, device: str, workers: int = 1, cluster: Cluster | None = None, *, learning: bool
) -> Iterator[LearnerProtocol | None]:
    """Build the learners if *learning*, and set the machine up for them."""
    if not learning:
        yield None
        return
    learner = build_learner(setup, device, workers, cluster)
    with learner.working():
        yield learner


def open_session(
    setup: RunSetup, learner: LearnerProtocol | None, folder: Path, command: str = ""
) -> tuple[LearningSession, RunObserver, RunObserver]:
    """Return the learning of a run in *folder*, and the observers that keep its model versions and its checkpoints.

    Args:
        setup: the prepared run.
        learner: the learners; ``None`` for a trace.
        folder: the run directory.
        command: the command that continues the run; by default ``netfl resume``.

    Raises:
        MachineError: there are checkpoints, and none can be used.
    """
    scenario, data = setup.scenario, setup.dataset
    if learner is None:
        return LearningSession(None, CheckpointStore(folder)), RunObserver(), RunObserver()
    facts = scenario.model_dump(mode="json", include=_LEARNT)
    store = CheckpointStore(folder, facts, scenario.checkpoint, command)
    choices = None
    if data is not None and (choose := scenario.evaluation.choose):
        choices = ModelSelection(choose, learner.lanes, [user_weights(data, split) for split in setup.splits])
    session = LearningSession(learner, store, choices)
    snapshots = None
    if scenario.model is not None and data is not None and scenario.versions_kept:
        tokens = None if scenario.data is None else scenario.data.tokens
        layout = scenario.model.open(data.train_x.shape[1:], data.classes, tokens).layout
        trained = {name for name, spec in scenario.learners.items() if spec.objective.has_threshold}
        snapshots = SnapshotWriter(folder, learner, layout, trained, scenario.versions_kept)
    return session, snapshots or RunObserver(), Checkpoints(session, store, snapshots)


class Checkpoints(RunObserver):
    """Observer that writes checkpoints when they are due or a run is stopped, and removes those of a finished run.

    Args:
        session: the learning of the run.
        store: its checkpoints.
        snapshots: the model versions, which a checkpoint must find on the disk.
    """

    def __init__(self, session: LearningSession, store: CheckpointStore, snapshots: SnapshotWriter | None) -> None:
        self._session, self._store, self._snapshots = session, store, snapshots
        self._round = 0

    def on_start(self, start: RunStart) -> None:
        """Discard a damaged checkpoint."""
        self._store.discard_damaged()

    def on_round(self, progress: RunProgress) -> None:
        """Write a checkpoint if it is due."""
        self._round = progress.round
        if self._round > (self._session.checkpoint_round or 0) and self._store.is_due(self._round):
            self._save()

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Write a checkpoint of an interrupted run; remove those of a finished one."""
        if status == "interrupted":
            self._save()
        elif status == "done":
            self._store.remove()
            if self._snapshots is not None:
                self._snapshots.remove_parts()

    def _save(self) -> None:
        learner = self._session.learner
        if learner is None or self._round <= self._store.newest:
            return
        if self._snapshots is not None:
            self._snapshots.sync()
        self._store.save(self._round, self._session.digest, learner.state(), self._session.reports)


def _participation(setup: RunSetup) -> dict[int, NDArray[np.float64]]:
    """Return the participation rates of users, by replica, where the access states them."""
    access = setup.scenario.access
    rates = {
        each.replica: access.participation_rates(each.users, each.streams, each.label_mix) for each in setup.contexts
    }
    return {replica: of_users for replica, of_users in rates.items() if of_users is not None}
