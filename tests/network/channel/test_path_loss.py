"""Path losses compared with published values, complex sums of rays and their limits, and users out of range."""

import math

import networkx as nx
import numpy as np
import pytest
from support.small_network import make

from netfl.core.descriptions import example
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import kind_of, list_kinds
from netfl.errors import ScenarioError
from netfl.network.build import build_layout, open_budget
from netfl.network.channel.constant import Constant
from netfl.network.channel.cost231_hata import Cost231Hata
from netfl.network.channel.free_space import FreeSpace
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.okumura_hata import OkumuraHata
from netfl.network.channel.rain import Rain
from netfl.network.channel.rma import Rma
from netfl.network.channel.two_ray import TwoRay
from netfl.network.channel.uma import Uma
from netfl.network.channel.umi import Umi
from netfl.network.channel.underwater import Underwater
from netfl.network.layout import Layout, Trajectories
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.topology.star import Star
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.simulation.setup import access_context, warnings
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


class TestLogDistanceNearTheTower:
    """Losses nearer than the reference distance."""

    @pytest.mark.parametrize(
        ("intercept_db", "slope"), [(128.1, 37.6), (140.7, 36.7), (103.4, 24.2), (131.1, 42.8), (148.0, 40.0)]
    )
    def test_formula_in_kilometres_holds_down_to_1_m(self, intercept_db, slope):
        """Loss a + b lg d[km], as in 3GPP TR 36.814; the nearest user is at the default min_distance."""
        model = LogDistance(exponent=slope / 10, reference_loss=intercept_db, reference_distance="1 km")
        kilometres = np.array([0.001, 0.035, 0.2, 1.0, 3.0])
        assert loss_db(model, *1000 * kilometres) == pytest.approx(intercept_db + slope * np.log10(kilometres))
        assert loss_db(model, 0.1) == loss_db(model, 1.0)

    def test_formula_in_metres_needs_no_reference_distance(self):
        """TR 36.814, Table B.1.2.1-1, micro cell out of sight: 22.7 + 36.7 lg d[m] + 26 lg fc at 2 GHz."""
        model = LogDistance(exponent=3.67, reference_loss=22.7 + 26 * math.log10(2))
        assert loss_db(model, 0.5, 10, 300) == pytest.approx(
            [30.527, 30.527 + 36.7, 30.527 + 36.7 * math.log10(300)], abs=0.001
        )

    def test_free_space_meets_the_law_of_a_carrier(self):
        """At 868 MHz free space has 71.22 dB at 100 m, 20 dB less at 10 m, and 31.22 dB at 1 m."""
        model = LogDistance(exponent=3.8, frequency="868 MHz", reference_distance="100 m")
        expected = [31.22, 31.22, 51.22, 71.22, 109.22]
        assert loss_db(model, 0.3, 1, 10, 100, 1000) == pytest.approx(expected, abs=0.01)

    def test_min_distance_ends_the_law(self):
        settings = {"exponent": 3.76, "reference_distance": "1 km", "reference_loss": "128.1 dB"}
        at_35_m = 128.1 + 37.6 * math.log10(0.035)
        model = LogDistance(**settings, min_distance="35 m")
        assert loss_db(model, 5, 34, 35, 1000) == pytest.approx([at_35_m, at_35_m, at_35_m, 128.1])
        assert loss_db(LogDistance(**settings, min_distance="1 km"), 5, 1000) == pytest.approx([128.1, 128.1])
        assert loss_db(LogDistance(exponent=3, reference_loss=40, min_distance=0.1), 0.1) == pytest.approx([10.0])

    def test_min_distance_beyond_reference_is_rejected(self):
        remedy = "reduce min_distance, or leave it out"
        with pytest.raises(ScenarioError, match=rf"min_distance \(2 m\) is above reference_distance \(1 m\); {remedy}"):
            LogDistance(exponent=3, reference_loss=40, min_distance=2)

    def test_no_loss_is_below_0_db(self):
        """10 dB at 100 m, exponent 3: the law reaches 0 dB at 46.4 m."""
        model = LogDistance(exponent=3, reference_loss=10, reference_distance=100)
        assert loss_db(model, 1, 46, 47, 100) == pytest.approx([0, 0, 10 - 30 * math.log10(100 / 47), 10])
        assert model.near_limit.distance_m == pytest.approx(46.416, abs=0.001)

    def test_breakpoints_stay_beyond_reference(self):
        points = [{"distance": "2 km", "exponent": 4}]
        model = LogDistance(exponent=3, reference_loss=120, reference_distance="1 km", breakpoints=points)
        assert loss_db(model, 10, 2000, 4000) == pytest.approx([60, 120 + 30 * math.log10(2), 120 + 70 * math.log10(2)])

    def test_3gpp_example_has_its_snr(self):
        """10 dBm - (128.1 + 37.6 lg d) + 174 - 73.0 dBm of noise in 20 MHz."""
        distances_m = np.array([149.0, 242.8, 35.4])
        channel = LogDistance(exponent=3.76, reference_distance="1 km", reference_loss="128.1 dB")
        layout = Star(distances=tuple(distances_m)).open(3, STREAMS)
        budget = LinkBudget(Radio(power="10 dBm", bandwidth="20 MHz"), [channel], layout, STREAMS)
        expected = 10 - (128.1 + 37.6 * np.log10(distances_m / 1000)) + 174 - 10 * math.log10(20e6)
        assert budget.snr_db(np.arange(3), 0.0) == pytest.approx(expected)
        assert expected == pytest.approx([14.0, 6.0, 37.5], abs=0.1)


