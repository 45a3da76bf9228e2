"""Who learns in a run: the learners of a staged scenario, in this process or in several, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.cluster import Cluster
from netfl.errors import ScenarioError
from netfl.keeping import Keeper
from netfl.learning import memory
from netfl.learning.choosing import Choices
from netfl.learning.validation import weights
from netfl.lessons import Learning, Lessons
from netfl.staging import Stage, streams_of
from netfl.versionfile import Album

_LEARNT = {"seed", "users", "data", "partition", "model", "learners", "evaluate", "precision"}
"""The sections of a scenario on which learning depends, beside its rounds."""


def learner_of(staged: Stage, device: str = "auto", workers: int = 1, cluster: Cluster | None = None) -> Learning:
    """The learners of a staged scenario, at work on *device*, in so many *workers* if these are more than one.

    They are processes of this machine, or actors on *cluster*.

    Raises:
        ScenarioError: there is no such device, or not the memory that they need, on this machine; also with Ray, if
            that starts here.
    """
    from netfl.learning.learner import Learner  # noqa: PLC0415 - torch
    from netfl.learning.team import Team  # noqa: PLC0415
    from netfl.learning.tensors import DTYPES  # noqa: PLC0415

    scenario = staged.scenario
    if scenario.model is None or staged.dataset is None:
        raise ValueError("a scenario without a model or data has no learners")
    said: dict[str, Any] = {  # as keywords
        "learners": scenario.learners,
        "model": scenario.model,
        "datasets": [staged.dataset] * len(staged.replicas),
        "splits": staged.splits,
        "evaluate": scenario.evaluation,
        "rare_classes": scenario.rare_classes,
        "validation": staged.validation,
        "rounds": scenario.steps,
        "streams": [streams_of(scenario, replica).at("learning") for replica in staged.replicas],
        "heard": _heard(staged),
        "device": device,
        "first": staged.replicas.start,
        "follows": scenario.access.follows,
        "tokens": None if scenario.data is None else scenario.data.tokens,
        "dtype": DTYPES[scenario.precision or "float32"],
    }
    if cluster is None or cluster.address is None:  # nodes elsewhere have other memory and other devices
        _check_memory(staged, said, device, workers, cluster)
    if cluster is not None:
        from netfl.learning.actors import on  # noqa: PLC0415

        return Team(workers, said, on(cluster))
    return Team(workers, said) if workers > 1 else Learner(**said)


def _check_memory(staged: Stage, said: Mapping[str, Any], device: str, workers: int, cluster: Cluster | None) -> None:
    """Refuse learners that do not fit into the memory of this machine.

    Args:
        staged: what is run.
        said: what a learner of all lanes is made with.
        device: what they compute on.
        workers: how many processes they learn in, at most.
        cluster: Ray on this machine, whose workers have the examples each for itself; ``None`` without Ray.

    Raises:
        ScenarioError: they do not fit.
    """
    from netfl.learning.parts import cut  # noqa: PLC0415
    from netfl.learning.tensors import device_of  # noqa: PLC0415

    scenario, number = staged.scenario, said["dtype"].itemsize
    data, where = said["datasets"][0], device_of("cpu" if cluster is not None and not cluster.gpus else device)
    processes = len(cut(len(scenario.learners), len(staged.replicas), workers))
    copies = processes if cluster is not None else int(where.type != "cpu" or number != data.train_x.itemsize)
    load = memory.Load(
        users=scenario.users,
        most=scenario.access.most(scenario.users, scenario.steps),
        parameters=said["model"].parameters(data.train_x.shape[1:], data.classes, said["tokens"]),
        replicas=len(staged.replicas),
        workers=processes,
        twins="weight_divergence" in scenario.evaluation.metrics,
        examples=copies * number * (data.train_x.size + data.test_x.size),
        number=number,
    )
    try:
        memory.check(scenario.learners, load, memory.free(where))
    except ScenarioError as error:
        raise ScenarioError(scenario.located(error.faults)) from None


@contextmanager
def school(
    staged: Stage, device: str, workers: int = 1, cluster: Cluster | None = None, *, learning: bool
) -> Iterator[Learning | None]:
    """The learners at work, if they are to learn."""
    if not learning:
        yield None
        return
    learner = learner_of(staged, device, workers, cluster)
    with learner.working():
        yield learner


def lessons_of(staged: Stage, learner: Learning | None, folder: Path, again: str = "") -> Lessons:
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
        return Lessons(None, Keeper(folder))
    scenario = staged.scenario
    keeper = Keeper(folder, scenario.model_dump(mode="json", include=_LEARNT), scenario.checkpoint, again)
    return Lessons(learner, keeper, _choices(staged, learner), _album(staged, learner, folder))


def _heard(staged: Stage) -> dict[int, NDArray[np.float64]]:
    """In what share of the rounds users are heard, by replica, where the access states it."""
    access, settings = staged.scenario.access, staged.settings
    stated = {one.replica: access.heard_rates(one.users, one.streams, one.label_mix) for one in settings}
    return {replica: rates for replica, rates in stated.items() if rates is not None}


def _choices(staged: Stage, learner: Learning | None) -> Choices | None:
    """The choices among learners that the scenario asks for."""
    choose = staged.scenario.evaluation.choose
    if learner is None or staged.dataset is None or not choose:
        return None
    return Choices(choose, learner.lanes, [weights(staged.dataset, split) for split in staged.splits])


def _album(staged: Stage, learner: Learning | None, folder: Path) -> Album | None:
    """Where versions are kept, if that is wanted."""
    scenario = staged.scenario
    if learner is None or scenario.model is None or staged.dataset is None or not scenario.versions_kept:
        return None
    data = staged.dataset
    tokens = None if scenario.data is None else scenario.data.tokens
    layout = scenario.model.open(data.train_x.shape[1:], data.classes, tokens).layout
    trained = {name for name, one in scenario.learners.items() if one.objective.has_threshold}
    return Album(folder, learner.lanes, layout, trained, scenario.versions_kept)
