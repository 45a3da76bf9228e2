"""States and settings of several lanes side by side, for `Aggregation.step_together`."""

from __future__ import annotations

from collections.abc import Sequence

from netfl.learning.aggregation import State, Tensor


def stack_states(states: Sequence[State], *names: str) -> dict[str, Tensor]:
    """Stack the tensors of the *states* of lanes, ``[lanes, …]`` each: those of *names*, by default all."""
    import torch

    return {name: torch.stack([state[name] for state in states]) for name in names or states[0]}


def split_states(stacked: State) -> list[State]:
    """Return the state of each lane from tensors ``[lanes, …]``, as views."""
    return [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]


def column(values: Sequence[float], like: Tensor) -> Tensor:
    """Return a value for each lane, ``[lanes, 1]``, in the type and on the device of *like*."""
    return like.new_tensor(values)[:, None]