CELL_OF_3GPP = """
name: cell
users: 50
rounds: 2
access:
  kind: network
  round: {kind: available, deadline: 30 s}
  topology: {kind: star, placement: {kind: rectangle, width: 500 m, height: 500 m}}
  radio: {power: 10 dBm, bandwidth: 20 MHz}
  channel: [{kind: log_distance, exponent: 3.76, reference_distance: 1 km, reference_loss: 128.1 dB}]
  reception: shannon
  mac: {kind: fdma}
  compute: {speed: 1000, samples: 10}
  broadcast_rate: 10 Mbps
  update_size: 28.1 kbit
"""


def test_users_of_a_cell_in_kilometres_differ_by_their_distance():
    """User 0 has 10 dBm - (128.1 + 37.6 lg d) + 174 - 73.0 = +4.1 dB at 272 m, and nearer users have more."""
    scenario = validate(ScenarioDocument(parse(CELL_OF_3GPP, "cell"), "cell"))
    context = access_context(scenario, 0)
    layout = build_layout(scenario.access, context)
    snr_db = open_budget(scenario.access, context, layout).snr_db(np.arange(50), 0.0)
    assert snr_db[0] == pytest.approx(4.14, abs=0.01)
    by_distance = np.argsort(layout.distance_m)
    assert (np.diff(snr_db[by_distance]) < 0.0).all()
    assert [*warnings(scenario)] == []


def distance_laws():
    """Yield each channel whose gain follows from the distance alone: the examples, and further settings of them."""
    variants = [
        LogDistance(exponent=3.8, frequency="868 MHz", reference_distance="100 m"),
        LogDistance(exponent=3.8, frequency="868 MHz", reference_distance="100 m", min_distance="20 m"),
        LogDistance(exponent=4, reference_loss=20, reference_distance="1 km"),
        LogDistance(exponent=2, frequency="3 MHz", reference_distance="1 km"),
        TwoRay(frequency="2.4 GHz", tower_height=0.5, user_height=0.5),
        Underwater(frequency="400 Hz", spreading=1),
        Underwater(frequency="20 kHz"),
        Rma(frequency="0.5 GHz", shadowing=False, out_of_range="extend", tower_height=10, user_height=10),
        Uma(frequency="100 GHz", shadowing=False, out_of_range="extend"),
        Umi(frequency="0.5 GHz", shadowing=False, out_of_range="extend"),
        Rain(rates=[30, 30], transitions=[[0.5, 0.5], [0.5, 0.5]], block=60, frequency=26e9, max_length=1e6),
    ]
    for kind in list_kinds(base_of("network/channel")):
        model = find_model(base_of("network/channel"), kind)
        settings = {key: value for key, value in parse(example(model), kind).items() if key != "kind"}
        spec = model.model_validate(settings)
        if not spec.has_path_loss or "file" in settings:
            continue  # gains of other causes, and measured ones
        changes = {"shadowing": False, "out_of_range": "extend"}
        variants.append(spec.model_copy(update={key: changes[key] for key in changes if hasattr(spec, key)}))
    return variants


