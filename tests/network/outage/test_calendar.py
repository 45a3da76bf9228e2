"""Calendars of outages: timelines, and errors of files."""

import math

import numpy as np
import pandas as pd
import pytest

from netfl.errors import ScenarioError
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage.calendar import Calendar, schedule_intervals
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(47)
LAYOUT = Star(radius=10).open(4, STREAMS)
TOWER, LINK = LAYOUT.number("tower:0"), LAYOUT.number("server-tower:0")


@pytest.fixture
def write_calendar(tmp_path):
    def write(text, **overrides):
        path = tmp_path / "down.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Calendar(file=path, **overrides)

    return write


def list_problems(model, users=4):
    return [fault.problem for fault in model.faults(ScenarioFacts(users=users, rounds=1))]


def list_changes(model, node, until=1e7):
    times_s, _, up = CombinedOutages([model.open(LAYOUT, STREAMS)]).changes(np.array([node]), -1e7, until)
    return list(zip(times_s.tolist(), up.tolist(), strict=True))


class TestValidFiles:
    def test_units_names_and_open_ends(self, write_calendar):
        model = write_calendar("end,node,why,start\n150,tower:0-server,x,90\n2.5 h,tower:0,y,2 h\n,3,sold,1 day\n")
        assert list_problems(model) == []
        assert list_changes(model, LINK) == [(90.0, False), (150.0, True)]
        assert list_changes(model, TOWER) == [(7200.0, False), (9000.0, True)]
        assert list_changes(model, 3) == [(86400.0, False)]
        assert list_changes(model, 0) == []

    def test_overlapping_intervals_are_merged(self, write_calendar):
        model = write_calendar("node,start_s,end_s\n0,50,60\n0,10,30\n0,20,25\n0,30,40\n0,10,12\n1,12,13\n")
        assert list_changes(model, 0) == [(10.0, False), (40.0, True), (50.0, False), (60.0, True)]
        assert list_changes(model, 1) == [(12.0, False), (13.0, True)]

    def test_dates_are_counted_from_origin(self, write_calendar):
        rows = "node,start,end\n0,2024-02-29T23:30,2024-03-01T01:00\n1,60,2024-03-01\n"
        model = write_calendar(rows, origin="2024-02-29T00:00")
        assert list_changes(model, 0) == [(23.5 * 3600, False), (25 * 3600.0, True)]
        assert list_changes(model, 1) == [(60.0, False), (86400.0, True)]
        zoned = write_calendar(
            "node,start,end\n0,2024-03-01T02:00+02:00,2024-03-01T01:00Z\n", origin="2024-03-01T00:00Z"
        )
        assert list_changes(zoned, 0) == [(0.0, False), (3600.0, True)]

    def test_compact_dates(self, write_calendar):
        """Eight digits are a date if there is an origin, and seconds else."""
        rows = "node,start,end\n0,20240331,20240401\n"
        assert list_changes(write_calendar(rows, origin="2024-03-30"), 0) == [(86400.0, False), (2 * 86400.0, True)]
        assert list_changes(write_calendar(rows), 0, 1e8) == [(20240331.0, False), (20240401.0, True)]

    def test_parquet(self, tmp_path):
        path = tmp_path / "down.parquet"
        pd.DataFrame({"node": ["0", "tower:0"], "start": pd.to_timedelta([1, 2], "h"), "end": [None, None]}).to_parquet(
            path
        )
        assert list_changes(Calendar(file=path), 0) == [(3600.0, False)]
        assert list_changes(Calendar(file=path), TOWER) == [(7200.0, False)]

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ("0,1711843200,1711929600\n", False),
            ("", False),
            ("0,-9,-5\n", False),
            ("0,-9,\n", True),
            ("0,5,\n", True),
            ("0,100,200\n", True),
            ("0,101,200\n", False),
        ],
    )
    def test_times_within_a_run_of_100_s(self, write_calendar, rows, expected):
        assert write_calendar(f"node,start,end\n{rows}").has_times_within(100.0) == expected

    def test_outage_before_time_0_continues(self, write_calendar):
        timeline = write_calendar("node,start_s,end_s\n0,-50,60\n0,-90,-80\n").open(LAYOUT, STREAMS)
        assert not timeline.up(np.array([0]), 0.0)[0]
        assert timeline.next_change(np.array([0]), 0.0) == [60.0]

    def test_empty_calendar(self, write_calendar):
        timeline = write_calendar("node,start_s,end_s\n").open(LAYOUT, STREAMS)
        assert timeline.up(np.arange(LAYOUT.nodes), 5.0).all()
        assert (timeline.next_change(np.arange(LAYOUT.nodes), 5.0) == math.inf).all()


