"""A jammer: its share of time, the frames that meet it, and stations that sense it, compared with closed forms."""

import math

import numpy as np
import pytest
from support.wifi_cell import SaturatedCell

import netfl
from netfl.errors import ScenarioError
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.radio.jamming import BurstTimeline, Jamming
from netfl.network.radio.medium import Medium
from netfl.network.traffic.saturated import Saturated

AIRTIME_S = 0.01
EVERY_S = 0.5
LONE = {
    "name": "jammed",
    "users": 1,
    "duration": "2000 s",
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "100 m"},
        "radio": {"power": "0 dBm", "bandwidth": "100 kHz", "noise_figure": "0 dB"},
        "channel": [{"kind": "constant", "gain": "-104 dB"}],  # the noise is -124 dBm, so that the SNR is 20 dB
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "100 kbps"},
        "mac": {"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1},
        "traffic": {"kind": "constant", "every": EVERY_S, "size": {"distribution": "fixed", "mean": 1000}},
    },
}
WITHOUT_RADIO = {
    "radio": None, "channel": None, "reception": None, "mac": {"kind": "csma_ca", "standard": "802.15.4"},
}  # fmt: skip


def scenario(jammer, duration=None, **keys):
    """Return the scenario of one user with a jammer, and other keys of its access section."""
    access = {key: value for key, value in (LONE["access"] | keys).items() if value is not None}
    data = LONE | {"access": access | {"jammer": jammer}}
    return data | ({"duration": duration} if duration else {})


def metrics_of(data, path):
    return netfl.trace(data, path / "run").summary


def chance_of_a_burst(duty_cycle, burst_s, airtime_s, distribution="exponential"):
    """Return the probability that a frame of *airtime_s* that is sent at any time meets a burst."""
    gap_s = burst_s * (1.0 - duty_cycle) / duty_cycle
    if distribution == "fixed":
        return min(1.0, duty_cycle + airtime_s / (burst_s + gap_s))
    return 1.0 - (1.0 - duty_cycle) * math.exp(-airtime_s / gap_s)


def assert_share(found, expected, count):
    assert abs(found - expected) < 4.5 * math.sqrt(expected * (1.0 - expected) / count), (found, expected)


