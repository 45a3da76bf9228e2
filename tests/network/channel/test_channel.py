"""Channels and link budgets compared with hand calculations and closed forms; false-alarm rate 1e-6 per statistic."""

import math

import numpy as np
import pytest
from scipy import stats
from support.small_network import make
from support.tiny_scenarios import OF_FILES, example_settings

from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.network.channel import Channel, distance_gain
from netfl.network.channel._fading import with_carrier
from netfl.network.channel.constant import Constant
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.lognormal_shadowing import LognormalShadowing
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import Law

STREAMS = Streams(11)
RADIO = Radio(power="14 dBm", bandwidth="125 kHz", noise_figure="6 dB")


def star(*distances_m):
    return Star(distances=distances_m).open(len(distances_m), STREAMS)


def equal_distance(users, distance_m=100.0):
    return Star(distance=distance_m).open(users, STREAMS)


def test_block_fading_is_the_same_in_any_order_of_the_blocks():
    """Successive blocks are drawn ahead, and an earlier one is asked for afterwards."""
    gain, again = (Rayleigh(coherence=1.0).open(star(100.0, 100.0), STREAMS) for _ in range(2))
    user = np.array([1])
    times_s = [2.5, 3.5, 4.5, 0.5, 1.5, 40.5, 5.5, 2.5]
    expected = [float(again.gain_db(np.arange(2), time_s)[1]) for time_s in times_s]
    assert [float(gain.gain_db(user, time_s)[0]) for time_s in times_s] == expected


def test_gains_change_with_the_channel_that_changes_first():
    channels = [Rayleigh(coherence=0.5), Rayleigh(coherence=2.0)]
    budget = LinkBudget(RADIO, channels, star(100.0), STREAMS)
    assert [budget.next_change_s(time_s) for time_s in (0.0, 1.7, 2.0)] == [0.5, 2.0, 2.5]


class TestLogDistance:
    def test_slope_and_reference(self):
        """At 299.792458 MHz the wavelength is 1 m: 20 log10(4π) at 1 m, then 10 n per decade."""
        gain = LogDistance(exponent=3, frequency="299.792458 MHz").open(star(0.1, 1, 10, 1000), STREAMS)
        at_1_m = -21.984197280441926
        expected = [at_1_m, at_1_m, at_1_m - 30, at_1_m - 90]
        assert gain.gain_db(np.arange(4), 0.0) == pytest.approx(expected, abs=1e-9)
        assert gain.peak_db(np.arange(4)) == pytest.approx(expected, abs=1e-9)

    def test_exponent_2_is_friis(self):
        distance_m, frequency_hz = 740.0, 868e6
        gain = LogDistance(exponent=2, frequency=frequency_hz).open(star(distance_m), STREAMS)
        wavelength_m = 299_792_458 / frequency_hz
        assert 10 ** (gain.gain_db(np.array([0]), 5.0) / 10) == pytest.approx(
            (wavelength_m / (4 * math.pi * distance_m)) ** 2
        )

    def test_explicit_reference(self):
        model = LogDistance(exponent=2.32, reference_loss="128.95 dB", reference_distance="1 km")
        gain = model.open(star(500, 10_000), STREAMS)
        expected = [-128.95 + 23.2 * math.log10(2), -128.95 - 23.2]
        assert gain.gain_db(np.arange(2), 0.0) == pytest.approx(expected)

    @pytest.mark.parametrize(
        "settings",
        [{}, {"frequency": 1e9, "reference_loss": 40}, {"frequency": -1}, {"frequency": 1e6, "reference_distance": 1}],
    )
    def test_invalid_references_are_rejected(self, settings):
        with pytest.raises(ScenarioError):
            LogDistance(exponent=2, **settings)


