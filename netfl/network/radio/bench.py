"""One cell on an ideal medium, on which MACs are compared with their closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netfl.network.clock import Clock
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.mac import Mac
from netfl.network.message import Message
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import AirInterface, Medium, ReceptionResult, unknown_snr
from netfl.network.radio.packet_queue import PacketQueue, TrafficArrivals
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.transmission import SharedChannel, Transmission
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.tower import Tower
from netfl.network.traffic.poisson import Poisson
from netfl.network.updates import OutstandingUpdates, Update
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Event, Floats, Ints, Law, NullRecorder, StatisticClaim

NextReady = Callable[[Ints, float], Floats]
"""``next_ready(users, now)``: times at which the next updates of users whose last ones have just ended are ready."""
_MIN_ROWS, _SLOTS_PER_ROW = 100, 200


@dataclass(frozen=True, slots=True)
class BenchSetup:
    """A MAC, the number of users of its cell, the airtime of one update and the source of random draws."""

    mac: Mac
    users: int
    airtime_s: float
    streams: Streams


class RayleighMedium(Medium):
    """An ideal medium on which the SNR of every user is drawn for each airtime of 1 bit, exponential with mean 1.

    Args:
        gains: linear SNR of each user in each airtime, ``[airtimes, users]``.
    """

    def __init__(self, rate_bps: float, gains: Floats) -> None:
        Medium.__init__(self, rate_bps)
        self._gains_db = 10.0 * np.log10(gains)

    def snr_db(self, ids: Ints, tower: tuple[str, int], time_s: float) -> Floats:
        """Return the SNR in the airtime that begins at *time_s*."""
        return np.asarray(self._gains_db[round(time_s * self._rate_bps), ids])


class GroupMedium(Medium):
    """An ideal medium on which all frames that overlap are received, for MACs that send groups."""

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Return that all frames were received."""
        n = len(transmission.ids)
        return [""] * n, unknown_snr(n)


class RayleighGroupMedium(GroupMedium, RayleighMedium):
    """A `RayleighMedium` on which all frames that overlap are received."""


