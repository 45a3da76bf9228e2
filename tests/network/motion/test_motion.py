"""Motion: answers that do not depend on the order of asking, and the random waypoint model's known figures."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.draw_counts import DRAWS

from netfl.errors import ScenarioError
from netfl.network.motion._area import DiskArea, RectangleArea
from netfl.network.motion.random_waypoint import RandomWaypoint, WaypointPaths
from netfl.network.motion.trajectory import Trajectory
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
DATA = Path(__file__).parents[1] / "data"


def walks(users=40, streams=STREAMS, **said):
    sites = Star(radius=100).open(users, STREAMS)
    model = RandomWaypoint(**{"radius": 100, "speed": [1, 3], "pause": [0, 20], **said})
    return sites, model.open(sites, streams)


class TestRandomWaypoint:
    @pytest.mark.parametrize("start", ["stationary", "fresh"])
    def test_at_time_0_users_are_where_they_were_put(self, start):
        sites, paths = walks(500, start=start)
        assert (paths.xy_m(np.arange(500), 0.0) == sites.user_xy_m).all()

    @pytest.mark.slow
    def test_the_order_of_asking_does_not_matter(self):
        _, asked_on = walks()
        _, asked_back = walks()
        _, asked_wildly = walks()
        users, times = np.arange(40), np.arange(0.0, 20_000.0, 613.0)
        onward = [asked_on.xy_m(users, time) for time in times]
        backward = [asked_back.xy_m(users, time) for time in times[::-1]][::-1]
        rng = np.random.default_rng(1)
        for index in rng.permutation(len(times)):
            some = rng.permutation(40)[:7]
            assert (asked_wildly.xy_m(some, times[index]) == onward[index][some]).all()
        assert all((one == other).all() for one, other in zip(onward, backward, strict=True))

    def test_one_user_at_many_instants_in_one_call(self):
        _, paths = walks()
        _, others = walks()
        users, times = np.array([3, 5, 3, 3]), np.array([900.0, 10.0, 0.0, 5000.0])
        told = paths.xy_m(users, times)
        alone = [others.xy_m(np.array([user]), time)[0] for user, time in zip(users, times, strict=True)]
        assert told.tolist() == np.array(alone).tolist()

    def test_more_users_leave_the_others_on_their_ways(self):
        few, many = (walks(users)[1].xy_m(np.arange(10), 777.0) for users in (10, 90))
        assert (few == many).all()

    @pytest.mark.slow
    def test_nobody_is_faster_than_the_fastest_or_leaves_the_area(self):
        _, paths = walks(200, width=250, height=200, radius=None, center=[0, 0])
        users = np.arange(200)
        places = [paths.xy_m(users, time) for time in np.arange(0.0, 3000.0, 7.0)]
        steps = np.array([np.hypot(*(other - one).T) for one, other in pairwise(places)])
        assert steps.max() <= 3 * 7 * (1 + 1e-9)
        assert (np.abs(places) <= [125 + 1e-9, 100 + 1e-9]).all()

    def test_without_pauses_everybody_always_moves_at_a_legs_speed(self):
        _, paths = walks(100, speed=[2, 2], pause=[0, 0])
        users = np.arange(100)
        steps = np.hypot(*(paths.xy_m(users, 50.001) - paths.xy_m(users, 50.0)).T)
        assert steps == pytest.approx(0.002, abs=1e-7)

    @pytest.mark.slow
    def test_the_mean_speed_is_what_ergodic_walks_have(self):
        """Over 200,000 s and 40 users: way covered / time = E[L] / (E[P] + E[L] E[1/V]), with E[1/V] = ln 3 / 2.

        The share of time on the way is held to 1 %, several standard errors of some 75,000 legs.
        """
        _, paths = walks(40)
        users, numbers = np.arange(40), np.arange(1, 2000)
        legs = [paths.legs(users, np.full(40, number)) for number in numbers]
        way = sum(np.hypot(*(leg.target_m - leg.origin_m).T).sum() for leg in legs)
        time = sum((leg.travel_s + leg.pause_s).sum() for leg in legs)
        mean_leg = 128 * 100 / (45 * math.pi)
        assert way / time == pytest.approx(mean_leg / (10 + mean_leg * math.log(3) / 2), rel=0.01)

    @pytest.mark.parametrize(
        "model",
        [
            RandomWaypoint(radius=100, speed=[1, 5]),
            RandomWaypoint(radius=100, speed=[2, 2], pause=[100, 100]),
            RandomWaypoint(width=300, height=100, speed=[1, 2], pause=[0, 30], center=[9, 9]),
            RandomWaypoint(width=50, height=50, speed=[0.1, 10]),
            RandomWaypoint(width=50, height=90, speed=[1, 1.5], start="fresh"),
        ],
    )
    def test_all_variants_hold_their_laws(self, model):
        assert check_laws(model, Streams(11), DRAWS) == []

    def test_a_start_that_is_not_stationary_is_caught_by_the_laws(self):
        fresh = RandomWaypoint(radius=100, speed=[1, 5], start="fresh")
        claims = RandomWaypoint(radius=100, speed=[1, 5])
        told = [law for law in claims.laws() if law.quantity.startswith("speed")]
        drawn = WaypointPaths(fresh, np.zeros((20_000, 2)), STREAMS)
        early = np.hypot(*(drawn.xy_m(np.arange(20_000), 0.01) - drawn.xy_m(np.arange(20_000), 0.0)).T) / 0.01
        assert early.mean() == pytest.approx(3.0, abs=0.05)  # uniform on [1, 5], where the long run has 4 / ln 5 = 2.49
        assert told[0].mean == pytest.approx(2.485, abs=0.001)

    def test_from_a_corner_users_set_out_into_the_area(self):
        corner = RandomWaypoint(width=2, height=2, speed=[1, 1])
        sites = Star(placement={"kind": "listed", "positions": [[1, 1]] * 500}).open(500, STREAMS)
        places = corner.open(sites, STREAMS).xy_m(np.arange(500), 0.2)
        assert (places < 1).all()
        assert np.hypot(*(places - 1).T) == pytest.approx(0.2, abs=0.2)

    def test_users_outside_of_the_area_are_named(self):
        with pytest.raises(ScenarioError, match=r"radius: placed outside of the area: \d+ of \d+ users"):
            walks(radius=50)

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"radius": 1, "width": 1, "height": 1},
            {"width": 1},
            {"radius": 1, "speed": [3, 1]},
            {"radius": 1, "speed": [0, 1]},
        ],
    )
    def test_one_area_and_ranges_in_order(self, given):
        with pytest.raises(ScenarioError):
            RandomWaypoint(**{"speed": [1, 2], **given})

    @pytest.mark.slow
    def test_a_hundred_thousand_users(self):
        _, paths = walks(100_000)
        places = [paths.xy_m(np.arange(100_000), time) for time in (0.0, 60.0, 600.0)]
        assert np.isfinite(places).all()


class TestAreas:
    def test_the_mean_leg_of_a_unit_square_and_of_a_unit_disk(self):
        assert RectangleArea(1, 1).mean_leg_m == pytest.approx(0.521405433, abs=1e-9)
        assert DiskArea(1).mean_leg_m == pytest.approx(0.905414787, abs=1e-9)

    def test_the_mean_leg_of_a_very_long_rectangle_is_that_of_a_line(self):
        assert RectangleArea(300, 0.3).mean_leg_m == pytest.approx(100, rel=1e-3)

    @pytest.mark.parametrize("area", [DiskArea(2), RectangleArea(3, 2)])
    def test_ways_to_the_edge_end_at_the_edge(self, area):
        rng = np.random.default_rng(2)
        places = area.place(*rng.random((2, 1000)))
        angle = 2 * np.pi * rng.random(1000)
        towards = np.column_stack([np.cos(angle), np.sin(angle)])
        reach = area.reach_m(places, towards)[:, None]
        assert area.holds(places + (1 - 1e-9) * reach * towards).all()
        assert not area.holds(places + (1 + 1e-6) * reach * towards).any()

    @pytest.mark.parametrize("area", [DiskArea(2), RectangleArea(3, 2)])
    def test_the_bound_on_behind_times_ahead_holds_and_its_integral_is_right(self, area):
        place = np.tile([[0.7, -0.4]], (20_000, 1))
        rng = np.random.default_rng(3)
        angle, bound = area.heading(place, *rng.random((2, 20_000)))
        towards = np.column_stack([np.cos(angle), np.sin(angle)])
        product = area.reach_m(place, towards) * area.reach_m(place, -towards)
        assert (product <= bound * (1 + 1e-9)).all()
        # drawn in proportion to the bound: the mean of 1 / bound is 2π over its integral
        assert 2 * np.pi / area.headings(place)[0] == pytest.approx((1 / bound).mean(), rel=0.02)


class TestTrajectory:
    SITES = Star(placement={"kind": "listed", "positions": [[0, 9], [5, 5], [7, 0]]}).open(3, STREAMS)

    def test_straight_from_point_to_point_and_still_outside(self):
        paths = Trajectory(file=DATA / "walks.csv", relative=True).open(self.SITES, STREAMS)
        users = np.array([2, 2, 2, 2, 0, 1])
        places = paths.xy_m(users, [5.0, 10.0, 17.0, 99.0, 50.0, 50.0])
        assert places.tolist() == [[22, 20], [37, 40], [37, 40], [37, 40], [-25, 9], [5, 5]]

    def test_one_file_for_places_and_ways(self, tmp_path):
        (tmp_path / "x.csv").write_text("user,time_s,x_m,y_m\n0,10,9,9\n0,0,1,2\n1,30,3,4\n")
        sites = Star(placement={"kind": "table", "file": str(tmp_path / "x.csv")}).open(2, STREAMS)
        paths = Trajectory(file=tmp_path / "x.csv").open(sites, STREAMS)
        assert paths.xy_m(np.array([0, 1]), 0.0).tolist() == [[1, 2], [3, 4]]

    def test_a_user_who_does_not_start_where_it_is_put(self):
        with pytest.raises(ScenarioError, match=r"user 0 is at \(0, 0\) m at time 0, but is placed at \(0, 9\) m"):
            Trajectory(file=DATA / "walks.csv").open(self.SITES, STREAMS)

    def test_points_at_the_same_time_and_users_that_there_are_not(self, tmp_path):
        (tmp_path / "x.csv").write_text("user,time_s,x_m,y_m\n0,1,0,0\n0,1,5,5\n9,0,0,0\n")
        model = Trajectory(file=tmp_path / "x.csv")
        problems = [fault.problem for fault in model.faults(ScenarioFacts(users=3, rounds=1))]
        assert problems == ["line 4: no such user: 9", "line 3: user 0, time_s 1 occurs twice, first on line 2"]
