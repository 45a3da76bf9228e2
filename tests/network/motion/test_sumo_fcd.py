"""Floating car data of SUMO: positions, ids and times, and files that are refused."""

from pathlib import Path

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.motion.sumo_fcd import SumoFcd
from netfl.network.placement.sumo_fcd import SumoFcd as SumoPlaces
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(5)
FILE = Path(__file__).parents[1] / "data" / "drive.fcd.xml"


def opened(users, **settings):
    """Return the paths of users that are placed by the same file."""
    layout = Star(placement={"kind": "sumo_fcd", "file": str(FILE)} | settings).open(users, STREAMS)
    return SumoFcd(file=FILE, **settings).open(layout, STREAMS)


def test_users_are_the_vehicles_in_the_order_in_which_they_enter():
    paths = opened(6)
    users = np.arange(6)
    assert paths.xy_m(users, 0.0).tolist() == [[20, 30], [30, 20], [40, 10], [50, 0], [60, -10], [80, -20]]
    # halfway between two steps; car.1 has arrived at 4 s, and car.5 enters at 2 s
    assert paths.xy_m(users, 5.0)[[0, 1, 5]].tolist() == [[45, 30], [50, 20], [95, -20]]
    assert paths.xy_m(users, 99.0)[0].tolist() == [50, 30]


def test_ids_begin_and_offset():
    paths = opened(2, ids=("car.4", "car.0"), begin="2 s", offset=("1 km", 0.0))
    assert paths.xy_m(np.array([0, 1]), 0.0).tolist() == [[1070, -10], [1030, 30]]
    assert paths.xy_m(np.array([0, 1]), 1.0).tolist() == [[1075, -10], [1035, 30]]


def test_persons():
    assert opened(1, elements="person").xy_m(np.array([0]), 1.5).tolist() == [[2.5, 2.0]]


def test_speeds_are_those_of_the_file():
    low_m_s, high_m_s = opened(6).speeds_m_s(np.arange(6))
    assert low_m_s == pytest.approx(5.0)
    assert high_m_s == pytest.approx(5.0)


def test_other_placement_is_refused():
    layout = Star(distance=100).open(6, STREAMS)
    with pytest.raises(ScenarioError, match=r"user 0 is at \(20, 30\) m at time 0.*placement: {kind: sumo_fcd}"):
        SumoFcd(file=FILE).open(layout, STREAMS)


@pytest.mark.parametrize(("begin_s", "expected"), [(0, True), (6, True), (7, False)])
def test_times_within_a_run(begin_s, expected):
    assert SumoFcd(file=FILE, begin=begin_s).has_times_within(10.0) == expected


STEP = '<timestep time="0"><vehicle id="a" x="1" y="2"/></timestep>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<fcd-export></fcd-export>", "f.xml has no element vehicle in a time step"),
        (f"<fcd-export>{STEP}", "f.xml cannot be read: no element found"),
        ('<?xml version="1.0" encoding="foo"?><a/>', "f.xml cannot be read: unknown encoding: foo"),
        ('<?xml version="1.0" encoding="rot13"?><a/>', "f.xml cannot be read: 'rot13' is not a text encoding"),
        (f'<fcd-export>{STEP}\n<vehicle id="b" x="1" y="2"/></fcd-export>',
         "f.xml:2: column time: an empty cell instead of a number"),
        ("time,x\n", "f.xml cannot be read: syntax error"),
        (f"<!DOCTYPE a><fcd-export>{STEP}</fcd-export>", "it defines a document type or entity"),
        (f'<!-- <fcd-output.geo value="true"/> --><fcd-export>{STEP}</fcd-export>', "its coordinates are degrees"),
        (f"<fcd-export>\n{STEP}\n{STEP.replace('1', '1 m')}</fcd-export>", "f.xml:3: column x: not a number"),
        ('<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="1"/></timestep></fcd-export>',
         "f.xml:3: column y: an empty cell instead of a number"),
        (f"<fcd-export>{STEP.replace('0', '00:00:01')}</fcd-export>", "f.xml:1: column time: not a number"),
        (f"<fcd-export>{STEP.replace('0', '3')}\n{STEP}</fcd-export>",
         "f.xml:2: column time: a time before that of the last step"),
        (f"<fcd-export>{STEP}\n{STEP}</fcd-export>", "f.xml:2: occurs twice at one time ('a')"),
        (f"<fcd-export>{STEP}</fcd-export>", "1 vehicles for 2 users; set users: 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", [SumoFcd, SumoPlaces])
def test_files_are_refused(tmp_path, text, problem, model):
    (tmp_path / "f.xml").write_text(text)
    (fault,) = model(file=tmp_path / "f.xml").faults(ScenarioFacts(users=2, rounds=1))
    assert fault.key == "file"
    assert problem in str(fault)


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (("car.0", "car1"), "drive.fcd.xml has no vehicle of that id ('car1'); did you mean 'car.1'?"),
        (("car.0", "car.0"), "an id that occurs twice ('car.0')"),
        (("car.0",), "1 vehicles for 2 users"),
    ],
)
def test_ids_are_refused(ids, problem):
    (fault,) = SumoFcd(file=FILE, ids=ids).faults(ScenarioFacts(users=2, rounds=1))
    assert fault.key == "ids"
    assert problem in str(fault)
