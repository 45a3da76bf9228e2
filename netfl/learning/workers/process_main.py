"""A worker: a process that learns a part of a run's lanes, with one thread, and does what it is told through a pipe.

It ends when the pipe does, so it never outlives its run; signals are for the run to heed.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netfl.learning.workers.messages import SharedArrays, WorkerPipe


def main() -> None:
    """Learn as told; the folder for large arrays is the first word of the command line."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a model prints must not get between the messages
    from netfl.learning.workers.messages import SharedArrays, WorkerPipe

    shelf = SharedArrays(sys.argv.pop(1))
    with suppress(EOFError, BrokenPipeError):
        serve_learner(WorkerPipe(incoming, outgoing, shelf), shelf)


def serve_learner(channel: WorkerPipe, shelf: SharedArrays) -> None:
    """Open the learner that the first message describes, and answer all others: a method's name and its arguments.

    Raises:
        EOFError: nobody is there any more who would send one.
        BrokenPipeError: the same, found out with an answer.
    """
    from netfl.learning.learner import BatchedLearner
    from netfl.learning.workers.messages import RemoteError

    try:
        learner = BatchedLearner(**channel.receive())
    except EOFError:
        raise
    except Exception as error:  # whatever a model of the user's does when it is imported and opened
        channel.send(RemoteError.of(error))
        return
    channel.send(None)
    with learner.working():
        while True:
            name, *arguments = channel.receive()
            shelf.clear()
            try:
                found = getattr(learner, name)
                answer = found(*arguments) if callable(found) else found
            except Exception as error:  # for the run to raise
                answer = RemoteError.of(error)
            channel.send(answer)
