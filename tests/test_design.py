"""General invariants of the design, tested on a shortened main scenario."""

from pathlib import Path

import pandas as pd
import pytest
from support.restarted_runs import assert_same_tables
from support.stop_run import StopAfter

import netfl
from netfl.types import OUTCOMES

MAIN = Path(__file__).parents[1] / "scenarios/rural_outage.yaml"
SHORT = {
    "rounds": 40, "replicas": 2, "evaluate.every": 5, "partition.by": "distance", "record": "all",
    "access.selection": "all", "tuning": None,
}  # fmt: skip
TABLES = ("rounds", "deliveries", "events", "metrics", "users", "nodes")


def main(**overrides):
    return netfl.load(MAIN, SHORT | overrides)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    return netfl.run(main(), tmp_path_factory.mktemp("live") / "run", device="cpu")


def test_same_scenario_and_seed_give_same_tables(live, tmp_path):
    resolved = netfl.load(live.folder / "scenario.yaml")
    assert_same_tables(live, netfl.run(resolved, tmp_path / "again", device="cpu"), TABLES)


@pytest.mark.slow
def test_another_seed_gives_other_tables(live, tmp_path):
    other = netfl.run(main(seed=99), tmp_path / "other", device="cpu")
    assert not live.deliveries.equals(other.deliveries)
    assert not live.deliveries[live.deliveries.replica == 0].equals(live.deliveries[live.deliveries.replica == 1])


@pytest.mark.parametrize("after", [1, 17])
@pytest.mark.slow
def test_stop_and_resume_change_nothing(live, tmp_path, after):
    stopped = netfl.run(main(), tmp_path / "run", device="cpu", observer=StopAfter(after))
    assert stopped.manifest["status"] == "interrupted"
    assert len(stopped.rounds) == 2 * after
    resumed = netfl.resume(stopped.folder, device="cpu")
    assert resumed.manifest["status"] == "done"
    assert_same_tables(live, resumed, TABLES)
    assert live.summary == resumed.summary


@pytest.mark.slow
def test_resume_stopped_before_checkpoint_keeps_longer_tables(live, tmp_path):
    netfl.run(main(), tmp_path / "run", device="cpu", observer=StopAfter(17))
    stopped_again = netfl.resume(tmp_path / "run", device="cpu", observer=StopAfter(4))
    assert (stopped_again.status, stopped_again.manifest["rounds_done"]) == ("interrupted", 17)
    assert len(stopped_again.rounds) == 2 * 17
    assert_same_tables(live, netfl.resume(tmp_path / "run", device="cpu"), TABLES)


@pytest.mark.slow
def test_live_learning_equals_learning_from_trace(live, tmp_path):
    traced = netfl.trace(main(), tmp_path / "trace")
    assert_same_tables(live, traced, ("rounds", "deliveries", "events", "nodes"))
    replay = main(access={"kind": "replay", "run": str(traced.folder)})
    assert_same_tables(
        live, netfl.run(replay, tmp_path / "replayed", device="cpu"), ("rounds", "deliveries", "metrics")
    )


@pytest.mark.parametrize("by", ["rho", "prerun"])
@pytest.mark.slow
def test_replay_assigns_same_data_to_users(tmp_path, by):
    overrides = {"partition.by": by, "seed": 7, "rounds": 60, "record": "none"}
    if by == "rho":
        overrides["access"] = {"kind": "stationary", "rho": "random_simplex"}
    live = netfl.run(main(**overrides), tmp_path / "live", device="cpu")
    traced = netfl.trace(main(**overrides), tmp_path / "trace")
    overrides["access"] = {"kind": "replay", "run": str(traced.folder)}
    assert_same_tables(
        live, netfl.run(main(**overrides), tmp_path / "replay", device="cpu"), ("rounds", "deliveries", "metrics")
    )


@pytest.mark.slow
def test_another_mac_changes_no_other_draws(live, tmp_path):
    tdma = netfl.trace(main(**{"access.mac": "tdma"}), tmp_path / "tdma")
    assert_same_tables(live, tdma, ("nodes",))
    users, other_users = (run.users.loc[:, ~run.users.columns.str.startswith("attempts")] for run in (live, tdma))
    pd.testing.assert_frame_equal(users, other_users, check_exact=True)
    until = min(
        live.rounds.groupby("replica").closed_s.max().min(), tdma.rounds.groupby("replica").closed_s.max().min()
    )

    def outages(run):
        events = run.events[run.events.kind.isin(["down", "up"]) & (run.events.time_s < until)]
        return (
            events[["replica", "time_s", "user", "node"]]
            .sort_values([*events.columns[:2], "user", "node"])
            .values.tolist()
        )

    assert len(outages(live)) > 20
    assert outages(live) == outages(tdma)


def test_rounds_share_one_clock(live):
    for _, rounds in live.rounds.groupby("replica"):
        assert (rounds.opened_s.iloc[1:].to_numpy() == rounds.closed_s.iloc[:-1].to_numpy()).all()
        assert (rounds.closed_s > rounds.opened_s).all()


def test_every_update_has_one_outcome(live):
    events = live.events
    key = ["replica", "user", "value"]
    started = events[events.kind == "received"][key].sort_values(key, ignore_index=True)
    ended = events[events.kind.isin(OUTCOMES)][key].sort_values(key, ignore_index=True)
    assert len(started) > 500
    assert not started.duplicated().any()
    pd.testing.assert_frame_equal(started, ended)
    delivered = events[events.kind == "delivered"].groupby("replica").size()
    assert delivered.tolist() == live.deliveries.groupby("replica").size().tolist()


def test_deliveries_are_in_their_rounds_and_from_newest_version(live):
    both = live.deliveries.merge(live.rounds, on=["replica", "round"])
    assert (both.arrived_s <= both.closed_s).all()
    assert (both.sent_s >= both.opened_s).all()
    assert (both.base == both["round"] - 1).all()


@pytest.mark.slow
def test_recording_changes_no_draws():
    """The first round ends at time 0, as nobody takes part in it: no outage is asked for its state before."""
    runs = []
    for record in ("none", "all"):
        scenario = main(**{"record": record, "replicas": 1, "access.round": {"kind": "first", "m": 1}})
        with netfl.Simulation(scenario) as simulation:
            rounds = [simulation.step([])]
            while not simulation.is_done:
                rounds.append(simulation.step(simulation.state.user_up))
        runs.append([(each.closed_s, each.deliveries) for each in rounds])
    assert runs[0] == runs[1]
    assert runs[0][0] == (0.0, ())
