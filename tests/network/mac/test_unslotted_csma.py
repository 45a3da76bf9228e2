"""The unslotted CSMA-CA of IEEE 802.15.4, compared with times by hand, closed forms and an independent simulation.

In symbols of 16 µs: period 20, CCA 8, turnaround 12, frame of 100 bytes 212, ACK 22, ACK wait 54, long space 40.
"""

import math

import numpy as np
import pytest
from support.lr_wpan_reference import simulate
from support.wifi_cell import SaturatedCell, SensingMedium, sensing

import netfl
from netfl.errors import ScenarioError
from netfl.network.mac import _unslotted_csma as lr_wpan
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.radio.jamming import BurstTimeline, Jamming
from netfl.network.radio.medium import Medium
from netfl.network.traffic.constant import Constant
from netfl.network.traffic.poisson import Poisson
from netfl.network.traffic.saturated import Saturated
from netfl.streams import Streams
from netfl.testing.laws import check_laws

SYMBOL_S = 16e-6
PAYLOAD_BITS = 89 * 8.0
"""With 11 bytes of header and FCS, a frame of 100 bytes."""
SIZE = {"distribution": "fixed", "mean": PAYLOAD_BITS}
SATURATED = Saturated.model_validate({"size": SIZE})
RUNS, RUN_S, REFERENCE_S = 5, 6.0, 60.0
SCENARIO = {
    "name": "lr_wpan",
    "users": 2,
    "rounds": 3,
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m"},
        "mac": {"kind": "csma_ca", "standard": "802.15.4"},
        "update_size": "1 kB",
        "compute": {"speed": 10, "samples": 1},
        "broadcast_rate": "250 kbps",
        "round": {"kind": "available", "deadline": "2 s"},
    },
}


def mac(**keys):
    return CsmaCa(standard="802.15.4", **keys)


def scenario(**keys):
    """Return the scenario with other keys of its access section; ``None`` leaves a key out."""
    access = SCENARIO["access"] | keys
    return SCENARIO | {"access": {key: value for key, value in access.items() if value is not None}}


def cell(stations, seed=1, duration_s=RUN_S, traffic=SATURATED, medium=None, **keys):
    return SaturatedCell(mac(**keys), stations, duration_s, seed=seed, traffic=traffic, medium=medium)


def assert_close(found, expected, runs=RUNS):
    """Check the mean of several runs against a value; the reference is longer than all of them together."""
    error = np.std(found, ddof=1) / math.sqrt(runs)
    assert abs(np.mean(found) - expected) < 7.0 * error + 0.004 * expected, (np.mean(found), expected, error)


def test_times_by_hand():
    assert lr_wpan.frame_airtime(100 * 8.0) == 3_392_000  # (5 + 1 + 100) bytes at 32 µs
    assert lr_wpan.ACK == 352_000
    assert lr_wpan.ACK_WAIT == 864_000
    assert lr_wpan.UNIT_BACKOFF == 320_000
    assert (lr_wpan.CCA, lr_wpan.TURNAROUND) == (128_000, 192_000)
    assert [lr_wpan.frame_space(size * 8.0) for size in (18, 19)] == [192_000, 640_000]
    assert mac().max_payload_bits == 116 * 8.0
    assert mac(header=25 * 8.0).max_payload_bits == 102 * 8.0


@pytest.mark.parametrize("keys", [{}, {"acknowledge": False}, {"min_be": 0}, {"min_be": 5}], ids=str)
def test_lone_station_has_its_cycle(keys):
    """T = k 320 + 128 + 192 + frame + 192 + 352 + space µs, k uniform on 0 … 2^BE - 1."""
    assert check_laws(mac(**keys), Streams(1), 400) == []
    lone = cell(1, duration_s=20.0, **keys)
    periods = (2 ** keys.get("min_be", 3) - 1) / 2
    answer = 0 if "acknowledge" in keys else 34
    cycle_s = (periods * 20 + 8 + 12 + 212 + answer + 40) * SYMBOL_S
    spread = 0.0 if keys.get("min_be") == 0 else 4.5 * periods * 20 * SYMBOL_S / cycle_s / math.sqrt(20.0 / cycle_s)
    assert lone.received.sum() == pytest.approx(20.0 / cycle_s, rel=spread + 1e-3)
    assert not any(lone.failed.values())


