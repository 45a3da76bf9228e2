"""Simulator of a network: users, cells, ports and the server on one clock, round after round.

A run begins in `netfl.access.network`, which builds a `NetworkConfig` and asks `NetworkSimulator.rounds` for rounds.
The simulator starts a process for each cell (`run_mac`), in which a MAC puts frames on the air by
`netfl.network.radio.cell.Cell.attempt`: continue reading in a MAC, such as `netfl.network.mac.slotted_aloha`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from itertools import dropwhile
from pathlib import Path
from traceback import FrameSummary, StackSummary, extract_tb
from typing import Any

import numpy as np
import simpy

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line
from netfl.errors import ModelError, NetflError, PluginCallError, prefix_faults
from netfl.network.allocator import RoundAllocator, drop_without_share, set_frequency
from netfl.network.attempt_log import BUSY, CAUSES, JAMMED
from netfl.network.backhaul.port import Sink
from netfl.network.backhaul.routes import Routes
from netfl.network.backhaul.server_uplink import ServerUplink
from netfl.network.backhaul.shared_link import SharedLink
from netfl.network.backhaul.sinks import end_traffic, lose_while_down
from netfl.network.backhaul.traffic_sources import start_sources
from netfl.network.clock import Clock, Stage, call_after
from netfl.network.config import NetworkConfig, RoundServiceConfig
from netfl.network.counterfactual.admission import InclusiveAdmission
from netfl.network.counterfactual.downlink import DirectDownlink, UninterruptedDownlink
from netfl.network.counterfactual.routes import BypassRoutes
from netfl.network.counterfactual.server import PatientServer
from netfl.network.counters import share_of_time
from netfl.network.downlink import DownlinkPath, ExpectedUsers, IdealDownlink, LossyDownlink
from netfl.network.evaluation_phase import EvaluationPhase
from netfl.network.event_log import Ending, EventLog
from netfl.network.layout import NodeId
from netfl.network.mac import Mac
from netfl.network.mac._conformance import CheckedCell
from netfl.network.membership import Membership
from netfl.network.message import Message
from netfl.network.observations import NetworkObservations
from netfl.network.periods import before_rounding
from netfl.network.radio.answer_queue import Answer
from netfl.network.radio.cell import Cell
from netfl.network.radio.collision_repeats import RepeatedCollisions
from netfl.network.radio.jamming import Jamming
from netfl.network.radio.transmit_path import POWER_COUNTS
from netfl.network.roaming import Roaming
from netfl.network.server import Admission, Server
from netfl.network.server_link import DOWN, UP
from netfl.network.shared_downlink import SharedDownlink
from netfl.network.state import NetworkState
from netfl.network.state_times import DownTimes, StateTimes
from netfl.network.tower import build_towers
from netfl.network.traffic import class_names
from netfl.network.updates import OutstandingUpdates, UpdateCarrier
from netfl.streams import Streams
from netfl.types import Ints, LearnerReport, Recorder, Round, RoundControls, RoundProgress, Users, ignore_progress
from netfl.units import clock_problem

_SIMPY = Path(simpy.__file__).parent
_NETFL = Path(__file__).parents[1]
_SURE_DELIVERIES = 10.0
"""Expected number of deliveries of a user from which on none is no chance: 1 in 20,000 for a Poisson number."""


def record_outages(log: EventLog, config: NetworkConfig, start_s: float, end_s: float) -> None:
    """Record the nodes that went down or up in [*start_s*, *end_s*); in the first round also those that are down."""
    if not (log.wants("down") or log.wants("up")):
        return
    layout = config.layout
    nodes = np.arange(layout.nodes)
    after_s = max(0.0, before_rounding(start_s))  # nothing is known of times before the run
    by_s = max(after_s, before_rounding(end_s))
    times_s, changed_nodes, goes_up = config.outages.changes(nodes, after_s, by_s)
    if log.round == 1:
        down_nodes = nodes[~config.outages.up(nodes, start_s)]
        times_s = np.append(np.full(len(down_nodes), start_s), times_s)
        changed_nodes = np.append(down_nodes, changed_nodes)
        goes_up = np.append(np.zeros(len(down_nodes), np.bool_), goes_up)
    is_user = changed_nodes < layout.users
    for kind, has_kind in (("up", goes_up), ("down", ~goes_up)):
        users = has_kind & is_user
        if users.any():
            log.event(kind, times_s[users], user=changed_nodes[users])
        others = has_kind & ~is_user
        for at_s, node in zip(times_s[others], changed_nodes[others], strict=True):
            log.event(kind, at_s, node=layout.name(node))


def run_mac(mac: Mac | None, cell: Cell, fail: Callable[[NetflError], None]) -> Generator[simpy.Event, Any, None]:
    """Run *mac* in *cell*; call *fail* with any error in it, which ends the run."""
    assert mac is not None
    try:
        if isinstance(cell, CheckedCell):  # the MAC is from outside, and its answers are checked
            yield from cell.serve()
        else:
            yield from mac.serve(cell)
    except NetflError as error:
        fail(error)
    except Exception as error:
        failure = ModelError(kind_of(type(mac)), f"{type(error).__name__}: {error}", time_s=cell.env.now)
        failure.__cause__ = error
        fail(failure)


def _caller_frame(error: Exception) -> FrameSummary | None:
    """Return the frame in which a process of a caller failed; ``None`` for the processes of netfl and their models."""
    frames = extract_tb(error.__traceback__)
    if error.__cause__ is not None and _is_below(frames[-1], _SIMPY):  # the copy of an error that ended a process
        frames = extract_tb(error.__cause__.__traceback__)
    else:  # an error of a function that an event calls
        frames = StackSummary.from_list([*dropwhile(lambda frame: not _is_below(frame, _SIMPY), frames)])
    frame = next((frame for frame in frames if not _is_below(frame, _SIMPY)), None)
    return None if frame is None or _is_below(frame, _NETFL) else frame


def _is_below(frame: FrameSummary, folder: Path) -> bool:
    return folder in Path(frame.filename).parents


class NetworkSimulator:
    """The network of one replica.  One clock and one state run through all rounds.

    Args:
        on_progress: called from time to time within a round.
        controls: settings that a caller changes before each round; ``None`` for none.
        reports_links: whether deliveries state how they came over the air.
        reports_lost: whether deliveries state the trainings that were in vain before them.
        reports_not_summed: whether rounds state the updates that a sum in the air left out.

    Attributes:
        env: the clock.
        membership: the tower of each user.
        observations: the values that policies can observe.
        fast_traffic: traffic whose packets are played in batches; ``None`` where each packet is an event.
    """

    def __init__(
        self,
        config: NetworkConfig,
        streams: Streams,
        recorder: Recorder,
        on_progress: Callable[[RoundProgress], None] = ignore_progress,
        controls: RoundControls | None = None,
        *,
        reports_links: bool = False,
        reports_lost: bool = False,
        reports_not_summed: bool = False,
    ) -> None:
        layout = config.layout
        self._config = config
        self._streams = streams
        self._recorder = recorder
        self._on_progress = on_progress
        self._controls = controls
        env = Clock()
        self.env = env
        if config.energy is not None and config.records_states:
            states = StateTimes(DownTimes(config.outages, layout.users))
            config.energy.record_states(states, lambda: float(env.now))
        log = EventLog(
            recorder,
            layout.users,
            nodes=layout.nodes if config.traffic else 0,
            traffic=class_names(config.traffic) or ("",),
            record_packets=config.service is None,
            max_failed_attempts=config.max_failed_attempts,
            reports_links=reports_links,
            reports_lost=reports_lost,
        )
        self._log = log
        self._reports_not_summed = reports_not_summed
        self._oldest = 0  # version from which an update of the open round may start
        if config.medium is not None:
            log.attempts.mode_names = config.medium.mode_names
            log.is_analogue = config.medium.sums

        # rounds and the server, which opens with them
        self._round_closed = env.event()
        self._failure: NetflError | None = None
        self._outstanding = OutstandingUpdates(layout.users, self._close_exhausted)
        self._server: Server | None = None
        self._evaluation: EvaluationPhase | None = None
        self._deliveries = 0
        self._is_stopped = False
        self._is_calling = False  # the server waits for answers, and no round is open
        self._is_finished = False

        # ports, from the server on; towers at their other ends, with a MAC for each cell; traffic of nodes
        with prefix_faults("routing"):
            new_routes = config.exemptions.choose(Routes, BypassRoutes, "outage")
            self._routes = new_routes(config, env, log, streams)
        self._server_links: dict[str, SharedLink] = {}
        direct_sink = self._server_sink(self._receive, self._receive)
        server_sink = self._shared_server_sink(config) or direct_sink
        with prefix_faults("queues"):
            sinks = self._routes.open_ports(server_sink)
        tower_sinks = {name: config.exemptions.divert("backhaul", sink, direct_sink) for name, sink in sinks.items()}
        self.membership = Membership(
            layout, env, config.visitors, start=None if config.roaming is None else config.roaming.start
        )
        self._roaming: Roaming | None = None
        if config.roaming is not None:
            self._roaming = Roaming(config.roaming, layout, env, log, self.membership)
        self._towers = build_towers(
            config, env, log, streams, self._outstanding, tower_sinks, self._routes, self.membership
        )
        self._cells = [cell for tower in self._towers.values() for cell in tower.cells]
        self.observations = NetworkObservations(config, env, self._towers, self._routes, self.membership)
        if self._roaming is not None:
            self._roaming.start(self._towers.values())
        for cell in self._cells:
            env.process(run_mac(config.mac, cell, self._fail))
        self.fast_traffic = start_sources(config, env, log, streams, sinks, self._routes)
        self._links_busy_s = (self.fast_traffic or self._routes).busy_by_s
        self._warmup_busy_s: dict[str, float] = {}

    def rounds(
        self, count: int, admission: Admission | None = None, stop_s: float | None = None
    ) -> Generator[Round, LearnerReport | None, None]:
        """Yield rounds, one after the other; send back the learners' report on each.

        Args:
            count: number of rounds, at most.
            admission: selects the users of each round; by default all.
            stop_s: time at which the network ends.  A round that closes then is the last one; a round that is open then
                is not yielded, and its updates are unfinished.

        Raises:
            ModelError: a model failed, or the round can never close.
        """
        assert self._config.service is not None, "a network of traffic alone has no rounds"
        service = self._config.service
        log = self._log
        layout = self._config.layout
        downlink = self._open_downlink(service, self._outstanding)
        self._evaluation = self._open_evaluation(service)
        server = self._open_server(service, downlink, admission or Admission(layout.users))
        if stop_s is not None:
            log.holds_deliveries = True
            call_after(self.env, stop_s, lambda _: self.env.at_end(Stage.STOP, self._stop))
        report: LearnerReport | None = None
        is_last = False
        index = 0
        closed_s = 0.0
        while not is_last:
            index += 1
            self._open_round(index)
            opened_s = self._wait_for_answers(server.call_users())
            if self._is_stopped:
                self._end_stopped(closed_s)
                return
            if self._controls is not None:
                self._apply(self._controls, service, downlink)
            log.event("broadcast", opened_s, node=layout.server, value=downlink.bits)
            server.open_round(report)
            self._plan_close(server, service.rule.deadline_s)
            self._run_round()
            if self._evaluation is not None and self._evaluation.is_due(index) and not self._is_stopped:
                self._evaluate(server, self._evaluation)

            now_s = self.env.now
            if self._is_stopped:
                self._end_stopped(closed_s)
                return

            result = server.collect_round_result()
            log.release_deliveries()
            self._deliveries += len(result.deliveries)
            self._record_activity(closed_s)
            closed_s = now_s
            if server.unreachable:
                raise ModelError("network", "every user is permanently cut off from the server", time_s=now_s)

            queries: Mapping[str, tuple[int, ...]] = {}
            is_last = index == count or (stop_s is not None and now_s >= before_rounding(stop_s))
            if is_last:
                self._finish(now_s)
            else:
                queries = server.admission.queries(index + 1)
            energy_j = None
            if self._config.energy is not None:
                energy_j = self._config.energy.total_j(now_s)
            report = yield Round(
                index=index,
                opened_s=opened_s,
                closed_s=now_s,
                deliveries=result.deliveries,
                oldest=result.oldest,
                uplink_bits=log.uplink_bits,
                downlink_bits=log.downlink_bits,
                queries=queries,
                needed=result.needed,
                energy_j=energy_j,
                not_summed=self._left_out_of_sums(),
            )
            self._oldest = result.oldest

    def windows(self, count: int, duration_s: float, warmup_s: float) -> Generator[Round, LearnerReport | None, None]:
        """Yield *count* equal parts of *duration_s* of traffic alone, each as a round without deliveries.

        Windows are half-open: what happens at the end of one, up to the rounding of the clock, belongs to the next.

        Raises:
            ModelError: a model failed.
        """
        log = self._log
        if warmup_s:
            call_after(self.env, max(0.0, before_rounding(warmup_s)), lambda _: self._restart_counts(warmup_s))
        opened_s = 0.0
        for index in range(1, count + 1):
            self._open_round(index)
            closed_s = duration_s * index / count
            call_after(self.env, max(0.0, before_rounding(closed_s) - self.env.now), lambda _: self._close())
            self._run_round()
            self._play_fast_traffic(closed_s)
            log.flush_packets()
            record_outages(log, self._config, opened_s, closed_s)
            if self._config.sampler is not None:
                self._config.sampler.sample(opened_s, closed_s, log)
            if index == count:
                self._finish(closed_s)
            yield Round(
                index=index,
                opened_s=opened_s,
                closed_s=closed_s,
                deliveries=(),
                oldest=index,
                uplink_bits=log.uplink_bits,
                downlink_bits=0.0,
            )
            opened_s = closed_s

    def finish(self) -> None:
        """End the network after the last round that its caller needs, if more rounds could follow."""
        if not self._is_finished:
            self._finish(float(self.env.now))

    def synchronised_cells(self) -> dict[str, RepeatedCollisions]:
        """Return the towers whose users stay synchronised, and how often they collide again."""
        repeats = {name: tower.cell.transmit_path.repeats.repeated for name, tower in self._towers.items()}
        return {name: repeated for name, repeated in repeats.items() if repeated is not None}

    @property
    def left_out(self) -> Ints | None:
        """Rounds in which each user was selected but had no share of the band, ``[users]``; ``None`` without shares."""
        if self._server is None:
            return None
        has_shares = self._config.allocation is not None or self._server.left_out.any()
        return self._server.left_out if has_shares else None

    @property
    def always_left_out(self) -> Users:
        """Users that were selected, but have had a share of the band in no round so far."""
        if self._server is None:
            return np.empty(0, np.int64)
        return np.flatnonzero((self._server.left_out > 0) & (self._server.took_part == 0))

    @property
    def never_first(self) -> Users:
        """Users without a delivery so far, as a MAC of fixed order has no turn for them before rounds close.

        If a user had delivered in as large a share of its rounds as a user of its cell that trains no faster, it would
        have `_SURE_DELIVERIES` by now.  It has none, although most of its frames are received, or none is ever sent.
        """
        server, service, mac = self._server, self._config.service, self._config.mac
        if server is None or service is None or mac is None:
            return np.empty(0, np.int64)
        if not mac.has_fixed_order or service.rule.is_continuous:
            return np.empty(0, np.int64)
        attempts = self._attempts_by_user()
        is_silent = 2 * attempts["attempts_received"] < attempts["attempts"]
        if not self._config.node_state.is_always_up:
            is_silent |= attempts["attempts"] == 0  # such a user may have been down all the time

        expected = np.zeros(self._config.layout.users)
        share = server.delivered / np.maximum(server.took_part, 1)
        for cell in self._cells:
            ids = cell.ids[cell.is_present]
            train_s = service.compute_s[ids]
            slowest_last = np.argsort(train_s)
            best_share = np.maximum.accumulate(share[ids][slowest_last][::-1])[::-1]  # of it and of slower ones
            place = np.searchsorted(train_s[slowest_last], train_s)
            expected[ids] = best_share[place] * server.took_part[ids]
        return np.flatnonzero((server.delivered == 0) & ~is_silent & (expected >= _SURE_DELIVERIES))

    def state(self) -> NetworkState:
        """Return the state of the network now."""
        config = self._config
        layout = config.layout
        now_s = float(self.env.now)
        users = np.arange(layout.users)
        snr_db = np.full(layout.users, np.nan)
        backlog = np.zeros(layout.users, np.int64)
        for tower in self._towers.values():
            members = self.membership.members(tower.index)
            ids = tower.cell.ids[members]
            snr_db[ids] = tower.present.snr_db(members)
            backlog[ids] = tower.present.backlog_lengths()[members]

        is_up = np.ones(layout.nodes, np.bool_)
        if not config.node_state.is_always_up:
            is_up = config.node_state.up(np.arange(layout.nodes), now_s)
        names = (*layout.names, *layout.links)  # numbered after the users
        node_up = dict(zip(names, is_up[layout.users :].tolist(), strict=True))

        energy_j = None
        if config.energy is not None:
            energy_j = config.energy.by_user_j(now_s)
        speed = update_bits = None
        if config.service is not None:
            speed = config.service.speed
            update_bits = np.zeros(layout.users)
            for tower in self._towers.values():
                is_member = self.membership.is_member(tower.index)
                update_bits[tower.cell.ids[is_member]] = tower.update_bits[is_member]
        return NetworkState(
            time_s=now_s,
            xy_m=layout.positions_m(users, now_s),
            distance_m=self.membership.distances_m(users, now_s),
            snr_db=snr_db,
            backlog=backlog,
            queues=self._routes.queue_lengths(),
            user_up=is_up[: layout.users],
            node_up=node_up,
            energy_j=energy_j,
            battery_j=config.outages.charge_j(users, now_s),
            speed=speed,
            update_bits=update_bits,
            tower=self.membership.tower_at(users, now_s),
        )

    def _server_sink(self, receive: Sink, receive_spared: Sink) -> Sink:
        """Return the sink of all messages that arrive at the node of the server.

        Args:
            receive: takes the updates.
            receive_spared: takes those of users that are exempt from outages.
        """
        name = self._config.layout.server
        classes = class_names(self._config.traffic)
        sink = end_traffic(name, classes, receive, self.env, self._log)
        node_state = self._config.node_state
        if node_state.is_always_up:
            return sink
        server = NodeId(name, self._config.layout.number(name))
        sink_while_up = lose_while_down(server, sink, node_state, self.env, self._log)
        spared_sink = end_traffic(name, classes, receive_spared, self.env, self._log)
        return self._config.exemptions.divert("outage", sink_while_up, spared_sink)

    def _shared_server_sink(self, config: NetworkConfig) -> Sink | None:
        """Return the sink of messages that arrive at the node of the server and cross its link; ``None`` without."""
        if config.service is None or config.service.server_link is None:
            return None
        rate_bps = config.service.server_link.up_bps
        if rate_bps is None:
            return None
        layout = config.layout
        limits_bps = config.service.server_link.limits_bps(layout.users)
        server = NodeId(layout.server, layout.number(layout.server))
        uplink = ServerUplink(self.env, self._log, config.node_state, rate_bps, limits_bps, server, self._receive)
        self._server_links[UP] = uplink.link
        return self._server_sink(uplink.take, uplink.take_spared)

    def _open_downlink(
        self, service: RoundServiceConfig, outstanding: ExpectedUsers, order: str = "order"
    ) -> DownlinkPath:
        """Open a path of versions, of rounds or of evaluations.

        Args:
            service: settings of rounds.
            outstanding: learns of users that are cut off for good.
            order: name of the draws of the order of copies.
        """
        exemptions = self._config.exemptions
        if service.downlink is None:
            new_downlink = exemptions.choose(IdealDownlink, UninterruptedDownlink, "outage")
            downlink: DownlinkPath = new_downlink(self._config, service, self.env, self._log, outstanding, self._routes)
        else:
            order_draws = self._streams.at("downlink").field(order)
            downlink = LossyDownlink(self._config, service, self.env, self._log, self._routes, order_draws)
        if service.server_link is not None and service.server_link.down_bps is not None:
            copies = service.server_link.copies
            if copies is None:
                is_multicast = service.downlink is not None and service.downlink.mode == "multicast"
                copies = "tower" if is_multicast else "user"
            limits_bps = service.server_link.limits_bps(self._config.layout.users)
            if DOWN not in self._server_links:
                self._server_links[DOWN] = SharedLink(self.env, service.server_link.down_bps)
            link = self._server_links[DOWN]
            downlink = SharedDownlink(self.env, link, limits_bps, downlink, by_user=copies == "user")
        if exemptions.downlink:
            return DirectDownlink(exemptions, downlink, self.env)
        return downlink

    def _open_evaluation(self, service: RoundServiceConfig) -> EvaluationPhase | None:
        """Open the evaluations at the end of rounds; ``None`` without."""
        if service.evaluation is None:
            return None
        assert service.evaluate_s is not None
        assert self._config.medium is not None
        phase = EvaluationPhase(
            service.evaluation,
            self.env,
            self._log,
            service.evaluate_s,
            self._towers,
            self.membership,
            self._config.medium.connection,
            self._streams.at("evaluation").field("share"),
            self._config.energy,
        )
        phase.downlink = self._open_downlink(service, phase, "evaluation")
        return phase

    def _evaluate(self, server: Server, evaluation: EvaluationPhase) -> None:
        """Let users evaluate the model of the open round, which takes no more updates, before it closes."""
        self._is_calling = True  # neither its deadline nor the end of its last update ends the evaluation
        server.hold_arrivals()
        self._round_closed = self.env.event()
        evaluation.begin(self._log.round, lambda: self.env.at_end(Stage.TIMERS, self._end_evaluation))
        self._run_round()
        self._is_calling = False
        server.release_arrivals()

    def _end_evaluation(self) -> None:
        if not self._round_closed.triggered:
            self._round_closed.succeed()

    def _open_server(self, service: RoundServiceConfig, downlink: DownlinkPath, admission: Admission) -> Server:
        name = self._config.layout.server
        new_server = self._config.exemptions.choose(Server, PatientServer, "deadline")
        server = new_server(
            name,
            self.env,
            self._log,
            service,
            self._towers,
            self._outstanding,
            downlink,
            self._streams.field("tie", name),
            self.membership,
            self._close,
        )
        server.admission = admission
        server.roaming = self._roaming
        if self._config.allocation is not None:
            allocator = RoundAllocator(
                self._config.allocation, self._config, self.env, self._towers, self.membership, self._recorder
            )
            server.on_selected = allocator.apply
        elif self._controls is not None:
            server.on_selected = partial(drop_without_share, self._controls)
        if self._config.exemptions.selection:
            server.admission = InclusiveAdmission(self._config.exemptions, admission)
        self._server = server
        return server

    def _plan_close(self, server: Server, deadline_s: float | None) -> None:
        """Close the round that has just opened at its deadline, or now if no update will come that could close it."""
        if server.waits_in_vain:
            self._close()
        elif deadline_s is not None:
            self._close_at_deadline(server.admission.deadline_s() or deadline_s)

    def _wait_for_answers(self, answers_s: float) -> float:
        """Let the users answer the call of the server before a round; return the time at which the round opens."""
        if not answers_s:
            return float(self.env.now)
        self._is_calling = True
        call_after(self.env, answers_s, lambda _: self.env.at_end(Stage.TIMERS, self._close))
        self._run_round()
        self._is_calling = False
        self._round_closed = self.env.event()
        return float(self.env.now)

    def _end_stopped(self, closed_s: float) -> None:
        """End the network at the time at which the run ends; its last round closed at *closed_s*."""
        now_s = self.env.now
        self._log.release_deliveries(unfinished_s=now_s)
        self._record_activity(closed_s)
        self._finish(now_s)

    def _record_activity(self, since_s: float) -> None:
        """Record the trainings and outages since *since_s*."""
        for tower in self._towers.values():
            tower.record_trainings()
        record_outages(self._log, self._config, since_s, self.env.now)

    def _apply(self, controls: RoundControls, service: RoundServiceConfig, downlink: DownlinkPath) -> None:
        """Let the settings of *controls* take effect."""
        transport = service.transport
        if controls.broadcast_bits is not None:
            downlink.bits = controls.broadcast_bits / transport.assumed_compression_down
            if self._config.energy is not None and service.downlink is None:
                self._config.energy.broadcast_s = downlink.bits / service.broadcast_bps

        if controls.update_bits is not None:
            update_bits = controls.update_bits.tolist()
            cut_of = {bits: transport.cut(bits / transport.assumed_compression) for bits in set(update_bits)}
            for tower in self._towers.values():
                tower.set_update_cuts([cut_of[update_bits[user]] for user in tower.cell.ids.tolist()])

        if self._config.medium is not None:
            self._config.medium.set_power_offset(controls.mac.get("power"))
        if "frequency" in controls.mac:
            set_frequency(controls.mac["frequency"], self._config, self._towers.values())
        for cell in self._cells:
            cell.set_controls({name: values[cell.ids] for name, values in controls.mac.items()})

    def _left_out_of_sums(self) -> tuple[tuple[int, int], ...]:
        """Return users and bases of the updates that sums of the round left out, and that could have counted."""
        if not self._reports_not_summed:
            return ()
        return tuple(sorted((user, base) for user, base in self._log.not_summed if base >= self._oldest))

    def _restart_counts(self, now_s: float) -> None:
        """Start all counts over at the end of the warm-up."""
        self._play_fast_traffic(now_s)
        self._log.traffic.restart(now_s)
        self._warmup_busy_s = self._links_busy_s(now_s)
        for cell in self._cells:
            cell.transmit_path.restart(now_s)
        if self._config.energy is not None:
            self._config.energy.restart(now_s)

    def _play_fast_traffic(self, now_s: float) -> None:
        if self.fast_traffic is not None:
            self.fast_traffic.play(now_s, self._report_progress)

    def _open_round(self, index: int) -> float:
        """Open round, or window, *index*; return the time."""
        self._round_closed = self.env.event()
        self._log.open_round(index)
        return float(self.env.now)

    def _run_round(self) -> None:
        try:
            self.env.run_until(self._round_closed, lambda: self._report_progress(self.env.now))
        except Exception as error:
            frame = _caller_frame(error)
            if frame is not None:
                place = f"{Path(frame.filename).name}, line {frame.lineno}"
                problem = f"{one_line(error)}; catch it in the process, or correct its cause"
                model = f"the process '{frame.name}' of the caller ({place})"
                raise ModelError(model, problem, time_s=self.env.now) from error
            if isinstance(error, PluginCallError):
                raise error.at(self.env.now) from error.__cause__
            if isinstance(error, NetflError):
                raise
            if isinstance(error, simpy.core.EmptySchedule):  # no fault of a model's code, so no traceback would help
                problem = f"round {self._log.round} can never close: no further event is scheduled"
                raise ModelError("network", problem, time_s=self.env.now) from None
            raise ModelError("network", one_line(error), time_s=self.env.now) from error
        if self._failure is not None:
            raise self._failure
        if problem := clock_problem(self.env.now):
            raise ModelError("network", problem, time_s=self.env.now)
        self._log.attempts.flush()

    def _report_progress(self, now_s: float) -> None:
        attempts = sum(cell.transmit_path.attempts for cell in self._cells)
        self._on_progress(RoundProgress(self._log.round, now_s, attempts, self._log.failed_attempts))

    def _receive(self, message: Message) -> None:
        """Hand the updates that *message* carries to the server."""
        if isinstance(message, Answer):
            message.arrive()
            return
        assert self._server is not None
        assert isinstance(message, UpdateCarrier)
        message.arrive(self._server)

    def _close(self) -> None:
        """Close the open round, unless it has closed at this instant."""
        if self._round_closed.triggered:
            return
        self._round_closed.succeed()
        if self._server is not None:
            self._server.reject_further_updates()

    def _close_at_deadline(self, deadline_s: float) -> None:
        """Close the open round in *deadline_s*, after all arrivals of that instant, if it is still open then."""
        index = self._log.round

        def close() -> None:
            if self._log.round == index and not self._is_calling:  # else it takes no more updates, and users evaluate
                self._close()

        call_after(self.env, deadline_s, lambda _: self.env.at_end(Stage.TIMERS, close))

    def _stop(self) -> None:
        """End the network within the open round, unless it has closed at this instant."""
        if not self._round_closed.triggered:
            self._is_stopped = True
            self._close()

    def _fail(self, error: NetflError) -> None:
        self._failure = error
        self._close()

    def _close_exhausted(self) -> None:
        """Close the open round after the arrivals of this instant if it waits in vain, as no update is expected."""
        if not self._round_closed.triggered:
            self.env.at_end(Stage.TIMERS, self._close_in_vain)

    def _close_in_vain(self) -> None:
        if not self._is_calling and self._server is not None and self._server.waits_in_vain:
            self._close()

    def _finish(self, now_s: float) -> None:
        """End all frames and updates, and record the metrics of the run."""
        self._is_finished = True
        self._outstanding.on_end = None
        self._log.attempts.finish([transmission for cell in self._cells for transmission in cell.transmissions])
        for tower in self._towers.values():
            tower.finish()
        self._log.flush_packets()
        for update in tuple(self._outstanding.in_flight):
            update.end(self._log, Ending("unfinished"), now_s)

        metrics = self._network_metrics(now_s)
        if self._cells:
            attempts = self._attempts_by_user()
            counts_by_user = self._power_counts_by_user()
            if self._config.mac is not None and self._config.mac.can_fail_access:
                counts_by_user["access_failures"] = self._access_failures_by_user()
            by_user = {**attempts, **counts_by_user}
            metrics |= {name: float(counts.sum()) for name, counts in counts_by_user.items()}
            left_out = self.left_out
            if left_out is not None:
                by_user["left_out"] = left_out
                metrics["left_out"] = float(left_out.sum())
                metrics["users_left_out"] = float(np.count_nonzero(left_out))
            self._recorder.add_rows("users", by_user)
            metrics |= _attempt_metrics(attempts)
        metrics |= self._log.metrics
        if self._evaluation is not None:
            metrics |= self._evaluation.counts
        if self._config.sampler is not None:
            metrics |= self._config.sampler.metrics()
        if self._config.energy is not None:
            columns = self._config.energy.close(now_s)
            self._recorder.add_rows("energy", columns)
            deliveries = None if self._server is None else self._deliveries
            metrics |= self._config.energy.metrics(columns, deliveries)
        metrics |= self._config.expected
        self._recorder.final_metrics(metrics)

    def _network_metrics(self, now_s: float) -> dict[str, float]:
        """Return the metrics of traffic, attempts and links; those of traffic have a prefix if there are rounds."""
        traffic = self._log.traffic
        span_s = now_s - traffic.total.since_s
        prefix = "" if self._config.service is None else "traffic."
        metrics = {f"{prefix}{name}": value for name, value in traffic.metrics(now_s).items()}
        for name, tower in self._towers.items():
            metrics[f"utilisation.{name}"] = share_of_time(tower.cell.transmit_path.busy_by_s(now_s), span_s)
        for name, repeated in self.synchronised_cells().items():
            metrics[f"synchronised.{name}"] = repeated.share
        receivers = [cell.transmit_path.receivers for cell in self._cells]
        if any(receivers):
            metrics["duplicates"] = float(sum(each.duplicates for each in receivers if each is not None))
        if self._roaming is not None:
            metrics |= self._roaming.metrics()
        if self._log.is_analogue:
            metrics["uplink_symbols"] = float(sum(cell.transmit_path.symbols for cell in self._cells))
        for name, busy_s in self._links_busy_s(now_s).items():
            metrics[f"utilisation.{name}"] = share_of_time(busy_s - self._warmup_busy_s.get(name, 0.0), span_s)
        if self._jamming is not None:
            timeline = self._jamming.timeline
            jammed_s = timeline.busy_s(now_s) - timeline.busy_s(traffic.total.since_s)
            metrics["utilisation.jammer"] = share_of_time(jammed_s, span_s)
        for name, link in self._server_links.items():
            metrics[f"utilisation.{name}"] = share_of_time(link.busy_by_s(now_s), span_s)
        return metrics

    @property
    def _jamming(self) -> Jamming | None:
        """The jammer; ``None`` for none, or without users that send."""
        return None if self._config.medium is None else self._config.medium.jamming

    def _attempts_by_user(self) -> dict[str, Ints]:
        """Return the attempts of each user, in all and by outcome, ``[users]`` each."""
        outcomes = ["received", *CAUSES]
        if self._config.mac is not None and self._config.mac.receiver_limits is not None:
            outcomes.append(BUSY)
        if self._jamming is not None:
            outcomes.append(JAMMED)
        by_outcome = {outcome: np.zeros(self._config.layout.users, np.int64) for outcome in outcomes}
        for cell in self._cells:
            for outcome, counts in cell.transmit_path.counts.items():
                by_outcome[outcome or "received"][cell.ids] += counts
        attempts = np.zeros(self._config.layout.users, np.int64)
        for counts in by_outcome.values():
            attempts += counts
        return {"attempts": attempts, **{f"attempts_{outcome}": counts for outcome, counts in by_outcome.items()}}

    def _access_failures_by_user(self) -> Ints:
        """Return the frames of each user that were given up as the medium was never free, ``[users]``."""
        failures = np.zeros(self._config.layout.users, np.int64)
        for cell in self._cells:
            failures[cell.ids] += cell.transmit_path.access_failures
        return failures

    def _power_counts_by_user(self) -> dict[str, Ints]:
        """Return the frames of each user that were clipped, and withheld, ``[users]`` each; none at one power."""
        if not self._config.controls_power:
            return {}
        by_user = {f"frames_{name}": np.zeros(self._config.layout.users, np.int64) for name in POWER_COUNTS}
        for cell in self._cells:
            for name, counts in cell.transmit_path.power_counts.items():
                by_user[f"frames_{name}"][cell.ids] += counts
        return by_user


def _attempt_metrics(by_user: Mapping[str, Ints]) -> dict[str, float]:
    """Return the metrics of attempts over the air, from those of each user."""
    totals = {name.replace("_", ".", 1): int(counts.sum()) for name, counts in by_user.items()}
    received = totals["attempts.received"]
    faded = totals["attempts.faded"]
    return {
        **{name: float(total) for name, total in totals.items()},
        "collision_probability": totals["attempts.collided"] / max(totals["attempts"], 1),
        "fade_probability": faded / max(received + faded, 1),
    }
