"""Learning that a checkpoint can restore: the learners of a run, their reports so far, and its checkpoints.

`LearningSession.step` passes the rounds of all replicas on to `netfl.learning.learner`: continue reading there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netfl.errors import MachineError
from netfl.learning.model_selection import ModelSelection
from netfl.results.model_snapshots import SnapshotWriter
from netfl.simulation.checkpoints import CheckpointStore
from netfl.simulation.round_digest import FORMS, RoundDigest, TextDigest
from netfl.types import Divergence, LearnerReport, Round, RunObserver, RunProgress, round_number

if TYPE_CHECKING:
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.parallel_learner import ParallelLearner

    Learner = BatchedLearner | ParallelLearner


class LearningSession(RunObserver):
    """The learning of one run, from its start or from a checkpoint.

    Up to the round of the checkpoint, reports come from the checkpoint, and the rounds are compared with those that it
    was written after.  From the next round on the learners train.  As an observer of the run, the session writes
    checkpoints when they are due or the run is stopped, and removes those of a finished run.

    Args:
        learner: the learners; ``None`` for a trace.
        store: the checkpoints of the run.
        choices: choices among the learners; their metrics follow those of the lanes.
        snapshots: the model versions, which a checkpoint must find on the disk.

    Attributes:
        lanes: learner and replica of each lane.
        reports: evaluations and answers to accesses so far.

    Raises:
        MachineError: there are checkpoints, and none can be used.
    """

    def __init__(
        self,
        learner: Learner | None,
        store: CheckpointStore,
        choices: ModelSelection | None = None,
        snapshots: SnapshotWriter | None = None,
    ) -> None:
        self.learner = learner
        self._store = store
        self._choices = choices
        self._snapshots = snapshots
        self.lanes: tuple[tuple[str, int], ...] = ()
        if learner is not None:
            self.lanes = tuple(learner.lanes)
        if choices is not None:
            self.lanes += choices.lanes
        self.reports: list[LearnerReport] = []
        self._digest = RoundDigest()  # of the rounds so far
        self._compared: RoundDigest | TextDigest = self._digest  # of the form of the checkpoint
        self._round = 0
        self._checkpoint: dict[str, Any] | None = None
        if learner is not None:
            self._checkpoint = store.load()
        self._restored: dict[int, LearnerReport] = {}  # the reports of the checkpoint, by round
        if self._checkpoint is not None:
            from netfl.learning.checkpoint_file import unpack_reports

            with _usable(store):
                self._restored = unpack_reports(self._checkpoint)
                form = self._checkpoint.get("digest_form", TextDigest.form)
                if form != self._digest.form:
                    self._compared = FORMS[form]()

    @property
    def diverged(self) -> Sequence[Divergence]:
        """The lanes whose training has diverged so far."""
        if self.learner is None:
            return ()
        return self.learner.diverged

    @property
    def newest_checkpoint(self) -> int:
        """The round of the newest checkpoint; 0 without one."""
        return max(0, self._store.newest)

    @property
    def checkpoint_round(self) -> int | None:
        """Round of the checkpoint that the run continues from; ``None`` without one."""
        if self._checkpoint is None:
            return None
        return int(self._checkpoint["round"])

    def restore(self) -> None:
        """Restore the learners from the checkpoint."""
        if self.learner is not None and self._checkpoint is not None:
            with _usable(self._store):
                self.learner.restore(self._checkpoint.pop("learner"))

    def start(self) -> LearnerReport:
        """Return the report on version 0."""
        if self.learner is None or self._checkpoint is not None:
            return self._restored_report(0)
        return self._add_report(self.learner.start())

    def step(self, rounds: Sequence[Round | None]) -> LearnerReport:
        """Return the report after *rounds*, one of each replica; ``None`` is a replica that has ended.

        Raises:
            MachineError: the rounds are not those that the checkpoint was written after.
        """
        index = round_number(rounds)
        if self.learner is None:
            return LearnerReport(index)
        self._digest.update(rounds)
        if self._checkpoint is None or index > self._checkpoint["round"]:
            return self._add_report(self.learner.step(rounds))
        if self._compared is not self._digest:
            self._compared.update(rounds)
        if index == self._checkpoint["round"]:  # the next round trains
            if self._checkpoint["digest"] != self._compared.hexdigest():
                raise MachineError(
                    f"the rounds up to {index} differ from those before {self._store.path}: netfl, a model, the "
                    f"scenario or the machine has changed. {self._store.remedy}"
                )
            self.restore()
        return self._restored_report(index)

    def on_round(self, progress: RunProgress) -> None:
        self._round = progress.round
        if self._round > (self.checkpoint_round or 0) and self._store.is_due(self._round):
            self._save()

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Write a checkpoint of an interrupted run; remove those of a finished one."""
        if status == "interrupted":
            self._save()
        elif status == "done" and self.learner is not None:
            self._store.remove()
            if self._snapshots is not None:
                self._snapshots.remove_parts()

    def _save(self) -> None:
        if self.learner is None or self._round <= self._store.newest:
            return
        if self._snapshots is not None:
            self._snapshots.sync()
        self._store.save(self._round, self._digest, self.learner.state(), self.reports)

    def _restored_report(self, index: int) -> LearnerReport:
        report = self._restored.get(index)
        if report is None:  # a round without evaluations and answers
            return LearnerReport(index)
        self.reports.append(report)
        return report

    def _add_report(self, report: LearnerReport) -> LearnerReport:
        if self._choices is not None and report.metrics:
            report = replace(report, metrics=self._choices.extend_metrics(report.metrics))
        if report.metrics or report.answers:
            self.reports.append(report)
        return report


@contextmanager
def _usable(store: CheckpointStore) -> Iterator[None]:
    """Name the checkpoint in the error where its content cannot be used."""
    try:
        yield
    except (MachineError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        problem = repr(error)
        if isinstance(error, MachineError):
            problem = str(error)
        raise MachineError(f"{store.path} does not fit this run: {problem}. {store.remedy}") from error
