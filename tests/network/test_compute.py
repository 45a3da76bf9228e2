"""Compute times of users: device classes, spread and jitter, compared with closed forms and simulated runs."""

import copy
import math

import numpy as np
import pytest
from support.draw_counts import DRAWS
from support.recorders import Memory

import netfl
from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.compute import Compute
from netfl.scenario.scenario import validate
from netfl.scenario.validation import nested_faults
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import AccessContext, ScenarioFacts

STREAMS = Streams(20_261_120)
FLEET = {
    "phone": {"share": 0.7, "speed": 200.0, "spread": 0.4},
    "board": {"share": 0.2, "speed": 20.0},
    "laptop": {"share": 0.1, "speed": 900.0, "spread": 0.1},
}
PLAIN = {
    "topology": {"kind": "star", "radius": "1 km"},
    "mac": {"kind": "csma_ca", "standard": "802.11g", "rate": "24 Mbps"},
    "compute": {"speed": 10.0, "samples": 50},
    "broadcast_rate": "1 Mbps",
    "update_size": "10 kbit",
    "round": {"kind": "first", "m": 2},
}


def compute(**overrides):
    return Compute(**{"samples": 100} | overrides)


def run_rounds(users=10, rounds=20, seed=3, recorded_kinds=(), **overrides):
    """Return the rounds, the recorder and the user columns of a run of the plain network with *overrides*."""
    access, log = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides), Memory(*recorded_kinds)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 50.0), 1e4, 1e4, log)
    return [*access.rounds(setting)], log, access.user_columns(setting)


def find_problems(settings, **facts):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | {"compute": settings})
    scenario_facts = ScenarioFacts(**({"users": 10, "rounds": 5, "sized": True} | facts))
    return {fault.key: fault for fault in nested_faults(access, "access", scenario_facts) if ".compute" in fault.key}


class TestDistributions:
    @pytest.mark.parametrize(
        "overrides",
        [
            {"speed": 80.0, "spread": 0.6},
            {"frequency": 1e9, "cycles": 1e7, "spread": 0.6},
            {"speed": 80.0, "jitter": 0.5},
            {"devices": FLEET},
            {"devices": FLEET, "jitter": 1.5},
            {"devices": {"one": {"share": 1.0, "speed": 3.0}}},
        ],
    )
    def test_draws_follow_stated_distributions(self, overrides):
        assert check_laws(compute(**overrides), STREAMS, DRAWS) == []

    def test_check_detects_wrong_shares_and_medians(self):
        laws = compute(devices=FLEET).laws()
        other = compute(devices=FLEET | {"phone": FLEET["phone"] | {"speed": 206.0}})
        other_shares = compute(
            devices=FLEET | {"board": FLEET["board"] | {"share": 0.22}, "phone": FLEET["phone"] | {"share": 0.68}}
        )
        assert not np.allclose(laws[0].mean, other.laws()[0].mean)
        speeds, device_indices = other.speeds(200_000, STREAMS), other_shares.device(200_000, STREAMS)
        assert abs(speeds.mean() - laws[0].mean) > 5 * speeds.std() / math.sqrt(len(speeds))
        assert abs((device_indices == 1).mean() - 0.2) > 5 * math.sqrt(0.16 / len(device_indices))

    def test_model_without_draws_states_no_distribution(self):
        assert (
            compute(devices={"a": {"users": [0], "speed": 1.0}, "b": {"users": 1, "speed": 2.0}}).laws()[0].quantity
            == "none"
        )
        assert compute(speed=[1.0, 2.0]).laws()[0].quantity == "none"

    def test_moments_of_device_class(self):
        """The median is 200 and the spread of log speed is 0.4; boards have no spread."""
        model = compute(devices=FLEET)
        device_indices, speeds = model.device(60_000, STREAMS), model.speeds(60_000, STREAMS)
        assert np.bincount(device_indices) / 60_000 == pytest.approx([0.7, 0.2, 0.1], abs=0.008)
        log_speeds = np.log(speeds[device_indices == 0])
        assert log_speeds.mean() == pytest.approx(math.log(200.0), abs=0.01)
        assert log_speeds.std() == pytest.approx(0.4, abs=0.006)
        assert set(speeds[device_indices == 1]) == {20.0}


