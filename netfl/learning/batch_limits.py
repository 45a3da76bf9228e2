"""Which way local training is computed: the one place where that is decided, by limits that were measured.

What is decided here depends on how much there is to do, never on what comes out.  How a model computes its gradients,
by hand or by autograd and all models of a stack in one call or in turn, is decided where its network is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from netfl.learning.objective import Objective

_SHARED_OUT = 10_000_000
"""Products in the forward pass of a step from which a second thread was measured to pay."""
_GATHERED = 1 << 18
"""Numbers up to which examples are gathered for all steps together: 1 MiB in float32, which a core keeps at hand."""
_TRAINED = 1 << 23
"""Numbers, parameters and mini-batches, of jobs that train at once: 32 MiB, several times over; more gains no speed."""
_EXAMINED = 512
"""Examples on which models are tried at once: fewer and more were measured to take longer."""


@contextmanager
def torch_threads(products: int) -> Iterator[None]:
    """Give torch one thread only, for as long as this lasts, where a step is too little arithmetic to share out.

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


def can_gather_all_steps(numbers: int) -> bool:
    """Whether the examples of all steps, so many *numbers*, are gathered together, and not step by step."""
    return numbers <= _GATHERED


def max_jobs_at_once(numbers: int) -> int:
    """How many jobs of so many *numbers* each train at once, at least one."""
    return max(1, _TRAINED // numbers)


def evaluation_slices(examples: int) -> Iterator[slice]:
    """So many *examples* cut into those on which models are tried at once."""
    return (slice(start, start + _EXAMINED) for start in range(0, examples, _EXAMINED))


def skip_zero_backward(objectives: Iterable[Objective], device: torch.device) -> bool:
    """Whether to look, before each backward pass, if all weights are 0, so that it can be left out.

    That pays where it can come about at all, and not on a GPU, which would have to be waited for.
    """
    return device.type == "cpu" and all(one.may_rest for one in objectives)
