"""Frames longer than the coherence time: success over several blocks, and warnings."""

import math
from statistics import NormalDist

import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erfc
from support.small_network import make
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.layout import Layout
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.reception import FadedFrames
from netfl.network.reception.mcs import Mcs
from netfl.network.reception.modulation import Modulation
from netfl.network.reception.shannon import Shannon
from netfl.report import write
from netfl.streams import Streams

Z_99 = NormalDist().inv_cdf(0.995)
AIRTIME_S = 1.0
BITS = 1e6
HERTZ = 1e6


def scenario(snr_db, channel, reception, frames):
    """Return one user who sends a frame of a second in every slot, once each, with a mean SNR of *snr_db*."""
    return netfl.Scenario.model_validate(
        {
            "name": "long",
            "users": 1,
            "duration": frames * AIRTIME_S,
            "record": "none",
            "access": {
                "kind": "network",
                "topology": {"kind": "star", "distance": "1 m"},
                "radio": {"power": f"{snr_db - 114} dBm", "bandwidth": HERTZ},
                "channel": [channel],
                "reception": reception,
                "unreachable": "keep",
                "mac": {"kind": "slotted_aloha", "probability": 1.0, "max_attempts": 1},
                "traffic": {"kind": "saturated", "size": {"mean": BITS}, "destination": "tower"},
            },
        }
    )


def fade_probability(tmp_path, snr_db, blocks, reception, frames):
    """Return the share of faded frames where each spans *blocks* blocks of Rayleigh fading."""
    fading = {"kind": "rayleigh", "coherence": AIRTIME_S / blocks}
    metrics = netfl.trace(scenario(snr_db, fading, reception, frames), tmp_path / "run").final_metrics
    metrics = metrics.set_index("metric")["value"]
    assert metrics["attempts"] == frames - 1, "the last frame ends with the run, and so outside of it"
    return metrics["fade_probability"]


def bpsk_fades(snr_db, blocks):
    """Return 1 - E[(1 - BER)^(n/k)]^k of k independent exponential SNRs, by quadrature."""
    mean = 10.0 ** (snr_db / 10.0)

    def density(x):
        return math.exp(-x + BITS / blocks * math.log1p(-0.5 * erfc(math.sqrt(mean * x))))

    per_block, _ = quad(density, 0.0, 60.0, points=[10.0 / mean, 20.0 / mean], limit=500)
    return 1.0 - per_block**blocks


def capacity_fades(snr_db, share):
    """Return P(share log2(1 + s X) + (1 - share) log2(1 + s Y) < 1) of exponential X and Y, by quadrature."""
    mean = 10.0 ** (snr_db / 10.0)

    def density(x):
        rest = (1.0 - share * math.log2(1.0 + mean * x)) / (1.0 - share)
        return math.exp(-x) * -math.expm1(-(2.0**rest - 1.0) / mean)

    return quad(density, 0.0, (2.0 ** (1.0 / share) - 1.0) / mean)[0]


def is_near(measured, expected, frames):
    """Return whether a share of independent frames is inside its 99 % interval."""
    return abs(measured - expected) < Z_99 * math.sqrt(expected * (1.0 - expected) / frames)


@pytest.mark.parametrize(("blocks", "snr_db"), [(1, 17.0), (2, 20.0), (100, 35.0)])
@pytest.mark.quick_first
def test_frame_of_independent_bits_needs_all_blocks(tmp_path, blocks, snr_db):
    frames, expected = 4000, bpsk_fades(snr_db, blocks)
    measured = fade_probability(tmp_path, snr_db, blocks, {"kind": "modulation", "scheme": "bpsk"}, frames)
    assert is_near(measured, expected, frames)
    assert blocks == 1 or not is_near(bpsk_fades(snr_db, 1), expected, frames)


@pytest.mark.slow
@pytest.mark.parametrize("snr_db", [5.0, 10.0])
def test_frame_over_two_blocks_uses_mean_capacity(tmp_path, snr_db):
    frames, expected = 4000, capacity_fades(snr_db, 0.5)
    measured = fade_probability(tmp_path, snr_db, 2, {"kind": "shannon", "rate": 1e6}, frames)
    single = -math.expm1(-1.0 / 10.0 ** (snr_db / 10.0))  # the result for a single block
    assert is_near(measured, expected, frames)
    assert not is_near(single, expected, frames)


@pytest.mark.slow
def test_blocks_are_weighted_by_time(tmp_path):
    """A frame lasts for a block and a half: one and a half, or a half and one."""
    frames, expected = 4000, capacity_fades(3.0, 2.0 / 3.0)
    measured = fade_probability(tmp_path, 3.0, 1.5, {"kind": "shannon", "rate": 1e6}, frames)
    correlated = math.sqrt(2.0)  # neighbouring frames share a block
    assert abs(measured - expected) < correlated * Z_99 * math.sqrt(expected * (1.0 - expected) / frames)


