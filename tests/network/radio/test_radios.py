"""Radios by user, by class of devices and by tower: each reader of the radio uses that of the link."""

import dataclasses

import numpy as np
import pytest
from support.small_network import PLAIN, make, play

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.least_time import least_times
from netfl.network.radio.radios import Radio
from netfl.network.radio.user_bands import UserBands
from netfl.network.reception.mcs import Mcs
from netfl.network.reception.shannon import Shannon
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import ScenarioFacts

USERS = 4
SETTINGS = {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB", "antenna_gain": "2 dB"}
LOSS = [{"kind": "constant", "gain": "-120 dB"}]
FADES = [*LOSS, {"kind": "rayleigh", "coherence": "500 ms"}]
TWO_TOWERS = {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "300 m", "rate": "1 Gbps", "delay": 0}
BUSY = {
    "channel": FADES,
    "mac": {"kind": "slotted_aloha", "probability": 0.3},
    "compute": {"speed": [1.0, 0.7, 0.9, 0.8], "samples": 1},
    "round": {"kind": "first", "m": 2, "deadline": "30 s"},
    "unreachable": "keep",
    "energy": {"efficiency": 0.3},
}


def as_lists(radio, users=USERS):
    """Return a radio with the same value of each setting in a list."""
    return {key: [value] * users for key, value in radio.items()}


def snr_db(radio, users=USERS, channel=LOSS, **overrides):
    """Return the SNR of each user at time 0."""
    access, context, _ = make(users, 1, radio=radio, channel=channel, **overrides)
    layout = build_layout(access, context)
    return open_budget(access, context, layout).snr_db(np.arange(users), 0.0)


def errors(radio, users=USERS, **overrides):
    """Return the keys of the errors of a network with *radio*, with their texts."""
    access = NetworkAccess.model_validate(PLAIN | {"radio": radio} | overrides)
    return {fault.key: str(fault) for fault in nested_faults(access, "", ScenarioFacts(users, 1))}


@pytest.mark.parametrize(
    "overrides",
    [
        {"interference": "sinr"},
        {"interference": {"kind": "capture", "margin": "3 dB"}},
        {"reception": {"kind": "mcs", "standard": "lte"}, "mac": {"kind": "round_robin"}},
        {"reception": {"kind": "shannon"}, "mac": {"kind": "fdma"}},
        {"broadcast_rate": None, "downlink": {"mode": "unicast", "power": "20 dBm"}},
        {
            "topology": TWO_TOWERS,
            "shared_air": True,
            "interference": "sinr",
            "mac": {"kind": "pure_aloha", "backoff": 3},
        },
    ],
    ids=["sinr", "capture", "modes", "shares", "downlink", "cells"],
)
def test_equal_radios_by_list_give_the_same_bits(overrides):
    """Equal values for each user, and those of the towers for each tower, are one radio."""
    number = SETTINGS | {"tower": {"noise_figure": "6 dB"}}
    by_list = as_lists(SETTINGS) | {"tower": {"noise_figure": "6 dB"}}
    runs = []
    for radio in (number, by_list):
        rounds, log = play(USERS, 4, radio=radio, **BUSY | overrides)
        runs.append(([dataclasses.astuple(each) for each in rounds], log.rows))
    assert repr(runs[0]) == repr(runs[1])
    assert runs[0][1], "something happens"


def test_more_power_is_less_path_loss():
    """6 dB more power of user 1, or 6 dB of antenna gain, are 6 dB more of its channel's gain."""
    plain_db = snr_db(SETTINGS)
    assert snr_db(SETTINGS | {"power": ["14 dBm", "20 dBm", "14 dBm", "14 dBm"]}) - plain_db == pytest.approx(
        [0, 6, 0, 0]
    )
    assert snr_db(SETTINGS | {"antenna_gain": ["2 dB", "8 dB", "2 dB", "2 dB"]}) - plain_db == pytest.approx(
        [0, 6, 0, 0]
    )
    assert snr_db(SETTINGS | {"tower": {"antenna_gain": "6 dB"}}) - plain_db == pytest.approx([6] * 4)
    assert plain_db == pytest.approx([14 + 2 - 120 + 174 - 10 * np.log10(125e3) - 6] * 4)


@pytest.mark.parametrize("interference", ["sinr", {"kind": "capture", "margin": "3 dB"}], ids=["sinr", "capture"])
def test_run_with_more_power_is_that_with_less_path_loss(interference):
    """User 1 sends 6 dB stronger, or is nearer by the factor 10^(-6 / 30); all else is equal."""
    far_m, near_m = 200.0, 200.0 * 10 ** (-6 / 30)
    loss = [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "1 s"}]
    cells = (
        {"radio": SETTINGS | {"power": ["0 dBm", "6 dBm", "0 dBm", "0 dBm"]}, "distances": [far_m] * 4},
        {"radio": SETTINGS | {"power": "0 dBm"}, "distances": [far_m, near_m, far_m, far_m]},
        {"radio": SETTINGS | {"power": "0 dBm"}, "distances": [far_m] * 4},
    )
    outcomes = []
    for cell in cells:
        star = {"kind": "star", "distances": cell["distances"], "rate": "1 Gbps", "delay": 0}
        change = {"channel": loss, "topology": star, "radio": cell["radio"], "interference": interference}
        rounds, _ = play(USERS, 25, **BUSY | change)
        outcomes.append([(each.user, each.base, each.arrived_s) for round_ in rounds for each in round_.deliveries])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != outcomes[2]


