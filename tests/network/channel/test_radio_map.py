"""Radio maps: interpolation against SciPy and a plane, towers, places outside, and users that move on them."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import RegularGridInterpolator

from netfl.errors import ModelError, ScenarioError
from netfl.network.build import build_network
from netfl.network.channel.radio_map import RadioMap
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion.trajectory import Trajectory
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.topology.inline import Inline
from netfl.network.topology.star import Star
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import access_context
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
X_M = np.array([-300.0, -100.0, 0.0, 50.0, 400.0])
Y_M = np.array([-200.0, 10.0, 20.0, 300.0])
VALUES = np.random.default_rng(1).normal(-90.0, 8.0, (5, 4))
TOWERS = {
    "nodes": {
        "core": {"role": "server", "position": [0, 0]},
        "tower:0": {"role": "tower", "position": [-500, 0]},
        "tower:1": {"role": "tower", "position": [500, 100]},
    },
    "links": [{"between": ["core", "tower:0"]}, {"between": ["core", "tower:1"]}],
}


def rows(values=VALUES, quantity="gain_db", **columns):
    """Return the table of a map in shuffled order."""
    x_m, y_m = np.meshgrid(X_M, Y_M, indexing="ij")
    frame = pd.DataFrame({"x_m": x_m.ravel(), "y_m": y_m.ravel(), quantity: values.ravel(), **columns})
    return frame.sample(frac=1.0, random_state=3)


def write(folder, frame, name="map.csv"):
    path = folder / name
    frame.to_csv(path, index=False)
    return path


def users_at(places_m, paths=None) -> Layout:
    positions = [[float(x), float(y)] for x, y in places_m]
    layout = Star(placement={"kind": "listed", "positions": positions}).open(len(positions), STREAMS)
    return layout if paths is None else Layout(layout.graph, layout.user_xy_m, paths)


def two_towers(places_m) -> Layout:
    placement = {"kind": "listed", "positions": [[float(x), float(y)] for x, y in places_m]}
    return Inline.model_validate(TOWERS | {"placement": placement}).open(len(places_m), STREAMS)


class Places(Trajectories):
    """Users at the place with the number of the second."""

    def __init__(self, places_m):
        self.places_m = np.asarray(places_m, float)

    def xy_m(self, users, time_s):
        second = np.broadcast_to(np.asarray(time_s, int), np.shape(users))
        return self.places_m[np.minimum(second, len(self.places_m) - 1)]


class TestInterpolation:
    PLACES_M = np.random.default_rng(2).uniform([-300, -200], [400, 300], (200, 2))

    @pytest.mark.parametrize("moving", [False, True])
    def test_bilinear_is_that_of_scipy_between_points(self, tmp_path, moving):
        path = write(tmp_path, rows())
        expected = RegularGridInterpolator((X_M, Y_M), VALUES)(self.PLACES_M)
        if moving:
            gain = RadioMap(file=path).open(users_at([(0, 0)] * 200, Places(self.PLACES_M)), STREAMS)
            gains_db = gain.gain_db(np.arange(200), np.arange(200))
            single_db = [float(gain.gain_db(np.array([0]), float(second))[0]) for second in range(200)]
            assert single_db == gains_db.tolist()
        else:
            gains_db = RadioMap(file=path).open(users_at(self.PLACES_M), STREAMS).gain_db(np.arange(200), 5.0)
        assert gains_db == pytest.approx(expected, abs=1e-9)

    def test_bilinear_of_a_plane_is_exact(self, tmp_path):
        x_m, y_m = np.meshgrid(X_M, Y_M, indexing="ij")
        path = write(tmp_path, rows(-80.0 + 0.01 * x_m - 0.02 * y_m + 1e-5 * x_m * y_m))
        gains_db = RadioMap(file=path).open(users_at(self.PLACES_M), STREAMS).gain_db(np.arange(200), 0.0)
        x_m, y_m = self.PLACES_M.T
        assert gains_db == pytest.approx(-80.0 + 0.01 * x_m - 0.02 * y_m + 1e-5 * x_m * y_m, abs=1e-9)

    @pytest.mark.parametrize("moving", [False, True])
    def test_nearest_is_the_point_at_the_least_distance_in_each_axis(self, tmp_path, moving):
        i = np.abs(self.PLACES_M[:, :1] - X_M).argmin(axis=1)
        j = np.abs(self.PLACES_M[:, 1:] - Y_M).argmin(axis=1)
        layout = users_at([(0, 0)] * 200, Places(self.PLACES_M)) if moving else users_at(self.PLACES_M)
        gain = RadioMap(file=write(tmp_path, rows()), interpolation="nearest").open(layout, STREAMS)
        assert gain.gain_db(np.arange(200), np.arange(200)).tolist() == VALUES[i, j].tolist()
        if moving:
            single_db = [float(gain.gain_db(np.array([0]), float(second))[0]) for second in range(200)]
            assert single_db == VALUES[i, j].tolist()

    def test_values_at_points_and_edges(self, tmp_path):
        places_m = [(X_M[i], Y_M[j]) for i in range(5) for j in range(4)]
        gain = RadioMap(file=write(tmp_path, rows())).open(users_at(places_m), STREAMS)
        assert gain.gain_db(np.arange(20), 0.0) == pytest.approx(VALUES.ravel())

    def test_extended_map_has_the_values_of_its_edge(self, tmp_path):
        layout = users_at([(1000, 1000), (-1000, 10), (0, -999)])
        gain = RadioMap(file=write(tmp_path, rows()), out_of_range="extend").open(layout, STREAMS)
        assert gain.gain_db(np.arange(3), 0.0) == pytest.approx([VALUES[4, 3], VALUES[0, 1], VALUES[2, 0]])

    def test_rates_are_interpolated_before_they_become_gains(self, tmp_path):
        frame = rows(np.where(np.arange(20).reshape(5, 4) < 12, 1e6, 3e6), "rate_bps")
        radio = Radio(power="20 dBm", bandwidth="1 MHz")
        budget = LinkBudget(radio, [RadioMap(file=write(tmp_path, frame))], users_at([(25, 0)]), STREAMS)
        assert budget.snr_db(np.array([0]), 0.0) == pytest.approx([10 * np.log10(2**2 - 1)])

    def test_peak_is_the_largest_value(self, tmp_path):
        gain = RadioMap(file=write(tmp_path, rows())).open(users_at([(0, 0)], Places([(0, 0)])), STREAMS)
        assert gain.peak_db(np.array([0])).tolist() == [VALUES.max()]


class TestTowers:
    def test_each_tower_has_its_map(self, tmp_path):
        frame = pd.concat([rows(tower="tower:0"), rows(VALUES - 10.0, tower="tower:1")])
        layout = two_towers([(-300, 10), (400, 20)])
        model = RadioMap(file=write(tmp_path, frame))
        gain = model.open(layout, STREAMS)
        assert gain.gain_db(np.arange(2), 0.0) == pytest.approx([VALUES[0, 1], VALUES[4, 2] - 10.0])
        away = model.open(layout.towards("tower:1"), STREAMS)
        assert away.gain_db(np.arange(2), 0.0) == pytest.approx([VALUES[0, 1] - 10.0, VALUES[4, 2] - 10.0])
        assert model.missing_towers(layout) == []

    def test_relative_map_is_around_each_tower(self, tmp_path):
        layout = two_towers([(-500 - 300, -200), (500 + 50, 100 + 10)])
        model = RadioMap(file=write(tmp_path, rows()), relative=True)
        assert model.open(layout, STREAMS).gain_db(np.arange(2), 0.0) == pytest.approx([VALUES[0, 0], VALUES[3, 1]])
        assert model.missing_towers(layout) == ()

    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            ({}, "map.csv has one map for 2 towers; add the column tower"),
            ({"tower": "tower:0"}, "map.csv has no map of tower:1"),
            ({"tower": "mast"}, "column tower: no such tower ('mast')"),
        ],
    )
    def test_missing_maps_are_refused(self, tmp_path, columns, problem):
        with pytest.raises(ScenarioError) as caught:
            RadioMap(file=write(tmp_path, rows(**columns))).open(two_towers([(-300, 10), (400, 20)]), STREAMS)
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "x_m,y_m,gain_db\n0,0,-1\n0,5,-1\n3,0,-1\n",
            "m.csv has no line for x_m 3, y_m 5; give each x with each y, 2 x 2",
        ),
        ("x_m,y_m,gain_db\n0,0,-1\n0,5,-1\n", "m.csv: the grid has 1 x 2 points; give at least 2 x 2 points"),
        ("x_m,y_m,gain_db\n0,0,-1\n0,0,-1\n", "m.csv:3: x_m 0, y_m 0 occurs twice, first in m.csv:2"),
        ("x_m,y_m,gain_db\n0,,-1\n0,5,-1\n5,0,-1\n5,5,-1\n", "m.csv:2: column y_m: an empty cell instead of a number"),
        ("x,y_m,gain_db\n0,0,-1\n", "m.csv has no column x_m"),
        ("x_m,y_m,gain_db,z_m\n0,0,1,-1\n", "m.csv has the column z_m, which is not read"),
        ("x_m,y_m,tower,gain_db\n0,0,a,-1\n0,1,a,-1\n1,0,a,-1\n1,1,b,-1\n", "m.csv has no line for x_m 1, y_m 1 of a"),
    ],
)
def test_files_are_refused(tmp_path, text, problem):
    (tmp_path / "m.csv").write_text(text)
    (fault,) = RadioMap(file=tmp_path / "m.csv").faults(ScenarioFacts(users=2, rounds=1))
    assert fault.key == "file"
    assert problem in str(fault)


class TestOutside:
    def test_users_at_rest_are_listed(self, tmp_path):
        model = RadioMap(file=write(tmp_path, rows()))
        with pytest.raises(ScenarioError) as caught:
            model.open(users_at([(0, 0), (401, 0), (0, -300)]), STREAMS)
        (fault,) = caught.value.faults
        assert fault.key == "out_of_range"
        assert fault.problem == "no value for user 1, 2: user 1 is at (401, 0) m"

    def test_user_that_leaves_the_map_stops_the_run(self, tmp_path):
        gain = RadioMap(file=write(tmp_path, rows())).open(users_at([(0, 0)] * 2, Places([(0, 0), (0, 301)])), STREAMS)
        with pytest.raises(ModelError, match=r"radio_map, user 1, at 1 s .* \(0, 301\) m, outside of the map"):
            gain.gain_db(np.array([1]), 1.0)
        with pytest.raises(ModelError, match=r"radio_map, user 0, at 1 s"):
            gain.gain_db(np.array([0, 1]), 1.0)

    @pytest.mark.parametrize(("duration", "is_refused"), [("5 s", False), ("20 s", True)])
    def test_ways_that_leave_the_map_are_refused_before_the_run(self, tmp_path, duration, is_refused):
        (tmp_path / "w.csv").write_text("user,time_s,x_m,y_m\n0,0,0,0\n0,8,0,200\n0,9,0,500\n")
        access = {
            "kind": "network",
            "topology": {"kind": "star", "placement": {"kind": "listed", "positions": [[0, 0]]}},
            "motion": {"kind": "trajectory", "file": str(tmp_path / "w.csv"), "max_speed": 300},
            "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
            "channel": [{"kind": "radio_map", "file": str(write(tmp_path, rows()))}],
            "reception": {"kind": "snr_threshold", "threshold": "-9 dB", "rate": "100 kbps"},
            "mac": {"kind": "round_robin"},
            "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1 kbit"}},
        }
        data = {"name": "map", "users": 1, "duration": duration, "access": access}
        checked = validate(ScenarioDocument(data, "map"))
        if not is_refused:
            build_network(checked.access, access_context(checked, 0))
            return
        with pytest.raises(ScenarioError) as caught:
            build_network(checked.access, access_context(checked, 0))
        (fault,) = caught.value.faults
        assert fault.key == "channel.0.out_of_range"
        assert fault.problem == "user 0 moves to (0, 500) m at 9 s, outside of the map"

    @pytest.mark.parametrize(("end_s", "is_refused"), [(2.9, False), (5.0, True), (np.inf, True)])
    def test_ways_without_corners_are_sampled(self, tmp_path, end_s, is_refused):
        layout = users_at([(0, 0)] * 2, Places([(0, 0), (9, 0), (50, 50), (0, 301)]))
        fault = RadioMap(file=write(tmp_path, rows())).data_misfit(layout, end_s)
        assert (fault is not None) == is_refused
        if fault is not None:
            assert fault.problem.startswith("user 0 moves to (0, 301) m at")

    def test_places_of_a_trajectory_are_its_corners_within_the_time(self, tmp_path):
        (tmp_path / "w.csv").write_text("user,time_s,x_m,y_m\n1,0,0,0\n1,8,80,0\n1,10,80,20\n")
        layout = users_at([(5, 5), (0, 0)])
        paths = Trajectory(file=tmp_path / "w.csv").open(layout, STREAMS)
        users, times_s, places_m = paths.waypoints(np.arange(2), 9.0)
        found = sorted(zip(users.tolist(), times_s.tolist(), places_m.tolist(), strict=True))
        assert found == [
            (0, 0.0, [5.0, 5.0]),
            (0, 9.0, [5.0, 5.0]),
            (1, 0.0, [0.0, 0.0]),
            (1, 8.0, [80.0, 0.0]),
            (1, 9.0, [80.0, 10.0]),
        ]


class TestNoCoverage:
    """Points without coverage, and points that are no grid."""

    @pytest.mark.parametrize("hole", ["", "-inf", "nan", "255"])
    @pytest.mark.parametrize(
        ("column", "level", "expected"), [("gain_db", -100, -300.0), ("rsrp_dbm", -82, -318.0), ("rate_bps", 1e5, None)]
    )
    def test_a_point_without_a_value_has_none(self, tmp_path, hole, column, level, expected):
        settings = {"reference_power": "18 dBm"} if column == "rsrp_dbm" else {}
        missing = [255] if hole == "255" else []
        text = f"x_m,y_m,{column}\n0,0,{level}\n0,50,{level}\n100,0,{level}\n100,50,{hole}\n"
        (tmp_path / "m.csv").write_text(text)
        model = RadioMap(file=tmp_path / "m.csv", missing=missing, **settings).fitted(20.0, -100.0, 1e6)
        gain = model.open(users_at([(0, 0), (100, 50)]), STREAMS)
        covered, uncovered = gain.gain_db(np.arange(2), 0.0)
        if expected is None:
            expected = -200.0 - 120.0  # the SNR of a rate of 0, for 20 dBm in -100 dBm
        else:
            assert covered == -100.0
        assert uncovered == pytest.approx(expected, abs=0.1)
        assert [*model.doubts()] == []

    def test_typed_holes(self, tmp_path):
        frame = pd.DataFrame({"x_m": [0.0, 0, 9, 9], "y_m": [0.0, 9, 0, 9], "gain_db": [-np.inf, np.nan, -80, -90]})
        frame.to_parquet(tmp_path / "m.parquet")
        model = RadioMap(file=tmp_path / "m.parquet")
        assert model.measured.values.tolist() == [-300, -300, -80, -90]

    def test_points_that_are_no_grid_need_no_grid(self, tmp_path):
        """A diagonal of n points has n² places: 1 MB asked for 3.35 GiB."""
        count = 60_000
        text = "".join(f"{place},{place},-100\n" for place in range(count))
        (tmp_path / "m.csv").write_text("x_m,y_m,gain_db\n" + text)
        tracemalloc.start()
        try:
            (fault,) = RadioMap(file=tmp_path / "m.csv").faults(ScenarioFacts(users=2, rounds=1))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert "m.csv has no line for x_m 0, y_m 1; give each x with each y, 60000 x 60000 points" in str(fault)
        assert "a point without coverage has an empty value" in str(fault)
        assert peak < 100e6

    def test_first_missing_point_is_named(self, tmp_path):
        frame = rows()
        hole = (frame["x_m"] == 0.0) & (frame["y_m"] == 20.0)
        (fault,) = RadioMap(file=write(tmp_path, frame[~hole])).faults(ScenarioFacts(users=2, rounds=1))
        assert "has no line for x_m 0, y_m 20" in str(fault)
