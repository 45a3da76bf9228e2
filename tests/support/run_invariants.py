"""Invariants of every run: of its tables and, inside `watched`, of the network while it runs."""

from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import combinations, pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from netfl.core.columns import columns_of, to_arrays
from netfl.core.kinds import kind_of
from netfl.network.attempt_log import CAUSES
from netfl.network.backhaul.port import OutputPort
from netfl.network.backhaul.server_uplink import ServerUplink
from netfl.network.counterfactual.port import BypassPort
from netfl.network.periods import before_rounding
from netfl.network.queue import FifoBuffer
from netfl.network.radio.cell import Cell
from netfl.network.radio.transmit_path import TransmitPath
from netfl.network.simulator import NetworkSimulator
from netfl.results.tables import SCHEMAS
from netfl.types import OUTCOMES, Delivery, Round

SLACK = 1e-9
"""Relative tolerance of times and sums."""
ORDERED_KINDS = (*(set(OUTCOMES) - {"superseded"}), "broadcast", "sent", "failed", "forwarded")
"""Kinds of events that are recorded when they happen. Other kinds may be recorded later."""


class Tables(NamedTuple):
    """The tables of one replica."""

    rounds: pd.DataFrame
    deliveries: pd.DataFrame
    events: pd.DataFrame
    energy: pd.DataFrame
    metrics: dict[str, float]
    users: pd.DataFrame
    attempts: pd.DataFrame


def tables_of_recorder(rounds, log):
    """Build the tables from rounds and a `recorders.Memory` of all events."""
    fields = attrgetter(*(column.field for column in columns_of(Delivery)))
    deliveries = [(round_.index, *fields(delivery)) for round_ in rounds for delivery in round_.deliveries]
    columns = ["kind", "time_s", "round", "user", "node", "value", "detail", "traffic"]
    return Tables(
        pd.DataFrame(to_arrays(Round, rounds)),
        pd.DataFrame(deliveries, columns=[name for name in SCHEMAS["deliveries"].names if name != "replica"]),
        pd.DataFrame(zip(*zip(*log.rows, strict=True), log.traffic, strict=True), columns=columns),
        pd.DataFrame(log.spendings),
        log.final_values,
        pd.DataFrame(log.attempts_by_user),
        pd.concat([pd.DataFrame(part) for part in log.attempts] or [pd.DataFrame(columns=SCHEMAS["attempts"].names)]),
    )


def check_run(run, scenario):
    """Check a finished run of *scenario* that recorded all events and attempts."""
    for replica in range(scenario.replicas):
        rounds, deliveries, events, energy, users, attempts = (
            table if table.empty else table[table["replica"] == replica].reset_index(drop=True)
            for table in (run.rounds, run.deliveries, run.table("events"), run.energy, run.users, run.attempts)
        )
        events = events.assign(**{name: events[name].astype(str) for name in ("kind", "node", "detail", "traffic")})
        metrics = run.final_metrics_of([replica])[0]
        access = scenario.access.model_dump(mode="json") if kind_of(type(scenario.access)) == "network" else None
        tables = Tables(rounds, deliveries, events, energy, metrics, users, attempts)
        check_tables(tables, scenario.users, scenario.steps, access, scenario.warmup)


def check_tables(tables, users, count, network, warmup_s=0.0):
    """Check one replica of *count* rounds or windows; *network* is the access section, ``None`` if it is direct."""
    rounds, deliveries, events, energy, metrics, *_ = tables
    check_rounds(rounds, deliveries, count)
    check_deliveries(rounds, deliveries, users)
    check_final_metrics(metrics, rounds)
    check_event_times(events, rounds)
    if network is None or network["round"] is not None:
        check_delivered_events(events, deliveries)
    if network is not None:
        check_outages(events, network)
        check_attempts(tables, warmup_s)
        if not energy.empty:
            check_energy(energy, rounds, metrics)
            check_batteries(energy, network, float(rounds["closed_s"].iloc[-1]))
            if not warmup_s:
                check_sending_energy(tables, network)
        if network["round"] is not None:
            check_outcomes(events, energy)
            check_bits(events, rounds)
            check_sums(tables, network)