def test_noise_is_that_of_the_user_s_band():
    """The noise follows the bandwidth; NF is that of the tower, which receives."""
    plain_db = snr_db(SETTINGS)
    narrow_db = snr_db(SETTINGS | {"bandwidth": ["125 kHz", "12.5 kHz", "250 kHz", "1.25 MHz"]})
    assert narrow_db - plain_db == pytest.approx([0, 10, -10 * np.log10(2), -10])
    assert snr_db(SETTINGS | {"tower": {"noise_figure": "1 dB"}}) - plain_db == pytest.approx([5] * 4)
    towers = {"towers": {"tower:1": {"noise_figure": "9 dB", "antenna_gain": "5 dB"}}}
    plain_db, other_db = (snr_db(SETTINGS | radio, topology=TWO_TOWERS) for radio in ({}, towers))
    access, context, _ = make(USERS, 1, topology=TWO_TOWERS)
    is_at_other = build_layout(access, context).tower_at_start == 1
    assert 0 < is_at_other.sum() < USERS
    assert other_db - plain_db == pytest.approx(np.where(is_at_other, 2.0, 0.0))


def test_interference_at_another_tower_has_that_tower_s_radio():
    radio = SETTINGS | {"power": [f"{10 + user} dBm" for user in range(USERS)]}
    radio |= {"towers": {"tower:1": {"noise_figure": "9 dB", "antenna_gain": "5 dB"}}}
    access, context, _ = make(USERS, 1, topology=TWO_TOWERS, radio=radio, channel=LOSS)
    budget = open_budget(access, context, build_layout(access, context))
    users = np.arange(USERS)
    base_db = 10 + users + 2 - 120 + 174 - 10 * np.log10(125e3)
    assert budget.snr_db(users, 0.0, "tower:0") == pytest.approx(base_db - 6)
    assert budget.snr_db(users, 0.0, "tower:1") == pytest.approx(base_db - 9 + 5)


def test_interference_in_bands_of_different_width():
    """A narrow signal falls into a wide band whole; of a wide one, a tenth of the power into a tenth of the band."""
    access, context, _ = make(2, 1, radio=SETTINGS | {"bandwidth": ["1 MHz", "100 kHz"]}, channel=LOSS)
    budget = open_budget(access, context, build_layout(access, context))
    weights = budget.power_in_band(np.array([0, 1]), np.array([0, 1]))
    # in the wide band the noise is ten times that to which the narrow signal's SNR refers
    assert weights == pytest.approx(np.array([[1.0, 0.1], [1.0, 1.0]]))
    snr = 10 ** (budget.snr_db(np.arange(2), 0.0) / 10)
    power_mw = 10 ** ((14 + 2 - 120) / 10)
    noise_mw = 10 ** ((-174 + 6) / 10) * np.array([1e6, 1e5])
    in_band_mw = np.array([power_mw, 0.1 * power_mw])  # interference in the band of 0 and of 1
    assert weights[[0, 1], [1, 0]] * snr[[1, 0]] == pytest.approx(in_band_mw / noise_mw)
    assert make(2, 1)[0].radio.common_bandwidth_hz == 125e3


