"""A row for each user, of what the server last heard from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def remember(table: Tensor, users: Tensor, rows: Tensor) -> Tensor:
    """Write *rows* into the lines of *users*, one after the other, and say by how much the sum of all lines grew.

    The table is changed in place, for it may be large.  Of a user that is there more than once, the last row stays.

    Args:
        table: ``[users, n]``.
        users: ``[k]``.
        rows: ``[k, n]``.
    """
    grown = table.new_zeros(table.shape[1])
    for user, row in zip(users.tolist(), rows, strict=True):
        grown += row - table[user]
        table[user] = row
    return grown
