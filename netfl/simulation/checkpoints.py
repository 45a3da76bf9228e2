"""Checkpoints of a run: the newest and the one before it, so that a damaged file does not cost the run.

`netfl.learning.checkpoint_file` reads and writes the files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from netfl.core.remedies import call
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.learning.spec import CheckpointSpec
from netfl.results.atomic_write import atomic_write
from netfl.simulation.round_digest import RoundDigest
from netfl.types import LearnerReport

CHECKPOINT = "checkpoint.pt"
"""File name of the newest checkpoint in the run directory."""
BEFORE = "checkpoint.before.pt"
"""File name of the checkpoint before it."""
CHECKPOINT_EVERY_S = 30.0
"""Wall-clock seconds between checkpoints, by default."""
_LOG = logging.getLogger(__name__)


class CheckpointStore:
    """Reader and writer of the checkpoints of a run.

    Args:
        folder: the run directory.
        facts: what learning depends on, as plain data: a checkpoint of anything else is refused.
        schedule: when a checkpoint is due; ``None`` for every `CHECKPOINT_EVERY_S`.
        command: the command that continues the run.

    Attributes:
        newest: the round of the newest known checkpoint; -1 without one.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, Any] | None = None,
        schedule: CheckpointSpec | Literal["none"] | None = None,
        command: str = "",
    ) -> None:
        self.path = folder / CHECKPOINT
        self.newest = -1
        self._path_before = folder / BEFORE
        self._facts = dict(facts or {})
        self._schedule = schedule
        self._command = command or call("resume", folder)
        self._saved_at = time.monotonic()

    @property
    def remedy(self) -> str:
        """Remedy where no checkpoint can be used."""
        names = " and ".join(path.name for path in self._existing_paths())
        return f"To start the run again, remove {names}, and then: {self._command}"

    def load(self) -> dict[str, Any] | None:
        """Return the newest intact checkpoint, which replaces a damaged one; ``None`` if there are none.

        Raises:
            MachineError: there are checkpoints but none is intact, or it is that of another scenario.
            ScenarioError: the scenario has other learners than the checkpoint.
        """
        from netfl.learning import checkpoint_file

        paths = self._existing_paths()
        for path in paths:
            try:
                content = checkpoint_file.load(path)
            except MachineError:
                continue  # the one before it may be intact
            self._check_facts(path, content.get("about", {}))
            self.newest = int(content["round"])
            if path != paths[0]:
                message = "%s is not a complete checkpoint; continuing from the previous one, of round %d"
                _LOG.warning(message, paths[0], content["round"])
                path.replace(paths[0])
            return content
        if len(paths) == 1:
            raise MachineError(f"{paths[0]} is not a complete checkpoint. {self.remedy}")
        if paths:
            names = " and ".join(map(str, paths))
            raise MachineError(f"{names} are not complete checkpoints. {self.remedy}")
        return None

    def is_due(self, index: int) -> bool:
        """Return whether a checkpoint is due after round *index*."""
        schedule = self._schedule
        if schedule == "none":
            return False
        if schedule is not None and schedule.rounds is not None:
            return index % schedule.rounds == 0
        every_s = CHECKPOINT_EVERY_S
        if schedule is not None and schedule.time is not None:
            every_s = schedule.time
        return time.monotonic() - self._saved_at > every_s

    def save(
        self, index: int, digest: RoundDigest, learner: Mapping[str, Any], reports: Sequence[LearnerReport]
    ) -> None:
        """Write a checkpoint after round *index*.

        Meanwhile the last one is kept under the name of the one before it, so that there are never three.

        Args:
            index: the round.
            digest: digest of the rounds so far.
            learner: the learners' state.
            reports: the reports so far.
        """
        from netfl.learning import checkpoint_file

        content = {
            "about": self._facts,
            "round": index,
            "digest": digest.hexdigest(),
            "digest_form": digest.form,
            "learner": dict(learner),
        }
        content |= checkpoint_file.pack_reports(reports)
        if self.path.exists():
            self.path.replace(self._path_before)
        with atomic_write(self.path) as part, part.open("wb") as file:
            checkpoint_file.save(file, content)
        self.newest = index
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Remove all checkpoints."""
        for path in (self.path, self._path_before):
            path.unlink(missing_ok=True)

    def _existing_paths(self) -> list[Path]:
        """Return the paths of the checkpoints, the newest first."""
        return [path for path in (self.path, self._path_before) if path.exists()]

    def _check_facts(self, path: Path, saved_facts: Mapping[str, Any]) -> None:
        """Refuse a checkpoint of another scenario.

        Raises:
            MachineError: learning depends on something that has changed.
            ScenarioError: learners were added, removed or moved.
        """
        names = [*self._facts.get("learners", {})]
        saved_names = [*saved_facts.get("learners", names)]
        if names and names != saved_names:
            problem = f"these are not the learners of {path}, which are {', '.join(saved_names)}"
            remedy = f"restore the section. {self.remedy}"
            where = str(path.with_name("scenario.yaml"))
            raise ScenarioError([Fault("learners", problem, ", ".join(names), remedy, where)])
        difference = next(_differences(saved_facts, self._facts), None)
        if difference is not None:
            key, saved, current = difference
            raise MachineError(
                f"{path} is the checkpoint of another scenario: {key} is {saved!r} there, but {current!r} here. "
                f"Restore the file or the scenario.yaml of this run. {self.remedy}"
            )


def _differences(saved: Any, current: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values where two plain values differ; only keys that both have count.

    Paths are compared by their file names, as data files may have been moved.
    """
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        for name in saved:
            if name in current:
                yield from _differences(saved[name], current[name], f"{key}.{name}".lstrip("."))
    elif _without_folder(saved) != _without_folder(current):
        yield key, saved, current


def _without_folder(value: Any) -> Any:
    """Return the file name of an absolute path, and any other value as it is."""
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name
    return value
