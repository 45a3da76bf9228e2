"""Tasks in processes of this machine; a process that dies costs one attempt of one task."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from netfl.sweeps.engine import Heard, task_folder
from netfl.sweeps.plan import Task
from netfl.sweeps.task import TaskUpdate

_BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from netfl.sweeps import worker; worker.main()"
"""What a worker runs: not this process's own main module, which may be a script that nothing guards against that."""
_GLANCE_S = 0.2
_KILLED = 9
"""The signal that a machine out of memory sends."""


class LocalEngine:
    """Processes of this machine, of one thread each.

    Args:
        workers: how many; by default one for each core.
        device: ``auto``, ``cpu`` or ``cuda``.
        retries: how often a task is tried again whose process has died.
    """

    def __init__(self, workers: int | None = None, device: str = "auto", retries: int = 1) -> None:
        self._workers, self._device, self._retries = workers or os.cpu_count() or 1, device, retries

    def run(self, tasks: Sequence[Task], folder: Path, heard: Heard, stop: Callable[[], bool]) -> None:
        """As of `netfl.sweeps.engine.Engine`."""
        waiting, tries = deque(tasks), Counter[str]()
        inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]] = queue.Queue()
        busy: dict[_Worker, Task] = {}
        with ExitStack() as stack:

            def hire() -> _Worker:
                worker = _Worker(inbox)
                stack.callback(worker.end)
                return worker

            idle = [hire() for _ in range(min(self._workers, len(tasks)))]
            while waiting or busy:
                if stop():
                    waiting.clear()
                    for worker in busy:
                        worker.ask_to_stop()
                while waiting and idle:
                    worker, task = idle.pop(), waiting.popleft()
                    busy[worker] = task
                    tries[task.key] += 1
                    worker.send((task, task_folder(folder, task.key), self._device))
                with suppress(queue.Empty):
                    worker, told = inbox.get(timeout=_GLANCE_S)
                    if told is not None:
                        heard(told)
                        if told.ended:
                            del busy[worker]
                            idle.append(worker)
                    elif worker in busy:
                        task = busy.pop(worker)
                        idle.append(hire())
                        if tries[task.key] <= self._retries:
                            waiting.append(task)
                        else:
                            heard(TaskUpdate(task.key, ended=True, error=worker.epitaph()))


class _Worker:
    """A process that does one task at a time.

    Args:
        inbox: gets what it says; ``None`` when it is gone.
    """

    def __init__(self, inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this very Python, with words of its own
            [sys.executable, "-P", "-c", _BEGIN, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._asked = False
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def send(self, message: object) -> None:
        """Tell it what to do; if it is gone, its inbox knows."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                pickle.dump(message, self._process.stdin)
                self._process.stdin.flush()

    def ask_to_stop(self) -> None:
        """Have it end its task after the round that is going on, once."""
        if not self._asked:
            self._asked = True
            self._process.terminate()

    def epitaph(self) -> str:
        """How it died."""
        code = self._process.wait()
        if code >= 0:
            return f"its process ended with code {code}"
        return f"its process was killed by signal {-code}" + (
            " (has the machine run out of memory?)" if code == -_KILLED else ""
        )

    def end(self) -> None:
        """Be rid of it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent any more
                    pipe.close()

    def _listen(self, inbox: queue.Queue[tuple[_Worker, TaskUpdate | None]]) -> None:
        """Pass on what it says."""
        with suppress(EOFError, pickle.UnpicklingError, OSError, ValueError):  # gone, or closed here
            while self._process.stdout is not None:
                inbox.put((self, pickle.load(self._process.stdout)))  # noqa: S301 - from this sweep's own worker
        inbox.put((self, None))
