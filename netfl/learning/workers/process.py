"""Worker processes of this machine: how a run starts them and talks to them, and what runs inside.

`start_process` runs the ``main`` of a module in a new Python process and gives both pipes to it.
`process_workers` starts the workers of a `netfl.learning.workers.pool.ParallelLearner` this way; in each of them `main`
executes the calls that arrive.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, NoReturn

from netfl.errors import MachineError
from netfl.learning.workers.messages import RemoteError, SharedArrays, WorkerPipe, pack_message

if TYPE_CHECKING:
    from netfl.learning.learner import BatchedLearner, LearningTask

_EXIT_TIMEOUT_S = 5.0
_SIGKILL = 9  # sent by a machine out of memory; Windows has no name for it
_RUN_MODULE = (
    "import sys; from importlib import import_module; sys.path[:] = sys.argv[3:]; "
    "import_module(sys.argv[1]).main(sys.argv[2])"
)
"""The program of a process.  It does not run the main module of the parent, which may be an unguarded script."""


@contextmanager
def start_process(module: str, argument: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run ``main(argument)`` of *module* in a Python process with pipes and one thread; kill it when the context ends.

    The process has its own session: Ctrl-C reaches the parent only.
    """
    process = subprocess.Popen(  # noqa: S603 - this very Python, with arguments of this package
        [sys.executable, "-P", "-c", _RUN_MODULE, module, argument, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a message may be unsent
                    pipe.close()


def take_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the pipes to the parent, inside a process of `start_process`.  Prints go to the standard error output."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a print of a model must not get between the messages
    return incoming, outgoing


def describe_exit(process: subprocess.Popen[bytes], timeout_s: float | None = None) -> str:
    """Describe how *process* ended, such as "was killed by signal 9 (…)"."""
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = 0
    memory = " (has the machine run out of memory?)" if code == -_SIGKILL else ""
    return f"was killed by signal {-code}{memory}" if code < 0 else "has ended"


class ProcessWorker:
    """A worker process with a learner, seen from the run.

    Args:
        process: the process.
        arrays: for large arrays.
        name: of the worker, for messages.
    """

    def __init__(self, process: subprocess.Popen[bytes], arrays: SharedArrays, name: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise MachineError("a worker has no pipes")
        self._process, self._name = process, name
        self._pipe = WorkerPipe(process.stdout, process.stdin, arrays)

    def send(self, message: object) -> None:
        """See `netfl.learning.workers.pool.WorkerHandle`."""
        try:
            self._pipe.send(message)
        except BrokenPipeError:
            self._raise_exit()

    def receive(self) -> Any:
        """See `netfl.learning.workers.pool.WorkerHandle`."""
        try:
            answer = self._pipe.receive()
        except EOFError:
            self._raise_exit()
        if isinstance(answer, RemoteError):
            raise answer.error()
        return answer

    def _raise_exit(self) -> NoReturn:
        end = describe_exit(self._process, _EXIT_TIMEOUT_S)
        raise MachineError(f"{self._name} {end}; the last checkpoint is kept, go on from it with netfl resume")


@contextmanager
def process_workers(tasks: Sequence[LearningTask]) -> Iterator[list[ProcessWorker]]:
    """Start a process with a learner for each of *tasks*."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="netfl-", ignore_cleanup_errors=True))
        arrays = SharedArrays(folder)
        workers = [
            ProcessWorker(
                stack.enter_context(start_process(__name__, folder)), arrays, f"worker {number} of {len(tasks)}"
            )
            for number in range(1, len(tasks) + 1)
        ]
        for worker, task in zip(workers, tasks, strict=True):
            worker.send(("open", task))
        for worker in workers:
            worker.receive()
        arrays.clear()
        yield workers


class LearnerHost:
    """The learner inside a worker."""

    def __init__(self) -> None:
        self._learner: BatchedLearner | None = None
        self._stack = ExitStack()

    def call(self, name: str, *arguments: Any) -> Any:
        """Open the learner, call one of its methods, or read an attribute; return the result or a `RemoteError`."""
        try:
            if name == "open":
                from netfl.learning.learner import BatchedLearner

                self._learner = BatchedLearner(*arguments)
                self._stack.enter_context(self._learner.working())
                return None
            attribute = getattr(self._learner, name)
            return attribute(*arguments) if callable(attribute) else attribute
        except Exception as error:  # for the run to raise
            return RemoteError.of(error)

    def call_packed(self, message: bytes) -> bytes:
        """Execute a packed call, and return the packed result."""
        name, *arguments = pickle.loads(message)  # noqa: S301 - from this run
        return pack_message(self.call(name, *arguments))


def main(folder: str) -> None:
    """Execute calls until the pipe is closed, so that a worker never outlives its run.  Signals are for the run."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    arrays, host = SharedArrays(folder), LearnerHost()
    pipe = WorkerPipe(*take_pipes(), arrays)
    with suppress(EOFError, BrokenPipeError):
        while True:
            try:
                message = pipe.receive()
            except EOFError:
                raise
            except Exception as error:  # whatever a model of the user's does when it is imported
                pipe.send(RemoteError.of(error))
                return
            arrays.clear()
            pipe.send(host.call(*message))
