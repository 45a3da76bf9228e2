"""Checkpoints of a run: the newest and the one before it, so that a damaged file does not cost the run."""

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
        self._is_damaged = False
        self.newest = -1

    @property
    def remedy(self) -> str:
        """Remedy where no checkpoint can be used."""
        names = " and ".join(path.name for path in (self.path, self._before) if path.exists())
        return f"To start the run again, remove {names}, and then: {self._command}"

    def load(self) -> dict[str, Any] | None:
        """Return the newest intact checkpoint; ``None`` if there are none.  The directory is not changed.

        Raises:
            MachineError: there are checkpoints but none is intact, or it is that of another scenario.
        """
        paths = [path for path in (self.path, self._before) if path.exists()]
        for path in paths:
            content = self._read(path)
            if content is not None:
                self._check(path, content.get("about", {}))
                self.newest, self._is_damaged = int(content["round"]), path != paths[0]
                if self._is_damaged:
                    message = "%s is not a whole checkpoint; going on from the one before it, of round %d"
                    _LOG.warning(message, paths[0], content["round"])
                return content
        if paths:
            names = " and ".join(map(str, paths))
            problem = "is not a whole checkpoint" if len(paths) == 1 else "are not whole checkpoints"
            raise MachineError(f"{names} {problem}. {self.remedy}")
        return None

    def discard_damaged(self) -> None:
        """Replace a damaged checkpoint with the one before it, from which the run continues."""
        if self._is_damaged:
            self._before.replace(self.path)
            self._is_damaged = False

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
        from netfl.learning import checkpoint

        evaluations = [report for report in reports if report.metrics]
        packed = {"reports": checkpoint.pack(evaluations), "answers": checkpoint.pack_answers(reports)}
        if self.path.exists():
            self.path.replace(self._before)
        content = {"about": self._facts, "round": index, "digest": digest, "learner": dict(learner), **packed}
        with atomic_write(self.path) as part, part.open("wb") as file:
            checkpoint.save(file, content)
        self.newest, self._saved_at = index, time.monotonic()

    def remove(self) -> None:
        """Remove all checkpoints."""
        for path in (self.path, self._before):
            path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, Any] | None:
        from netfl.learning import checkpoint

        try:
            return checkpoint.load(path)
        except MachineError:
            return None

    def _check(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Refuse the checkpoint of another scenario; keys that only one of them has do not count.

        Raises:
            MachineError: the first key that differs.
        """
        for key, was, now in _differences(facts, self._facts):
            raise MachineError(
                f"{path} is the checkpoint of another scenario: there {key} is {was!r}, here {now!r}. Put back the "
                f"file, or the scenario.yaml, that belongs here. {self.remedy}"
            )


def _differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values where two plain values differ; only keys that both have count."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in (name for name in one if name in other):
            yield from _differences(one[name], other[name], f"{key}.{name}".lstrip("."))
    elif _without_folder(one) != _without_folder(other):
        yield key, one, other


def _without_folder(value: Any) -> Any:
    """Reduce a path to its file name, as data files may have been moved."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