class TestDraws:
    def test_device_is_independent_of_number_of_users(self):
        model = compute(devices=FLEET)
        few, many = model.device(50, STREAMS), model.device(5000, STREAMS)
        assert (few == many[:50]).all()
        assert (model.speeds(50, STREAMS) == model.speeds(5000, STREAMS)[:50]).all()

    def test_single_class_has_speeds_of_no_class(self):
        without_class, with_class = (
            compute(speed=80.0, spread=0.6),
            compute(devices={"x": {"share": 1, "speed": 80, "spread": 0.6}}),
        )
        assert (without_class.speeds(40, STREAMS) == with_class.speeds(40, STREAMS)).all()

    def test_device_counts_are_exact_and_uniform_over_users(self):
        model = compute(
            devices={"a": {"users": [3, 5], "speed": 1}, "b": {"users": 6, "speed": 2}, "c": {"users": 2, "speed": 3}}
        )
        hits = np.zeros(10)
        for seed in range(400):
            device_indices = model.device(10, Streams(seed))
            assert np.bincount(device_indices).tolist() == [2, 6, 2]
            assert device_indices[[3, 5]].tolist() == [0, 0]
            hits += device_indices == 2
        unlisted = np.delete(hits, [3, 5])
        assert unlisted / 400 == pytest.approx(np.full(8, 0.25), abs=4.5 * math.sqrt(0.1875 / 400))

    def test_jitter_is_keyed_by_user_and_update(self):
        jitter = compute(speed=1.0, jitter=0.3).training_jitter(STREAMS)
        table = jitter(np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)).reshape(4, 5)
        assert jitter(np.array([2]), np.array([3]))[0] == table[2, 3]
        assert len(np.unique(table)) == 20
        assert compute(speed=1.0).training_jitter(STREAMS) is None


class TestRun:
    def test_training_time_follows_device_speed(self):
        _, log, user_columns = run_rounds(
            compute={"devices": FLEET, "samples": 500}, recorded_kinds=("received", "trained")
        )
        assert set(user_columns["device"]) <= set(FLEET)
        received_s = {}
        for kind, time_s, _, user, *_ in sorted(log.rows, key=lambda row: (row[1], row[0] == "received")):
            if kind == "received":
                received_s[user] = time_s
            elif kind == "trained":
                assert time_s - received_s[user] == pytest.approx(500 / user_columns["speed"][user])
        board = user_columns["device"] == "board"
        assert (user_columns["speed"][board] == 20.0).all()

    def test_each_update_has_its_own_training_time(self):
        """The k-th training of a user lasts its base time multiplied by its k-th draw, for any deliveries."""
        spans = {}
        for m in (1, 4):
            overrides = {"compute": {"speed": 10, "samples": 50, "jitter": 0.5}, "round": {"kind": "first", "m": m}}
            _, log, _ = run_rounds(recorded_kinds=("received", "trained"), **overrides)
            start_s, number = {}, np.full(10, -1)
            for kind, time_s, _, user, *_ in sorted(log.rows, key=lambda row: (row[1], row[0] == "received")):
                if kind == "received":
                    number[user] += 1
                    start_s[user] = time_s
                elif kind == "trained":
                    spans[m, user, number[user]] = time_s - start_s[user]
        field, variance = Streams(3).at("compute").field("jitter"), math.log(1.25)
        for (_, user, number), span in spans.items():
            factor = math.exp(math.sqrt(variance) * field.normal([user], [number])[0] - variance / 2)
            assert span == pytest.approx(5.0 * factor)
        assert len(spans) > 50

    def test_jitter_with_packets_and_finished_trainings(self):
        overrides = {
            "compute": {"speed": 10, "samples": 50, "jitter": 0.5},
            "transport": {"grain": "packet", "mtu": 2000},
        }
        rounds, log, _ = run_rounds(on_new_version="finish", **overrides)
        assert sum(len(delivery_round.deliveries) for delivery_round in rounds) == 40
        spans = np.array([row[1] for row in log.rows if row[0] == "trained"])
        assert len(np.unique(spans)) == len(spans)

    def test_users_table_has_device_and_speed(self, tmp_path):
        raw = {"name": "fleet", "users": 9, "rounds": 3, "replicas": 2}
        raw |= {"access": {"kind": "network"} | PLAIN | {"compute": {"devices": FLEET, "samples": 9}}}
        users = netfl.trace(validate(ScenarioDocument(raw)), tmp_path / "run").users
        assert len(users) == 18
        assert set(users["device"]) <= set(FLEET)
        assert (users["speed"] > 0).all()
        plain = netfl.trace(
            validate(ScenarioDocument(raw | {"access": {"kind": "network"} | PLAIN})), tmp_path / "plain"
        ).users
        assert "device" not in plain
        assert set(plain["speed"]) == {10.0}


