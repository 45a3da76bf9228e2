"""Mean intervals between the participations of users, which estimate 1/p of a user that participates with p."""

from __future__ import annotations

from netfl.learning.aggregation import State, Tensor


def open_intervals(users: int, current: Tensor) -> State:
    """Return for each user the number of ended intervals, their sum, and the length of the current one: 0."""
    zeros = current.new_zeros(users).long()
    return {"ended": zeros, "total": zeros, "lasting": zeros}


def mean_intervals(state: State) -> Tensor:
    """Return the mean length ω of the intervals that have ended, in the shape of the *state*; 1 before the first."""
    ended = state["ended"]
    means = state["total"].double() / ended.clamp(min=1)
    return means.masked_fill(ended == 0, 1.0)


def add_round(state: State, delivered: Tensor, cutoff: Tensor | int | None = None) -> State:
    """Add a round in which the users in the mask *delivered* participate, ``[users]`` or ``[lanes, users]``.

    An interval ends with a participation, and when it is *cutoff* rounds long.
    """
    lasting = state["lasting"] + 1
    ends = delivered
    if cutoff is not None:
        ends = delivered | (lasting == cutoff)
    return {
        "ended": state["ended"] + ends,
        "total": state["total"] + lasting * ends,
        "lasting": lasting.masked_fill(ends, 0),
    }


def delivered_users(users: Tensor, like: Tensor) -> Tensor:
    """Return the mask of *users*, ``[k]``, which may repeat, in the shape of *like*, ``[users]``."""
    return like.new_zeros(like.shape).bool().index_fill_(0, users, True)
