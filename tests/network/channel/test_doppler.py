"""Fading in continuous time compared with Rice and Clarke; false-alarm rate 1e-6 per statistic."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.channel import _fading
from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.channel.rician import Rician
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(11)
VARIANTS = {
    "rayleigh": Rayleigh(doppler="20 Hz"),
    "few sinusoids": Rayleigh(doppler="20 Hz", sinusoids=64),
    "rician": Rician(k_factor="6 dB", doppler="20 Hz"),
    "weak path": Rician(k_factor="-3 dB", doppler="2 Hz"),
    "shifted path": Rician(k_factor="6 dB", doppler="20 Hz", path_doppler="14 Hz"),
    "one Gaussian": Nakagami(m=0.5, doppler="5 Hz"),
    "three Gaussians": Nakagami(m=1.5, doppler="5 Hz"),
    "six Gaussians": Nakagami(m=3, doppler="5 Hz"),
}


def powers(model, users, time_s, size=None, streams=STREAMS):
    gain = model.open(Star(distance=100).open(size or int(np.max(users)) + 1, streams), streams)
    return 10 ** (gain.gain_db(users, time_s) / 10)


def bessel_0(x):
    return integrate.quad(lambda turn: math.cos(x * math.sin(turn)), 0, math.pi)[0] / math.pi


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.slow
def test_variants_follow_stated_distributions(variant):
    assert check_laws(VARIANTS[variant], Streams(20_240_607).at(variant), DRAWS) == []


@pytest.mark.parametrize("m", [0.5, 1, 3])
def test_crossing_rate_of_nakagami_follows_from_independence_of_slope(m):
    """The slope R' is independent of R and normal with variance (π f)² / m: the rate is p(R) E[|R'|] / 2."""
    (law,) = Nakagami(m=m, doppler="5 Hz").laws()
    (claim,) = [claim for claim in law.statistics if claim.name == "level-crossing rate"]
    amplitude = np.sqrt([float(place.removeprefix("level ")) for place in claim.at])
    slope = math.pi * 5.0 / math.sqrt(m)
    assert claim.means == pytest.approx(stats.nakagami(m).pdf(amplitude) * slope / math.sqrt(2 * math.pi), rel=2e-3)


class FastFading(Rayleigh):
    """Rayleigh fading that is faster than stated."""

    factor: float = 1.1

    def open(self, layout, streams):
        return Rayleigh(doppler=self.doppler * self.factor).open(layout, streams)


@pytest.mark.slow
def test_check_detects_wrong_doppler_shift():
    problems = check_laws(FastFading(doppler=20), STREAMS)
    assert any("autocorrelation" in problem for problem in problems)
    assert check_laws(FastFading(doppler=20, factor=1.0), STREAMS, DRAWS) == []


class TestRayleighOverTime:
    def test_second_moment_of_power(self):
        """E[g²] is 2 - 1/N; its estimate from n draws has variance (E[g⁴] - 4) / n, with E[g⁴] = 24."""
        power = powers(Rayleigh(doppler=10), np.arange(10_000), 3.3)
        assert power.mean() == pytest.approx(1, abs=4.9 / 100)
        assert (power**2).mean() == pytest.approx(2 - 1 / 128, abs=4.9 * math.sqrt(20) / 100)
        assert stats.kstest(power, stats.expon.cdf).pvalue > 1e-6

    @pytest.mark.parametrize("periods", [0.1, 0.25, 0.383, 0.6, 1.0])
    @pytest.mark.slow
    def test_autocorrelation_is_squared_bessel_function(self, periods):
        """8,000 users; J0 from its integral has a zero at 0.383 periods."""
        users, f = np.arange(8000), 50.0
        early, late = (powers(Rayleigh(doppler=f), users, 2.0 + lag / f) for lag in (0.0, periods))
        products = (early - 1) * (late - 1)
        assert products.mean() == pytest.approx(
            bessel_0(2 * math.pi * periods) ** 2, abs=4.9 * products.std() / math.sqrt(8000)
        )

    @pytest.mark.slow
    def test_single_user_is_ergodic(self):
        """Each user fades with Rice's rate and durations, and has mean power 1, over 2,000 periods."""
        f, step_s = 10.0, 0.001
        time_s = step_s * np.arange(200_000)
        for user in range(2):
            power = powers(Rayleigh(doppler=f), np.full(len(time_s), user), time_s, size=2)
            assert power.mean() == pytest.approx(1, abs=0.06)
            for rho in (0.5, 1.0):
                is_faded = power < rho**2
                crossings = (is_faded[1:] & ~is_faded[:-1]).sum()
                rate = math.sqrt(2 * math.pi) * f * rho * math.exp(-(rho**2))
                assert crossings / 200 == pytest.approx(rate, rel=0.1)
                assert is_faded.mean() * 200 / crossings == pytest.approx(
                    (math.exp(rho**2) - 1) / (rho * f * math.sqrt(2 * math.pi)), rel=0.1
                )

    def test_doppler_shift_from_speed_and_frequency(self):
        """30 m/s at 2.998 GHz: a wavelength of 0.1 m, 300 Hz."""
        moving = Rayleigh(speed="108 km/h", frequency="2.99792458 GHz")
        assert moving.doppler_hz == pytest.approx(300)
        assert powers(moving, np.arange(4), 1.0) == pytest.approx(powers(Rayleigh(doppler=300), np.arange(4), 1.0))

    def test_results_are_independent_of_other_queries_and_cache(self, monkeypatch):
        users, times = np.arange(300) % 100, np.linspace(0, 1, 300)
        at_once = powers(VARIANTS["rayleigh"], users, times)
        singly = [powers(VARIANTS["rayleigh"], users[[i]], times[i], size=100)[0] for i in reversed(range(300))]
        assert (at_once == singly[::-1]).all()
        gain = VARIANTS["rayleigh"].open(Star(distance=1).open(100, STREAMS), STREAMS)
        backwards = [10 ** (gain.gain_db(users[[i]], times[i]) / 10) for i in reversed(range(300))]
        assert (at_once == np.concatenate(backwards[::-1])).all()
        monkeypatch.setattr(_fading, "_MAX_CACHED", 256 * 30)
        monkeypatch.setattr(_fading, "_CHUNK", 128 * 7)
        assert (at_once == powers(VARIANTS["rayleigh"], users, times)).all()

    def test_more_users_do_not_change_others(self):
        few, many = (powers(VARIANTS["six Gaussians"], np.arange(5), 0.7, size=size) for size in (5, 500))
        assert (few == many).all()


