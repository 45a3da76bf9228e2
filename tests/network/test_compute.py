"""How fast users compute: classes of devices, spreads and jitter, held to closed forms and to what worlds do."""

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


def compute(**said):
    return Compute(**{"samples": 100} | said)


def play(users=10, rounds=20, seed=3, wanted=(), **said):
    """The rounds and the record of a world of the plain network, with some keys said otherwise."""
    access, log = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said), Memory(*wanted)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 50.0), 1e4, 1e4, log)
    return [*access.rounds(setting)], log, access.user_columns(setting)


def faults(said, **facts):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | {"compute": said})
    told = ScenarioFacts(**({"users": 10, "rounds": 5, "sized": True} | facts))
    return {fault.key: fault for fault in nested_faults(access, "access", told) if ".compute" in fault.key}


class TestLaws:
    @pytest.mark.parametrize(
        "said",
        [
            {"speed": 80.0, "spread": 0.6},
            {"speed": 80.0, "jitter": 0.5},
            {"devices": FLEET},
            {"devices": FLEET, "jitter": 1.5},
            {"devices": {"one": {"share": 1.0, "speed": 3.0}}},
        ],
    )
    def test_what_is_drawn_holds_the_laws(self, said):
        assert check_laws(compute(**said), STREAMS, DRAWS) == []

    def test_wrong_shares_and_medians_would_be_caught(self):
        laws = compute(devices=FLEET).laws()
        other = compute(devices=FLEET | {"phone": FLEET["phone"] | {"speed": 206.0}})
        moved = compute(
            devices=FLEET | {"board": FLEET["board"] | {"share": 0.22}, "phone": FLEET["phone"] | {"share": 0.68}}
        )
        assert not np.allclose(laws[0].mean, other.laws()[0].mean)
        speeds, has = other.speeds(200_000, STREAMS), moved.device(200_000, STREAMS)
        assert abs(speeds.mean() - laws[0].mean) > 5 * speeds.std() / math.sqrt(len(speeds))
        assert abs((has == 1).mean() - 0.2) > 5 * math.sqrt(0.16 / len(has))

    def test_nothing_drawn_is_said(self):
        assert (
            compute(devices={"a": {"users": [0], "speed": 1.0}, "b": {"users": 1, "speed": 2.0}}).laws()[0].quantity
            == "none"
        )
        assert compute(speed=[1.0, 2.0]).laws()[0].quantity == "none"

    def test_the_moments_of_a_class_by_hand(self):
        """Medians 200 and spread 0.4: the logarithms have that mean and deviation; boards have no spread at all."""
        model = compute(devices=FLEET)
        has, speeds = model.device(60_000, STREAMS), model.speeds(60_000, STREAMS)
        assert np.bincount(has) / 60_000 == pytest.approx([0.7, 0.2, 0.1], abs=0.008)
        logs = np.log(speeds[has == 0])
        assert logs.mean() == pytest.approx(math.log(200.0), abs=0.01)
        assert logs.std() == pytest.approx(0.4, abs=0.006)
        assert set(speeds[has == 1]) == {20.0}


class TestDraws:
    def test_a_users_device_does_not_hang_on_how_many_users_there_are(self):
        model = compute(devices=FLEET)
        few, many = model.device(50, STREAMS), model.device(5000, STREAMS)
        assert (few == many[:50]).all()
        assert (model.speeds(50, STREAMS) == model.speeds(5000, STREAMS)[:50]).all()

    def test_a_class_of_all_is_as_fast_as_no_class(self):
        alone, classed = (
            compute(speed=80.0, spread=0.6),
            compute(devices={"x": {"share": 1, "speed": 80, "spread": 0.6}}),
        )
        assert (alone.speeds(40, STREAMS) == classed.speeds(40, STREAMS)).all()

    def test_counts_are_exact_and_fall_on_anybody(self):
        model = compute(
            devices={"a": {"users": [3, 5], "speed": 1}, "b": {"users": 6, "speed": 2}, "c": {"users": 2, "speed": 3}}
        )
        hits = np.zeros(10)
        for seed in range(400):
            has = model.device(10, Streams(seed))
            assert np.bincount(has).tolist() == [2, 6, 2]
            assert has[[3, 5]].tolist() == [0, 0]
            hits += has == 2
        free = np.delete(hits, [3, 5])
        assert free / 400 == pytest.approx(np.full(8, 0.25), abs=4.5 * math.sqrt(0.1875 / 400))

    def test_jitter_is_keyed_by_user_and_update(self):
        luck = compute(speed=1.0, jitter=0.3).training_jitter(STREAMS)
        table = luck(np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)).reshape(4, 5)
        assert luck(np.array([2]), np.array([3]))[0] == table[2, 3]
        assert len(np.unique(table)) == 20
        assert compute(speed=1.0).training_jitter(STREAMS) is None


