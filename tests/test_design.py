"""The laws that always hold, on the main scenario, shortened.

Held to elsewhere: lazy is eager, batched is one by one, padded is not padded in ``learning/test_learner.py``;
those of a closed loop in ``test_closed_loop.py``;
no global state in ``test_package.py``; each model's example in ``test_models.py``, its law in ``test_laws.py``;
nothing silently ignored in ``test_scenario.py``.
"""

from pathlib import Path

import pandas as pd
import pytest
from support.stop_run import StopAfter

import netfl
from netfl.types import OUTCOMES

MAIN = Path(__file__).parents[1] / "scenarios/rural_outage.yaml"
SHORT = {"rounds": 40, "replicas": 2, "evaluate.every": 5, "partition.by": "distance", "record": "all"}
TABLES = ("rounds", "deliveries", "events", "metrics", "users", "nodes")


def main(**changes):
    return netfl.load(MAIN, SHORT | changes)


def same(one, other, tables=TABLES):
    for name in tables:
        pd.testing.assert_frame_equal(one.table(name), other.table(name), check_exact=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    return netfl.run(main(), tmp_path_factory.mktemp("live") / "run", device="cpu")


def test_1_same_scenario_and_seed_same_tables(live, tmp_path):
    resolved = netfl.load(live.folder / "scenario.yaml")
    same(live, netfl.run(resolved, tmp_path / "again", device="cpu"))


@pytest.mark.slow
def test_1_another_seed_other_tables(live, tmp_path):
    other = netfl.run(main(seed=99), tmp_path / "other", device="cpu")
    assert not live.deliveries.equals(other.deliveries)
    assert not live.deliveries[live.deliveries.replica == 0].equals(live.deliveries[live.deliveries.replica == 1])


@pytest.mark.parametrize("after", [1, 17])
@pytest.mark.slow
def test_1_stop_and_resume_between_changes_nothing(live, tmp_path, after):
    stopped = netfl.run(main(), tmp_path / "run", device="cpu", observer=StopAfter(after))
    assert stopped.manifest["status"] == "interrupted"
    assert len(stopped.rounds) == 2 * after
    resumed = netfl.resume(stopped.folder, device="cpu")
    assert resumed.manifest["status"] == "done"
    same(live, resumed)
    assert live.summary == resumed.summary


@pytest.mark.slow
def test_1_a_resume_that_is_stopped_before_its_checkpoint_keeps_the_longer_tables(live, tmp_path):
    netfl.run(main(), tmp_path / "run", device="cpu", observer=StopAfter(17))
    again = netfl.resume(tmp_path / "run", device="cpu", observer=StopAfter(4))
    assert (again.status, again.manifest["rounds_done"]) == ("interrupted", 17)
    assert len(again.rounds) == 2 * 17
    same(live, netfl.resume(tmp_path / "run", device="cpu"))


@pytest.mark.slow
def test_2_learning_live_is_learning_from_the_trace(live, tmp_path):
    traced = netfl.trace(main(), tmp_path / "trace")
    same(live, traced, ("rounds", "deliveries", "events", "nodes"))
    replay = main(access={"kind": "replay", "run": str(traced.folder)})
    same(live, netfl.run(replay, tmp_path / "replayed", device="cpu"), ("rounds", "deliveries", "metrics"))


@pytest.mark.parametrize("by", ["rho", "prerun"])
@pytest.mark.slow
def test_2_the_same_users_hold_the_same_data_in_a_replay(tmp_path, by):
    changes = {"partition.by": by, "seed": 7, "rounds": 60, "record": "none"}
    if by == "rho":
        changes["access"] = {"kind": "stationary", "rho": "random_simplex"}
    live = netfl.run(main(**changes), tmp_path / "live", device="cpu")
    traced = netfl.trace(main(**changes), tmp_path / "trace")
    changes["access"] = {"kind": "replay", "run": str(traced.folder)}
    same(live, netfl.run(main(**changes), tmp_path / "replay", device="cpu"), ("rounds", "deliveries", "metrics"))


@pytest.mark.slow
def test_5_another_mac_leaves_all_other_draws(live, tmp_path):
    tdma = netfl.trace(main(**{"access.mac": "tdma"}), tmp_path / "tdma")
    same(live, tdma, ("users", "nodes"))
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


def test_9_one_clock_across_rounds(live):
    for _, rounds in live.rounds.groupby("replica"):
        assert (rounds.opened_s.iloc[1:].to_numpy() == rounds.closed_s.iloc[:-1].to_numpy()).all()
        assert (rounds.closed_s > rounds.opened_s).all()


def test_9_every_update_has_exactly_one_fate(live):
    events = live.events
    key = ["replica", "user", "value"]
    begun = events[events.kind == "received"][key].sort_values(key, ignore_index=True)
    ended = events[events.kind.isin(OUTCOMES)][key].sort_values(key, ignore_index=True)
    assert len(begun) > 500
    assert not begun.duplicated().any()
    pd.testing.assert_frame_equal(begun, ended)
    delivered = events[events.kind == "delivered"].groupby("replica").size()
    assert delivered.tolist() == live.deliveries.groupby("replica").size().tolist()


def test_9_deliveries_are_in_their_rounds_and_from_the_newest_version(live):
    both = live.deliveries.merge(live.rounds, on=["replica", "round"])
    assert (both.arrived_s <= both.closed_s).all()
    assert (both.sent_s >= both.opened_s).all()
    assert (both.base == both["round"] - 1).all()
