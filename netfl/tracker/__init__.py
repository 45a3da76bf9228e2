r'''The tracker family: other tools that receive the metrics of a run while it runs.

To write a tracker, add a file to this package, or a class to a module of your own, that derives from `Tracker`.

- `Tracker.open` is called once, before round 1.  It gets a `TrackedRun` and returns a `RunLog`.
- `RunLog.log_metrics` is called after each evaluation, once for each learner and replica.
- `RunLog.log_summary` is called at the end of a complete run, and `RunLog.close` at each end.
- A run that is resumed logs all its metrics again, from the start.  A tracker replaces what it has, or skips rounds
  that it has.
- ``run.memory`` is a mapping that is stored with the run.  Put the address of the log there, and find it there when the
  run is resumed or extended.
- Import packages in `Tracker.open`, not at the top of the file, and name them in ``packages``.  Then a scenario can be
  read without them, and netfl reports missing ones before the run.
- Any exception stops the run with an error that names the command to continue.

A complete tracker, which writes lines of JSON::

    class JsonLines(Tracker):
        """One line of JSON for each evaluation of each learner and replica.

        Example::

            kind: mylab.trackers:JsonLines
            file: metrics.jsonl
        """

        file: Path = Path("metrics.jsonl")
        """The file, in the run directory."""

        def open(self, run):
            return _Lines(run.folder / self.file, extend=run.is_extension)

    class _Lines(RunLog):
        def __init__(self, path, extend):
            self._file = path.open("a" if extend else "w")

        def log_metrics(self, lane, round, time_s, values):
            learner, replica = lane
            line = {"learner": learner, "replica": replica, "round": round, "time_s": time_s, **values}
            self._file.write(json.dumps(line) + "\n")

        def close(self, status):
            self._file.close()
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.types import Law, ScenarioFacts

Lane = tuple[str, int]
"""A learner, by its name, in a replica."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run that a tracker logs.

    Args:
        folder: the run directory, as an absolute path.
        scenario: the scenario as plain data.
        lanes: learner and replica of each lane that will be logged; none if only the summary of an extended run will.
        memory: mapping of JSON values that is stored with the run.  A tracker writes into it while it opens.
    """

    folder: Path
    scenario: Mapping[str, Any]
    lanes: Sequence[Lane]
    memory: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the run directory."""
        return self.folder.name

    @property
    def is_extension(self) -> bool:
        """The run is complete and is extended by more replicas; the lanes are those of the new replicas."""
        return all(replica > 0 for _, replica in self.lanes)


class RunLog(Overridable, ABC):
    """Log of one run at a tracker."""

    @abstractmethod
    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        """Log the metrics of one lane.

        Args:
            lane: learner and replica.
            round: the round after which they were evaluated; 0 is the start.
            time_s: simulated time.
            values: values by name, such as ``accuracy`` or ``loss/class:9``, without those of single users and layers.
        """

    def log_summary(self, values: Mapping[str, float], replicas: int) -> None:
        """Log the summary of a complete run over all its *replicas*; again with more after an extension."""

    def close(self, status: str) -> None:
        """End the log: the run is ``done``, ``interrupted`` or ``failed``."""


class Tracker(Spec):
    """The contract of a tracker."""

    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that the tracker imports and netfl does not require."""
    requirement: ClassVar[str] = ""
    """Argument of ``pip install`` that provides them; by default their names."""

    @abstractmethod
    def open(self, run: TrackedRun) -> RunLog:
        """Return the log of *run*, new or continued."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if not facts.trained:
            yield Fault("", "has no effect without learners", None, "add 'learners', or leave it out")

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a tracker draws nothing"),)


__getattr__ = exported_models(__name__)
