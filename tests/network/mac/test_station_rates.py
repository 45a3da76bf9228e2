"""Rates of Wi-Fi stations: the anomaly of a slow one, and the choice of rates by a rate adaptation."""

import math

import numpy as np
import pytest
from support import hidden_reference
from support.wifi_cell import BITS, SaturatedCell, bianchi_rates_hz, sensing

import netfl
from netfl.errors import ScenarioError
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.rate_adaptation import RateLink
from netfl.network.rate_adaptation.arf import Arf
from netfl.streams import Streams

DIFS_US = 34.0
MIXED = (54e6, 54e6, 6e6, 24e6)
STAR = {
    "name": "rates",
    "users": 1,
    "duration": "4 s",
    "record": {"attempts": True},
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m"},
        "radio": {"power": "0 dBm", "bandwidth": "20 MHz", "noise_figure": "0 dB"},
        "channel": [{"kind": "constant", "gain": "-85 dB"}],
        "reception": {"kind": "mcs", "standard": "802.11a"},
        "mac": {"kind": "csma_ca"},
        "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1500 B"}, "destination": "tower"},
    },
}
TWO_RATES = {
    "kind": "mcs",
    "table": [
        {"kind": "snr_threshold", "threshold": "-200 dB", "rate": "6 Mbps"},
        {"kind": "snr_threshold", "threshold": "10 dB", "rate": "24 Mbps"},
    ],
}


def with_access(**keys):
    """Return the scenario with other keys of the access."""
    return STAR | {"access": STAR["access"] | keys}


def attempts_of(data, folder):
    """Return the table of attempts of a run, without those on the air at its end."""
    attempts = netfl.trace(netfl.load(data), folder, progress=False).attempts
    return attempts[attempts["outcome"] != "unfinished"]


def gain_for_snr(snr_db):
    """Return the gain for an SNR in 20 MHz without a noise figure, of 0 dBm."""
    return f"{snr_db - 174 + 10 * math.log10(20e6):.6f} dB"


def timings_us(rates_bps):
    """Return the times of a success and of a collision of each station with DIFS, in µs."""
    timings = [CsmaCa(rate=rate_bps).frame_timing(BITS) for rate_bps in rates_bps]
    success_us = [timing.success / 1e3 + DIFS_US for timing in timings]
    collision_us = [timing.collision / 1e3 + DIFS_US for timing in timings]
    return success_us, collision_us


@pytest.mark.slow
def test_slow_station_slows_all():
    """Stations with equal frames have equal shares: within 3 % of Bianchi's fixed point of their durations."""
    expected_hz = bianchi_rates_hz(*timings_us(MIXED))
    runs = [SaturatedCell(CsmaCa(rate=MIXED), 4, 15.0, seed=seed) for seed in range(4)]
    received_hz = np.sum([run.received for run in runs], axis=0) / 60.0
    assert received_hz.sum() == pytest.approx(expected_hz.sum(), rel=0.03)
    assert received_hz == pytest.approx(expected_hz, rel=0.06)

    fast_hz = bianchi_rates_hz(*timings_us([54e6] * 4))
    run = SaturatedCell(CsmaCa(rate=[54e6] * 4), 4, 10.0)
    assert run.received.sum() / 10.0 == pytest.approx(fast_hz.sum(), rel=0.03)
    assert fast_hz.sum() > 2.3 * expected_hz.sum()


