"""Markov channels compared with matrix algebra and walks; false-alarm rate 1e-6 per statistic."""

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


def open_gain(model, users=1, distance=100.0):
    return model.open(Star(distance=distance).open(users, STREAMS), STREAMS)


def states(model, users, time_s, size=None):
    gains_db = open_gain(model, size or int(np.max(users)) + 1).gain_db(users, time_s)
    return np.argmax(gains_db[:, None] == np.array(model.gains), axis=1)


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
    def test_variants_follow_stated_distributions(self, model):
        assert check_laws(model, STREAMS, DRAWS) == []

    def test_transitions_match_matrix(self):
        """50,000 blocks: transitions follow the matrix, and shares the solution 3/7, 3/7, 1/7 of π P = π."""
        state_sequence = states(self.MODEL, np.zeros(50_000, int), 0.1 * np.arange(50_000) + 0.05)
        transitions = np.zeros((3, 3))
        np.add.at(transitions, (state_sequence[:-1], state_sequence[1:]), 1)
        for row, probabilities in zip(transitions, STEPS, strict=True):
            is_possible = np.array(probabilities) > 0
            assert row[~is_possible].sum() == 0
            assert stats.chisquare(row[is_possible], row.sum() * np.array(probabilities)[is_possible]).pvalue > 1e-6
        assert transitions.sum(axis=1) / 50_000 == pytest.approx([3 / 7, 3 / 7, 1 / 7], abs=0.03)

    def test_sojourns_are_geometric(self):
        state_sequence = states(self.MODEL, np.zeros(50_000, int), 0.1 * np.arange(50_000) + 0.05)
        edges = np.flatnonzero(np.diff(state_sequence)) + 1
        sojourns = np.diff(edges)[state_sequence[edges[:-1]] == 0]
        counts = np.array([*np.bincount(sojourns, minlength=31)[1:31], (sojourns > 30).sum()])
        expected = [*stats.geom(0.1).pmf(np.arange(1, 31)), 0.9**30]
        assert stats.chisquare(counts, len(sojourns) * np.array(expected)).pvalue > 1e-6

    def test_two_steps_at_late_times_and_boundaries(self):
        """Pairs of blocks around powers of two and after a year: two steps of the chain are P²."""
        square = np.linalg.matrix_power(np.array(STEPS), 2)
        for first in (0, 1, 127, 255, 2**20 - 1, 315_360_000):
            users = np.arange(4000)
            first_state, later_state = (states(self.MODEL, users, 0.1 * (first + offset) + 0.05) for offset in (0, 2))
            for state in range(3):
                selected = later_state[first_state == state]
                assert stats.chisquare(np.bincount(selected, minlength=3), len(selected) * square[state]).pvalue > 1e-6

    def test_results_are_independent_of_other_queries(self):
        users, times = np.arange(100) % 7, np.linspace(0, 50, 100)
        gain = open_gain(self.MODEL, 7)
        backwards = [gain.gain_db(users[[i]], times[i])[0] for i in reversed(range(100))]
        assert (open_gain(self.MODEL, 7).gain_db(users, times) == backwards[::-1]).all()

    def test_generator_is_sampled_once_per_block(self):
        """For two states P(good after t) = π + (1 - π) exp(-(a + b) t)."""
        model = Markov(gains=[0, -9], generator=[[-0.2, 0.2], [0.6, -0.6]], block="2 s")
        stay_probability = 0.75 + 0.25 * math.exp(-1.6)
        assert model.matrix == pytest.approx(
            np.array(
                [[stay_probability, 1 - stay_probability], [3 * (1 - stay_probability), 1 - 3 * (1 - stay_probability)]]
            )
        )

    def test_peak_is_largest_gain(self):
        assert open_gain(self.MODEL, 3).peak_db(np.arange(3)).tolist() == [0.0] * 3

    @pytest.mark.parametrize(
        ("changes", "problem"),
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
    def test_invalid_chains_are_rejected(self, changes, problem):
        with pytest.raises(ScenarioError, match=problem):
            Markov(**{"gains": GAINS, "transitions": STEPS, "block": 1} | changes)


class TestGilbertElliott:
    MODEL = GilbertElliott(good="3 s", bad="1 s", bad_gain="-20 dB", good_gain="2 dB")

    def test_gains_have_shares_and_exponential_sojourns(self):
        """4,000 s of one user are sampled every 10 ms: mean sojourns of 3 s and 1 s, and states 1 s apart."""
        gain, time_s = open_gain(self.MODEL), 0.01 * np.arange(400_000)
        good = np.concatenate([gain.gain_db(np.zeros(len(part), int), part) for part in np.split(time_s, 400)])
        assert set(np.unique(good)) == {2.0, -20.0}
        good = good > 0
        edges = np.flatnonzero(np.diff(good)) + 1
        sojourns_s = 0.01 * np.diff(edges)
        for state, mean_s in ((True, 3.0), (False, 1.0)):
            selected_s = sojourns_s[good[edges[:-1]] == state]
            assert selected_s.mean() == pytest.approx(mean_s, abs=4.9 * mean_s / math.sqrt(len(selected_s)) + 0.01)
        first, later = good[:-100:400], good[100::400][: len(good[:-100:400])]
        assert np.corrcoef(first, later)[0, 1] == pytest.approx(math.exp(-4 / 3), abs=4.9 / math.sqrt(len(first)))

    @pytest.mark.parametrize(("good_s", "bad_s"), [(9.0, 1.0), (4e-4, 1e-4), (1e-9, 1.0), (0.01, 1e-7)])
    def test_late_time_has_stationary_distribution(self, good_s, bad_s):
        """After 10⁷ s, up to 10¹⁶ sojourns: stationary share, correlation, and any order of queries."""
        model, users = GilbertElliott(good=good_s, bad=bad_s, bad_gain=-20), np.arange(4000)
        gain, share, rate = open_gain(model, 4000), good_s / (good_s + bad_s), 1 / good_s + 1 / bad_s
        start_s = time.process_time()
        is_good, is_good_later = (gain.gain_db(users, 1e7 + after_s) == 0 for after_s in (0.0, 0.5 / rate))
        assert time.process_time() - start_s < 5
        error = 4.9 * math.sqrt(share * (1 - share) / 4000)
        assert is_good.mean() == pytest.approx(share, abs=error + 1e-9)
        joint_probability = share * (share + (1 - share) * (math.exp(-0.5) if rate < 1e7 else 1.0))
        assert (is_good & is_good_later).mean() == pytest.approx(
            joint_probability, abs=4.9 * math.sqrt(joint_probability * (1 - joint_probability) / 4000) + 1e-9
        )
        assert (open_gain(model, 4000).gain_db(users[::-1], 1e7)[::-1] == np.where(is_good, 0, -20)).all()

    def test_early_times_match_renewal_process(self):
        gain = open_gain(self.MODEL, 3)
        process = AlternatingRenewal(np.arange(3), self.MODEL.sojourns, STREAMS)
        for time_s in (4096 * 4 - 1e-3, 5.0, 777.0):
            assert ((gain.gain_db(np.arange(3), time_s) > 0) == process.up(np.arange(3), time_s)).all()

    def test_bad_gain_must_be_less(self):
        with pytest.raises(ScenarioError, match="not below good_gain"):
            GilbertElliott(good=1, bad=1, bad_gain=0)
        assert (open_gain(self.MODEL, 4).peak_db(np.arange(4)) == 2.0).all()


class WalkEast(Trajectories):
    """All users walk east at 1 m/s."""

    def xy_m(self, users, time_s):
        return np.column_stack([100.0 + np.broadcast_to(time_s, len(users)), np.zeros(len(users))])


class TestRain:
    def test_coefficients_match_recommendation(self):
        """Table 5 of P.838-3: kH, αH, kV, αV at 1, 10, 20, 30 and 100 GHz."""
        table = {
            1: (0.0000259, 0.9691, 0.0000308, 0.8592),
            10: (0.01217, 1.2571, 0.01129, 1.2156),
            20: (0.09164, 1.0568, 0.09611, 0.9847),
            30: (0.2403, 0.9485, 0.2291, 0.9129),
            100: (1.3671, 0.6815, 1.3680, 0.6765),
        }
        for ghz, printed in table.items():
            computed = (*coefficients(ghz * 1e9, "horizontal"), *coefficients(ghz * 1e9, "vertical"))
            assert computed == pytest.approx(printed, rel=1e-3, abs=6e-5 if ghz > 1 else 6e-8)

    @pytest.mark.parametrize(
        ("ghz", "elevation", "tilt", "k"),
        [
            (14.25, 31.07699124, 0, 0.03975488),
            (29, 46.35969261, 0, 0.21978097),
            (14.25, 48.24117054, 90, 0.04226474),
            (29, 20.14335809, 90, 0.21298877),
        ],
    )
    def test_itu_validation_examples(self, ghz, elevation, tilt, k):
        """Slant paths combine k of both polarizations by cos² of the elevation (eq. (4))."""
        k_h, k_v = (coefficients(ghz * 1e9, polarization)[0] for polarization in ("horizontal", "vertical"))
        part = math.cos(math.radians(elevation)) ** 2 * math.cos(2 * math.radians(tilt))
        assert (k_h + k_v + (k_h - k_v) * part) / 2 == pytest.approx(k, rel=1e-6)

    def test_loss_of_link(self):
        """k = 0.1, α = 1: 4 dB/km at 40 mm/h; 2 km lose 8 dB, and 20 km no more than 5 km."""
        model = Rain(**WEATHER, k=0.1, alpha=1)
        times = 300.0 * np.arange(400) + 1
        gains_db = set(np.unique(open_gain(model, distance=2000).gain_db(np.zeros(400, int), times)))
        assert gains_db == {0.0, -1.0, -8.0}
        assert open_gain(model, distance=20_000).gain_db(np.zeros(400, int), times).min() == pytest.approx(-20.0)

    def test_users_of_area_share_weather(self):
        layout = Star(distances=[500, 1000, 3000]).open(3, STREAMS)
        x, y = layout.user_xy_m[1]
        model = Rain(**WEATHER, k=0.1, alpha=1, center=[x, y], radius=1)
        gain, users = model.open(layout, STREAMS), np.arange(3)
        gains_db = np.array([gain.gain_db(users, 300.0 * block) for block in range(200)])
        assert (gains_db[:, [0, 2]] == 0).all()
        assert gains_db[:, 1].min() == pytest.approx(-4)
        global_gain = Rain(**WEATHER, k=0.1, alpha=1).open(layout, STREAMS)
        gains_db = np.array([global_gain.gain_db(users, 300.0 * block) for block in range(200)])
        assert gains_db[:, 1] == pytest.approx(2 * gains_db[:, 0])
        assert gains_db[:, 2] == pytest.approx(6 * gains_db[:, 0])

    def test_user_that_leaves_area_has_no_loss(self):
        start = Star(distance=100).open(1, STREAMS)
        layout = Layout(start.graph, np.array([[100.0, 0.0]]), WalkEast())
        model = Rain(**WEATHER | {"rates": [1, 5, 40]}, k=1, alpha=1, center=[0, 0], radius=1000)
        gain = model.open(layout, STREAMS)
        assert gain.gain_db(np.array([0]), 100.0)[0] <= -0.2
        assert gain.gain_db(np.array([0]), 901.0)[0] == 0.0
        assert gain.peak_db(np.array([0])).tolist() == [0.0]

    def test_empty_area_is_rejected(self):
        with pytest.raises(ScenarioError, match="no user is inside"):
            open_gain(Rain(**WEATHER, k=1, alpha=1, center=[1e6, 0], radius=1))

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({}, "frequency, or k together with alpha"),
            ({"k": 1}, "frequency, or k together with alpha"),
            ({"k": 1, "alpha": 1, "frequency": 2e9}, "frequency, or k together with alpha"),
            ({"k": 1, "alpha": 1, "polarization": "vertical"}, "no effect"),
            ({"frequency": 9e8}, "greater than or equal to 1000000000"),
            ({"frequency": 2e9, "radius": 5}, "center and radius is missing"),
            ({"frequency": 2e9, "rates": [0, -1, 5]}, "0"),
        ],
    )
    def test_invalid_settings_are_rejected(self, settings, problem):
        with pytest.raises(ScenarioError, match=problem):
            Rain(**WEATHER | settings)
