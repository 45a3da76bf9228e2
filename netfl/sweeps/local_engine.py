"""Engine that runs tasks in processes of this machine; a process that dies costs one attempt of one task."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType

from netfl.sweeps.engine import UpdateHandler, task_folder
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskReporter, TaskUpdate, run_task

_BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from netfl.sweeps.local_engine import run_worker; run_worker()"
"""Program of a worker; the main module of this process may be a script without a guard."""
_POLL_S = 0.2
_KILLED = 9
"""Signal number that the system sends when memory is exhausted."""


class LocalEngine:
    """Engine with single-threaded processes of this machine.

    Args:
        workers: number of processes; by default one for each core.
        device: ``auto``, ``cpu`` or ``cuda``.
        retries: number of further attempts of a task whose process has died.
    """

    def __init__(self, workers: int | None = None, device: str = "auto", retries: int = 1) -> None:
        self._workers, self._device, self._retries = workers or os.cpu_count() or 1, device, retries

    def run(self, tasks: Sequence[Task], folder: Path, report: UpdateHandler, stop: Callable[[], bool]) -> None:
        """Run all *tasks*; see `netfl.sweeps.engine.Engine.run`."""
        waiting, attempts = deque(tasks), Counter[str]()
        inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]] = queue.Queue()
        busy: dict[_Worker, Task] = {}
        with ExitStack() as stack:

            def start_worker() -> _Worker:
                worker = _Worker(inbox)
                stack.callback(worker.close)
                return worker

            idle = [start_worker() for _ in range(min(self._workers, len(tasks)))]
            while waiting or busy:
                if stop():
                    waiting.clear()
                    for worker in busy:
                        worker.ask_to_stop()
                while waiting and idle:
                    worker, task = idle.pop(), waiting.popleft()
                    busy[worker] = task
                    attempts[task.key] += 1
                    worker.send((task, task_folder(folder, task.key), self._device))
                with suppress(queue.Empty):
                    worker, update = inbox.get(timeout=_POLL_S)
                    if update is not None:
                        report(update)
                        if update.ended:
                            del busy[worker]
                            idle.append(worker)
                    elif worker in busy:
                        task = busy.pop(worker)
                        idle.append(start_worker())
                        if attempts[task.key] <= self._retries:
                            waiting.append(task)
                        else:
                            report(TaskUpdate(task.key, ended=True, error=worker.describe_exit()))


class _Worker:
    """Process that runs one task at a time.

    Args:
        inbox: receives the updates of the process; ``None`` when it has ended.
    """

    def __init__(self, inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this Python with constant arguments
            [sys.executable, "-P", "-c", _BEGIN, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._stopping = False
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def send(self, message: object) -> None:
        """Send a task; a process that has ended reports that through its inbox."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                pickle.dump(message, self._process.stdin)
                self._process.stdin.flush()

    def ask_to_stop(self) -> None:
        """Make the process end its task after the current round."""
        if not self._stopping:
            self._stopping = True
            self._process.terminate()

    def describe_exit(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"its process ended with code {code}"
        return f"its process was killed by signal {-code}" + (
            " (has the machine run out of memory?)" if code == -_KILLED else ""
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unsent data
                    pipe.close()

    def _listen(self, inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]]) -> None:
        with suppress(EOFError, pickle.UnpicklingError, OSError, ValueError):  # ended, or closed here
            while self._process.stdout is not None:
                inbox.put((self, pickle.load(self._process.stdout)))  # noqa: S301 - from this sweep's own worker
        inbox.put((self, None))


def run_worker() -> None:
    """Run the tasks that arrive at the standard input until it is closed.

    SIGTERM ends the current task after its round.  Ctrl-C is ignored, as the process of the sweep handles it.
    """
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a model must not mix with the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reporters: list[TaskReporter] = []
    requests: list[int] = []

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        for reporter in reporters:
            reporter.stop = True

    signal.signal(signal.SIGTERM, ask_to_stop)

    def send(update: TaskUpdate) -> None:
        pickle.dump(update, outgoing)
        outgoing.flush()

    with suppress(EOFError, BrokenPipeError):
        while True:
            task, folder, device = pickle.load(incoming)  # noqa: S301 - from the sweep that started this
            reporters[:] = [TaskReporter(task.key, send)]
            reporters[0].stop = bool(requests)
            send(run_task(task, folder, device, reporters[0]))
