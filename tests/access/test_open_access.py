"""`Access.open`: a caller takes rounds without `netfl.run`, and gets those of a trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.small_network import PLAIN

import netfl
from netfl.access import Access
from netfl.access._open_network import OpenNetwork
from netfl.errors import ModelError
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, NullRecorder, Round, RoundControls

USERS, ROUNDS, SEED = 5, 12, 3
CLOSES_EARLY = {"round": {"kind": "first", "m": 2}}
ACCESSES = {
    "network": {"kind": "network", **PLAIN, **CLOSES_EARLY, "mac": {"kind": "slotted_aloha", "probability": 0.3}},
    "bernoulli": {"kind": "bernoulli", "probability": 0.5},
    "adversarial": {"kind": "adversarial", "inner": {"kind": "bernoulli", "probability": 0.9}, "users": [1]},
    "stationary": {"kind": "stationary", "rho": {"zipf": 1.0}},
}


class Outcomes(NullRecorder):
    """A recorder that keeps the outcomes of updates and the metrics of the replica."""

    def __init__(self):
        self.ended = Counter()
        self.metrics = {}

    def wants(self, kind):
        return kind in OUTCOMES

    def record(self, event):
        if event.kind in OUTCOMES:
            for at_s, number in np.broadcast(event.time_s, event.user):
                self.ended[event.kind, float(at_s), int(number)] += 1

    def final_metrics(self, values):
        self.metrics = dict(values)


class Failing(Access):
    """An access that fails after one round, and ends after the second if it does not fail."""

    fails: bool = True

    def rounds(self, context):
        yield Round(index=1, opened_s=0.0, closed_s=4.0, deliveries=(), oldest=1)
        if self.fails:
            raise LookupError("nobody there")
        yield Round(index=2, opened_s=4.0, closed_s=5.0, deliveries=(), oldest=2)


def scenario_of(name, **changes):
    settings = {"name": "x", "seed": SEED, "users": USERS, "rounds": ROUNDS, "record": "all", "access": ACCESSES[name]}
    return netfl.load(settings | changes)


def context_of(recorder=None, **changes):
    context = AccessContext(
        users=USERS,
        rounds=ROUNDS,
        replica=0,
        streams=Streams(SEED).at("replica", 0).at("access"),
        samples=np.ones(USERS),
        uplink_bits=0.0,
        downlink_bits=0.0,
        recorder=recorder or NullRecorder(),
    )
    return replace(context, **changes)


def outcomes_of(run):
    """Return the outcomes that a run recorded, and how often each."""
    events = run.events[run.events["kind"].isin(OUTCOMES)]
    return Counter(zip(events["kind"].astype(str), events["time_s"], events["user"], strict=True))


def metrics_of(run):
    return dict(run.table("final_metrics")[["metric", "value"]].itertuples(index=False))


def assert_same_rounds(rounds, run):
    assert [each.closed_s for each in rounds] == run.rounds["closed_s"].tolist()
    assert [each.uplink_bits for each in rounds] == run.rounds["uplink_bits"].tolist()
    columns = ["round", "user", "base", "sent_s", "arrived_s", "attempts"]
    rows = [[r.index, d.user, d.base, d.sent_s, d.arrived_s, d.attempts] for r in rounds for d in r.deliveries]
    assert rows == run.deliveries[columns].to_numpy().tolist()


@pytest.mark.parametrize("name", ACCESSES)
def test_a_caller_gets_the_rounds_outcomes_and_metrics_of_a_trace(name, tmp_path):
    scenario = scenario_of(name)
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    recorder = Outcomes()
    access = scenario.access.open(context_of(recorder))
    assert (access.round, access.time_s, access.last) == (0, 0.0, None)
    rounds = []
    while not access.is_done:
        rounds.append(access.next_round())
        assert (access.round, access.time_s, access.last) == (rounds[-1].index, rounds[-1].closed_s, rounds[-1])
    access.finish()
    assert_same_rounds(rounds, run)
    assert recorder.ended == outcomes_of(run)
    assert bool(recorder.metrics) == (name == "network")
    assert recorder.metrics.items() <= metrics_of(run).items()
    with pytest.raises(ModelError, match=f"{name}, at .* of simulated time: the network ends after round 12 of 12"):
        access.next_round()


def test_a_network_that_finishes_early_accounts_for_all_updates(tmp_path):
    run = netfl.trace(scenario_of("network", rounds=4), tmp_path / "run", progress=False)
    recorder = Outcomes()
    access = scenario_of("network").access.open(context_of(recorder))
    rounds = [access.next_round() for _ in range(4)]
    access.finish()
    assert_same_rounds(rounds, run)
    assert recorder.ended == outcomes_of(run)
    assert any(kind == "unfinished" for kind, *_ in recorder.ended)
    assert recorder.metrics
    assert recorder.metrics.items() <= metrics_of(run).items()


def test_a_simulation_that_finishes_early_accounts_for_all_updates(tmp_path):
    run = netfl.trace(scenario_of("network", rounds=4), tmp_path / "run", progress=False)
    with netfl.Simulation(scenario_of("network")) as simulation:
        for _ in range(4):
            simulation.step()
        simulation.finish()
        tables = simulation.snapshot()
    assert len(tables["rounds"]) == 4
    assert tables["events"]["kind"].value_counts().to_dict() == run.events["kind"].value_counts().to_dict()
    assert "final_metrics" in tables


@pytest.mark.parametrize("name", ["network", "bernoulli"])
def test_an_access_that_is_closed_records_nothing_more(name):
    recorder = Outcomes()
    access = scenario_of(name).access.open(context_of(recorder))
    access.next_round()
    before = recorder.ended.copy()
    access.close()
    assert recorder.ended == before
    assert recorder.metrics == {}
    with pytest.raises(ModelError, match="ends after round 1 of 12"):
        access.next_round()


def test_only_a_network_hands_out_its_simulator():
    assert not isinstance(scenario_of("bernoulli").access.open(context_of()), OpenNetwork)
    access = scenario_of("network").access.open(context_of())
    assert isinstance(access, OpenNetwork)
    assert access.network.state().time_s == 0.0
    result = access.next_round()
    state = access.network.state()
    assert state.time_s == result.closed_s
    assert state.user_up.tolist() == [True] * USERS


@pytest.mark.parametrize("name", ACCESSES)
def test_a_caller_selects_users(name):
    controls = RoundControls(can_select=True)
    access = scenario_of(name).access.open(context_of(controls=controls))
    for selected in ([0, 3], [2], [0, 1, 4], []) * 3:
        controls.selected = np.array(selected, np.int64)
        result = access.next_round()
        assert {delivery.user for delivery in result.deliveries if delivery.base == result.index - 1} <= {*selected}


def test_an_access_states_whether_a_caller_can_select():
    infos = {name: scenario_of(name).access.info for name in ACCESSES}
    assert all(info.has_selection for info in infos.values())
    assert [name for name, info in infos.items() if info.needs_early_selection] == ["stationary"]
    assert not Failing().info.has_selection


def test_an_error_of_an_access_names_it_and_the_time():
    access = Failing().open(context_of())
    access.next_round()
    with pytest.raises(
        ModelError, match=r"Failing, at 4 s of simulated time: .*'rounds' fails: LookupError: nobody there"
    ) as raised:
        access.next_round()
    assert isinstance(raised.value.__cause__, LookupError)
    access = Failing(fails=False).open(context_of())
    access.next_round()
    access.next_round()
    with pytest.raises(ModelError, match="the network ends after round 2 of 12"):
        access.next_round()
    access.finish()
