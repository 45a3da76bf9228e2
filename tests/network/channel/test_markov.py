"""Channels that follow a Markov chain, against matrix algebra and walks; false-alarm rate 1e-6 per statistic."""

import math
import time

import numpy as np
import pytest
from scipy import stats
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.channel.gilbert_elliott import GilbertElliott
from netfl.network.channel.markov import Markov
from netfl.network.channel.rain import Rain, coefficients
from netfl.network.layout import Layout, Trajectories
from netfl.network.outage._alternating_renewal import AlternatingRenewal
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(11)
STEPS = ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.3, 0.7))
GAINS = (0.0, -6.0, -20.0)
WEATHER = {"rates": [0, 5, 40], "transitions": STEPS, "block": "5 min"}


def opened(model, users=1, distance=100.0):
    return model.open(Star(distance=distance).open(users, STREAMS), STREAMS)


def states(model, users, time_s, size=None):
    found = opened(model, size or int(np.max(users)) + 1).gain_db(users, time_s)
    return np.argmax(found[:, None] == np.array(model.gains), axis=1)


class TestMarkov:
    MODEL = Markov(gains=GAINS, transitions=STEPS, block="100 ms")

    @pytest.mark.parametrize(
        "model",
        [
            Markov(gains=[0, -9], generator=[[-0.2, 0.2], [1.5, -1.5]], block="50 ms"),
            Markov(
                gains=[0, -3, -9, -9],
                transitions=[[0, 1, 0, 0], [0, 0, 1, 0], [0.5, 0, 0, 0.5], [0, 0.9, 0, 0.1]],
                block=1,
            ),
        ],
        ids=["by rates", "nearly a cycle"],
    )
    def test_holds_its_laws(self, model):
        assert check_laws(model, STREAMS, DRAWS) == []

    def test_one_user_walks_by_the_matrix(self):
        """50,000 blocks: counts of moves against the matrix, shares against the solution of π P = π: 3/7, 3/7, 1/7."""
        walk = states(self.MODEL, np.zeros(50_000, int), 0.1 * np.arange(50_000) + 0.05)
        moves = np.zeros((3, 3))
        np.add.at(moves, (walk[:-1], walk[1:]), 1)
        for row, probabilities in zip(moves, STEPS, strict=True):
            some = np.array(probabilities) > 0
            assert row[~some].sum() == 0
            assert stats.chisquare(row[some], row.sum() * np.array(probabilities)[some]).pvalue > 1e-6
        assert moves.sum(axis=1) / 50_000 == pytest.approx([3 / 7, 3 / 7, 1 / 7], abs=0.03)

    def test_stays_are_geometric_from_block_to_block(self):
        walk = states(self.MODEL, np.zeros(50_000, int), 0.1 * np.arange(50_000) + 0.05)
        edges = np.flatnonzero(np.diff(walk)) + 1
        stays = np.diff(edges)[walk[edges[:-1]] == 0]
        counts = np.array([*np.bincount(stays, minlength=31)[1:31], (stays > 30).sum()])
        expected = [*stats.geom(0.1).pmf(np.arange(1, 31)), 0.9**30]
        assert stats.chisquare(counts, len(stays) * np.array(expected)).pvalue > 1e-6

    def test_far_away_and_at_the_seams(self):
        """Pairs of blocks around powers of two, and a year on: two steps of the chain are P², wherever they lie."""
        square = np.linalg.matrix_power(np.array(STEPS), 2)
        for first in (0, 1, 127, 255, 2**20 - 1, 315_360_000):
            users = np.arange(4000)
            now, then = (states(self.MODEL, users, 0.1 * (first + later) + 0.05) for later in (0, 2))
            for state in range(3):
                of = then[now == state]
                assert stats.chisquare(np.bincount(of, minlength=3), len(of) * square[state]).pvalue > 1e-6

    def test_no_answer_depends_on_what_else_is_asked(self):
        users, times = np.arange(100) % 7, np.linspace(0, 50, 100)
        gain = opened(self.MODEL, 7)
        backwards = [gain.gain_db(users[[i]], times[i])[0] for i in reversed(range(100))]
        assert (opened(self.MODEL, 7).gain_db(users, times) == backwards[::-1]).all()

    def test_a_generator_is_looked_at_once_a_block(self):
        """Two states: P(still good after t) = π + (1 - π) exp(-(a + b) t), by hand."""
        model = Markov(gains=[0, -9], generator=[[-0.2, 0.2], [0.6, -0.6]], block="2 s")
        stay = 0.75 + 0.25 * math.exp(-1.6)
        assert model.matrix == pytest.approx(np.array([[stay, 1 - stay], [3 * (1 - stay), 1 - 3 * (1 - stay)]]))

    def test_the_peak_is_the_best_gain(self):
        assert opened(self.MODEL, 3).peak_db(np.arange(3)).tolist() == [0.0] * 3

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"transitions": None}, "exactly one"),
            ({"gains": [0, -6]}, "row and a column for each of the 2 states"),
            ({"transitions": [[0.9, 0.2, 0], [0.1, 0.8, 0.1], [0, 0.3, 0.7]]}, "add up to 1"),
            ({"transitions": [[1.1, -0.1, 0], [0.1, 0.8, 0.1], [0, 0.3, 0.7]]}, "negative"),
            ({"transitions": [[0, 1, 0], [0, 0, 1], [1, 0, 0]]}, "periodic"),
            ({"transitions": [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]}, "reducible or periodic"),
            ({"transitions": [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]}, "transient state"),
            ({"transitions": None, "generator": STEPS}, "add up to 0"),
            ({"block": 0}, "greater than 0"),
        ],
    )
    def test_what_is_no_chain_is_told(self, changes, told):
        with pytest.raises(ScenarioError, match=told):
            Markov(**{"gains": GAINS, "transitions": STEPS, "block": 1} | changes)