@pytest.mark.parametrize("acknowledge", [True, False])
@pytest.mark.parametrize("stations", [2, 5, pytest.param(10, marks=pytest.mark.slow),
                                      pytest.param(20, marks=pytest.mark.slow)])  # fmt: skip
def test_saturated_stations_match_reference(stations, acknowledge):
    reference = simulate(stations, REFERENCE_S, 7, ack=acknowledge)
    runs = [cell(stations, seed=seed, acknowledge=acknowledge) for seed in range(RUNS)]
    assert_close([run.received.sum() / RUN_S for run in runs], reference.received / REFERENCE_S)
    assert_close([run.attempts / RUN_S for run in runs], reference.transmissions / REFERENCE_S)
    given_up = reference.no_access + (reference.no_answer if acknowledge else 0)
    assert_close([run.log.packets.lost["given_up"] / RUN_S for run in runs], given_up / REFERENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["poisson", "constant"])
@pytest.mark.parametrize("stations", [5, 20])
def test_loads_match_reference(kind, stations):
    """Stations that offer 120 frames a second together, with a queue each; periods begin at random."""
    rate_hz = 120.0 / stations
    rng = np.random.default_rng(3)
    if kind == "poisson":
        traffic = Poisson.model_validate({"rate": rate_hz, "size": SIZE})
        gaps = rng.exponential(1.0 / rate_hz, (stations, int(3 * rate_hz * REFERENCE_S)))
        arrivals_s = np.cumsum(gaps, axis=1)
    else:
        traffic = Constant.model_validate({"every": 1.0 / rate_hz, "size": SIZE})
        first_s = rng.random(stations)[:, None] / rate_hz
        arrivals_s = first_s + np.arange(int(2 * rate_hz * REFERENCE_S)) / rate_hz
    arrivals = np.ceil(arrivals_s / SYMBOL_S).astype(np.int64).tolist()
    reference = [simulate(stations, REFERENCE_S, seed, arrivals=arrivals) for seed in range(2)]
    expected = np.mean([run.received for run in reference]) / REFERENCE_S
    runs = [cell(stations, seed=seed, traffic=traffic, duration_s=12.0) for seed in range(RUNS)]
    found = [run.received.sum() / 12.0 for run in runs]
    spread = 0.02 if kind == "constant" else 0.0  # phases of one reference
    assert abs(np.mean(found) - expected) < 7.0 * np.std(found) / math.sqrt(RUNS) + (0.01 + spread) * expected


@pytest.mark.slow
def test_duplicates_follow_lost_acknowledgements():
    """A station whose acknowledgement is disturbed repeats a frame that the tower has, and is counted once."""
    reference = simulate(5, REFERENCE_S, 7)
    runs = [cell(5, seed=seed) for seed in range(RUNS)]
    duplicates = [(run.attempts - sum(run.failed.values()) - run.received.sum()) / RUN_S for run in runs]
    assert min(duplicates) > 0
    assert_close(duplicates, reference.duplicates / REFERENCE_S)


def test_stations_that_all_sense_each_other_by_power_are_as_those_that_sense_all():
    medium = SensingMedium(250e3, sensing(4))
    by_power = cell(4, senses="by_power", medium=medium)
    assert by_power.received.tolist() == cell(4).received.tolist()


def test_hidden_stations_lose_more():
    """Two stations that never sense each other's frames send as by ALOHA, and lose more frames."""
    losses = [cell(2, senses="by_power", medium=SensingMedium(250e3, sensing(2, hidden))).loss
              for hidden in ([], [(0, 1)])]  # fmt: skip
    assert losses[1] > 1.5 * losses[0]


def test_aloha_never_fails_an_access():
    run = cell(5, cca="aloha", acknowledge=False)
    assert run.log.packets.lost.keys() == {"collided"}
    assert run.loss > cell(5, acknowledge=False).loss


