"""A world at work: users, cells, routes and the server on one clock, round after round."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import simpy

from netfl.errors import ModelError, NetflError, prefix_faults
from netfl.network.admission import Admission, AdmitAll
from netfl.network.backhaul.routes import Routes
from netfl.network.backhaul.traffic_sources import open_sources
from netfl.network.clock import call_after, run_until
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.downlink import build_downlink
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.message import TRAFFIC, Message
from netfl.network.outage._combined import CombinedOutages
from netfl.network.periods import after_rounding
from netfl.network.radio.cell import Cell
from netfl.network.server import Server
from netfl.network.statistics import NetworkStatistics
from netfl.network.tower import build_towers
from netfl.network.transport.transfer import Segment
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import LearnerReport, Recorder, Round, RoundProgress, ignore_progress

# The record of who goes down and comes up.


def record_outages(ledger: EventLog, outages: CombinedOutages, sites: Layout, span_s: tuple[float, float]) -> None:
    """Record who went down and who came up in a span, without its start; in the first round who was down at it, too."""
    if not (ledger.wants("down") or ledger.wants("up")):
        return
    start_s, end_s = span_s
    nodes = np.arange(sites.nodes)
    when, who, up = outages.changes(nodes, start_s, end_s)
    if ledger.round == 1:
        down = nodes[~outages.up(nodes, start_s)]
        when, who = np.append(np.full(len(down), start_s), when), np.append(down, who)
        up = np.append(np.zeros(len(down), np.bool_), up)
    for kind, chosen in (("up", up), ("down", ~up)):
        users = chosen & (who < sites.users)
        if users.any():
            ledger.event(kind, when[users], user=who[users])
        for at_s, node in zip(when[chosen & ~users], who[chosen & ~users], strict=True):
            ledger.event(kind, at_s, node=sites.name(node))


# A MAC at work in one cell.


def run_mac(mac: Mac | None, cell: Cell, fail: Callable[[NetflError], None]) -> Generator[simpy.Event, Any, None]:
    """Run *mac* in *cell*; *fail* is called with what goes wrong in it, which ends the run."""
    assert mac is not None
    kind = kind_of(type(mac))
    try:
        yield from mac.serve(cell)
    except NetflError as error:
        failure: NetflError = error
    except Exception as error:  # whatever a MAC may raise
        failure = ModelError(kind, f"{type(error).__name__}: {error}", time_s=cell.env.now)
        failure.__cause__ = error
    else:
        failure = ModelError(kind, "it stopped serving its cell before the run was over", time_s=cell.env.now)
    fail(failure)


class NetworkSimulator:
    """The whole network of one replica.  One clock and one state run through all rounds.

    Args:
        parts: what it is built of.
        streams: for the draws of MACs, queues and traffic.
        recorder: where events go.
        pulse: called now and then within a round, with how far it is.
    """

    def __init__(
        self,
        parts: NetworkConfig,
        streams: Streams,
        recorder: Recorder,
        pulse: Callable[[RoundProgress], None] = ignore_progress,
    ) -> None:
        self._parts, self._env, self._recorder, sites = parts, simpy.Environment(0.0), recorder, parts.sites
        self._pulse = pulse
        self._ledger = EventLog(
            recorder,
            sites.users,
            self._exhausted,
            nodes=sites.nodes if parts.traffic else 0,
            tells_packets=parts.service is None,
            patience=parts.patience,
        )
        self._closed = self._env.event()
        self._failure: NetflError | None = None
        self._delivered = 0
        self._hub = sites.number(sites.server)
        self._server: Server | None = None
        with prefix_faults("routing"):
            self._routes = Routes(sites, parts.routing, parts.outages, streams)
        with prefix_faults("queues"):
            self._sinks = self._routes.ports(
                self._env, parts.queue, parts.presence, self._ledger, self._arrive, queues=parts.queues
            )
        self._towers = build_towers(parts, self._env, self._ledger, self._sinks, streams, self._routes)
        for cell in (cell for tower in self._towers.values() for cell in tower.cells):
            self._env.process(run_mac(parts.mac, cell, self._fail))
        self._batch = open_sources(parts, self._env, self._routes, self._sinks, self._ledger, streams)
        usage = self._routes.usage if self._batch is None else self._batch.usage
        self._account = NetworkStatistics(
            self._ledger.meter, self._towers, usage, serving=parts.service is not None, spending=parts.spending
        )

    def rounds(self, count: int, picking: Admission | None = None) -> Generator[Round, LearnerReport | None, None]:
        """The rounds, one after the other; what is sent back is the learners' report on each.

        Args:
            count: how many.
            picking: who may try; by default everybody.

        Raises:
            ModelError: a model failed, or nothing can happen any more.
        """
        server = self._server = self._open_server()
        reply: LearnerReport | None = None
        server.picking = picking or AdmitAll(self._parts.sites.users)
        for index in range(1, count + 1):
            opened_s = self._open_round(index)
            self._ledger.event("broadcast", opened_s, node=self._parts.sites.server, value=self._service.broadcast_bits)
            server.open(reply)
            if self._service.rule.deadline_s is not None:
                self._close_after(self._service.rule.deadline_s)
            elif server.hopeless:
                self._close()
            self._play()
            brought = server.close()
            self._delivered += len(brought.deliveries)
            self._tell(opened_s)
            if index == count:
                self._finish(self._env.now)
            asks = server.picking.asks(index + 1) if index < count else {}
            bits = self._ledger.uplink_bits, self._ledger.downlink_bits
            now_s = self._env.now
            told = brought.deliveries, brought.oldest, *bits, asks, brought.needed, self._account.energy_j(now_s)
            reply = yield Round(index, opened_s, now_s, *told)

    def windows(self, count: int, duration_s: float, warmup_s: float) -> Iterator[Round]:
        """The traffic alone, watched for *duration_s* in *count* even windows, each a round without deliveries.

        What happens at the very end of a window, but for the rounding of the clock, happens in it.

        Raises:
            ModelError: a model failed.
        """
        if warmup_s:
            call_after(self._env, after_rounding(warmup_s), lambda _: self._restart(warmup_s))
        closed_s = 0.0
        for index in range(1, count + 1):
            self._open_round(index)
            opened_s, closed_s = closed_s, duration_s * index / count
            self._close_after(after_rounding(closed_s) - self._env.now)
            self._play()
            self._catch_up(closed_s)
            self._ledger.tell_packets()
            record_outages(self._ledger, self._parts.outages, self._parts.sites, (opened_s, closed_s))
            if self._parts.sampler is not None:
                self._parts.sampler.look(opened_s, closed_s, self._ledger)
            if index == count:
                self._finish(closed_s)
            yield Round(index, opened_s, closed_s, (), index, self._ledger.uplink_bits, 0.0)

    def _catch_up(self, now_s: float) -> None:
        """Packets that need no events have been carried up to now, too."""
        if self._batch is not None:
            self._batch.play(now_s)

    def _restart(self, now_s: float) -> None:
        """The warm-up is over."""
        self._catch_up(now_s)
        self._account.restart(now_s)

    def _open_round(self, index: int) -> float:
        """Round, or window, *index* opens: when."""
        self._closed = self._env.event()
        self._ledger.open(index)
        return float(self._env.now)

    @property
    def _service(self) -> RoundServiceConfig:
        """What serves rounds."""
        if self._parts.service is None:
            raise RuntimeError("a world of traffic alone serves no rounds")
        return self._parts.service

    def _open_server(self) -> Server:
        """The server at work."""
        parts, env, ledger = self._parts, self._env, self._ledger
        service = self._service
        way = build_downlink(parts, service, env, ledger, self._routes)
        name, towers = parts.sites.server, self._towers
        return Server(service, env=env, ledger=ledger, towers=towers, way=way, name=name, close=self._close)

    def _play(self) -> None:
        """Let the clock run until the round closes."""
        try:
            run_until(self._env, self._closed, self._beat)
        except NetflError:
            raise
        except Exception as error:
            if isinstance(error, simpy.core.EmptySchedule):
                problem = f"round {self._ledger.round} can never close: nothing will ever happen any more"
            else:
                problem = f"{type(error).__name__}: {error}"
            raise ModelError("network", problem, time_s=self._env.now) from error
        if self._failure is not None:
            raise self._failure

    def _beat(self) -> None:
        """Say how far the round is."""
        attempts = sum(cell.attempts for tower in self._towers.values() for cell in tower.cells)
        self._pulse(RoundProgress(self._ledger.round, self._env.now, attempts, self._ledger.vain))

    def _arrive(self, message: Message) -> None:
        """An update, or a packet, reaches the server."""
        now, server = self._env.now, self._parts.sites.server
        if not message.immune and self._parts.presence.node_up_until_s(self._hub, now) <= now:
            self._ledger.land(message, "lost", now, node=server)
        elif message.base == TRAFFIC:
            self._ledger.land(message, "delivered", now, node=server)
        elif not isinstance(message, Segment) or message.transfer.arrive(message):
            assert self._server is not None
            self._server.take(message)

    def _close(self) -> None:
        """The open round closes now."""
        if not self._closed.triggered:
            self._closed.succeed()
            if self._server is not None:
                self._server.closed = True

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
        if self._parts.service is not None and self._parts.service.rule.deadline_s is None:
            self._close()

    def _tell(self, opened_s: float) -> None:
        """Record what came about in the round without anybody looking; make sure that the next can bring something."""
        now = self._env.now
        for tower in self._towers.values():
            tower.tell()
        record_outages(self._ledger, self._parts.outages, self._parts.sites, (opened_s, now))
        if self._server is not None and self._server.forsaken:
            raise ModelError("network", "every user is cut off from the server for good", time_s=now)

    def _finish(self, now_s: float) -> None:
        """The run ends: so does every update that is open; the figures are told."""
        self._ledger.ended = None
        for tower in self._towers.values():
            for cell in tower.cells:
                cell.finish()
        self._ledger.tell_packets()
        for message in tuple(self._ledger.flying):
            self._ledger.land(message, "unfinished", now_s)
        seen = {} if self._parts.sampler is None else self._parts.sampler.figures()
        told = {**self._account.figures(now_s), **self._ledger.figures, **seen}
        if self._parts.spending is not None:
            spent = self._parts.spending.close(now_s)
            self._recorder.spent(spent)
            told |= self._parts.spending.figures(spent, None if self._server is None else self._delivered)
        self._recorder.figures({**told, **self._parts.expected})
