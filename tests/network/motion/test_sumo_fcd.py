"""Floating car data of SUMO: positions, ids and times, and files that are refused."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
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
        ('<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="1" y="1"/>\n<vehicle id="b" x="1"/></timestep>'
         "</fcd-export>", "f.xml:4: column y: an empty cell instead of a number"),
        ('<fcd-export>\n<timestep time="0">\n<vehicle id="a" x="1"/></timestep></fcd-export>',
         "f.xml: no element vehicle has the attribute y; let SUMO write it with --fcd-output.attributes x,y,speed"),
        (f"<fcd-export>{STEP.replace('0', '00:00:01')}</fcd-export>",
         "f.xml:1: column time: a time of day instead of seconds ('00:00:01'); let SUMO write it without "
         "--human-readable-time"),
        (f"<fcd-export>\n{STEP.replace('1', '-1073741824.00')}</fcd-export>",
         "('-1073741824.00'); check its unit; -1073741824 is what SUMO writes where there is no position: leave such "
         "elements out, so that their vehicle is absent there"),
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


def write_steps(path, steps, time_step_s=1.0):
    """Write an XML file of time steps; each is a mapping of ids to x, y and speed, or to x and y."""
    lines = ["<fcd-export>"]
    for number, vehicles in enumerate(steps):
        lines.append(f'<timestep time="{number * time_step_s:.2f}">')
        for name, (x, y, *speed) in vehicles.items():
            stated = "".join(f' speed="{value:.2f}"' for value in speed)
            lines.append(f'<vehicle id="{name}" x="{x:.6f}" y="{y:.6f}"{stated}/>')
        lines.append("</timestep>")
    path.write_text("\n".join([*lines, "</fcd-export>"]))
    return path


def open_motion(file, users, **settings):
    """Return the motion of *users* in a file, and its trajectories."""
    model = SumoFcd(file=file, **settings)
    layout = Star(placement={"kind": "sumo_fcd", "file": str(file)}).open(users, STREAMS)
    return model, model.open(layout, STREAMS)


def gap_steps(last=21):
    """Return time steps of 1 s in which a is missing from 5 s to 14 s, and is then 8.11 km away; b drives through."""
    steps = []
    for number in range(last):
        vehicles = {"b": (10.0 * number, 50.0, 10.0)}
        if not 5 <= number <= 14:
            vehicles["a"] = (10.0 * number + (8000.0 if number > 14 else 0.0), 0.0, 10.0)
        steps.append(vehicles)
    return steps


class TestAbsence:
    def test_vehicle_is_not_driven_across_a_gap(self, tmp_path):
        """By hand: it rests at 40 m until it appears at 8150 m, and is away from 5 s, the first step without it."""
        model, paths = open_motion(write_steps(tmp_path / "f.xml", gap_steps()), 2, ids=("b", "a"))
        x_m = [float(paths.xy_m(np.array([1]), time_s)[0, 0]) for time_s in (3.5, 4.0, 9.5, 14.999, 15.0, 15.5)]
        assert x_m == [35.0, 40.0, 40.0, 40.0, 8150.0, 8155.0]
        many = paths.xy_m(np.ones(3, np.int64), [3.5, 9.5, 15.5])
        assert many[:, 0].tolist() == [35.0, 40.0, 8155.0]
        stays = paths.stays
        rows = sorted(zip(stays.users.tolist(), stays.starts_s.tolist(), stays.ends_s.tolist(), strict=True))
        assert rows == [(0, 0.0, 21.0), (1, 0.0, 5.0), (1, 15.0, 21.0)]
        assert paths.speeds_m_s(np.array([0, 1]))[1] == pytest.approx([10.0, 10.0])
        (gap, end) = model.warnings(2, 60.0)
        assert gap.startswith(
            "1 of 2 users lack time steps between others, in which they are away as in an outage, and then begin "
            "another trip: user 1 ('a') has no point between 4 s and 15 s, and is then 8110 m away; set absent: rest"
        )
        assert end.startswith("all users are away from 21 s on, where its file ends")
        assert [*model.warnings(2, 21.0)] == [gap]

    def test_users_that_rest_are_never_away(self, tmp_path):
        model, paths = open_motion(write_steps(tmp_path / "f.xml", gap_steps()), 2, absent="rest")
        assert paths.xy_m(np.array([1]), 9.5).tolist() == [[40.0, 0.0]]
        assert paths.stays is None
        assert not model.has_absences
        assert [*model.warnings(2, 99.0)] == []

    def test_longer_time_step_is_no_absence(self, tmp_path):
        """No step of the file lies in the 7 s from 3 s to 10 s, so the vehicle drives there."""
        steps = [f'<timestep time="{time_s}"><vehicle id="a" x="{2 * time_s}" y="0"/></timestep>'
                 for time_s in (0, 1, 2, 3, 10, 11)]  # fmt: skip
        (tmp_path / "f.xml").write_text(f"<fcd-export>{''.join(steps)}</fcd-export>")
        model, paths = open_motion(tmp_path / "f.xml", 1)
        assert paths.xy_m(np.array([0]), 6.5).tolist() == [[13.0, 0.0]]
        assert paths.stays.ends_s.tolist() == [12.0]
        assert [*model.warnings(1, 12.0)] == []

    def test_time_step_without_vehicles_is_an_absence(self, tmp_path):
        """SUMO writes each of its time steps; a lone vehicle is away in those that are empty."""
        steps = [{"a": (float(number), 0.0)} if number != 2 else {} for number in range(5)]
        _, paths = open_motion(write_steps(tmp_path / "f.xml", steps), 1)
        assert paths.stays.starts_s.tolist() == [0.0, 3.0]
        assert paths.stays.ends_s.tolist() == [2.0, 5.0]
        assert paths.xy_m(np.array([0]), 2.5).tolist() == [[1.0, 0.0]]

    def test_gap_of_all_vehicles_in_a_table_is_an_absence(self, tmp_path):
        """SUMO's CSV has no row for an empty time step: a lone vehicle is away from 4 s, and does not drive 8 km."""
        x_m = {0: 0.0, 1: 10.0, 2: 20.0, 3: 30.0, 9: 8090.0, 10: 8100.0}
        rows = [f"{time_s}.00;a;{x};0.0;10.00" for time_s, x in x_m.items()]
        heading = "timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_speed"
        (tmp_path / "f.csv").write_text("\n".join([heading, *rows]))
        model, paths = open_motion(tmp_path / "f.csv", 1)
        assert [float(paths.xy_m(np.array([0]), time_s)[0, 0]) for time_s in (2.5, 6.0, 9.5)] == [25.0, 30.0, 8095.0]
        assert paths.stays.starts_s.tolist() == [0.0, 9.0]
        assert paths.stays.ends_s.tolist() == [4.0, 11.0]
        (gap,) = model.warnings(1, 11.0)
        assert "no point between 3 s and 9 s" in gap

    def test_users_that_never_come_are_named(self, tmp_path):
        file = write_steps(tmp_path / "f.xml", [{"a": (0.0, 0.0)}, {"a": (1.0, 0.0), "b": (0.0, 5.0)}, {"b": (1, 5.0)}])
        (never,) = SumoFcd(file=file, begin=2).warnings(2, 1.0)
        assert never.startswith(
            "1 of 2 users are away for the whole run, as no time step of it has them: user 0 ('a'); choose others"
        )

    def test_file_of_one_time_step_places_users_for_ever(self, tmp_path):
        _, paths = open_motion(write_steps(tmp_path / "f.xml", [{"a": (3.0, 4.0)}]), 1)
        assert paths.stays.ends_s.tolist() == [np.inf]


