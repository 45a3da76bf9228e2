"""What holds of every run, whatever its scenario: of its tables, and, within `watched`, of its network at work."""

from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import astuple
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from netfl.network.backhaul.port import OutputPort
from netfl.network.queue import FifoBuffer
from netfl.network.radio.cell import Cell
from netfl.network.simulator import NetworkSimulator
from netfl.registry import kind_of
from netfl.results.tables import SCHEMAS
from netfl.types import OUTCOMES

SLACK = 1e-9
"""Of a time, or a sum, in relation to itself."""
AT_ONCE = (*(set(OUTCOMES) - {"superseded"}), "broadcast", "sent", "failed", "forwarded")
"""Kinds of events that are recorded the moment they come about, in rounds; the others may be told later."""


class Tables(NamedTuple):
    """What one replica has left behind."""

    rounds: pd.DataFrame
    heard: pd.DataFrame
    events: pd.DataFrame
    spent: pd.DataFrame
    figures: dict[str, float]


def of_memory(rounds, log):
    """The tables that rounds and a `recorders.Memory` of all events come to."""
    numbers = [(one.index, one.opened_s, one.closed_s, len(one.deliveries), one.oldest, one.uplink_bits,
                one.downlink_bits, one.energy_j) for one in rounds]  # fmt: skip
    heard = [(one.index, *astuple(each)) for one in rounds for each in one.deliveries]
    columns = ["kind", "time_s", "round", "user", "node", "value", "detail"]
    return Tables(
        pd.DataFrame(numbers, columns=[name for name in SCHEMAS["rounds"].names if name != "replica"]),
        pd.DataFrame(heard, columns=[name for name in SCHEMAS["deliveries"].names if name != "replica"]),
        pd.DataFrame(log.rows, columns=columns),
        pd.DataFrame(log.spendings),
        log.told,
    )


def hold(run, scenario):
    """All that holds of a run of *scenario* that is done and has all events on record."""
    for replica in range(scenario.replicas):
        rounds, heard, events, spent = (
            table if table.empty else table[table["replica"] == replica].reset_index(drop=True)
            for table in (run.rounds, run.deliveries, run.table("events"), run.energy)
        )
        events = events.assign(**{name: events[name].astype(str) for name in ("kind", "node", "detail")})
        figures = run.final_metrics_of([replica])[0]
        access = scenario.access.model_dump(mode="json") if kind_of(type(scenario.access)) == "network" else None
        hold_tables(Tables(rounds, heard, events, spent, figures), scenario.users, scenario.steps, access)


def hold_tables(tables, users, count, network):
    """All that holds of one replica of so many rounds, or windows; *network* is what its scenario says of one."""
    rounds, heard, events, spent, figures = tables
    rounds_are_whole(rounds, heard, count)
    deliveries_are_possible(rounds, heard, users)
    figures_are_possible(figures, rounds)
    events_are_in_time(events, rounds)
    if network is None or network["round"] is not None:
        deliveries_are_told(events, heard)
    if network is not None:
        who_sends_is_up(events, network)
        if not spent.empty:
            joules_add_up(spent, rounds, figures)
        if network["round"] is not None:
            updates_end_once(events, spent)
            bits_add_up(events, rounds, mixed=bool(network["traffic"]))


def rounds_are_whole(rounds, heard, count):
    """Numbered without a gap, one after the other; each counts its deliveries."""
    assert rounds["round"].tolist() == [*range(1, count + 1)]
    opened_s, closed_s = rounds["opened_s"].to_numpy(), rounds["closed_s"].to_numpy()
    assert np.isfinite([opened_s, closed_s]).all()
    assert (closed_s >= opened_s).all()
    assert (opened_s[1:] >= closed_s[:-1]).all()
    assert rounds["delivered"].tolist() == heard["round"].value_counts().reindex(rounds["round"], fill_value=0).tolist()
    assert (rounds[["uplink_bits", "downlink_bits"]] >= 0).all(axis=None)
    assert (rounds["oldest"] >= 0).all()
    assert (rounds["oldest"] <= rounds["round"]).all()