class TestGilbertElliott:
    MODEL = GilbertElliott(good="3 s", bad="1 s", bad_gain="-20 dB", good_gain="2 dB")

    def test_two_gains_in_the_right_shares_with_exponential_stays(self):
        """Over 4,000 s of one user, looked at every 10 ms: stays of 3 s and 1 s, and states 1 s apart."""
        gain, time_s = opened(self.MODEL), 0.01 * np.arange(400_000)
        good = np.concatenate([gain.gain_db(np.zeros(len(part), int), part) for part in np.split(time_s, 400)])
        assert set(np.unique(good)) == {2.0, -20.0}
        good = good > 0
        edges = np.flatnonzero(np.diff(good)) + 1
        stays_s = 0.01 * np.diff(edges)
        for state, mean_s in ((True, 3.0), (False, 1.0)):
            of = stays_s[good[edges[:-1]] == state]
            assert of.mean() == pytest.approx(mean_s, abs=4.9 * mean_s / math.sqrt(len(of)) + 0.01)
        now, then = good[:-100:400], good[100::400][: len(good[:-100:400])]
        assert np.corrcoef(now, then)[0, 1] == pytest.approx(math.exp(-4 / 3), abs=4.9 / math.sqrt(len(now)))

    @pytest.mark.parametrize(("good_s", "bad_s"), [(9.0, 1.0), (1e-9, 1.0), (0.01, 1e-7)])
    def test_a_far_time_is_looked_at_at_once_and_has_the_same_law(self, good_s, bad_s):
        """After 10⁷ s, up to 10¹⁶ sojourns: the stationary share, the correlation, and any order of looks."""
        model, users = GilbertElliott(good=good_s, bad=bad_s, bad_gain=-20), np.arange(4000)
        gain, share, pace = opened(model, 4000), good_s / (good_s + bad_s), 1 / good_s + 1 / bad_s
        began_s = time.process_time()
        now, then = (gain.gain_db(users, 1e7 + after_s) == 0 for after_s in (0.0, 0.5 / pace))
        assert time.process_time() - began_s < 5
        error = 4.9 * math.sqrt(share * (1 - share) / 4000)
        assert now.mean() == pytest.approx(share, abs=error + 1e-9)
        both = share * (share + (1 - share) * (math.exp(-0.5) if pace < 1e7 else 1.0))
        assert (now & then).mean() == pytest.approx(both, abs=4.9 * math.sqrt(both * (1 - both) / 4000) + 1e-9)
        assert (opened(model, 4000).gain_db(users[::-1], 1e7)[::-1] == np.where(now, 0, -20)).all()

    def test_near_times_are_walked_as_ever(self):
        gain = opened(self.MODEL, 3)
        near = AlternatingRenewal(np.arange(3), self.MODEL.sojourns, STREAMS)
        for time_s in (4096 * 4 - 1e-3, 5.0, 777.0):
            assert ((gain.gain_db(np.arange(3), time_s) > 0) == near.up(np.arange(3), time_s)).all()

    def test_bad_is_worse(self):
        with pytest.raises(ScenarioError, match="less than good_gain"):
            GilbertElliott(good=1, bad=1, bad_gain=0)
        assert (opened(self.MODEL, 4).peak_db(np.arange(4)) == 2.0).all()


class Leaves(Trajectories):
    """Everybody walks east at 1 m/s."""

    def xy_m(self, users, time_s):
        return np.column_stack([100.0 + np.broadcast_to(time_s, len(users)), np.zeros(len(users))])


