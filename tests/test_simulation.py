"""`netfl.Simulation`: its rounds equal those of a trace, and a caller may select the users of each round."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import Round

ROOT = Path(__file__).parents[1]
ROUNDS = 60
SHIPPED = {
    "access/stationary": {},
    "access/markov": {},
    "access/adversarial": {},
    "access/drifting": {},
    "access/replay": {},
    "access/real": {},
    "rural_outage": {"partition.by": "distance"},
    "emergent_cyclic": {},
    "emergent_markov": {},
    "emergent_stationary": {},
    "access/correlated": {},
}
"""Shipped scenarios, with overrides for rounds without learning."""


def load(name, **overrides):
    overrides = {"rounds": ROUNDS, "record": "all", **SHIPPED[name], **overrides}
    return netfl.load(ROOT / f"scenarios/{name}.yaml", overrides)


def direct(kind="bernoulli", users=6, rounds=20, **access):
    scenario = {"name": "x", "users": users, "rounds": rounds, "record": "all", "access": {"kind": kind, **access}}
    return validate(ScenarioDocument(scenario, "x"))


def assert_equals_trace(rounds, run, replica):
    """Compare rounds with the tables of a run."""
    table = run.rounds[run.rounds["replica"] == replica]
    assert [round_.index for round_ in rounds] == table["round"].tolist()
    assert [round_.closed_s for round_ in rounds] == table["closed_s"].tolist()
    assert [len(round_.deliveries) for round_ in rounds] == table["delivered"].tolist()
    deliveries = run.deliveries[run.deliveries["replica"] == replica]
    columns = ["user", "base", "sent_s", "arrived_s", "attempts"]
    rows = [[d.user, d.base, d.sent_s, d.arrived_s, d.attempts] for round_ in rounds for d in round_.deliveries]
    assert rows == deliveries[columns].to_numpy().tolist()


def assert_same_events(simulation, run):
    columns = ["time_s", "kind", "user", "node", "round", "value", "detail"]
    first, second = (
        table[columns].astype({"kind": str, "node": str, "detail": str}).sort_values(columns).reset_index(drop=True)
        for table in (simulation.events, run.events[run.events["replica"] == simulation.replica])
    )
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SHIPPED)
def test_steps_equal_rounds_and_events_of_a_trace(name, rounds, tmp_path):
    scenario = load(name, rounds=rounds)
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    replica = scenario.replicas - 1
    with netfl.Simulation(scenario, replica) as simulation:
        assert (simulation.time_s, simulation.round) == (0.0, 0)
        steps = [simulation.step() for _ in range(rounds)]
        assert simulation.is_done
        assert simulation.time_s == steps[-1].closed_s
        simulation.finish()
        assert_same_events(simulation, run)
        pd.testing.assert_frame_equal(
            simulation.users, run.users.query(f"replica == {replica}")[[*simulation.users]].reset_index(drop=True)
        )
    assert_equals_trace(steps, run, replica)


@pytest.mark.parametrize("name", ["access/markov", "emergent_cyclic"])
def test_selecting_all_users_changes_nothing(name):
    scenario = load(name, rounds=20)
    with netfl.Simulation(scenario) as free, netfl.Simulation(scenario) as imposed:
        all_users = np.ones(scenario.users, bool)
        assert [free.step() for _ in range(20)] == [imposed.step(all_users) for _ in range(20)]


@pytest.mark.parametrize("name", ["access/stationary", "access/adversarial", "access/drifting", "rural_outage"])
def test_only_selected_users_take_part(name):
    scenario = load(name, rounds=30)
    even = np.arange(scenario.users) % 2 == 0
    with netfl.Simulation(scenario) as simulation:
        for selected in (even, ~even, np.flatnonzero(even).tolist(), []) * 5:
            round_ = simulation.step(selected)
            allowed = {*np.flatnonzero(selected).tolist()} if isinstance(selected, np.ndarray) else {*selected}
            fresh = {delivery.user for delivery in round_.deliveries if delivery.base == round_.index - 1}
            assert fresh <= allowed
            assert isinstance(round_, Round)
        started = simulation.events.query("kind == 'sent' or kind == 'trained'").sort_values("time_s")
    assert name != "rural_outage" or len(started)


def test_selection_may_stop_and_restart():
    with netfl.Simulation(direct(probability=1.0)) as simulation:
        users = [
            {d.user for d in simulation.step(selected).deliveries} for selected in (None, [4, 1], None, [True] * 6)
        ]
    assert users == [{*range(6)}, {1, 4}, {*range(6)}, {*range(6)}]


def test_selection_of_scenario_continues_if_not_overridden():
    scenario = direct(probability=1.0, selection={"kind": "oldest", "m": 2})
    with netfl.Simulation(scenario) as free:
        selected_users = [{d.user for d in free.step().deliveries} for _ in range(3)]
    with netfl.Simulation(scenario) as simulation:
        assert {d.user for d in simulation.step().deliveries} == selected_users[0]
        assert {d.user for d in simulation.step([5]).deliveries} == {5}
        assert len(simulation.step().deliveries) == 2


def test_only_networks_have_a_layout():
    with netfl.Simulation(load("rural_outage")) as simulation:
        assert simulation.layout.users == simulation.scenario.users == len(simulation.users)
        assert {"x_m", "y_m", "distance_m", "tower"} <= {*simulation.users}
        simulation.step()
        assert {"broadcast", "trained"} <= {*simulation.events["kind"]}
    with netfl.Simulation(direct(probability=0.5)) as simulation:
        assert simulation.layout is None
        assert simulation.users["user"].tolist() == [*range(6)]
        assert simulation.events.empty


def test_invalid_selection_is_reported(tmp_path):
    def model_with_file(scenario, *selections):
        with netfl.Simulation(scenario) as simulation, pytest.raises(ScenarioError) as raised:
            for selected in selections:
                simulation.step(selected)
        return str(raised.value)

    bernoulli = direct(probability=0.5)
    assert "no such users" in model_with_file(bernoulli, [1, 6])
    assert "give 6 booleans, or a list of user numbers" in model_with_file(bernoulli, [True] * 5)
    assert "give 6 booleans, or a list of user numbers" in model_with_file(bernoulli, [0.5])
    one = direct("stationary", rho={"zipf": 1.0})
    assert "give step() a selection from the first round on" in model_with_file(one, None, [1])
    run = netfl.trace(bernoulli, tmp_path / "run")
    for selections in ([[1]], [None, [1]]):
        assert "call step() without `selected`" in model_with_file(direct("replay", run=str(run.folder)), *selections)
    assert "all 20 rounds are done" in model_with_file(bernoulli, *[None] * 21)
    with pytest.raises(ScenarioError, match="use a replica from 0 to 0"):
        netfl.Simulation(bernoulli, 1)


def test_access_that_needs_learners_is_rejected():
    with pytest.raises(ScenarioError, match="needs the learners' reports"):
        netfl.Simulation(netfl.load(ROOT / "scenarios/closed_loop.yaml"))


def test_failing_model_is_reported_with_its_time(monkeypatch):
    from netfl.access.bernoulli import Bernoulli

    def present(self, chances, rounds, streams):
        yield np.ones(6, bool)
        raise LookupError("nobody there")

    monkeypatch.setattr(Bernoulli, "availability", present)
    with netfl.Simulation(direct(probability=0.5)) as simulation:
        simulation.step()
        with pytest.raises(ModelError, match="bernoulli, at 1 s of simulated time: LookupError: nobody there"):
            simulation.step()


def test_documented_loop_ends(tmp_path):
    turns = cycle(([0, 1], [2, 3], None))
    with netfl.Simulation(direct(probability=1.0)) as simulation:
        rounds = []
        while not simulation.is_done:
            rounds.append(simulation.step(next(turns)))
    assert len(rounds) == 20


def test_selection_gets_data_and_airtimes():
    by_size = netfl.load(ROOT / "scenarios/learning/synthetic_users.yaml", {"rounds": 5})
    by_airtime = load(
        "rural_outage", rounds=5, **{"access.selection": {"kind": "score", "m": 3, "value": "one", "power": 1}}
    )
    for scenario in (by_size, by_airtime):
        with netfl.Simulation(scenario) as free, netfl.Simulation(scenario) as imposed:
            assert free.step() == imposed.step()
            assert {delivery.user for delivery in imposed.step([2]).deliveries} <= {2}
