"""Gains and noise that differ by frequency channel: their law, and the frames, towers and senders that they reach."""

import math
import re

import networkx as nx
import numpy as np
import pytest
from support.small_network import PLAIN, make, play

import netfl
from netfl.errors import ScenarioError
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.channel.constant import Constant
from netfl.network.channel.frequency_selective import FrequencySelective
from netfl.network.interference.sinr import Sinr
from netfl.network.layout import Layout, NodeId
from netfl.network.mac.lorawan import Lorawan
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.radio.transmission import Frames, Transmission
from netfl.network.reception.lora import fastest_mode
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.simulation.setup import access_context
from netfl.streams import Streams

LINKS = 20_000
EU868_HZ = np.array([868.1e6, 868.3e6, 868.5e6, 867.1e6, 867.3e6, 867.5e6, 867.7e6, 867.9e6])
SELECTIVE = {"kind": "frequency_selective", "spread": "6 dB", "coherence_bandwidth": "400 kHz"}
NOISE_DB = [0.0, 6.5, 1.0, 3.0]
OF_CHANNELS = {"kind": "multichannel_aloha", "channels": 4, "probability": 0.3}


def gains_db(links, centres_hz=EU868_HZ, seed=1, **settings):
    """Return the gains of some links on all channels, in the order of the channels, ``[links, channels]``."""
    model = FrequencySelective(**({"spread": 2.0, "coherence_bandwidth": 400e3} | settings)).on_channels(centres_hz)
    gain = model.open(Layout(nx.Graph(), np.zeros((links, 2))), Streams(seed))
    users = np.arange(links)
    return gain.gain_db(users, 0.0)[:, None] + gain.channel_gains_db(users)


def budget_of(noise_db=None, spread=6.0, users=3, towers=2):
    """Return the link budget of users at (0, 0) and towers, on four channels that are 200 kHz apart."""
    names = [f"tower:{index}" for index in range(towers)]
    graph = nx.Graph()
    for index, name in enumerate(names):
        graph.add_node(name, role="tower", x_m=100.0 * index, y_m=0.0)
    layout = Layout(graph, np.zeros((users, 2)))
    radio = Radio(power=-100.0, bandwidth=125e3, noise_figure=6.0, channel_noise=noise_db)
    channels = [Constant(gain=0.0), FrequencySelective(spread=spread, coherence_bandwidth=400e3)]
    return LinkBudget(radio, channels, layout, Streams(4), None, 200e3 * np.arange(4.0))


def test_covariance_between_channels():
    """Cov(g_i, g_j) = σ² exp(-|f_i - f_j| / B_c), the frequencies in any order; its estimate has a known error."""
    samples = gains_db(LINKS)
    expected = 4.0 * np.exp(-np.abs(EU868_HZ[:, None] - EU868_HZ) / 400e3)
    error = np.sqrt((16.0 + expected**2) / LINKS)  # of the covariance of two normal variables of variance 4
    assert (np.abs(np.cov(samples.T) - expected) < 4.5 * error).all()
    assert np.abs(samples.mean(axis=0)).max() < 4.5 * 2.0 / math.sqrt(LINKS)


def test_links_are_independent():
    samples = gains_db(LINKS)
    assert abs(np.corrcoef(samples[:-1, 0], samples[1:, 0])[0, 1]) < 4.5 / math.sqrt(LINKS)
    budget = budget_of(users=LINKS)
    users = np.arange(LINKS)
    offsets_db = [budget.channel_offset_db(users, f"tower:{index}", 2) for index in range(2)]
    assert abs(np.corrcoef(offsets_db)[0, 1]) < 4.5 / math.sqrt(LINKS)


def test_order_and_number_of_channels_are_free():
    """Equal frequencies have equal gains; far ones are independent, as in closed form."""
    samples = gains_db(LINKS, np.array([5e6, 5e6, 0.0, 1e9]))
    assert samples[:, 0] == pytest.approx(samples[:, 1])
    correlations = np.corrcoef(samples.T)
    assert np.abs(correlations[3, :3]).max() < 4.5 / math.sqrt(LINKS)