def test_medium_adds_interference_in_the_band_of_each_user():
    """Two users at once: S / (N + I) of the wide user is near 1, and that of the narrow one near 10."""
    for bandwidth, received in ((["1 MHz", "100 kHz"], {1}), (["1 MHz", "1 MHz"], set())):
        rounds, _ = play(
            2, 1, radio=SETTINGS | {"bandwidth": bandwidth}, channel=[{"kind": "constant", "gain": "0 dB"}],
            mac={"kind": "slotted_aloha", "probability": 1.0, "max_attempts": 1}, interference="sinr",
            reception={"kind": "snr_threshold", "threshold": "6 dB", "rate": "1 kbps"},
            round={"kind": "first", "m": 2, "deadline": "9 s"},
        )  # fmt: skip
        assert {delivery.user for delivery in rounds[0].deliveries} == received


@pytest.mark.parametrize("reception", [Mcs(standard="lte"), Shannon()], ids=["modes", "capacity"])
def test_reception_gets_the_band_of_each_user(reception):
    """Each user is judged as if all had its bandwidth."""
    bands_hz = np.array([180e3, 720e3, 180e3, 360e3])
    users, levels_db = np.array([3, 1, 0, 2]), np.array([12.0, 3.0, 25.0, 7.0])
    bands = UserBands(reception, bands_hz)
    for place, user in enumerate(users):
        alone = UserBands(reception, float(bands_hz[user]))
        at = slice(place, place + 1)
        rates_bps = alone.expected_rates_bps(users[at], levels_db[at])
        assert bands.expected_rates_bps(users, levels_db)[place] == rates_bps[0]
        assert np.broadcast_to(bands.threshold_db(users, 1e3), 4)[place] == alone.threshold_db(users[at], 1e3)
        if not reception.follows_snr:
            chances = bands.success(users, levels_db, 1e3, 2), alone.success(users[at], levels_db[at], 1e3, 2)
            assert chances[0][place] == chances[1][0]
            assert bands.choose(users, levels_db)[place] == alone.choose(users[at], levels_db[at])[0]


def test_airtime_follows_the_user_s_band():
    """In a quarter of the band, the fastest mode has a quarter of the rate."""
    lte = Mcs(standard="lte")
    rates_bps = np.array([lte.rate_bps(band_hz, lte.modes - 1) for band_hz in (40e3, 10e3)])
    access, context, _ = make(
        2,
        1,
        radio={"power": "60 dBm", "bandwidth": ["40 kHz", "10 kHz"]},
        mac={"kind": "round_robin"},
        reception={"kind": "mcs", "standard": "lte"},
        round={"kind": "first", "m": 2},
    )
    rounds = list(access.rounds(context))
    arrived_s = sorted(delivery.arrived_s for delivery in rounds[0].deliveries)
    airtimes_s = 1000.0 / rates_bps
    assert airtimes_s[1] == pytest.approx(4 * airtimes_s[0])
    trained_s = 1.0
    assert arrived_s[1] - trained_s == pytest.approx(airtimes_s.sum(), abs=1e-5)
    assert np.abs(arrived_s[0] - trained_s - airtimes_s).min() < 1e-5, "either is first"
    assert least_times(access, context, at_best=True).airtime_s == pytest.approx(airtimes_s)
    slowest_bps = min(lte.rate_bps(10e3, mode) for mode in range(lte.modes))
    assert min(access.air_rates_bps) == slowest_bps
    assert max(access.air_rates_bps) == rates_bps[0]
    medium = build_network(access, context).medium
    assert medium.longest_s(1000.0) == pytest.approx(1000.0 / slowest_bps)
    assert medium.longest_s(1000.0) == pytest.approx(4 * medium.longest_s(1000.0, np.array([0])))