class TestShadowing:
    @pytest.mark.parametrize("sigma", [0.5, 4.0, 12.0])
    def test_constant_shadowing_has_moments(self, sigma):
        gain = LognormalShadowing(sigma=sigma).open(equal_distance(20_000), STREAMS)
        users = np.arange(20_000)
        drawn = gain.gain_db(users, 0.0)
        assert stats.kstest(drawn, stats.norm(0, sigma).cdf).pvalue > 1e-6
        assert abs(drawn.mean()) < 4.9 * sigma / math.sqrt(20_000)
        assert drawn.var() == pytest.approx(sigma**2, abs=4.9 * sigma**2 * math.sqrt(2 / 20_000))
        assert (gain.gain_db(users, 1e7) == drawn).all()
        assert (gain.peak_db(users) == drawn).all()

    def test_new_draw_each_coherence_time(self):
        gain = LognormalShadowing(sigma="6 dB", coherence="10 s").open(equal_distance(1), STREAMS)
        user = np.zeros(20_000, int)
        drawn = gain.gain_db(user, 10.0 * np.arange(20_000))
        assert stats.kstest(drawn, stats.norm(0, 6).cdf).pvalue > 1e-6
        assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 4.9 / math.sqrt(20_000)
        assert gain.gain_db(user[:3], [20.0, 25.0, 29.999]).tolist() == [drawn[2]] * 3

    def test_peak_is_exceeded_with_probability_1e_9(self):
        gain = LognormalShadowing(sigma=6, coherence=1).open(equal_distance(2), STREAMS)
        assert stats.norm(0, 6).sf(gain.peak_db(np.arange(2))) == pytest.approx(1e-9, rel=1e-4)


class TestRayleigh:
    GAIN = Rayleigh(coherence="20 ms").open(equal_distance(20_000), STREAMS)

    def power(self, users, time_s):
        return 10 ** (self.GAIN.gain_db(users, time_s) / 10)

    @pytest.mark.parametrize(
        ("users", "time_s"), [(np.arange(20_000), 0.0), (np.zeros(20_000, int), 0.02 * np.arange(20_000) + 0.01)]
    )
    def test_power_is_exponential(self, users, time_s):
        power = self.power(users, time_s)
        assert stats.kstest(power, stats.expon.cdf).pvalue > 1e-6
        assert abs(np.corrcoef(power[1:], power[:-1])[0, 1]) < 4.9 / math.sqrt(20_000)

    def test_gain_is_constant_within_block(self):
        user = np.zeros(4, int)
        inside = self.power(user, [0.0401, 0.05, 0.0599, 0.0601])
        assert inside[0] == inside[1] == inside[2] != inside[3]

    def test_results_are_independent_of_other_queries(self):
        users, times = np.arange(100), np.linspace(0, 1, 100)
        at_once = self.GAIN.gain_db(users, times)
        singly = [self.GAIN.gain_db(users[[i]], times[i])[0] for i in reversed(range(100))]
        assert (at_once == singly[::-1]).all()

    def test_peak_is_exceeded_with_probability_1e_9(self):
        peak = 10 ** (self.GAIN.peak_db(np.arange(3)) / 10)
        assert np.exp(-peak) == pytest.approx(1e-9)