def test_snr_of_a_frame_by_hand():
    """At each tower: power + gain on the channel - noise of the channel; signals without a channel have the means."""
    budget = budget_of(NOISE_DB)
    users = np.arange(3)
    thermal_dbm = -174.0 + 10.0 * math.log10(125e3) + 6.0
    for name in ("tower:0", "tower:1"):
        gains = budget._gains if name == "tower:0" else budget._gains_to(name)
        on_channel_db = gains[1].gain_db(users, 0.0)[:, None] + gains[1].channel_gains_db(users)
        expected_db = -100.0 + on_channel_db - thermal_dbm - np.array(NOISE_DB)
        mean_db = budget.snr_db(users, 0.0, name)
        assert mean_db == pytest.approx(expected_db.mean(axis=1))
        frames_db = np.stack([mean_db + budget.channel_offset_db(users, name, channel) for channel in range(4)], axis=1)
        assert frames_db == pytest.approx(expected_db)
        assert budget.best_frame_snr_db(users, name) == pytest.approx(expected_db.max(axis=1))
        each = np.array([3, 0, 1])
        assert mean_db + budget.channel_offset_db(users, name, each) == pytest.approx(expected_db[users, each])
        boost_db = budget.downlink_boost(None).at(users, np.full(3, int(name[-1])))
        assert mean_db + boost_db == pytest.approx(-100.0 + on_channel_db.mean(axis=1) - thermal_dbm), "noise of towers"


def transmission(user, channel, tower, start_s=0.0):
    ids = np.array([user])
    return Transmission(Frames(ids, 100.0, None), ids, [0], tower, channel, start_s, start_s + 1.0)


@pytest.mark.parametrize("codes", [1, 6])
def test_interference_has_the_gain_and_noise_of_its_channel(codes):
    """S / (N + I) on the channel at each tower; the SNR that is stated is without interference."""
    budget = budget_of(NOISE_DB)
    tower = NodeId("tower:1", 4)
    users = np.array([0, 1])
    for channel in range(4):
        snr_db = budget.snr_db(users, 0.0, "tower:1") + budget.channel_offset_db(users, "tower:1", channel)
        signal, interference = 10.0 ** (snr_db / 10.0)
        sinr_db = 10.0 * math.log10(signal / (1.0 + interference))
        for threshold_db, causes in ((sinr_db - 1e-6, [""]), (sinr_db + 1e-6, ["collided"])):
            reception = SnrThreshold(threshold=threshold_db, rate=1e3)
            medium = FadingMedium(
                budget, reception, Connection(), Streams(1), interference=Sinr(), codes_per_channel=codes
            )
            frame = transmission(0, codes * channel + codes // 2, tower)
            frame.interferers.append(transmission(1, frame.channel, tower))
            assert medium.outcomes(frame)[0] == causes
            assert medium.outcomes(frame)[1] == pytest.approx(snr_db[:1])


def test_gain_of_a_link_is_without_noise():
    budget = budget_of(NOISE_DB)
    users = np.array([2])
    medium = FadingMedium(budget, SnrThreshold(threshold=0.0, rate=1e3), Connection(), Streams(1), codes_per_channel=1)
    on_channel_db = budget._gains[1].gain_db(users, 0.0)[:, None] + budget._gains[1].channel_gains_db(users)
    for channel in range(4):
        frame = transmission(2, channel, NodeId("tower:0", 3))
        _, snr_db = medium.outcomes(frame)
        assert medium.gain_db(frame, snr_db) == pytest.approx(on_channel_db[:, channel])


def test_detection_and_mean_over_channels():
    """A receiver knows the channel of a frame; without one the probability is the mean over the channels."""
    budget = budget_of(NOISE_DB)
    users = np.arange(3)
    tower = NodeId("tower:0", 3)
    snr_db = budget.snr_db(users, 0.0, "tower:0")
    on_channel_db = np.stack([snr_db + budget.channel_offset_db(users, "tower:0", each) for each in range(4)])
    threshold_db = float(np.median(on_channel_db))
    medium = FadingMedium(
        budget, SnrThreshold(threshold=threshold_db, rate=1e3), Connection(), Streams(1), codes_per_channel=6
    )
    modes = np.zeros(3, np.int64)
    is_received = on_channel_db >= threshold_db
    for channel in range(4):
        chance = medium.success_probability(users, tower, 0.0, 100.0, modes, 6 * channel + 5)
        assert chance.tolist() == is_received[channel].tolist()
    mean = medium.success_probability(users, tower, 0.0, 100.0, modes)
    assert mean.tolist() == pytest.approx(is_received.mean(axis=0).tolist())


def attempts_of(tmp_path, mac, gain_db, **changes):
    """Return the attempts of a run of eight users, with their frequency channels, and its link budget."""
    network = {
        "kind": "network",
        "topology": {"kind": "tree", "fanout": [2], "ring": "10 m", "radius": "1 m", "rate": "1 Mbps", "delay": 0},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "channel_noise": [f"{db} dB" for db in NOISE_DB]},
        "channel": [{"kind": "constant", "gain": f"{gain_db} dB"}, SELECTIVE],
        "reception": {"kind": "lora"},
        "mac": mac,
        "interference": {"kind": "capture", "margin": "6 dB"},
        "receivers": "all",
        "unreachable": "keep",
        "compute": {"speed": 100, "samples": 10},
        "broadcast_rate": "1 Mbps",
        "update_size": "20 B",
        "round": {"kind": "first", "m": 4, "deadline": "10 min"},
    }
    scenario = netfl.load(
        {
            "name": "a",
            "users": 8,
            "rounds": 40,
            "record": {"events": "none", "attempts": True},
            "access": network | changes,
        }
    )
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    context = access_context(scenario, 0)
    budget = open_budget(scenario.access, context, build_layout(scenario.access, context))
    attempts = run.attempts
    attempts["frequency"] = attempts["channel"] // scenario.access.mac.codes_per_channel
    return attempts, budget


