"""The checkpoints of a run: the newest and the one before it, so that a damaged file does not cost the run."""

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
"""The newest checkpoint's name in the run directory."""
BEFORE = "checkpoint.before.pt"
"""That of the one before it."""
CHECKPOINT_EVERY_S = 30.0
"""Wall-clock seconds between checkpoints, where the scenario says nothing else."""
_LOG = logging.getLogger(__name__)


class CheckpointStore:
    """Writes checkpoints, and finds the one to go on from.

    Args:
        folder: the run directory.
        about: what learning depends on, as plain data: a checkpoint of anything else is refused.
        pace: how often one is due; ``None`` for every `CHECKPOINT_EVERY_S`.
        again: the command that goes on with the run.

    Attributes:
        newest: the round of the newest checkpoint that is known; -1 without one.
    """

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, Any] | None = None,
        pace: CheckpointSpec | Literal["none"] | None = None,
        again: str = "",
    ) -> None:
        self.path, self._before = folder / CHECKPOINT, folder / BEFORE
        self._about, self._pace, self._again = dict(about or {}), pace, again or f"netfl resume {folder}"
        self._saved_at = time.monotonic()
        self._damaged = False
        self.newest = -1

    @property
    def remedy(self) -> str:
        """What does where no checkpoint can be gone on from."""
        names = " and ".join(path.name for path in (self.path, self._before) if path.exists())
        return f"To start the run again, remove {names}, and then: {self._again}"

    def load(self) -> dict[str, Any] | None:
        """The newest whole checkpoint; ``None`` where there is none.  Nothing in the directory is changed.

        Raises:
            MachineError: there are some, and none is whole; or it is that of another scenario.
        """
        there = [path for path in (self.path, self._before) if path.exists()]
        for path in there:
            content = self._read(path)
            if content is not None:
                self._check(path, content.get("about", {}))
                self.newest, self._damaged = int(content["round"]), path != there[0]
                if self._damaged:
                    told = "%s is not a whole checkpoint; going on from the one before it, of round %d"
                    _LOG.warning(told, there[0], content["round"])
                return content
        if there:
            names = " and ".join(map(str, there))
            which = "is not a whole checkpoint" if len(there) == 1 else "are not whole checkpoints"
            raise MachineError(f"{names} {which}. {self.remedy}")
        return None

    def begin(self) -> None:
        """Let the run go on from what was loaded: a damaged checkpoint gives way to the one before it."""
        if self._damaged:
            self._before.replace(self.path)
            self._damaged = False

    def due(self, index: int) -> bool:
        """Whether a checkpoint is due after round *index*."""
        if self._pace == "none":
            return False
        if self._pace is not None and self._pace.rounds is not None:
            return index % self._pace.rounds == 0
        every_s = CHECKPOINT_EVERY_S if self._pace is None or self._pace.time is None else self._pace.time
        return time.monotonic() - self._saved_at > every_s

    def save(self, index: int, digest: str, learner: Mapping[str, Any], told: Sequence[LearnerReport]) -> None:
        """Keep where a run stands after round *index*.

        While it is written the one before stands under that one's name, so that there are never three of them.

        Args:
            index: the round.
            digest: of the rounds so far.
            learner: its state.
            told: what learners have said so far.
        """
        from netfl.learning import checkpoint

        evaluations = [report for report in told if report.metrics]
        said = {"reports": checkpoint.pack(evaluations), "answers": checkpoint.pack_answers(told)}
        if self.path.exists():
            self.path.replace(self._before)
        about = {"about": self._about, "round": index, "digest": digest}
        with atomic_write(self.path) as part, part.open("wb") as file:
            checkpoint.save(file, {**about, "learner": dict(learner), **said})
        self.newest, self._saved_at = index, time.monotonic()

    def remove(self) -> None:
        """A finished run needs none."""
        for path in (self.path, self._before):
            path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, Any] | None:
        """The checkpoint in *path*; ``None`` if that is not whole."""
        from netfl.learning import checkpoint

        try:
            return checkpoint.load(path)
        except MachineError:
            return None

    def _check(self, path: Path, about: Mapping[str, Any]) -> None:
        """Refuse the checkpoint of another scenario; keys that only one of them knows do no harm.

        Raises:
            MachineError: it is one; with the first key that differs.
        """
        for key, was, now in _differences(about, self._about):
            raise MachineError(
                f"{path} is the checkpoint of another scenario: there {key} is {was!r}, here {now!r}. Put back the "
                f"file, or the scenario.yaml, that belongs here. {self.remedy}"
            )


def _differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ: dotted key, and both values; of mappings only keys that both have count."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in (name for name in one if name in other):
            yield from _differences(one[name], other[name], f"{key}.{name}".lstrip("."))
    elif _known(one) != _known(other):
        yield key, one, other


def _known(value: Any) -> Any:
    """What of a value counts: of a file its name, wherever it has been moved to."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
