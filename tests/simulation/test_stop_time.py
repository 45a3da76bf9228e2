"""Runs with rounds that end at a simulated time, alone or beside a number of rounds."""

import copy

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from support.small_network import PLAIN
from support.stop_run import StopAfter

import netfl
from netfl.errors import ScenarioError
from netfl.simulation.dry_run import run_dry

ALL_THREE = {"round": {"kind": "first", "m": 3}}
LOTTERY = {"mac": {"kind": "slotted_aloha", "probability": 0.3}, "round": {"kind": "first", "m": 2}}
"""Rounds of a random length, so that each replica has a pace of its own."""
LEARNING = {
    "data": {"kind": "digits"},
    "partition": {"kind": "iid"},
    "model": {"kind": "logistic"},
    "learners": {
        "A": {
            "objective": "erm",
            "aggregation": {"kind": "fedavgm", "momentum": 0.9},
            "lr": 0.1,
            "batch_size": 8,
            "local_steps": 1,
        }
    },
    "evaluate": {"every": 3},
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """A run of six rounds on the network, which is longer than those of a test."""
    return netfl.trace(network(rounds=6), tmp_path_factory.mktemp("long") / "run", progress=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of four replicas that end by their own clocks."""
    scenario = network(LOTTERY, duration=60.0, replicas=4)
    return netfl.trace(scenario, tmp_path_factory.mktemp("several") / "run", progress=False)


def network(part=None, **sections):
    """A scenario of three users on a network whose updates take 1 s; by default one user is delivered in a round."""
    access = {"kind": "network", **copy.deepcopy(PLAIN), **(part or {})}
    return netfl.load({"name": "n", "users": 3, "access": access, **sections})


def direct(**sections):
    """A scenario of users that are delivered at random, in rounds of 10 s."""
    access = {"kind": "bernoulli", "probability": 0.5, "round_length": 10.0}
    return netfl.load({"name": "d", "users": 4, "access": access, **sections})


def rows(table, until_s=np.inf, time="time_s"):
    """The rows of a table until a time, in an order that does not depend on ties."""
    table = table[table[time] <= until_s].astype(dict.fromkeys(table.select_dtypes("category"), str))
    return table.sort_values([*table.columns], ignore_index=True)


def assert_equal(first, second):
    pd.testing.assert_frame_equal(first, second, check_categorical=False)


class TestRoundsOfAKnownLength:
    @pytest.mark.parametrize(
        ("duration", "rounds"),
        [(30.0, 3), (29.9, 2), (30.1, 3), (39.9, 3), (10.0, 1)],
    )
    def test_last_round_closes_at_or_before_the_end(self, duration, rounds):
        run = netfl.trace(direct(duration=duration), "run", progress=False)
        assert run.rounds["closed_s"].tolist() == [10.0 * (index + 1) for index in range(rounds)]
        assert run.manifest["rounds"] == rounds
        assert run.summary["rounds"] == rounds
        assert (run.summary["stop_s"], run.manifest["stop_s"]) == (duration, duration)

    def test_rounding_decides_nothing(self):
        scenario = direct(rounds=1).at(
            {"access.round_length": 0.1, "duration": 0.3, "rounds": None}
        )  # 3 · 0.1 is more than 0.3
        assert scenario.planned_rounds == 3

    @pytest.mark.parametrize(("rounds", "duration", "planned"), [(2, 30.0, 2), (5, 30.0, 3)])
    def test_first_of_both_ends_the_run(self, rounds, duration, planned):
        assert direct(rounds=rounds, duration=duration).steps == planned
        assert len(netfl.trace(direct(rounds=rounds, duration=duration), "run", progress=False).rounds) == planned

    def test_run_is_one_of_so_many_rounds(self):
        by_time = netfl.trace(direct(duration=45.0), "time", progress=False)
        by_number = netfl.trace(direct(rounds=4), "number", progress=False)
        for name in ("rounds", "deliveries", "events"):
            assert_equal(
                rows(getattr(by_time, name), time=getattr(by_time, name).columns[1]),
                rows(getattr(by_number, name), time=getattr(by_number, name).columns[1]),
            )

    def test_every_kind_of_errors(self):
        with pytest.raises(ScenarioError) as error:
            direct(duration=9.0)
        assert_messages(str(error.value).splitlines(), ["duration: … no round closes by then"])
        with pytest.raises(ScenarioError) as error:
            direct(duration=30.0, warmup=1.0)
        assert_messages(str(error.value).splitlines(), ["warmup: … no effect on rounds"])


class TestNetwork:
    @pytest.mark.parametrize(("shift_s", "rounds"), [(-1e-3, 2), (0.0, 3), (1e-3, 3), (2.9, 3)])
    def test_last_round_closes_at_or_before_the_end(self, longer, shift_s, rounds):
        stop_s = longer.rounds["closed_s"][2] + shift_s
        run = netfl.trace(network(duration=stop_s), "run", progress=False)
        assert_equal(run.rounds, longer.rounds[:rounds])
        assert_equal(run.deliveries, longer.deliveries[:rounds])
        assert "rounds" not in run.manifest
        assert run.summary["rounds"] == rounds
        assert run.summary["simulated_s"] == longer.rounds["closed_s"][rounds - 1]

    def test_events_until_the_end_are_those_of_a_longer_run(self, longer):
        stop_s = 10.5  # in the fourth round
        run = netfl.trace(network(duration=stop_s), "run", progress=False)
        unfinished = run.events["kind"] == "unfinished"
        assert_equal(rows(run.events[~unfinished]), rows(longer.events, stop_s))
        assert run.events.loc[unfinished, "time_s"].unique().tolist() == [stop_s]

    def test_run_that_ends_with_a_round_is_one_of_so_many_rounds(self, longer):
        run = netfl.trace(network(duration=longer.rounds["closed_s"][5]), "run", progress=False)
        assert_equal(rows(run.events), rows(longer.events))
        assert run.final_metrics["metric"].tolist()[1:] == longer.final_metrics["metric"].tolist()
        assert run.final_metrics["value"].tolist()[1:] == longer.final_metrics["value"].tolist()

    def test_updates_of_the_open_round_are_unfinished(self):
        # all three users are delivered by 4 s; in the second round only one is received before the end
        whole = netfl.trace(network(ALL_THREE, rounds=2), "whole", progress=False)
        arrived_s = whole.deliveries["arrived_s"].to_numpy()
        run = netfl.trace(network(ALL_THREE, duration=arrived_s[3] + 0.5), "run", progress=False)
        assert len(run.rounds) == 1
        outcomes = run.events[run.events["kind"].isin(["delivered", "unfinished"])]
        assert outcomes.groupby("kind", observed=True).size().to_dict() == {"delivered": 3, "unfinished": 3}
        assert run.summary["outcome.delivered"] == len(run.deliveries) == 3
        assert run.summary["outcome.unfinished"] == 3

    def test_run_without_a_round_is_refused(self):
        scenario = network(duration=2.0)
        with pytest.raises(ScenarioError) as error:
            netfl.trace(scenario, "run", progress=False)
        assert_messages(str(error.value).splitlines(), ["duration: … no round closes by then"])
        with pytest.raises(ScenarioError):
            run_dry(scenario)

    def test_round_that_never_closes_ends_with_the_run(self):
        never = {"outages": [{"kind": "maintenance", "windows": [{"nodes": [2], "start": 4.0, "duration": 1e6}]}]}
        run = netfl.trace(network({**ALL_THREE, **never}, duration=50.0), "run", progress=False)
        assert len(run.rounds) == 1

    def test_network_without_rounds_still_carries_traffic(self):
        part = dict.fromkeys(("round", "compute", "broadcast_rate", "update_size"))
        part["traffic"] = [{"kind": "poisson", "source": "users", "rate": 0.2, "size": {"mean": 1000.0}}]
        scenario = network(part, duration=50.0)
        assert (scenario.has_rounds, scenario.traffic_s, scenario.stop_s, scenario.steps) == (False, 50.0, None, 100)
        with pytest.raises(ScenarioError) as error:
            network(part, duration=50.0, rounds=3)
        assert_messages(str(error.value).splitlines(), ["rounds: … no effect on traffic alone"])

    def test_rounds_beside_traffic_end_at_the_time(self):
        part = {"traffic": [{"kind": "poisson", "source": "users", "rate": 0.01, "size": {"mean": 10.0}}], **ALL_THREE}
        scenario = network(part, duration=20.0)
        assert scenario.has_rounds
        run = netfl.trace(scenario, "run", progress=False)
        assert run.duration_s is None
        assert run.stop_s == 20.0
        assert 0 < run.rounds["closed_s"].max() <= 20.0


class TestReplicas:
    """Each replica ends by its own clock; others go on."""

    def test_replicas_have_different_numbers_of_rounds(self, run):
        counts = run.rounds.groupby("replica").size()
        assert counts.nunique() > 1
        assert run.rounds["closed_s"].max() <= 60.0
        assert run.final_metrics.loc[run.final_metrics["metric"] == "rounds", "value"].tolist() == counts.tolist()

    @pytest.mark.parametrize("replica", range(4))
    def test_replica_alone_has_the_same_rows(self, run, replica):
        simulation = netfl.Simulation(network(LOTTERY, duration=60.0, replicas=4), replica)
        found = []
        while not simulation.is_done:
            found.append(simulation.step())
        assert found[-1] is None
        simulation.finish()
        tables = simulation.snapshot()
        for name, time in (("rounds", "closed_s"), ("deliveries", "arrived_s"), ("events", "time_s")):
            table = getattr(run, name)
            assert_equal(rows(tables[name], time=time), rows(table[table["replica"] == replica], time=time))

    def test_extension_has_the_same_rows(self, run):
        netfl.trace(network(LOTTERY, duration=60.0, replicas=1), "extended", progress=False)
        extended = netfl.extend("extended", 4, progress=False)
        for name, time in (("rounds", "closed_s"), ("deliveries", "arrived_s"), ("events", "time_s")):
            assert_equal(rows(getattr(extended, name), time=time), rows(getattr(run, name), time=time))
        assert extended.summary == run.summary

    def test_replay_has_the_same_rows(self, run):
        access = {"kind": "replay", "run": str(run.folder)}
        scenario = {"name": "again", "users": 3, "replicas": 4, "access": access}
        again = netfl.trace({**scenario, "duration": 60.0}, "again", progress=False)
        assert_equal(again.rounds, run.rounds)
        assert_equal(again.deliveries, run.deliveries)
        shorter = netfl.trace({**scenario, "duration": 30.0}, "shorter", progress=False)
        assert_equal(shorter.rounds, run.rounds[run.rounds["closed_s"] <= 30.0].reset_index(drop=True))
        (warning,) = [text for text in again.manifest.get("warnings", []) if "short" in text] or [""]
        assert warning == ""
        late = netfl.load({**scenario, "duration": 600.0})
        assert any("short recording" in text for text in netfl.simulation.setup.warnings(late))


@pytest.mark.quick_first
@pytest.mark.parametrize("every", [1, 3])
def test_learners_end_with_their_replica(every):
    scenario = network(LOTTERY, duration=60.0, replicas=3, **LEARNING).at(
        {"evaluate.every": every, "record": {"versions": 2}}
    )
    run = netfl.run(scenario, "run", progress=False)
    ends = run.rounds.groupby("replica")["round"].max()
    assert ends.nunique() > 1
    accuracy = run.metrics[(run.metrics["metric"] == "accuracy") & (run.metrics["group"] == "")]
    for replica, end in ends.items():
        evaluated = accuracy[accuracy["replica"] == replica]
        assert evaluated["round"].tolist() == [*range(0, end + 1, every)]  # no rows once it has ended
        last = evaluated["round"].max()
        value = evaluated.loc[evaluated["round"] >= 0.9 * last, "value"].mean()
        finals = run.final_metrics[run.final_metrics["replica"] == replica].set_index("metric")["value"]
        assert finals["A.accuracy.last_tenth"] == pytest.approx(value, abs=1e-12)
        versions = run.versions("A", replica)
        assert [*versions] == sorted({*range(0, end + 1, 2), end})
    # each replica alone learns the same, up to the order of sums
    alone = netfl.Simulation(scenario, 1, learning=True)
    while not alone.is_done:
        alone.step()
    alone.finish()
    of_replica = accuracy[accuracy["replica"] == 1]["value"].to_numpy()
    table = alone.snapshot()["metrics"]
    found = table.loc[(table["metric"] == "accuracy") & (table["group"] == ""), "value"].to_numpy()
    assert found == pytest.approx(of_replica, abs=0.003)


@pytest.mark.slow
class TestLearningRun:
    @pytest.fixture
    def scenario(self):
        return network(LOTTERY, duration=60.0, replicas=3, **LEARNING).at(
            {"checkpoint": {"rounds": 2}, "record": {"versions": True}, "evaluate.targets": [0.5]}
        )

    @pytest.mark.parametrize("after", [4, 9])
    def test_resumed_run_equals_the_complete_run(self, scenario, after):
        whole = netfl.run(scenario, "whole", progress=False)
        netfl.run(scenario, "run", observer=StopAfter(after))
        resumed = netfl.resume("run", progress=False)
        assert resumed.summary == whole.summary
        for name in ("rounds", "deliveries", "events", "metrics", "final_metrics"):
            assert_equal(getattr(resumed, name), getattr(whole, name))
        for replica in range(3):
            kept, expected = resumed.versions("A", replica), whole.versions("A", replica)
            assert [*kept] == [*expected]
            for index in kept:
                assert all(np.array_equal(kept[index][name], expected[index][name]) for name in expected[index])

    def test_workers_learn_the_same(self, scenario):
        whole = netfl.run(scenario, "whole", progress=False)
        shared = netfl.run(scenario, "shared", workers=3, progress=False)
        columns = ["learner", "replica", "round", "metric", "group"]
        pairs = whole.metrics.astype(dict.fromkeys(("learner", "metric", "group"), str)).merge(
            shared.metrics.astype(dict.fromkeys(("learner", "metric", "group"), str)), on=columns, how="outer"
        )
        assert len(pairs) == len(whole.metrics) == len(shared.metrics)
        assert pairs["value_x"].to_numpy() == pytest.approx(pairs["value_y"].to_numpy(), abs=0.005)

    def test_closed_loop(self):
        part = {**LOTTERY, "selection": {"kind": "power_of_choice", "d": 3, "m": 2}}
        run = netfl.run(network(part, duration=60.0, replicas=3, **LEARNING), "run", progress=False)
        assert run.status == "done"
        assert run.rounds.groupby("replica").size().nunique() > 1

    def test_sweep_over_the_duration(self):
        scenario = network(LOTTERY, rounds=500, replicas=2, **LEARNING)
        scenario = netfl.load({**scenario.plain(), "sweep": {"grid": {"duration": [20.0, 40.0]}}})
        sweep = netfl.sweep(scenario, "sweep", progress=False)
        table = sweep.final_metrics
        rounds = table[table["metric"] == "rounds"].groupby("duration")["value"].mean()
        assert rounds.iloc[0] < rounds.iloc[1] < 40


class TestSimulation:
    def test_step_after_the_end_names_the_duration(self):
        simulation = netfl.Simulation(network(duration=7.0))
        assert [simulation.step().index, simulation.step().index, simulation.step()] == [1, 2, None]
        assert simulation.is_done
        assert simulation.round == 2
        with pytest.raises(ScenarioError) as error:
            simulation.step()
        assert_messages(str(error.value).splitlines(), ["duration: … the duration is over"])
        assert "round 2, " in repr(simulation)

    def test_known_number_of_rounds(self):
        simulation = netfl.Simulation(direct(duration=25.0))
        assert [simulation.step().index, simulation.step().index] == [1, 2]
        assert simulation.is_done
        assert "round 2 of 2" in repr(simulation)


class TestDryRun:
    def test_rounds_are_extrapolated_by_the_pace(self):
        few = run_dry(network(rounds=2000))
        by_time = run_dry(network(duration=6000.0))  # 3 s a round
        # on a busy machine the dry run has few rounds, whose pace differs from that of the whole run
        assert by_time.disk == pytest.approx(few.disk, rel=0.25)
        assert by_time.memory == pytest.approx(few.memory, rel=0.01)


@pytest.mark.slow
def test_explanation_is_of_the_rounds_that_all_replicas_have(run):
    from netfl.diagnosis.explanation.explain import explain

    found = explain(run)
    common = run.rounds.groupby("replica")["round"].max().min()
    assert any(f"the first {common} rounds of each" in note for note in found.notes)
    assert not any("does not reproduce" in note for note in found.notes)
    assert all(user.rounds == 4 * common for user in found.users)
