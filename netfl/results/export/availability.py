"""Export of the times at which users are present, for the access and the outage that read such a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.core.remedies import argument, changed
from netfl.errors import Fault, ScenarioError
from netfl.network.outage._schedule import UserSchedule
from netfl.results.run_reader import Run


def availability(run: Run, replica: int = 0, *, in_rounds: bool = False) -> list[UserSchedule]:
    """Return the presence of each user of one replica, for the access and the outage ``availability``.

    With a network a user is present while it is up.  With any other access it is present from the opening of the first
    to the close of the last of consecutive rounds in which its update is delivered.

    Args:
        run: a run with at least one round.
        replica: the replica.
        in_rounds: take delivered updates, with a network too, and count rounds in place of seconds.

    Raises:
        ScenarioError: there are no rounds, or outages were not recorded.
    """
    rounds = run.rounds_of(replica)
    users = int(run.required_section("users"))
    if dict(run.required_section("access")).get("kind") == "network" and not in_rounds:
        return _outages(run, replica, users)
    deliveries = run.deliveries[run.deliveries["replica"] == replica]
    delivered = np.unique(deliveries[["user", "round"]].to_numpy(np.int64), axis=0)
    if in_rounds:
        return presence_by_rounds(users, delivered, np.arange(0.0, len(rounds)), np.arange(1.0, len(rounds) + 1))
    opened_s = rounds["opened_s"].to_numpy()
    closed_s = rounds["closed_s"].to_numpy()
    if (closed_s <= opened_s).any():
        remedy = f"export rounds in place of times: {argument('in_rounds=True', '--rounds')}"
        raise ScenarioError([Fault("", "some rounds have a duration of 0", None, remedy)])
    return presence_by_rounds(users, delivered, opened_s, closed_s)


def presence_by_rounds(
    users: int, delivered: NDArray[np.int64], opened: NDArray[np.float64], closed: NDArray[np.float64]
) -> list[UserSchedule]:
    """Return the presence of *users* that gives the same deliveries.

    Args:
        users: the number of users.
        delivered: distinct (user, round), in rising order, ``[n, 2]``.
        opened: when each round opened, from round 1 on.
        closed: when it closed.
    """
    bounds = np.searchsorted(delivered[:, 0], np.arange(users + 1))
    schedules = []
    for user in range(users):
        rounds = delivered[bounds[user] : bounds[user + 1], 1]
        begins = rounds[np.diff(rounds, prepend=-1) > 1]  # first and last of consecutive rounds
        ends = rounds[np.diff(rounds, append=len(closed) + 2) > 1]
        switches = np.stack([opened[begins - 1], closed[ends - 1]], axis=1).ravel().astype(float)
        is_present_first = bool(rounds.size and rounds[0] == 1)
        if is_present_first:
            switches = switches[1:]
        if rounds.size and rounds[-1] == len(closed):  # it stays
            switches = switches[:-1]
        schedules.append(UserSchedule(user, is_present_first, switches))
    return schedules


def _outages(run: Run, replica: int, users: int) -> list[UserSchedule]:
    """Return the presence of each user with a network, by the events of outages."""
    missing = [kind for kind in ("down", "up") if kind not in run.recorded_kinds]
    if missing:
        problem = f"events of the kind {' and '.join(missing)} were not recorded, but state when users were available"
        in_rounds = argument("in_rounds=True", "--rounds")
        remedy = f"trace it again with {changed('record', 'all')}, or export the rounds with a delivery: {in_rounds}"
        raise ScenarioError([Fault("record", problem, None, remedy)])
    events = run.events
    events = events[(events["replica"] == replica) & (events["user"] >= 0) & events["kind"].isin(["down", "up"])]
    events = events.sort_values(["user", "time_s"], kind="stable")
    times_s = events["time_s"].to_numpy()
    is_down = (events["kind"] == "down").to_numpy()
    bounds = np.searchsorted(events["user"].to_numpy(), np.arange(users + 1))  # the rows of each user
    schedules = []
    for user in range(users):
        of_user = slice(bounds[user], bounds[user + 1])
        switches_s = times_s[of_user]
        is_present_first = True
        if switches_s.size and switches_s[0] <= 0.0:  # this is the state at the start, not a switch
            is_present_first = not is_down[of_user][0]
            switches_s = switches_s[1:]
        schedules.append(UserSchedule(user, is_present_first, switches_s))
    return schedules