class DeafMedium(Medium):
    """A medium on which nothing is received.

    Attributes:
        attempts: user, start and end of each attempt, in the order of their ends.
    """

    def __init__(self, rate_bps: float) -> None:
        Medium.__init__(self, rate_bps)
        self.attempts = list[tuple[int, float, float]]()

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Note the attempts, all of which fail."""
        ids = transmission.ids.tolist()
        self.attempts += [(user, transmission.start_s, transmission.end_s) for user in ids]
        return ["collided"] * len(ids), unknown_snr(len(ids))


class MacTestBench(NullRecorder):
    """A cell whose users get another update when the last one has been delivered or given up.

    Attributes:
        cell: the cell, which the MAC serves.
        deliveries: times at which each delivered update was ready, first sent and received.
        users: the users of these updates.
    """

    def __init__(self, setup: BenchSetup, next_ready: NextReady, medium: Medium | None = None) -> None:
        self.env = Clock()
        self.deliveries = list[tuple[float, float, float]]()
        self.users = list[int]()
        users = setup.users
        self._next_ready = next_ready
        self._ready_s = np.zeros(users)  # of the present update of each user
        queue = UpdateQueue(np.arange(users), 1.0, "tower:0", EventLog(self, users), OutstandingUpdates(users))
        self._population = UserPopulation(queue, np.zeros(users))
        if medium is None:
            new_medium = GroupMedium if setup.mac.sends_groups else Medium
            medium = new_medium(1.0 / setup.airtime_s)
        air = AirInterface(NodeId("tower:0", users), medium, SharedChannel())
        self.cell = Cell(self.env, air, queue, setup.streams, self._uplink, setup.mac.declared)
        present = PresentValues(self.env, air, queue)
        Tower(self.cell, self._population, present).schedule_broadcast(0, 0.0)
        self.env.process(setup.mac.serve(self.cell))

    def record(self, event: Event) -> None:
        """Replace an update that was given up."""
        self._refill(np.atleast_1d(np.asarray(event.user, np.int64)))

    def _uplink(self, message: Message) -> None:
        assert isinstance(message, Update)
        self.deliveries.append((self._ready_s[message.user], message.sent_s, self.env.now))
        self.users.append(message.user)
        self._refill(np.array([message.user]))

    def _refill(self, users: Ints) -> None:
        self._ready_s[users] = self._next_ready(users, self.env.now)
        self._population.receive_and_train(users, self._ready_s[users], 0)


def saturated_users(users: Ints, now: float) -> Floats:
    """Give users a new update at once."""
    return np.full(len(users), now)


def slot_successes(setup: BenchSetup, slots: int) -> Floats:
    """Return the number of updates received in each slot of one airtime, with saturated users."""
    bench = MacTestBench(setup, saturated_users)
    bench.env.run(until=(slots + 0.5) * setup.airtime_s)
    ends = np.array([received_s for _, _, received_s in bench.deliveries])
    return np.bincount(np.rint(ends / setup.airtime_s).astype(np.int64) - 1, minlength=slots).astype(float)


def waiting_times(setup: BenchSetup, size: int) -> Floats:
    """Return the waits of updates that are ready at random instants of a frame of one airtime per user."""
    rng = setup.streams.rng("instants")
    frame_s = setup.users * setup.airtime_s
    bench = MacTestBench(setup, lambda users, now: now + frame_s * rng.random(len(users)))
    while len(bench.deliveries) < size + setup.users:
        bench.env.step()
    return np.array([sent_s - ready_s for ready_s, sent_s, _ in bench.deliveries if ready_s > 0])


def service_turns(setup: BenchSetup, size: int) -> tuple[Ints, Floats]:
    """Return the user served in each of *size* turns and its linear SNR of mean 1, with saturated users."""
    gains = setup.streams.rng("gains").exponential(size=(size + 1, setup.users))
    bench = MacTestBench(setup, saturated_users, RayleighMedium(1.0 / setup.airtime_s, gains))
    while len(bench.deliveries) < size:
        bench.env.step()
    winners = np.array(bench.users)
    return winners, gains[np.arange(size), winners]


def group_gains(setup: BenchSetup, group: int, size: int) -> Floats:
    """Return the linear SNR of mean 1 of each user of *size* groups, ``[size, group]``, with saturated users."""
    gains = setup.streams.rng("gains").exponential(size=(size + 1, setup.users))
    bench = MacTestBench(setup, saturated_users, RayleighGroupMedium(1.0 / setup.airtime_s, gains))
    while len(bench.deliveries) < size * group:
        bench.env.step()
    members = np.array(bench.users[: size * group]).reshape(size, group)
    return np.asarray(gains[np.arange(size)[:, None], members])


def diversity_gain_law(
    mac: Mac, users: int, airtime_s: float, statement: str, statistics: tuple[StatisticClaim, ...] = ()
) -> Law:
    """Return the claim that the winner's power gain is the largest of *users* exponentials of mean 1.

    It has the distribution (1 - exp(-x))^n, the mean Σ 1/i and the variance Σ 1/i² over i = 1 … n.
    """
    terms = 1.0 / np.arange(1, users + 1)
    return Law(
        "power gain of the winner",
        statement,
        lambda streams, size: service_turns(BenchSetup(mac, users, airtime_s, streams), size)[1],
        mean=float(terms.sum()),
        variance=float(np.square(terms).sum()),
        cdf=lambda x: (-np.expm1(-np.asarray(x))) ** users,
        statistics=statistics,
    )


def attempt_outcomes(setup: BenchSetup, next_ready: NextReady, span_s: float, rows: int) -> tuple[Floats, Floats]:
    """Return the attempts received and the attempts ended in *rows* spans after a first one, ``[rows, 1]`` each."""
    bench = MacTestBench(setup, next_ready)
    counts = np.empty((rows + 1, 2))
    for row in range(rows + 1):
        bench.env.run(until=(row + 1) * span_s)
        delivered = len(bench.deliveries)
        counts[row] = delivered, delivered + sum(bench.cell.transmit_path.failed.values())
    received, ended = np.diff(counts, axis=0).T
    return received[:, None], ended[:, None]


def failed_attempts(setup: BenchSetup, count: int) -> tuple[Floats, Floats]:
    """Return the starts and ends of the first *count* attempts of each user, of which none is received, ``[n, count]``.

    All users have their first update at time 0.
    """
    medium = DeafMedium(1.0 / setup.airtime_s)
    bench = MacTestBench(setup, lambda users, now: np.full(len(users), np.inf), medium)
    while len(medium.attempts) < count * setup.users:
        bench.env.step()
    users, starts_s, ends_s = np.array(medium.attempts).T
    order = np.lexsort((starts_s, users))
    return starts_s[order].reshape(-1, count), ends_s[order].reshape(-1, count)


def poisson_cell(setup: BenchSetup, load: float) -> tuple[Cell, EventLog]:
    """Return a cell of Poisson packets, *load* per airtime of all users together, and the log that counts them."""
    env = Clock()
    users = setup.users
    airtime_s = setup.airtime_s
    log = EventLog(NullRecorder(), users, nodes=users)
    traffic = Poisson.model_validate({"rate": load / airtime_s / users, "size": {"mean": 1.0}})
    arrivals = TrafficArrivals(traffic, range(users), 1.0 / airtime_s, setup.streams.at("traffic"))
    packets = PacketQueue(np.arange(users), traffic, arrivals, "tower:0", log)

    def uplink(message: Message) -> None:
        message.end(log, Ending("delivered"), env.now)

    air = AirInterface(NodeId("tower:0", users), Medium(1.0 / airtime_s), SharedChannel())
    cell = Cell(env, air, packets, setup.streams, uplink, setup.mac.declared)
    env.process(setup.mac.serve(cell))
    return cell, log


def carried_load_law(mac: Mac, airtime_s: float, users: int, load: float) -> Law:
    """Return the claim that a MAC carries all Poisson arrivals of *load* packets per airtime."""

    def draw(streams: Streams, size: int) -> Floats:
        cell, log = poisson_cell(BenchSetup(mac, users, airtime_s, streams), load)
        rows = max(_MIN_ROWS, size // _SLOTS_PER_ROW)
        counts = np.empty((rows + 1, 1))
        for row in range(rows + 1):
            cell.env.run(until=(row + 1) * _SLOTS_PER_ROW * airtime_s)
            counts[row] = log.packets.delivered
        return np.diff(counts, axis=0) / _SLOTS_PER_ROW

    statement = (
        f"equal to the load: Poisson arrivals to {users} users, {load:g} per slot, are served with bounded delay"
    )
    return Law("packets served", statement, statistics=(StatisticClaim("packets per slot", statement, draw, (load,)),))
