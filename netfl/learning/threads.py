"""The number of torch's threads for local training on a CPU: one, unless several are measured to be much faster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_SHARED_OUT = 10_000_000
"""Products in the forward pass of a step from which several threads may be faster."""
_SPEEDUP = 1.5
"""Speedup in wall time from which several threads are used.  Workers of one thread each use processor time better."""
_MEASURED_S = 0.8
"""Time after which no further measurement begins."""


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """The chosen number of threads.

    Args:
        threads: number of threads.
        reason: a clause for the user; empty if there was no choice.
    """

    threads: int
    reason: str = ""


def choose_threads(products: int, train: Callable[[], object]) -> ThreadChoice:
    """Choose the number of threads of local training.

    A number in ``OMP_NUM_THREADS`` is used as it is.  Small steps use one thread.  Otherwise *train* is timed for about
    a second, with one thread and with all that torch has.

    Args:
        products: products in the forward pass of a step of all lanes.
        train: some steps of local training, which change nothing.
    """
    available = torch.get_num_threads()
    if os.environ.get("OMP_NUM_THREADS"):
        return ThreadChoice(available)
    if available == 1 or products < _SHARED_OUT:
        return ThreadChoice(1)
    alone_s, together_s = measure_seconds(train, (1, available))
    speedup = alone_s / together_s
    if speedup >= _SPEEDUP:
        return ThreadChoice(available, f"{available} threads, which were {speedup:.2f} times as fast as one")
    text = f"one thread, because {available} were only {speedup:.2f} times as fast; several workers use more cores"
    return ThreadChoice(1, text)


def measure_seconds(train: Callable[[], object], threads: Sequence[int]) -> list[float]:
    """Return the shortest time of a call of *train* with each number of *threads*, which take turns."""
    best = [float("inf")] * len(threads)
    with torch_threads(threads[0]):
        train()  # the first call allocates memory
        begin = time.perf_counter()
        while best[-1] == float("inf") or time.perf_counter() - begin < _MEASURED_S:
            for choice, count in enumerate(threads):
                torch.set_num_threads(count)
                started = time.perf_counter()
                train()
                duration = time.perf_counter() - started
                best[choice] = min(best[choice], duration)
    return best


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Set the number of torch's threads in the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
