"""Engine that runs tasks on a Ray cluster.

A task writes to a folder of its node, which is packed and sent back at the end, so nodes need no shared disk.  A task
whose node dies starts over on another node.  An interrupted task is sent with its folder and continued.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from netfl.simulation.workers.ray_cluster import Cluster, first_line, import_ray
from netfl.sweeps.plan import Task, task_folder
from netfl.sweeps.task import TaskReporter, TaskUpdate, UpdateHandler, can_resume, run_task

_POLL_S = 0.5
_TIMEOUT_S = 5.0
"""Seconds within which the board must answer."""


class RayEngine:
    """Engine that runs tasks on a Ray cluster.

    Args:
        cluster: the cluster.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        retries: number of further attempts of a task whose node or process has died.

    Raises:
        ScenarioError: Ray is not installed.
    """

    def __init__(self, cluster: Cluster | None = None, device: str = "auto", retries: int = 3) -> None:
        import_ray()
        self._cluster = cluster or Cluster()
        self._device = device
        self._retries = retries

    def run(self, tasks: Iterable[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*; see `netfl.sweeps.engine.Engine.run`."""
        with self._cluster.connected() as ray:
            room = self._cluster.max_workers(ray)  # an error if there is none
            limit = self._cluster.workers
            if not limit:
                # all tasks of a plan, as Ray keeps those without room; a search chooses them as late as possible
                limit = len(tasks) if isinstance(tasks, Sized) else room
            board = _open_board(ray)
            work = ray.remote(_work).options(num_cpus=1, num_gpus=self._cluster.gpus, max_retries=self._retries)
            waiting = iter(tasks)
            running: dict[Any, Task] = {}  # by the reference to its result
            started: set[str] = set()
            ending_early: set[str] = set()  # tasks that are not worth their time
            stopping = False
            while True:
                free = 0 if stopping else max(0, limit - len(running))
                for task in islice(waiting, free):
                    unfinished = task_folder(folder, task.key)
                    packed = pack(unfinished) if can_resume(unfinished) else b""
                    running[work.remote(task, self._device, board, packed)] = task
                if not running:
                    return
                finished, _ = ray.wait([*running], timeout=_POLL_S)
                stopping = stopping or stop()

                # report what running tasks have posted since
                with suppress(ray.exceptions.RayError):
                    for update in ray.get(board.read.remote(stopping, ending_early), timeout=_TIMEOUT_S):
                        started.add(update.task)
                        if report(update):
                            ending_early.add(update.task)

                # store the folders of tasks that have ended
                for reference in finished:
                    task = running.pop(reference)
                    try:
                        update, packed = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        update = TaskUpdate(task.key, ended=True, error=first_line(error))
                        packed = b""
                    if packed:
                        unpack(packed, task_folder(folder, task.key))
                    report(update)
                if stopping:  # others ask the board before they start; cancelling could hit a process's next task
                    running = {reference: task for reference, task in running.items() if task.key in started}


class _Board:
    """Ray actor that collects the updates of tasks and passes the request to stop to them."""

    def __init__(self) -> None:
        self._updates: list[TaskUpdate] = []
        self._stop = False
        self._ending_early: set[str] = set()

    def post(self, update: TaskUpdate) -> bool:
        """Store the latest update of a task and those with values, and return whether the task must stop."""
        self._updates = [other for other in self._updates if other.task != update.task or other.values]
        self._updates.append(update)
        return self._stop or update.task in self._ending_early

    def read(self, stop: bool, ending_early: set[str]) -> list[TaskUpdate]:
        """Return the new updates, and set whether all tasks must stop, and which ones of poor results."""
        updates = self._updates
        self._updates = []
        self._stop = stop
        self._ending_early = ending_early
        return updates


def _open_board(ray: Any) -> Any:
    """Start a board on the node of this process, so that it lives as long as the process."""
    strategies = import_module("ray.util.scheduling_strategies")
    here = strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0)(_Board).options(scheduling_strategy=here).remote()


def _work(task: Task, device: str, board: Any, packed: bytes) -> tuple[TaskUpdate, bytes]:
    """Run *task* on this node, or continue its *packed* folder, and return its last update and its packed folder."""
    ray = import_ray()
    stopping = False

    def post(update: TaskUpdate) -> bool:
        try:
            return bool(ray.get(board.post.remote(update), timeout=_TIMEOUT_S))
        except ray.exceptions.ActorDiedError:  # the process of the sweep has ended
            return True
        except ray.exceptions.RayError:  # the task continues while the board is out of reach
            return False

    def send(update: TaskUpdate) -> None:
        nonlocal stopping
        stopping |= thread.submit(post, update).result()

    # A task that waits for Ray releases its core to other tasks, unless another thread waits.
    with ThreadPoolExecutor(1) as thread, tempfile.TemporaryDirectory(prefix="netfl-") as root:
        send(TaskUpdate(task.key))
        if stopping:
            return TaskUpdate(task.key, ended=True, stopped=True), b""
        folder = task_folder(Path(root), task.key)
        if packed:
            unpack(packed, folder)
        update = run_task(task, folder, device, TaskReporter(task, send, lambda: stopping))
        return update, pack(folder)


def pack(folder: Path) -> bytes:
    """Return a run directory as a tar archive, or ``b""`` if there is none."""
    if not folder.exists():
        return b""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != ".lock":
                archive.add(file, str(file.relative_to(folder)))
    return out.getvalue()


def unpack(packed: bytes, folder: Path) -> None:
    """Replace *folder* by a packed run directory, completely or not at all."""
    part = folder.with_name(folder.name + ".part")
    for old in (part, folder):
        shutil.rmtree(old, ignore_errors=True)
    part.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(part, filter="data")
    part.replace(folder)
