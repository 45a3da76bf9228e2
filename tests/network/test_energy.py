"""Energy of users: joules recomputed from the events of each user, and values worked out by hand."""

import copy
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from support.recorders import Memory

import netfl
from netfl.access.network import NetworkAccess
from netfl.network.counters import jain
from netfl.network.energy import Energy
from netfl.network.outage.battery import Battery
from netfl.scenario.scenario import validate
from netfl.scenario.validation import nested_faults
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.types import OUTCOMES, AccessContext, ScenarioFacts

USERS, UP_BPS, DOWN_BPS, SAMPLES = 14, 20_000.0, 50_000.0, 50.0
FIXED, EXPONENTIAL = {"distribution": "fixed"}, {"distribution": "exponential"}
PLAIN = {
    "topology": {"kind": "tree", "fanout": [2, 2], "ring": "2 km", "radius": "3 km", "rate": "20 kbps"},
    "radio": {"power": "20 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [
        {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
        {"kind": "rayleigh", "coherence": "1 s"},
    ],
    "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "20 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.2, "max_attempts": 4},
    "compute": {
        "samples": SAMPLES,
        "devices": {
            "phone": {"share": 0.6, "speed": 10.0, "spread": 0.8},
            "board": {"share": 0.4, "speed": 4.0},
        },
    },
    "broadcast_rate": "50 kbps",
    "update_size": "10 kbit",
    "round": {"kind": "first", "m": 3},
}
OUTAGES = [
    {"kind": "renewal", "nodes": "users", "up": EXPONENTIAL | {"mean": 30}, "down": FIXED | {"mean": 9}},
    {"kind": "renewal", "nodes": "towers", "up": EXPONENTIAL | {"mean": 60}, "down": FIXED | {"mean": 5}},
]
ENERGY = {
    "per_training": 0.3,
    "per_sample": 0.02,
    "efficiency": 0.4,
    "receive": 0.05,
    "idle": 0.001,
    "devices": {"board": {"per_sample": 0.11, "transmit": 0.9, "idle": 0}},
}
ENERGY_COSTS = {  # joules of a training and a sample; watts of sending, receiving and idling; 20 dBm are 0.1 W
    "phone": (0.3, 0.02, 0.1 / 0.4, 0.05, 0.001),
    "board": (0.3, 0.11, 0.9, 0.05, 0.0),
}


def run_rounds(users=USERS, rounds=15, seed=5, **overrides):
    """Return the rounds, the recorder and the user columns of a run of the plain network with *overrides*."""
    access, log = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides), Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, SAMPLES), 1e4, 1e4, log)
    return [*access.rounds(setting)], log, access.user_columns(setting)


def count_trainings(log, user_columns, end_s):
    """Return how many updates each user starts, and the trainings that they amount to, from the events alone.

    An update without an end of training ends during training.
    """
    received, trained_s, ended = (defaultdict(list) for _ in range(3))
    for kind, time_s, _, user, _, value, _ in sorted(log.rows, key=lambda row: row[1]):
        for kinds, times in ((["received"], received), (["trained"], trained_s), (OUTCOMES, ended)):
            if kind in kinds:
                times[user, value].append(time_s)
    started, trained = Counter(), Counter()
    for (user, base), outcomes in ended.items():
        for time_s, from_s in zip(outcomes, received[user, base], strict=True):
            started[user] += 1
            if any(from_s <= time_trained_s <= time_s for time_trained_s in trained_s[user, base]):
                trained[user] += 1
                continue
            assert from_s <= time_s <= end_s
            trained[user] += (time_s - from_s) / (SAMPLES / user_columns["speed"][user])
    return started, trained


