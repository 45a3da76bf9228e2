"""Simulator of a network: users, cells, ports and the server on one clock, round after round.

A run begins in `netfl.access.network`, which builds a `NetworkConfig` and asks `NetworkSimulator.rounds` for rounds.
The simulator starts a process for each cell (`run_mac`), in which a MAC puts frames on the air by
`netfl.network.radio.cell.Cell.attempt`: continue reading in a MAC, such as `netfl.network.mac.slotted_aloha`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy

from netfl.errors import ModelError, NetflError, prefix_faults
from netfl.network.backhaul.routes import Routes
from netfl.network.backhaul.traffic_sources import start_sources
from netfl.network.clock import Clock, Stage, call_after
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.counters import share_of_time
from netfl.network.downlink import DownlinkPath, IdealDownlink, LossyDownlink
from netfl.network.event_log import Ending, EventLog
from netfl.network.mac import Mac
from netfl.network.mac._conformance import CheckedCell
from netfl.network.message import Message, Packet
from netfl.network.periods import before_rounding
from netfl.network.radio.cell import Cell
from netfl.network.radio.collision_repeats import RepeatedCollisions
from netfl.network.server import Admission, Server
from netfl.network.state import NetworkState
from netfl.network.tower import build_towers
from netfl.network.updates import OutstandingUpdates, UpdateCarrier
from netfl.registry import kind_of
from netfl.streams import Streams
from netfl.types import LearnerReport, Recorder, Round, RoundControls, RoundProgress, ignore_progress


def record_outages(log: EventLog, config: NetworkConfig, start_s: float, end_s: float) -> None:
    """Record the nodes that went down or up after *start_s* and by *end_s*; in the first round also those down."""
    if not (log.wants("down") or log.wants("up")):
        return
    layout, outages = config.layout, config.outages
    nodes = np.arange(layout.nodes)
    times_s, changed, up = outages.changes(nodes, start_s, end_s)
    if log.round == 1:
        down = nodes[~outages.up(nodes, start_s)]
        times_s, changed = np.append(np.full(len(down), start_s), times_s), np.append(down, changed)
        up = np.append(np.zeros(len(down), np.bool_), up)
    for kind, chosen in (("up", up), ("down", ~up)):
        users = chosen & (changed < layout.users)
        if users.any():
            log.event(kind, times_s[users], user=changed[users])
        for at_s, node in zip(times_s[chosen & ~users], changed[chosen & ~users], strict=True):
            log.event(kind, at_s, node=layout.name(node))


def run_mac(mac: Mac | None, cell: Cell, fail: Callable[[NetflError], None]) -> Generator[simpy.Event, Any, None]:
    """Run *mac* in *cell*; call *fail* with any error in it, which ends the run."""
    assert mac is not None
    try:
        yield from cell.serve() if isinstance(cell, CheckedCell) else mac.serve(cell)
    except NetflError as error:
        fail(error)
    except Exception as error:
        failure = ModelError(kind_of(type(mac)), f"{type(error).__name__}: {error}", time_s=cell.env.now)
        failure.__cause__ = error
        fail(failure)


class NetworkSimulator:
    """The network of one replica.  One clock and one state run through all rounds.

    Args:
        on_progress: called from time to time within a round.
        controls: settings that a caller changes before each round; ``None`` for none.

    Attributes:
        env: the clock.
    """

    def __init__(
        self,
        config: NetworkConfig,
        streams: Streams,
        recorder: Recorder,
        on_progress: Callable[[RoundProgress], None] = ignore_progress,
        controls: RoundControls | None = None,
    ) -> None:
        layout = config.layout
        self._config, self._recorder, self._on_progress = config, recorder, on_progress
        self._controls = controls
        self.env = env = Clock()
        self._log = log = EventLog(
            recorder,
            layout.users,
            nodes=layout.nodes if config.traffic else 0,
            record_packets=config.service is None,
            max_failed_attempts=config.max_failed_attempts,
        )
        self._outstanding = OutstandingUpdates(layout.users, self._close_exhausted)
        self._streams = streams
        self._round_closed = env.event()
        self._failure: NetflError | None = None
        self._deliveries = 0
        self._server_node = layout.number(layout.server)
        self._delivered = Ending("delivered", layout.server)
        self._lost_at_server = Ending("lost", layout.server)
        self._can_be_down = not config.node_state.is_always_up
        self._server: Server | None = None
        with prefix_faults("routing"):
            self._routes = Routes(config, env, log, streams)
        with prefix_faults("queues"):
            sinks = self._routes.open_ports(self._receive)
        self._towers = build_towers(config, env, log, streams, self._outstanding, sinks, self._routes)
        self._cells = [cell for tower in self._towers.values() for cell in tower.cells]
        for cell in self._cells:
            env.process(run_mac(config.mac, cell, self._fail))
        self._fast_traffic = start_sources(config, env, log, streams, sinks, self._routes)
        self._links_busy_s = (self._fast_traffic or self._routes).busy_by_s
        self._warmup_busy_s: dict[str, float] = {}

    def rounds(self, count: int, admission: Admission | None = None) -> Generator[Round, LearnerReport | None, None]:
        """Yield rounds, one after the other; send back the learners' report on each.

        Args:
            count: number of rounds.
            admission: selects the users of each round; by default all.

        Raises:
            ModelError: a model failed, or the round can never close.
        """
        assert self._config.service is not None, "a network of traffic alone has no rounds"
        service, log, layout = self._config.service, self._log, self._config.layout
        downlink = self._open_downlink(service)
        server = self._server = Server(
            layout.server,
            self.env,
            log,
            service,
            self._towers,
            self._outstanding,
            downlink,
            self._streams.field("tie", layout.server),
            self._close,
        )
        report: LearnerReport | None = None
        server.admission = admission or Admission(layout.users)
        for index in range(1, count + 1):
            opened_s = self._open_round(index)
            if self._controls is not None:
                self._apply(self._controls, service, downlink)
            log.event("broadcast", opened_s, node=layout.server, value=downlink.bits)
            server.open_round(report)
            if service.rule.deadline_s is not None:
                self._close_at_deadline(service.rule.deadline_s)
            elif server.nothing_outstanding:
                self._close()
            self._run_round()
            result = server.collect_round_result()
            self._deliveries += len(result.deliveries)
            now_s = self.env.now
            for tower in self._towers.values():
                tower.record_trainings()
            record_outages(log, self._config, opened_s, now_s)
            if server.unreachable:
                raise ModelError("network", "every user is permanently cut off from the server", time_s=now_s)
            if index == count:
                self._finish(now_s)
            queries = server.admission.queries(index + 1) if index < count else {}
            report = yield Round(
                index,
                opened_s,
                now_s,
                result.deliveries,
                result.oldest,
                log.uplink_bits,
                log.downlink_bits,
                queries,
                result.needed,
                None if self._config.energy is None else self._config.energy.total_j(now_s),
            )

    def windows(self, count: int, duration_s: float, warmup_s: float) -> Generator[Round, LearnerReport | None, None]:
        """Yield *count* equal parts of *duration_s* of traffic alone, each as a round without deliveries.

        Windows are half-open: what happens at the end of one, up to the rounding of the clock, belongs to the next.

        Raises:
            ModelError: a model failed.
        """
        log, sampler = self._log, self._config.sampler
        if warmup_s:
            call_after(self.env, before_rounding(warmup_s), lambda _: self._restart_counts(warmup_s))
        closed_s = 0.0
        for index in range(1, count + 1):
            self._open_round(index)
            opened_s, closed_s = closed_s, duration_s * index / count
            call_after(self.env, before_rounding(closed_s) - self.env.now, lambda _: self._close())
            self._run_round()
            self._play_fast_traffic(closed_s)
            log.flush_packets()
            changes_from_s = before_rounding(opened_s) if index > 1 else opened_s
            record_outages(log, self._config, changes_from_s, before_rounding(closed_s))
            if sampler is not None:
                sampler.sample(opened_s, closed_s, log)
            if index == count:
                self._finish(closed_s)
            yield Round(index, opened_s, closed_s, (), index, log.uplink_bits, 0.0)

    def finish(self) -> None:
        """End the network after the last round that its caller needs, if more rounds could follow."""
        self._finish(float(self.env.now))

    def synchronised_cells(self) -> dict[str, RepeatedCollisions]:
        """Return the towers whose users stay synchronised, and how often they collide again."""
        repeats = {name: tower.cell.transmit_path.repeats.repeated for name, tower in self._towers.items()}
        return {name: repeated for name, repeated in repeats.items() if repeated is not None}

    def state(self) -> NetworkState:
        """Return the state of the network now."""
        config, now_s = self._config, float(self.env.now)
        layout, users = config.layout, np.arange(config.layout.users)
        snr_db, backlog = np.full(layout.users, np.nan), np.zeros(layout.users, np.int64)
        for tower in self._towers.values():
            ids = tower.cell.ids
            snr_db[ids] = tower.cell.snr_db(np.arange(len(ids)))
            backlog[ids] = tower.cell.backlog_lengths()
        nodes = np.arange(layout.nodes)
        is_up = np.ones(layout.nodes, np.bool_)
        if not config.node_state.is_always_up:
            is_up = config.node_state.up(nodes, now_s)
        return NetworkState(
            time_s=now_s,
            xy_m=layout.user_xy_m if layout.paths is None else layout.paths.xy_m(users, now_s),
            distance_m=layout.distances_m(users, now_s),
            snr_db=snr_db,
            backlog=backlog,
            queues=self._routes.queue_lengths(),
            user_up=is_up[: layout.users],
            node_up=dict(zip((*layout.names, *layout.links), is_up[layout.users :].tolist(), strict=True)),
            energy_j=None if config.energy is None else config.energy.by_user_j(now_s),
        )

    def _open_downlink(self, service: RoundServiceConfig) -> DownlinkPath:
        if service.downlink is None:
            return IdealDownlink(self._config, service, self.env, self._log, self._outstanding, self._routes)
        order_draws = self._streams.at("downlink").field("order")
        return LossyDownlink(self._config, service, self.env, self._log, self._routes, order_draws)

    def _apply(self, controls: RoundControls, service: RoundServiceConfig, downlink: DownlinkPath) -> None:
        """Let the settings of *controls* take effect."""
        transport = service.transport
        if controls.broadcast_bits is not None:
            downlink.bits = controls.broadcast_bits / transport.compression_down
            if self._config.energy is not None and service.downlink is None:
                self._config.energy.broadcast_s = downlink.bits / service.broadcast_bps
        cuts = None
        if controls.update_bits is not None:
            by_size = {bits: transport.cut(bits / transport.compression) for bits in set(controls.update_bits.tolist())}
            cuts = [by_size[bits] for bits in controls.update_bits.tolist()]
        power_db = controls.mac.get("power")
        if self._config.medium is not None:
            self._config.medium.set_power_offset(power_db)
        for tower in self._towers.values():
            if cuts is not None:
                tower.set_update_cuts([cuts[user] for user in tower.cell.ids.tolist()])
            for cell in tower.cells:
                cell.set_controls({name: values[cell.ids] for name, values in controls.mac.items()})

    def _restart_counts(self, now_s: float) -> None:
        """Start all counts over at the end of the warm-up."""
        self._play_fast_traffic(now_s)
        self._log.packets.restart(now_s)
        self._warmup_busy_s = self._links_busy_s(now_s)
        for cell in self._cells:
            cell.transmit_path.restart(now_s)
        if self._config.energy is not None:
            self._config.energy.restart(now_s)

    def _play_fast_traffic(self, now_s: float) -> None:
        if self._fast_traffic is not None:
            self._fast_traffic.play(now_s, self._report_progress)

    def _open_round(self, index: int) -> float:
        """Open round, or window, *index*; return the time."""
        self._round_closed = self.env.event()
        self._log.open_round(index)
        return float(self.env.now)

    def _run_round(self) -> None:
        try:
            self.env.run_until(self._round_closed, lambda: self._report_progress(self.env.now))
        except NetflError:
            raise
        except Exception as error:
            if isinstance(error, simpy.core.EmptySchedule):
                problem = f"round {self._log.round} can never close: no further event is scheduled"
            else:
                problem = f"{type(error).__name__}: {error}"
            raise ModelError("network", problem, time_s=self.env.now) from error
        if self._failure is not None:
            raise self._failure

    def _report_progress(self, now_s: float) -> None:
        attempts = sum(cell.transmit_path.attempts for cell in self._cells)
        self._on_progress(RoundProgress(self._log.round, now_s, attempts, self._log.failed_attempts))

    def _receive(self, message: Message) -> None:
        now_s = self.env.now
        if self._can_be_down and not message.ignore_outages and not self._is_server_up(now_s):
            message.end(self._log, self._lost_at_server, now_s)
        elif isinstance(message, Packet):
            message.end(self._log, self._delivered, now_s)
        else:
            assert self._server is not None
            assert isinstance(message, UpdateCarrier)
            message.arrive(self._server)

    def _is_server_up(self, now_s: float) -> bool:
        return self._config.node_state.node_up_until_s(self._server_node, now_s) > now_s

    def _close(self) -> None:
        if not self._round_closed.triggered:
            self._round_closed.succeed()
            if self._server is not None:
                self._server.reject_further_updates()

    def _close_at_deadline(self, deadline_s: float) -> None:
        """Close the open round in *deadline_s*, after all arrivals of that instant, if it is still open then."""
        index = self._log.round

        def close() -> None:
            if self._log.round == index:
                self._close()

        call_after(self.env, deadline_s, lambda _: self.env.at_end(Stage.TIMERS, close))

    def _fail(self, error: NetflError) -> None:
        self._failure = error
        self._close()

    def _close_exhausted(self) -> None:
        """Close a round without a deadline, as no update is expected any more."""
        if self._config.service is not None and self._config.service.rule.deadline_s is None:
            self._close()

    def _finish(self, now_s: float) -> None:
        log, sampler, energy = self._log, self._config.sampler, self._config.energy
        self._outstanding.on_end = None
        for tower in self._towers.values():
            tower.finish()
        log.flush_packets()
        for update in tuple(self._outstanding.in_flight):
            update.end(log, Ending("unfinished"), now_s)
        samples = {} if sampler is None else sampler.metrics()
        metrics = {**self._network_metrics(now_s), **log.metrics, **samples}
        if energy is not None:
            columns = energy.close(now_s)
            self._recorder.energy(columns)
            metrics |= energy.metrics(columns, None if self._server is None else self._deliveries)
        self._recorder.final_metrics({**metrics, **self._config.expected})

    def _network_metrics(self, now_s: float) -> dict[str, float]:
        """Return the metrics of traffic, attempts and links; those of traffic have a prefix if there are rounds."""
        packets, prefix = self._log.packets, "" if self._config.service is None else "traffic."
        span_s = now_s - packets.since_s
        metrics = {f"{prefix}{name}": value for name, value in packets.metrics(now_s).items()}
        if self._cells:
            attempts, failed = sum(cell.transmit_path.attempts for cell in self._cells), Counter[str]()
            for cell in self._cells:
                failed.update(cell.transmit_path.failed)
            received_or_faded = attempts - failed["collided"] - failed["lost"]
            metrics["attempts"] = float(attempts)
            metrics["collision_probability"] = failed["collided"] / max(attempts, 1)
            metrics["outage_probability"] = failed["faded"] / max(received_or_faded, 1)
        for name, tower in self._towers.items():
            metrics[f"utilisation.{name}"] = share_of_time(tower.cell.transmit_path.busy_by_s(now_s), span_s)
        for name, repeated in self.synchronised_cells().items():
            metrics[f"synchronised.{name}"] = repeated.share
        for name, busy_s in self._links_busy_s(now_s).items():
            metrics[f"utilisation.{name}"] = share_of_time(busy_s - self._warmup_busy_s.get(name, 0.0), span_s)
        return metrics
