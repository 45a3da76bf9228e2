"""Learning that a checkpoint can restore: the learners of a run, with the reports that they have given so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.errors import MachineError
from netfl.learning.data import Dataset
from netfl.learning.model_selection import ModelSelection
from netfl.simulation.checkpoints import CheckpointStore
from netfl.types import Divergence, LearnerReport, Round

_GRID = 160


class LearnerProtocol(Protocol):
    """Learners of a run; see `netfl.learning.learner.BatchedLearner`."""

    @property
    def lanes(self) -> Sequence[tuple[str, int]]:
        """Learner and replica of each lane, in the order of a report's arrays."""

    def working(self) -> AbstractContextManager[None]:
        """Set the machine up for this work, and back again after it."""

    def start(self) -> LearnerReport:
        """Evaluate the first version."""

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        """Make the next version of every lane."""

    @property
    def diverged(self) -> Sequence[Divergence]:
        """The lanes whose training has diverged so far."""

    def version(self, lane: int) -> NDArray[np.float64]:
        """Return the current θ and, last, t of a lane."""

    def state(self) -> dict[str, Any]:
        """Return the content of a checkpoint; it may be the learner's own memory, and is valid until the next step."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the content of a checkpoint."""

    def predict(self, lane: int, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the labels of examples."""


class LearningSession:
    """The learning of one run, from its start or from a checkpoint.

    Up to the round of the checkpoint, reports come from the checkpoint, and the rounds are compared with those that it
    was written after.  From the next round on the learners train.

    Args:
        learner: the learners; ``None`` for a trace.
        store: the checkpoints of the run.
        choices: choices among the learners; their metrics follow those of the lanes.

    Raises:
        MachineError: there are checkpoints, and none can be used.
    """

    def __init__(
        self, learner: LearnerProtocol | None, store: CheckpointStore, choices: ModelSelection | None = None
    ) -> None:
        self.learner, self._store, self._choices = learner, store, choices
        self.lanes: tuple[tuple[str, int], ...] = () if learner is None else tuple(learner.lanes)
        if choices is not None:
            self.lanes += choices.lanes
        self.reports: list[LearnerReport] = []
        self._digest = blake2b(digest_size=16)
        self._checkpoint = None if learner is None else store.load()
        with _usable(store):
            self._restored = _unpack(self._checkpoint)

    @property
    def is_trace(self) -> bool:
        """``True`` without learners."""
        return self.learner is None

    @property
    def diverged(self) -> Sequence[Divergence]:
        """The lanes whose training has diverged so far."""
        return () if self.learner is None else self.learner.diverged

    @property
    def checkpoint_round(self) -> int | None:
        """Round of the checkpoint that the run continues from; ``None`` without one."""
        return None if self._checkpoint is None else int(self._checkpoint["round"])

    @property
    def digest(self) -> str:
        """Digest of the rounds so far."""
        return self._digest.hexdigest()

    def restore(self) -> None:
        """Restore the learners from the checkpoint.

        Raises:
            MachineError: the checkpoint does not hold the state of such learners.
        """
        if self.learner is not None and self._checkpoint is not None:
            with _usable(self._store):
                self.learner.restore(self._checkpoint.pop("learner"))

    def start(self) -> LearnerReport:
        """Return the report on version 0."""
        if self.learner is None:
            return LearnerReport(0)
        if self._checkpoint is not None:
            return self._keep(self._restored.get(0) or LearnerReport(0))
        return self._keep(self._with_choices(self.learner.start()))

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        """Return the report after *rounds*, one of each replica.

        Raises:
            MachineError: the rounds are not those that the checkpoint was written after.
        """
        index, last = rounds[0].index, self.checkpoint_round
        if self.learner is None:
            return LearnerReport(index)
        self._digest.update(repr(rounds).encode())
        if last is None or index > last:
            return self._keep(self._with_choices(self.learner.step(rounds)))
        if index == last and self._checkpoint is not None:
            if self._checkpoint["digest"] != self.digest:
                raise MachineError(
                    f"the rounds up to {index} are not those that {self._store.path} was written after: has netfl, a "
                    f"model, the scenario or the machine changed since? {self._store.remedy}"
                )
            self.restore()
        return self._keep(self._restored.get(index) or LearnerReport(index))

    def _with_choices(self, report: LearnerReport) -> LearnerReport:
        if self._choices is None or not report.metrics:
            return report
        return replace(report, metrics=self._choices.extend_metrics(report.metrics))

    def _keep(self, report: LearnerReport) -> LearnerReport:
        if report.metrics or report.answers:
            self.reports.append(report)
        return report


def decision_regions(learner: LearnerProtocol | None, data: Dataset | None) -> dict[str, pd.DataFrame]:
    """Return each learner's labels on a grid, in the first replica, and the test points, for two-dimensional data.

    Returns:
        The tables ``regions`` and ``points``; none for other data.
    """
    if data is None or learner is None or data.test_x.shape[1:] != (2,):
        return {}
    low, high = data.test_x.min(axis=0), data.test_x.max(axis=0)
    edge = 0.15 * (high - low)
    x, y = np.meshgrid(*(np.linspace(low[i] - edge[i], high[i] + edge[i], _GRID) for i in range(2)))
    grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    frames = [
        pd.DataFrame(
            {"learner": name, "replica": 0, "x": grid[:, 0], "y": grid[:, 1], "label": learner.predict(lane, grid)}
        )
        for lane, (name, replica) in enumerate(learner.lanes)
        if replica == 0
    ]
    if not frames:
        return {}
    points = pd.DataFrame({"x": data.test_x[:, 0], "y": data.test_x[:, 1], "label": data.test_y})
    return {"regions": pd.concat(frames, ignore_index=True), "points": points}


@contextmanager
def _usable(store: CheckpointStore) -> Iterator[None]:
    """Name the checkpoint in the error where its content cannot be used."""
    try:
        yield
    except (MachineError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        problem = str(error) if isinstance(error, MachineError) else repr(error)
        raise MachineError(f"{store.path} is of no use to this run: {problem}. {store.remedy}") from error


def _unpack(checkpoint: dict[str, Any] | None) -> dict[int, LearnerReport]:
    """Return the reports in a checkpoint by their rounds: evaluations, and answers to accesses."""
    if checkpoint is None:
        return {}
    from netfl.learning import checkpoint as files

    answers = files.unpack_answers(checkpoint["answers"])
    metrics = {report.round: report.metrics for report in files.unpack(checkpoint["reports"])}
    rounds = metrics.keys() | answers.keys()
    return {index: LearnerReport(index, metrics.get(index, {}), answers.get(index, ())) for index in rounds}