def recompute_joules(rounds, log, user_columns):
    """Return the joules of each user for training, sending, receiving and idling."""
    end_s, users = rounds[-1].closed_s, len(user_columns["speed"])
    started, trained = count_trainings(log, user_columns, end_s)
    sent_s, received_s = Counter(), Counter()
    for kind, _, _, user, _, value, _ in log.rows:
        if kind == "sent":
            sent_s[user] += value / UP_BPS
    held = {}
    for kind, _, _, user, _, version, _ in sorted(log.rows, key=lambda row: row[1]):
        if kind == "received" and held.pop(user, None) == version:  # paid for when it came
            continue
        if kind in {"received", "held"}:
            received_s[user] += 1e4 / DOWN_BPS
        if kind == "held":
            held[user] = version
    table = np.zeros((4, users))
    for user, device in enumerate(user_columns["device"]):
        training_j, sample_j, send_w, receive_w, idle_w = ENERGY_COSTS[device]
        table[:, user] = (
            started[user] * training_j + trained[user] * SAMPLES * sample_j,
            sent_s[user] * send_w,
            received_s[user] * receive_w,
            end_s * idle_w,
        )
    return table


VARIANTS = {
    "plain": {},
    "outages": {"outages": OUTAGES},
    "packets": {"outages": OUTAGES, "transport": {"grain": "packet", "mtu": 3000, "header": 100}},
    "repeats": {"outages": OUTAGES, "transport": {"grain": "packet", "mtu": 3000, "arq": {"timeout": "8 s"}}},
    "selected": {"outages": OUTAGES, "selection": {"kind": "uniform", "m": 6}, "round": {"kind": "first", "m": 2}},
    "finish": {"on_new_version": "finish", "outages": OUTAGES},
    "ignore": {"on_new_version": "ignore", "outages": OUTAGES},
    "deadline": {"round": {"kind": "first", "deadline": "16 s"}, "outages": OUTAGES},
    "buffered": {"round": {"kind": "buffered", "size": 4}, "outages": OUTAGES},
    "tdma": {"mac": {"kind": "tdma"}, "outages": OUTAGES},
}


class TestRecount:
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_joules_match_events(self, variant):
        overrides = copy.deepcopy(VARIANTS[variant])
        rounds, log, user_columns = run_rounds(energy=ENERGY, **overrides)
        expected = recompute_joules(rounds, log, user_columns)
        for name, joules in zip(("train", "send", "receive", "idle"), expected, strict=True):
            assert log.spendings[f"{name}_J"] == pytest.approx(joules, rel=1e-9)
            assert log.final_values[f"energy_{name}_J"] == pytest.approx(joules.sum(), rel=1e-9)
        total = expected.sum(axis=0)
        assert log.final_values["energy_J"] == pytest.approx(total.sum(), rel=1e-9)
        assert log.final_values["energy_max_J"] == pytest.approx(total.max(), rel=1e-9)
        assert log.final_values["energy_jain"] == pytest.approx(jain(total), rel=1e-9)
        delivered = sum(len(result.deliveries) for result in rounds)
        assert log.final_values["energy_per_delivery_J"] * delivered == pytest.approx(total.sum(), rel=1e-9)
        assert log.spendings["energy_J"] == pytest.approx(total, rel=1e-9)

    def test_trainings_are_abandoned(self):
        """Rounds close with the first updates, so most trainings of slow users are cut short."""
        _, log, user_columns = run_rounds(energy=ENERGY)
        started, trained = log.spendings["begun"], log.spendings["trained"]
        assert (trained <= started).all()
        assert trained[user_columns["device"] == "board"].sum() < 0.7 * started[user_columns["device"] == "board"].sum()

    def test_single_user_by_hand(self):
        """Three rounds with broadcasts of 0.2 s, trainings of 5 s and airtimes of 0.5 s in slots of 0.5 s."""
        overrides = {"mac": {"kind": "slotted_aloha", "probability": 1.0}, "compute": {"speed": 10, "samples": SAMPLES}}
        overrides |= {"reception": {"kind": "snr_threshold", "threshold": "-60 dB", "rate": "20 kbps"}}
        overrides |= {"energy": {"per_training": 1, "per_sample": "20 mJ", "transmit": "2 W", "receive": 0.5}}
        _, log, _ = run_rounds(users=1, rounds=3, round={"kind": "first", "m": 1}, **overrides)
        assert log.final_values["energy_train_J"] == pytest.approx(3 * (1 + 50 * 0.02))
        assert log.final_values["energy_send_J"] == pytest.approx(3 * 0.5 * 2)
        assert log.final_values["energy_receive_J"] == pytest.approx(3 * 0.2 * 0.5)
        assert "energy_idle_J" not in log.final_values
        assert log.final_values["energy_J"] == pytest.approx(6 + 3 + 0.3)
        assert log.final_values["energy_per_delivery_J"] == pytest.approx(3.1)
        assert log.final_values["energy_jain"] == 1.0

    @pytest.mark.parametrize(
        "overrides",
        [
            {"radio": None, "reception": None, "channel": [], "mac": {"kind": "csma_ca", "standard": "802.11b"}},
            {
                "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
                "reception": {"kind": "lora"},
                "mac": {"kind": "lorawan"},
                "update_size": "50 B",
            },
        ],
    )
    def test_airtimes_of_mac(self, overrides):
        """A single user is on the air for as long as its cell is busy."""
        rounds, log, _ = run_rounds(
            users=1, rounds=4, round={"kind": "first", "m": 1}, energy={"transmit": 3.0}, **overrides
        )
        busy_s = (
            next(log.final_values[name] for name in log.final_values if name.startswith("utilisation.tower"))
            * rounds[-1].closed_s
        )
        assert log.final_values["energy_J"] == pytest.approx(3.0 * busy_s, rel=1e-9)
        assert busy_s > 0


