"""Reads between the rounds of a `netfl.Simulation`, and settings before each."""

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.small_network import PLAIN

import netfl
from netfl.errors import ScenarioError

ROOT = Path(__file__).parents[2]
OUTCOMES = {
    "delivered", "late", "discarded", "collided", "faded", "lost", "dropped", "given_up", "superseded", "unfinished",
}  # fmt: skip


def rural(**overrides):
    settings = {"rounds": 60, "partition.by": "distance", "record": "all", **overrides}
    return netfl.load(ROOT / "scenarios/rural_outage.yaml", settings)


def plain(users=3, rounds=6, **access):
    """A network in which each update of 1000 bits takes 1 s."""
    access = {"kind": "network", **PLAIN, **access}
    return {"name": "x", "users": users, "rounds": rounds, "record": "all", "access": access}


def direct(kind="bernoulli", **access):
    return {"name": "x", "users": 4, "rounds": 10, "access": {"kind": kind, **access}}


def message_of(function, *args, **options):
    with pytest.raises(ScenarioError) as raised:
        function(*args, **options)
    return str(raised.value)


# what a caller reads


def test_reading_the_state_changes_no_round():
    with netfl.Simulation(rural()) as silent, netfl.Simulation(rural()) as watched:
        for _ in range(60):
            watched.state  # noqa: B018 - the property reads the network
            assert silent.step() == watched.step()
        pd.testing.assert_frame_equal(silent.events, watched.events)


def test_state_counts_deliveries_and_ages():
    with netfl.Simulation(rural()) as simulation:
        assert simulation.state.age.tolist() == [1] * 30
        last, count = np.zeros(30, int), np.zeros(30, int)
        for index in range(1, 61):
            for delivery in simulation.step().deliveries:
                last[delivery.user] = index
                count[delivery.user] += 1
            state = simulation.state
            assert state.age.tolist() == (index + 1 - last).tolist()
            assert state.delivered.tolist() == count.tolist()
            assert (state.round, state.time_s) == (index, simulation.time_s)


def test_state_agrees_with_layout_events_and_link_budget():
    with netfl.Simulation(rural(record=["down", "up"])) as simulation:
        for _ in range(60):
            simulation.step()
        state, layout = simulation.state, simulation.layout
        np.testing.assert_allclose(state.xy_m, layout.user_xy_m)
        np.testing.assert_allclose(state.distance_m, layout.distance_m)
        newest = simulation.events.sort_values("time_s", kind="stable").groupby(["user", "node"])["kind"].last()
        down = {(user, node) for (user, node), kind in newest.items() if kind == "down"}
        assert {user for user, _ in down if user >= 0} == set(np.flatnonzero(~state.user_up).tolist())
        assert {node for user, node in down if user < 0} == {name for name, up in state.node_up.items() if not up}
    scenario = plain(channel=[{"kind": "constant", "gain": "-100 dB"}])
    with netfl.Simulation(scenario) as simulation:
        noise_dbm = -174 + 10 * np.log10(125e3)
        np.testing.assert_allclose(simulation.state.snr_db, 20.0 - 100.0 - noise_dbm)


def test_state_has_backlog_and_queues():
    slow_link = {"kind": "star", "radius": "100 m", "rate": "100 bps", "delay": 0}
    access = {"topology": slow_link, "on_new_version": "finish", "staleness": 9, "round": {"kind": "first", "m": 1}}
    with netfl.Simulation(plain(users=4, **access)) as simulation:
        assert simulation.state.backlog.tolist() == [0] * 4
        simulation.step()
        # three others were sent within the 10 s that the link needs for the first, and wait at the tower
        assert sum(simulation.state.queues.values()) == 3
    with netfl.Simulation(plain(users=4)) as simulation:
        simulation.step()
        assert sum(simulation.state.backlog) == 3


def test_energy_of_users_adds_up_to_that_of_the_round():
    energy = {"transmit": "1 W", "idle": "1 mW", "per_sample": "10 mJ", "receive": "50 mW"}
    with netfl.Simulation(plain(energy=energy)) as simulation:
        for _ in range(6):
            round_ = simulation.step()
            assert simulation.state.energy_j.sum() == pytest.approx(round_.energy_j, rel=1e-12)


