"""Block fading and correlated shadowing compared with integrals and SciPy; false-alarm rate 1e-6 per statistic."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.channel.correlated_shadowing import CorrelatedShadowing
from netfl.network.channel.lognormal_shadowing import LognormalShadowing
from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.channel.rician import Rician
from netfl.network.layout import Layout, Trajectories
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(11)


def equal_distance(users):
    return Star(distance=100).open(users, STREAMS)


def powers(model, users, time_s, size=None):
    gain = model.open(equal_distance(size or int(np.max(users)) + 1), STREAMS)
    return 10 ** (gain.gain_db(users, time_s) / 10)


@pytest.mark.parametrize(
    "model",
    [
        Rician(k_factor="6 dB", coherence=0.1),
        Nakagami(m=0.5, coherence=0.1),
        Nakagami(m=0.73, coherence=0.1),
        Nakagami(m=12.5, coherence=0.1),
        LognormalShadowing(sigma=6, coherence=0.1),
        CorrelatedShadowing(sigma=8, decorrelation_distance=50, decorrelation_time=3),
    ],
    ids=["rician", "m = 0.5", "m = 0.73", "m = 12.5", "lognormal", "changing landscape"],
)
def test_variants_follow_stated_distributions(model):
    assert check_laws(model, STREAMS, DRAWS) == []


@pytest.mark.parametrize(
    ("model", "power"),
    [
        (Rayleigh(coherence=1.0), stats.expon()),
        (Nakagami(m=3.0, coherence=1.0), stats.gamma(3.0, scale=1.0 / 3.0)),
        (Nakagami(m=0.5, coherence=1.0), stats.gamma(0.5, scale=2.0)),
        (Rician(k_factor=4.0, coherence=1.0), stats.ncx2(2.0, 2.0 * 10**0.4, scale=0.5 / (1.0 + 10**0.4))),
    ],
)
def test_peak_is_the_gain_that_one_block_in_a_billion_exceeds(model, power):
    assert power.sf(10.0 ** (model._peak_db / 10.0)) == pytest.approx(1e-9, rel=1e-3)


def test_block_draws_are_unchanged():
    users, times = np.arange(3), np.linspace(0, 50, 1000)[:3]
    assert Rayleigh(coherence=0.02).open(equal_distance(3), STREAMS).gain_db(users, times) == pytest.approx(
        [3.3665643471471176, 0.7474965342504968, -3.7068334024386655], rel=1e-12
    )
    assert LognormalShadowing(sigma=6, coherence=10).open(equal_distance(3), STREAMS).gain_db(
        users, times
    ) == pytest.approx([0.5665011402459388, 1.3520225143116082, 6.075092993945436], rel=1e-12)


class TestBlocks:
    @pytest.mark.parametrize("k", [0.1, 1.0, 10.0])
    def test_rician_amplitude(self, k):
        """The amplitude has SciPy's Rice distribution with b = sqrt(2K) and scale sqrt(1 / (2 (K + 1)))."""
        model = Rician(k_factor=10 * math.log10(k), coherence=1)
        amplitude = np.sqrt(powers(model, np.arange(20_000), 0.0))
        distribution = stats.rice(math.sqrt(2 * k), scale=math.sqrt(0.5 / (k + 1)))
        assert stats.kstest(amplitude, distribution.cdf).pvalue > 1e-6
        peak = model.open(equal_distance(1), STREAMS).peak_db(np.array([0]))[0]
        assert distribution.sf(10 ** (peak / 20)) == pytest.approx(1e-9, rel=1e-3)

    @pytest.mark.parametrize("m", [0.5, 1.0, 1.5, 3.0])
    def test_nakagami_amplitude(self, m):
        """The density 2 m^m x^(2m-1) exp(-m x²) / Γ(m) is integrated."""
        amplitude = np.sqrt(powers(Nakagami(m=m, coherence=1), np.arange(20_000), 0.0))
        for level in (0.3, 0.7, 1.0, 1.5):
            expected, _ = integrate.quad(
                lambda x: 2 * m**m * x ** (2 * m - 1) * math.exp(-m * x * x) / math.gamma(m), 0, level
            )
            assert (amplitude < level).mean() == pytest.approx(
                expected, abs=4.9 * math.sqrt(expected * (1 - expected) / 20_000)
            )

    @pytest.mark.parametrize("model", [Rician(k_factor=3, coherence=0.02), Nakagami(m=2, coherence=0.02)])
    def test_gain_is_constant_within_block(self, model):
        inside = powers(model, np.zeros(4, int), np.array([0.0401, 0.05, 0.0599, 0.0601]))
        assert inside[0] == inside[1] == inside[2] != inside[3]
        over_time = powers(model, np.zeros(20_000, int), 0.02 * np.arange(20_000) + 0.01)
        assert abs(np.corrcoef(over_time[1:], over_time[:-1])[0, 1]) < 4.9 / math.sqrt(20_000)


