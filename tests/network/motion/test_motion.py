"""Motion: results are independent of the query order, and the random waypoint model has its known properties."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
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


def open_walks(users=40, streams=STREAMS, **overrides):
    layout = Star(radius=100).open(users, STREAMS)
    model = RandomWaypoint(**{"radius": 100, "speed": [1, 3], "pause": [0, 20], **overrides})
    return layout, model.open(layout, streams)


class TestRandomWaypoint:
    @pytest.mark.parametrize("start", ["stationary", "fresh"])
    def test_users_start_at_their_positions(self, start):
        layout, paths = open_walks(500, start=start)
        assert (paths.xy_m(np.arange(500), 0.0) == layout.user_xy_m).all()

    @pytest.mark.slow
    def test_results_are_independent_of_query_order(self):
        _, forward_paths = open_walks()
        _, backward_paths = open_walks()
        _, random_paths = open_walks()
        users, times = np.arange(40), np.arange(0.0, 20_000.0, 613.0)
        forward = [forward_paths.xy_m(users, time) for time in times]
        backward = [backward_paths.xy_m(users, time) for time in times[::-1]][::-1]
        rng = np.random.default_rng(1)
        for index in rng.permutation(len(times)):
            subset = rng.permutation(40)[:7]
            assert (random_paths.xy_m(subset, times[index]) == forward[index][subset]).all()
        assert all((forward_m == backward_m).all() for forward_m, backward_m in zip(forward, backward, strict=True))

    @pytest.mark.slow
    def test_single_users_have_the_positions_of_arrays(self):
        """To the bit, forwards and backwards, over more legs than are kept."""
        users, rng = np.arange(40), np.random.default_rng(2)
        times_s = np.concatenate([[0.0, 1e-9, 5e4], rng.uniform(0.0, 6e4, 30)])
        arrays, single, mixed = (open_walks()[1] for _ in range(3))
        for time_s in times_s:
            expected_m = arrays.xy_m(users, time_s)
            order = rng.permutation(users)
            alone_m = np.array([single.xy_m(np.array([user]), time_s)[0] for user in order])
            assert (alone_m == expected_m[order]).all()
            pairs = np.concatenate([rng.choice(users, 5), [3, 3]])
            instants_s = np.array([0.0, time_s / 2, time_s, time_s, time_s / 3, time_s, 1.0])
            expected_m = [open_walks()[1].xy_m(pairs[[i]], instants_s[i])[0] for i in range(7)]
            assert (mixed.xy_m(pairs, instants_s) == expected_m).all()

    def test_query_can_have_many_times_per_user(self):
        _, paths = open_walks()
        _, others = open_walks()
        users, times = np.array([3, 5, 3, 3]), np.array([900.0, 10.0, 0.0, 5000.0])
        positions = paths.xy_m(users, times)
        single_positions = [others.xy_m(np.array([user]), time)[0] for user, time in zip(users, times, strict=True)]
        assert positions.tolist() == np.array(single_positions).tolist()

    def test_more_users_do_not_change_others(self):
        few, many = (open_walks(users)[1].xy_m(np.arange(10), 777.0) for users in (10, 90))
        assert (few == many).all()

    @pytest.mark.slow
    def test_users_respect_speed_and_area(self):
        _, paths = open_walks(200, width=250, height=200, radius=None, center=[0, 0])
        users = np.arange(200)
        positions = [paths.xy_m(users, time) for time in np.arange(0.0, 3000.0, 7.0)]
        steps = np.array([np.hypot(*(later - earlier).T) for earlier, later in pairwise(positions)])
        assert steps.max() <= 3 * 7 * (1 + 1e-9)
        assert (np.abs(positions) <= [125 + 1e-9, 100 + 1e-9]).all()

    def test_users_without_pauses_always_move(self):
        _, paths = open_walks(100, speed=[2, 2], pause=[0, 0])
        users = np.arange(100)
        steps = np.hypot(*(paths.xy_m(users, 50.001) - paths.xy_m(users, 50.0)).T)
        assert steps == pytest.approx(0.002, abs=1e-7)

    @pytest.mark.slow
    def test_mean_speed_matches_theory(self):
        """Distance / time = E[L] / (E[P] + E[L] E[1/V]), with E[1/V] = ln 3 / 2, over 200,000 s and 40 users.

        The tolerance of 1 % is several standard errors of some 75,000 legs.
        """
        _, paths = open_walks(40)
        users, numbers = np.arange(40), np.arange(1, 2000)
        legs = [paths.legs(users, np.full(40, number)) for number in numbers]
        distance_m = sum(np.hypot(*(leg.target_m - leg.origin_m).T).sum() for leg in legs)
        time = sum((leg.travel_s + leg.pause_s).sum() for leg in legs)
        mean_leg = 128 * 100 / (45 * math.pi)
        assert distance_m / time == pytest.approx(mean_leg / (10 + mean_leg * math.log(3) / 2), rel=0.01)

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
    def test_variants_follow_stated_distributions(self, model):
        assert check_laws(model, Streams(11), DRAWS) == []

    def test_check_detects_start_that_is_not_stationary(self):
        fresh = RandomWaypoint(radius=100, speed=[1, 5], start="fresh")
        stationary = RandomWaypoint(radius=100, speed=[1, 5])
        speed_laws = [law for law in stationary.laws() if law.quantity.startswith("speed")]
        drawn = WaypointPaths(fresh, np.zeros((20_000, 2)), STREAMS)
        speeds = np.hypot(*(drawn.xy_m(np.arange(20_000), 0.01) - drawn.xy_m(np.arange(20_000), 0.0)).T) / 0.01
        assert speeds.mean() == pytest.approx(
            3.0, abs=0.05
        )  # uniform on [1, 5]; the stationary mean is 4 / ln 5 = 2.49
        assert speed_laws[0].mean == pytest.approx(2.485, abs=0.001)

    def test_users_in_corner_move_into_area(self):
        corner = RandomWaypoint(width=2, height=2, speed=[1, 1])
        layout = Star(placement={"kind": "listed", "positions": [[1, 1]] * 500}).open(500, STREAMS)
        positions = corner.open(layout, STREAMS).xy_m(np.arange(500), 0.2)
        assert (positions < 1).all()
        assert np.hypot(*(positions - 1).T) == pytest.approx(0.2, abs=0.2)

    def test_users_outside_area_are_rejected(self):
        with pytest.raises(ScenarioError, match=r"radius: placed outside of the area: \d+ of \d+ users"):
            open_walks(radius=50)

    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"radius": 1, "width": 1, "height": 1},
            {"width": 1},
            {"radius": 1, "speed": [3, 1]},
            {"radius": 1, "speed": [0, 1]},
        ],
    )
    def test_invalid_settings_are_rejected(self, settings):
        with pytest.raises(ScenarioError):
            RandomWaypoint(**{"speed": [1, 2], **settings})

    @pytest.mark.slow
    def test_many_users_have_finite_positions(self):
        _, paths = open_walks(100_000)
        positions = [paths.xy_m(np.arange(100_000), time) for time in (0.0, 60.0, 600.0)]
        assert np.isfinite(positions).all()


class TestAreas:
    def test_mean_leg_of_unit_square_and_disk(self):
        assert RectangleArea(1, 1).mean_leg_m == pytest.approx(0.521405433, abs=1e-9)
        assert DiskArea(1).mean_leg_m == pytest.approx(0.905414787, abs=1e-9)

    def test_mean_leg_of_long_rectangle_is_that_of_line(self):
        assert RectangleArea(300, 0.3).mean_leg_m == pytest.approx(100, rel=1e-3)

    @pytest.mark.parametrize("area", [DiskArea(2), RectangleArea(3, 2)])
    def test_reach_ends_at_edge(self, area):
        rng = np.random.default_rng(2)
        positions = area.place(*rng.random((2, 1000)))
        angle = 2 * np.pi * rng.random(1000)
        directions = np.column_stack([np.cos(angle), np.sin(angle)])
        reach = area.reach_m(positions, directions)[:, None]
        assert area.holds(positions + (1 - 1e-9) * reach * directions).all()
        assert not area.holds(positions + (1 + 1e-6) * reach * directions).any()

    @pytest.mark.parametrize("area", [DiskArea(2), RectangleArea(3, 2)])
    def test_bound_and_integral_of_headings(self, area):
        position = np.tile([[0.7, -0.4]], (20_000, 1))
        rng = np.random.default_rng(3)
        angle, bound = area.heading(position, *rng.random((2, 20_000)))
        directions = np.column_stack([np.cos(angle), np.sin(angle)])
        product = area.reach_m(position, directions) * area.reach_m(position, -directions)
        assert (product <= bound * (1 + 1e-9)).all()
        # drawn in proportion to the bound: the mean of 1 / bound is 2π over its integral
        assert 2 * np.pi / area.headings(position)[0] == pytest.approx((1 / bound).mean(), rel=0.02)


class TestTrajectory:
    LAYOUT = Star(placement={"kind": "listed", "positions": [[0, 9], [5, 5], [7, 0]]}).open(3, STREAMS)

    @pytest.mark.parametrize(("step_s", "step_m"), [(1000, 14.0), (1, 1e-4)])
    def test_milliseconds_and_degrees_are_doubted(self, tmp_path, step_s, step_m):
        rows = [f"0,{step_s * step},{11.5 + step_m * step},48.1" for step in range(4)]
        (tmp_path / "x.csv").write_text("\n".join(["user,time_s,x_m,y_m", *rows]))
        (warning,) = Trajectory(file=tmp_path / "x.csv").warnings(1, 1.0)
        assert warning.startswith(f"no user moves faster than {step_m / step_s:.2g} m/s, which is unusual; check that")

    def test_positions_are_interpolated(self):
        paths = Trajectory(file=DATA / "walks.csv", relative=True).open(self.LAYOUT, STREAMS)
        users = np.array([2, 2, 2, 2, 0, 1])
        positions = paths.xy_m(users, [5.0, 10.0, 17.0, 99.0, 50.0, 50.0])
        assert positions.tolist() == [[22, 20], [37, 40], [37, 40], [37, 40], [-25, 9], [5, 5]]

    def test_one_file_for_placement_and_motion(self, tmp_path):
        (tmp_path / "x.csv").write_text("user,time_s,x_m,y_m\n0,10,9,9\n0,0,1,2\n1,30,3,4\n")
        layout = Star(placement={"kind": "table", "file": str(tmp_path / "x.csv")}).open(2, STREAMS)
        paths = Trajectory(file=tmp_path / "x.csv").open(layout, STREAMS)
        assert paths.xy_m(np.array([0, 1]), 0.0).tolist() == [[1, 2], [3, 4]]

    def test_start_must_match_placement(self):
        with pytest.raises(ScenarioError, match=r"user 0 is at \(0, 0\) m at time 0, but is placed at \(0, 9\) m"):
            Trajectory(file=DATA / "walks.csv").open(self.LAYOUT, STREAMS)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("user,time_s,x_m,y_m,x_m\n0,0,100,0,7\n0,20,300,0,7\n", "x.csv: column x_m occurs 2 times"),
            ("user,time_s,x_m,y_m\n0,0,100,5,0\n1,0,50,0,0\n", "x.csv:2: number of cells: 5 instead of 4"),
            ('user,time_s,x_m,y_m\n0,0,"100,5",0\n', "x.csv:2: column x_m: not a number: it has a decimal comma"),
            ("user,time_s,x_m,y_m\n0,0,1000 m,0\n", "x.csv:2: column x_m: not a number"),
            (
                "user,time_s,x_m,y_m\n0,2024-01-01,1,0\n",
                "x.csv:2: column time_s: a date instead of a number of seconds",
            ),
            ("user,time_s,x_m,y_m\n00,0,1,0\n", "x.csv:2: column user: not the number of a user"),
            ("user,time,x_m,y_m\n0,0,1,0\n", "x.csv has no column time_s"),
        ],
    )
    def test_other_files_are_rejected(self, tmp_path, text, problem):
        (tmp_path / "x.csv").write_text(text)
        faults = Trajectory(file=tmp_path / "x.csv").faults(ScenarioFacts(users=3, rounds=1))
        assert next(faults).problem.startswith(problem)

    def test_parquet_with_durations(self, tmp_path):
        frame = pd.DataFrame(
            {"user": [0, 0], "time_s": pd.to_timedelta([0, 10], "s"), "x_m": [0, 20], "y_m": [0.0, 0.0]}
        )
        frame.to_parquet(tmp_path / "x.parquet")
        paths = Trajectory(file=tmp_path / "x.parquet", relative=True).open(self.LAYOUT, STREAMS)
        moved_m = paths.xy_m(np.array([0]), 5.0) - self.LAYOUT.user_xy_m[[0]]
        assert moved_m.tolist() == [[pytest.approx(10.0), pytest.approx(0.0)]]

    @pytest.mark.parametrize(("times", "expected"), [((0, 5), True), ((1.6e9, 1.7e9), False), ((-9, -5), False)])
    def test_times_within_a_run_of_100_s(self, tmp_path, times, expected):
        (tmp_path / "x.csv").write_text("user,time_s,x_m,y_m\n" + "".join(f"0,{time},0,0\n" for time in times))
        assert Trajectory(file=tmp_path / "x.csv").has_times_within(100.0) == expected

    def test_duplicate_times_and_unknown_users_are_rejected(self, tmp_path):
        (tmp_path / "x.csv").write_text("user,time_s,x_m,y_m\n0,1,0,0\n0,1,5,5\n9,0,0,0\n")
        model = Trajectory(file=tmp_path / "x.csv")
        problems = [fault.problem for fault in model.faults(ScenarioFacts(users=3, rounds=1))]
        assert problems == ["x.csv:3: user 0, time_s 1 occurs twice, first in x.csv:2", "x.csv:4: no such user"]

    def test_one_user_has_the_positions_of_arrays(self):
        paths = Trajectory(file=DATA / "walks.csv", relative=True).open(self.LAYOUT, STREAMS)
        for time_s in (-1.0, 0.0, 0.3, 10.0, 13.7, 20.0, 21.0, 99.0, 1e9):
            many = paths.xy_m(np.arange(3), time_s)
            single = [paths.xy_m(np.array([user]), time_s)[0].tolist() for user in range(3)]
            assert single == many.tolist()
