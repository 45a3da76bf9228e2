"""Measured limits that decide how local training is computed.  They change its speed, never its result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SHARED_OUT = 10_000_000
"""Products in the forward pass of a step from which a second thread is faster."""
_TRAINED = 1 << 23
"""Size of jobs, parameters and mini-batches, that train at once: 32 MiB, several times over.  More is not faster."""
_EXAMINED = 512
"""Examples evaluated at once.  Fewer and more are slower."""


_BATCHED_MODELS, _BATCHED_SIZE = 4, 1 << 16
"""Fewest models, and largest size of a model, that a CPU trains faster in one call of `torch.func` than one by one."""


def is_faster_batched(models: int, size: int) -> bool:
    """Return whether so many *models* of a *size*, by autograd on a CPU, are faster in one call than one by one."""
    return models >= _BATCHED_MODELS and size <= _BATCHED_SIZE


@contextmanager
def torch_threads(products: int) -> Iterator[None]:
    """Limit torch to one thread in the context if the forward pass of a step of all lanes has too few *products*."""
    before = torch.get_num_threads()
    if products < _SHARED_OUT:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def max_jobs_at_once(job_size: int) -> int:
    """Return the number of jobs of *job_size* numbers each that train at once, at least one."""
    return max(1, _TRAINED // job_size)


def evaluation_slices(examples: int) -> Iterator[slice]:
    """Cut so many *examples* into slices that are evaluated at once."""
    return (slice(start, start + _EXAMINED) for start in range(0, examples, _EXAMINED))
