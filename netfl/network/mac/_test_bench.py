"""One cell on a clear medium, for holding MACs to their closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.mac import Mac
from netfl.network.message import Message
from netfl.network.radio.cell import AirInterface, Cell
from netfl.network.radio.medium import Medium
from netfl.network.radio.packet_queue import PacketQueue
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.server import OutstandingUpdates
from netfl.network.tower import Tower
from netfl.network.traffic.poisson import Poisson
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import Law, NullRecorder, StatisticClaim

Again = Callable[[NDArray[np.int64], float], NDArray[np.float64]]
"""``again(users, now)``: when the next updates of users whose last have just ended are ready."""
_FEWEST_ROWS, _SLOTS_OF_A_ROW = 100, 200


class RayleighMedium(Medium):
    """A clear medium on which every user's SNR is drawn anew for each airtime of 1 bit, exponential with mean 1.

    Args:
        rate_bps: as of a clear medium.
        gains: the SNR of each user in each airtime, linear, ``[airtimes, users]``.
    """

    def __init__(self, rate_bps: float, gains: NDArray[np.float64]) -> None:
        Medium.__init__(self, rate_bps)
        self._gains_db = 10.0 * np.log10(gains)

    def snr_db(self, ids: NDArray[np.int64], tower: tuple[str, int], time_s: float) -> NDArray[np.float64]:
        """That of the airtime that begins at *time_s*."""
        return np.asarray(self._gains_db[round(time_s * self._rate_bps), ids])


class MacTestBench:
    """A cell whose users get another update when the last has been heard or given up.

    Attributes:
        env: the clock.
        cell: the cell.
        heard: of every update that got through: when it was ready, began to be sent, and was heard.
        users: whose they were.
    """

    def __init__(
        self,
        mac: Mac,
        users: int,
        airtime_s: float,
        streams: Streams,
        again: Again,
        medium: Medium | None = None,
    ) -> None:
        self.env, self._again, self.heard = simpy.Environment(0.0), again, list[tuple[float, float, float]]()
        self.users: list[int] = []
        self._ready_s = np.zeros(users)
        queue = UpdateQueue(np.arange(users), 1.0, "tower:0", EventLog(self, users))
        self._population = UserPopulation(queue, np.zeros(users), OutstandingUpdates(users))
        air = AirInterface(NodeId("tower:0", users), medium or Medium(1.0 / airtime_s), SharedChannel())
        self.cell = Cell(self.env, air, queue, streams, self._uplink)
        Tower(self.cell, self._population, air.medium).schedule_broadcast(0, 0.0)
        self.env.process(mac.serve(self.cell))

    def wants(self, kind: str) -> bool:
        """No steps are recorded."""
        return False

    def event(self, kind: str, time_s: ArrayLike, *, user: ArrayLike = -1, **told: Any) -> None:
        """An update failed for good."""
        self._refill(np.atleast_1d(np.asarray(user, np.int64)))

    def figures(self, values: Mapping[str, float]) -> None:
        """None."""

    def spent(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Nothing."""

    def _uplink(self, message: Message) -> None:
        """An update got through."""
        self.heard.append((self._ready_s[message.user], message.sent_s, self.env.now))
        self.users.append(message.user)
        self._refill(np.array([message.user]))

    def _refill(self, users: NDArray[np.int64]) -> None:
        """The next updates of *users*."""
        self._ready_s[users] = self._again(users, self.env.now)
        self._population.start(users, self._ready_s[users], 0)


def saturated_users(users: NDArray[np.int64], now: float) -> NDArray[np.float64]:
    """Users that always have something to send."""
    return np.full(len(users), now)


def slot_successes(mac: Mac, users: int, airtime_s: float, streams: Streams, slots: int) -> NDArray[np.float64]:
    """For each slot of one airtime, how many updates got through in it; all users always have one to send."""
    bench = MacTestBench(mac, users, airtime_s, streams, saturated_users)
    bench.env.run(until=(slots + 0.5) * airtime_s)
    ends = np.array([heard_s for _, _, heard_s in bench.heard])
    return np.bincount(np.rint(ends / airtime_s).astype(np.int64) - 1, minlength=slots).astype(float)


