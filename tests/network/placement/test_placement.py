"""Positions of users; a generic test checks their distributions."""

from pathlib import Path

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.placement.clusters import Clusters
from netfl.network.placement.disk import Disk
from netfl.network.placement.grid import Grid
from netfl.network.placement.listed import Listed
from netfl.network.placement.rectangle import Rectangle
from netfl.network.placement.rings import Rings
from netfl.network.placement.table import Table
from netfl.network.topology.random_geometric import RandomGeometric
from netfl.network.topology.star import Star
from netfl.network.topology.tree import Tree
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
TOWERS = np.array([[0.0, 0.0], [1000.0, 0.0]])
DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    "model",
    [
        Disk(radius=10),
        Rectangle(width=1, height=2),
        Rings(radii=[1, 2]),
        Clusters(sigma=1),
        Clusters(centers=3, area=9, radius=1),
    ],
)
def test_more_users_do_not_change_others(model):
    few, many = (model.open(users, TOWERS, STREAMS) for users in (10, 100))
    assert (few == many[:10]).all()


def test_every_topology_accepts_placement():
    listed = Listed(positions=[[1, 2], ["1 km", 3]])
    for model in (
        Star(placement=listed),
        Tree(fanout=[2], ring=5, placement=listed),
        RandomGeometric(routers=1, towers=1, side=9, max_distance=1, placement=listed),
    ):
        assert model.open(2, STREAMS).user_xy_m.tolist() == [[1.0, 2.0], [1000.0, 3.0]]


def test_disk_placement_equals_radius_of_star():
    first, second = Star(radius=70), Star(placement={"kind": "disk", "radius": 70})
    assert (first.open(9, STREAMS).user_xy_m == second.open(9, STREAMS).user_xy_m).all()


def test_rectangle_is_around_center():
    positions = Rectangle(width=10, height=2, center=[100, 50]).open(2000, TOWERS, STREAMS)
    assert positions.min(axis=0) == pytest.approx([95, 49], abs=0.05)
    assert positions.max(axis=0) == pytest.approx([105, 51], abs=0.05)


def test_rings_with_counts_and_in_turn():
    counted = Rings(radii=[10, 20], counts=[1, 3], center=[5, 5]).open(4, TOWERS, STREAMS)
    assert np.hypot(*(counted - 5).T) == pytest.approx([10, 20, 20, 20])
    assert np.hypot(*Rings(radii=[10, 20]).open(4, TOWERS, STREAMS).T) == pytest.approx([10, 20, 10, 20])
    faults = Rings(radii=[10, 20], counts=[1, 3]).faults(ScenarioFacts(users=5, rounds=1))
    assert [fault.problem for fault in faults] == ["4 positions for 5 users"]


def test_clusters_share_users_equally():
    positions = Clusters(radius=10).open(4000, TOWERS, STREAMS)
    distances_m = np.hypot(*(positions[:, None] - TOWERS).transpose(2, 0, 1))
    assert (distances_m.min(axis=1) <= 10).all()
    assert (distances_m.argmin(axis=1) == 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / 4000**0.5)


@pytest.mark.parametrize(
    "settings", [{}, {"sigma": 1, "radius": 1}, {"sigma": 1, "area": 5}, {"centers": 2, "sigma": 1}]
)
def test_invalid_clusters_are_rejected(settings):
    with pytest.raises(ScenarioError, match=r"give|no effect"):
        Clusters(**settings)


def test_grid_is_around_center():
    assert Grid(spacing=10).open(4, TOWERS, STREAMS).tolist() == [[-5, -5], [5, -5], [-5, 5], [5, 5]]
    assert Grid(spacing=1, columns=3, center=[7, 0]).open(3, TOWERS, STREAMS).tolist() == [[6, 0], [7, 0], [8, 0]]


class TestTable:
    def test_rows_can_have_any_order(self):
        positions = Table(file=DATA / "places.csv").open(6, TOWERS, STREAMS)
        assert positions.tolist() == [[30, 40], [0, 50], [-20, 5], [0, -60], [100, -100], [10, 10]]

    def test_earliest_row_of_trajectory_is_used(self, tmp_path):
        (tmp_path / "x.csv").write_text("time_s,user,x_m,y_m\n5,0,1,1\n2,0,3,4\n9,0,2,2\n")
        assert Table(file=tmp_path / "x.csv").open(1, TOWERS, STREAMS).tolist() == [[3, 4]]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("user,x_m,y_m\n0,1,1\n1,one,1\n", "x.csv:3: column x_m: not a number ('one')"),
            ("user,x_m,y_m\n0,1,1\n1,nan,1\n", "x.csv:3: column x_m: not a number: it stands for no value"),
            ("user,x_m,y_m\n0,1,1\n\n1,1\n", "x.csv:4: number of cells: 2 instead of 3"),
            ("user,x,y_m\n0,1,1\n", "x.csv has no column x_m"),
            ("user,x_m,y_m\n0,1,1\n0,2,2\n1,2,2\n", "x.csv:3: user 0 occurs twice, first in x.csv:2"),
            ("user,x_m,y_m\n0,1,1\n1,2,2\n2,2,2\n", "x.csv:4: no such user (2)"),
            ("user,x_m,y_m\n0.5,1,1\n1,2,2\n0,0,0\n", "x.csv:2: column user: not the number of a user ('0.5')"),
            ("user,x_m,y_m\n1,2,2\n", "no line for user 0"),
            ("", "x.csv has no column user and x_m and y_m"),
        ],
    )
    def test_errors_name_line(self, tmp_path, text, problem):
        (tmp_path / "x.csv").write_text(text)
        model = Table(file=tmp_path / "x.csv")
        assert problem in str(next(model.faults(ScenarioFacts(users=2, rounds=1))))

    def test_missing_file_is_rejected(self):
        (fault,) = Table(file="nowhere.csv").faults(ScenarioFacts(users=2, rounds=1))
        assert "No such file" in fault.problem
