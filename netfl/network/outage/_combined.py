"""The outages of a network combined: a node is up when it is up in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from netfl.core.kinds import stream_keys
from netfl.errors import Fault, ScenarioError
from netfl.network.energy import EnergyMeter
from netfl.network.layout import Layout, Stays
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.outage._schedule import (
    AvailabilitySchedule,
    ScheduledAvailability,
    UserSchedule,
    merge_intervals,
)
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints

_MAX_OUTAGES = 1_000
"""Consecutive outages after which a node counts as down for ever, because its windows never overlap, for example."""


class CombinedOutages(NodeAvailability):
    """Several outages as one.

    Args:
        timelines: outages that interrupt transmissions; with none, every node is always up.  They are asked in this
            order, and the later ones only for nodes that are up in the earlier ones: put expensive ones last.
        sparing: outages that do not interrupt transmissions.

    Attributes:
        interrupting: the outages that interrupt transmissions; this object itself if all do.
    """

    def __init__(self, timelines: Sequence[NodeAvailability] = (), sparing: Sequence[NodeAvailability] = ()) -> None:
        self._timelines = (*timelines, *sparing)
        self.interrupting = CombinedOutages(timelines) if sparing else self

    @classmethod
    def open(
        cls, outages: Sequence[Outage], layout: Layout, streams: Streams, stays: Stays | None = None
    ) -> CombinedOutages:
        """Open the outages of a scenario on *layout*, each with its own place below *streams*.

        Users that the motion of *layout* takes out of the network are down in that time, too, and all users outside of
        *stays*.

        Raises:
            ScenarioError: an outage does not fit *layout*; has the errors of all outages, with keys that start with an
                outage's number.
        """
        timelines: dict[str, list[NodeAvailability]] = {"interrupt": [], "finish": []}
        faults: list[Fault] = []
        for index, (outage, key) in enumerate(zip(outages, stream_keys(outages), strict=True)):
            try:
                opened = outage.open(layout, streams.at("outage", *key))
                timelines[outage.in_progress].append(opened)
            except ScenarioError as error:
                faults += [fault.under(str(index)) for fault in error.faults]
        if faults:
            raise ScenarioError(faults)
        if layout.paths is not None and layout.paths.stays is not None:
            timelines["interrupt"].append(_absences(layout.paths.stays, layout.nodes))
        if stays is not None:
            timelines["interrupt"].append(_absences(stays, layout.nodes))
        for drawn_last in timelines.values():  # processes draw for each time that they are asked about
            drawn_last.sort(key=lambda timeline: isinstance(timeline, AlternatingRenewal))
        return cls(timelines["interrupt"], timelines["finish"])

    def __bool__(self) -> bool:
        """Return whether any node can ever be down."""
        return bool(self._timelines)

    @property
    def is_exact(self) -> bool:
        return all(timeline.is_exact for timeline in self._timelines)

    @property
    def is_metered(self) -> bool:
        return any(timeline.is_metered for timeline in self._timelines)

    @property
    def powers_devices(self) -> bool:
        return any(timeline.powers_devices for timeline in self._timelines)

    def draw_from(self, energy: EnergyMeter) -> None:
        for timeline in self._timelines:
            timeline.draw_from(energy)

    def train(self, users: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        return _smallest([timeline.train(users, time_s, until_s) for timeline in self._timelines])

    def stop(self, users: Ints, time_s: Floats) -> None:
        for timeline in self._timelines:
            timeline.stop(users, time_s)

    def transmit(
        self, users: Ints, time_s: ArrayLike, airtime_s: ArrayLike, power_factor: Floats | None = None
    ) -> Floats | None:
        return _smallest([timeline.transmit(users, time_s, airtime_s, power_factor) for timeline in self._timelines])

    def receive(self, users: Ints, time_s: ArrayLike, airtime_s: float) -> Floats | None:
        return _smallest([timeline.receive(users, time_s, airtime_s) for timeline in self._timelines])

    def evaluate(self, users: Ints, time_s: ArrayLike, joules: Floats) -> Floats | None:
        return _smallest([timeline.evaluate(users, time_s, joules) for timeline in self._timelines])

    def charge_j(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        return _smallest([timeline.charge_j(users, time_s) for timeline in self._timelines])

    def charge_share(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        return _smallest([timeline.charge_share(users, time_s) for timeline in self._timelines])

    def is_charging(self, users: Ints, time_s: ArrayLike) -> Bools | None:
        answers = [timeline.is_charging(users, time_s) for timeline in self._timelines]
        stated = [answer for answer in answers if answer is not None]
        if not stated:
            return None
        return np.asarray(np.logical_and.reduce(stated))

    def idle_j(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        return _smallest([timeline.idle_j(users, time_s) for timeline in self._timelines])

    def off_s(self, users: Ints, from_s: Floats, by_s: Floats) -> Floats:
        """Return the first instant from *from_s* on and before *by_s* at which each user is switched off, ``[n]``.

        Infinity stands for none.
        """
        off_s = np.full(len(users), np.inf)
        for timeline in self._timelines:
            if not timeline.powers_devices:
                continue
            remaining = np.arange(len(users))
            at_s = np.array(from_s)
            while remaining.size:
                is_up = timeline.up(users[remaining], at_s[remaining])
                off = remaining[~is_up]
                off_s[off] = np.minimum(off_s[off], at_s[off])

                # those that are up are asked again at their next change, as long as there is time
                has_time = at_s[remaining] < by_s[remaining]
                remaining = remaining[is_up & has_time]
                at_s[remaining] = timeline.next_change(users[remaining], at_s[remaining])
                remaining = remaining[at_s[remaining] < by_s[remaining]]
        return off_s

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        up = np.ones(len(nodes), bool)
        for timeline in self._timelines:
            up &= timeline.up(nodes, time_s)
        return up

    def next_change(self, nodes: Ints, time_s: ArrayLike, by_s: float = np.inf) -> Floats:
        """Return the first instant after *time_s* at which each node goes up or down; *by_s* as in `next_up`."""
        change_s = np.full(len(nodes), np.inf)
        for timeline in self._timelines:
            change_s = np.minimum(change_s, timeline.next_change(nodes, time_s))
        is_down = ~self.up(nodes, time_s)  # until it is up in all timelines at once
        change_s[is_down] = self.next_up(nodes[is_down], np.broadcast_to(time_s, len(nodes))[is_down], by_s)
        return change_s

    def next_up(self, nodes: Ints, time_s: ArrayLike, by_s: float = np.inf) -> Floats:
        """Return the first instant from *time_s* on at which each node is up, ``[n]``; infinity if never.

        For a node that is down beyond *by_s* the result is any instant after *by_s*.
        """
        at_s = np.array(np.broadcast_to(np.asarray(time_s, float), len(nodes)))
        remaining = np.arange(len(nodes))  # nodes that may be down at at_s
        for _ in range(_MAX_OUTAGES):
            was_s = at_s[remaining]
            up = remaining
            for timeline in self._timelines:  # a node that is down in one is not asked in the others until that is over
                if not up.size:
                    break
                is_down = ~timeline.up(nodes[up], at_s[up])
                waiting = up[is_down]
                at_s[waiting] = timeline.next_change(nodes[waiting], at_s[waiting])
                up = up[~is_down]

            # nodes that have waited in one may be down in another by now
            now_s = at_s[remaining]
            has_waited = now_s > was_s
            remaining = remaining[has_waited & np.isfinite(now_s) & (now_s <= by_s)]
            if not remaining.size:
                return at_s
        at_s[remaining] = np.inf
        return at_s

    def changes(self, nodes: Ints, start_s: float, end_s: float) -> tuple[Floats, Ints, Bools]:
        """Return time, node and new state of all changes of *nodes* in (start, end], by time, then by node."""
        remaining = np.asarray(nodes)
        at_s = np.full(len(nodes), float(start_s))
        was_up = self.up(remaining, at_s)
        changes = [(at_s[:0], remaining[:0], was_up[:0])]
        while remaining.size:
            at_s = self.next_change(remaining, at_s, end_s)
            is_within = at_s <= end_s
            remaining = remaining[is_within]
            at_s = at_s[is_within]
            is_up = self.up(remaining, at_s)
            has_changed = is_up != was_up[is_within]  # two changes at one instant cancel
            changes.append((at_s[has_changed], remaining[has_changed], is_up[has_changed]))
            was_up = is_up
        times_s, changed_nodes, states = (np.concatenate(column) for column in zip(*changes, strict=True))
        by_time = np.lexsort((changed_nodes, times_s))
        return times_s[by_time], changed_nodes[by_time], states[by_time]


def _absences(stays: Stays, nodes: int) -> NodeAvailability:
    """Return the states of *nodes* of which the users are down in all times but their *stays*."""
    intervals = zip(stays.users.tolist(), stays.starts_s.tolist(), stays.ends_s.tolist(), strict=True)
    rows = [UserSchedule.from_intervals(user, times) for user, times in merge_intervals(intervals).items()]
    return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, nodes), np.inf)


def _smallest(shares: Sequence[Floats | None]) -> Floats | None:
    """Return the smallest value of each user, without NaN; ``None`` if none is stated."""
    stated = [share for share in shares if share is not None]
    if not stated:
        return None
    return np.asarray(np.fmin.reduce(stated))