class TestProblems:
    def test_spread_with_list_of_speeds_is_rejected(self):
        (fault,) = Compute(speed=[1, 2], spread=0.1, samples=1).faults(ScenarioFacts(users=2, rounds=1))
        assert str(fault) == "spread: has no effect with a list of speeds (0.1); leave one of them out"

    @pytest.mark.parametrize(
        ("overrides", "problem"),
        [
            ({}, "give exactly one of speed, frequency and devices"),
            ({"speed": 1, "devices": FLEET}, "give exactly one of speed, frequency and devices"),
            ({"devices": FLEET, "spread": 0.1}, "spread: has no effect with devices"),
            ({"devices": {"a": {"share": 0.5, "speed": 1}}}, "sum to 0.5"),
            ({"devices": {"a": {"share": 0.5, "speed": 1}, "b": {"users": 2, "speed": 1}}}, "same key in all"),
            ({"devices": {"a": {"speed": 1}}}, "give exactly one of share and users"),
            ({"devices": {"a": {"share": 1, "users": 3, "speed": 1}}}, "give exactly one of share and users"),
            ({"devices": {"a": {"share": 1, "speed": 0}}}, "greater than 0"),
            ({"devices": {"a": {"share": 1, "speed": -3}}}, "greater than 0"),
            ({"devices": {"a": {"share": 0, "speed": 3}}}, "greater than 0"),
            ({"devices": {}}, "has too few entries"),
            ({"speed": 0}, "greater than 0"),
            ({"speed": 1, "jitter": -0.1}, "greater than or equal to 0"),
        ],
    )
    def test_invalid_settings_are_rejected(self, overrides, problem):
        with pytest.raises(ScenarioError, match=problem):
            compute(**overrides)

    @pytest.mark.parametrize(
        ("devices", "key", "problem"),
        [
            ({"a": {"users": 4, "speed": 1}, "b": {"users": [1, 2], "speed": 1}}, "devices", "6 devices for 10 users"),
            ({"a": {"users": 8, "speed": 1}, "b": {"users": [1, 12], "speed": 1}}, "devices.b.users", "no such users"),
            ({"a": {"users": 8, "speed": 1}, "b": {"users": [1, 1], "speed": 1}}, "devices", "listed twice"),
            ({"a": {"users": [0, *range(8)], "speed": 1}, "b": {"users": [1], "speed": 1}}, "devices", "listed twice"),
        ],
    )
    def test_device_counts_that_do_not_match_users_are_rejected(self, devices, key, problem):
        problems = find_problems({"devices": devices, "samples": 1})
        assert problem in problems[f"access.compute.{key}"].problem
        assert problems[f"access.compute.{key}"].remedy

    def test_valid_devices_have_no_problems(self):
        assert find_problems({"devices": FLEET, "samples": 1}) == {}
        assert (
            find_problems({"devices": {"a": {"users": 9, "speed": 1}, "b": {"users": [9], "speed": 1}}, "samples": 1})
            == {}
        )

    def test_model_survives_json_round_trip(self):
        model = compute(devices=FLEET, jitter=0.2)
        assert Compute.model_validate(model.model_dump(mode="json")) == model
        assert [*Compute.model_validate(model.model_dump(mode="json")).devices] == [*FLEET]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"speed": 1}, True),
        ({"speed": 1, "jitter": 0.1}, False),
        ({"speed": 1, "spread": 0.1}, False),
        ({"speed": [1, 2]}, False),
        ({"devices": FLEET}, False),
        ({"devices": {"a": {"share": 1, "speed": 1}}}, True),
        ({"devices": {"a": {"share": 1, "speed": 1, "spread": 1}}}, False),
    ],
)
def test_alike_is_true_for_equal_training_times(overrides, expected):
    assert compute(**overrides).alike is expected


@pytest.mark.parametrize("overrides", [{"spread": 1e6}, {"jitter": 1e300}])
def test_overflowing_speeds_and_times_are_rejected(overrides):
    with pytest.raises(ScenarioError, match="less than or equal to"):
        Compute(speed=1.0, samples=1, **overrides)