def test_classes_and_towers_have_their_own_radios():
    radio = SETTINGS | {
        "devices": {"watch": {"power": "4 dBm", "bandwidth": "25 kHz"}, "phone": {"antenna_gain": "5 dB"}},
        "tower": {"antenna_gain": "10 dB"}, "towers": {"tower:0": {"noise_figure": "1 dB"}},
    }  # fmt: skip
    devices = {"watch": {"users": [1], "speed": 1}, "phone": {"users": [0, 2, 3], "speed": 2}}
    access, context, _ = make(USERS, 1, radio=radio, compute={"devices": devices, "samples": 1})
    radios = open_budget(access, context, build_layout(access, context)).radios
    assert radios.power_dbm.tolist() == [14, 4, 14, 14]
    assert radios.bandwidth_hz.tolist() == [125e3, 25e3, 125e3, 125e3]
    assert radios.gain_db.tolist() == [5, 2, 5, 5]
    assert radios.tower_noise_figure_db.tolist() == [1]
    assert radios.tower_gain_db.tolist() == [10]
    columns = access.user_columns(context)
    assert columns["power_dBm"].tolist() == [14, 4, 14, 14]
    assert columns["bandwidth_Hz"].tolist() == [125e3, 25e3, 125e3, 125e3]
    assert columns["antenna_gain_dB"].tolist() == [5, 2, 5, 5]
    assert "noise_figure_dB" not in columns, "it is one for all"


def test_energy_is_that_of_each_user_s_power():
    """10 dB more power at one efficiency costs ten times as much for the same airtime."""
    radio = {"power": ["20 dBm", "30 dBm"], "bandwidth": "125 kHz"}
    access, context, _ = make(2, 1, radio=radio, energy={"efficiency": 0.5})
    meter = build_network(access, context).energy
    meter.send(np.arange(2), 3.0)
    assert meter.by_user_j(3.0) == pytest.approx([3 * 0.1 / 0.5, 3 * 1.0 / 0.5])


def test_downlink_has_the_tower_s_power_and_the_user_s_noise():
    """SNR down: P_t - 120 - noise(NF of the user); up: P_u - 120 - noise(NF of the tower)."""
    radio = {"power": ["10 dBm", "20 dBm"], "bandwidth": "125 kHz", "noise_figure": ["7 dB", "3 dB"]}
    radio |= {"tower": {"noise_figure": "2 dB", "power": "30 dBm", "antenna_gain": "9 dB"}}
    access, context, _ = make(2, 1, radio=radio, channel=LOSS, broadcast_rate=None, downlink={"mode": "unicast"})
    assert not errors(radio, 2, channel=LOSS, broadcast_rate=None, downlink={"mode": "unicast"})
    budget = open_budget(access, context, build_layout(access, context))
    thermal_dbm = -174 + 10 * np.log10(125e3)
    down_db = budget.snr_db(np.arange(2), 0.0) + budget.downlink_boost(None).of(np.arange(2), "tower:0")
    assert down_db == pytest.approx(30 + 9 - 120 - thermal_dbm - np.array([7.0, 3.0]))
    boost = build_network(access, context).service.boost
    assert boost.of(np.array([1, 0]), "tower:0") == pytest.approx([30 - 20 + 2 - 3, 30 - 10 + 2 - 7])


@pytest.mark.parametrize(("threshold", "received"), [("20 dB", {0, 1}), ("26 dB", {1}), ("32 dB", set())])
def test_versions_reach_users_by_the_noise_of_each(threshold, received):
    """The signal of the tower has 30 + 9 - 100 + 123.03 - NF = 62.03 - NF dB; NF is 40 and 33 dB."""
    radio = {"power": "60 dBm", "bandwidth": "125 kHz", "noise_figure": ["40 dB", "33 dB"]}
    radio |= {"tower": {"noise_figure": "0 dB", "power": "30 dBm", "antenna_gain": "9 dB"}}
    rounds, _ = play(
        2, 1, radio=radio, channel=[{"kind": "constant", "gain": "-100 dB"}], broadcast_rate=None, unreachable="keep",
        downlink={"mode": "multicast"}, reception={"kind": "snr_threshold", "threshold": threshold, "rate": "1 kbps"},
        round={"kind": "first", "m": 2, "deadline": "30 s"},
    )  # fmt: skip
    assert {delivery.user for delivery in rounds[0].deliveries} == received


