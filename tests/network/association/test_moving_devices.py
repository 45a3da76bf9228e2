"""Devices that change their towers: what they know of their own sending goes along, whatever the MAC."""

import numpy as np
import pandas as pd
import pytest
from support.roaming_networks import Shuttle
from support.small_network import make

from netfl.network.build import build_network
from netfl.network.rate_adaptation import RateLink
from netfl.network.rate_adaptation.arf import Arf
from netfl.network.simulator import NetworkSimulator
from netfl.streams import Streams

USERS = 9
STEP_S = 0.61
TOWERS = {
    "kind": "tree",
    "fanout": [3],
    "ring": "100 m",
    "radius": "100 m",
    "rate": "1 Mbps",
    "delay": "5 ms",
}
LORA = {
    "topology": TOWERS,
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-80 dB"}],
    "reception": "lora",
    "update_size": "20 B",
    "round": {"kind": "first", "m": USERS, "deadline": "90 s"},
    "on_new_version": "finish",
    "staleness": 50,
    "compute": {"speed": 1.0, "samples": 1, "jitter": 0.5},
}


def shuttle(until_s=2000.0, step_s=STEP_S):
    """Return an association by which each user goes to the next tower every *step_s*."""
    times = tuple((step_s * np.arange(1, int(until_s / step_s))).tolist())
    return Shuttle(times=times, moves="any_time")


def roam(rounds, mac, seed=1, **overrides):
    """Return the simulator of a network whose users roam, its attempts in the order of their starts, and its events."""
    access, context, log = make(USERS, rounds, seed, **LORA | {"mac": mac, "association": shuttle()} | overrides)
    simulator = NetworkSimulator(build_network(access, context), context.streams, context.recorder)
    list(simulator.rounds(rounds))
    attempts = pd.concat([pd.DataFrame(part) for part in log.attempts], ignore_index=True)
    return simulator, attempts.sort_values("start_s", kind="stable", ignore_index=True), log


def pauses(attempts):
    """Return the time from the end of each attempt to the start of the next of its user, and its airtime."""
    by_user = attempts.groupby("user")
    pause_s = by_user["start_s"].shift(-1) - attempts["end_s"]
    is_followed = pause_s.notna()
    return pause_s[is_followed].to_numpy(), attempts["airtime_s"][is_followed].to_numpy()


ANSWERED = {"kind": "lorawan", "spreading_factor": 7, "acknowledgements": {}}


@pytest.mark.parametrize("receivers", ["own", "all"])
def test_a_device_may_move_between_its_uplink_and_the_answer(receivers):
    """The gateway that has received the uplink answers it, and the device takes the answer wherever it is then."""
    mac = ANSWERED | {"acknowledgements": {"duty_cycle": 1, "second_duty_cycle": 1}}
    simulator, attempts, _ = roam(4, mac, receivers=receivers)
    assert simulator.membership.moved > 100
    received = attempts[attempts["outcome"] == "received"]
    assert len(received) > 3 * USERS
    assert not received.duplicated(["user", "base"]).any(), "all are answered, so that none is repeated"


def test_a_device_keeps_its_spreading_factor():
    mac = {"kind": "lorawan", "spreading_factor": "random", "version": "1.0.4"}
    _, attempts, _ = roam(6, mac)
    _, still, _ = roam(6, mac, association=Shuttle(times=()))
    modes = attempts.groupby("user")["mode"].unique()
    assert [len(each) for each in modes] == [1] * USERS
    assert len({each[0] for each in modes}) > 2
    assert modes.str[0].tolist() == still.groupby("user")["mode"].first().tolist()


@pytest.mark.parametrize("acknowledgements", [None, {}])
def test_a_duty_cycle_goes_along(acknowledgements):
    mac = {"kind": "lorawan", "spreading_factor": 7, "acknowledgements": acknowledgements}
    simulator, attempts, _ = roam(6, mac)
    pause_s, airtime_s = pauses(attempts)
    assert simulator.membership.moved > 200
    assert len(pause_s) > 40
    assert (pause_s >= 99.0 * airtime_s - 1e-9).all(), "1 % of the time"


def test_a_time_out_and_the_data_rate_go_along():
    """Each of 8 attempts waits for its windows, 2 s, and an ACK_TIMEOUT of 1 to 3 s; two of them have one data rate."""
    bands = [{"channels": 100, "duty_cycle": 1}]
    mac = {"kind": "lorawan", "spreading_factor": 7, "sub_bands": bands, "version": "1.0.3"}
    weak = [{"kind": "constant", "gain": "-170 dB"}]
    simulator, attempts, _ = roam(4, mac, channel=weak, unreachable="keep")
    assert simulator.membership.moved > 200
    of_update = attempts.groupby(["user", "base"])
    complete = of_update.filter(lambda rows: len(rows) == 8)
    assert len(complete) > 8 * 2 * USERS
    wait_s = (complete["start_s"] - complete.groupby(["user", "base"])["end_s"].shift(1)).dropna()
    assert wait_s.between(3.0, 5.0).all()
    assert (complete.groupby(["user", "base"])["mode"].apply(list).map(tuple) == (0, 0, 1, 1, 2, 2, 3, 3)).all()


