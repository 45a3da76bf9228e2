"""Observers of a run, and what they are given: its start, its progress and its evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netfl.types.arrays import Floats
from netfl.types.learner_reports import Divergence, LearnerReport
from netfl.types.rounds import Round, RoundBatch, RoundProgress


@dataclass(frozen=True, slots=True)
class RunStart:
    """Facts about a run that starts or continues.

    Args:
        folder: the run directory.
        name: the scenario's name.
        rounds: the number of rounds; ``None`` if only `stop_s` ends the run.
        duration_s: the simulated time of a run that has traffic in place of rounds; ``None`` otherwise.
        stop_s: the simulated time at which a run with rounds ends; ``None`` if only their number ends it.
        lanes: learner and replica of each lane; empty in a trace.
        checkpoint_round: the round of the checkpoint that the run continues from; ``None`` without one.
        training: a sentence about how models are trained; empty for the usual way.
    """

    folder: Path
    name: str
    rounds: int | None
    duration_s: float | None = None
    stop_s: float | None = None
    lanes: Sequence[tuple[str, int]] = ()
    checkpoint_round: int | None = None
    training: str = ""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """State of a run after a round, or after a batch of rounds.

    Args:
        round: the last round that closed.
        rounds: the number of rounds of the run; ``None`` if only `RunStart.stop_s` ends it.
        time_s: simulated time of the first replica.
        delivered: users with a delivery in that round, in the first replica.
        down: nodes such as ``tower:0``, and users, that are down in the first replica, where outages are recorded.
        metrics: the newest evaluation, by metric over lanes; empty before the first.
        lanes: learner and replica of each lane.
        results: the round, or the batch of rounds, of each replica; ``None`` for a replica that has ended.
        diverged: the lanes whose training has diverged so far.
        stop_s: as `RunStart.stop_s`.
    """

    round: int
    rounds: int | None
    time_s: float
    delivered: tuple[int, ...] = ()
    down: tuple[int | str, ...] = ()
    metrics: Mapping[str, Floats] = field(default_factory=dict)
    lanes: Sequence[tuple[str, int]] = ()
    results: Sequence[Round | None] | Sequence[RoundBatch] = ()
    diverged: Sequence[Divergence] = ()
    stop_s: float | None = None

    @property
    def share(self) -> float:
        """Share of the run that is over: of its rounds, or of its time if that is more."""
        of_rounds = self.round / self.rounds if self.rounds else 0.0
        of_time = self.time_s / self.stop_s if self.stop_s else 0.0
        return max(of_rounds, of_time)


class RunObserver:
    """Observer of a run; derive from it and override what is needed.

    The run directory, the checkpoints, the trackers and the progress display are observers of the same loop.

    Attributes:
        stop: set it to stop the run before its next round; ``netfl resume`` continues such a run.
    """

    stop: bool = False

    def on_start(self, start: RunStart) -> None:
        """Observe the start of a run, before its first round."""

    def on_progress(self, progress: RoundProgress) -> None:
        """Observe an open round, also of rounds before the run that a data partition needs; called often."""

    def on_round(self, progress: RunProgress) -> None:
        """Observe the end of a round, or of a batch of rounds."""

    def on_metrics(self, report: LearnerReport, closed_s: Sequence[float]) -> None:
        """Observe an evaluation, that of version 0 included; *closed_s* is the simulated time of each replica."""

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Observe the end of a run: *status* is ``done``, ``interrupted`` or, with its *error*, ``failed``."""

    def pass_observer(self) -> RunObserver:
        """Return the observer of a pass of tuning before the run; by default one that only stops with this one."""
        return _PassObserver(self)


class _PassObserver(RunObserver):
    """Observer of a pass of tuning, which stops with the observer of the run."""

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self.stop = observer.stop

    def on_round(self, progress: RunProgress) -> None:
        self.stop = self._observer.stop
