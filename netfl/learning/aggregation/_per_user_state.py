"""Aggregations that remember the last update of each user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor
from netfl.learning.aggregation._lanes import stack_states


class PerUserState(Aggregation):
    """An aggregation with one row for each user, ``last``, and the mean of all rows; all 0 at the start."""

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def open(self, users: int, current: Tensor) -> State:
        return {"last": current.new_zeros(users, len(current)), "mean": current.new_zeros(len(current))}

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr

    def memory(self, users: int, parameters: int) -> int:
        return (users + 1) * (parameters + 1)


def store_rows(state: State, users: Tensor, rows: Tensor, has_repeats: bool = True) -> State:
    """Replace the rows of *users* in *state* by *rows*; for a repeated user, the last row counts.

    The table is changed in place, because it may be large; the mean is a new tensor.

    Args:
        state: of a `PerUserState`.
        users: ``[k]``.
        rows: ``[k, parameters + 1]``.
        has_repeats: whether a user occurs more than once, or may.
    """
    table = state["last"]
    if users.device.type != "cpu":  # without a read by the host; the sum has another order
        changes = rows - table[users]
        if has_repeats:
            places = users.new_ones(len(users)).cumsum(0) - 1
            last = ((users[:, None] == users) * places).amax(1)  # of each user
            changes, rows = changes.where((last == places)[:, None], 0.0), rows[last]
        table[users] = rows
        return {"last": table, "mean": state["mean"] + changes.sum(0) / len(table)}
    change = state["mean"].new_zeros(state["mean"].shape)
    for user, row in zip(users.tolist(), rows, strict=True):
        change += row - table[user]
        table[user] = row
    return {"last": table, "mean": state["mean"] + change / len(table)}


def store_single_rows(states: Sequence[State], users: Tensor, rows: Tensor) -> list[State]:
    """Replace the row of one user in each of *states*, as `store_rows` does.

    Args:
        states: of several lanes.
        users: a user of each lane, ``[lanes]``.
        rows: ``[lanes, parameters + 1]``.
    """
    import torch

    tables = [state["last"] for state in states]
    before = torch.stack([table[user] for table, user in zip(tables, users.tolist(), strict=True)])
    means = stack_states(states, "mean")["mean"] + (rows - before) / len(tables[0])
    for table, user, row in zip(tables, users.tolist(), rows, strict=True):
        table[user] = row
    return [{"last": table, "mean": mean} for table, mean in zip(tables, means, strict=True)]


def pseudo_gradients(changes: Tensor, rates: Tensor) -> Tensor:
    """Return the sums of gradients behind *changes*: ``-change / step size``, entry by entry; 0 for a constant t.

    Args:
        changes: ``[k, parameters + 1]``.
        rates: step sizes on θ and on t, ``[k, 2]``.
    """
    sums = -changes
    sums[:, :-1].div_(rates[:, :1])
    sums[:, -1].div_(rates[:, 1]).masked_fill_(rates[:, 1] <= 0, 0.0)
    return sums
