"""Measured limits that decide how local training is computed.  They change its speed, never its result.

The computation of gradients, by hand or by autograd, is decided by each model when its architecture is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from netfl.learning.objective import Objective

_SHARED_OUT = 10_000_000
"""Products in the forward pass of a step from which a second thread is faster."""
_GATHERED = 1 << 18
"""Size up to which examples are gathered for all steps at once: 1 MiB in float32, which fits into a core's cache."""
_TRAINED = 1 << 23
"""Size of jobs, parameters and mini-batches, that train at once: 32 MiB, several times over.  More is not faster."""
_EXAMINED = 512
"""Examples evaluated at once.  Fewer and more are slower."""


@contextmanager
def torch_threads(products: int) -> Iterator[None]:
    """Limit torch to one thread in the context if a step has too little arithmetic to share.

    Args:
        products: in the forward pass of a step of all lanes.
    """
    before = torch.get_num_threads()
    if products < _SHARED_OUT:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def can_gather_all_steps(size: int) -> bool:
    """Return whether examples of so many numbers are gathered for all steps at once."""
    return size <= _GATHERED


def max_jobs_at_once(job_size: int) -> int:
    """Return the number of jobs of *job_size* numbers each that train at once, at least one."""
    return max(1, _TRAINED // job_size)


def evaluation_slices(examples: int) -> Iterator[slice]:
    """Cut so many *examples* into slices that are evaluated at once."""
    return (slice(start, start + _EXAMINED) for start in range(0, examples, _EXAMINED))


def skip_zero_backward(objectives: Iterable[Objective], device: torch.device) -> bool:
    """Return whether to check before each backward pass if all weights are 0, to skip it.

    The check pays if the objectives can give such weights, and not on a GPU, which would have to be synchronized.
    """
    return device.type == "cpu" and all(objective.has_zero_weights for objective in objectives)
