"""The server: it opens rounds, sends versions to those who may try, takes what comes, and closes rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.admission import Admission
from netfl.network.config import RoundServiceConfig
from netfl.network.downlink import DownlinkPath
from netfl.network.event_log import EventLog
from netfl.network.message import Message
from netfl.network.tower import Tower
from netfl.types import Delivery, LearnerReport

Users = NDArray[np.int64]


class RoundResult(NamedTuple):
    """What a round brought."""

    deliveries: tuple[Delivery, ...]
    oldest: int
    needed: tuple[int, ...] | None


class Server:
    """The server of one replica.

    Args:
        service: how rounds are served.
        env: the clock.
        ledger: where fates go; of whom something is hoped for.
        towers: the towers that have users, by name.
        way: how versions get to the users.
        name: its name.
        close: closes the open round.

    Attributes:
        picking: who may try.
        closed: whether no round is open that an update could count in.
    """

    def __init__(
        self,
        service: RoundServiceConfig,
        *,
        env: simpy.Environment,
        ledger: EventLog,
        towers: Mapping[str, Tower],
        way: DownlinkPath,
        name: str,
        close: Callable[[], None],
    ) -> None:
        self._service, self._env, self._ledger, self._way = service, env, ledger, way
        self._towers, self._name, self._close = [*towers.values()], name, close
        users = sum(tower.cell.size for tower in self._towers)
        self._tower, self._place = np.zeros(users, np.int64), np.zeros(users, np.int64)
        for number, tower in enumerate(self._towers):
            self._tower[tower.cell.ids], self._place[tower.cell.ids] = number, np.arange(tower.cell.size)
        self.picking: Admission
        self._chosen: Users = np.empty(0, np.int64)
        self._may = np.zeros(users, np.bool_)
        self._arrived: list[tuple[Message, Delivery]] = []
        self.closed = True
        if service.rule.can_be_void:
            ledger.figures["rounds_abandoned"] = 0.0
        if service.rule.is_continuous:
            ledger.ended = self._ended

    def open(self, report: LearnerReport | None) -> None:
        """The round that the ledger has opened begins, after *report* on the one before."""
        ledger, version = self._ledger, self._ledger.round - 1
        self._arrived, self.closed = [], False
        self._chosen = self.picking.choose(ledger.round, report)
        self._may[:] = False
        self._may[self._chosen] = True
        if told := self.picking.told():
            for cell in (cell for tower in self._towers for cell in tower.cells):
                cell.told = {name: figures[cell.ids] for name, figures in told.items()}
        rule, limit = self._service.rule, self._service.staleness
        restarts = self._service.busy == "restart" and not rule.is_continuous
        ledger.hopes.least = 0 if limit is None or rule.is_continuous else version - limit
        ledger.hopes.drop(version if restarts or not rule.needs_disconnected else ledger.hopes.least)
        if restarts:
            self._dismiss()
        whom = self._chosen
        if rule.is_continuous:  # those with no version and no update on the way
            whom = whom[self._idle()[whom] & ledger.hopes.none(whom)]
        ledger.hopes.have(whom, version)
        self._send(whom)

    def take(self, message: Message) -> None:
        """An update reaches the server."""
        ledger, rule, now = self._ledger, self._service.rule, self._env.now
        if self.closed or not self._fresh(message.base):
            ledger.land(message, "late", now, node=self._name)
            return
        told = Delivery(message.user, message.base, message.sent_s, now, message.attempts)
        self._arrived.append((message, told))
        self.closed = rule.is_complete(len(self._arrived), len(self._chosen))
        if not rule.can_be_void:
            ledger.land(message, "delivered", now, node=self._name)
        if self.closed:
            self._close()

    def close(self) -> RoundResult:
        """The open round is over: what it brought."""
        ledger, rule = self._ledger, self._service.rule
        self.closed = True
        counts = rule.is_valid(len(self._arrived), len(self._chosen))
        if rule.can_be_void:
            ledger.figures["rounds_abandoned"] += not counts
            for message, told in self._arrived:
                ledger.land(message, "delivered" if counts else "discarded", told.arrived_s, node=self._name)
        deliveries = tuple(told for _, told in self._arrived) if counts else ()
        self.picking.heard(ledger.round, [told.user for told in deliveries])
        return RoundResult(deliveries, *self._versions())

    @property
    def hopeless(self) -> bool:
        """Whether nothing can come any more."""
        return not self._ledger.hopes.count

    @property
    def forsaken(self) -> bool:
        """Whether a round that everybody might try in, and nothing but its updates closes, has reached nobody."""
        rule, everybody = self._service.rule, len(self._chosen) == len(self._may)
        return (
            rule.deadline_s is None
            and rule.needs_disconnected
            and everybody
            and self.hopeless
            and not (self._ledger.reached or self._arrived)
        )

    def _fresh(self, base: int) -> bool:
        """Whether an update from version *base* still counts."""
        limit = self._service.staleness
        return limit is None or self._ledger.round - 1 - base <= limit

    def _versions(self) -> tuple[int, tuple[int, ...] | None]:
        """The oldest version that an update of a later round may start from, and which else, where that is known."""
        newest, limit = self._ledger.round, self._service.staleness
        if limit == 0:
            return newest, None
        kept = set(self._ledger.bases).union(*(tower.versions() for tower in self._towers))
        least = 0 if limit is None else newest - limit
        needed = sorted(base for base in kept if least <= base < newest)
        return (needed[0] if needed else newest), tuple(needed)

    def _idle(self) -> NDArray[np.bool_]:
        """Whether each user is at no update."""
        idle = np.zeros(len(self._may), np.bool_)
        for tower in self._towers:
            idle[tower.cell.ids[tower.idle()]] = True
        return idle

    def _dismiss(self) -> None:
        """Those who may not try stop what they are at."""
        if len(self._chosen) < len(self._may):
            for number, tower in enumerate(self._towers):
                tower.dismiss(self._place[~self._may & (self._tower == number)])

    def _send(self, users: Users) -> None:
        """Send the newest version to *users*."""
        version = self._ledger.round - 1
        if len(users) == len(self._may):
            for tower in self._towers:
                self._way.send(tower, version, np.arange(tower.cell.size))
            return
        users = users[np.argsort(self._tower[users], kind="stable")]
        numbers, first = np.unique(self._tower[users], return_index=True)
        for number, own in zip(numbers.tolist(), np.split(users, first[1:]), strict=False):
            self._way.send(self._towers[number], version, self._place[own])

    def _ended(self, users: Users) -> None:
        """The updates of *users* have ended: those who may try are sent the newest version, if a round is open."""
        again = users[self._may[users]]
        if not self.closed and again.size:
            self._ledger.hopes.have(again, self._ledger.round - 1)
            self._send(again)