@pytest.mark.parametrize("name", ["rural_outage", "access/markov", "access/adversarial"])
def test_outcomes_of_each_round_are_the_events_of_that_round(name):
    overrides = {"rounds": 30, "record": "all"} | ({"partition.by": "distance"} if name == "rural_outage" else {})
    with netfl.Simulation(netfl.load(ROOT / f"scenarios/{name}.yaml", overrides)) as simulation:
        for index in range(1, 31):
            round_ = simulation.step()
            outcomes = simulation.outcomes
            events = simulation.events.query(f"round == {index}")
            events = events[events["kind"].isin(OUTCOMES)]
            assert sorted(zip(outcomes.outcome, outcomes.user, outcomes.time_s, strict=True)) == sorted(
                zip(events.kind.astype(str), events.user, events.time_s, strict=True)
            )
            delivered = outcomes.query("outcome == 'delivered'")
            assert [*zip(delivered.user, delivered.base, strict=True)] == [(d.user, d.base) for d in round_.deliveries]


def test_snapshot_has_the_tables_of_a_trace(tmp_path):
    scenario = rural()
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    with netfl.Simulation(scenario) as simulation:
        half = [simulation.step() for _ in range(30)]
        assert len(simulation.snapshot()["rounds"]) == len(half)
        for _ in range(30):
            simulation.step()
        simulation.finish()
        tables = simulation.snapshot()
    for name in ("rounds", "deliveries"):
        pd.testing.assert_frame_equal(tables[name], run.table(name))
    for name in ("users", "nodes"):
        pd.testing.assert_frame_equal(tables[name], run.table(name).drop(columns="replica"))
    recorded = run.table("final_metrics").set_index("metric")["value"]
    final = tables["final_metrics"].set_index("metric")["value"]
    assert final.to_dict() == recorded[final.index].to_dict()


def test_nothing_is_kept_without_record():
    with netfl.Simulation(rural(), record=False) as simulation, netfl.Simulation(rural()) as recorded:
        assert [simulation.step() for _ in range(5)] == [recorded.step() for _ in range(5)]
        for read in (simulation.snapshot, lambda: simulation.events):
            assert "record: no rounds and events are kept (False)" in message_of(read)
            assert "with record=True" in message_of(read)
        pd.testing.assert_frame_equal(simulation.outcomes, recorded.outcomes)


def test_seed_replaces_that_of_the_scenario():
    with netfl.Simulation(rural(), seed=9) as given, netfl.Simulation(rural(seed=9)) as stated:
        assert [given.step() for _ in range(9)] == [stated.step() for _ in range(9)]
        assert given.time_s != rural().seed


def test_learners_train_as_in_a_run(tmp_path):
    scenario = netfl.load(ROOT / "scenarios/access/stationary.yaml", {"rounds": 20, "evaluate.every": 5})
    run = netfl.run(scenario, tmp_path / "run", device="cpu", progress=False)
    with netfl.Simulation(scenario, learning=True, device="cpu") as simulation:
        reports = [simulation.report]
        for _ in range(20):
            simulation.step()
            reports.append(simulation.report)
        metrics = simulation.snapshot()["metrics"]
    assert [report.round for report in reports if report.metrics] == [0, 5, 10, 15, 20]
    pd.testing.assert_frame_equal(metrics, run.metrics)


def test_closed_loop_uses_the_learners_that_train_here(tmp_path):
    scenario = netfl.load(ROOT / "scenarios/closed_loop.yaml", {"rounds": 12})
    run = netfl.run(scenario, tmp_path / "run", device="cpu", progress=False)
    with netfl.Simulation(scenario, learning=True, device="cpu") as simulation:
        users = [[delivery.user for delivery in simulation.step().deliveries] for _ in range(12)]
    recorded = run.deliveries.groupby("round")["user"].agg(list)
    assert users == [recorded.get(index, []) for index in range(1, 13)]


# the SimPy clock