class TestRain:
    def test_coefficients_of_the_recommendation(self):
        """Table 5 of P.838-3: kH, αH, kV, αV at 1, 10, 20, 30 and 100 GHz."""
        table = {
            1: (0.0000259, 0.9691, 0.0000308, 0.8592),
            10: (0.01217, 1.2571, 0.01129, 1.2156),
            20: (0.09164, 1.0568, 0.09611, 0.9847),
            30: (0.2403, 0.9485, 0.2291, 0.9129),
            100: (1.3671, 0.6815, 1.3680, 0.6765),
        }
        for ghz, printed in table.items():
            found = (*coefficients(ghz * 1e9, "horizontal"), *coefficients(ghz * 1e9, "vertical"))
            assert found == pytest.approx(printed, rel=1e-3, abs=6e-5 if ghz > 1 else 6e-8)

    @pytest.mark.parametrize(
        ("ghz", "elevation", "tilt", "k"),
        [
            (14.25, 31.07699124, 0, 0.03975488),
            (29, 46.35969261, 0, 0.21978097),
            (14.25, 48.24117054, 90, 0.04226474),
            (29, 20.14335809, 90, 0.21298877),
        ],
    )
    def test_validation_examples_of_the_itu(self, ghz, elevation, tilt, k):
        """Slant paths mix k of both polarizations by cos² of the elevation (eq. (4)): the ITU's validation examples."""
        k_h, k_v = (coefficients(ghz * 1e9, way)[0] for way in ("horizontal", "vertical"))
        part = math.cos(math.radians(elevation)) ** 2 * math.cos(2 * math.radians(tilt))
        assert (k_h + k_v + (k_h - k_v) * part) / 2 == pytest.approx(k, rel=1e-6)

    def test_the_loss_of_a_link(self):
        """k = 0.1, α = 1: 4 dB/km at 40 mm/h; 2 km lose 8 dB, 20 km no more than 5 km do."""
        model = Rain(**WEATHER, k=0.1, alpha=1)
        times = 300.0 * np.arange(400) + 1
        found = set(np.unique(opened(model, distance=2000).gain_db(np.zeros(400, int), times)))
        assert found == {0.0, -1.0, -8.0}
        assert opened(model, distance=20_000).gain_db(np.zeros(400, int), times).min() == pytest.approx(-20.0)

    def test_users_of_the_area_share_the_weather_and_others_have_none(self):
        sites = Star(distances=[500, 1000, 3000]).open(3, STREAMS)
        x, y = sites.user_xy_m[1]
        model = Rain(**WEATHER, k=0.1, alpha=1, center=[x, y], radius=1)
        gain, users = model.open(sites, STREAMS), np.arange(3)
        at = np.array([gain.gain_db(users, 300.0 * block) for block in range(200)])
        assert (at[:, [0, 2]] == 0).all()
        assert at[:, 1].min() == pytest.approx(-4)
        everywhere = Rain(**WEATHER, k=0.1, alpha=1).open(sites, STREAMS)
        at = np.array([everywhere.gain_db(users, 300.0 * block) for block in range(200)])
        assert at[:, 1] == pytest.approx(2 * at[:, 0])
        assert at[:, 2] == pytest.approx(6 * at[:, 0])

    def test_who_walks_out_of_the_area_is_dry(self):
        start = Star(distance=100).open(1, STREAMS)
        sites = Layout(start.graph, np.array([[100.0, 0.0]]), Leaves())
        model = Rain(**WEATHER | {"rates": [1, 5, 40]}, k=1, alpha=1, center=[0, 0], radius=1000)
        gain = model.open(sites, STREAMS)
        assert gain.gain_db(np.array([0]), 100.0)[0] <= -0.2
        assert gain.gain_db(np.array([0]), 901.0)[0] == 0.0
        assert gain.peak_db(np.array([0])).tolist() == [0.0]

    def test_nobody_in_the_area(self):
        with pytest.raises(ScenarioError, match="no user is inside"):
            opened(Rain(**WEATHER, k=1, alpha=1, center=[1e6, 0], radius=1))

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({}, "frequency, or k together with alpha"),
            ({"k": 1}, "frequency, or k together with alpha"),
            ({"k": 1, "alpha": 1, "frequency": 2e9}, "frequency, or k together with alpha"),
            ({"k": 1, "alpha": 1, "polarization": "vertical"}, "no effect"),
            ({"frequency": 9e8}, "greater than or equal to 1000000000"),
            ({"frequency": 2e9, "radius": 5}, "radius together"),
            ({"frequency": 2e9, "rates": [0, -1, 5]}, "0"),
        ],
    )
    def test_what_cannot_be_is_told(self, given, told):
        with pytest.raises(ScenarioError, match=told):
            Rain(**WEATHER | given)
