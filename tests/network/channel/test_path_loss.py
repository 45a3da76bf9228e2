"""Path losses compared with published values, complex sums of rays and their limits, and users out of range."""

import math

import networkx as nx
import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.channel.constant import Constant
from netfl.network.channel.cost231_hata import Cost231Hata
from netfl.network.channel.free_space import FreeSpace
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.okumura_hata import OkumuraHata
from netfl.network.channel.two_ray import TwoRay
from netfl.network.layout import Layout, Trajectories
from netfl.network.topology.star import Star
from netfl.streams import Streams

STREAMS = Streams(3)


def loss_db(model, *distances_m):
    """Return the losses of users at these distances."""
    gain = model.open(Star(distances=distances_m).open(len(distances_m), STREAMS), STREAMS)
    users = np.arange(len(distances_m))
    assert (gain.peak_db(users) == gain.gain_db(users, 7.0)).all()
    return -gain.gain_db(users, 0.0)


class WalkEast(Trajectories):
    """All users walk east at 1 m/s, from the tower."""

    def xy_m(self, users, time_s):
        return np.column_stack([np.broadcast_to(np.asarray(time_s, float), len(users)), np.zeros(len(users))])


def walking_users(users=1):
    graph = nx.Graph()
    graph.add_node("tower:0", role="tower", x_m=0.0, y_m=0.0)
    return Layout(graph, np.zeros((users, 2)), paths=WalkEast())


class TestFreeSpace:
    @pytest.mark.parametrize(
        ("frequency", "distance_m", "expected"),
        [("2.4 GHz", 1000, 100.05), ("868 MHz", 100, 71.22), ("5.8 GHz", 10, 67.71), ("100 MHz", 20_000, 98.46)],
    )
    def test_published_values(self, frequency, distance_m, expected):
        """ITU-R P.525: 32.45 + 20 log10 f/MHz + 20 log10 d/km."""
        assert loss_db(FreeSpace(frequency=frequency), distance_m) == pytest.approx([expected], abs=0.01)

    def test_doubled_distance_loses_6_db(self):
        near_db, far_db = loss_db(FreeSpace(frequency=1e9), 50, 100)
        assert far_db - near_db == pytest.approx(20 * math.log10(2))

    def test_user_in_near_field_is_rejected(self):
        model = FreeSpace(frequency="3 MHz")
        with pytest.raises(ScenarioError, match=r"frequency: user 1 \(90 m\) from the tower, less than the wavelength"):
            loss_db(model, 110, 90)
        assert loss_db(model, 110) == pytest.approx([22.82], abs=0.01)

    def test_gain_is_finite_at_tower(self):
        gain = FreeSpace(frequency="299.792458 MHz").open(walking_users(3), STREAMS)
        users = np.arange(3)
        measured_db = gain.gain_db(users, [0.0, 1.0, 10.0])
        assert measured_db == pytest.approx([-21.98, -21.98, -41.98], abs=0.01)
        assert gain.peak_db(users) == pytest.approx([-21.98] * 3, abs=0.01)


class TestConstant:
    def test_gain_is_constant(self):
        assert loss_db(Constant(gain="-95.5 dB"), 1, 5000) == pytest.approx([95.5, 95.5])


class TestLogDistanceWithBreakpoints:
    MODEL = LogDistance(
        exponent=2,
        reference_loss=40,
        breakpoints=[{"distance": "100 m", "exponent": 4}, {"distance": "1 km", "exponent": 3}],
    )

    def test_slopes_between_breakpoints(self):
        expected = [40, 40, 60, 80, 80 + 40 * math.log10(2), 120, 150]
        assert loss_db(self.MODEL, 0.5, 1, 10, 100, 200, 1000, 10_000) == pytest.approx(expected)

    def test_equal_slopes_match_model_without_breakpoints(self):
        plain, split = (
            LogDistance(exponent=3.5, frequency=868e6, breakpoints=points)
            for points in ((), [{"distance": 77, "exponent": 3.5}])
        )
        assert loss_db(split, 3, 77, 900) == pytest.approx(loss_db(plain, 3, 77, 900))

    @pytest.mark.parametrize("distances", [[0.5], [1.0], [10, 10], [20, 10]])
    def test_unordered_breakpoints_are_rejected(self, distances):
        points = [{"distance": distance, "exponent": 3} for distance in distances]
        with pytest.raises(ScenarioError, match="in order of distance"):
            LogDistance(exponent=2, reference_loss=40, breakpoints=points)