class TestInvalidFiles:
    @pytest.mark.parametrize("name", ["0.0", "00", "\u0660", "user:0"])
    def test_other_forms_of_a_users_number_have_the_remedy(self, write_calendar, name):
        with pytest.raises(ScenarioError, match=r"no such node .*users are numbered 0 to"):
            write_calendar(f"node,start,end\n{name},1,2\n").open(LAYOUT, STREAMS)

    @pytest.mark.parametrize(
        ("text", "expected_problems"),
        [
            (
                "node,start_s,end_s\n0,5,4\n1,5,6\n2,7,7\n",
                ["down.csv:2: it ends before it starts", "down.csv:4: it is empty"],
            ),
            ("node,start,start_s,end\n0,1 h,7200,3 h\n", ["columns start and start_s, which mean the same"]),
            ("node,start,end,end\n0,1,2,3\n", ["down.csv: column end occurs 2 times"]),
            ("node;start;end\n0;1,5;2\n", ["down.csv: cells are separated by semicolons"]),
            ("node,start,end\n0,true,2\n", ["down.csv:2: column start: not a time"]),
            ("node,start,end\n0,1,inf\n", ["down.csv:2: column end: not a time"]),
            ("node,begin,end\n", ["down.csv has no column start"]),
            ("user,start_s,end\n", ["down.csv has no column node"]),
            ("", ["no column node and start and end"]),
            ("node,start,end\n0,noon,9\n", ["down.csv:2: column start: not a time"]),
            ("node,start,end\n0,,9\n", ["down.csv:2: column start: an empty cell"]),
            ("node,start,end\n0,1 m,9\n", ["down.csv:2: column start: not a time: a value in m"]),
            ("node,start,end\n0,2024-03-01,\n", ["down.csv:2: column start: a date, but no origin"]),
            (
                "node,start_s,end_s\n0,5\n0,5,6,7\n",
                ["down.csv:2: number of cells: 2", "down.csv:3: number of cells: 4"],
            ),
            ("node,start_s,end_s\n4,5,6\n", ["down.csv:2: no such user"]),
            (b"node,start_s,end_s\n\xff\xfe,5,6\n", ["cannot be read"]),
            ('node,start_s,end_s\n"0,5,6\n', ["cannot be read"]),
        ],
    )
    def test_errors_name_line(self, write_calendar, text, expected_problems):
        problems = list_problems(write_calendar(text))
        assert len(problems) == len(expected_problems)
        for problem, expected in zip(problems, expected_problems, strict=True):
            assert expected in problem

    def test_missing_file_is_rejected(self, tmp_path):
        (fault,) = Calendar(file=tmp_path / "none.csv").faults(ScenarioFacts(users=1, rounds=1))
        assert (fault.key, fault.problem) == ("file", "none.csv cannot be read: No such file or directory")

    def test_unknown_nodes_are_rejected(self, write_calendar):
        model = write_calendar("node,start_s,end_s\ntower:00,5,6\n0,5,6\ntower:0-srver,5,6\nserver,1,2\n-1,5,6\n")
        with pytest.raises(ScenarioError) as error:
            model.open(LAYOUT, STREAMS)
        assert [fault.problem[:11] for fault in error.value.faults] == [f"down.csv:{line}:" for line in (2, 4, 5, 6)]
        assert [fault.remedy for fault in error.value.faults[:2]] == [
            "did you mean 'tower:0'?",
            "did you mean 'tower:0-server'?",
        ]

    def test_number_of_errors_is_limited(self, write_calendar):
        problems = list_problems(write_calendar("node,start_s,end_s\n" + "0,5,4\n" * 50))
        assert (len(problems), problems[-1]) == (11, "and 40 more errors of this kind")

    def test_mixed_time_zones_are_rejected(self, write_calendar):
        (problem,) = list_problems(write_calendar("node,start,end\n0,2024-03-01T00:00Z,\n", origin="2024-03-01"))
        assert "only one of date and origin has a time zone" in problem


@pytest.mark.slow
def test_random_intervals_match_brute_force():
    rng = np.random.default_rng(1)
    drawn = rng.integers([0, 0, 1], [9, 99, 9], (150, 3)).tolist()
    spans = [(node, float(start), float(start + length)) for node, start, length in drawn]
    timeline = schedule_intervals(spans, 12)
    for node in range(12):
        intervals = [(a, b) for interval_node, a, b in spans if interval_node == node]
        down = lambda t, intervals=intervals: any(a <= t < b for a, b in intervals)  # noqa: E731
        for time_s in np.arange(-1.0, 120.0, 0.5):
            assert timeline.up(np.array([node]), time_s)[0] != down(time_s)
            changes = [t for t in range(-1, 121) if t > time_s and down(t) != down(t - 0.5)]
            assert timeline.next_change(np.array([node]), time_s)[0] == min(changes, default=math.inf)