@pytest.mark.parametrize(
    "radio",
    [
        {"power": {"distribution": "uniform", "low": "10 dBm", "high": "20 dBm"}, "bandwidth": 1e5},
        {"power": {"distribution": "normal", "mean": "14 dBm", "std": "3 dB"}, "bandwidth": 1e5},
        {"power": 14, "bandwidth": {"distribution": "uniform", "low": "100 kHz", "high": "1 MHz"}},
        {"power": 14, "bandwidth": 1e5, "noise_figure": {"distribution": "uniform", "low": "3 dB", "high": "9 dB"}},
        {"power": 14, "bandwidth": 1e5, "antenna_gain": {"distribution": "normal", "mean": "0 dB", "std": "4 dB"}},
    ],
)
def test_drawn_settings_have_their_distribution(radio):
    assert check_laws(Radio(**radio), Streams(5), 4000) == []


def test_draws_depend_on_the_user_alone():
    """Users keep their draws when others are added, or have a class with a number of its own."""
    drawn = SETTINGS | {"power": {"distribution": "normal", "mean": "14 dBm", "std": "3 dB"}}
    few, many = (snr_db(drawn, users) for users in (4, 9))
    assert many[:4].tolist() == few.tolist()
    assert len(set(many.tolist())) == 9
    devices = {"watch": {"users": [1], "speed": 1}, "phone": {"users": [0, 2, 3], "speed": 2}}
    classes = drawn | {"devices": {"watch": {"power": "0 dBm"}}}
    mixed = snr_db(classes, compute={"devices": devices, "samples": 1})
    assert mixed[[0, 2, 3]].tolist() == few[[0, 2, 3]].tolist()
    assert mixed[1] != few[1]


def test_levels_are_written_with_their_units_and_read_again():
    """A dumped radio is the same one, in each form of a setting."""
    forms = {
        "power": ["10 dBm", "12 dBm"],
        "noise_figure": {"distribution": "uniform", "low": "3 dB", "high": "9 dB"},
        "bandwidth": "1 MHz",
        "tower": {"noise_figure": "3 dB"},
    }
    radio = Radio(**forms)
    dumped = radio.model_dump(mode="json")
    assert dumped["power"] == ["10.0 dBm", "12.0 dBm"]
    assert dumped["noise_figure"] == {"distribution": "uniform", "low": "3.0 dB", "high": "9.0 dB"}
    assert dumped["bandwidth"] == 1e6
    assert Radio(**dumped) == radio


DEVICES = {"devices": {"watch": {"share": 1.0, "speed": 1}}, "samples": 1}