class TestStatedSpeeds:
    def test_teleport_is_a_jump(self, tmp_path):
        """300 m in 1 s at stated 10 m/s: more than 2 x 10 m."""
        steps = [{"a": (10.0 * number + (300.0 if number > 3 else 0.0), 0.0, 10.0)} for number in range(8)]
        model, paths = open_motion(write_steps(tmp_path / "f.xml", steps), 1)
        x_m = [float(paths.xy_m(np.array([0]), time_s)[0, 0]) for time_s in (2.5, 3.5, 4.0, 4.5)]
        assert x_m == [25.0, 30.0, 340.0, 345.0]
        assert paths.stays.starts_s.tolist() == [0.0]
        assert paths.speeds_m_s(np.array([0]))[1] == pytest.approx([10.0])
        (warning,) = model.warnings(1, 8.0)
        assert warning.startswith("f.xml:15: user 0 ('a') gets 310 m in 1 s, more than twice as far as the fastest")

    def test_faster_than_a_vehicle(self, tmp_path):
        """Without a stated speed nothing says whether it is a teleport, another unit, or an aircraft."""
        steps = [{"a": (10.0 * number + (300.0 if number > 3 else 0.0), 0.0)} for number in range(8)]
        file = write_steps(tmp_path / "f.xml", steps)
        (fault,) = SumoFcd(file=file).faults(ScenarioFacts(users=1, rounds=1))
        assert fault.key == "file"
        assert "f.xml:15: user 0 ('a') moves 310 m in 1 s, at 310 m/s, faster than max_speed, 100 m/s" in str(fault)
        assert "set max_speed: 310 m/s" in fault.remedy
        assert [*SumoFcd(file=file, max_speed="310 m/s").faults(ScenarioFacts(users=1, rounds=1))] == []

    @pytest.mark.parametrize("model", [SumoFcd, SumoPlaces])
    @pytest.mark.parametrize("stated", [[10.0], []])
    def test_degrees_without_a_comment(self, tmp_path, model, stated):
        steps = [{"a": (13.38 + 1e-4 * number, 52.517, *stated)} for number in range(8)]
        (fault,) = model(file=write_steps(tmp_path / "f.xml", steps)).faults(ScenarioFacts(users=1, rounds=1))
        assert fault.key == "file"
        assert "f.xml: its coordinates look like degrees" in str(fault)
        assert fault.remedy == "let SUMO write it without --fcd-output.geo"

    @pytest.mark.parametrize(("factor", "ratio"), [(1e-3, "0.001"), (3.28084, "3.3"), (100.0, "1e+02")])
    def test_positions_in_another_unit(self, tmp_path, factor, ratio):
        """Kilometres, feet and centimetres."""
        steps = [{"a": (10.0 * number * factor, 500.0, 10.0)} for number in range(8)]
        (fault,) = SumoFcd(file=write_steps(tmp_path / "f.xml", steps)).faults(ScenarioFacts(users=1, rounds=1))
        assert f"its positions are not in metres, or its times not in seconds: they change {ratio} times" in str(fault)

    def test_slow_vehicles_are_no_doubt(self, tmp_path):
        """Vehicles that stand, creep and turn round a block within a time step of 30 s."""
        steps = [
            {"a": (60.0, 20.0, 0.0), "b": (0.5 * number, 0.0, 0.5), "c": (100.0 * (number % 2), 30.0, 12.0)}
            for number in range(8)
        ]
        model, _ = open_motion(write_steps(tmp_path / "f.xml", steps, 30.0), 3)
        assert [*model.warnings(3, 9.0)] == []


