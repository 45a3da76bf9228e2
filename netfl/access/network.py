"""The access that emerges from a simulated network.

`NetworkAccess` is the description of a network (`netfl.network.spec`) with a selection of users.
`NetworkAccess.open` builds the network (`netfl.network.build`), and takes its rounds from
`netfl.network.simulator.NetworkSimulator`: continue reading there.  What builds and simulates a network is imported by
the methods that do so: a scenario is read and validated without it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netfl.access import AccessInfo, OpenAccess
from netfl.access._with_selection import WithSelection
from netfl.core.spec import Spec, no_effect
from netfl.errors import Fault
from netfl.network.allocation import MIN_FREQUENCY
from netfl.network.spec import NetworkSpec
from netfl.network.validation import NO_ROUNDS, network_faults
from netfl.types import AccessContext, Law, LearnerReport, Round, ScenarioFacts

if TYPE_CHECKING:
    from netfl.network.layout import Layout

_POWER_RANGE_DB = (-200.0, 200.0)
"""Range of the power of a user relative to that of the radio."""
_FREQUENCY_RANGE = (MIN_FREQUENCY, 1.0)
"""Range of the frequency of a processor relative to that of ``compute``."""


class NetworkAccess(NetworkSpec, WithSelection):
    """Deliveries emerge from a simulated network: towers, fading links, contention, routers, outages.

    **Round.**  Round r opens when the server broadcasts version r-1 to the selected users (``selection``).  It closes
    by its rule (``round``), at its deadline, or as soon as no update that would count can arrive; round r+1 opens at
    that instant.  Updates that arrive after the close, or start from too old a version (``staleness``), are late.  One
    clock runs through all rounds: queues, channels, outages and MACs keep their state.

    **Downlink.**  A broadcast takes the delay and bits / rate of each link to a tower, then bits / broadcast_rate and
    the propagation delay on the air, which it does not share with the uplink.  If part of the route is down at that
    time, the tower receives it when the whole route is up again.  A disconnected user receives it when the user and its
    tower are both up, as towers repeat the newest version.  A newer version replaces one that is pending.  With a
    ``downlink``, versions cross queues and fading channels, and can be lost.

    **User.**  On receiving a version a user trains for samples / speed seconds, connected or not; a training for which
    its ``battery`` has no energy is lost.  Its update then joins the backlog of its cell, that of its tower
    (``association``).  If a newer version arrives before the update is delivered, the user abandons the update
    (superseded; a frame on the air is sent to its end, and may arrive late), finishes it, or ignores the version
    (``on_new_version``).  A user that is disconnected, itself or its tower being down, knows it and sends nothing.

    **Air.**  The MAC decides which users send.  Of attempts that overlap on one channel of a cell, ``interference``
    decides which are received: none, by default.  An attempt is lost if the user or the tower goes down during it, and
    faded if its SNR is too low for the reception: the SNR at its start, or in each block of fading that it spans, for
    receptions that model that.  The MAC repeats failed attempts.  At the end of its airtime the update enters its
    tower's output port.

    **Uplink.**  Towers and routers store and forward, by default along the route of least delay.  A message is
    dropped if a queue rejects it, and lost if its node or link is down on arrival or goes down while it is there.

    **Traffic.**  Packets that are sent beside the updates share the same air, ports and links.  Without ``round`` there
    are no updates, and the network carries traffic alone for the ``duration`` of the scenario.

    Example::

        kind: network
        topology: {kind: star, radius: 1 km}
        radio: {power: 14 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
        channel:
          - {kind: log_distance, exponent: 3.5, frequency: 868 MHz}
          - {kind: rayleigh, coherence: 50 ms}
        reception: {kind: snr_threshold, threshold: 5 dB, rate: 50 kbps}
        mac: {kind: slotted_aloha, probability: 0.1}
        compute: {speed: 100, samples: 500}
        broadcast_rate: 100 kbps
        update_size: 10 kB
        round: {kind: first, m: 1}
    """

    @property
    def closed_loop_parts(self) -> Mapping[str, Spec]:
        parts = dict(super().closed_loop_parts)
        if self.mac is not None and self.mac.needs_learner_metrics:
            parts["mac"] = self.mac
        return parts

    @property
    def reporting_parts(self) -> Mapping[str, Spec]:
        if self.round is None:  # traffic alone has no rounds to decide on
            return {}
        parts = dict(super().reporting_parts)
        if self.allocation is not None and self.allocation.reports:
            parts["allocation"] = self.allocation
        return parts

    @property
    def parts_that_need_samples(self) -> Mapping[str, Spec]:
        parts = dict(super().parts_that_need_samples)
        if self.allocation is not None and self.allocation.needs_sample_counts:
            parts["allocation"] = self.allocation
        return parts

    @property
    def info(self) -> AccessInfo:
        return replace(
            super().info,
            needs_samples=self.compute is not None and self.compute.samples is None,
            is_networked=True,
            can_resize_updates=True,
            update_bits=self.update_size,
            billing=self.payload,
            can_run_timed=self.round is None and (bool(self.traffic) or self.probe is not None),
            can_stop=self.round is not None,
            has_positions=True,
            has_energy=self.energy is not None,
            rare_outcomes=self._rare_outcomes,
            can_erase=self.transport is not None and self.transport.loss == "erase",
            has_roaming=self.association.can_move,
            knows_lost=self.round is not None,
            sums=self.interference.sums,
            link_values=self._link_values,
        )

    @property
    def _rare_outcomes(self) -> frozenset[str]:
        """Outcomes that only updates of some networks can have."""
        names = set[str]()
        if not self.trains_always:
            names.add("not_trained")
        if self.association.can_move and self.association.on_move == "drop":
            names.add("left")
        if self.interference.sums:
            names.add("not_summed")
        return frozenset(names)

    @property
    def _link_values(self) -> frozenset[str]:
        """Names of the fields of ``Delivery.link`` that a delivery of this network has."""
        if self.round is None:
            return frozenset()
        names = {"mode", "airtime_s"}
        if self.radio is not None and self.reception is not None:
            names |= {"snr_db", "gain_db"}
        if self.energy is not None:
            names.add("energy_j")
        return frozenset(names)

    @property
    def control_ranges(self) -> Mapping[str, tuple[float, float]]:
        ranges: dict[str, tuple[float, float]] = {}
        if self.mac is not None:
            ranges.update(self.mac.control_ranges)
        if self.radio is not None:
            ranges["power"] = _POWER_RANGE_DB
        if self.compute is not None:
            ranges["frequency"] = _FREQUENCY_RANGE
        if self.allocation is not None:  # which decides them
            for name in ("share", "power", "frequency"):
                ranges.pop(name, None)
        return ranges

    @property
    def selects_all(self) -> bool:
        """True if the server selects all users in every round."""
        return self.selection.selects_all

    @property
    def observable(self) -> frozenset[str]:
        names = {"user_up", "distance_m", "duration_s", "backlog", "queues"}
        if self.radio is not None:
            names |= {"snr_db", "rate_bps"}
        if any(outage.has_batteries for outage in self.outages):
            names.add("battery_j")
        if self.energy is not None:
            names.add("energy_j")
        if self.compute is not None:
            names.add("speed")
        return super().observable | names

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the limit of the rule; if old updates count, a user may deliver an old and a new one."""
        if self.round is None:
            return users
        updates = 2 * users
        if self.is_punctual and not self.staleness:
            updates = self.selection.max_selected(users)
        return min(updates, self.round.max_updates(updates))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from network_faults(self, facts, selects_all=self.selects_all)
        if facts.duration_s is None:
            yield from self.selection_faults(facts)
        else:
            yield from no_effect(self, ("selection", "learner"), NO_ROUNDS)

    def warnings(self, context: AccessContext) -> Iterator[str]:
        from netfl.network.warnings import network_warnings

        yield from super().warnings(context)
        max_selected = self.selection.max_selected(context.users)
        yield from network_warnings(self, context, max_selected, sets_deadline=self.selection.sets_deadline)

    def notes(self, context: AccessContext) -> Iterator[str]:
        from netfl.network.warnings import network_notes

        max_selected = context.users
        if self.round is not None:
            max_selected = self.selection.max_selected(context.users)
        yield from network_notes(self, context, max_selected)

    def layout(self, context: AccessContext) -> Layout:
        from netfl.network.build import build_layout

        return build_layout(self, context)

    def user_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        from netfl.network.build import compute_streams, open_budget, towers_at_start

        layout = self.layout(context)
        towers = towers_at_start(self, context, layout)
        x_m, y_m = layout.user_xy_m.T
        distance_m = layout.distances_to_m(towers, np.arange(context.users), 0.0)
        columns = {"x_m": x_m, "y_m": y_m, "distance_m": distance_m, "tower": towers}
        columns["node"] = np.array(layout.towers, object)[towers]
        if self.compute is not None:
            columns |= self.compute.columns(context.users, compute_streams(context))
        if self.radio is not None and self.radio.differing:
            columns |= open_budget(self, context, layout).radios.columns(self.radio.differing)
        return columns

    def node_columns(self, context: AccessContext) -> Mapping[str, NDArray[Any]]:
        graph = self.layout(context).graph
        columns = {key: np.array([graph.nodes[name][key] for name in graph]) for key in ("role", "x_m", "y_m")}
        return {"node": np.array([*graph]), **columns}

    def open(self, context: AccessContext) -> OpenAccess:
        """Build the network, and return its rounds with the simulator.

        Raises:
            netfl.errors.ScenarioError: users can never be received, an update does not fit a slot, or an outage does
                not fit the layout.
            netfl.errors.ModelError: a model failed, or no event is left.
        """
        from netfl.access._admission import build_admission
        from netfl.access._open_network import OpenNetwork
        from netfl.network.build import build_network
        from netfl.network.simulator import NetworkSimulator

        config = build_network(self, context)
        simulator = NetworkSimulator(
            config,
            context.streams,
            context.recorder,
            context.pulse,
            context.controls,
            reports_links=context.reports_links,
            reports_lost=context.reports_lost,
            reports_not_summed=context.reports_not_summed,
        )
        if context.duration_s is None:
            admission = build_admission(self.selection, config, context, simulator.observations)
            rounds = simulator.rounds(context.rounds, admission, context.stop_s)
        else:
            rounds = simulator.windows(context.rounds, context.duration_s, context.warmup_s)
        return OpenNetwork(self, context, rounds, network=simulator)

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        return self.open(context).rounds

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("emerges from its channels, outages, MACs and queues, each of which is tested by itself"),)
