"""Learners of a run, in this process or in several, with the checkpoints and model versions that are kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netfl.learning.blocks import members_by_block
from netfl.learning.data import Dataset, Examples
from netfl.learning.model_selection import ModelSelection
from netfl.learning.validation_split import user_weights
from netfl.results.model_snapshots import SnapshotWriter, VersionLayout
from netfl.simulation import memory
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.learning_session import LearningSession
from netfl.simulation.setup import RunSetup, locate_faults
from netfl.simulation.workers.process import check_workers, process_workers
from netfl.simulation.workers.ray_cluster import Cluster, ray_workers

if TYPE_CHECKING:
    from netfl.learning.learner import LearningTask
    from netfl.simulation.learning_session import Learner

_LEARNT = {
    "seed", "users", "replicas", "data", "partition", "model", "learners", "codec", "codec_down", "evaluate",
    "precision",
}  # fmt: skip
"""Sections of a scenario that learning depends on, besides its rounds."""
_GRID = 160
"""Points of the grid of `decision_regions` on each axis."""
_MARGIN = 0.15
"""Width of the grid beyond the examples, relative to their range."""


def build_learner(setup: RunSetup, device: str = "auto", workers: int | Cluster = 1) -> Learner:
    """Build the learners of a prepared run.

    Args:
        setup: the prepared run.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        workers: maximum number of processes that share the lanes, with 1 this process alone; or a cluster.

    Raises:
        ScenarioError: there is no such device, or not the memory that they need, on this machine; also with Ray, if
            that starts here.
    """
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.parallel_learner import ParallelLearner

    task = _learning_task(setup, device)
    assert setup.dataset is not None  # as there is a task
    check_memory = partial(memory.check_learners, setup.scenario, setup.dataset, len(setup.replicas), device)
    if isinstance(workers, Cluster):
        count = workers.workers or 1
        if workers.address is None:  # nodes elsewhere have other memory and other devices
            check_memory(count, workers)
        return ParallelLearner(count, task, partial(ray_workers, workers))
    check_memory(workers, None)
    if workers > 1:
        return ParallelLearner(workers, task, process_workers)
    with locate_faults(setup.scenario, ""):
        return BatchedLearner(task)


def _learning_task(setup: RunSetup, device: str) -> LearningTask:
    """Return the inputs of the learners of all replicas."""
    from netfl.learning.learner import LearningTask
    from netfl.learning.tensors import DTYPES
    from netfl.learning.user_data import ReplicaData

    scenario = setup.scenario
    if scenario.model is None or scenario.data is None or setup.dataset is None:
        raise ValueError("a scenario without a model or data has no learners")
    validation: Sequence[Examples | None] = setup.validation or [None] * len(setup.replicas)
    replicas = [
        ReplicaData(
            replica=context.replica,
            dataset=examples_of_users,
            split=split,
            streams=scenario.streams_of(context.replica).at("learning"),
            validation=examples,
            participation=scenario.access.participation_rates(context.users, context.streams, context.label_mix),
        )
        for context, examples_of_users, split, examples in zip(
            setup.contexts, setup.datasets, setup.splits, validation, strict=True
        )
    ]
    products = None
    if scenario.precision in {"tf32", "bf16"}:  # the precision of products alone
        products = scenario.precision
    return LearningTask(
        learners=scenario.learners,
        model=scenario.model,
        replicas=replicas,
        codecs=scenario.codecs,
        loses_parts=scenario.access.info.can_erase,
        has_nodes=scenario.access.merging_nodes(scenario.users) > 0,
        evaluate=scenario.evaluation,
        rounds=scenario.steps,
        rare_classes=scenario.rare_classes,
        feedback_learner=scenario.access.info.learner,
        tokens=scenario.data.tokens,
        device=device,
        dtype=DTYPES[scenario.precision or "float32"],
        products=products,
    )


@contextmanager
def open_learner(
    setup: RunSetup, device: str, workers: int | Cluster = 1, *, learning: bool
) -> Iterator[Learner | None]:
    """Build the learners if *learning*, and set the machine up for them.

    Raises:
        ScenarioError: *workers* is not a number of processes, or an error of `build_learner`.
    """
    if not isinstance(workers, Cluster):
        check_workers(workers)
    if not learning:
        yield None
        return
    learner = build_learner(setup, device, workers)
    with learner.working():
        yield learner


def open_session(
    setup: RunSetup, learner: Learner | None, folder: Path, command: str
) -> tuple[LearningSession, SnapshotWriter | None]:
    """Return the learning of a run in *folder*, and the writer of its model versions if they are kept.

    Args:
        setup: the prepared run.
        learner: the learners; ``None`` for a trace.
        folder: the run directory.
        command: the command that continues the run.

    Raises:
        MachineError: there are checkpoints, and none can be used.
    """
    if learner is None:
        return LearningSession(None, CheckpointStore(folder)), None
    scenario = setup.scenario
    dataset = setup.dataset
    assert scenario.model is not None
    assert scenario.data is not None
    assert dataset is not None
    choices = None
    if scenario.evaluation.choose:
        weights = [user_weights(*each) for each in zip(setup.datasets, setup.splits, strict=True)]
        members = [members_by_block(each.blocks, scenario.users) for each in setup.datasets]
        choices = ModelSelection(scenario.evaluation.choose, learner.lanes, weights, members)
    snapshots = None
    if scenario.versions_kept:
        model = scenario.model.open(dataset.train_x.shape[1:], dataset.classes, scenario.data.tokens)
        constants = {name: tensor.cpu().numpy() for name, tensor in model.constants.items()}
        layout = VersionLayout(model.layout, constants, model.tied)
        with_trained_t = {name for name, spec in scenario.learners.items() if spec.objective.t_rate > 0}
        snapshots = SnapshotWriter(folder, learner, layout, with_trained_t, scenario.versions_kept)
    facts = scenario.model_dump(mode="json", include=_LEARNT)
    store = CheckpointStore(folder, facts, scenario.checkpoint, command)
    return LearningSession(learner, store, choices, snapshots), snapshots


def decision_regions(learner: Learner | None, data: Dataset | None) -> dict[str, pd.DataFrame]:
    """Return each learner's labels on a grid, in the first replica, and the test points, for two-dimensional data.

    Returns:
        The tables ``regions`` and ``points``; none for other data.
    """
    if data is None or learner is None or data.is_regression or data.test_x.shape[1:] != (2,):
        return {}
    low = data.test_x.min(axis=0)
    high = data.test_x.max(axis=0)
    margin = _MARGIN * (high - low)
    axes = [np.linspace(start, end, _GRID) for start, end in zip(low - margin, high + margin, strict=True)]
    x, y = np.meshgrid(*axes)
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    regions = []
    for lane, (name, replica) in enumerate(learner.lanes):
        if replica == 0:
            labels = learner.predict(lane, grid)
            columns = {"learner": name, "replica": 0, "x": grid[:, 0], "y": grid[:, 1], "label": labels}
            regions.append(pd.DataFrame(columns))
    if not regions:
        return {}
    points = pd.DataFrame({"x": data.test_x[:, 0], "y": data.test_x[:, 1], "label": data.test_y})
    return {"regions": pd.concat(regions, ignore_index=True), "points": points}