class TestInAWorld:
    def test_users_train_as_long_as_their_device_says(self):
        _, log, places = play(compute={"devices": FLEET, "samples": 500}, wanted=("received", "trained"))
        assert set(places["device"]) <= set(FLEET)
        last = {}
        for kind, time_s, _, user, *_ in sorted(log.rows, key=lambda row: (row[1], row[0] == "received")):
            if kind == "received":
                last[user] = time_s
            elif kind == "trained":
                assert time_s - last[user] == pytest.approx(500 / places["speed"][user])
        board = places["device"] == "board"
        assert (places["speed"][board] == 20.0).all()

    def test_every_update_takes_its_own_time(self):
        """The k-th training of a user lasts its usual time times the k-th draw of its own, whoever is heard."""
        spans = {}
        for m in (1, 4):
            said = {"compute": {"speed": 10, "samples": 50, "jitter": 0.5}, "round": {"kind": "first", "m": m}}
            _, log, _ = play(wanted=("received", "trained"), **said)
            begun, number = {}, np.full(10, -1)
            for kind, time_s, _, user, *_ in sorted(log.rows, key=lambda row: (row[1], row[0] == "received")):
                if kind == "received":
                    number[user] += 1
                    begun[user] = time_s
                elif kind == "trained":
                    spans[m, user, number[user]] = time_s - begun[user]
        field, variance = Streams(3).at("compute").field("jitter"), math.log(1.25)
        for (_, user, number), span in spans.items():
            factor = math.exp(math.sqrt(variance) * field.normal([user], [number])[0] - variance / 2)
            assert span == pytest.approx(5.0 * factor)
        assert len(spans) > 50

    def test_jitter_in_packets_and_with_users_who_finish(self):
        said = {"compute": {"speed": 10, "samples": 50, "jitter": 0.5}, "transport": {"grain": "packet", "mtu": 2000}}
        rounds, log, _ = play(on_new_version="finish", **said)
        assert sum(len(one.deliveries) for one in rounds) == 40
        spans = np.array([row[1] for row in log.rows if row[0] == "trained"])
        assert len(np.unique(spans)) == len(spans)

    def test_the_table_of_users_tells_device_and_speed(self, tmp_path):
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


class TestFaults:
    def test_a_spread_beside_a_list_of_speeds(self):
        (fault,) = Compute(speed=[1, 2], spread=0.1, samples=1).faults(ScenarioFacts(users=2, rounds=1))
        assert str(fault) == "spread: has no effect with a list of speeds (0.1); leave one of them out"

    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            ({}, "give exactly one of speed and devices"),
            ({"speed": 1, "devices": FLEET}, "give exactly one of speed and devices"),
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
    def test_what_cannot_be(self, said, problem):
        with pytest.raises(ScenarioError, match=problem):
            compute(**said)

    @pytest.mark.parametrize(
        ("devices", "key", "problem"),
        [
            ({"a": {"users": 4, "speed": 1}, "b": {"users": [1, 2], "speed": 1}}, "devices", "6 devices for 10 users"),
            ({"a": {"users": 8, "speed": 1}, "b": {"users": [1, 12], "speed": 1}}, "devices.b.users", "no such users"),
            ({"a": {"users": 8, "speed": 1}, "b": {"users": [1, 1], "speed": 1}}, "devices", "listed twice"),
            ({"a": {"users": [0, *range(8)], "speed": 1}, "b": {"users": [1], "speed": 1}}, "devices", "listed twice"),
        ],
    )
    def test_devices_that_do_not_fit_the_users(self, devices, key, problem):
        found = faults({"devices": devices, "samples": 1})
        assert problem in found[f"access.compute.{key}"].problem
        assert found[f"access.compute.{key}"].remedy

    def test_devices_that_fit(self):
        assert faults({"devices": FLEET, "samples": 1}) == {}
        assert faults({"devices": {"a": {"users": 9, "speed": 1}, "b": {"users": [9], "speed": 1}}, "samples": 1}) == {}

    def test_it_round_trips(self):
        model = compute(devices=FLEET, jitter=0.2)
        assert Compute.model_validate(model.model_dump(mode="json")) == model
        assert [*Compute.model_validate(model.model_dump(mode="json")).devices] == [*FLEET]


@pytest.mark.parametrize(
    ("said", "alike"),
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
def test_users_who_train_equally_long(said, alike):
    assert compute(**said).alike is alike


@pytest.mark.parametrize("said", [{"spread": 1e6}, {"jitter": 1e300}])
def test_speeds_and_times_that_no_number_could_hold_are_refused(said):
    with pytest.raises(ScenarioError, match="less than or equal to"):
        Compute(speed=1.0, samples=1, **said)