def test_frame_over_many_blocks_needs_mean_capacity(tmp_path):
    """E[log2(1 + s X)] is 1 at a mean SNR of 1.7 dB: above it no frame fades, below it all frames fade."""
    assert fade_probability(tmp_path, 3.5, 1000, {"kind": "shannon", "rate": 1e6}, 100) == 0.0
    assert fade_probability(tmp_path / "low", 0.0, 1000, {"kind": "shannon", "rate": 1e6}, 100) == 1.0


@pytest.mark.parametrize("channel", [{"doppler": "3 Hz"}, {"coherence": 0.37}])
def test_success_over_changing_gain(channel):
    """Results are compared with a sum over ten thousand times of the same gain."""
    links = LinkBudget(Radio(power=-104.0, bandwidth=HERTZ), [Rayleigh(**channel)], empty_layout(2), Streams(5))
    at_s, shares = links.parts_of(10.3, 12.1)
    assert shares.sum() == pytest.approx(1.0)
    users = np.arange(2)
    snr_db = links.snr_db(np.repeat(users, len(at_s)), np.tile(at_s, 2)).reshape(2, -1)
    fine_s = np.linspace(10.3, 12.1, 10_001)[1:] - 0.9e-4
    fine_db = links.snr_db(np.repeat(users, 10_000), np.tile(fine_s, 2)).reshape(2, -1)
    for reception in (Modulation(scheme="bpsk"), Mcs(table=[Modulation(scheme="bpsk")])):
        measured = reception.success_over(FadedFrames(snr_db, shares, HERTZ, 20.0))
        expected = np.exp(20.0 * np.log1p(-0.5 * erfc(np.sqrt(10.0 ** (fine_db / 10.0)))).mean(axis=1))
        assert measured == pytest.approx(expected, rel=0.02)
    for rate in np.log2(1.0 + 10.0 ** (fine_db / 10.0)).mean(axis=1) * HERTZ:
        measured = [
            Shannon(rate=rate * factor).success_over(FadedFrames(snr_db, shares, HERTZ, 1.0)) for factor in (0.99, 1.01)
        ]
        assert (measured[0] != measured[1]).any()


def empty_layout(users):
    """Return a layout with users only."""
    return Layout(nx.Graph(), np.zeros((users, 2)))


@pytest.mark.parametrize("length_s", [0.1, 1 / 3, 7e-3])
def test_frame_within_block_has_one_part(length_s):
    links = LinkBudget(Radio(power=0.0, bandwidth=HERTZ), [Rayleigh(coherence=length_s)], empty_layout(1), Streams(1))
    for block in range(3000):
        start_s = block * length_s
        assert links.parts_of(start_s, start_s + length_s) is None
        at_s, shares = links.parts_of(start_s, start_s + 2.0 * length_s)
        assert at_s == pytest.approx(start_s + length_s * np.array([0.5, 1.5]))
        assert shares == pytest.approx([0.5, 0.5])


def test_number_of_parts_is_limited():
    links = LinkBudget(Radio(power=0.0, bandwidth=HERTZ), [Rayleigh(coherence=1e-9)], empty_layout(1), Streams(1))
    at_s, shares = links.parts_of(0.5, 1e9)
    assert len(at_s) == len(shares) == 4096
    assert shares == pytest.approx(1.0 / 4096)
    assert at_s[[0, -1]] == pytest.approx([1e9 / 8192, 1e9 - 1e9 / 8192], rel=1e-5)


THRESHOLD = {"kind": "snr_threshold", "threshold": "0 dB", "rate": 1e6}


@pytest.mark.parametrize(
    ("channel", "reception", "message"),
    [
        ({"coherence": "10 ms"}, THRESHOLD, "1 s, 100 times the coherence time of 0.01 s (access.channel.0, rayleigh)"),
        ({"doppler": "40 Hz"}, THRESHOLD, "1 s, 100 times the coherence time of 0.01 s (access.channel.0, rayleigh)"),
        ({"coherence": "0.4 s"}, THRESHOLD, "1 s, 2.5 times the coherence time of 0.4 s (access.channel.0, rayleigh)"),
        ({"coherence": "0.6 s"}, THRESHOLD, None),
        ({"coherence": "10 ms"}, {"kind": "shannon", "rate": 1e6}, None),
        ({"coherence": "10 ms"}, {"kind": "modulation", "scheme": "bpsk"}, None),
        ({"coherence": "10 ms"}, {"kind": "mcs", "table": [THRESHOLD]}, "but 'mcs' uses the fade at its start"),
    ],
)
def test_warning_for_frames_above_coherence_time(channel, reception, message):
    access, setting, _ = make(
        2,
        1,
        channel=[{"kind": "rayleigh", **channel}],
        reception=reception,
        update_size=1e6,
        radio={"power": 20.0, "bandwidth": HERTZ},
    )
    warnings = [*access.warnings(setting)]
    assert len(warnings) == (message is not None)
    assert message is None or message in warnings[0]


