"""When users were there, for the access and the outage that read such a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.network.outage._schedule import UserSchedule
from netfl.results.run_reader import Run


def availability(run: Run, replica: int = 0, *, in_rounds: bool = False) -> list[UserSchedule]:
    """When each user of one replica was there, for the access and the outage `availability` to read.

    Of a network, when it was up; of any other access, from the opening of the first round in which it was heard to the
    close of the last one in a row.

    Args:
        run: a run with at least one round.
        replica: which of its replicas.
        in_rounds: tell of who was heard, of a network, too, and count rounds in place of seconds.

    Raises:
        ScenarioError: there is nothing to tell of.
    """
    rounds = run.rounds[run.rounds["replica"] == replica].sort_values("round")
    if rounds.empty:
        there = sorted(run.rounds["replica"].unique().tolist())
        problem = "no such replica is recorded" if there else f"{run.folder} has no rounds yet"
        remedy = f"recorded are {there}" if there else "finish it with: netfl resume DIR"
        raise ScenarioError([Fault("--replica", problem, replica, remedy)])
    users = int(run.said("users"))
    if dict(run.said("access")).get("kind") == "network" and not in_rounds:
        return _outages(run, replica, users)
    told = run.deliveries[run.deliveries["replica"] == replica]
    heard = np.unique(told[["user", "round"]].to_numpy(np.int64), axis=0)
    if in_rounds:
        return presence_by_rounds(users, heard, np.arange(0.0, len(rounds)), np.arange(1.0, len(rounds) + 1))
    opened_s, closed_s = rounds["opened_s"].to_numpy(), rounds["closed_s"].to_numpy()
    if (closed_s <= opened_s).any():
        raise ScenarioError([Fault("", "some rounds took no time at all", None, "count in rounds: --rounds")])
    return presence_by_rounds(users, heard, opened_s, closed_s)


def presence_by_rounds(
    users: int, heard: NDArray[np.int64], opened: NDArray[np.float64], closed: NDArray[np.float64]
) -> list[UserSchedule]:
    """The presence of *users* that makes them be heard as they were.

    Args:
        users: how many there are.
        heard: distinct (user, round), in rising order, ``[n, 2]``.
        opened: when each round opened, from round 1 on.
        closed: when it closed.
    """
    bounds = np.searchsorted(heard[:, 0], np.arange(users + 1))
    rows = []
    for user in range(users):
        own = heard[bounds[user] : bounds[user + 1], 1]
        begins = own[np.diff(own, prepend=-1) > 1]
        ends = own[np.diff(own, append=len(closed) + 2) > 1]
        times = np.stack([opened[begins - 1], closed[ends - 1]], axis=1).ravel().astype(float)
        start = bool(own.size and own[0] == 1)
        last = bool(own.size and own[-1] == len(closed))
        rows.append(UserSchedule(user, start, times[start : len(times) - last]))
    return rows


def _outages(run: Run, replica: int, users: int) -> list[UserSchedule]:
    """When the users of a network were up.

    Raises:
        ScenarioError: that was not recorded.
    """
    record = run.scenario.get("record", "all")
    record = record["events"] if isinstance(record, dict) else record
    missing = [kind for kind in ("down", "up") if record != "all" and kind not in record]
    if missing:
        problem = f"events of the kind {' and '.join(missing)} were not recorded, and say when users were there"
        remedy = "trace it again with --set record=all, or tell of who was heard: --rounds"
        raise ScenarioError([Fault("record", problem, None, remedy)])
    events = run.events
    own = events[(events["replica"] == replica) & (events["user"] >= 0) & events["kind"].isin(["down", "up"])]
    who, when, down = own["user"].to_numpy(), own["time_s"].to_numpy(), (own["kind"] == "down").to_numpy()
    order = np.lexsort((when, who))
    who, when, down = who[order], when[order], down[order]
    bounds = np.searchsorted(who, np.arange(users + 1))
    rows = []
    for user in range(users):
        times, begun_down = when[bounds[user] : bounds[user + 1]], down[bounds[user] : bounds[user + 1]]
        from_start = bool(times.size and times[0] <= 0.0)
        start = not (from_start and begun_down[0])
        rows.append(UserSchedule(user, start, times[from_start:]))
    return rows
