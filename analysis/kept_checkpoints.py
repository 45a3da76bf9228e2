"""Checkpoints of unfinished runs, packed into small files that can be committed.

A long run can so continue on another machine. An archive holds what `netfl resume` needs: the scenario, the manifest,
the checkpoint, and the model versions so far. The network is not in it, because a resumed run simulates it again.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from netfl.errors import MachineError
from netfl.learning import checkpoint_file
from netfl.results.atomic_write import atomic_write
from netfl.results.model_snapshots import VERSIONS
from netfl.simulation.checkpoints import CHECKPOINT

LIMIT = 20_000_000
"""Maximum number of bytes of all archives together."""
_ARCHIVE = re.compile(r"(?P<stem>.+)\.round-(?P<round>\d+)\.tar\.xz")


class KeptCheckpoints:
    """The archives in a folder, by the name of the run.

    Args:
        folder: the folder of the archives.
        limit: maximum number of bytes of all archives together.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder, self._limit = folder, limit

    @property
    def archives(self) -> dict[str, Path]:
        """The archive of each run."""
        return {match["stem"]: path for path, match in self._matches()}

    def round_of(self, stem: str) -> int:
        """Return the round of the archive of a run; 0 without one."""
        return max((int(match["round"]) for _, match in self._matches() if match["stem"] == stem), default=0)

    def keep(self, stem: str, run: Path) -> bool:
        """Pack the checkpoint of the run directory *run*, unless the archive has a later one; the run may continue.

        Returns:
            Whether the folder now has an archive of this run: not if the limit would be exceeded.
        """
        before = self.archives.get(stem)
        with TemporaryDirectory() as name, suppress(FileNotFoundError, shutil.Error):  # it is replaced
            copy = Path(name)
            for file in ("scenario.yaml", "manifest.json", CHECKPOINT):
                shutil.copy(run / file, copy / file)
            if (run / VERSIONS).exists():  # copied after the checkpoint, so that none of its versions is missing
                shutil.copytree(run / VERSIONS, copy / VERSIONS)
            index = round_of_run(copy)
            if index > self.round_of(stem):
                self._pack(copy, self.folder / f"{stem}.round-{index}.tar.xz", before)
        return stem in self.archives

    def _pack(self, copy: Path, path: Path, before: Path | None) -> None:
        """Pack the folder *copy* into the archive *path*, which replaces that of *before*, if the limit allows it."""
        others = sum(archive.stat().st_size for archive in self.archives.values() if archive != before)
        files = [file for file in sorted(copy.rglob("*")) if file.is_file()]
        if others + sum(file.stat().st_size for file in files) > 2 * self._limit:  # floats hardly compress
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        packed = copy.with_suffix(".tar.xz")
        try:
            with tarfile.open(packed, "w:xz") as tar:
                for file in files:
                    tar.add(file, file.relative_to(copy))
            if others + packed.stat().st_size <= self._limit:
                with atomic_write(path) as part:
                    shutil.copy(packed, part)
                if before is not None:
                    before.unlink()
        finally:
            packed.unlink(missing_ok=True)

    def restore(self, stem: str, run: Path) -> bool:
        """Unpack the archive of a run into the folder *run*, unless there is a later checkpoint, and return whether."""
        archive = self.archives.get(stem)
        if archive is None or round_of_run(run) >= self.round_of(stem):
            return False
        run.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "r:xz") as tar:
            tar.extractall(run, filter="data")
        return True

    def remove(self, stem: str) -> None:
        """Remove the archives of a run."""
        for path, match in [*self._matches()]:
            if match["stem"] == stem:
                path.unlink()

    def _matches(self) -> Iterator[tuple[Path, re.Match[str]]]:
        """Yield the archives and what their names state, earlier rounds first."""
        found = [(path, match) for path in self.folder.glob("*.tar.xz") if (match := _ARCHIVE.fullmatch(path.name))]
        yield from sorted(found, key=lambda pair: int(pair[1]["round"]))


def round_of_run(run: Path) -> int:
    """Return the round of the newest checkpoint in a run directory; 0 without one that is intact."""
    try:
        return int(checkpoint_file.load(run / CHECKPOINT)["round"])
    except MachineError:
        return 0