def test_process_of_a_caller_runs_on_the_clock_of_the_network():
    seen = []

    def watch(simulation):
        while True:
            yield simulation.env.timeout(0.5)
            seen.append((simulation.env.now, simulation.state.time_s, int(simulation.state.backlog.sum())))

    with netfl.Simulation(plain(users=2, rounds=3)) as simulation, netfl.Simulation(plain(users=2, rounds=3)) as plain_:
        simulation.env.process(watch(simulation))
        assert [simulation.step() for _ in range(3)] == [plain_.step() for _ in range(3)]
    assert [at_s for at_s, _, _ in seen] == [0.5 * (index + 1) for index in range(len(seen))]
    assert all(now_s == at_s for now_s, at_s, _ in seen)
    assert len(seen) >= 2 * 2 * 3 - 1  # training and sending take 1 s each
    assert max(backlog for _, _, backlog in seen) == 2


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), KeyError("no such user")])
def test_an_error_in_a_process_of_a_caller_names_the_process_and_its_line(error):
    def watch(simulation):
        yield simulation.env.timeout(1.5)
        raise error

    with netfl.Simulation(plain()) as simulation:
        simulation.env.process(watch(simulation))
        with pytest.raises(netfl.ModelError) as raised:
            for _ in range(6):
                simulation.step()
        assert re.match(r"the process 'watch' of the caller \(test_step\.py, line \d+\), at 1\.5 s", str(raised.value))
        assert f"{type(error).__name__}: {error}" in str(raised.value)
        assert raised.value.__cause__.__cause__ is error
        assert "the simulation has failed in round" in message_of(simulation.step)
        assert type(error).__name__ in message_of(simulation.step)
        assert "create another one" in message_of(simulation.step)
        assert ", failed>" in repr(simulation)


def test_an_error_of_netfl_in_a_process_of_a_caller_stays_whole():
    def watch(simulation):
        yield simulation.env.timeout(1.5)
        simulation.step(update_bits=-1.0)

    with netfl.Simulation(plain()) as simulation:
        simulation.env.process(watch(simulation))
        with pytest.raises(netfl.ModelError, match=r"the process 'watch' .*ScenarioError: update_bits: out of range"):
            for _ in range(6):
                simulation.step()


def test_only_networks_have_a_clock():
    with netfl.Simulation(direct(probability=0.5)) as simulation:
        assert "use 'kind: network'" in message_of(lambda: simulation.env)
        assert simulation.state.snr_db is None


# sizes of updates


def test_airtime_follows_the_size_of_an_update():
    """TDMA with slots of 1 s for 1000 bits: an update of 250 bits takes a quarter of a slot on the air."""
    with netfl.Simulation(plain(users=2)) as simulation:
        whole = simulation.step()
        half = simulation.step(update_bits=250.0)
        kept = simulation.step()
        each = simulation.step(update_bits=[250.0, 500.0], broadcast_bits=77.0)
        sent = simulation.events.query("kind == 'sent'")
    for round_, size in ((whole, 1000.0), (half, 250.0), (kept, 250.0)):
        (delivery,) = round_.deliveries
        assert delivery.arrived_s - delivery.sent_s == pytest.approx(size / 1000.0, abs=1e-4)
        values = sent[sent["round"] == round_.index]["value"]
        assert set(values) == {size}
        assert round_.uplink_bits == values.sum()
        assert round_.downlink_bits == 1000.0
    assert each.downlink_bits == 77.0
    in_last = sent[sent["round"] == each.index]
    assert [*zip(in_last.user, in_last.value, strict=True)] == [(user, [250.0, 500.0][user]) for user in in_last.user]


def test_size_counts_from_the_next_training():
    """A user that is busy when the size changes sends an update of the size that it began with."""
    access = {"on_new_version": "finish", "staleness": 9, "round": {"kind": "first", "m": 1}}
    with netfl.Simulation(plain(users=2, **access)) as simulation:
        simulation.step(update_bits=800.0)
        simulation.step(update_bits=200.0)
        bits = [(d.user, d.base) for _ in range(3) for d in simulation.step().deliveries]
        sent = simulation.events.query("kind == 'sent'")["value"].tolist()
    assert sent[:2] == [800.0, 800.0]
    assert set(sent[2:]) == {200.0}
    assert len(bits) == 3


def test_packets_follow_the_size_of_an_update():
    transport = {"grain": "packet", "mtu": "50 B"}
    with netfl.Simulation(plain(users=1, transport=transport)) as simulation:
        simulation.step()
        simulation.step(update_bits=500.0)
        sent = simulation.events.query("kind == 'sent'")
    assert sent[sent["round"] == 1]["value"].tolist() == [400.0, 400.0, 200.0]
    assert sent[sent["round"] == 2]["value"].tolist() == [400.0, 100.0]


