"""Tasks on a Ray cluster: each in a folder of the node that does it, packed and sent back when it is done.

So nodes need not share a disk, and a task whose node dies is done again elsewhere without a trace of the first
attempt.  A task that was stopped, or whose process here was killed, is sent along as far as it is, and gone on with.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from netfl.learning.workers.ray_cluster import Cluster, first_line, import_ray
from netfl.sweeps.engine import Heard, task_folder
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskReporter, TaskUpdate, can_resume, run_task

_GLANCE_S = 0.5
_PATIENCE_S = 5.0
"""Seconds in which the board answers."""


class RayEngine:
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
        self._ray, self._cluster = import_ray(), cluster or Cluster()
        self._workers, self._device, self._retries = workers, device, retries

    def run(self, tasks: Sequence[Task], folder: Path, heard: Heard, stop: Callable[[], bool]) -> None:
        """As of `netfl.sweeps.engine.Engine`."""
        with self._cluster.connected() as ray:
            self._cluster.max_workers(ray)
            board = ray.remote(num_cpus=0)(_Board).options(scheduling_strategy=_here(ray)).remote()
            work = ray.remote(_work).options(num_cpus=1, num_gpus=self._cluster.gpus, max_retries=self._retries)
            waiting, flying, begun = list(reversed(tasks)), dict[Any, Task](), set[str]()
            stopping = False
            while (waiting and not stopping) or flying:
                while waiting and not stopping and len(flying) < (self._workers or len(tasks)):
                    task = waiting.pop()
                    flying[work.remote(task, self._device, board, _there(task_folder(folder, task.key)))] = task
                landed, _ = ray.wait([*flying], timeout=_GLANCE_S)
                stopping = stopping or stop()
                for told in self._asked(board, stopping):
                    begun.add(told.task)
                    heard(told)
                for one in landed:
                    self._land(one, flying.pop(one), folder, heard)
                if stopping:  # others ask the board before they begin; cancelling may hit what a process does next
                    flying = {one: task for one, task in flying.items() if task.key in begun}

    def _asked(self, board: Any, stop: bool) -> list[TaskUpdate]:
        """What tasks have said since the last look."""
        with suppress(self._ray.exceptions.RayError):
            return list(self._ray.get(board.read.remote(stop), timeout=_PATIENCE_S))
        return []

    def _land(self, landed: Any, task: Task, folder: Path, heard: Heard) -> None:
        """Take what came of a task."""
        try:
            told, packed = self._ray.get(landed)
        except self._ray.exceptions.RayError as error:
            told, packed = TaskUpdate(task.key, ended=True, error=first_line(error)), b""
        if packed:
            unpack(packed, task_folder(folder, task.key))
        heard(told)


def _here(ray: ModuleType) -> Any:
    """Has an actor be on the node of this process, so that it is there as long as this process is."""
    strategies = import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def _there(folder: Path) -> bytes:
    """The packed folder of a task that was begun and can go on; nothing of another."""
    return pack(folder) if can_resume(folder) else b""


class _Board:
    """Where tasks say how far they are, and see whether they are asked to stop; an actor."""

    def __init__(self) -> None:
        self._told: dict[str, TaskUpdate] = {}
        self._stop = False

    def tell(self, told: TaskUpdate) -> bool:
        """Say how far a task is: whether it is asked to stop."""
        self._told[told.task] = told
        return self._stop

    def read(self, stop: bool) -> list[TaskUpdate]:
        """What is new; and ask all tasks to stop, if *stop*."""
        told, self._told, self._stop = [*self._told.values()], {}, stop
        return told


def _work(task: Task, device: str, board: Any, packed: bytes) -> tuple[TaskUpdate, bytes]:
    """Do *task* on this node, or go on with its *packed* folder: what came of it, and its folder, packed."""
    ray = import_ray()

    def ask(told: TaskUpdate) -> bool:
        try:
            return bool(ray.get(board.tell.remote(told), timeout=_PATIENCE_S))
        except ray.exceptions.ActorDiedError:  # with the process that had the task done
            return True
        except ray.exceptions.RayError:  # where the board is out of reach for a while, the task goes on
            return False

    def tell(told: TaskUpdate) -> None:
        watch.stop |= aside.submit(ask, told).result()

    watch = TaskReporter(task.key, tell)
    # a task that waits for Ray lends its core to another; not so where a thread of its own waits
    with ThreadPoolExecutor(1) as aside, tempfile.TemporaryDirectory(prefix="netfl-") as root:
        tell(TaskUpdate(task.key))
        if watch.stop:
            return TaskUpdate(task.key, ended=True, stopped=True), b""
        folder = task_folder(Path(root), task.key)
        if packed:
            unpack(packed, folder)
        told = run_task(task, folder, device, watch)
        return told, pack(folder)


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
