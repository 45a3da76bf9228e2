"""Worker processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.simulation.workers.messages import RemoteError, SharedArrays, WorkerPipe, answer_call, continuation

_EXIT_TIMEOUT_S = 5.0
_SIGKILL = 9  # sent by a machine out of memory; Windows has no name for it
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from netfl.simulation.workers.process import run_worker; run_worker(*sys.argv[1:3])"
)
"""The program of a process.  It does not run the main module of the parent, which may be an unguarded script."""


class WorkerProcess:
    """A worker in a Python process of its own, with one thread, as its parent sees it.

    The process has its own session: Ctrl-C reaches the parent only.

    Args:
        module: the module that it runs.
        name: name of the worker in messages.
        remedy: what to do if the process has ended.
        arrays: files for large arrays; ``None`` to send them through the pipe.
    """

    def __init__(self, module: str, name: str, remedy: str = "", arrays: SharedArrays | None = None) -> None:
        folder = ""
        if arrays is not None:
            folder = arrays.folder
        self._name = name
        self._remedy = remedy
        self._process = subprocess.Popen(  # noqa: S603 - this very Python, with arguments of this package
            [sys.executable, "-P", "-c", _PROGRAM, module, folder, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe = WorkerPipe(self._process.stdout, self._process.stdin, arrays)

    def send(self, call: object) -> None:
        """Send a call; if the process has ended, `receive` raises that."""
        with suppress(BrokenPipeError):
            self._pipe.send(call)

    def receive(self) -> Any:
        """Wait for the next message or answer; an exception of the call is raised here.

        Raises:
            MachineError: the process has ended.
        """
        try:
            answer = self._pipe.receive()
        except EOFError:
            raise MachineError(f"{self._name} {self._describe_exit()}{self._remedy}") from None
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def ask_to_stop(self) -> None:
        """Ask the worker to end its call soon."""
        self._process.terminate()

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a message may be unsent
                    pipe.close()

    def _describe_exit(self) -> str:
        try:
            code = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "does not respond"
        if code == -_SIGKILL:
            return f"was killed by signal {_SIGKILL} (has the machine run out of memory?)"
        if code < 0:
            return f"was killed by signal {-code}"
        return f"ended with code {code}"


def check_workers(workers: object) -> None:
    """Raise an error unless *workers* is a number of processes.

    Raises:
        ScenarioError: it is not a whole number from 1 on.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ScenarioError(
            [Fault(argument("workers"), "not a number of processes", workers, "write a whole number from 1 on")]
        )


@contextmanager
def process_workers(module: str, calls: Sequence[object]) -> Iterator[list[WorkerProcess]]:
    """Start a process for each of *calls*, which it executes first; large arrays are in memory once."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="netfl-", ignore_cleanup_errors=True))
        arrays = SharedArrays(folder)
        workers = []
        for number in range(1, len(calls) + 1):
            worker = WorkerProcess(module, f"worker {number} of {len(calls)}", continuation(), arrays)
            stack.callback(worker.close)
            workers.append(worker)
        for worker, call in zip(workers, calls, strict=True):
            worker.send(call)
        for worker in workers:
            worker.receive()
        arrays.clear()
        yield workers


def run_worker(module: str, folder: str) -> None:
    """Execute the calls that arrive at the standard input until it is closed, so that no worker outlives its parent."""
    requests: list[int] = []  # to end the current call soon
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: requests.append(number))
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a print of a model must not get between the messages
    arrays = None
    if folder:
        arrays = SharedArrays(folder)
    pipe = WorkerPipe(incoming, outgoing, arrays)
    call = import_module(module).open_worker(pipe.send, lambda: bool(requests))
    with suppress(EOFError, BrokenPipeError):
        while True:
            try:
                arguments = pipe.receive()
            except EOFError:
                raise
            except Exception as error:  # whatever a model of the user's does when it is imported
                pipe.send(RemoteError.of(error))
                return
            if arrays is not None:
                arrays.clear()
            requests.clear()  # a request to end an earlier call
            pipe.send(answer_call(call, arguments))