@pytest.mark.parametrize("receivers", ["own", "all"])
def test_a_repeat_goes_along(receivers):
    """An uplink that was received, but not answered, is repeated 8 times, from whatever tower its device has."""
    bands = [{"channels": 100, "duty_cycle": 1}]
    silent = {"duty_cycle": 1e-9, "second_duty_cycle": 1e-9}
    mac = {"kind": "lorawan", "spreading_factor": 7, "sub_bands": bands, "acknowledgements": silent}
    slow = {"compute": {"speed": 0.01, "samples": 1, "jitter": 0.5}, "round": {"kind": "first", "m": USERS}}
    simulator, attempts, _ = roam(3, mac, receivers=receivers, **slow)
    assert simulator.membership.moved > 200
    numbers = attempts[attempts["base"] < 2].groupby(["user", "base"]).size()
    assert numbers.max() == 8
    assert (numbers == 8).sum() > USERS, "the others are answered, or are interrupted by the next update"
    wait_s, _ = pauses(attempts)
    assert (wait_s >= 3.0).all()
    assert (wait_s <= 5.0).sum() > 2 * USERS


LOST = {
    "reception": {"kind": "snr_threshold", "threshold": "90 dB", "rate": "1 Mbps"},
    "update_size": "1000 bit",
    "unreachable": "keep",
    "round": {"kind": "first", "m": USERS, "deadline": "300 s"},
}
"""Nobody is received."""


def test_a_backoff_of_pure_aloha_goes_along():
    mac = {"kind": "pure_aloha", "backoff": "5 s"}
    simulator, attempts, _ = roam(2, mac, **LOST)
    pause_s, _ = pauses(attempts)
    assert simulator.membership.moved > 4000
    assert len(pause_s) > 500
    assert pause_s.mean() == pytest.approx(5.0, abs=4 * 5.0 / np.sqrt(len(pause_s)))


def number_of_attempts(mac, association, deadline_s):
    """Return the mean number of attempts of an update that is never received, up to the deadline."""
    settings = LOST | {
        "reception": LOST["reception"] | {"rate": "6 Mbps"},
        "round": {"kind": "first", "m": USERS, "deadline": deadline_s},
        "compute": {"speed": 20.0, "samples": 1},
    }
    numbers = []
    for seed in range(3):
        simulator, attempts, _ = roam(1, mac, seed, association=association, **settings)
        numbers.append(attempts.groupby("user").size())
        assert (simulator.membership.moved > 200) == bool(association.times)
    return pd.concat(numbers).mean()


@pytest.mark.parametrize(
    ("mac", "deadline_s"),
    [({"kind": "slotted_aloha", "adaptive": "backoff", "slot": "1 ms"}, 1.0), ("csma_ca", 0.6)],
    ids=["slotted_aloha", "csma_ca"],
)
def test_a_window_goes_along(mac, deadline_s):
    """A window that was doubled stays so, and with it the number of attempts in a given time."""
    still = number_of_attempts(mac, Shuttle(times=()), deadline_s)
    moving = number_of_attempts(mac, shuttle(until_s=2.0, step_s=0.0137), deadline_s)
    assert moving == pytest.approx(still, rel=0.15)


WIFI = {
    "radio": {"power": "14 dBm", "bandwidth": "20 MHz", "noise_figure": "6 dB"},
    "update_size": "2000 B",
    "association": shuttle(until_s=20.0, step_s=0.0137),
    "compute": {"speed": 100.0, "samples": 1, "jitter": 0.5},
}
SLOW = {"kind": "snr_threshold", "threshold": "90 dB", "rate": "6 Mbps"}


def test_a_window_of_a_station_with_a_rate_of_its_own_goes_along():
    """Frames of one rate among several are sent as those of a single rate: by both simulations of contention."""
    fast = SLOW | {"threshold": "95 dB", "rate": "24 Mbps"}
    lost = WIFI | {"unreachable": "keep", "round": {"kind": "first", "m": USERS, "deadline": 2.0}}
    starts_s = []
    for reception in (SLOW, {"kind": "mcs", "table": [SLOW, fast]}):
        simulator, attempts, _ = roam(1, "csma_ca", reception=reception, **lost)
        assert simulator.membership.moved > 200
        starts_s.append(attempts[["user", "start_s"]])
    assert len(starts_s[0]) > 100
    pd.testing.assert_frame_equal(*starts_s)


def test_space_after_a_frame_of_802_15_4_goes_along():
    """A station leaves 640 µs after a frame, at whatever tower, and then assesses the channel and turns to sending."""
    mac = {"kind": "csma_ca", "standard": "802.15.4"}
    reception = {"kind": "snr_threshold", "threshold": "0 dB", "rate": "250 kbps"}
    association = shuttle(until_s=20.0, step_s=0.0137)
    settings = WIFI | {"update_size": "100 B", "association": association}
    simulator, attempts, _ = roam(30, mac, reception=reception, **settings)
    assert simulator.membership.moved > 200
    assert len(attempts) > 20 * USERS
    for _, frames in attempts.sort_values("start_s").groupby("user"):
        pauses_s = frames["start_s"].to_numpy()[1:] - frames["end_s"].to_numpy()[:-1]
        assert pauses_s.min() > 640e-6 + 128e-6 + 192e-6 - 1e-8


def test_counts_of_a_rate_adaptation_go_along():
    """The rate of each attempt is that of the rule after the outcomes of all attempts before, at whatever towers."""
    rule = {"kind": "arf", "up": 3, "down": 2}
    mac = {"kind": "csma_ca", "rate_adaptation": rule}
    simulator, attempts, _ = roam(30, mac, reception={"kind": "mcs", "standard": "802.11a"}, **WIFI)
    assert simulator.membership.moved > 200
    assert len(attempts) > 20 * USERS
    assert attempts["mode"].nunique() > 4
    for _, of_user in attempts.groupby("user"):
        control = Arf(up=3, down=2).open(RateLink(1, np.arange(8.0), None, lambda station: 0, Streams(1)))
        for mode, outcome in zip(of_user["mode"], of_user["outcome"], strict=True):
            assert control.choose(0, 0.0) == mode
            control.record(0, 0.0, is_success=outcome == "received")