class TestLinkBudget:
    def test_snr_by_hand(self):
        """14 dBm less 40 + 60 dB over 100 m, with -174 + 50.97 + 6 = -117.03 dBm of noise: 31.03 dB."""
        links = LinkBudget(RADIO, [LogDistance(exponent=3, reference_loss=40)], equal_distance(2), STREAMS)
        assert links.snr_db(np.arange(2), 0.0) == pytest.approx([31.0309] * 2, abs=1e-4)

    def test_gains_and_peaks_add_in_db(self):
        channels = [LogDistance(exponent=3, reference_loss=40), LognormalShadowing(sigma=8), Rayleigh(coherence=0.01)]
        layout, users = equal_distance(6), np.array([4, 0, 2])
        links = LinkBudget(RADIO, channels, layout, STREAMS)
        kinds = ("log_distance", "lognormal_shadowing", "rayleigh")
        gains = [
            channel.open(layout, STREAMS.at("channel", 0, kind)) for channel, kind in zip(channels, kinds, strict=True)
        ]
        total = sum(gain.gain_db(users, 3.0) for gain in gains)
        assert links.snr_db(users, 3.0) == pytest.approx(14 + total + 117.0309, abs=1e-4)
        best = sum(gain.peak_db(users) for gain in gains)
        assert links.best_snr_db(users) == pytest.approx(14 + best + 117.0309, abs=1e-4)
        assert (links.best_snr_db(users) >= links.snr_db(users, 3.0)).all()

    def test_draws_are_independent_of_other_channels(self):
        layout, users = equal_distance(5), np.arange(5)
        fading = Rayleigh(coherence=0.01)
        exponent_2_db, exponent_4_db = (
            LinkBudget(RADIO, [LogDistance(exponent=exponent, reference_loss=40), fading], layout, STREAMS).snr_db(
                users, 1.0
            )
            for exponent in (2, 4)
        )
        assert exponent_2_db - exponent_4_db == pytest.approx([40.0] * 5)

    def test_draws_are_independent_of_order(self):
        layout, users = equal_distance(5), np.arange(5)
        path, fading, shadowing = LogDistance(exponent=3, reference_loss=40), Rayleigh(coherence=1), Constant(gain=-3)
        first, *others = (
            LinkBudget(RADIO, channels, layout, STREAMS).snr_db(users, 1.0)
            for channels in ([path, fading, shadowing], [path, shadowing, fading], [fading, path, shadowing])
        )
        for other in others:
            assert other == pytest.approx(first, abs=1e-9)

    def test_channels_of_one_kind_draw_independently(self):
        layout, users = equal_distance(5), np.arange(5)
        single_db, double_db = (
            LinkBudget(RADIO, [Rayleigh(coherence=1)] * count, layout, STREAMS).snr_db(users, 1.0) for count in (1, 2)
        )
        static_db = 14 + 174 - 10 * np.log10(125e3) - 6
        assert (np.abs(double_db - static_db - 2 * (single_db - static_db)) > 1e-9).all()


class InvertedLoss(Channel):
    """Path loss that returns a gain where `distance_gain` expects a loss."""

    def open(self, layout, streams):
        return distance_gain(layout, lambda distance_m: -20.0 - distance_m)

    def laws(self):
        return (Law.none("nothing is drawn"),)


class TestAmplifiedLinks:
    """The warning for links whose mean gain is above 0 dB."""

    @staticmethod
    def warnings(channel, **overrides):
        access, setting, _ = make(5, 1, channel=channel, topology={"kind": "star", "distance": "30 m"}, **overrides)
        return [*access.warnings(setting)]

    def test_wrong_sign_is_reported(self):
        (warning,) = self.warnings([{"kind": "constant", "gain": -10}, InvertedLoss()])
        assert "user 0 to tower:0: 40 dB, user 1 to tower:0: 40 dB" in warning
        assert "and 2 more" in warning
        assert "access.channel.1, " in warning
        assert "Inverted" in warning
        assert "check the sign" in warning

    @pytest.mark.parametrize("gain", [0, -60])
    def test_fading_above_0_db_is_not_reported(self, gain):
        assert self.warnings([{"kind": "constant", "gain": gain}, {"kind": "rayleigh", "coherence": "1 s"}]) == []


@pytest.mark.parametrize("kind", list_kinds(base_of("network/channel")))
def test_one_link_has_one_gain_for_a_time_and_for_an_array_of_it(kind):
    family = "network/channel"
    settings = example_settings(family, kind) | OF_FILES.get((family, kind), {})
    del settings["kind"]
    channel = find_model(base_of(family), kind).model_validate(settings)
    (carried,) = with_carrier([channel])
    links = carried.fitted(14.0, -117.0, 125e3).open(equal_distance(6), STREAMS)
    for user in (0, 1):
        link = np.array([user])
        alone = links.gain_db(link, 3.0)
        assert alone.shape == (1,)
        assert np.array_equal(links.gain_db(link, np.array(3.0)), alone)
        assert np.array_equal(links.gain_db(link, np.array([3.0])), alone)
        assert np.array_equal(links.gain_db(np.array([user, user]), np.array([3.0, 3.0])), np.repeat(alone, 2))