class TestDirectPath:
    def test_gain_with_strong_and_weak_direct_path(self):
        """With K = 40 dB the gain is nearly constant; with K = -30 dB it is Rayleigh."""
        users = np.arange(5000)
        strong = powers(Rician(k_factor="40 dB", doppler=20, path_doppler=-20), users, 5.0)
        assert abs(10 * np.log10(strong)).max() < 0.5
        weak = powers(Rician(k_factor="-30 dB", doppler=20), users, 5.0)
        assert stats.kstest(weak, stats.expon.cdf).pvalue > 1e-6

    @pytest.mark.parametrize("shift", [0.0, 14.0])
    @pytest.mark.slow
    def test_correlation_matches_sum_of_waves(self, shift):
        """An independent simulation of Gaussian waves from 64 directions and a path is compared at one lag."""
        rng, k, f, lag_s = np.random.default_rng(3), 2.0, 20.0, 0.011
        angle = rng.uniform(0, 2 * np.pi, (20_000, 64))
        waves = rng.normal(size=(20_000, 64)) + 1j * rng.normal(size=(20_000, 64))
        path = math.sqrt(k) * np.exp(2j * np.pi * rng.uniform(size=20_000))
        expected = []
        for time_s in (0.0, lag_s):
            h = (waves * np.exp(2j * np.pi * f * np.cos(angle) * time_s)).sum(axis=1) / math.sqrt(128)
            expected.append(np.abs(h + path * np.exp(2j * np.pi * shift * time_s)) ** 2 / (k + 1))
        model = Rician(k_factor=10 * math.log10(k), doppler=f, path_doppler=shift)
        simulated = [powers(model, np.arange(20_000), 1.0 + time_s) for time_s in (0.0, lag_s)]
        expected_products, products = ((early - 1) * (late - 1) for early, late in (expected, simulated))
        assert products.mean() == pytest.approx(
            expected_products.mean(), abs=4.9 * math.hypot(products.std(), expected_products.std()) / math.sqrt(20_000)
        )


@pytest.mark.parametrize(
    ("model", "settings", "problem"),
    [
        (Rayleigh, {"coherence": 1, "doppler": 5}, "only one"),
        (Rayleigh, {"doppler": -5}, "greater than 0"),
        (Rayleigh, {"speed": 3}, "speed and frequency is missing"),
        (Rayleigh, {"doppler": 3, "frequency": 1e9}, "frequency has no effect"),
        (Rayleigh, {"coherence": 1, "sinusoids": 64}, "no effect"),
        (Rayleigh, {"doppler": 1, "sinusoids": 4}, "16"),
        (Rician, {"doppler": 1}, "missing"),
        (Rician, {"doppler": 5, "k_factor": 3, "path_doppler": -6}, "outside ±5 Hz"),
        (Rician, {"coherence": 5, "k_factor": 3, "path_doppler": 0}, "no effect"),
        (Nakagami, {"m": 0.4, "coherence": 1}, "0.5"),
        (Nakagami, {"m": 0.7, "doppler": 1}, "multiple of 1/2"),
        (Nakagami, {"m": 20, "doppler": 1}, "multiple of 1/2"),
    ],
)
def test_invalid_settings_are_rejected(model, settings, problem):
    with pytest.raises(ScenarioError, match=problem):
        model(**settings)