class TestTwoRay:
    SPEED = 299_792_458

    def test_published_example(self):
        """Rappaport, 2nd ed., Example 4.6: 900 MHz, 50 m and 1.5 m, 5 km: 113.1 µV/m where free space has 200."""
        model = TwoRay(frequency=9e8, tower_height=50, user_height=1.5)
        surplus = loss_db(model, 5000) - loss_db(FreeSpace(frequency=9e8), 5000)
        assert surplus == pytest.approx([20 * math.log10(200 / 113.1)], abs=0.01)

    @pytest.mark.parametrize(("frequency", "tower", "user"), [(868e6, 15, 1.5), (2.4e9, 3, 3), (433e6, 30, 8)])
    def test_rays_add_as_complex_numbers(self, frequency, tower, user):
        distances = np.geomspace(5, 3000, 40)
        wavelength = self.SPEED / frequency
        measured_db = loss_db(
            TwoRay(frequency=frequency, tower_height=tower, user_height=user, form="interference"), *distances
        )
        rays = [np.sqrt(distances**2 + height**2) for height in (tower - user, tower + user)]
        field = sum(
            sign * np.exp(-2j * np.pi * ray / wavelength) / ray for sign, ray in zip((1, -1), rays, strict=True)
        )
        assert 10 ** (-measured_db / 10) == pytest.approx(np.abs(wavelength / (4 * np.pi) * field) ** 2, rel=1e-6)

    def test_both_forms_have_fourth_power_at_large_distance(self):
        heights = {"frequency": 868e6, "tower_height": 15, "user_height": 1.5}
        exact, simple = (loss_db(TwoRay(**heights, form=form), 1e5, 1e6) for form in ("interference", "crossover"))
        assert exact == pytest.approx(simple, abs=0.001)
        assert simple == pytest.approx([200 - 20 * math.log10(22.5), 240 - 20 * math.log10(22.5)])

    def test_loss_is_continuous_at_crossover(self):
        model = TwoRay(frequency=868e6, tower_height=15, user_height=1.5)
        assert model.crossover_m == pytest.approx(818.7, abs=0.1)
        below, above, free = (*loss_db(model, 818.6, 818.8), *loss_db(FreeSpace(frequency=868e6), 818.6))
        assert below == pytest.approx(free)
        assert above - below == pytest.approx(0, abs=0.01)

    @pytest.mark.parametrize("form", ["interference", "crossover"])
    @pytest.mark.parametrize("user", [1.5, 15])
    def test_peak_is_maximum_over_walk(self, form, user):
        model = TwoRay(frequency=868e6, tower_height=15, user_height=user, form=form)
        gain = model.open(walking_users(), STREAMS)
        times = np.linspace(0, 2000, 20_001)
        gains_db = gain.gain_db(np.zeros(len(times), int), times)
        assert np.isfinite(gains_db).all()
        assert gains_db.max() <= gain.peak_db(np.zeros(1, int))[0] < gains_db.max() + 6.1

    def test_user_in_near_field_is_rejected(self):
        with pytest.raises(ScenarioError, match="wavelength"):
            loss_db(TwoRay(frequency=3e6, tower_height=10, user_height=2), 20)