def deliveries_are_possible(rounds, heard, users):
    """From users that there are, from versions that were sent and may still be started from, and not back in time."""
    if heard.empty:
        return
    opened_s, closed_s, oldest = (rounds[name].to_numpy() for name in ("opened_s", "closed_s", "oldest"))
    own, base = heard["round"].to_numpy(), heard["base"].to_numpy()
    assert heard["user"].between(0, users - 1).all()
    assert (np.diff(own) >= 0).all()
    assert (base >= 0).all()
    assert (base < own).all()
    assert (base >= np.append(0, np.maximum.accumulate(oldest))[own - 1]).all()
    assert (heard["sent_s"] >= opened_s[base]).all()
    assert (heard["arrived_s"] >= heard["sent_s"]).all()
    assert (heard["arrived_s"] >= opened_s[own - 1]).all()
    assert (heard["arrived_s"] <= closed_s[own - 1]).all()
    assert (np.diff(heard["arrived_s"])[np.diff(own) == 0] >= 0).all(), "in the order of arrival"
    assert (heard["attempts"] >= 1).all()
    shares = heard["user"].value_counts() / len(heard)
    assert shares.sum() == pytest.approx(1.0)


def figures_are_possible(figures, rounds):
    """Shares are shares, quantiles in order, and all updates of some outcome."""
    assert not np.isinf([*figures.values()]).any()
    for name, value in figures.items():
        if name.startswith(("utilisation.", "share.")) or name.endswith(("_probability", "_ratio")):
            assert np.isnan(value) or -SLACK <= value <= 1 + SLACK, name
        if name.endswith("jain"):
            assert np.isnan(value) or 0 < value <= 1 + SLACK
    shares = [value for name, value in figures.items() if name.startswith("share.") and not np.isnan(value)]
    assert not shares or sum(shares) == pytest.approx(1.0)
    p50, p95, p99 = (figures.get(f"delay_p{share}_s", np.nan) for share in (50, 95, 99))
    assert np.isnan(p50) or 0 <= p50 <= p95 <= p99
    for name in ("uplink_bits", "downlink_bits"):
        assert figures.get(name, rounds[name].sum()) == pytest.approx(rounds[name].sum())


def joules_add_up(spent, rounds, figures):
    """By cause, by user and by round; nobody is on the air for longer than there is time."""
    parts = spent[["train_J", "send_J", "receive_J", "idle_J"]]
    assert (parts >= 0).all(axis=None)
    assert spent["energy_J"].to_numpy() == pytest.approx(parts.sum(axis=1).to_numpy())
    assert (spent["trained"] <= spent["begun"] * (1 + SLACK)).all()
    total, by_round = spent["energy_J"].sum(), rounds["energy_J"].dropna().to_numpy(float)
    assert figures["energy_J"] == pytest.approx(total)
    assert (np.diff(by_round) >= -SLACK * by_round[1:]).all()
    assert not by_round.size or by_round[-1] == pytest.approx(total)


def events_are_in_time(events, rounds):
    """Each within its round, but for rounding."""
    own, time_s = events["round"].to_numpy() - 1, events["time_s"].to_numpy()
    slack_s = SLACK * time_s
    wrong = (time_s < rounds["opened_s"].to_numpy()[own] - slack_s) | (
        time_s > rounds["closed_s"].to_numpy()[own] + slack_s
    )
    assert not wrong.any(), events[wrong]


def deliveries_are_told(events, heard):
    """Whatever counted, and nothing else, is recorded as delivered."""
    told = events[events["kind"] == "delivered"][["round", "user", "time_s"]]
    rows = heard[["round", "user", "arrived_s"]]
    assert sorted(told.itertuples(index=False, name=None)) == sorted(rows.itertuples(index=False, name=None))


def updates_end_once(events, spent):
    """Every update of a network has one outcome; none begins from a version that is not there yet, or not received."""
    assert (np.diff(events[events["kind"].isin(AT_ONCE)]["time_s"]) >= 0).all()
    based = events[events["kind"].isin((*OUTCOMES, "received", "trained", "queued"))]
    assert (based["value"] >= 0).all()
    assert (based["value"] < based["round"]).all()
    received, trained, outcomes = (
        based[based["kind"].isin(kinds)].groupby(["user", "value"]).size()
        for kinds in (["received"], ["trained"], OUTCOMES)
    )
    assert set(outcomes.index) <= set(received.index)
    assert (trained <= outcomes.reindex(trained.index, fill_value=0)).all()
    if not spent.empty:
        ended = outcomes.groupby("user").sum().reindex(spent["user"], fill_value=0)
        assert spent["begun"].tolist() == ended.tolist()


def bits_add_up(events, rounds, *, mixed):
    """The bits of a round are those of its attempts, and of traffic where that is *mixed* with them."""
    sent = events[events["kind"] == "sent"]
    if sent.empty:
        return
    each = sent.groupby("round")["value"].sum().reindex(rounds["round"], fill_value=0.0).to_numpy()
    left = rounds["uplink_bits"].to_numpy() - each
    assert (left >= -SLACK * each).all()
    assert mixed or (left <= SLACK * each).all()