class TestDownlink:
    @pytest.mark.parametrize(("mode", "listeners"), [("multicast", USERS), ("unicast", 1)])
    def test_user_listens_during_transmissions_to_it(self, mode, listeners):
        overrides = {
            "broadcast_rate": None,
            "downlink": {"mode": mode, "max_attempts": 2},
            "topology": {"kind": "star", "radius": 900},
        }
        overrides |= {"round": {"kind": "first", "deadline": "20 s"}}
        overrides |= {"channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}]}
        rounds, log, _ = run_rounds(energy={"receive": 0.25}, **overrides)
        on_air_s = sum(result.downlink_bits for result in rounds) / UP_BPS
        assert on_air_s > 0
        assert log.final_values["energy_J"] == pytest.approx(0.25 * listeners * on_air_s, rel=1e-9)

    def test_user_that_is_down_does_not_listen(self):
        overrides = {"broadcast_rate": None, "downlink": {"mode": "multicast"}, "outages": OUTAGES}
        rounds, log, _ = run_rounds(energy={"receive": 0.25}, round={"kind": "first", "deadline": "20 s"}, **overrides)
        on_air_s = sum(result.downlink_bits for result in rounds) / UP_BPS
        towers = 4
        assert 0 < log.final_values["energy_J"] < 0.25 * USERS * on_air_s / towers


class TestByRounds:
    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.quick_first
    def test_energy_by_round_equals_energy_of_shorter_run(self, variant):
        overrides = copy.deepcopy(VARIANTS[variant])
        rounds, _, _ = run_rounds(energy=ENERGY, **copy.deepcopy(overrides))
        by_round = [result.energy_j for result in rounds]
        assert by_round == sorted(by_round)
        for count in (1, 4, 15):
            _, log, _ = run_rounds(rounds=count, energy=ENERGY, **copy.deepcopy(overrides))
            assert by_round[count - 1] == pytest.approx(log.final_values["energy_J"], rel=1e-12)


class TestSideEffects:
    @pytest.mark.parametrize("variant", [*VARIANTS, "multicast"])
    @pytest.mark.quick_first
    def test_energy_model_changes_nothing_else(self, variant):
        multicast = {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}, "outages": OUTAGES}
        overrides = VARIANTS.get(variant, multicast)
        rounds, log, _ = run_rounds(**copy.deepcopy(overrides))
        with_energy, energy_log, _ = run_rounds(energy=ENERGY, **copy.deepcopy(overrides))
        assert [replace(result, energy_j=None) for result in with_energy] == rounds
        assert energy_log.rows == log.rows
        new_metrics = {name for name in energy_log.final_values if name not in log.final_values}
        assert new_metrics == {name for name in energy_log.final_values if name.startswith("energy_")}
        assert {name: energy_log.final_values[name] for name in log.final_values} == log.final_values
        assert log.spendings == {}

    @pytest.mark.parametrize("variant", [*VARIANTS, "multicast"])
    @pytest.mark.quick_first
    def test_battery_is_drained_by_what_is_counted(self, monkeypatch, variant):
        """Beside outages, for all classes of devices: abandoned trainings, frames, versions and being on."""
        opened, open_battery = [], Battery.open
        monkeypatch.setattr(Battery, "open", lambda *args: opened.append(open_battery(*args)) or opened[-1])
        multicast = {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}, "outages": OUTAGES}
        overrides = copy.deepcopy(VARIANTS.get(variant, multicast))
        outages = [*overrides.pop("outages", []), {"kind": "battery", "capacity": "1 MJ"}]
        rounds, log, _ = run_rounds(energy=ENERGY, outages=outages, **overrides)
        drained_j = 1e6 - opened[-1].charge_j(np.arange(USERS), rounds[-1].closed_s)
        assert drained_j == pytest.approx(log.spendings["energy_J"], rel=1e-7)
        assert rounds[-1].energy_j == pytest.approx(drained_j.sum(), rel=1e-7)

    @pytest.mark.slow
    def test_energy_of_traffic_alone(self):
        """Every packet of 1000 bits takes 50 ms of airtime per attempt."""
        traffic = {"kind": "poisson", "rate": 0.2, "size": {"distribution": "fixed", "mean": 1000.0}}
        unset = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"))
        access = NetworkAccess.model_validate(
            copy.deepcopy(PLAIN) | unset | {"traffic": traffic, "energy": {"efficiency": 0.5, "idle": 0.01}}
        )
        log = Memory()
        for warmup_s in (0.0, 100.0):
            setting = AccessContext(
                USERS, 10, 0, Streams(2), np.zeros(USERS), 0, 0, log, duration_s=500.0, warmup_s=warmup_s
            )
            windows = [*access.rounds(setting)]
            assert log.final_values["energy_idle_J"] == pytest.approx(0.01 * (500 - warmup_s) * USERS)
            if not warmup_s:
                airtime_s = sum(window.uplink_bits for window in windows) / UP_BPS
                assert log.final_values["energy_send_J"] == pytest.approx(0.2 * airtime_s, rel=1e-9)
            assert log.final_values["energy_send_J"] == pytest.approx(
                0.2 * 0.05 * log.final_values["attempts"], abs=0.2 * 0.05 * 8
            )
            assert "energy_per_delivery_J" not in log.final_values