@pytest.mark.parametrize("receivers", ["own", "all"])
def test_frames_of_lorawan_by_channel(tmp_path, receivers):
    """A frame has faded if its SNR on its channel is below the threshold of its factor, at each tower that hears it."""
    mac = {"kind": "lorawan", "spreading_factor": 7, "version": "1.0.4", "max_attempts": 5}
    mac["sub_bands"] = [{"channels": 4, "duty_cycle": 1}]
    attempts, budget = attempts_of(tmp_path, mac, -139.0, receivers=receivers)
    users = attempts["user"].to_numpy()
    frequency = attempts["frequency"].to_numpy()
    assert set(frequency) == {0, 1, 2, 3}
    snr_db = np.array([
        budget.snr_db(users, 0.0, tower) + budget.channel_offset_db(users, tower, frequency)
        for tower in ("tower:0", "tower:1")
    ])  # fmt: skip
    if receivers == "own":
        is_at_first = (attempts["node"] == "tower:0").to_numpy()
        snr_db = np.where(is_at_first, snr_db[0], snr_db[1])[None]
    is_weak = (snr_db < -7.5).all(axis=0)
    assert 20 < is_weak.sum() < len(is_weak) - 20, "the case decides nothing"
    outcome = attempts["outcome"].to_numpy()
    assert (outcome[is_weak] == "faded").all()
    if receivers == "own":
        assert (outcome[~is_weak] != "faded").all()
    stated_db = attempts["snr_db"].to_numpy()
    is_known = ~np.isnan(stated_db)
    assert np.abs(snr_db - stated_db)[:, is_known].min(axis=0).max() < 1e-9


def test_senders_choose_modes_by_their_channels(tmp_path):
    """With `lora` under slotted ALOHA senders choose the fastest mode that the SNR on their channel allows."""
    attempts, budget = attempts_of(tmp_path, OF_CHANNELS | {"slot": "10 s"}, -143.0)
    users = attempts["user"].to_numpy()
    own = np.empty(len(users))
    for tower in ("tower:0", "tower:1"):
        is_own = (attempts["node"] == tower).to_numpy()
        offset_db = budget.channel_offset_db(users, tower, attempts["frequency"].to_numpy())
        own[is_own] = (budget.snr_db(users, 0.0, tower) + offset_db)[is_own]
    expected = fastest_mode(own)
    assert len(set(expected.tolist())) > 3, "the case decides nothing"
    assert attempts["mode"].tolist() == expected.tolist()


