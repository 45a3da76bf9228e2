"""RMa, UMa and UMi compared with values of TR 38.901 worked out by hand; false-alarm rate 1e-6."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.channel.rma import Rma
from netfl.network.channel.uma import Uma
from netfl.network.channel.umi import Umi
from netfl.network.layout import Layout, Trajectories
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(17)


def layout_at(distances_m, paths=None):
    graph = nx.Graph()
    graph.add_node("tower:0", role="tower", x_m=0.0, y_m=0.0)
    return Layout(graph, np.column_stack([distances_m, np.zeros(len(distances_m))]), paths)


def los_loss_db(model, *distances_m):
    """Return the median loss in line of sight, at ground level."""
    return model.los_loss_db(np.array(distances_m, float), np.zeros(len(distances_m)))


def median_losses_db(model, distance_m, users=2000):
    """Return the losses without shadowing that occur at one distance."""
    gain = model.model_copy(update={"shadowing": False}).open(layout_at(np.full(users, distance_m)), STREAMS)
    return sorted(set(np.round(-gain.gain_db(np.arange(users), 0.0), 6)))


class TestLineOfSight:
    """Probabilities of Table 7.4.2-1, worked out by hand."""

    DISTANCES = (5.0, 10.0, 18.0, 21.0, 50.0, 100.0, 5000.0)

    @pytest.mark.parametrize(
        ("model", "expected"),
        [
            (Rma(frequency=7e8), [1, 1, 0.992032, 0.989060, 0.960789, 0.913931, 0.0068057]),
            (Uma(frequency=2e9), [1, 1, 1, 0.959505, 0.649402, 0.347670, 0.0036]),
            (Umi(frequency=2e9), [1, 1, 1, 0.936862, 0.519585, 0.230985, 0.0036]),
        ],
    )
    def test_values_by_hand(self, model, expected):
        assert model.los_probability(np.array(self.DISTANCES)) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        ("height", "distance", "expected"),
        [
            (8, 60, 0.3 + 0.7 * math.exp(-60 / 63)),
            (13, 100, 0.347670),
            # C' = 0.95^1.5 = 0.925945, x 1.25 x e^(-2/3): 0.594247
            (22.5, 100, 0.347670 * 1.594247),
            # 0.45 + 0.529977 x 0.55 = 0.741487, x (1 + 0.3^1.5 x 1.25 x 0.4^3 x e^(-4/15)) = 1.010068
            (16, 40, 0.748953),
        ],
    )
    def test_high_users_have_larger_probability(self, height, distance, expected):
        computed = Uma(frequency=2e9, user_height=height).los_probability(np.array([float(distance)]))
        assert computed == pytest.approx([expected], rel=1e-5)

    def test_values_are_probabilities(self):
        distances = np.geomspace(0.1, 20_000, 5000)
        for height in (1.5, 13, 16, 20, 22.5):
            probability = Uma(frequency=2e9, user_height=height).los_probability(distances)
            assert ((probability > 0) & (probability <= 1)).all()

    def test_shares_of_users(self):
        users = 20_000
        for model, expected in (
            (Uma(frequency=2e9, shadowing=False), 0.347670),
            (Umi(frequency=2e9, shadowing=False), 0.230985),
        ):
            loss = -model.open(layout_at(np.full(users, 100.0)), STREAMS).gain_db(np.arange(users), 0.0)
            is_los = int((loss < loss.mean()).sum())
            assert stats.binomtest(is_los, users, expected).pvalue > 1e-6


class TestLosses:
    """Table 7.4.1-1; UMa at 2 GHz has its breakpoint at 320 m, UMi at 120 m, and RMa at 0.7 GHz at 769.7 m."""

    def test_urban_macro(self):
        model = Uma(frequency="2 GHz")
        # 28 + 22 log10 102.724 + 6.0206; 28 + 40 log10 1000.276 + 6.0206 - 9 log10 102952.25
        assert los_loss_db(model, 100, 1000) == pytest.approx([78.277, 108.912], abs=0.001)
        # 13.54 + 39.08 log10 1000.276 + 6.0206
        assert model.nlos_loss_db(np.array([1000.0])) == pytest.approx([136.805], abs=0.001)
        assert median_losses_db(model, 1000.0) == pytest.approx([108.912, 136.805], abs=0.001)

    def test_urban_micro(self):
        model = Umi(frequency="2 GHz")
        # s = 50.7174: 32.4 + 21 x 1.705157 + 6.0206; s = 500.0722: 32.4 + 40 x 2.699033 + 6.0206 - 9.5 log10 14472.25
        assert los_loss_db(model, 50, 500) == pytest.approx([74.229, 106.857], abs=0.001)
        # 22.4 + 35.3 x 2.699033 + 21.3 x 0.30103
        assert median_losses_db(model, 500.0) == pytest.approx([106.857, 124.088], abs=0.001)

    def test_rural_macro(self):
        model = Rma(frequency="700 MHz")
        assert model.break_m == pytest.approx(769.69, abs=0.01)
        # h^1.72 = 15.9289: s = 501.121: 83.341 + 0.477867 x 2.699943 - 0.700872 + 0.70062
        assert los_loss_db(model, 500) == pytest.approx([84.631], abs=0.002)
        # 161.04 - 9.2373 + 5.2423 - (24.37 - 0.07551) x 1.544068 + 38.6334 x 0.000243 - 3.0980 - 0.0000
        assert median_losses_db(model, 1000.0)[1] == pytest.approx(116.45, abs=0.02)

    def test_minimum_distance(self):
        """At 10 m and 5 GHz: s = 34.961, 25.539, 13.124 m."""
        models = Rma(frequency=5e9), Uma(frequency=5e9), Umi(frequency=5e9)
        assert [los_loss_db(model, 10)[0] for model in models] == pytest.approx([77.378, 72.938, 69.859], abs=0.001)
        assert [median_losses_db(model, 3.0)[0] for model in models] == pytest.approx(
            [77.378, 72.938, 69.859], abs=0.001
        )

    def test_rural_slope_beyond_breakpoint(self):
        model = Rma(frequency=7e8)
        near_db, far_db = los_loss_db(model, 1000, 10_000)
        slants = np.hypot([1000, 10_000], 33.5)
        assert far_db - near_db == pytest.approx(40 * math.log10(slants[1] / slants[0]))

    @pytest.mark.parametrize(
        ("model", "break_m", "step_db"),
        [
            (Uma(frequency=2e9), 320.0, 1e-6),
            (Uma(frequency=28e9, user_height=10), 80_640.0, 1e-6),
            (Umi(frequency=2e9), 120.0, 1e-6),
            (Rma(frequency=7e8), 769.6902, 0.02),
        ],
    )
    def test_losses_are_continuous_at_breakpoint(self, model, break_m, step_db):
        below, above = los_loss_db(model, break_m * (1 - 1e-9), break_m * (1 + 1e-9))
        assert 0 <= above - below < step_db + 1e-6

    @pytest.mark.parametrize(
        "model",
        [Rma(frequency=f, tower_height=h) for f in (5e8, 30e9) for h in (10, 35, 150)]
        + [Cell(frequency=f, user_height=h) for Cell in (Uma, Umi) for f in (5e8, 3.5e9, 1e11) for h in (1.5, 8)],
    )
    def test_losses_increase_with_distance(self, model):
        distances = np.geomspace(10, model.MAX_M, 2000)
        is_los = los_loss_db(model, *distances)
        nlos_db = np.maximum(is_los, model.nlos_loss_db(distances))
        assert (np.diff(is_los) > 0).all()
        assert (np.diff(nlos_db) > 0).all()

    def test_effective_environment_of_high_users(self):
        """At 22.5 m and 300 m, C = 0.95^1.5 x 1.25 x 27 x e^-2 = 4.2293.

        The environment is at 1 m with probability 1 / 5.2293, otherwise at 12, 15, 18 or 21 m.
        """
        model = Uma(frequency=2e9, user_height=22.5)
        surroundings = (np.arange(100_000) + 0.5) / 100_000
        heights_m, counts = np.unique(model._ground_m(np.full(100_000, 300.0), surroundings), return_counts=True)
        assert heights_m.tolist() == [1, 12, 15, 18, 21]
        assert counts / 100_000 == pytest.approx([0.19123] + [0.20219] * 4, abs=1e-4)
        # with 21 m: breaks at 4 x 4 x 1.5 x 2/0.3 = 160 m; 28 + 40 log10 300.010 + 6.0206 - 9 log10(25600 + 6.25)
        assert model.los_loss_db(np.array([300.0]), np.array([0.9999])) == pytest.approx([93.431], abs=0.001)


class TestShadowing:
    @pytest.mark.parametrize(
        ("model", "distance", "sigma"),
        [
            (Rma(frequency=7e8), 10.0, 4.0),
            (Rma(frequency=7e8), 9999.0, 8.0),
            (Uma(frequency=2e9), 10.0, 4.0),
            (Uma(frequency=2e9), 5000.0, 6.0),
            (Umi(frequency=2e9), 10.0, 4.0),
            (Umi(frequency=2e9), 5000.0, 7.82),
        ],
    )
    def test_deviation_per_state(self, model, distance, sigma):
        users = np.arange(20_000)
        layout = layout_at(np.full(20_000, distance))
        gain, without_shadowing = (
            variant.open(layout, STREAMS).gain_db(users, 0.0)
            for variant in (model, model.model_copy(update={"shadowing": False}))
        )
        in_state = np.isclose(
            -without_shadowing,
            los_loss_db(model, distance) if distance == 10 else model.nlos_loss_db(np.array([distance])),
        )
        assert in_state.mean() > 0.99
        assert stats.kstest((gain - without_shadowing)[in_state], stats.norm(0, sigma).cdf).pvalue > 1e-6

    def test_rural_deviation_beyond_breakpoint(self):
        """The deviation in line of sight is 6 dB instead of 4 dB, for a third of the users at 1 km."""
        model, users = Rma(frequency=7e8), np.arange(60_000)
        layout = layout_at(np.full(60_000, 1000.0))
        gain, without_shadowing = (
            variant.open(layout, STREAMS).gain_db(users, 0.0)
            for variant in (model, model.model_copy(update={"shadowing": False}))
        )
        is_los = without_shadowing > without_shadowing.mean()
        assert stats.binomtest(int(is_los.sum()), 60_000, math.exp(-0.99)).pvalue > 1e-6
        assert stats.kstest((gain - without_shadowing)[is_los], stats.norm(0, 6).cdf).pvalue > 1e-6

    @pytest.mark.parametrize("shadowing", [True, False])
    def test_variants_follow_stated_distributions(self, shadowing):
        for model in (
            Rma(frequency=2e10, tower_height=150, user_height=10, shadowing=shadowing),
            Uma(frequency=6e9, user_height=22.5, shadowing=shadowing),
            Umi(frequency=6e10, user_height=10, shadowing=shadowing),
        ):
            assert check_laws(model, STREAMS, DRAWS) == []


class WalkAway(Trajectories):
    """All users walk away from the tower at 10 m/s."""

    def xy_m(self, users, time_s):
        return np.column_stack([10.0 * np.broadcast_to(np.asarray(time_s, float), len(users)), np.zeros(len(users))])


class TestLinks:
    def test_link_is_constant_and_independent_of_query_order(self):
        users = np.arange(500)
        gain = Uma(frequency=2e9).open(layout_at(np.linspace(20, 900, 500)), STREAMS)
        singly = [gain.gain_db(users[[user]], 99.0)[0] for user in reversed(users)]
        assert gain.gain_db(users, 0.0).tolist() == singly[::-1]

    def test_moving_users_keep_draws_below_peak(self):
        users, times = np.arange(200), np.linspace(0, 400, 201)
        gain = Uma(frequency=2e9, out_of_range="extend").open(layout_at(np.zeros(200), WalkAway()), STREAMS)
        gains_db = np.array([gain.gain_db(users, time) for time in times])
        assert np.isfinite(gains_db).all()
        assert (gains_db <= gain.peak_db(users) + 1e-9).all()
        without_shadowing = Uma(frequency=2e9, out_of_range="extend", shadowing=False).open(
            layout_at(np.zeros(200), WalkAway()), STREAMS
        )
        losses_db = np.array([without_shadowing.gain_db(users, time) for time in times])
        assert (np.diff(losses_db, axis=0) <= 0).all()
        shadowing_db = gains_db - losses_db
        changes = (np.abs(np.diff(shadowing_db, axis=0)) > 1e-9).sum(axis=0)
        assert set(changes) <= {0, 1}
        assert changes.mean() > 0.9

    def test_towers_have_independent_links(self, make_layout):
        links = [("server", "tower:0", 1e9, 0.0), ("server", "tower:1", 1e9, 0.0)]
        positions = [(0.0, 1.0 * user) for user in range(300)]
        layout = make_layout(links, positions, {"tower:0": (-100.0, 0.0), "tower:1": (200.0, 0.0)})
        model, users = Umi(frequency=2e9), np.arange(300)
        own_db, same_db, other_db = (
            model.open(view, STREAMS).gain_db(users, 0.0)
            for view in (layout, layout.towards("tower:0"), layout.towards("tower:1"))
        )
        assert own_db.tolist() == same_db.tolist()
        medians = Umi(frequency=2e9, shadowing=False)
        medians_db = [medians.open(view, STREAMS).gain_db(users, 0.0) for view in (layout, layout.towards("tower:1"))]
        shadowing = own_db - medians_db[0], other_db - medians_db[1]
        assert abs(np.corrcoef(*shadowing)[0, 1]) < 4.9 / math.sqrt(300)

    def test_users_out_of_range_are_rejected(self):
        for model, max_km in ((Rma, 10), (Uma, 5), (Umi, 5)):
            with pytest.raises(ScenarioError, match=f"out_of_range: the model holds for up to {max_km} km: user 1"):
                model(frequency=2e9).open(layout_at([max_km * 1000.0, max_km * 1001.0]), STREAMS)
            model(frequency=2e9, out_of_range="extend").open(layout_at([max_km * 1001.0]), STREAMS)
            with pytest.raises(ScenarioError, match="users move"):
                model(frequency=2e9).open(layout_at([1.0], WalkAway()), STREAMS)

    @pytest.mark.parametrize(
        ("model", "settings"),
        [
            (Rma, {"frequency": "31 GHz"}),
            (Rma, {"tower_height": 9}),
            (Rma, {"user_height": 11}),
            (Rma, {"building_height": 51}),
            (Rma, {"street_width": 4}),
            (Uma, {"frequency": "101 GHz"}),
            (Uma, {"user_height": 23}),
            (Umi, {"frequency": "400 MHz"}),
            (Umi, {"user_height": 1}),
        ],
    )
    def test_values_out_of_range_are_rejected(self, model, settings):
        with pytest.raises(ScenarioError) as error:
            model(**{"frequency": 2e9} | settings)
        assert [fault.key.partition(".")[2] for fault in error.value.faults] == [*settings]
