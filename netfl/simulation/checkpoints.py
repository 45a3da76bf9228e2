"""Checkpoints of a run: the newest and the one before it, so that a damaged file does not cost the run.

`netfl.learning.checkpoint_file` reads and writes the files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from netfl.errors import MachineError
from netfl.learning.spec import CheckpointSpec
from netfl.results.atomic_write import atomic_write
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
        self.path, self._before = folder / CHECKPOINT, folder / BEFORE
        self._facts, self._schedule, self._command = dict(facts or {}), schedule, command or f"netfl resume {folder}"
        self._saved_at = time.monotonic()
        self.newest = -1

    @property
    def remedy(self) -> str:
        """Remedy where no checkpoint can be used."""
        names = " and ".join(path.name for path in (self.path, self._before) if path.exists())
        return f"To start the run again, remove {names}, and then: {self._command}"

    def load(self) -> dict[str, Any] | None:
        """Return the newest intact checkpoint, which replaces a damaged one; ``None`` if there are none.

        Raises:
            MachineError: there are checkpoints but none is intact, or it is that of another scenario.
        """
        from netfl.learning import checkpoint_file

        paths = [path for path in (self.path, self._before) if path.exists()]
        for path in paths:
            try:
                content = checkpoint_file.load(path)
            except MachineError:
                continue
            for key, was, now in _differences(content.get("about", {}), self._facts):
                raise MachineError(
                    f"{path} is the checkpoint of another scenario: {key} is {was!r} there, but {now!r} here. Restore "
                    f"the file or the scenario.yaml of this run. {self.remedy}"
                )
            self.newest = int(content["round"])
            if path != paths[0]:
                message = "%s is not a complete checkpoint; continuing from the previous one, of round %d"
                _LOG.warning(message, paths[0], content["round"])
                path.replace(paths[0])
            return content
        if paths:
            names = " and ".join(map(str, paths))
            problem = "is not a complete checkpoint" if len(paths) == 1 else "are not complete checkpoints"
            raise MachineError(f"{names} {problem}. {self.remedy}")
        return None

    def is_due(self, index: int) -> bool:
        """Return whether a checkpoint is due after round *index*."""
        if self._schedule == "none":
            return False
        if self._schedule is not None and self._schedule.rounds is not None:
            return index % self._schedule.rounds == 0
        every_s = CHECKPOINT_EVERY_S if self._schedule is None or self._schedule.time is None else self._schedule.time
        return time.monotonic() - self._saved_at > every_s

    def save(self, index: int, digest: str, learner: Mapping[str, Any], reports: Sequence[LearnerReport]) -> None:
        """Write a checkpoint after round *index*.

        Meanwhile the last one is kept under the name of the one before it, so that there are never three.

        Args:
            index: the round.
            digest: digest of the rounds so far.
            learner: the learners' state.
            reports: the reports so far.
        """
        from netfl.learning import checkpoint_file

        content = {"about": self._facts, "round": index, "digest": digest, "learner": dict(learner)}
        content |= checkpoint_file.pack_reports(reports)
        if self.path.exists():
            self.path.replace(self._before)
        with atomic_write(self.path) as part, part.open("wb") as file:
            checkpoint_file.save(file, content)
        self.newest, self._saved_at = index, time.monotonic()

    def remove(self) -> None:
        """Remove all checkpoints."""
        for path in (self.path, self._before):
            path.unlink(missing_ok=True)


def _differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values where two plain values differ; only keys that both have count.

    Paths are compared by their file names, as data files may have been moved.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in (name for name in one if name in other):
            yield from _differences(one[name], other[name], f"{key}.{name}".lstrip("."))
        return
    names = [Path(each).name if isinstance(each, str) and Path(each).is_absolute() else each for each in (one, other)]
    if names[0] != names[1]:
        yield key, one, other
