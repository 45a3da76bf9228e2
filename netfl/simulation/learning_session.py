"""Learning that can be stopped: a learner, what it has reported so far, and the checkpoint that keeps both."""

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
from netfl.results.model_snapshots import SnapshotWriter
from netfl.simulation.checkpoints import CheckpointStore
from netfl.types import Divergence, LearnerReport, Round

_GRID = 160


class LearnerProtocol(Protocol):
    """What a run needs of a learner; see `netfl.learning.learner.BatchedLearner`."""

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
        """The current θ and, last, t of a lane."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps; it may be the learner's own memory, and holds until its next step."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a kept state."""

    def predict(self, lane: int, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """Labels of examples."""


class LearningSession:
    """The learning of one run.

    Rounds that a checkpoint already covers are answered from it, and held against the rounds that it saw; the first
    round after them is learned as if nothing had happened.

    Args:
        learner: who learns; ``None`` for a trace.
        keeper: of its checkpoints.
        choices: among the learners; their figures stand behind those of the lanes.
        album: where versions are kept; ``None`` for nowhere.
    """

    def __init__(
        self,
        learner: LearnerProtocol | None,
        keeper: CheckpointStore,
        choices: ModelSelection | None = None,
        album: SnapshotWriter | None = None,
    ) -> None:
        self.learner, self._keeper, self._album = learner, keeper, album
        self.lanes: tuple[tuple[str, int], ...] = () if learner is None else tuple(learner.lanes)
        self._choices = choices
        if choices is not None:
            self.lanes += choices.lanes
        self._told: list[LearnerReport] = []
        self._digest = blake2b(digest_size=16)
        self._kept = None if learner is None else keeper.load()
        with _of(keeper):
            self._known = _unpack(self._kept)

    @property
    def diverged(self) -> Sequence[Divergence]:
        """The lanes whose training has diverged, as far as that is known."""
        return () if self.learner is None else self.learner.diverged

    @property
    def kept(self) -> int:
        """The round up to which a checkpoint knows the answers; 0 without one."""
        return 0 if self._kept is None else int(self._kept["round"])

    @property
    def reports(self) -> list[LearnerReport]:
        """All evaluations so far."""
        return [report for report in self._told if report.metrics]

    def restore(self) -> None:
        """Bring the learner to where the checkpoint left it.

        Raises:
            MachineError: the checkpoint holds something else than such a learner's state.
        """
        if self.learner is not None and self._kept is not None:
            with _of(self._keeper):
                self.learner.restore(self._kept.pop("learner"))

    def begin(self) -> None:
        """Make the run directory ready to go on in; until then it is only read."""
        self._keeper.begin()
        if self._album is not None:
            self._album.begin(None if self._kept is None else self.kept)

    def start(self) -> LearnerReport:
        """The report on version 0."""
        if self.learner is None:
            return LearnerReport(0)
        if self._kept is not None:
            return self._remember(self._known.get(0) or LearnerReport(0))
        report = self._remember(self._with_choices(self.learner.start()))
        self._picture(self.learner, 0)
        return report

    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        """The report after *rounds*, one of each replica.

        Raises:
            MachineError: the network no longer gives the rounds that the checkpoint saw.
        """
        index = rounds[0].index
        if self.learner is None:
            return LearnerReport(index)
        self._digest.update(repr(rounds).encode())
        covered = self.kept
        if index == covered and self._kept is not None:
            if self._kept["digest"] != self._digest.hexdigest():
                raise MachineError(
                    f"the rounds up to {index} are not those that {self._keeper.path} was written after: has netfl, a "
                    f"model, the scenario or the machine changed since? {self._keeper.remedy}"
                )
            self.restore()
        if index <= covered:
            return self._remember(self._known.get(index) or LearnerReport(index))
        report = self._remember(self._with_choices(self.learner.step(rounds)))
        self._picture(self.learner, index)
        if self._keeper.due(index):
            self.save(index)
        return report

    def save(self, index: int) -> None:
        """Keep where the run stands after round *index*."""
        if self.learner is None or index <= self._keeper.newest:
            return
        if self._album is not None:  # a checkpoint counts on the versions up to it
            self._album.sync()
        self._keeper.save(index, self._digest.hexdigest(), self.learner.state(), self._told)

    def plane(self, data: Dataset | None) -> dict[str, pd.DataFrame]:
        """For data in the plane: each learner's labels on a grid, in the first replica, and the test points.

        Nothing for other data.
        """
        if data is None or self.learner is None or data.test_x.shape[1:] != (2,):
            return {}
        low, high = data.test_x.min(axis=0), data.test_x.max(axis=0)
        edge = 0.15 * (high - low)
        x, y = np.meshgrid(*(np.linspace(low[i] - edge[i], high[i] + edge[i], _GRID) for i in range(2)))
        grid = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
        lanes = enumerate(self.learner.lanes)
        labels = {name: self.learner.predict(lane, grid) for lane, (name, replica) in lanes if replica == 0}
        if not labels:
            return {}
        frames = [
            pd.DataFrame({"learner": name, "replica": 0, "x": grid[:, 0], "y": grid[:, 1], "label": label})
            for name, label in labels.items()
        ]
        points = pd.DataFrame({"x": data.test_x[:, 0], "y": data.test_x[:, 1], "label": data.test_y})
        return {"regions": pd.concat(frames, ignore_index=True), "points": points}

    def close(self) -> None:
        """Finish what is kept of versions."""
        if self._album is not None:
            self._album.close()

    def finish(self) -> None:
        """A finished run needs no checkpoint, and nothing else to go on from."""
        self._keeper.remove()
        if self._album is not None:
            self._album.clear()

    def _picture(self, learner: LearnerProtocol, index: int) -> None:
        """Keep the newest version of every lane, that of round *index*, where it is one to be kept."""
        if self._album is not None and self._album.due(index):
            self._album.add(learner.version(lane) for lane in range(len(learner.lanes)))

    def _with_choices(self, report: LearnerReport) -> LearnerReport:
        """A report that has figures, with those of the choices."""
        if self._choices is None or not report.metrics:
            return report
        return replace(report, metrics=self._choices.extend_metrics(report.metrics))

    def _remember(self, report: LearnerReport) -> LearnerReport:
        """Remember a report that says something."""
        if report.metrics or report.answers:
            self._told.append(report)
        return report


@contextmanager
def _of(keeper: CheckpointStore) -> Iterator[None]:
    """Say of what a checkpoint holds, and cannot be used, where it is from."""
    try:
        yield
    except (MachineError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        told = str(error) if isinstance(error, MachineError) else repr(error)
        raise MachineError(f"{keeper.path} is of no use to this run: {told}. {keeper.remedy}") from error


def _unpack(kept: dict[str, Any] | None) -> dict[int, LearnerReport]:
    """The reports in a checkpoint, by their rounds: evaluations, and what accesses were answered."""
    if kept is None:
        return {}
    from netfl.learning import checkpoint

    answers = checkpoint.unpack_answers(kept["answers"])
    metrics = {report.round: report.metrics for report in checkpoint.unpack(kept["reports"])}
    rounds = metrics.keys() | answers.keys()
    return {index: LearnerReport(index, metrics.get(index, {}), answers.get(index, ())) for index in rounds}
