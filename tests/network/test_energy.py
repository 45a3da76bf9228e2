"""What users spend: joules counted a second time from the events, user by user, and figures by hand."""

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
PRICES = {  # joules for a training and a sample; watts on the air, listening and idle; 20 dBm are 0.1 W
    "phone": (0.3, 0.02, 0.1 / 0.4, 0.05, 0.001),
    "board": (0.3, 0.11, 0.9, 0.05, 0.0),
}


def play(users=USERS, rounds=15, seed=5, **said):
    """The rounds, the record and the places of a world of the plain network, with some keys said otherwise."""
    access, log = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said), Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, SAMPLES), 1e4, 1e4, log)
    return [*access.rounds(setting)], log, access.user_columns(setting)


def trained(log, places, end_s, *, goes_on):
    """For each user how many updates it began, and how many trainings that comes to, from the events alone.

    Those with no end of their training on record ended in the middle of it, with their update; where users go on with
    what they are at, such a one began when the one before it had left the air.
    """
    received, done, ended, aired = (defaultdict(list) for _ in range(4))
    for kind, time_s, _, user, _, value, _ in sorted(log.rows, key=lambda row: row[1]):
        if kind == "sent":
            aired[user].append(time_s + value / UP_BPS)
        for kinds, times in ((["received"], received), (["trained"], done), (OUTCOMES, ended)):
            if kind in kinds:
                times[user, value].append(time_s)
    begun, share = Counter(), Counter()
    for (user, base), outcomes in ended.items():
        for time_s, from_s in zip(outcomes, received[user, base], strict=True):
            begun[user] += 1
            if any(from_s <= trained_s <= time_s for trained_s in done[user, base]):
                share[user] += 1
                continue
            start_s = max([from_s, *(aired[user] if goes_on else ())])
            assert start_s <= time_s <= end_s
            share[user] += (time_s - start_s) / (SAMPLES / places["speed"][user])
    return begun, share


def recount(rounds, log, places, *, goes_on=False):
    """Joules of each user for training, sending, receiving and being there."""
    end_s, users = rounds[-1].closed_s, len(places["speed"])
    begun, share = trained(log, places, end_s, goes_on=goes_on)
    sent, heard = Counter(), Counter()
    for kind, _, _, user, _, value, _ in log.rows:
        if kind == "sent":
            sent[user] += value / UP_BPS
        elif kind == "received":
            heard[user] += 1e4 / DOWN_BPS
    table = np.zeros((4, users))
    for user, device in enumerate(places["device"]):
        training_j, sample_j, send_w, hear_w, idle_w = PRICES[device]
        table[:, user] = (
            begun[user] * training_j + share[user] * SAMPLES * sample_j,
            sent[user] * send_w,
            heard[user] * hear_w,
            end_s * idle_w,
        )
    return table


