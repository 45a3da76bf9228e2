"""Tasks on a Ray cluster: each in a folder of the node that does it, packed and sent back when it is done.

So nodes need not share a disk, and a task whose node dies is done again elsewhere, from its start, without a trace of
the first attempt.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from netfl.cluster import Cluster, imported
from netfl.sweeping.engine import Heard, place
from netfl.sweeping.plan import Task
from netfl.sweeping.work import Telling, Told, do

_GLANCE_S = 0.5


class Ray:
    """Tasks on a Ray cluster.

    Args:
        cluster: which one.
        workers: how many tasks are under way at most; by default as many as the cluster has room for.
        device: ``auto``, ``cpu`` or ``cuda``.
        retries: how often a task is done again whose node or process has died.

    Raises:
        ScenarioError: Ray is not installed.
    """

    def __init__(
        self, cluster: Cluster | None = None, workers: int | None = None, device: str = "auto", retries: int = 3
    ) -> None:
        self._ray, self._cluster = imported(), cluster or Cluster()
        self._workers, self._device, self._retries = workers, device, retries

    def run(self, tasks: Sequence[Task], folder: Path, heard: Heard, stop: Callable[[], bool]) -> None:
        """As of `netfl.sweeping.engine.Engine`."""
        with self._cluster.connected() as ray:
            board = ray.remote(num_cpus=0)(_Board).remote()
            work = ray.remote(_work).options(num_cpus=1, num_gpus=self._cluster.gpus, max_retries=self._retries)
            waiting, flying = list(reversed(tasks)), dict[Any, Task]()
            while (waiting and not stop()) or flying:
                while waiting and not stop() and len(flying) < (self._workers or len(tasks)):
                    task = waiting.pop()
                    flying[work.remote(task, self._device, board)] = task
                landed, _ = ray.wait([*flying], timeout=_GLANCE_S, fetch_local=False)
                for told in self._asked(board, stop()):
                    heard(told)
                for one in landed:
                    self._land(one, flying.pop(one), folder, heard)

    def _asked(self, board: Any, stop: bool) -> list[Told]:
        """What tasks have said since the last look; nothing where the board's node is gone."""
        with suppress(self._ray.exceptions.RayError):
            return list(self._ray.get(board.read.remote(stop)))
        return []

    def _land(self, landed: Any, task: Task, folder: Path, heard: Heard) -> None:
        """Take what came of a task."""
        try:
            told, packed = self._ray.get(landed)
        except self._ray.exceptions.RayError as error:
            told, packed = Told(task.key, ended=True, error=str(error).strip().splitlines()[-1]), b""
        if packed:
            unpack(packed, place(folder, task.key))
        heard(told)


class _Board:
    """Where tasks say how far they are, and see whether they are asked to stop; an actor."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}
        self._stop = False

    def tell(self, told: Told) -> bool:
        """Say how far a task is: whether it is asked to stop."""
        self._told[told.task] = told
        return self._stop

    def read(self, stop: bool) -> list[Told]:
        """What is new; and ask all tasks to stop, if *stop*."""
        told, self._told, self._stop = [*self._told.values()], {}, stop
        return told


def _work(task: Task, device: str, board: Any) -> tuple[Told, bytes]:
    """Do *task* on this node: what came of it, and its packed folder."""
    ray = imported()
    asked: list[Any] = []

    def tell(told: Told) -> None:
        ready, asked[:] = ray.wait(asked, timeout=0) if asked else ([], asked)
        watch.stop |= any(ray.get(one) for one in ready)
        asked.append(board.tell.remote(told))

    watch = Telling(task.key, tell)
    with tempfile.TemporaryDirectory(prefix="netfl-") as folder:
        told = do(task, place(Path(folder), task.key), device, watch)
        return told, pack(place(Path(folder), task.key))


def pack(folder: Path) -> bytes:
    """A run directory as one piece; nothing where there is none."""
    if not folder.exists():
        return b""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != ".lock":
                archive.add(file, str(file.relative_to(folder)))
    return out.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Put a packed run directory in the place of *folder*, whole or not at all."""
    part = folder.with_name(folder.name + ".part")
    for old in (part, folder):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(part, filter="data")
    part.replace(folder)