def check_rounds(rounds, deliveries, count):
    """Rounds are numbered without gaps, do not overlap, and count their deliveries."""
    assert rounds["round"].tolist() == [*range(1, count + 1)]
    opened_s, closed_s = rounds["opened_s"].to_numpy(), rounds["closed_s"].to_numpy()
    assert np.isfinite([opened_s, closed_s]).all()
    assert (closed_s >= opened_s).all()
    assert (opened_s[1:] >= closed_s[:-1]).all()
    assert (
        rounds["delivered"].tolist()
        == deliveries["round"].value_counts().reindex(rounds["round"], fill_value=0).tolist()
    )
    assert (rounds[["uplink_bits", "downlink_bits"]] >= 0).all(axis=None)
    assert (rounds["oldest"] >= 0).all()
    assert (rounds["oldest"] <= rounds["round"]).all()


def check_deliveries(rounds, deliveries, users):
    """Deliveries have a valid user, base version and order in time."""
    if deliveries.empty:
        return
    opened_s, closed_s, oldest = (rounds[name].to_numpy() for name in ("opened_s", "closed_s", "oldest"))
    index, base = deliveries["round"].to_numpy(), deliveries["base"].to_numpy()
    assert deliveries["user"].between(0, users - 1).all()
    assert (np.diff(index) >= 0).all()
    assert (base >= 0).all()
    assert (base < index).all()
    assert (base >= np.append(0, np.maximum.accumulate(oldest))[index - 1]).all()
    assert (deliveries["sent_s"] >= opened_s[base]).all()
    assert (deliveries["arrived_s"] >= deliveries["sent_s"]).all()
    called_s = np.minimum(opened_s, np.append(0.0, closed_s[:-1]))  # users may answer a call before a round
    assert (deliveries["arrived_s"] >= called_s[index - 1]).all()
    assert (deliveries["arrived_s"] <= closed_s[index - 1]).all()
    assert (np.diff(deliveries["arrived_s"])[np.diff(index) == 0] >= 0).all(), "in the order of arrival"
    assert (deliveries["attempts"] >= 1).all()
    participation = deliveries["user"].value_counts() / len(deliveries)
    assert participation.sum() == pytest.approx(1.0)


def check_final_metrics(metrics, rounds):
    """Shares lie in [0, 1], quantiles are ordered, and the shares of outcomes sum to 1."""
    assert not np.isinf([*metrics.values()]).any()
    for name, value in metrics.items():
        if name.startswith("utilisation."):
            assert np.isnan(value) or 0 <= value <= 1, name
        if name.startswith("share.") or name.endswith(("_probability", "_ratio")):
            assert np.isnan(value) or -SLACK <= value <= 1 + SLACK, name
        if name.endswith("jain"):
            assert np.isnan(value) or 0 < value <= 1 + SLACK
    shares = [value for name, value in metrics.items() if name.startswith("share.") and not np.isnan(value)]
    assert not shares or sum(shares) == pytest.approx(1.0)
    p50, p95, p99 = (metrics.get(f"delay_p{share}_s", np.nan) for share in (50, 95, 99))
    assert np.isnan(p50) or 0 <= p50 <= p95 <= p99
    for name in ("uplink_bits", "downlink_bits"):
        assert metrics.get(name, rounds[name].sum()) == pytest.approx(rounds[name].sum())


def check_energy(energy, rounds, metrics):
    """Energy adds up by cause, by user and by round."""
    names = ["train_J", "evaluate_J", "send_J", "receive_J", "idle_J"]
    parts = energy[[name for name in names if name in energy]]
    assert (parts >= 0).all(axis=None)
    assert energy["energy_J"].to_numpy() == pytest.approx(parts.sum(axis=1).to_numpy())
    if "waiting_state_s" in energy:
        states = ["computing", "evaluating", "receiving", "sending", "down", "waiting"]
        times_s = energy[[f"{name}_state_s" for name in states]]
        end_s = float(rounds["closed_s"].iloc[-1])
        assert (times_s >= -SLACK * end_s).all(axis=None)
        total_s = times_s.sum(axis=1) - energy["overlap_s"]
        assert total_s.to_numpy() == pytest.approx(np.full(len(energy), end_s)), "states do not add up to the run"
    assert (energy["trained"] <= energy["begun"] * (1 + SLACK)).all()
    total, by_round = energy["energy_J"].sum(), rounds["energy_J"].dropna().to_numpy(float)
    assert metrics["energy_J"] == pytest.approx(total)
    assert (np.diff(by_round) >= -SLACK * by_round[1:]).all()
    assert not by_round.size or by_round[-1] == pytest.approx(total)


