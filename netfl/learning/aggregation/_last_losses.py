"""Losses that users have reported, of which the last of each user is remembered."""

from __future__ import annotations

from netfl.learning.aggregation import Tensor


def with_last(values: Tensor, users: Tensor, reported: Tensor, is_valid: Tensor | None = None) -> Tensor:
    """Return *values* of all users, with the last value *reported* by each of *users* in place of the former.

    Args:
        values: one of each user, ``[all users]``.
        users: senders in the order of their arrival, ``[k]``; a user may occur more than once.
        reported: the value of each delivery, ``[k]``.
        is_valid: whether each delivery counts, ``[k]``; by default all do.
    """
    arrival = users.new_ones(len(users)).cumsum(0)  # 1 to k
    if is_valid is not None:
        arrival = arrival * is_valid
    last = users.new_zeros(len(values)).scatter_reduce(0, users, arrival, "amax")  # 0 without a delivery
    return reported[(last - 1).clamp(min=0)].where(last > 0, values)