def waiting_times(mac: Mac, users: int, airtime_s: float, streams: Streams, size: int) -> NDArray[np.float64]:
    """How long updates wait that are ready at instants independent of the frames of one airtime per user."""
    rng, frame_s = streams.rng("instants"), users * airtime_s
    bench = MacTestBench(mac, users, airtime_s, streams, lambda who, now: now + frame_s * rng.random(len(who)))
    while len(bench.heard) < size + users:
        bench.env.step()
    return np.array([sent_s - ready_s for ready_s, sent_s, _ in bench.heard if ready_s > 0])


def service_turns(
    mac: Mac, users: int, airtime_s: float, streams: Streams, size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Who is served in each of *size* turns, and with what SNR (linear, of mean 1); all always have one to send."""
    gains = streams.rng("gains").exponential(size=(size + 1, users))
    bench = MacTestBench(mac, users, airtime_s, streams, saturated_users, RayleighMedium(1.0 / airtime_s, gains))
    while len(bench.heard) < size:
        bench.env.step()
    winners = np.array(bench.users)
    return winners, gains[np.arange(size), winners]


def attempt_outcomes(
    mac: Mac, users: int, airtime_s: float, streams: Streams, again: Again, span_s: float, rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many attempts were received, and how many ended, in *rows* spans after a first, ``[rows, 1]`` each."""
    bench = MacTestBench(mac, users, airtime_s, streams, again)
    counts = np.empty((rows + 1, 2))
    for row in range(rows + 1):
        bench.env.run(until=(row + 1) * span_s)
        counts[row] = len(bench.heard), len(bench.heard) + sum(bench.cell.failed.values())
    good, all_ = np.diff(counts, axis=0).T
    return good[:, None], all_[:, None]


def poisson_cell(mac: Mac, users: int, airtime_s: float, streams: Streams, load: float) -> tuple[Cell, EventLog]:
    """A cell of Poisson packets, *load* of them in an airtime from all users together, and what counts them."""
    env, ledger = simpy.Environment(0.0), EventLog(NullRecorder(), users, nodes=users)
    traffic = Poisson.model_validate({"rate": load / airtime_s / users, "size": {"mean": 1.0}})
    arrivals = [traffic.blocks(user, 1.0 / airtime_s, streams.at("traffic")) for user in range(users)]
    packets = PacketQueue(np.arange(users), traffic, arrivals, "tower:0", ledger)

    def uplink(message: Message) -> None:
        ledger.record_outcome(message, "delivered", env.now)

    air = AirInterface(NodeId("tower:0", users), Medium(1.0 / airtime_s), SharedChannel())
    cell = Cell(env, air, packets, streams, uplink)
    env.process(mac.serve(cell))
    return cell, ledger


def carried_load_law(mac: Mac, airtime_s: float, users: int, load: float) -> Law:
    """The law of a MAC that carries whatever comes, so long as that is no more than *load* packets in an airtime."""

    def draw(streams: Streams, size: int) -> NDArray[np.float64]:
        cell, ledger = poisson_cell(mac, users, airtime_s, streams, load)
        rows = max(_FEWEST_ROWS, size // _SLOTS_OF_A_ROW)
        counts = np.empty((rows + 1, 1))
        for row in range(rows + 1):
            cell.env.run(until=(row + 1) * _SLOTS_OF_A_ROW * airtime_s)
            counts[row] = ledger.packets.delivered
        return np.diff(counts, axis=0) / _SLOTS_OF_A_ROW

    statement = (
        f"as much as comes: Poisson arrivals to {users} users, {load:g} in a slot, are carried with bounded delay"
    )
    return Law("packets carried", statement, figures=(StatisticClaim("packets per slot", statement, draw, (load,)),))