def check_sending_energy(tables, access):
    """Joules of sending are power times airtime, at the power that was sent; without batteries and device classes."""
    costs = access["energy"]
    power_dbm = (access["radio"] or {}).get("power")
    attempts = tables.attempts
    if attempts.empty or access["outages"] or costs["efficiency"] is None or not isinstance(power_dbm, float):
        return
    watts = 10.0 ** ((power_dbm - 30.0) / 10.0) / costs["efficiency"]
    joules = watts * attempts["airtime_s"] * 10.0 ** (attempts["power_db"] / 10.0)
    sums = np.bincount(attempts["user"], joules, minlength=len(tables.energy))
    assert tables.energy["send_J"].to_numpy() == pytest.approx(sums, rel=1e-6, abs=1e-12)


def check_sums(tables, access):
    """Updates that a sum in the air holds count together, and no version has two sums."""
    interference = access["interference"]
    if interference["kind"] != "over_the_air" or tables.deliveries.empty:
        return
    of_version = tables.deliveries.groupby("base")
    assert (of_version["round"].nunique() == 1).all()
    assert (of_version["arrived_s"].nunique() == 1).all()
    counted = of_version.size()
    received = tables.attempts[tables.attempts["outcome"] == "received"].groupby("base").size()
    assert counted.tolist() == received.reindex(counted.index).tolist(), "a sum was torn"


def check_event_times(events, rounds):
    """Each event lies within its round, up to rounding, or while users answer the call before it.

    A station may decide on a sending of the next window.
    """
    called_s = np.append(0.0, rounds["closed_s"].to_numpy()[:-1])
    index = events["round"].to_numpy(np.int64) - 1  # a table without events has no types
    time_s = events["time_s"].to_numpy(np.float64)
    slack_s = SLACK * time_s
    is_ahead = (events["kind"] == "sent").to_numpy() & (events["traffic"] != "").to_numpy()
    wrong = (time_s < called_s[index] - slack_s) | (
        (time_s > rounds["closed_s"].to_numpy()[index] + slack_s) & ~is_ahead
    )
    assert not wrong.any(), events[wrong]


def check_delivered_events(events, deliveries):
    """The events of kind `delivered` are exactly the deliveries."""
    delivered = events[events["kind"] == "delivered"][["round", "user", "time_s"]]
    rows = deliveries[["round", "user", "arrived_s"]]
    assert sorted(delivered.itertuples(index=False, name=None)) == sorted(rows.itertuples(index=False, name=None))


def check_outcomes(events, energy):
    """Each update has one outcome, starts from a version that its user has received, and is trained or not."""
    ordered = events[events["kind"].isin(ORDERED_KINDS)]
    opened_s = ordered["round"].map(ordered[ordered["kind"] == "broadcast"].groupby("round")["time_s"].min())
    came_during_call = ordered["kind"].isin(["delivered", "late"]) & (ordered["time_s"] < opened_s)  # judged later
    time_s = ordered[~came_during_call]["time_s"].to_numpy(np.float64)
    assert (np.diff(time_s) >= -SLACK * time_s[1:]).all()  # one instant may be computed by two ways
    based = events[events["kind"].isin((*OUTCOMES, "received", "trained", "queued"))]
    assert (based["value"] >= 0).all()
    assert (based["value"] < based["round"]).all()
    received, trained, outcomes = (
        based[based["kind"].isin(kinds)].groupby(["user", "value"]).size()
        for kinds in (["received"], ["trained"], OUTCOMES)
    )
    assert set(outcomes.index) <= set(received.index)
    assert (trained <= outcomes.reindex(trained.index, fill_value=0)).all()
    if not energy.empty:
        trainings = based[based["kind"].isin(OUTCOMES) & (based["kind"] != "not_trained")]
        counts = trainings.groupby("user").size().reindex(energy["user"], fill_value=0)
        assert energy["begun"].tolist() == counts.tolist()