def scenario(**overrides):
    raw = {"name": "spending", "users": USERS, "rounds": 6, "replicas": 2, "seed": 4, "record": "none"}
    return validate(
        ScenarioDocument(raw | overrides | {"access": {"kind": "network"} | copy.deepcopy(PLAIN) | {"energy": ENERGY}})
    )


class TestEnergyTable:
    def test_rows_of_users_sum_to_metrics(self, tmp_path):
        run = netfl.trace(scenario(), tmp_path / "run")
        assert len(run.energy) == 2 * USERS
        sums = run.energy.groupby("replica")["energy_J"].sum()
        metrics = run.final_metrics[run.final_metrics["metric"] == "energy_J"].set_index("replica")["value"]
        assert sums.to_numpy() == pytest.approx(metrics.to_numpy())
        assert run.summary["energy_J"] == pytest.approx(sums.mean())
        parts = run.energy[["train_J", "send_J", "receive_J", "idle_J"]].sum(axis=1)
        assert run.energy["energy_J"].to_numpy() == pytest.approx(parts.to_numpy())

    @pytest.mark.slow
    def test_added_replicas_have_same_energy(self, tmp_path):
        netfl.trace(scenario(), tmp_path / "two")
        expected = netfl.trace(scenario(replicas=4), tmp_path / "four")
        assert netfl.extend(tmp_path / "two", 4).energy.equals(expected.energy)

    def test_table_is_empty_without_energy_model(self, tmp_path):
        raw = {"name": "free", "users": 5, "rounds": 2, "access": {"kind": "network"} | PLAIN}
        run = netfl.trace(validate(ScenarioDocument(raw)), tmp_path / "run")
        assert run.energy.empty
        assert not [*run.folder.glob("energy*")]
        assert not [name for name in run.summary if name.startswith("energy")]