def who_sends_is_up(events, access):
    """Each goes down and comes up in turn, and no attempt begins while its user or its tower is down.

    A battery may bring its user up and be emptied by what that sends in one instant, of which no event tells.
    """
    ends_s = defaultdict(list)
    changes = events[events["kind"].isin(("up", "down"))].sort_values("time_s", kind="stable")
    for kind, time_s, user, node in changes[["kind", "time_s", "user", "node"]].itertuples(index=False):
        known = ends_s[node if user < 0 else user]
        assert len(known) % 2 == (kind == "up")
        known.append(time_s)
    if not ends_s or any(one["kind"] == "battery" for one in access["outages"]):
        return
    spared = (access.get("spare") or {}).get("outage") or ()
    sent = events[(events["kind"] == "sent") & ~events["user"].isin(list(spared))]
    for place in ("user", "node"):
        for one, times_s in sent.groupby(place)["time_s"]:
            before, by = (np.searchsorted(ends_s.get(one, []), times_s, side=side) % 2 for side in ("left", "right"))
            assert not (before & by).any(), f"{one} sends while it is down"


class Watch:
    """What a network's parts have done, looked at as they do it.

    Attributes:
        worlds: how many were played to their end.
        messages: how many entered a port.
        place: the port where each message is that is in one or on its wire.
        airtimes_s: of each air and channel, when what was received there began and ended.
    """

    def __init__(self):
        self.worlds = self.messages = 0
        self.place, self.airtimes_s = {}, defaultdict(list)

    def enters(self, port, message):
        """A message is in one place at a time."""
        assert message not in self.place, "it is somewhere else still"
        self.place[message] = port
        self.messages += 1

    def leaves(self, port, message):
        """It was there."""
        assert self.place.pop(message) is port

    def ends(self, world):
        """A run has ended: each port holds what has come to it and has not left."""
        now_s = world._env.now
        for port, held in Counter(self.place.values()).items():
            assert len(port._buffer) + (port._sending is not None) <= held
        for busy_s in world._links_busy_s(now_s).values():
            assert -SLACK * now_s <= busy_s <= now_s * (1 + SLACK)
        for spans_s in self.airtimes_s.values():
            for (_, end_s), (begin_s, _) in pairwise(sorted(spans_s)):
                assert begin_s >= end_s * (1 - SLACK), "two were received at a time"
        self.worlds += 1
        self.place.clear()
        self.airtimes_s.clear()


@contextmanager
def watched():
    """Everything that networks do meanwhile is looked at: a `RunObserver`."""
    watch, olds = Watch(), []

    def around(kind, name):
        def put(made):
            old = getattr(kind, name)
            olds.append((kind, name, old))
            setattr(kind, name, made(old))

        return put

    @around(OutputPort, "__init__")
    def _(old):
        def made(port, context, link, buffer, onward):
            def past(message):
                watch.leaves(port, message)
                onward(message)

            old(port, context, link, buffer, past)

        return made

    @around(OutputPort, "enter")
    def _(old):
        def enter(port, message):
            watch.enters(port, message)
            old(port, message)

        return enter

    @around(OutputPort, "_end")
    def _(old):
        def end(port, message, *told):
            watch.leaves(port, message)
            old(port, message, *told)

        return end

    @around(FifoBuffer, "push")
    def _(old):
        def push(row, message, time_s):
            taken = old(row, message, time_s)
            assert len(row) <= row._capacity
            assert row._capacity_bits == np.inf or sum(one.bits for one in row.waiting) <= row._capacity_bits * (
                1 + SLACK
            )
            return taken

        return push

    @around(Cell, "_end_transmission")
    def _(old):
        def land(cell, flight, event):
            old(cell, flight, event)
            medium, heard = cell._medium, event.value[list(flight.places)]
            alone = getattr(medium, "_capture_db", None) is None and not getattr(medium, "_sinr", False)
            if alone and heard.any():
                assert np.count_nonzero(heard) == 1
                watch.airtimes_s[cell._channel, flight.channel].append((flight.start_s, flight.end_s))

        return land

    @around(NetworkSimulator, "_finish")
    def _(old):
        def finish(world, now_s):
            assert set(world._log.in_flight) <= watch.place.keys(), "what is behind the air is in a port"
            old(world, now_s)
            assert not world._log.in_flight
            assert not world._outstanding.open_updates, "what has begun has ended"
            watch.ends(world)

        return finish

    try:
        yield watch
    finally:
        for kind, name, old in reversed(olds):
            setattr(kind, name, old)