def check_attempts(tables, warmup_s=0.0):
    """The attempts of the table, of the users and of the summary agree, and so do the events; after the warm-up."""
    attempts, users, events, metrics = tables.attempts, tables.users, tables.events, tables.metrics
    if "attempts" not in metrics:  # no user sends
        assert attempts.empty
        return
    since_s = before_rounding(warmup_s)
    counted = attempts[attempts["end_s"] >= since_s]
    failed = events[(events["kind"] == "failed") & (events["time_s"] >= since_s)]
    assert len(attempts) == (events["kind"] == "sent").sum()
    assert ("attempts_busy" in users) or not (attempts["outcome"] == "busy").any()
    assert ("attempts_jammed" in users) or not (attempts["outcome"] == "jammed").any()
    causes = [cause for cause in (*CAUSES, "busy", "jammed") if f"attempts_{cause}" in users]
    for outcome in ("received", *causes):
        rows = counted[counted["outcome"] == outcome]
        assert metrics[f"attempts.{outcome}"] == users[f"attempts_{outcome}"].sum() == len(rows), outcome
        assert users[f"attempts_{outcome}"].tolist() == np.bincount(rows["user"], minlength=len(users)).tolist()
        assert outcome == "received" or len(rows) == (failed["detail"] == outcome).sum(), outcome
    ended = counted[counted["outcome"] != "unfinished"]
    assert metrics["attempts"] == users["attempts"].sum() == len(ended)
    assert metrics["collision_probability"] == (ended["outcome"] == "collided").sum() / max(len(ended), 1)
    assert (attempts["end_s"] >= attempts["start_s"]).all()
    assert (attempts["airtime_s"] <= (attempts["end_s"] - attempts["start_s"]) * (1 + SLACK) + SLACK).all()


def check_bits(events, rounds):
    """The uplink bits of a round are those of its attempts."""
    sent = events[events["kind"] == "sent"]
    attempted = sent.groupby("round")["value"].sum().reindex(rounds["round"], fill_value=0.0).to_numpy()
    assert rounds["uplink_bits"].to_numpy() == pytest.approx(attempted, rel=SLACK)


def check_outages(events, access):
    """Outages alternate between down and up, and no attempt begins while its user or tower is down.

    Batteries are left out: one may restart and be empty again in the same instant, without an event.
    """
    ends_s = defaultdict(list)
    changes = events[events["kind"].isin(("up", "down"))].sort_values("time_s", kind="stable")
    for kind, time_s, user, node in changes[["kind", "time_s", "user", "node"]].itertuples(index=False):
        times_s = ends_s[node if user < 0 else user]
        assert len(times_s) % 2 == (kind == "up")
        times_s.append(time_s)
    if not ends_s or any(outage["kind"] == "battery" for outage in access["outages"]):
        return
    exempt = (access.get("exempt") or {}).get("outage") or ()
    sent = events[(events["kind"] == "sent") & ~events["user"].isin(list(exempt))]
    senders = ("user", "node") if access.get("receivers", "own") == "own" else ("user",)  # or another tower hears them
    for column in senders:
        for label, sent_s in sent.groupby(column)["time_s"]:
            before, during = (
                np.searchsorted(ends_s.get(label, []), sent_s, side=side) % 2 for side in ("left", "right")
            )
            assert not (before & during).any(), f"{label} sends while it is down"


