"""Measured limits that decide how local training is computed.  They change its speed, never its result."""

from __future__ import annotations

from collections.abc import Iterator

_TRAINED = 1 << 23
"""Size of jobs, parameters and mini-batches, that train at once: 32 MiB, several times over.  More is not faster."""
_EXAMINED = 512
"""Examples that a CPU evaluates at once.  Fewer and more are slower."""
_LAYER_BYTES = 1 << 24
"""Most bytes of a layer's output that a CPU evaluates at once.

Memory of 32 MiB and more returns to the system when it is freed.  To map it again takes as long as a convolution.
"""
_GPU_EXAMINED = 1 << 20
"""Examples that a GPU evaluates at once, counted once for each model."""
_GPU_COPIES = 16
"""Share of a GPU's free memory for one copy of the jobs that train at once: the rest is for changes and activations."""
_BATCHED_MODELS = 4
"""Fewest models that a CPU trains faster in one call of `torch.func` than one by one."""
_BATCHED_SIZE = 1 << 16
"""Largest size of such a model."""
_TOGETHER_LANES = 4
"""Fewest learners whose versions a CPU aggregates faster together than lane by lane."""
_TOGETHER_SIZE = 1 << 14
"""Largest size of such a version."""


def is_faster_batched(models: int, size: int) -> bool:
    """Return whether so many *models* of a *size*, by autograd on a CPU, are faster in one call than one by one."""
    return models >= _BATCHED_MODELS and size <= _BATCHED_SIZE


def is_faster_together(learners: int, size: int) -> bool:
    """Return whether a CPU makes the steps of servers of so many *learners* faster together than one by one."""
    return learners >= _TOGETHER_LANES and size <= _TOGETHER_SIZE


def gpu_numbers_at_once(free_bytes: int, number_bytes: int) -> int:
    """Return how many numbers of *number_bytes* train at once on a GPU with *free_bytes*; at least those of a CPU."""
    return max(_TRAINED, free_bytes // (number_bytes * _GPU_COPIES))


def max_jobs_at_once(job_size: int, numbers: int | None = None) -> int:
    """Return the number of jobs of *job_size* numbers each that train at once, at least one.

    Args:
        job_size: parameters and mini-batches of a job.
        numbers: the limit of the device, as of `gpu_numbers_at_once`; ``None`` for a CPU.
    """
    if numbers is None:
        numbers = _TRAINED
    return max(1, numbers // job_size)


def evaluation_slices(examples: int, models: int | None = None, layer_bytes: int = 0) -> Iterator[slice]:
    """Cut so many *examples* into slices that are evaluated at once.

    Args:
        examples: their number.
        models: number of models on a GPU, which evaluates more at once; ``None`` for a CPU.
        layer_bytes: bytes of the largest layer's output for one example of one model; 0 if it is small or unknown.
    """
    if models is not None:
        size = max(_EXAMINED, _GPU_EXAMINED // models)
    elif layer_bytes:
        size = min(_EXAMINED, max(1, _LAYER_BYTES // layer_bytes))
    else:
        size = _EXAMINED
    return (slice(start, start + size) for start in range(0, examples, size))