@pytest.mark.slow
def test_frames_per_second_match_independent_simulation():
    timings = [CsmaCa(rate=rate_bps).frame_timing(BITS) for rate_bps in MIXED]
    data = [timing.data // 1000 for timing in timings]
    ack = [timing.ack // 1000 for timing in timings]
    totals, references = [], []
    for seed in range(6):
        totals.append(SaturatedCell(CsmaCa(rate=MIXED), 4, 5.0, seed=seed).received.sum())
        counts = hidden_reference.simulate(sensing(4).tolist(), 5.0, seed, data=data, ack=ack)
        references.append(sum(counts.successes))
    error = np.sqrt(np.var(totals, ddof=1) / 6 + np.var(references, ddof=1) / 6)
    assert abs(np.mean(totals) - np.mean(references)) < 5.5 * error


def test_equal_rates_in_a_list_are_one_rate():
    single = SaturatedCell(CsmaCa(rate=24e6), 3, 2.0)
    listed = SaturatedCell(CsmaCa(rate=[24e6] * 3), 3, 2.0)
    assert single.received.tolist() == listed.received.tolist()


def test_control_frames_follow_the_rate():
    mac = CsmaCa(rate=MIXED, rts=0)
    assert mac.frame_timing(BITS, 6.0).ack == 44_000
    assert mac.frame_timing(BITS, 54.0).ack == 28_000
    assert mac.frame_timing(BITS, 54.0).rts == 20_000 + 2 * 4_000  # 160 + 22 bits in symbols of 96
    assert mac.frame_timing(BITS, 6.0).rts == 52_000


@pytest.mark.parametrize(("snr_db", "rate_mbps"), [(3.0, 6), (4.5, 6), (9.5, 18), (16.5, 36), (25.0, 54)])
def test_ideal_takes_the_highest_rate_that_the_snr_allows(tmp_path, snr_db, rate_mbps):
    """Thresholds of IEEE 802.11-2016, table 17-18: 4 (6 Mb/s), 5, 7, 9 (18), 12, 16 (36), 20 and 21 dB (54)."""
    channel = [{"kind": "constant", "gain": gain_for_snr(snr_db)}]
    mac = {"kind": "csma_ca", "rate_adaptation": "ideal"}
    data = with_access(channel=channel, mac=mac, unreachable="keep") | {"duration": "0.2 s"}
    attempts = attempts_of(data, tmp_path)
    data_s = CsmaCa(rate=rate_mbps * 1e6).frame_timing(BITS).data * 1e-9
    assert attempts["airtime_s"].to_numpy() == pytest.approx(data_s)
    assert set(attempts["outcome"]) == {"received" if snr_db > 4.0 else "faded"}


def test_each_rate_is_received_by_its_own_threshold(tmp_path):
    """At an SNR of 14 dB, 24 Mb/s is received and 36 Mb/s is not."""
    channel = [{"kind": "constant", "gain": gain_for_snr(14.0)}]
    mac = {"kind": "csma_ca", "rate": ["24 Mbps", "36 Mbps"], "max_attempts": 3}
    data = with_access(channel=channel, mac=mac) | {"users": 2, "duration": "0.5 s"}
    attempts = attempts_of(data, tmp_path)
    alone = attempts[attempts["outcome"] != "collided"]
    assert set(alone["outcome"][alone["user"] == 0]) == {"received"}
    assert set(alone["outcome"][alone["user"] == 1]) == {"faded"}
    assert set(alone["mode_name"][alone["user"] == 1]) == {"16-QAM 3/4"}


@pytest.mark.parametrize("senses", ["all", "by_power"])
def test_arf_probes_the_next_rate_after_ten_frames(tmp_path, senses):
    """At 14 dB, of eleven frames ten are sent at 24 Mb/s, and the probe at 36 Mb/s fails."""
    channel = [{"kind": "constant", "gain": gain_for_snr(14.0)}]
    mac = {"kind": "csma_ca", "rate_adaptation": "arf", "rate": "24 Mbps", "senses": senses}
    attempts = attempts_of(with_access(channel=channel, mac=mac) | {"duration": "1 s"}, tmp_path)
    outcomes = attempts["outcome"].tolist()[: 11 * (len(attempts) // 11)]
    assert outcomes == (["received"] * 10 + ["faded"]) * (len(outcomes) // 11)


@pytest.mark.slow
def test_arf_under_fading_spends_its_frames_as_in_closed_form(tmp_path):
    """Frames at 24 Mb/s fade with q = 1 - exp(-s / s̄), independently: q^-2 of them follow 10 at 6 Mb/s."""
    channel = [{"kind": "constant", "gain": gain_for_snr(13.0)}, {"kind": "rayleigh", "coherence": "100 us"}]
    mac = {"kind": "csma_ca", "rate_adaptation": {"kind": "arf", "up": 10, "down": 2}}
    data = with_access(channel=channel, reception=TWO_RATES, mac=mac) | {"duration": "25 s"}
    attempts = attempts_of(data, tmp_path)
    failure = 1.0 - math.exp(-(10 ** (-0.3)))
    expected = failure**-2 / (10 + failure**-2)
    is_fast = attempts["mode"].to_numpy() == 1
    cycles = is_fast.sum() * failure**2
    assert is_fast.mean() == pytest.approx(expected, abs=4.5 * expected / math.sqrt(cycles))
    assert (attempts["outcome"][is_fast] == "faded").mean() == pytest.approx(failure, abs=0.02)


def control(**keys):
    """Return ARF over three rates for one station."""
    return Arf(**keys).open(RateLink(1, np.array([1e6, 2e6, 4e6]), None, lambda station: 0, Streams(1)))


def test_arf_steps():
    arf = control(up=3, down=2)
    places = []
    for is_success in (True, True, True, True, False, True, False, False, True, True, True, False, True):
        places.append(arf.choose(0, 0.0))
        arf.record(0, 0.0, is_success=is_success)
    assert places == [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0], "two failures, and a probe that fails"


def test_arf_steps_up_by_its_timer():
    arf = control(up=100, timer=0.5)
    assert arf.choose(0, 0.4) == 0
    assert arf.choose(0, 0.6) == 1
    arf.record(0, 0.6, is_success=False)
    assert arf.choose(0, 0.7) == 0, "the probe failed"
    assert arf.choose(0, 1.2) == 1


FADES = [{"kind": "constant", "gain": "-85 dB"}, {"kind": "rayleigh", "coherence": "10 ms"}]
WITHHOLDS = {"kind": "truncated_inversion", "target": "8 dB", "threshold": "8 dB"}


@pytest.mark.parametrize("mac", [{}, {"rate_adaptation": "arf"}, {"rate_adaptation": "ideal"}])
@pytest.mark.parametrize("kind", ["saturated", "poisson"])
def test_a_station_whose_power_control_withholds_its_frame_is_not_on_the_air(tmp_path, mac, kind):
    """It neither delays others nor counts a failure, and sends when its channel has changed."""
    one_rate = {"kind": "snr_threshold", "threshold": "5 dB", "rate": "6 Mbps"}
    reception = STAR["access"]["reception"] if mac else one_rate
    keys = {
        "mac": {"kind": "csma_ca"} | mac,
        "channel": FADES,
        "reception": reception,
        "power_control": WITHHOLDS,
        "traffic": STAR["access"]["traffic"] | {"kind": kind} | ({"rate": 50} if kind == "poisson" else {}),
    }
    data = with_access(**keys) | {"users": 3, "duration": "1 s"}
    run = netfl.trace(netfl.load(data), tmp_path, progress=False)
    attempts = run.attempts[run.attempts["outcome"] != "unfinished"].sort_values("start_s", kind="stable")
    assert run.summary["frames_withheld"] > 10
    assert len(attempts) > 100
    is_alone = attempts["outcome"] != "collided"
    assert attempts["snr_db"][is_alone].to_numpy() == pytest.approx(8.0, abs=1e-6)
    if mac.get("rate_adaptation") == "arf":
        for _, of_user in attempts.groupby("user"):
            control = Arf().open(RateLink(1, np.arange(8.0), None, lambda station: 0, Streams(1)))
            for mode, outcome in zip(of_user["mode"], of_user["outcome"], strict=True):
                assert control.choose(0, 0.0) == mode
                control.record(0, 0.0, is_success=outcome == "received")
    else:
        assert (attempts["outcome"][is_alone] == "received").all()


def test_a_lone_saturated_station_waits_for_another_channel(tmp_path):
    """Nothing else happens until then."""
    keys = {
        "channel": [FADES[0], FADES[1] | {"coherence": "30 ms"}],
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "6 Mbps"},
        "power_control": WITHHOLDS,
    }
    run = netfl.trace(netfl.load(with_access(**keys)), tmp_path, progress=False)
    withheld = run.summary["frames_withheld"]
    assert withheld > 10, "each of them for 30 ms at most"
    starts_s = np.append(run.attempts["start_s"].to_numpy(), 4.0)
    pauses = np.diff(starts_s) > 0.025
    assert 0.5 * withheld < pauses.sum() <= withheld


@pytest.mark.parametrize("mac", [{}, {"rate_adaptation": "arf"}])
def test_a_station_that_withholds_all_frames_leaves_the_air_to_others(tmp_path, mac):
    """Its channel never changes, so that it asks once."""
    one_rate = {"kind": "snr_threshold", "threshold": "5 dB", "rate": "6 Mbps"}
    keys = {
        "mac": {"kind": "csma_ca"} | mac,
        "radio": STAR["access"]["radio"] | {"power": ["0 dBm", "-50 dBm"]},
        "reception": STAR["access"]["reception"] if mac else one_rate,
        "power_control": WITHHOLDS,
        "unreachable": "keep",
    }
    run = netfl.trace(netfl.load(with_access(**keys) | {"users": 2, "duration": "1 s"}), tmp_path, progress=False)
    assert set(run.attempts["user"]) == {0}
    assert len(run.attempts) > 300
    assert run.summary["frames_withheld"] == 1


def test_rts_that_collides_says_nothing_of_the_rate(tmp_path):
    """With 20 stations and RTS, ARF stays at the highest rate, where all data are received."""
    data = with_access(
        channel=[{"kind": "constant", "gain": gain_for_snr(30.0)}],
        mac={"kind": "csma_ca", "rate_adaptation": "arf", "rate": "54 Mbps", "rts": 0},
    )
    data |= {"users": 20, "duration": "0.5 s"}
    attempts = attempts_of(data, tmp_path)
    received = attempts[attempts["outcome"] == "received"]
    assert (attempts["outcome"] == "collided").mean() > 0.2
    assert set(received["mode_name"]) == {"64-QAM 3/4"}


@pytest.mark.parametrize(
    ("keys", "key", "text"),
    [
        ({"mac": {"kind": "csma_ca", "rate": ["6 Mbps", "54 Mbps"]}}, "access.mac.rate", "2 rates for 1 users"),
        ({"mac": {"kind": "csma_ca", "rate": ["7 Mbps"]}}, "access.mac.rate.0", "no such rate"),
        (
            {"mac": {"kind": "csma_ca", "rate_adaptation": "ideal", "rate": "6 Mbps"}},
            "access.mac.rate",
            "has no effect",
        ),
        (
            {"mac": {"kind": "csma_ca", "rate_adaptation": "arf"}, "radio": None, "reception": None, "channel": None},
            "access.mac.rate_adaptation",
            "without a radio",
        ),
        (
            {
                "mac": {"kind": "csma_ca", "rate_adaptation": "arf"},
                "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "6 Mbps"},
            },
            "access.mac.rate_adaptation",
            "has one rate",
        ),
        ({"mac": {"kind": "csma_ca", "standard": "802.11b"}}, "access.mac.rate", "no mode of that rate"),
        (
            {"mac": {"kind": "csma_ca", "standard": "802.11b", "rate_adaptation": "arf"}},
            "access.mac.rate_adaptation",
            "802.11b has not",
        ),
        ({"radio": {"power": "0 dBm", "bandwidth": ["10 MHz"]}}, "access.mac.rate", None),
        (
            {"reception": {"kind": "mcs", "standard": "802.11a", "margin": "3 dB"}},
            "access.reception.margin",
            "choose no rate by the SNR",
        ),
        ({"mac": {"kind": "csma_ca", "rate_adaptation": "minstrel"}}, "access.mac.rate_adaptation", "arf"),
        (
            {"mac": {"kind": "csma_ca", "rate_adaptation": {"kind": "arf", "up": 0}}},
            "access.mac.rate_adaptation.up",
            "1",
        ),
    ],
)
def test_rates_that_make_no_sense_are_refused(keys, key, text):
    access = {name: value for name, value in (STAR["access"] | keys).items() if value is not None}
    if text is None:  # 6 Mb/s is a mode at 10 MHz, too
        netfl.load(STAR | {"access": access})
        return
    with pytest.raises(ScenarioError) as error:
        netfl.load(STAR | {"access": access})
    assert key in {fault.key for fault in error.value.faults}, str(error.value)
    assert text in str(error.value)


def test_several_rates_need_a_mode_for_each():
    reception = {"kind": "snr_threshold", "threshold": "3 dB", "rate": "6 Mbps"}
    data = with_access(mac={"kind": "csma_ca", "rate": ["6 Mbps", "54 Mbps"]}, reception=reception) | {"users": 2}
    with pytest.raises(ScenarioError, match="one threshold for all"):
        netfl.load(data)