@pytest.mark.parametrize(
    ("radio", "overrides", "key", "words"),
    [
        ({"power": ["1 dBm"] * 3}, {}, "radio.power", "3 values for 4 users … give one number, or 4 of them"),
        ({"bandwidth": [1e5] * 5}, {}, "radio.bandwidth", "5 values for 4 users"),
        ({"devices": {"wacht": {"power": "1 dBm"}}}, {"compute": DEVICES}, "radio.devices.wacht", "watch"),
        ({"devices": {"watch": {"power": "1 dBm"}}}, {}, "radio.devices.watch", "no device of that name"),
        ({"noise_figure": ["1 dB", "2 dB", "3 dB", "4 dB"]}, {"broadcast_rate": None,
         "downlink": {"mode": "multicast"}}, "radio.tower.noise_figure", "missing"),
        ({"noise_figure": ["1 dB", "2 dB", "3 dB", "4 dB"], "tower": {"noise_figure": "3 dB"}}, {},
         "radio.noise_figure", "has no effect by user without a downlink"),
        ({"noise_figure": "6 dB", "tower": {"noise_figure": "3 dB"}}, {},
         "radio.noise_figure", "has no effect beside radio.tower.noise_figure and without a downlink"),
        ({"power": ["1 dBm", "2 dBm", "3 dBm", "4 dBm"]}, {"broadcast_rate": None, "downlink": {"mode": "multicast"}},
         "downlink.power", "missing"),
        ({"tower": {"power": "30 dBm"}}, {"broadcast_rate": None, "downlink": {"mode": "unicast", "power": "20 dBm"}},
         "radio.tower.power", "given twice"),
        ({"tower": {"power": "30 dBm"}}, {}, "radio.tower.power", "has no effect without a downlink"),
        ({"bandwidth": [1e5, 2e5, 1e5, 1e5]}, {"mac": {"kind": "fdma", "division": "blocks",
         "interference": ["-60 dBm", "-50 dBm"]}, "allocation": {"kind": "block_assignment", "weights": "equal",
         "deadline": "1 s", "budget": "1 J"}, "energy": {"transmit": "1 W"}}, "radio.bandwidth", "equal radios"),
        ({"bandwidth": [1e5, 2e5, 1e5, 1e5]}, {"broadcast_rate": None, "downlink": {"mode": "multicast",
         "power": "20 dBm"}}, "downlink.mode", "take unicast"),
        ({"bandwidth": [125e3, 2e5, 125e3, 125e3]}, {"mac": {"kind": "lorawan"}, "reception": {"kind": "lora"},
         "update_size": "30 B"}, "mac", "the radio's is from 125000 to 200000 Hz"),
    ],
)  # fmt: skip
def test_error_of_a_radio(radio, overrides, key, words):
    found = errors(SETTINGS | radio, **overrides)
    assert [*found] == [key], found
    for part in words.split(" … "):
        assert part in found[key]


@pytest.mark.parametrize(
    ("radio", "key"),
    [
        ({"bandwidth": [1e5, 0.0]}, "bandwidth.1"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": {"distribution": "uniform", "low": 0, "high": 1e5}}, "bandwidth.low"),
        ({"noise_figure": [1.0, -1.0]}, "noise_figure.1"),
        ({"power": {"distribution": "normal", "mean": 14.0}}, "power.std"),
        ({"power": {"distribution": "uniform", "low": 14.0, "high": 10.0}}, "power"),
        ({"power": "20 kHz"}, "power"),
    ],
)
def test_value_of_a_radio_is_refused(radio, key):
    with pytest.raises(ScenarioError) as error:
        Radio(**{"power": 14.0, "bandwidth": 1e5} | radio)
    assert [fault.key for fault in error.value.faults] == [f"Radio.{key}"]


def test_unknown_tower_is_an_error_of_the_network():
    access, context, _ = make(USERS, 1, radio=SETTINGS | {"towers": {"tower:7": {"noise_figure": "3 dB"}}})
    with pytest.raises(ScenarioError) as error:
        build_network(access, context)
    (fault,) = error.value.faults
    assert fault.key == "radio.towers.tower:7"
    assert "tower:0" in fault.remedy


def test_snrs_of_a_file_need_one_radio(tmp_path):
    """An SNR was measured with one radio; a gain holds for all."""
    for quantity, is_refused in (("snr_db", True), ("gain_db", False)):
        path = tmp_path / f"{quantity}.csv"
        path.write_text(f"user,time_s,{quantity}\n" + "".join(f"{user},0,-10\n{user},9,-10\n" for user in range(2)))
        channel = [{"kind": "trace", "file": str(path), "after_end": "hold"}]
        access, context, _ = make(2, 1, radio=SETTINGS | {"power": ["10 dBm", "20 dBm"]}, channel=channel)
        if not is_refused:
            open_budget(access, context, build_layout(access, context))
            continue
        with pytest.raises(ScenarioError) as error:
            open_budget(access, context, build_layout(access, context))
        (fault,) = error.value.faults
        assert fault.key == "channel.0"
        assert "one radio" in fault.problem


def test_weak_user_is_named_by_its_own_threshold():
    """User 1 has the better SNR, in a narrow band, but users have one threshold here: user 0 is the worst."""
    access, context, _ = make(2, 1, radio=SETTINGS | {"power": ["-30 dBm", "14 dBm"]}, channel=LOSS)
    with pytest.raises(ScenarioError) as error:
        build_network(access, context)
    (fault,) = error.value.faults
    assert (fault.key, fault.value) == ("channel", [0])