def check_batteries(energy, access, end_s):
    """No user has spent more energy than its battery held and its source supplied.

    The supply is an upper bound: a solar panel has its peak power at all times, and a period brings a portion.
    """
    exempt = (access["exempt"] or {}).get("outage", ())
    for battery in (outage for outage in access["outages"] if outage["kind"] == "battery"):
        source = battery["charger"] or battery["solar"] or {}
        supply_w = source.get("power", source.get("peak", 0.0))
        if source.get("kind") == "poisson":
            continue  # the energy of Poisson arrivals has no bound
        if source.get("kind") == "bernoulli":
            supply_w = source["energy"] / source["period"]
        held_j = battery["initial"][1] * battery["capacity"]
        owners = energy[~energy["user"].isin([*exempt])]
        if isinstance(battery["nodes"], list):  # each battery is that of its own users
            owners = owners[owners["user"].isin(battery["nodes"])]
        excess = owners["energy_J"] > (held_j + supply_w * end_s) * (1 + SLACK)
        assert not excess.any(), f"energy out of nothing: {owners[excess].head()}"


class Watch:
    """Checks the parts of a network while they work.

    Attributes:
        finished: number of simulations that ended.
        messages: number of messages that entered a port.
        place: the port that each message is in, or on whose link it is.
        airtimes_s: start and end of each received frame, by cell and channel.
        on_link: messages that have been sent, and propagate or are sent beside a queue.
        bits: bits of frames that were launched, and that ended by being received or not, by cell.
    """

    def __init__(self):
        self.finished = self.messages = 0
        self.place, self.airtimes_s, self.on_link = {}, defaultdict(list), set()
        self.on_server_link = set()
        self.bits = defaultdict(Counter)

    def enters(self, port, message):
        """Record that a message entered a port. It must be in no other."""
        assert message not in self.place, "the message is still in another port"
        self.place[message] = port
        self.messages += 1

    def leaves(self, port, message):
        """Record that a message left its port."""
        self.on_link.discard(message)
        assert self.place.pop(message) is port

    def ends(self, simulator):
        """Check the ports at the end of a simulation: their contents match the recorded messages."""
        now_s = simulator.env.now
        for port, count in Counter(self.place.values()).items():
            on_link = sum(self.place[message] is port for message in self.on_link)
            assert port.length + on_link == count, "a message is neither in nor out"
        for busy_s in simulator._links_busy_s(now_s).values():
            assert -SLACK * now_s <= busy_s <= now_s * (1 + SLACK)
        for spans_s in self.airtimes_s.values():
            for (_, end_s), (begin_s, _) in pairwise(sorted(spans_s)):
                assert begin_s >= end_s * (1 - SLACK), "two frames were received at the same time"
        for path, bits in self.bits.items():
            under_way = sum(_bits_of(transmission) for transmission in path.transmissions)
            ended = bits["received"] + bits["failed"]
            assert bits["sent"] == pytest.approx(ended + under_way), "bits are neither received, failed nor under way"
            assert path.busy_by_s(now_s) <= now_s * (1 + SLACK), "the air is busy for longer than the run"
        self.finished += 1
        for kept in (self.bits, self.on_link):
            kept.clear()
        self.place.clear()
        self.on_server_link.clear()
        self.airtimes_s.clear()


def _bits_of(transmission):
    """Return the bits of the frames of a transmission."""
    return float(np.broadcast_to(transmission.frames.bits, len(transmission.ids)).sum())


def _check_band(cell):
    """Check that frames on the air have the band at most once, and no part of it twice."""
    assert cell.shares_on_air().sum() <= 1 + SLACK, "users have more than the band"
    placed = [each.spectrum for each in cell.transmissions if each.spectrum is not None]
    for first, second in combinations(placed, 2):
        assert not first.overlap(second).any(), "frames of one cell have a part of the band in common"
    for spectrum in placed:
        assert not (spectrum.overlap(spectrum) * ~np.eye(spectrum.count, dtype=bool)).any()