def find_problems(energy, *, timed=False, **overrides):
    """Return the errors in the energy settings of the plain network with *overrides*."""
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides | {"energy": energy})
    scenario_facts = ScenarioFacts(users=USERS, rounds=5, duration_s=60.0 if timed else None)
    problems = nested_faults(access, "access", scenario_facts)
    return {fault.key.removeprefix("access.energy."): fault for fault in problems if "energy" in fault.key}


class TestProblems:
    @pytest.mark.parametrize(
        ("overrides", "problem"),
        [
            ({"transmit": 1, "efficiency": 0.5}, "given together"),
            ({"transmit": 1, "devices": {"phone": {"transmit": 1, "efficiency": 0.5}}}, "given together"),
            ({"efficiency": 0}, "greater than 0"),
            ({"efficiency": 1.2}, "less than or equal to 1"),
            ({"idle": -1}, "greater than or equal to 0"),
            ({"transmit": "3 J"}, "J"),
        ],
    )
    def test_invalid_settings_are_rejected(self, overrides, problem):
        with pytest.raises(ValidationError, match=problem):
            Energy.model_validate(overrides)

    def test_unknown_device_is_rejected(self):
        problems = find_problems({"idle": 1, "devices": {"phones": {"idle": 2}, "board": {"idle": 3}}})
        assert [*problems] == ["devices.phones"]
        assert "did you mean 'phone'?" in problems["devices.phones"].remedy
        assert [*find_problems({"idle": 1, "devices": {"board": {"idle": 3}}}, compute={"speed": 1})] == [
            "devices.board"
        ]

    def test_efficiency_requires_radio(self):
        without_radio = {
            "radio": None,
            "reception": None,
            "channel": [],
            "mac": {"kind": "csma_ca", "standard": "802.11a"},
        }
        energy = {"efficiency": 0.5, "devices": {"board": {"efficiency": 0.1}}}
        assert [*find_problems(energy, **without_radio)] == ["efficiency", "devices.board.efficiency"]
        assert find_problems({"transmit": 0.5}, **without_radio) == find_problems(energy) == {}

    @pytest.mark.parametrize("power", [1001.0, 1e6, 1e300])
    def test_overflowing_power_is_rejected(self, power):
        overrides = copy.deepcopy(PLAIN) | {"radio": PLAIN["radio"] | {"power": power}}
        with pytest.raises(ValidationError, match=r"radio\.power\n  should be less than or equal to 1000"):
            NetworkAccess.model_validate(overrides)

    def test_settings_without_effect_with_duration_are_rejected(self):
        unset = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"))
        traffic = {"kind": "poisson", "rate": 1, "size": {"distribution": "fixed", "mean": 1000.0}}
        energy = {"per_training": 1, "per_sample": 1, "receive": 1, "transmit": 1, "idle": 1}
        problems = find_problems(energy, timed=True, traffic=traffic, **unset)
        assert {*problems} == {"per_training", "per_sample", "receive"}
        assert all(fault.remedy for fault in problems.values())
        assert {*find_problems({"transmit": 1}, timed=True, traffic=traffic | {"source": "towers"}, **unset)} == {
            "transmit"
        }
        assert "devices.phone" in find_problems({"idle": 1, "devices": {"phone": {"idle": 2}}}, timed=True, **unset)

    def test_model_survives_json_round_trip(self):
        model = Energy.model_validate(ENERGY)
        assert Energy.model_validate(model.model_dump(mode="json")) == model