def test_network_is_built_for_the_largest_update():
    with netfl.Simulation(plain(users=2), update_bits=4000.0) as simulation:
        (delivery,) = simulation.step().deliveries
        assert delivery.arrived_s - delivery.sent_s == pytest.approx(4.0, abs=1e-4)
        (delivery,) = simulation.step(update_bits=1000.0).deliveries
        assert delivery.arrived_s - delivery.sent_s == pytest.approx(1.0, abs=1e-4)


def test_broadcast_takes_its_size():
    scenario = plain(users=1, rounds=4, mac={"kind": "round_robin"}, broadcast_rate="1 kbps", energy={"receive": "1 W"})
    with netfl.Simulation(scenario) as simulation:
        whole = simulation.step()
        small = simulation.step(broadcast_bits=100.0)
        assert (whole.closed_s - whole.opened_s) - (small.closed_s - small.opened_s) == pytest.approx(0.9, abs=1e-4)
        assert simulation.state.energy_j[0] == pytest.approx(1.0 + 0.1)


def test_sizes_count_in_the_bits_of_a_direct_access():
    with netfl.Simulation(direct(probability=1.0), update_bits=1000.0) as simulation:
        assert (simulation.step().uplink_bits, simulation.step(update_bits=10.0).uplink_bits) == (4000.0, 40.0)
        round_ = simulation.step(update_bits=[1.0, 2.0, 3.0, 4.0], broadcast_bits=7.0)
        assert (round_.uplink_bits, round_.downlink_bits) == (10.0, 7.0)


# controls


def test_power_shifts_the_snr_and_the_energy():
    access = {"energy": {"efficiency": 0.5}, "channel": [{"kind": "constant", "gain": "-100 dB"}]}
    with netfl.Simulation(plain(users=2, **access)) as low, netfl.Simulation(plain(users=2, **access)) as high:
        before = high.state.snr_db
        low.step([0])
        high.step([0], controls={"power": [3.0, -7.0]})
        np.testing.assert_allclose(high.state.snr_db - before, [3.0, -7.0])
        radiated_w = 10 ** ((20 - 30) / 10) / 0.5
        assert low.state.energy_j[0] == pytest.approx(radiated_w * 1.0)
        assert high.state.energy_j[0] == pytest.approx(radiated_w * 10**0.3)


