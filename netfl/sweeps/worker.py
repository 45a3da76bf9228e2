"""A worker: a process that does the tasks that it is sent through a pipe, until that is closed."""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import suppress
from types import FrameType

from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task


def main() -> None:
    """Do tasks; SIGTERM ends the one under way after its round, Ctrl-C is for the sweep to heed."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a model prints must not get between the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watches: list[TaskReporter] = []
    asked: list[int] = []

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        for watch in watches:
            watch.stop = True

    signal.signal(signal.SIGTERM, ask_to_stop)

    def tell(told: TaskUpdate) -> None:
        pickle.dump(told, outgoing)
        outgoing.flush()

    with suppress(EOFError, BrokenPipeError):
        while True:
            task, folder, device = pickle.load(incoming)  # noqa: S301 - from the sweep that started this
            watches[:] = [TaskReporter(task.key, tell)]
            watches[0].stop = bool(asked)
            tell(run_task(task, folder, device, watches[0]))