class WalkEast(Trajectories):
    """All users walk east at 2 m/s."""

    def __init__(self, start):
        self.start = start

    def xy_m(self, users, time_s):
        return self.start[users] + np.column_stack([2.0 * np.broadcast_to(time_s, len(users)), np.zeros(len(users))])


class TestCorrelatedShadowing:
    MODEL = CorrelatedShadowing(sigma="8 dB", decorrelation_distance="50 m")

    def gains(self, positions, seed, model=MODEL, time_s=0.0):
        layout = Layout(equal_distance(1).graph, np.array(positions, float))
        return model.open(layout, Streams(seed)).gain_db(np.arange(len(positions)), time_s)

    @pytest.mark.slow
    def test_shadowing_is_correlated_in_space(self):
        """2,000 landscapes of separate networks; the product of two normals has variance 1 + ρ²."""
        positions = [[1000, 0], [1010, 0], [1000, 50], [900, 0], [-1000, 0]]
        shadowing = np.array([self.gains(positions, seed) for seed in range(2000)]) / 8
        for other, distance_m in enumerate([0, 10, 50, 100, 2000]):
            rho = math.exp(-distance_m / 50)
            product = (shadowing[:, 0] * shadowing[:, other]).mean()
            assert product == pytest.approx(rho, abs=4.9 * math.sqrt((1 + rho**2) / 2000))
        assert stats.kstest(shadowing[:, 0], stats.norm.cdf).pvalue > 1e-6

    def test_moving_user_has_shadowing_of_its_position(self):
        start, end = np.array([[300.0, 40.0]]), np.array([[340.0, 40.0]])
        graph = equal_distance(1).graph
        walking = self.MODEL.open(Layout(graph, start, WalkEast(start)), STREAMS)
        standing = self.MODEL.open(Layout(graph, end), STREAMS)
        user = np.array([0])
        assert walking.gain_db(user, 20.0) == pytest.approx(standing.gain_db(user, 0.0))
        assert standing.peak_db(user) == standing.gain_db(user, 5.0)
        assert walking.peak_db(user) == pytest.approx(8 * stats.norm.isf(1e-9))

    @pytest.mark.slow
    def test_shadowing_is_correlated_in_time(self):
        model = CorrelatedShadowing(sigma=8, decorrelation_distance=50, decorrelation_time="10 s")
        shadowing = [
            [self.gains([[500, 0]], seed, model, time_s)[0] / 8 for seed in range(2000)] for time_s in (40.0, 45.0)
        ]
        rho = math.exp(-0.5)
        assert np.mean(np.prod(shadowing, axis=0)) == pytest.approx(rho, abs=4.9 * math.sqrt((1 + rho**2) / 2000))

    def test_distant_users_have_independent_shadowing(self):
        """Users far apart have independent shadowing with the stated distribution."""
        positions = np.stack(np.meshgrid(np.arange(100), np.arange(100)), axis=-1).reshape(-1, 2) * 1000.0
        gains = self.gains(positions, 5)
        assert gains.mean() == pytest.approx(0, abs=4.9 * 8 / 100)
        assert gains.std() == pytest.approx(8, rel=0.05)

    @pytest.mark.parametrize("settings", [{"sigma": 0}, {"decorrelation_distance": -1}, {"decorrelation_time": 0}])
    def test_invalid_settings_are_rejected(self, settings):
        with pytest.raises(ScenarioError, match="greater than 0"):
            CorrelatedShadowing(**{"sigma": 8, "decorrelation_distance": 50} | settings)