@pytest.mark.parametrize("compression", [1, 200])
def test_warning_uses_compressed_size(compression):
    overrides = {"transport": {"assumed_compression": compression}, "update_size": 1e6, "reception": THRESHOLD}
    overrides["radio"] = {"power": 20.0, "bandwidth": HERTZ}
    access, setting, _ = make(2, 1, channel=[{"kind": "rayleigh", "coherence": "10 ms"}], **overrides)
    assert len([*access.warnings(setting)]) == (compression == 1)


@pytest.mark.parametrize(("coherence", "is_expected"), [("10 ms", False), ("1 ms", True)])
def test_warning_uses_frames_of_split_updates(coherence, is_expected):
    """A frame of 2296 B at 6 Mb/s takes 3.1 ms; an update of 5 MB takes 6.7 s."""
    overrides = {"mac": {"kind": "csma_ca", "standard": "802.11a"}, "update_size": "5 MB", "reception": THRESHOLD}
    overrides["radio"] = {"power": "20 dBm", "bandwidth": "20 MHz"}
    access, setting, _ = make(2, 1, channel=[{"kind": "rayleigh", "coherence": coherence}], **overrides)
    assert [
        "fast fading: a frame is on the air for up to 0.00306 s" in warning for warning in access.warnings(setting)
    ] == ([True] if is_expected else [])


@pytest.mark.parametrize(
    ("version", "factor", "airtime_s"),
    [
        ("1.0.4", 7, 0.118016),
        ("1.0.3", 7, 0.698368),  # the eighth attempt has SF10
        ("1.0.4", 12, 2.793472),
        ("1.0.4", "adaptive", 2.793472),
        ("1.0.4", "random", 2.793472),
    ],
)
def test_warning_uses_airtime_of_lorawan(version, factor, airtime_s):
    """Payloads of 50 B and 13 B of LoRaWAN, by the formula of the SX1276 data sheet."""
    overrides = {
        "mac": {"kind": "lorawan", "version": version, "spreading_factor": factor},
        "update_size": "50 B",
        "reception": {"kind": "lora"},
    }
    for coherence_s, is_expected in ((0.45 * airtime_s, True), (0.55 * airtime_s, False)):
        channel = [{"kind": "rayleigh", "coherence": coherence_s}]
        access, setting, _ = make(2, 1, channel=channel, **overrides)
        assert len([*access.warnings(setting)]) == is_expected


@pytest.mark.parametrize(
    ("reception", "mac", "coherence", "is_expected"),
    [
        ({"kind": "shannon"}, "round_robin", "10 ms", True),
        ({"kind": "shannon"}, {"kind": "fdma"}, "100 ms", True),
        ({"kind": "waterfall", "threshold": "0 dB"}, "round_robin", "10 ms", True),
        ({"kind": "shannon"}, "round_robin", "10 s", False),
        ({"kind": "shannon", "rate": "1 Mbps"}, "round_robin", "10 ms", False),
        ({"kind": "waterfall", "threshold": "0 dB", "fading": "rayleigh"}, "round_robin", "10 ms", False),
    ],
)
def test_warning_of_rates_that_hold_for_many_coherence_times(reception, mac, coherence, is_expected):
    """A frame from a deep fade keeps its rate, and can be on the air for hours."""
    channel = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}]
    channel.append({"kind": "rayleigh", "coherence": coherence})
    access, setting, _ = make(4, 1, channel=channel, mac=mac, reception=reception, update_size="200 kB")
    assert ["held rates" in warning for warning in access.warnings(setting)] == [True] * is_expected


@pytest.mark.slow
def test_check_run_and_report_show_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(
        """\
name: long
users: 2
rounds: 3
access:
  kind: network
  topology: {kind: star, radius: 100 m}
  radio: {power: 20 dBm, bandwidth: 1 MHz}
  channel: [{kind: rayleigh, coherence: 10 ms}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 1 Mbps}
  mac: tdma
  compute: {speed: 1, samples: 1}
  broadcast_rate: 1 Mbps
  update_size: 1 Mbit
  round: {kind: first, m: 1}
""",
        encoding="utf-8",
    )
    message = "fast fading: a frame is on the air for up to 1 s, 100 times the coherence time of 0.01 s"
    for command in (["check", "s.yaml"], ["trace", "s.yaml", "--out", "out"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert message in " ".join(result.output.split())
    run = netfl.open_run("out")
    assert [message in warning for warning in run.manifest["warnings"]] == [True]
    assert f"Warning: {message}" in write(run).read_text(encoding="utf-8")