class TestProcessors:
    """Frequency and cycles of processors, compared with time = cycles · samples / f and energy = κ · cycles · f²."""

    def test_speed_of_a_processor(self):
        model = compute(frequency=["1 GHz", "2 GHz", "1.5 GHz"], cycles=[1e7, 1e7, 3e7])
        assert model.time_s(np.zeros(3), STREAMS) == pytest.approx([1.0, 0.5, 2.0])
        assert model.frequencies_hz(3, STREAMS) == pytest.approx([1e9, 2e9, 1.5e9])

    def test_one_frequency_and_cycles_of_each_user(self):
        model = compute(frequency="1 GHz", cycles=[1e7, 2e7])
        assert model.speeds(2, STREAMS) == pytest.approx([100.0, 50.0])

    def test_cycles_of_devices_state_their_frequencies(self):
        model = compute(devices=FLEET, cycles=1e6)
        assert model.frequencies_hz(50, STREAMS) == pytest.approx(1e6 * model.speeds(50, STREAMS))

    def test_equal_to_the_speed_that_they_state(self):
        by_speed, _, _ = run_rounds(compute={"speed": 40.0, "spread": 0.3, "samples": 50})
        cycles = {"frequency": "1 GHz", "cycles": 2.5e7, "spread": 0.3, "samples": 50}
        by_cycles, _, columns = run_rounds(compute=cycles)
        assert by_speed == by_cycles
        assert columns["frequency_hz"] == pytest.approx(2.5e7 * columns["speed"])

    @pytest.mark.parametrize("on_new_version", ["restart", "finish"])
    def test_energy_of_cycles(self, on_new_version):
        """κ c f² for each sample is as much as the same energy per sample."""
        options = {"users": 4, "on_new_version": on_new_version}
        processors = {"frequency": ["1 GHz", "2 GHz", "0.5 GHz", "1 GHz"], "cycles": 2e7, "samples": 50}
        _, log, _ = run_rounds(compute=processors, energy={"capacitance": 1e-28, "per_sample": 0.001}, **options)
        _, trainings, _ = run_rounds(compute=processors, energy={"per_sample": 1.0}, **options)
        frequency_hz = np.array([1e9, 2e9, 0.5e9, 1e9])
        sample_j = 0.001 + 1e-28 * 2e7 * frequency_hz**2
        assert log.spendings["train_J"] == pytest.approx(sample_j * trainings.spendings["train_J"])
        assert log.spendings["train_J"].min() > 0

    def test_energy_of_a_class(self):
        fleet = {"fast": {"users": [0, 2], "speed": 100}, "slow": {"users": [1, 3], "speed": 50}}
        energy = {"capacitance": 1e-28, "devices": {"slow": {"capacitance": 4e-28}}}
        options = {"users": 4, "compute": {"devices": fleet, "cycles": 1e7, "samples": 50}}
        _, log, _ = run_rounds(energy=energy, **options)
        _, trainings, _ = run_rounds(energy={"per_sample": 1.0}, **options)
        sample_j = np.array([1e-28 * 1e7 * 1e18, 4e-28 * 1e7 * 0.25e18] * 2)
        assert log.spendings["train_J"] == pytest.approx(sample_j * trainings.spendings["train_J"])

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"frequency": 1e9}, "without cycles"),
            ({"frequency": 1e9, "cycles": 1e7, "speed": 3.0}, "given together"),
            ({"frequency": [1e9] * 3, "cycles": [1e7] * 2}, "lists of 2 and 3 values"),
        ],
    )
    def test_contradictions(self, settings, message):
        with pytest.raises(ScenarioError, match=message):
            compute(**settings)

    def test_lists_of_wrong_lengths(self):
        problems = find_problems({"frequency": 1e9, "cycles": [1e7] * 3, "samples": 50})
        assert problems["access.compute.cycles"].problem == "3 numbers of cycles for 10 users"

    def test_capacitance_without_cycles(self):
        access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | {"energy": {"capacitance": 1e-28}})
        facts = ScenarioFacts(users=10, rounds=5, sized=True)
        faults = [fault for fault in nested_faults(access, "access", facts) if "energy" in fault.key]
        assert [fault.key for fault in faults] == ["access.energy.capacitance"]
        assert faults[0].remedy == "give compute.cycles"
