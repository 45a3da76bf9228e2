"""Servers that keep a row for each user, of what they last heard from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class PerUserState(Aggregation):
    """An aggregation that keeps a row for each user, ``last``, all 0 at the start, and the mean of all rows."""

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """Nothing of anybody."""
        return {"last": current.new_zeros(users, len(current)), "mean": current.new_zeros(len(current))}

    def memory(self, users: int, parameters: int) -> int:
        """A row for each user, and their mean."""
        return (users + 1) * (parameters + 1)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its versions are tested against algorithm 1, step by step"),)


def store_rows(state: State, users: Tensor, rows: Tensor) -> State:
    """*state* with *rows* in the lines of *users*, written one after the other; of a user twice, the last row stays.

    The table is changed in place, for it may be large; the mean is a new one.

    Args:
        state: that of a `PerUserState`.
        users: ``[k]``.
        rows: ``[k, parameters + 1]``.
    """
    table, grown = state["last"], state["mean"].new_zeros(state["mean"].shape)
    for user, row in zip(users.tolist(), rows, strict=True):
        grown += row - table[user]
        table[user] = row
    return {"last": table, "mean": state["mean"] + grown / len(table)}


def pseudo_gradients(changes: Tensor, rates: Tensor) -> Tensor:
    """The sums of gradients that *changes* are made of: ``-change / step size``, entry by entry; 0 for a t that stays.

    Args:
        changes: ``[k, parameters + 1]``.
        rates: step sizes on θ, and on t, ``[k, 2]``.
    """
    sums = -changes
    sums[:, :-1] /= rates[:, :1]
    sums[:, -1] = (sums[:, -1] / rates[:, 1]).where(rates[:, 1] > 0, 0.0)
    return sums