@pytest.mark.parametrize("duty_cycle", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_share_of_time_is_the_duty_cycle(duty_cycle, is_fixed):
    """A Markovian on-off process has Var = 2 d (1 - d) τ / T, with 1 / τ = 1 / b + 1 / g; a periodic one is exact."""
    burst_s, span_s = 0.005, 500.0
    timeline = BurstTimeline(duty_cycle, burst_s, np.random.default_rng(1), is_fixed=is_fixed)
    share = timeline.busy_s(span_s) / span_s
    gap_s = burst_s * (1.0 - duty_cycle) / duty_cycle
    tau_s = 1.0 / (1.0 / burst_s + 1.0 / gap_s)
    error = math.sqrt(2.0 * duty_cycle * (1.0 - duty_cycle) * tau_s / span_s)
    if is_fixed:
        error = (burst_s + gap_s) / span_s
    assert abs(share - duty_cycle) < 4.5 * error


@pytest.mark.parametrize("is_fixed", [False, True])
def test_process_is_stationary_from_the_start(is_fixed):
    """At time 0, and in the first instants, the share of seeds in a burst is the duty cycle."""
    timelines = [BurstTimeline(0.3, 1.0, np.random.default_rng(seed), is_fixed=is_fixed) for seed in range(3000)]
    for at_s in (0.0, 0.5, 2.0):
        share = np.mean([each.is_busy(at_s, at_s + 1e-9) for each in timelines])
        assert_share(share, 0.3, len(timelines))


def test_queries_agree_in_any_order():
    ahead = BurstTimeline(0.3, 0.01, np.random.default_rng(1))
    ahead.busy_s(300.0)
    step_by_step = BurstTimeline(0.3, 0.01, np.random.default_rng(1))
    for start_s in (0.0, 0.7, 120.0, 30.0):
        bursts = ahead.between(start_s, start_s + 0.5)
        assert step_by_step.between(start_s, start_s + 0.5) == bursts
        assert all(begin_s < start_s + 0.5 and end_s > start_s for begin_s, end_s in bursts)
        assert step_by_step.is_busy(start_s, start_s + 0.5) == bool(bursts)
        assert step_by_step.ending_after(start_s)[1] > start_s
        assert step_by_step.ended_before(start_s) <= start_s


@pytest.mark.parametrize("distribution", ["exponential", "fixed"])
def test_frames_meet_bursts_with_the_closed_form(distribution, tmp_path):
    jammer = {"duty_cycle": 0.2, "burst": "20 ms", "distribution": distribution}
    keys = {"traffic": LONE["access"]["traffic"] | {"kind": "poisson", "rate": 2, "every": None}}
    keys["traffic"] = {key: value for key, value in keys["traffic"].items() if value is not None}
    metrics = metrics_of(scenario(jammer, **keys), tmp_path)
    expected = chance_of_a_burst(0.2, 0.02, AIRTIME_S, distribution)
    assert_share(metrics["attempts.jammed"] / metrics["attempts"], expected, metrics["attempts"])
    assert metrics["utilisation.jammer"] == pytest.approx(0.2, abs=0.01)
    assert metrics["attempts.collided"] == metrics["attempts.faded"] == 0


@pytest.mark.parametrize("interference", ["sinr", {"kind": "capture", "margin": "6 dB"}, "sic"])
@pytest.mark.parametrize(("over_noise_db", "is_strong"), [(10.0, False), (16.0, True)])
def test_power_decides_over_frames(interference, over_noise_db, is_strong, tmp_path):
    """At an SNR of 20 dB and J / N of 10 dB the SINR is 9.6 dB, above the 5 dB needed; of 16 dB it is 3.9 dB.

    S / J is 10 and 4 dB, above and below the margin of capture.
    """
    jammer = {"duty_cycle": 0.2, "burst": "20 ms", "power": f"{-124 + over_noise_db} dBm"}
    metrics = metrics_of(scenario(jammer, interference=interference), tmp_path)
    expected = chance_of_a_burst(0.2, 0.02, AIRTIME_S) if is_strong else 0.0
    share = metrics["attempts.jammed"] / metrics["attempts"]
    if not is_strong:
        assert share == 0.0
    else:
        assert_share(share, expected, metrics["attempts"])


@pytest.mark.parametrize(("over_noise_db", "is_strong"), [(5.0, False), (10.0, True)])
def test_jammer_is_noise_for_lora(over_noise_db, is_strong, tmp_path):
    """At an SNR of 0 dB and J / N of 5 dB the SINR is -6.2 dB, above the -7.5 dB of SF7; of 10 dB it is -10.4 dB."""
    keys = {
        "radio": {"power": "0 dBm", "bandwidth": "125 kHz", "noise_figure": "0 dB"},
        "channel": [{"kind": "constant", "gain": "-123.03 dB"}],
        "reception": {"kind": "lora"},
        "interference": "sinr",
        "mac": {"kind": "lorawan", "spreading_factor": 7, "sub_bands": [{"channels": 1, "duty_cycle": 1}]},
        "traffic": {"kind": "constant", "every": 2, "size": {"distribution": "fixed", "mean": "10 B"}},
    }
    jammer = {"duty_cycle": 0.5, "burst": "20 ms", "power": f"{-123.03 + over_noise_db} dBm"}
    metrics = metrics_of(scenario(jammer, "200 s", **keys), tmp_path)
    assert metrics["attempts"] > 50
    assert (metrics["attempts.jammed"] > 0) == is_strong


@pytest.mark.parametrize(("power", "is_sensed"), [("-80 dBm", False), ("-70 dBm", True)])
def test_stations_of_802_15_4_sense_a_jammer_by_its_power(power, is_sensed, tmp_path):
    keys = {
        "mac": {"kind": "csma_ca", "standard": "802.15.4", "senses": "by_power", "max_backoffs": 0},
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "2.4 GHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "250 kbps"},
        "topology": {"kind": "star", "distance": "5 m"},
        "traffic": LONE["access"]["traffic"] | {"size": {"distribution": "fixed", "mean": "50 B"}},
    }
    jammer = {"duty_cycle": 0.5, "burst": "20 ms", "power": power}
    metrics = metrics_of(scenario(jammer, "100 s", **keys), tmp_path)
    assert (metrics["access_failures"] > 0) == is_sensed


@pytest.mark.parametrize(("metres", "is_strong"), [(150.0, False), (100.0, True)])
def test_power_at_a_tower_follows_the_position(metres, is_strong, tmp_path):
    """Log-distance of exponent 4 from a user at 100 m: J is as strong as S there, and 7 dB weaker at 150 m."""
    channel = [{"kind": "log_distance", "exponent": 4, "frequency": "1 GHz"}]
    jammer = {"duty_cycle": 0.5, "burst": "20 ms", "power": "0 dBm", "position": [metres, 0]}
    keys = {"channel": channel, "interference": "sinr"}
    metrics = metrics_of(scenario(jammer, "100 s", **keys), tmp_path)
    assert (metrics["attempts.jammed"] > 0) == is_strong


def test_radio_of_half_the_band_receives_half_the_power(tmp_path):
    """The density of the jammer is even, so that J / N is the same in any part of the band, and with shares."""
    for number, mac in enumerate(({"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}, "fdma")):
        for over_noise_db, is_strong in ((13.0, False), (16.0, True)):
            jammer = {"duty_cycle": 0.5, "burst": "20 ms", "power": f"{-124 + over_noise_db} dBm"}
            keys = {"mac": mac, "interference": "sinr", "reception": LONE["access"]["reception"] | {"rate": "100 kbps"}}
            path = tmp_path / f"{number}{over_noise_db}"
            metrics = metrics_of(scenario(jammer, "100 s", **keys), path)
            assert (metrics["attempts.jammed"] > 0) == is_strong


@pytest.mark.parametrize("mac", [{"kind": "pure_aloha", "backoff": "1 s", "max_attempts": 1}, "tdma"])
def test_jammer_that_nobody_receives_changes_nothing(mac, tmp_path):
    data = scenario({"duty_cycle": 0.5, "burst": "20 ms", "power": "-300 dBm"}, "100 s", interference="sinr", mac=mac)
    jammed = netfl.trace(data, tmp_path / "jammed")
    del data["access"]["jammer"]
    free = netfl.trace(data, tmp_path / "free")
    added = {"utilisation.jammer", "attempts.jammed"}
    assert {name: value for name, value in jammed.summary.items() if name not in added} == free.summary


class Recording(Medium):
    """An ideal medium with a jammer, which keeps the starts and ends of frames."""

    def __init__(self, rate_bps, timeline):
        Medium.__init__(self, rate_bps)
        self.jamming = Jamming(timeline)
        self.frames_s = []

    def outcomes(self, transmission):
        self.frames_s.append((transmission.start_s, transmission.end_s))
        return Medium.outcomes(self, transmission)


@pytest.mark.parametrize("stations", [1, 4])
@pytest.mark.parametrize("standard", ["802.11a", "802.11b", "802.15.4"])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_no_station_begins_in_a_burst(standard, stations, is_fixed):
    """802.11 waits DIFS after a burst; 802.15.4 has found the medium free for 128 µs, 192 µs before it sends."""
    mac = CsmaCa(standard=standard)
    medium = Recording(mac.rate_bps, BurstTimeline(0.3, 5e-3, np.random.default_rng(2), is_fixed=is_fixed))
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 800}})
    run = SaturatedCell(mac, stations, 5.0, medium=medium, traffic=traffic)
    until_s, length_s = (0.0, 128e-6) if standard == "802.15.4" else (0.0, mac.phy.difs * 1e-9)
    if standard == "802.15.4":
        until_s = 192e-6
    for start_s, _ in medium.frames_s:
        end_s = start_s - until_s
        assert not medium.jamming.timeline.is_busy(end_s - length_s + 1e-8, end_s - 1e-8)
    assert run.failed["jammed"] > 0
    assert run.received.sum() > 0


def test_lone_wifi_station_counts_on_after_a_burst():
    """Of 9 µs slots, those that are idle from DIFS after a burst on are counted: the idle slots of a run add up.

    The station is saturated, so that its cycles are DIFS, k slots, data and ACK.  The time that is neither in these nor
    in bursts is at most DIFS and a slot for each burst that does not begin during a frame.
    """
    mac = CsmaCa(standard="802.11a")
    timeline = BurstTimeline(0.2, 20e-3, np.random.default_rng(2))
    medium = Recording(mac.rate_bps, timeline)
    traffic = Saturated.model_validate({"size": {"distribution": "fixed", "mean": 800}})
    run = SaturatedCell(mac, 1, 20.0, medium=medium, traffic=traffic)
    free_s = 20.0 - timeline.busy_s(20.0)
    timing = mac.frame_timing(800)
    cycle_s = (mac.phy.difs + 7.5 * mac.phy.slot + timing.success) * 1e-9
    bursts = len(timeline.between(0.0, 20.0))
    jammed = run.failed["jammed"]
    assert 0 < jammed <= bursts
    # a frame that fails costs a doubled window, and a burst at most DIFS and a slot
    lost_s = bursts * (mac.phy.difs + mac.phy.slot) * 1e-9 + jammed * (cycle_s + 16 * mac.phy.slot * 1e-9)
    assert free_s - lost_s < run.received.sum() * cycle_s < free_s * 1.02


@pytest.mark.parametrize(
    ("jammer", "keys", "key", "problem"),
    [
        ({"power": "-90 dBm"}, {}, "jammer.power", "no power is compared"),
        ({}, {"interference": "sinr"}, "jammer.power", "missing"),
        ({"power": "-90 dBm"}, WITHOUT_RADIO, "jammer.power", "without a radio"),
        (
            {"power": "0 dBm", "position": [0, 0]},
            {"interference": "sinr", "channel": None},
            "jammer.position",
            "no channel has a path",
        ),
        ({"position": [0, 0]}, {}, "jammer.position", "power"),
        ({"duty_cycle": 1.0}, {}, "jammer.duty_cycle", "less than 1"),
        ({"burst": 0}, {}, "jammer.burst", "greater than 0"),
        (
            {},
            {"traffic": {"kind": "poisson", "rate": 1, "source": "towers"}, "radio": None, "channel": None,
             "reception": None, "mac": None},
            "jammer",
            "no user sends",
        ),
    ],
)  # fmt: skip
def test_jammers_that_do_not_fit_are_refused(jammer, keys, key, problem):
    with pytest.raises(ScenarioError, match=problem) as error:
        netfl.load(scenario({"duty_cycle": 0.1, "burst": "5 ms"} | jammer, **keys))
    assert f"access.{key}" in str(error.value)


def test_wifi_stations_that_sense_by_power_are_refused():
    mac = {"kind": "csma_ca", "senses": "by_power", "rate": "6 Mbps"}
    keys = {
        "mac": mac,
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "5 GHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "4 dB", "rate": "6 Mbps"},
        "radio": {"power": "15 dBm", "bandwidth": "20 MHz"},
    }
    jammer = {"duty_cycle": 0.1, "burst": "5 ms", "power": "-60 dBm"}
    with pytest.raises(ScenarioError, match="do not know of bursts") as error:
        netfl.load(scenario(jammer, **keys))
    assert "access.mac.senses" in str(error.value)
    reception = keys["reception"] | {"rate": "250 kbps"}
    lr_wpan = {"kind": "csma_ca", "standard": "802.15.4", "senses": "by_power"}
    netfl.load(scenario(jammer, **keys | {"mac": lr_wpan, "reception": reception}))


def test_sums_and_theories_refuse_a_jammer():
    sums = {"mac": "simultaneous", "reception": "analogue", "interference": "over_the_air",
            "power_control": {"kind": "inversion", "target": "0 dB"}}  # fmt: skip
    with pytest.raises(ScenarioError, match="sum has no model of the bursts"):
        netfl.load(scenario({"duty_cycle": 0.1, "burst": "5 ms", "power": "-90 dBm"}, **sums))
    aloha = {"mac": {"kind": "slotted_aloha", "probability": 0.1}, "theory": "slotted_aloha"}
    with pytest.raises(ScenarioError, match="no formula counts a jammer"):
        netfl.load(scenario({"duty_cycle": 0.1, "burst": "5 ms"}, **aloha))