def test_power_decides_whether_an_update_is_received():
    """At 0 dB more than the radio's power the SNR is 1 dB below the threshold."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    access = {
        "channel": [{"kind": "constant", "gain": f"{noise_dbm - 20 - 1} dB"}],
        "unreachable": "keep",
        "round": {"kind": "first", "m": 1, "deadline": "5 s"},
        "mac": {"kind": "tdma", "max_attempts": 1},
    }
    with netfl.Simulation(plain(users=1, **access)) as simulation:
        assert not simulation.step().deliveries
        assert simulation.outcomes["outcome"].tolist()[0] == "faded"
        assert simulation.step(controls={"power": 2.0}).deliveries
        assert simulation.step().deliveries
        assert not simulation.step(controls={"power": 0.0}).deliveries


def test_power_of_users_does_not_change_the_downlink():
    access = {
        "channel": [{"kind": "constant", "gain": "-100 dB"}],
        "downlink": {"mode": "multicast"},
        "round": {"kind": "first", "m": 1, "deadline": "9 s"},
        "unreachable": "keep",
    }
    access = {**PLAIN, **access}
    del access["broadcast_rate"]
    scenario = {"name": "x", "users": 2, "rounds": 4, "record": "all", "access": {"kind": "network", **access}}
    with netfl.Simulation(scenario) as simulation:
        simulation.step(controls={"power": -150.0})
        assert set(simulation.events.query("kind == 'received'")["user"]) == {0, 1}
        assert not simulation.step().deliveries


def test_probabilities_and_channels_of_a_controlled_mac():
    mac = {"kind": "controlled", "channels": 2, "probability": 0.5}
    access = {
        "mac": mac,
        "round": {"kind": "first", "m": 2, "deadline": "40 s"},
        "compute": {"speed": 1e6, "samples": 1},
    }
    with netfl.Simulation(plain(users=2, rounds=9, **access)) as simulation:
        scheduled = simulation.step(controls={"probability": 1.0, "channel": [0, 1]})
        assert [d.attempts for d in scheduled.deliveries] == [1, 1]
        collided = simulation.step(controls={"channel": [1, 1]})
        assert not collided.deliveries
        assert simulation.outcomes["outcome"].tolist() == ["superseded"] * 2 or not len(simulation.outcomes)
        muted = simulation.step(controls={"probability": [0.0, 1.0]})
        assert [d.user for d in muted.deliveries] == [1]


def test_a_new_probability_counts_for_a_frame_that_waits():
    access = {
        "mac": {"kind": "controlled"},
        "round": {"kind": "first", "m": 1, "deadline": "20 s"},
        "on_new_version": "finish",
        "staleness": 9,
    }
    with netfl.Simulation(plain(users=2, **access)) as simulation:
        assert not simulation.step(controls={"probability": 1e-9}).deliveries
        # user 0 gets no new version, so that only the new probability can wake it
        (delivery,) = simulation.step([1], controls={"probability": [1.0, 0.0]}).deliveries
    assert (delivery.user, delivery.base, delivery.attempts) == (0, 0, 1)


# mistakes


def test_mistakes_name_the_argument_and_the_remedy(tmp_path):
    with netfl.Simulation(plain()) as simulation:
        step = simulation.step
        assert "larger than 1000 bits" in message_of(step, update_bits=2000.0)
        assert "Simulation(update_bits=…)" in message_of(step, update_bits=2000.0)
        assert "update_bits: out of range" in message_of(step, update_bits=-1.0)
        assert "give one number, or 3" in message_of(step, update_bits=[1.0, 2.0])
        assert "not a number for each user" in message_of(step, update_bits="10 kB")
        assert "controls.probability: no effect" in message_of(step, controls={"probability": 0.5})
        assert "controls.power: out of range" in message_of(step, controls={"power": np.nan})
        assert "use learning=True" in message_of(lambda: simulation.report)
        assert "a user is named twice" in message_of(step, np.array([0, 0, 1], np.int8))
        assert "mask.astype(bool)" in message_of(step, [1, 1])
        assert "use netfl.load(scenario, {...})" in message_of(netfl.Simulation, plain(), {"users": 2})
        simulation.close()
        assert "the simulation is closed" in message_of(step)
    run = netfl.trace(direct(probability=0.5), tmp_path / "run", progress=False)
    with netfl.Simulation(direct("replay", run=str(run.folder))) as simulation:
        assert "leave out update_bits" in message_of(simulation.step, update_bits=10.0)
    assert "leave out update_bits" in message_of(netfl.Simulation, direct("replay", run=str(run.folder)), update_bits=1)
    assert "the scenario has no learners" in message_of(netfl.Simulation, plain(), learning=True)
    mac = {"kind": "controlled"}
    with netfl.Simulation(plain(mac=mac)) as simulation:
        assert "controls.channel: no effect" in message_of(simulation.step, controls={"channel": 0})
        assert "use numbers from 0 to 1" in message_of(simulation.step, controls={"probability": 1.5})


@pytest.mark.parametrize(
    "selected",
    [
        np.array([0, 1, 0, 1.0]),
        pd.Series([False, True, False, True]),
        {3, 1},
        frozenset({1, 3}),
        {1: "a", 3: "b"}.keys(),
        range(1, 4, 2),
    ],
)
def test_users_are_selected_by_masks_and_by_sets_of_numbers(selected):
    with netfl.Simulation(direct(probability=1.0)) as simulation:
        users = {delivery.user for delivery in simulation.step(selected).deliveries}
    assert users == {1, 3}


@pytest.mark.parametrize("selected", [np.array([0, 0.5, 0, 1]), np.array([1.0, 3.0]), {1, "a"}, {1.0}])
def test_other_numbers_are_no_selection(selected):
    with netfl.Simulation(direct(probability=1.0)) as simulation:
        assert "not a selection of users" in message_of(simulation.step, selected)


def test_a_simulation_has_a_short_text():
    with netfl.Simulation(plain(rounds=6)) as simulation:
        assert repr(simulation) == "<Simulation 'x', replica 0, round 0 of 6, 0 s>"
        simulation.step()
        card = simulation._repr_html_()
        for part in ("Simulation x", "1 of 6", "network", "delivered"):
            assert part in card
        assert "learners" not in card
    assert repr(simulation).endswith(", closed>")


def test_a_simulation_cannot_be_copied():
    with netfl.Simulation(plain()) as simulation:
        for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
            assert "cannot be copied or pickled" in message_of(duplicate, simulation)
            assert "with the same seed, and repeat the steps" in message_of(duplicate, simulation)
        pickle.dumps(simulation.state)
