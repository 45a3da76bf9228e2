"""Underwater sound compared with published absorption and noise, and a sonar equation by hand."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from netfl.errors import ScenarioError
from netfl.network.channel.free_space import FreeSpace
from netfl.network.channel.underwater import Underwater, absorption_db_km, density_db
from netfl.network.topology.star import Star
from netfl.streams import Streams

STREAMS = Streams(23)


def loss_db(model, *distances_m):
    layout = Star(distances=distances_m).open(len(distances_m), STREAMS)
    return -model.open(layout, STREAMS).gain_db(np.arange(len(distances_m)), 0.0)


class TestAbsorption:
    @pytest.mark.parametrize(("khz", "expected"), [(0.5, 0.0278), (1, 0.0690), (10, 1.187), (20, 4.134), (50, 17.47)])
    def test_values_by_hand(self, khz, expected):
        """At 10 kHz: 0.11 x 100/101 + 44 x 100/4200 + 0.0275 + 0.003 = 0.1089 + 1.0476 + 0.0305."""
        assert absorption_db_km(khz * 1000) == pytest.approx(expected, rel=0.002)


class TestLoss:
    def test_spreading_and_absorption(self):
        """10 kHz over 1 km: 45 + 1.187 dB with k = 1.5; 30 and 60 dB of spreading with 1 and 2."""
        for spreading, expected in ((1.5, 46.187), (1, 31.187), (2, 61.187)):
            assert loss_db(Underwater(frequency=10e3, spreading=spreading), 1000) == pytest.approx(
                [expected], abs=0.001
            )

    def test_loss_follows_slant_distance(self):
        """Users at 300 m and a depth of 400 m are 500 m away."""
        deep, flat = Underwater(frequency=10e3, depth=400), Underwater(frequency=10e3)
        assert loss_db(deep, 300) == pytest.approx(loss_db(flat, 500))
        assert deep.delay_s(np.array([300.0])) == pytest.approx([1 / 3])

    def test_loss_is_zero_at_tower(self):
        assert loss_db(Underwater(frequency=10e3), 0.01) == pytest.approx([0.0], abs=0.002)


class TestNoise:
    @pytest.mark.parametrize("khz", [1.0, 3.0, 10.0, 30.0])
    def test_published_approximation(self, khz):
        """Stojanovic (2007): moderate shipping without wind has about 50 dB at 1 kHz less 18 dB per decade."""
        noise_db = density_db(np.array([khz * 1000]), 0.5, 0.0)
        assert noise_db == pytest.approx([50 - 18 * np.log10(khz)], abs=5.0)

    def test_value_by_hand(self):
        """10 kHz, s = 0.5, w = 0: -13, 5.92, 29.32 and 5 dB; 29.35 together."""
        assert density_db(np.array([1e4]), 0.5, 0.0) == pytest.approx([29.35], abs=0.01)

    @pytest.mark.parametrize(("khz", "part"), [(0.003, 92.7), (0.1, 67.0), (10.0, 46.1), (300.0, 34.6)])
    def test_dominant_source_of_each_band(self, khz, part):
        """Turbulence, ships (s = 0.5), wind (5 m/s) and heat dominate in the bands of Wenz."""
        shares = {0.003: 17 - 30 * np.log10(0.003), 0.1: 40 - 26 - 60 * np.log10(0.13)}
        shares |= {10.0: 50 + 7.5 * 5**0.5 + 20 - 40 * np.log10(10.4), 300.0: -15 + 20 * np.log10(300)}
        assert shares[khz] == pytest.approx(part, abs=0.5)
        wind = 5.0 if khz == 10.0 else 0.0
        assert density_db(np.array([khz * 1000]), 0.5, wind) == pytest.approx([shares[khz]], abs=0.6)

    def test_noise_of_wind_and_ships(self):
        calm, windy = (density_db(np.array([1e4]), 0.5, wind)[0] for wind in (0.0, 10.0))
        assert windy - calm == pytest.approx(7.5 * 10**0.5, abs=0.1)
        quiet, busy = (density_db(np.array([100.0]), ships, 0.0)[0] for ships in (0.0, 1.0))
        assert busy - quiet == pytest.approx(20.0, abs=1.5)

    @pytest.mark.parametrize("khz", [0.05, 0.1, 1.0])
    def test_noise_of_ships_is_ten_times_for_half_of_shipping(self, khz):
        """20 dB for the whole: the other sources cancel in differences of powers, which are 9 and 0.9 of s = 0.5."""
        quiet, moderate, busy = (10 ** (density_db(np.array([khz * 1000]), s, 3.0)[0] / 10) for s in (0.0, 0.5, 1.0))
        assert (busy - moderate) / (moderate - quiet) == pytest.approx(10.0, rel=1e-9)

    @pytest.mark.parametrize(("centre", "width"), [(10e3, 100), (10e3, 5e3), (25e3, 49.9e3), (1e3, 1990)])
    def test_noise_is_integrated_over_band(self, centre, width):
        density = lambda hz: 10 ** (density_db(np.array([hz]), 0.5, 3.0)[0] / 10)  # noqa: E731
        points = np.geomspace(centre - width / 2, centre + width / 2, 12)
        total = sum(quad(density, *pair, epsrel=1e-9)[0] for pair in itertools.pairwise(points))
        noise_db = Underwater(frequency=centre, wind=3).noise_dbm(width) + 140.8
        assert noise_db == pytest.approx(10 * np.log10(total), abs=0.001)

    def test_band_below_1_hz_is_rejected(self):
        with pytest.raises(ScenarioError, match="frequency: a band of 50000 Hz around it reaches below 1 Hz"):
            Underwater(frequency=20e3).noise_dbm(50e3)


class TestSonarEquation:
    def test_snr_by_hand(self):
        """1 W over 5 km in 1 kHz at 10 kHz: 170.8 - (15 log10 5000 + 5 x 1.1870) - (29.35 + 30) = 50.04 dB.

        The AN product gives the same: 1/AN = -(61.42 + 29.35) = -90.77 dB, with 170.8 and 30 dB for power and
        bandwidth.
        """
        model = Underwater(frequency=10e3)
        snr_db = 30.0 - loss_db(model, 5000)[0] - model.noise_dbm(1000.0)
        assert snr_db == pytest.approx(170.8 - 90.77 - 30.0, abs=0.02)

    @pytest.mark.slow
    def test_best_frequency_decreases_with_distance(self):
        """Stojanovic (2007), Fig. 3 (k = 1.5, s = 0.5, w = 0): some 9 kHz over 5 km, below 1 kHz over 100 km."""
        frequencies = np.geomspace(400, 50e3, 400)
        best_hz = []
        for distance in (1e3, 5e3, 1e4, 5e4, 1e5):
            models = [Underwater(frequency=frequency) for frequency in frequencies]
            products_db = [loss_db(model, distance)[0] + model.noise_dbm(1.0) for model in models]
            best_hz.append(frequencies[int(np.argmin(products_db))])
        assert best_hz == pytest.approx([20.1e3, 8.6e3, 5.9e3, 2.07e3, 816.0], rel=0.03)


class TestContract:
    def test_speed_and_noise_of_water_and_air(self):
        sea, air = Underwater(frequency=10e3), FreeSpace(frequency=1e9)
        assert (sea.speed_m_s, air.speed_m_s) == (1500.0, 299_792_458.0)
        assert air.noise_dbm(1e6) is None
        assert air.delay_s(np.array([299_792.458])) == pytest.approx([1e-3])

    @pytest.mark.parametrize(
        "settings",
        [
            {"frequency": 399},
            {"frequency": "51 kHz"},
            {"spreading": 0.9},
            {"spreading": 2.1},
            {"shipping": 1.1},
            {"wind": -1},
            {"depth": -5},
            {"sound_speed": 340},
        ],
    )
    def test_values_out_of_range_are_rejected(self, settings):
        with pytest.raises(ScenarioError) as error:
            Underwater(**{"frequency": 10e3} | settings)
        assert [fault.key.partition(".")[2] for fault in error.value.faults] == [*settings]