WORLDS = {
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
    @pytest.mark.parametrize("world", WORLDS)
    def test_joules_are_those_of_the_events(self, world):
        said = copy.deepcopy(WORLDS[world])
        rounds, log, places = play(energy=ENERGY, **said)
        own = recount(rounds, log, places, goes_on="on_new_version" in said)
        for name, joules in zip(("train", "send", "receive", "idle"), own, strict=True):
            assert log.spendings[f"{name}_J"] == pytest.approx(joules, rel=1e-9)
            assert log.told[f"energy_{name}_J"] == pytest.approx(joules.sum(), rel=1e-9)
        total = own.sum(axis=0)
        assert log.told["energy_J"] == pytest.approx(total.sum(), rel=1e-9)
        assert log.told["energy_max_J"] == pytest.approx(total.max(), rel=1e-9)
        assert log.told["energy_jain"] == pytest.approx(jain(total), rel=1e-9)
        delivered = sum(len(one.deliveries) for one in rounds)
        assert log.told["energy_per_delivery_J"] * delivered == pytest.approx(total.sum(), rel=1e-9)
        assert log.spendings["energy_J"] == pytest.approx(total, rel=1e-9)

    def test_trainings_are_abandoned_in_it(self):
        """Where rounds close with the first few, most trainings of the slow are cut short."""
        _, log, places = play(energy=ENERGY)
        begun, share = log.spendings["begun"], log.spendings["trained"]
        assert (share <= begun).all()
        assert share[places["device"] == "board"].sum() < 0.7 * begun[places["device"] == "board"].sum()

    def test_a_single_user_by_hand(self):
        """Broadcast 0.2 s, training 5 s, airtime 0.5 s in a slot of 0.5 s, three rounds: no draw can change that."""
        said = {"mac": {"kind": "slotted_aloha", "probability": 1.0}, "compute": {"speed": 10, "samples": SAMPLES}}
        said |= {"reception": {"kind": "snr_threshold", "threshold": "-60 dB", "rate": "20 kbps"}}
        said |= {"energy": {"per_training": 1, "per_sample": "20 mJ", "transmit": "2 W", "receive": 0.5}}
        _, log, _ = play(users=1, rounds=3, round={"kind": "first", "m": 1}, **said)
        assert log.told["energy_train_J"] == pytest.approx(3 * (1 + 50 * 0.02))
        assert log.told["energy_send_J"] == pytest.approx(3 * 0.5 * 2)
        assert log.told["energy_receive_J"] == pytest.approx(3 * 0.2 * 0.5)
        assert "energy_idle_J" not in log.told
        assert log.told["energy_J"] == pytest.approx(6 + 3 + 0.3)
        assert log.told["energy_per_delivery_J"] == pytest.approx(3.1)
        assert log.told["energy_jain"] == 1.0

    @pytest.mark.parametrize(
        "said",
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
    def test_airtimes_that_a_mac_makes(self, said):
        """One user alone is on the air for as long as its cell is busy."""
        rounds, log, _ = play(users=1, rounds=4, round={"kind": "first", "m": 1}, energy={"transmit": 3.0}, **said)
        busy_s = next(log.told[name] for name in log.told if name.startswith("utilisation.tower")) * rounds[-1].closed_s
        assert log.told["energy_J"] == pytest.approx(3.0 * busy_s, rel=1e-9)
        assert busy_s > 0


class TestTheWayDown:
    @pytest.mark.parametrize(("mode", "each"), [("multicast", USERS), ("unicast", 1)])
    def test_listening_lasts_as_long_as_what_is_sent_to_one(self, mode, each):
        said = {
            "broadcast_rate": None,
            "downlink": {"mode": mode, "max_attempts": 2},
            "topology": {"kind": "star", "radius": 900},
        }
        said |= {"round": {"kind": "first", "deadline": "20 s"}}
        said |= {"channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}]}
        rounds, log, _ = play(energy={"receive": 0.25}, **said)
        on_air_s = sum(one.downlink_bits for one in rounds) / UP_BPS
        assert on_air_s > 0
        assert log.told["energy_J"] == pytest.approx(0.25 * each * on_air_s, rel=1e-9)

    def test_who_is_cut_off_does_not_listen(self):
        said = {"broadcast_rate": None, "downlink": {"mode": "multicast"}, "outages": OUTAGES}
        rounds, log, _ = play(energy={"receive": 0.25}, round={"kind": "first", "deadline": "20 s"}, **said)
        on_air_s = sum(one.downlink_bits for one in rounds) / UP_BPS
        towers = 4
        assert 0 < log.told["energy_J"] < 0.25 * USERS * on_air_s / towers


class TestByRounds:
    @pytest.mark.parametrize("world", WORLDS)
    @pytest.mark.quick_first
    def test_what_is_spent_by_the_end_of_a_round_is_what_a_run_of_so_many_rounds_spends(self, world):
        said = copy.deepcopy(WORLDS[world])
        rounds, _, _ = play(energy=ENERGY, **copy.deepcopy(said))
        by_round = [one.energy_j for one in rounds]
        assert by_round == sorted(by_round)
        for count in (1, 4, 15):
            _, log, _ = play(rounds=count, energy=ENERGY, **copy.deepcopy(said))
            assert by_round[count - 1] == pytest.approx(log.told["energy_J"], rel=1e-12)


class TestBesideTheRest:
    @pytest.mark.parametrize("world", [*WORLDS, "multicast"])
    @pytest.mark.quick_first
    def test_counting_changes_nothing(self, world):
        multicast = {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}, "outages": OUTAGES}
        said = WORLDS.get(world, multicast)
        rounds, log, _ = play(**copy.deepcopy(said))
        again, other, _ = play(energy=ENERGY, **copy.deepcopy(said))
        assert [replace(one, energy_j=None) for one in again] == rounds
        assert other.rows == log.rows
        new = {name for name in other.told if name not in log.told}
        assert new == {name for name in other.told if name.startswith("energy_")}
        assert {name: other.told[name] for name in log.told} == log.told
        assert log.spendings == {}

    def test_a_battery_of_the_same_figures_is_drained_as_much(self, monkeypatch):
        """It takes trainings whole, as they begin; all else is the same: per bit it is the power over the rate."""
        opened, real = [], Battery.open
        monkeypatch.setattr(Battery, "open", lambda *told: opened.append(real(*told)) or opened[-1])
        costs = {"per_training": 0.3, "per_sample": 0.02, "idle": 0.004}
        battery = {"kind": "battery", "capacity": "1 MJ", "per_bit": 0.25 / UP_BPS} | costs
        energy = costs | {"transmit": 0.25}
        rounds, log, _ = play(energy=energy, outages=[battery])
        spent, end_s = log.spendings, rounds[-1].closed_s
        drained_j = 1e6 - opened[-1].charge_j(np.arange(USERS), end_s)
        cut_j = (spent["begun"] - spent["trained"]) * SAMPLES * 0.02
        assert drained_j == pytest.approx(spent["energy_J"] + cut_j, rel=1e-7)
        assert cut_j.sum() > 0

    @pytest.mark.slow
    def test_traffic_alone(self):
        """Every packet of 1000 bits is on the air for 50 ms, again and again until it is through."""
        traffic = {"kind": "poisson", "rate": 0.2, "size": {"distribution": "fixed", "mean": 1000.0}}
        unsaid = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"))
        access = NetworkAccess.model_validate(
            copy.deepcopy(PLAIN) | unsaid | {"traffic": traffic, "energy": {"efficiency": 0.5, "idle": 0.01}}
        )
        log = Memory()
        for warmup_s in (0.0, 100.0):
            setting = AccessContext(
                USERS, 10, 0, Streams(2), np.zeros(USERS), 0, 0, log, duration_s=500.0, warmup_s=warmup_s
            )
            windows = [*access.rounds(setting)]
            assert log.told["energy_idle_J"] == pytest.approx(0.01 * (500 - warmup_s) * USERS)
            if not warmup_s:
                airtime_s = sum(one.uplink_bits for one in windows) / UP_BPS
                assert log.told["energy_send_J"] == pytest.approx(0.2 * airtime_s, rel=1e-9)
            assert log.told["energy_send_J"] == pytest.approx(0.2 * 0.05 * log.told["attempts"], abs=0.2 * 0.05 * 8)
            assert "energy_per_delivery_J" not in log.told


def scenario(**said):
    raw = {"name": "spending", "users": USERS, "rounds": 6, "replicas": 2, "seed": 4, "record": "none"}
    return validate(
        ScenarioDocument(raw | said | {"access": {"kind": "network"} | copy.deepcopy(PLAIN) | {"energy": ENERGY}})
    )


class TestTheTable:
    def test_one_row_for_each_user_that_adds_up_to_the_figures(self, tmp_path):
        run = netfl.trace(scenario(), tmp_path / "run")
        assert len(run.energy) == 2 * USERS
        sums = run.energy.groupby("replica")["energy_J"].sum()
        figures = run.final_metrics[run.final_metrics["metric"] == "energy_J"].set_index("replica")["value"]
        assert sums.to_numpy() == pytest.approx(figures.to_numpy())
        assert run.summary["energy_J"] == pytest.approx(sums.mean())
        parts = run.energy[["train_J", "send_J", "receive_J", "idle_J"]].sum(axis=1)
        assert run.energy["energy_J"].to_numpy() == pytest.approx(parts.to_numpy())

    @pytest.mark.slow
    def test_replicas_that_are_added_spend_what_they_would_have(self, tmp_path):
        netfl.trace(scenario(), tmp_path / "two")
        whole = netfl.trace(scenario(replicas=4), tmp_path / "four")
        assert netfl.extend(tmp_path / "two", 4).energy.equals(whole.energy)

    def test_there_is_none_where_nobody_counts(self, tmp_path):
        raw = {"name": "free", "users": 5, "rounds": 2, "access": {"kind": "network"} | PLAIN}
        run = netfl.trace(validate(ScenarioDocument(raw)), tmp_path / "run")
        assert run.energy.empty
        assert not [*run.folder.glob("energy*")]
        assert not [name for name in run.summary if name.startswith("energy")]


def faults(energy, *, timed=False, **said):
    """What is wrong with the energy of the plain network, with some keys said otherwise."""
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said | {"energy": energy})
    told = ScenarioFacts(users=USERS, rounds=5, duration_s=60.0 if timed else None)
    found = nested_faults(access, "access", told)
    return {fault.key.removeprefix("access.energy."): fault for fault in found if "energy" in fault.key}


class TestFaults:
    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            ({"transmit": 1, "efficiency": 0.5}, "only one of"),
            ({"transmit": 1, "devices": {"phone": {"transmit": 1, "efficiency": 0.5}}}, "only one of"),
            ({"efficiency": 0}, "greater than 0"),
            ({"efficiency": 1.2}, "less than or equal to 1"),
            ({"idle": -1}, "greater than or equal to 0"),
            ({"transmit": "3 J"}, "J"),
        ],
    )
    def test_what_cannot_be(self, said, problem):
        with pytest.raises(ValidationError, match=problem):
            Energy.model_validate(said)

    def test_a_device_that_there_is_not(self):
        found = faults({"idle": 1, "devices": {"phones": {"idle": 2}, "board": {"idle": 3}}})
        assert [*found] == ["devices.phones"]
        assert "did you mean 'phone'?" in found["devices.phones"].remedy
        assert [*faults({"idle": 1, "devices": {"board": {"idle": 3}}}, compute={"speed": 1})] == ["devices.board"]

    def test_a_radio_for_the_efficiency(self):
        bare = {"radio": None, "reception": None, "channel": [], "mac": {"kind": "csma_ca", "standard": "802.11a"}}
        energy = {"efficiency": 0.5, "devices": {"board": {"efficiency": 0.1}}}
        assert [*faults(energy, **bare)] == ["efficiency", "devices.board.efficiency"]
        assert faults({"transmit": 0.5}, **bare) == faults(energy) == {}

    @pytest.mark.parametrize("power", [1001.0, 1e6, 1e300])
    def test_a_power_whose_energy_is_past_all_numbers(self, power):
        said = copy.deepcopy(PLAIN) | {"radio": PLAIN["radio"] | {"power": power}}
        with pytest.raises(ValidationError, match=r"radio\.power\n  should be less than or equal to 1000"):
            NetworkAccess.model_validate(said)

    def test_what_has_no_effect_with_a_duration(self):
        unsaid = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"))
        traffic = {"kind": "poisson", "rate": 1, "size": {"distribution": "fixed", "mean": 1000.0}}
        energy = {"per_training": 1, "per_sample": 1, "receive": 1, "transmit": 1, "idle": 1}
        found = faults(energy, timed=True, traffic=traffic, **unsaid)
        assert {*found} == {"per_training", "per_sample", "receive"}
        assert all(fault.remedy for fault in found.values())
        assert {*faults({"transmit": 1}, timed=True, traffic=traffic | {"source": "towers"}, **unsaid)} == {"transmit"}
        assert "devices.phone" in faults({"idle": 1, "devices": {"phone": {"idle": 2}}}, timed=True, **unsaid)

    def test_it_round_trips(self):
        model = Energy.model_validate(ENERGY)
        assert Energy.model_validate(model.model_dump(mode="json")) == model
