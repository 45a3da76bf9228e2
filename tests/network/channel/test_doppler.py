"""Fading in continuous time against Rice and Clarke, computed apart; false-alarm rate 1e-6 per statistic."""

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
def test_every_variant_holds_its_laws(variant):
    assert check_laws(VARIANTS[variant], Streams(20_240_607).at(variant), DRAWS) == []


class Hurried(Rayleigh):
    """Fades faster than it says."""

    haste: float = 1.1

    def open(self, sites, streams):
        return Rayleigh(doppler=self.doppler * self.haste).open(sites, streams)


@pytest.mark.slow
def test_a_doppler_shift_that_is_off_by_a_tenth_is_caught():
    found = check_laws(Hurried(doppler=20), STREAMS)
    assert any("autocorrelation" in one for one in found)
    assert check_laws(Hurried(doppler=20, haste=1.0), STREAMS, DRAWS) == []


class TestRayleighOverTime:
    def test_the_square_of_the_power(self):
        """E[g²] is 2 - 1/N; its estimate from n draws has the variance (E[g⁴] - 4) / n, E[g⁴] = 24."""
        power = powers(Rayleigh(doppler=10), np.arange(10_000), 3.3)
        assert power.mean() == pytest.approx(1, abs=4.9 / 100)
        assert (power**2).mean() == pytest.approx(2 - 1 / 128, abs=4.9 * math.sqrt(20) / 100)
        assert stats.kstest(power, stats.expon.cdf).pvalue > 1e-6

    @pytest.mark.parametrize("periods", [0.1, 0.25, 0.383, 0.6, 1.0])
    @pytest.mark.slow
    def test_correlation_of_the_power_is_the_square_of_bessels(self, periods):
        """In 8,000 users; J0 by its integral, 0 at 0.383 periods."""
        users, f = np.arange(8000), 50.0
        now, then = (powers(Rayleigh(doppler=f), users, 2.0 + lag / f) for lag in (0.0, periods))
        products = (now - 1) * (then - 1)
        assert products.mean() == pytest.approx(
            bessel_0(2 * math.pi * periods) ** 2, abs=4.9 * products.std() / math.sqrt(8000)
        )

    @pytest.mark.slow
    def test_one_user_over_a_long_time(self):
        """Each user by itself fades with Rice's rate and durations, and has the mean power 1: 2,000 periods of it."""
        f, step_s = 10.0, 0.001
        time_s = step_s * np.arange(200_000)
        for user in range(2):
            power = powers(Rayleigh(doppler=f), np.full(len(time_s), user), time_s, size=2)
            assert power.mean() == pytest.approx(1, abs=0.06)
            for rho in (0.5, 1.0):
                low = power < rho**2
                falls = (low[1:] & ~low[:-1]).sum()
                rate = math.sqrt(2 * math.pi) * f * rho * math.exp(-(rho**2))
                assert falls / 200 == pytest.approx(rate, rel=0.1)
                assert low.mean() * 200 / falls == pytest.approx(
                    (math.exp(rho**2) - 1) / (rho * f * math.sqrt(2 * math.pi)), rel=0.1
                )

    def test_speed_and_frequency_make_the_shift(self):
        """30 m/s at 2.998 GHz: a wavelength of 0.1 m, 300 Hz."""
        moving = Rayleigh(speed="108 km/h", frequency="2.99792458 GHz")
        assert moving.doppler_hz == pytest.approx(300)
        assert powers(moving, np.arange(4), 1.0) == pytest.approx(powers(Rayleigh(doppler=300), np.arange(4), 1.0))

    def test_no_answer_depends_on_what_else_is_asked_nor_on_what_is_kept(self, monkeypatch):
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

    def test_more_users_change_nobody(self):
        few, many = (powers(VARIANTS["six Gaussians"], np.arange(5), 0.7, size=size) for size in (5, 500))
        assert (few == many).all()


class TestTheSteadyPath:
    def test_its_shift_beats_against_the_scattered_ones(self):
        """A path as strong as K = 40 dB turns by itself: the gain hardly changes; K = -30 dB is Rayleigh."""
        users = np.arange(5000)
        strong = powers(Rician(k_factor="40 dB", doppler=20, path_doppler=-20), users, 5.0)
        assert abs(10 * np.log10(strong)).max() < 0.5
        weak = powers(Rician(k_factor="-30 dB", doppler=20), users, 5.0)
        assert stats.kstest(weak, stats.expon.cdf).pvalue > 1e-6

    @pytest.mark.parametrize("shift", [0.0, 14.0])
    @pytest.mark.slow
    def test_correlation_from_the_waves_themselves(self, shift):
        """Simulated apart, as Gaussian waves from 64 directions and a path, against the model, at one lag."""
        rng, k, f, lag_s = np.random.default_rng(3), 2.0, 20.0, 0.011
        angle = rng.uniform(0, 2 * np.pi, (20_000, 64))
        waves = rng.normal(size=(20_000, 64)) + 1j * rng.normal(size=(20_000, 64))
        path = math.sqrt(k) * np.exp(2j * np.pi * rng.uniform(size=20_000))
        found = []
        for time_s in (0.0, lag_s):
            h = (waves * np.exp(2j * np.pi * f * np.cos(angle) * time_s)).sum(axis=1) / math.sqrt(128)
            found.append(np.abs(h + path * np.exp(2j * np.pi * shift * time_s)) ** 2 / (k + 1))
        model = Rician(k_factor=10 * math.log10(k), doppler=f, path_doppler=shift)
        mine = [powers(model, np.arange(20_000), 1.0 + time_s) for time_s in (0.0, lag_s)]
        theirs, ours = ((now - 1) * (then - 1) for now, then in (found, mine))
        assert ours.mean() == pytest.approx(
            theirs.mean(), abs=4.9 * math.hypot(ours.std(), theirs.std()) / math.sqrt(20_000)
        )


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        (Rayleigh, {}, "exactly one"),
        (Rayleigh, {"coherence": 1, "doppler": 5}, "exactly one"),
        (Rayleigh, {"doppler": -5}, "greater than 0"),
        (Rayleigh, {"speed": 3}, "frequency together"),
        (Rayleigh, {"doppler": 3, "frequency": 1e9}, "frequency together"),
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
def test_what_cannot_be_is_told(model, given, told):
    with pytest.raises(ScenarioError, match=told):
        model(**given)
