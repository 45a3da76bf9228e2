"""A worker as its run sees it: a process that is started, told what to do, and ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from netfl.errors import MachineError
from netfl.learning.workers.messages import RemoteError, SharedArrays, WorkerPipe

_GOING_S = 5.0
"""Seconds in which a process whose pipes are closed should be gone."""
_KILLED = 9
"""The signal that a machine out of memory sends."""
_BEGIN = "import sys; sys.path[:] = sys.argv[2:]; from netfl.learning import _worker; _worker.main()"
"""What a worker runs: not the run's own main module, which may be a script that nothing guards against that."""


class Worker:
    """A worker as its run sees it.

    Args:
        process: the process.
        channel: the way to it.
        name: what it is, in words.
    """

    def __init__(self, process: subprocess.Popen[bytes], channel: WorkerPipe, name: str) -> None:
        self._process, self._channel, self._name = process, channel, name

    def send(self, message: object) -> None:
        """Send *message*."""
        try:
            self._channel.send(message)
        except BrokenPipeError:
            self._lost()

    def receive(self) -> Any:
        """The next answer; what the worker failed with is raised."""
        try:
            answer = self._channel.receive()
        except EOFError:
            self._lost()
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def _lost(self) -> NoReturn:
        """Say that the worker is gone."""
        try:
            code = self._process.wait(_GOING_S)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"was killed by signal {-code}" if code < 0 else "has ended"
        why = " (has the machine run out of memory?)" if code == -_KILLED else ""
        raise MachineError(f"{self._name} {how}{why}; the last checkpoint is kept, go on from it with netfl resume")


@contextmanager
def processes(said: Sequence[Mapping[str, Any]]) -> Iterator[list[Worker]]:
    """A process for each part of a run, with a learner that is made of what is *said* of that part."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="netfl-", ignore_cleanup_errors=True))
        shelf = SharedArrays(folder)
        names = [f"worker {number} of {len(said)}" for number in range(1, len(said) + 1)]
        workers = [stack.enter_context(_worker(name, shelf)) for name in names]
        for worker, own in zip(workers, said, strict=True):
            worker.send(own)
        for worker in workers:
            worker.receive()
        shelf.clear()
        yield workers


@contextmanager
def _worker(name: str, shelf: SharedArrays) -> Iterator[Worker]:
    """A worker, which is gone after this, however it ends."""
    process = subprocess.Popen(  # noqa: S603 - this very Python, with words of its own
        [sys.executable, "-P", "-c", _BEGIN, shelf.folder, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        start_new_session=True,
    )
    if process.stdin is None or process.stdout is None:
        raise MachineError("a worker has no pipes")
    try:
        yield Worker(process, WorkerPipe(process.stdout, process.stdin, shelf), name)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # what was not sent any more
                pipe.close()