class TestHata:
    def test_medium_city_by_hand(self):
        """900 MHz, 30 m, 1.5 m: 69.55 + 77.283 - 20.414 - 0.016 = 126.40, and 35.225 dB per decade."""
        model = OkumuraHata(frequency="900 MHz", area="small_city")
        assert loss_db(model, 1000, 5000, 10_000) == pytest.approx([126.40, 151.02, 161.63], abs=0.01)

    def test_open_area_matches_3gpp(self):
        """TR 36.942, §4.5.3 (rural, 900 MHz, 45 m): 95.5 + 34.1 log10 R."""
        measured_db = loss_db(OkumuraHata(frequency=9e8, area="open", tower_height=45), 1000, 5000)
        assert measured_db == pytest.approx([95.5, 95.5 + 34.1 * math.log10(5)], abs=0.06)

    def test_suburb_loses_less_than_city(self):
        """2 (log10(900/28))² + 5.4 = 9.943 dB."""
        city, suburb = (loss_db(OkumuraHata(frequency=9e8, area=area), 3000) for area in ("small_city", "suburban"))
        assert city - suburb == pytest.approx([9.943], abs=0.001)

    @pytest.mark.parametrize(
        ("mhz", "user", "expected"), [(900, 1.5, -0.0009), (900, 3, 2.690), (200, 1.5, -0.0039), (200, 5, 5.4148)]
    )
    def test_antenna_correction_of_large_city(self, mhz, user, expected):
        """a(hm) by hand: 3.2 (log10 17.625)² - 4.97 is 0, 8.29 (log10 7.7)² - 1.1 = 5.415 below 300 MHz."""
        median = 69.55 + 26.16 * math.log10(mhz) - 13.82 * math.log10(30)
        measured_db = loss_db(OkumuraHata(frequency=mhz * 1e6, area="large_city", user_height=user), 1000)
        assert median - measured_db == pytest.approx([expected], abs=0.002)

    def test_loss_is_at_least_free_space(self):
        """150 MHz at 200 m in an open area: the formula has 56.7 dB at 1 km, free space 75.97, on the slant 76.1."""
        model = OkumuraHata(frequency=150e6, area="open", tower_height=200, user_height=10)
        assert loss_db(model, 1000) == pytest.approx([20 * math.log10(1.0179) + 75.97], abs=0.02)

    def test_cost_231_by_hand(self):
        """1800 MHz, 30 m, 1.5 m: 46.3 + 110.354 - 20.414 - 0.043 = 136.20; a metropolis has 3 dB more."""
        town, metropolis = (
            loss_db(Cost231Hata(frequency=1.8e9, area=area), 1000) for area in ("medium_city", "metropolitan")
        )
        assert town == pytest.approx([136.20], abs=0.01)
        assert metropolis - town == pytest.approx([3.0])

    @pytest.mark.parametrize(
        ("model", "settings"),
        [
            (OkumuraHata, {"frequency": "149 MHz"}),
            (OkumuraHata, {"frequency": "1.6 GHz"}),
            (OkumuraHata, {"tower_height": 29}),
            (OkumuraHata, {"tower_height": 201}),
            (OkumuraHata, {"user_height": 0.9}),
            (OkumuraHata, {"user_height": 11}),
            (Cost231Hata, {"frequency": "1.4 GHz"}),
            (Cost231Hata, {"frequency": "2.1 GHz"}),
        ],
    )
    def test_values_out_of_range_are_rejected(self, model, settings):
        valid = {"frequency": 1.5e9, "area": "small_city" if model is OkumuraHata else "medium_city"}
        model(**valid)
        with pytest.raises(ScenarioError) as error:
            model(**valid | settings)
        assert [fault.key.partition(".")[2] for fault in error.value.faults] == [*settings]

    def test_users_out_of_range_are_named(self):
        model = OkumuraHata(frequency=9e8, area="open")
        with pytest.raises(ScenarioError) as error:
            loss_db(model, 900, 1000, 20_000, 21_000)
        (fault,) = error.value.faults
        assert fault.key == "out_of_range"
        assert fault.problem == "the model holds for 1 to 20 km: users 0 (900 m), 3 (21000 m) from the tower"
        assert "extend" in fault.remedy

    def test_extended_range_is_linear_down_to_free_space(self):
        model = OkumuraHata(frequency=9e8, area="small_city", out_of_range="extend")
        expected = [126.40 - 35.225 * math.log10(2), 126.40 + 35.225 * math.log10(40)]
        assert loss_db(model, 500, 40_000) == pytest.approx(expected, abs=0.01)
        assert loss_db(model, 0.1) == pytest.approx(loss_db(FreeSpace(frequency=9e8), 28.5), abs=0.01)

    def test_moving_users_may_leave_range(self):
        with pytest.raises(ScenarioError, match="users move"):
            OkumuraHata(frequency=9e8, area="open").open(walking_users(), STREAMS)
        gain = OkumuraHata(frequency=9e8, area="open", out_of_range="extend").open(walking_users(), STREAMS)
        times = np.linspace(0, 30_000, 3001)
        gains_db = gain.gain_db(np.zeros(len(times), int), times)
        assert (np.diff(gains_db) <= 0).all()
        assert gains_db[0] == gain.peak_db(np.zeros(1, int))[0]

    def test_other_towers_may_be_out_of_range(self, make_layout):
        links = [("server", "tower:0", 1e9, 0.0), ("server", "tower:1", 1e9, 0.0)]
        layout = make_layout(links, [(2000.0, 0.0)], {"tower:1": (30_000.0, 0.0)})
        model = OkumuraHata(frequency=9e8, area="small_city")
        own_db, other_db = (
            -model.open(view, STREAMS).gain_db(np.zeros(1, int), 0.0) for view in (layout, layout.towards("tower:1"))
        )
        assert other_db - own_db == pytest.approx([35.225 * math.log10(14)], abs=0.01)