def test_noise_of_no_channel_changes_nothing():
    """With 0 dB on all channels, rounds and events are those without the key, to the bit."""
    results = []
    for noise in ({}, {"channel_noise": ["0 dB"] * 4}):
        fading = [{"kind": "constant", "gain": "-120 dB"}, {"kind": "rayleigh", "coherence": "1 s"}]
        radio = PLAIN["radio"] | noise
        rounds, log = play(6, 12, mac=OF_CHANNELS, radio=radio, channel=fading, interference="sinr", unreachable="keep")
        results.append((repr(rounds), repr(log.rows)))
    assert results[0] == results[1]


def test_user_is_reachable_on_its_best_channel():
    """One channel suffices; the error names the SNR on it."""
    loud = [f"{db} dB" for db in (60, 60, 0, 60)]
    radio = PLAIN["radio"] | {"channel_noise": loud}
    channel = [{"kind": "constant", "gain": "-130 dB"}]
    build(radio=radio, channel=channel, mac=OF_CHANNELS)  # 20 dBm - 130 dB over -123.03 dBm
    with pytest.raises(ScenarioError, match=r"reaches an SNR of -1\.0 dB at its best"):
        build(radio=radio, channel=[{"kind": "constant", "gain": "-144 dB"}], mac=OF_CHANNELS)


def build(**overrides):
    access, context, _ = make(3, 2, **overrides)
    return build_network(access, context)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"mac": {"kind": "tdma"}},
            "access.channel.1: has no effect with a MAC of one frequency channel; leave it out",
        ),
        (
            {"mac": {"kind": "tdma"}, "noise": [0.0, 1.0]},
            "access.radio.channel_noise: has no effect with a MAC of one frequency channel",
        ),
        (
            {"noise": [0.0, 1.0]},
            "access.radio.channel_noise: 2 values for the 4 channels of the MAC; give one for each",
        ),
        (
            {"mac": {"kind": "lorawan", "sub_bands": [{"channels": 2, "frequencies": ["868 MHz"]}]}},
            "sub_bands.0: frequencies has 1 values for 2 channels; give one for each channel",
        ),
        (
            {
                "mac": {"kind": "lorawan", "sub_bands": [{"channels": 1, "frequencies": ["868 MHz"]}, {}]},
                "reception": {"kind": "lora"},
            },
            "sub_bands.1 has no frequencies, but others have; give those of all sub-bands, or of none",
        ),
        (
            {
                "mac": {"kind": "lorawan", "sub_bands": [{"channels": 2, "frequencies": ["868 MHz", "869 MHz"]}]},
                "channel": [{"kind": "constant", "gain": "0 dB"}],
                "reception": {"kind": "lora"},
            },
            "access.mac.sub_bands.0.frequencies: has no effect without gains that differ by frequency; leave it out",
        ),
    ],
)
def test_errors_name_key_and_remedy(changes, words):
    noise_db = changes.pop("noise", None)
    radio = dict(PLAIN["radio"])
    if noise_db is not None:
        radio["channel_noise"] = [f"{db} dB" for db in noise_db]
    channel = [{"kind": "constant", "gain": "0 dB"}, SELECTIVE]
    access = {"kind": "network"} | PLAIN | {"mac": OF_CHANNELS, "channel": channel, "radio": radio} | changes
    with pytest.raises(ScenarioError, match=re.escape(words)):
        netfl.load({"name": "a", "users": 3, "rounds": 2, "access": access})


def test_frequencies_of_macs():
    raster_hz = Lorawan(sub_bands=[{"channels": 3}, {"channels": 5}]).channels_hz(125e3)
    assert raster_hz.tolist() == (200e3 * np.arange(8)).tolist()
    given = [
        {"channels": 3, "frequencies": EU868_HZ[:3].tolist()},
        {"channels": 5, "frequencies": EU868_HZ[3:].tolist()},
    ]
    assert Lorawan(sub_bands=given).channels_hz(125e3).tolist() == EU868_HZ.tolist()
    assert Lorawan(sub_bands=[{"channels": 1}]).channels_hz(125e3) is None
    assert MultichannelAloha(channels=3, probability=0.1).channels_hz(125e3).tolist() == [0.0, 125e3, 250e3]
    assert MultichannelAloha(channels=1, probability=0.1).channels_hz(125e3) is None