class RadialUsers(Trajectories):
    """Every user walks from the tower: at the time t it is t metres away."""

    def xy_m(self, users, time_s):
        x_m = np.broadcast_to(np.asarray(time_s, float), len(users))
        return np.column_stack([x_m, np.zeros(len(users))])


@pytest.mark.parametrize("model", distance_laws(), ids=lambda model: repr(model)[:60])
def test_every_distance_law_rises_from_its_near_limit_on(model):
    """Losses never fall with the distance, are at least 0 dB, and tell users apart beyond the limit near the tower."""
    graph = nx.Graph()
    graph.add_node("tower:0", role="tower", x_m=0.0, y_m=0.0)
    walk = Layout(graph, np.zeros((1, 2)), paths=RadialUsers())
    gain = model.open(walk, STREAMS)
    limit_m = 0.0 if model.near_limit is None else model.near_limit.distance_m
    distances_m = np.unique([0.0, 0.5 * limit_m, limit_m, *np.geomspace(max(limit_m, 0.01), 20_000.0, 400)])
    losses_db = -np.concatenate([gain.gain_db(np.zeros(1, int), float(metres)) for metres in distances_m])
    assert (losses_db >= 0.0).all()
    assert (np.diff(losses_db) >= -0.1).all()  # RMa is printed with a step of some hundredths of a dB at its breakpoint
    is_beyond = distances_m >= max(limit_m, 1.0)
    assert (np.diff(losses_db[is_beyond]) > -0.1).all()
    assert len(np.unique(losses_db[is_beyond])) == is_beyond.sum()
    assert losses_db[distances_m <= limit_m] == pytest.approx(losses_db[0])


def test_examples_of_path_losses_are_among_the_laws():
    """A hand-kept list, as a channel with a wrong ``has_path_loss`` would leave the test above unnoticed."""
    kinds = {kind_of(type(model)) for model in distance_laws()}
    listed = {"free_space", "log_distance", "two_ray", "okumura_hata", "cost231_hata", "rma", "uma", "umi"}
    listed |= {"underwater", "rain"}
    assert not listed - kinds, "their has_path_loss is false, or they are no longer there: correct it, or this list"
    assert not kinds - listed, "new path losses: add them to this list, and their extremes to distance_laws()"


class TestWarnings:
    """Users within the distance at which a law ends are counted."""

    @staticmethod
    def warnings(channel, distances_m, **overrides):
        topology = {"kind": "star", "distances": list(distances_m)}
        options = {"channel": [channel], "topology": topology, "unreachable": "keep"} | overrides
        access, context, _ = make(len(distances_m), 1, **options)
        return [text for text in access.warnings(context) if "of their tower" in text]

    def test_users_within_min_distance_are_counted(self):
        channel = {"kind": "log_distance", "exponent": 3, "frequency": "868 MHz", "min_distance": 0.5}
        (warning,) = self.warnings(channel, [0.2, 0.5, 0.4, 30])
        assert warning == (
            "access.channel.0, log_distance: 2 of 4 users are within 0.5 m of their tower, where its loss no longer "
            "falls; place users farther away, or reduce min_distance"
        )
        assert self.warnings(channel, [0.5, 1, 2, 30]) == []

    def test_users_whose_loss_would_be_a_gain_are_counted(self):
        channel = {"kind": "log_distance", "exponent": 4, "reference_distance": "1 km", "reference_loss": "40 dB"}
        (warning,) = self.warnings(channel, [20, 99, 101, 300])
        assert "2 of 4 users are within 100 m of their tower, where its loss would be below 0 dB" in warning
        assert "check the loss and distance of the reference" in warning

    def test_other_laws_count_their_users(self):
        (warning,) = self.warnings({"kind": "umi", "frequency": "3.5 GHz"}, [9, 10, 11])
        assert warning.startswith("access.channel.0, umi: 1 of 3 users is within 10 m of their tower")

    def test_moving_users_that_pass_the_tower_are_not_counted(self):
        walk = {"kind": "random_waypoint", "radius": 200, "speed": [1.0, 2.0]}
        channel = {"kind": "log_distance", "exponent": 3, "reference_loss": 60, "reference_distance": 50}
        assert self.warnings(channel, [60, 70], motion=walk) == []
        assert self.warnings(channel | {"min_distance": 50}, [10, 12], motion=walk | {"radius": 20}) != []


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
