"""A world at work: users, cells, routes and the server on one clock, round after round."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.errors import ModelError, NetflError
from netfl.network.cell import Cell
from netfl.network.clock import call_after
from netfl.network.ledger import Ledger
from netfl.network.mac import Mac
from netfl.network.medium import Medium
from netfl.network.message import Message
from netfl.network.outages import Outages
from netfl.network.presence import Presence
from netfl.network.queue import Queue
from netfl.network.routes import Routes
from netfl.network.sites import Sites
from netfl.network.updates import Updates
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import Delivery, Recorder, Round


@dataclass(frozen=True)
class Parts:
    """What a world is built of.

    Args:
        sites: where everything stands.
        medium: the air of all cells.
        mac: how a cell's users share it.
        queue: the waiting room of every port.
        outages: who is up when, for the record.
        presence: the same for the clock.
        compute_s: how long each user trains for one update, ``[users]``.
        broadcast_bits: the size of one broadcast.
        broadcast_bps: the rate at which towers send it to their users.
        first: with how many arrivals a round closes; ``None`` for no such number.
        deadline_s: how long after its opening a round closes at the latest; ``None`` for no such time.
    """

    sites: Sites
    medium: Medium
    mac: Mac
    queue: Queue
    outages: Outages
    presence: Presence
    compute_s: NDArray[np.float64]
    broadcast_bits: float
    broadcast_bps: float
    first: int | None
    deadline_s: float | None


class World:
    """The whole network of one replica.  One clock and one state run through all rounds.

    Args:
        parts: what it is built of.
        streams: for the draws of the MACs.
        recorder: where events go.
    """

    def __init__(self, parts: Parts, streams: Streams, recorder: Recorder) -> None:
        self._parts, self._env = parts, simpy.Environment(0.0)
        self._ledger = Ledger(recorder, parts.sites.users, self._exhausted)
        self._closed = self._env.event()
        self._failure: NetflError | None = None
        self._arrived: list[Delivery] = []
        self._server = parts.sites.number(parts.sites.server)
        self._routes = Routes(parts.sites)
        sinks = self._routes.ports(self._env, parts.queue, parts.presence, self._ledger, self._arrive)
        self._cells: dict[str, Cell] = {}
        for index, tower in enumerate(parts.sites.towers):
            ids = np.flatnonzero(parts.sites.cell == index)
            if ids.size:
                place = (tower, parts.sites.number(tower))
                updates = Updates(ids, parts.compute_s[ids], tower, self._ledger)
                self._cells[tower] = cell = Cell(
                    self._env,
                    place,
                    updates,
                    medium=parts.medium,
                    streams=streams.at("mac", index),
                    ledger=self._ledger,
                    uplink=sinks[tower],
                )
                self._env.process(self._serve(cell))

    def rounds(self, count: int) -> Iterator[Round]:
        """The rounds, one after the other.

        Raises:
            ModelError: a model failed, or nothing can happen any more.
        """
        for index in range(1, count + 1):
            opened_s = self._env.now
            self._arrived, self._closed = [], self._env.event()
            self._ledger.open(index)
            self._broadcast(index - 1)
            if self._parts.deadline_s is not None:
                self._close_after(self._parts.deadline_s)
            self._play()
            self._tell(opened_s)
            if index == count:
                self._finish()
            bits = self._parts.broadcast_bits * len(self._parts.sites.towers)
            arrived = tuple(self._arrived)
            yield Round(index, opened_s, self._env.now, arrived, index, self._ledger.uplink_bits, bits)

    def _broadcast(self, version: int) -> None:
        """The server sends *version* to all towers."""
        parts, now = self._parts, self._env.now
        self._ledger.event("broadcast", now, node=parts.sites.server, value=parts.broadcast_bits)
        for tower, cell in self._cells.items():
            delay_s = self._routes.delay_s(tower, parts.broadcast_bits) + parts.broadcast_bits / parts.broadcast_bps
            route = self._routes.numbers(tower)[None, :]
            at_s = float(parts.presence.together_from_s(route, now + delay_s)[0])
            if np.isinf(at_s):
                self._ledger.strand(np.full(cell.size, version))
            else:
                cell.expect(version, at_s)

    def _play(self) -> None:
        """Let the clock run until the round closes."""
        try:
            self._env.run(until=self._closed)
        except NetflError:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and self._env.peek() == np.inf:
                problem = f"round {self._ledger.round} can never close: nothing will ever happen any more"
            else:
                problem = f"{type(error).__name__}: {error}"
            raise ModelError("network", problem, time_s=self._env.now) from error
        if self._failure is not None:
            raise self._failure

    def _arrive(self, message: Message) -> None:
        """An update reaches the server."""
        now, server = self._env.now, self._parts.sites.server
        if self._parts.presence.node_until_s(self._server, now) <= now:
            self._ledger.land(message, "lost", now, node=server)
        elif self._closed.triggered or message.base != self._ledger.round - 1:
            self._ledger.land(message, "late", now, node=server)
        else:
            told = Delivery(message.user, message.base, message.sent_s, now, message.attempts)
            self._arrived.append(told)
            self._ledger.land(message, "delivered", now, node=server)
            if len(self._arrived) == self._parts.first:
                self._close()

    def _close(self) -> None:
        """The open round closes now."""
        if not self._closed.triggered:
            self._closed.succeed()

    def _close_after(self, deadline_s: float) -> None:
        """The open round closes in *deadline_s*, if it is open still."""
        index = self._ledger.round

        def close(event: simpy.Event) -> None:
            if self._ledger.round == index:
                self._close()

        call_after(self._env, deadline_s, close)

    def _fail(self, error: NetflError) -> None:
        """End the run with *error*."""
        self._failure = error
        self._close()

    def _exhausted(self) -> None:
        """No update of the open round can come any more: without a deadline, waiting is over."""
        if self._parts.deadline_s is None:
            self._close()

    def _serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Run the MAC of one cell; what goes wrong in it ends the run."""
        kind = kind_of(type(self._parts.mac))
        try:
            yield from self._parts.mac.serve(cell)
        except NetflError as error:
            failure: NetflError = error
        except Exception as error:  # whatever a MAC may raise
            failure = ModelError(kind, f"{type(error).__name__}: {error}", time_s=self._env.now)
            failure.__cause__ = error
        else:
            failure = ModelError(kind, "it stopped serving its cell before the run was over", time_s=self._env.now)
        self._fail(failure)

    def _tell(self, opened_s: float) -> None:
        """Record what came about in the round without anybody looking; make sure that the next can bring something."""
        now = self._env.now
        for cell in self._cells.values():
            cell.tell()
        if self._ledger.wants("down") or self._ledger.wants("up"):
            self._tell_outages(opened_s, now)
        if self._parts.deadline_s is None and not self._ledger.reached:
            raise ModelError("network", "every user is cut off from the server for good", time_s=now)

    def _tell_outages(self, start_s: float, end_s: float) -> None:
        """Record who went down and who came up in (start, end], and who was down from the very start."""
        sites = self._parts.sites
        nodes = np.arange(sites.nodes)
        when, who, up = self._parts.outages.changes(nodes, start_s, end_s)
        if self._ledger.round == 1:
            down = nodes[~self._parts.outages.up(nodes, start_s)]
            when, who = np.append(np.full(len(down), start_s), when), np.append(down, who)
            up = np.append(np.zeros(len(down), np.bool_), up)
        for kind, chosen in (("up", up), ("down", ~up)):
            users = chosen & (who < sites.users)
            if users.any():
                self._ledger.event(kind, when[users], user=who[users])
            for at_s, node in zip(when[chosen & ~users], who[chosen & ~users], strict=True):
                self._ledger.event(kind, at_s, node=sites.name(node))

    def _finish(self) -> None:
        """The run ends: so does every update that is open."""
        for cell in self._cells.values():
            cell.finish()
        for message in tuple(self._ledger.flying):
            self._ledger.land(message, "unfinished", self._env.now)