TABLE = """timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_angle;vehicle_speed;vehicle_lane
0.00;a;5.10;-1.60;90.00;10.00;e_0
0.00;b;0.00;50.00;90.00;10.00;e_0
1.00;a;15.10;-1.60;90.00;10.00;e_0
1.00;b;10.00;50.00;90.00;10.00;e_0
2.00;b;20.00;50.00;90.00;10.00;e_0
3.00;a;35.10;-1.60;90.00;10.00;e_0
3.00;b;30.00;50.00;90.00;10.00;e_0
"""


def as_xml(path):
    """Write TABLE as SUMO's XML."""
    steps = [
        {"a": (5.1, -1.6, 10), "b": (0, 50, 10)},
        {"a": (15.1, -1.6, 10), "b": (10, 50, 10)},
        {"b": (20, 50, 10)},
        {"a": (35.1, -1.6, 10), "b": (30, 50, 10)},
    ]
    return write_steps(path, steps)


class TestTables:
    """Tables of SUMO since version 1.24, https://sumo.dlr.de/docs/TabularOutputs.html."""

    @staticmethod
    def compare(file, tmp_path):
        rows = SumoFcd(file=file).rows
        expected = SumoFcd(file=as_xml(tmp_path / "same.xml")).rows
        assert rows.ids == expected.ids
        for name in ("numbers", "times_s", "xy_m", "steps_s", "begins_trip", "is_jump"):
            assert getattr(rows, name).tolist() == getattr(expected, name).tolist(), name

    @pytest.mark.parametrize(
        "text",
        [
            TABLE,
            TABLE.replace(";", ","),
            TABLE.replace("vehicle_", "").replace("timestep_", ""),  # --output.column-header plain
            # of xml2csv.py, with the persons in columns of their own
            TABLE.replace("lane\n", "lane;person_id;person_x;person_y\n").replace("e_0\n", "e_0;;;\n")
            + "3.00;;;;;;;walker;1.00;2.00\n",
        ],
    )
    def test_csv_is_read_as_xml(self, tmp_path, text):
        (tmp_path / "fcd.csv").write_text(text)
        self.compare(tmp_path / "fcd.csv", tmp_path)

    def test_columns_can_be_left_out(self, tmp_path):
        frame = pd.read_csv(io.StringIO(TABLE), sep=";")[["timestep_time", "vehicle_id", "vehicle_x", "vehicle_y"]]
        frame.to_csv(tmp_path / "fcd.csv", sep=";", index=False)
        self.compare(tmp_path / "fcd.csv", tmp_path)

    def test_parquet_is_read_as_xml(self, tmp_path):
        """Times and positions are doubles, and speeds are floats."""
        frame = pd.read_csv(io.StringIO(TABLE), sep=";").astype({"vehicle_speed": "float32"})
        frame.to_parquet(tmp_path / "fcd.parquet")
        self.compare(tmp_path / "fcd.parquet", tmp_path)

    def test_steps_of_other_elements_count(self, tmp_path):
        """The walker is away at 1 s, a time step that only the rows of vehicles show."""
        rows = ["0;;;;w;1;2", "1;a;5;5;;;", "2;;;;w;3;2"]
        head = "timestep_time;vehicle_id;vehicle_x;vehicle_y;person_id;person_x;person_y"
        (tmp_path / "fcd.csv").write_text("\n".join([head, *rows]))
        rows = SumoFcd(file=tmp_path / "fcd.csv", elements="person").rows
        assert rows.ids == ("w",)
        assert rows.begins_trip.tolist() == [True, True]

    @pytest.mark.parametrize(
        ("text", "elements", "problem"),
        [
            (TABLE, "person", "fcd.csv has no column person_id and person_x and person_y; its columns: timestep_time"),
            (TABLE.replace("vehicle_y", "vehicle_z"), "vehicle", "fcd.csv has no column vehicle_y"),
            (TABLE.split("\n", 1)[1], "vehicle", "fcd.csv has no column timestep_time"),
            (TABLE.replace("15.10", "15,10"), "vehicle", "fcd.csv:4: column vehicle_x: not a number"),
            (TABLE.replace("15.10", "-1073741824.00"), "vehicle", "fcd.csv:4: column vehicle_x: not a coordinate"),
            (TABLE.replace("1.00;a;15.10", "1.00;a;"), "vehicle", "fcd.csv:4: column vehicle_x: an empty cell"),
            (
                TABLE.replace("1.00;a;15.10", "00:00:01;a;15.10"),
                "vehicle",
                "fcd.csv:4: column timestep_time: a time of",
            ),
            (TABLE.split("\n", 1)[0] + "\n0.00;;;;;;\n", "vehicle", "fcd.csv has no vehicle in its rows"),
        ],
    )
    def test_tables_are_refused(self, tmp_path, text, elements, problem):
        (tmp_path / "fcd.csv").write_text(text)
        (fault,) = SumoFcd(file=tmp_path / "fcd.csv", elements=elements).faults(ScenarioFacts(users=2, rounds=1))
        assert fault.key == "file"
        assert problem in str(fault)
