"""Aggregations that remember the last update of each user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, cast

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor
from netfl.learning.aggregation._lanes import stack_states
from netfl.learning.device_store import UserPlaces, UserRows


class PerUserState(Aggregation):
    """An aggregation with one row for each user, ``last``, and the mean of all rows; all 0 at the start.

    ``last`` is a `UserRows` in the place of a tensor: a user that has not delivered has no row in memory.
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def open(self, users: int, current: Tensor) -> State:
        return _state(UserRows(current, UserPlaces.of_all(users)), current.new_zeros(len(current)))

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr

    @property
    def has_device_rows(self) -> bool:
        return True

    def memory(self, users: int, parameters: int) -> int:
        """Return the size of the rows of *users*, of the row of all others, and of the mean."""
        return (users + 2) * (parameters + 1)


def last_rows(state: State) -> UserRows:
    """Return the rows of users in the *state* of a `PerUserState`."""
    return cast("UserRows", state["last"])


def _state(last: UserRows, mean: Tensor) -> State:
    """Return a state of a `PerUserState`."""
    return {"last": cast("Tensor", last), "mean": mean}


def store_rows(state: State, users: Tensor, rows: Tensor, has_repeats: bool = True) -> State:
    """Replace the rows of *users* in *state* by *rows*; for a repeated user, the last row counts.

    The rows are changed in place, because their table may be large; the mean is a new tensor.  It is over all users.

    Args:
        state: of a `PerUserState`.
        users: ``[k]``.
        rows: ``[k, parameters + 1]``.
        has_repeats: whether a user occurs more than once, or may.
    """
    last = last_rows(state)
    if users.device.type == "cpu":
        change = _replace_rows_on_host(last, users, rows)
    else:
        change = _replace_rows(last, users, rows, has_repeats)
    return _state(last, state["mean"] + change / len(last))


def _replace_rows_on_host(last: UserRows, users: Tensor, rows: Tensor) -> Tensor:
    """Replace the rows of *users* one after the other; return the sum of the changes, ``[parameters + 1]``."""
    table = last.table
    change = rows.new_zeros(rows.shape[1])
    for user, row in zip(users.tolist(), rows, strict=True):
        before = table[last.places.of_user(user)]  # a view
        change += row - before
        before.copy_(row)
    return change


def _replace_rows(last: UserRows, users: Tensor, rows: Tensor, has_repeats: bool) -> Tensor:
    """Replace the rows as `_replace_rows_on_host`, without a read by the host; the sum has another order."""
    table = last.table
    places = last.places.of(users)
    changes = rows - table[places]
    if has_repeats:  # the last update of a user has its row, and its change counts alone
        order = users.new_ones(len(users)).cumsum(0) - 1  # 0 to k - 1
        is_same_user = users[:, None] == users
        last_update = (is_same_user * order).amax(1)
        changes = changes.where((last_update == order)[:, None], 0.0)
        rows = rows[last_update]
    table[places] = rows
    return changes.sum(0)


def store_single_rows(states: Sequence[State], users: Tensor, rows: Tensor) -> list[State]:
    """Replace the row of one user in each of *states*, as `store_rows` does.

    Args:
        states: of several lanes.
        users: a user of each lane, ``[lanes]``.
        rows: ``[lanes, parameters + 1]``.
    """
    import torch

    lasts = [last_rows(state) for state in states]
    stored = [last.table[last.places.of_user(user)] for last, user in zip(lasts, users.tolist(), strict=True)]  # views
    changes = rows - torch.stack(stored)
    means = stack_states(states, "mean")["mean"] + changes / len(lasts[0])
    for before, row in zip(stored, rows, strict=True):
        before.copy_(row)
    return [_state(last, mean) for last, mean in zip(lasts, means, strict=True)]


def pseudo_gradients(changes: Tensor, rates: Tensor) -> Tensor:
    """Return the sums of gradients behind *changes*: ``-change / step size``, entry by entry; 0 for a step size of 0.

    Args:
        changes: ``[k, parameters + 1]``.
        rates: step sizes on θ and on t, ``[k, 2]``.
    """
    divisors = rates.masked_fill(rates <= 0, math.inf)  # a schedule may reach 0, and t may be constant
    sums = -changes  # a new tensor, which may be divided in place
    sums[:, :-1].div_(divisors[:, :1])
    sums[:, -1].div_(divisors[:, 1])
    return sums