def jammed_medium(duty_cycle, burst_s, seed=1):
    medium = Medium(250e3)
    medium.jamming = Jamming(BurstTimeline(duty_cycle, burst_s, np.random.default_rng(seed)))
    return medium


@pytest.mark.parametrize(
    ("max_backoffs", "be"),
    [(0, 3), pytest.param(2, 8, marks=pytest.mark.slow), pytest.param(4, 8, marks=pytest.mark.slow)],
)
def test_access_fails_as_often_as_all_assessments_meet_bursts(max_backoffs, be):
    """A CCA of T finds bursts with p = 1 - (1 - d) exp(-T / g).

    Backoffs are long against bursts, so that assessments are independent: the access fails with p^(NB + 1).
    """
    share, burst_s = 0.5, 0.2e-3
    busy = 1.0 - (1.0 - share) * math.exp(-8 * SYMBOL_S / burst_s)
    expected = busy ** (max_backoffs + 1)
    traffic = Constant.model_validate({"every": 0.3, "size": SIZE})
    keys = {"min_be": be, "max_be": max(be, 5), "max_backoffs": max_backoffs, "acknowledge": False}
    run = cell(1, duration_s=2400.0, traffic=traffic, medium=jammed_medium(share, burst_s), **keys)
    frames = run.attempts + run.log.packets.lost["given_up"]
    failed = run.log.packets.lost["given_up"] / frames
    assert frames > 7000
    assert abs(failed - expected) < 4.5 * math.sqrt(expected * (1.0 - expected) / frames)


def test_updates_are_sent_in_frames_of_the_standard(tmp_path):
    """1 kB in payloads of 116 bytes are nine frames."""
    run = netfl.trace(scenario(), tmp_path / "run")
    assert 1 <= len(run.deliveries) <= 6
    assert run.summary["attempts.received"] >= 2 * 3 * 9 * 0.5
    assert "access_failures" in run.summary


def test_failed_accesses_end_updates(tmp_path):
    """A jammer that nearly always sends lets no station find the medium free."""
    jammer = {"duty_cycle": 0.999, "burst": "10 s"}
    data = scenario(jammer=jammer) | {"record": ["given_up"]}
    run = netfl.trace(data, tmp_path / "run")
    assert run.summary["access_failures"] >= 6
    assert set(run.events["detail"]) == {"no_access"}
    assert run.deliveries.empty


@pytest.mark.parametrize(
    ("keys", "key", "problem"),
    [
        ({"rts": 0}, "rts", "no effect with standard: 802.15.4"),
        ({"rate": "250 kbps"}, "rate", "no effect"),
        ({"rate_adaptation": "arf"}, "rate_adaptation", "no effect"),
        ({"max_attempts": 3}, "max_attempts", "no effect"),
        ({"edition": 2016}, "edition", "no effect"),
        ({"after_collision": "eifs"}, "after_collision", "no effect"),
        ({"acknowledge": False, "max_retries": 5}, "max_retries", "without acknowledge"),
        ({"cca": "aloha", "max_backoffs": 2}, "max_backoffs", "always idle"),
        ({"min_be": 6}, "min_be", "larger than max_be"),
        ({"max_backoffs": 6}, "max_backoffs", "5"),
        ({"senses": "by_power"}, "senses", "no radio"),
        ({"standard": "802.11a", "min_be": 2}, "min_be", "802.15.4"),
        ({"standard": "802.11a", "acknowledge": False}, "acknowledge", "802.15.4"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys, key, problem):
    with pytest.raises(ScenarioError, match=problem) as error:
        netfl.load(scenario(mac={"kind": "csma_ca", "standard": "802.15.4"} | keys))
    assert f"access.mac.{key}" in str(error.value)


def test_reception_of_another_rate_is_refused():
    radio = {"radio": {"power": "0 dBm", "bandwidth": "2 MHz"}, "channel": [{"kind": "constant", "gain": "-60 dB"}]}
    reception = {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 Mbps"}
    with pytest.raises(ScenarioError, match=r"its rate is 0\.25 Mbps"):
        netfl.load(scenario(**radio, reception=reception))
    netfl.load(scenario(**radio, reception=reception | {"rate": "250 kbps"}))