@contextmanager
def watched():  # noqa: PLR0915 - one patch after the other
    """Check all networks that run inside this context; yield the `Watch`."""
    watch, originals = Watch(), []

    def patched(kind, name):
        def put(replacement):
            old = getattr(kind, name)
            originals.append((kind, name, old))
            setattr(kind, name, replacement(old))
            return replacement

        return put

    @patched(OutputPort, "__init__")
    def _(old):
        def init(port, *parts):
            def leave(message):
                watch.leaves(port, message)
                onward(message)

            *parts, onward = parts
            old(port, *parts, leave)

        return init

    @patched(OutputPort, "enter")
    def _(old):
        def enter(port, message, *, may_tie=True):
            if may_tie:  # else it entered before, and waited for the end of the instant
                watch.enters(port, message)
            old(port, message, may_tie=may_tie)

        return enter

    @patched(OutputPort, "_end")
    def _(old):
        def end(port, message, *more):
            watch.leaves(port, message)
            old(port, message, *more)

        return end

    @patched(BypassPort, "_send_beside")
    @patched(BypassPort, "_propagate")
    @patched(OutputPort, "_propagate")
    def put_on_link(old):
        def put(port, message, *more):
            watch.on_link.add(message)
            old(port, message, *more)

        return put

    @patched(Cell, "repeat")
    @patched(Cell, "attempt")
    def put_on_air(old):
        def attempt(cell, *arguments, **options):
            before = set(cell.transmissions)
            event = old(cell, *arguments, **options)
            for transmission in set(cell.transmissions) - before:
                watch.bits[cell.transmit_path]["sent"] += _bits_of(transmission)
            _check_band(cell)
            return event

        return attempt

    @patched(FifoBuffer, "push")
    def _(old):
        def push(queue, message, time_s):
            taken = old(queue, message, time_s)
            assert len(queue) <= queue._capacity
            assert queue._capacity_bits == np.inf or sum(
                queued.bits for queued in queue.waiting
            ) <= queue._capacity_bits * (1 + SLACK)
            return taken

        return push

    @patched(TransmitPath, "_settle")
    def _(old):
        def settle(path, flight, *more):  # of frames in several slots, too
            old(path, flight, *more)
            each = np.broadcast_to(flight.frames.bits, len(flight.ids))
            is_received = more[-1].value[list(flight.places)]
            watch.bits[path]["received"] += float(each[is_received].sum())
            watch.bits[path]["failed"] += float(each[~is_received].sum())

        return settle

    @patched(TransmitPath, "request")
    def _(old):
        def request(path, group, bits, limit):
            """Count the frame behind a request that fails, which then counts as an attempt of it."""
            event = old(path, group, bits, limit)
            transmission = next(reversed(path.transmissions))
            watch.bits[path]["sent"] += _bits_of(transmission)

            def end(event):
                watch.bits[path]["sent"] += _bits_of(transmission) - bits
                if transmission.frames.is_duplicate:  # nothing but the request was sent
                    watch.bits[path]["sent"] -= bits

            event.callbacks.append(end)
            return event

        return request

    @patched(TransmitPath, "_end_transmission")
    def _(old):
        def land(path, flight, event):
            old(path, flight, event)
            medium, received = path._medium, event.value[list(flight.places)]
            interference = getattr(medium, "_interference", None)
            alone = interference is None or interference.loses_all
            if alone and flight.share is None and received.any():
                assert np.count_nonzero(received) == 1
                watch.airtimes_s[path._channel, flight.channel].append((flight.start_s, flight.end_s))

        return land

    @patched(ServerUplink, "take")
    def _(old):
        def take(uplink, message, **options):
            watch.on_server_link.add(message)
            old(uplink, message, **options)

        return take

    @patched(ServerUplink, "_arrive")
    def _(old):
        def arrive(uplink, transfer):
            watch.on_server_link.remove(uplink._crossing[transfer].message)
            old(uplink, transfer)

        return arrive

    @patched(NetworkSimulator, "_finish")
    def _(old):
        def finish(simulator, now_s):
            arrivals = (
                simulator._server._arrived if simulator._server else []
            )  # for the next round, which does not come
            in_flight = set(simulator._outstanding.in_flight) - {arrival.update for arrival in arrivals}
            carriers = watch.place.keys() | watch.on_server_link
            places = {update for carrier in carriers for update in getattr(carrier, "updates", (carrier,))}
            assert in_flight <= places, "an update off the air is in a port or on the link of the server"
            old(simulator, now_s)
            assert not simulator._outstanding.in_flight
            assert not simulator._outstanding.open_updates, "every update has ended"
            watch.ends(simulator)

        return finish

    try:
        yield watch
    finally:
        for kind, name, old in reversed(originals):
            setattr(kind, name, old)
