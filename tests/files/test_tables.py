"""Tables of users: what is read, and what is refused with its place, in CSV and in Parquet."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.error_messages import assert_messages

from netfl.errors import ScenarioError
from netfl.files import unreadable_file
from netfl.files.cells import TimeScale, parse_identifiers
from netfl.files.json_documents import parse_json
from netfl.files.schema import NAME, NUMBER, PATH_GAIN, TIME, USER, FileColumn
from netfl.files.tables import _plain_column, read_csv, read_table
from netfl.network.outage.calendar import Calendar

ORIGIN = datetime(2024, 3, 30)
NUMBERS = {name: FileColumn(name, NUMBER) for name in ("a", "b", "k", "round", "start", "x")}


@pytest.fixture
def table(tmp_path):
    """Return a function that writes text, or columns as Parquet, and reads the table."""

    def read(content, **options):
        if isinstance(content, str | bytes):
            path = tmp_path / "t.csv"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        else:
            path = tmp_path / "t.parquet"
            pq.write_table(pa.table(content), path)
        return read_table(path, **options)

    return read


def faults(table):
    return [str(fault) for fault in table.faults]


def refused(read, *args):
    with pytest.raises(ScenarioError) as error:
        read(*args)
    return [str(fault) for fault in error.value.faults]


class TestHeading:
    @pytest.mark.parametrize(
        ("content", "pattern"),
        [
            ("a,b,a\n1,2,3\n", "t.csv: column a occurs 2 times"),
            ("a,,b\n1,2,3\n", "t.csv: column 2 has no heading"),
            (",a\n0,1\n", "t.csv: column 1 has no heading"),
            ("a;b\n1,5;2\n", "t.csv: cells are separated by semicolons … commas"),
            ("a\tb\n1\t2\n", "t.csv: cells are separated by tabs"),
            ("a|b\n1|2\n", "t.csv: cells are separated by vertical bars … commas"),
            ("# a,b\n1,2\n", "t.csv: the first line is a comment, # a … numpy.savetxt"),
            ("sep=,\na,b\n1,2\n", "t.csv: the first line states a separator … remove it"),
            (b"\xff\xfea,b\n", "t.csv cannot be read: 'utf-8' codec"),
            ('a,b\n"1,2\n', "t.csv cannot be read: unexpected end of data"),
        ],
    )
    def test_wrong_headings_are_refused(self, table, content, pattern):
        assert_messages(refused(table, content), [pattern])

    def test_repeated_column_of_parquet_is_refused(self, tmp_path):
        names = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
        pq.write_table(names, tmp_path / "t.parquet")
        assert_messages(refused(read_table, tmp_path / "t.parquet"), ["t.parquet: column x occurs 2 times"])

    def test_few_of_many_columns_are_listed(self, table):
        content = ",".join(f"c{number}" for number in range(200)) + "\n"
        with pytest.raises(ScenarioError) as error:
            table(content).require("x")
        assert error.value.faults[0].remedy.endswith("c18, c19, and 180 more; needed: x")

    def test_missing_column_is_named_with_the_columns(self, table):
        assert_messages(
            refused(table("user,x\n0,1\n").require, "user", "x_m"), ["t.csv has no column x_m … its columns: user, x"]
        )

    def test_columns_can_have_other_names(self, table):
        read = table("device,start,from\n1,2,3\n", names={"user": "device", "start": "from"})
        assert (read.users(FileColumn("user", USER)).tolist(), read.numbers(NUMBERS["start"]).tolist()) == ([1], [3.0])
        assert_messages(
            refused(lambda: table("a\n1\n", names={"user": "device"})), ["t.csv: no column device for user"]
        )

    def test_blank_lines_count_as_lines(self, table):
        read = table("a\n\n1\n , \nx\n".replace(" , ", "  "))
        read.numbers(NUMBERS["a"])
        assert_messages(faults(read), ["t.csv:5: column a: not a number"])

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_line_ends_and_byte_order_mark(self, table, end):
        read = table("\ufeffa, b" + end + '"1", 2' + end)
        assert (read.numbers(NUMBERS["a"]).tolist(), read.numbers(NUMBERS["b"]).tolist(), read.lines.tolist()) == (
            [1.0],
            [2.0],
            [2],
        )


@pytest.mark.parametrize(
    ("row", "count"), [("1,2,3", 3), ("1", 1), ("1,2,", 3), ("100,5,0,0", 4), ('"1,2"', 1), ("1;2", 1)]
)
def test_row_of_another_length_is_refused(table, row, count):
    read = table(f"a,b\n1,2\n{row}\n3,4\n")
    read.numbers(NUMBERS["a"])
    assert_messages(faults(read), [f"t.csv:3: number of cells: {count} instead of 2"])
    with pytest.raises(ScenarioError):
        read.check()


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "number"),
        [("12", 12), (" -1.5e3 ", -1500), ("+5", 5), (".5", 0.5), ("5.", 5), ("007", 7), ("1E-3", 1e-3)],
    )
    def test_text(self, table, text, number):
        assert table(f'a\n"{text}"\n').numbers(NUMBERS["a"]).tolist() == [number]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("one", "not a number"),
            ("", "an empty cell"),
            ("NA", "not a number"),
            ("nan", "not a number: it stands for no value … remove its row"),
            ("NULL", "not a number: it stands for no value … remove its row"),
            ("#N/A", "not a number: it stands for no value … remove its row"),
            ("\u221280", "not a number: its minus is the character U+2212"),
            ("-Infinity", "not a finite number"),
            ("1e400", "not a number"),
            ("true", "a boolean instead"),
            ("1,5", "not a number: it has a decimal comma"),
            ("1.000,5", "separator of thousands or a decimal comma"),
            ("1 000", "separator of thousands"),
            ("1,234,567", "separator of thousands"),
            ("1_000", "not a number"),
            ("0x10", "not a number"),
            ("1e", "not a number"),
            ("--5", "not a number"),
            ("10 ms", "not a number … without a unit"),
            ("٣", "not a number"),
            ("1.2.3", "not a number"),
        ],
    )
    def test_other_text_is_refused(self, table, text, problem):
        read = table(f'a,b\n"{text}",1\n2,2\n')
        read.numbers(NUMBERS["a"])
        assert_messages(faults(read), [f"t.csv:2: column a: … {problem}"])

    @pytest.mark.parametrize(
        ("cells", "numbers"),
        [
            (pa.array([1, 2], pa.int8()), [1, 2]),
            (pa.array([1.5, 2], pa.float32()), [1.5, 2]),
            (pa.array(["1", "2"]).dictionary_encode(), [1, 2]),
            (pa.array([3000, 1], pa.duration("ms")), [3.0, 0.001]),
            (pa.array([3, 1], pa.duration("s")), [3.0, 1.0]),
            (pa.array([3_000_000_000, 1], pa.duration("ns")), [3.0, 1e-9]),
            (pa.array([1, 2], pa.decimal128(5, 2)), [1, 2]),
        ],
    )
    def test_typed(self, table, cells, numbers):
        assert table({"a": cells}).numbers(NUMBERS["a"]).tolist() == numbers

    @pytest.mark.parametrize(
        "cells",
        [
            pa.array([True, False]),
            pa.array([0, 1], pa.timestamp("ms")),
            pa.array([0, 1], pa.date32()),
            pa.array([0, 1], pa.time64("us")),
            pa.array([1.0, None]),
            pa.array([1.0, float("nan")]),
            pa.array([[1.0], [2.0]]),
            pa.array([None, None], pa.duration("ms")),
            pa.array([b"1", b"2"]),
            pa.nulls(2),
        ],
    )
    def test_other_types_are_refused(self, table, cells):
        read = table({"a": cells})
        read.numbers(NUMBERS["a"])
        assert all(message.startswith("t.parquet:") and ": column a: " in message for message in faults(read))
        assert faults(read)


class TestMissing:
    """Numbers that stand for no measurement."""

    @pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
    def test_numbers_are_those_of_the_precision_of_the_file(self, table, kind):
        cells = pa.array(np.array([-80.5, -99.9, -99.9], kind.to_pandas_dtype()))
        assert table({"x": cells}).is_missing(NUMBERS["x"], [-99.9]).tolist() == [False, True, True]

    @pytest.mark.parametrize(
        "text", ["-3.4028234663852886e+38", "1e20", "-1e16", "2147483647", "-99.90000152587890625"]
    )
    def test_proposed_number_is_that_of_the_file(self, text):
        """A remedy with 12 digits would not match the number of the file when it is followed."""
        column = FileColumn("x", PATH_GAIN, missing_key="missing")
        remedy = column.outside_fault(float(text), text).remedy
        assert float(remedy.rpartition("[")[2].rstrip("]")) == float(text)

    def test_words_for_an_empty_cell_become_one_where_it_has_a_meaning(self, table):
        column = FileColumn("x", TIME, empty="it never ends")
        written = table("x\n5\nNaT\ninf\n")
        written.times(column, TimeScale(), empty=np.inf)
        pattern = "not a time … leave the cell empty (it never ends)"
        assert_messages(faults(written), [f"t.csv:{line}: column x: {pattern}" for line in (3, 4)])

    def test_dates_where_seconds_are_read(self, table):
        written = table("x\n2024-03-01 00:00:00\n")
        written.numbers(FileColumn("x", TIME))
        assert_messages(
            faults(written), ["t.csv:2: column x: a date instead of a number of seconds … since the time 0"]
        )


class TestUsers:
    def test_numbers_with_a_decimal_point_and_empty_cells_have_remedies(self, table):
        written = table("user\n0.0\nnan\n")
        written.users(FileColumn("user", USER))
        pattern = "column user: not the number of a user"
        expected = [f"t.csv:2: {pattern} … 0, not 0.0", f"t.csv:3: {pattern} … remove its row"]
        assert_messages(faults(written), expected)

    @pytest.mark.parametrize("text", ["007", "1.0", "-1", "1e0", "true", "NA", "", "12345678901234567890", "٣"])
    def test_only_canonical_integers_are_numbers_of_users(self, table, text):
        read = table(f'user,a\n"{text}",1\n')
        read.users(FileColumn("user", USER))
        assert_messages(faults(read), ["t.csv:2: column user: not the number of a user"])

    @pytest.mark.parametrize("cells", [pa.array([1.0]), pa.array([True]), pa.array([-1]), pa.array([None], pa.int64())])
    def test_other_types_are_refused(self, table, cells):
        read = table({"user": cells})
        read.users(FileColumn("user", USER))
        assert_messages(faults(read), ["t.parquet:1: column user: not the number of a user"])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["007", "7"], ["007", "7"]),
        (["12e4", "120000"], ["12e4", "120000"]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["NA", "nan"], ["NA", "nan"]),
        (["true", "True"], ["true", "True"]),
        (["0x1F", "31"], ["0x1F", "31"]),
        (["+5", "5"], ["+5", "5"]),
        (["1_0", "10"], ["1_0", "10"]),
        (["-0", "0"], ["-0", "0"]),
        (["10", "9"], [10, 9]),
        (["-3", "0"], [-3, 0]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        ([" ada", "mia "], ["ada", "mia"]),
    ],
)
def test_names_are_numbers_only_if_all_are_canonical_integers(table, names, expected):
    """In CSV as in Parquet."""
    text = "u,a\n" + "".join(f'"{name}",1\n' for name in names)
    for read in (table(text), table({"u": names}), table({"u": pa.array(names).dictionary_encode()})):
        assert parse_identifiers(read.names(FileColumn("u", NAME))).tolist() == expected
        assert not faults(read)


@pytest.mark.parametrize(
    "values",
    [
        np.array([np.nan, 1.0]),
        np.array([1.0, 2.0]),
        np.array([True, False]),
        np.array([1 + 1j]),
        np.array(["2024-01-01", "NaT"], "datetime64[D]"),
        np.array([1, 2], "timedelta64[s]"),
        np.array([[1], [2]]),
        np.array(["ada", ""]),
        np.array(["ada", None], object),
        np.array([b"ada"]),
    ],
)
def test_other_identifiers_are_refused(values):
    with pytest.raises(ValueError, match="user"):
        parse_identifiers(values)


class TestTimes:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90", 90.0),
            ("1.5 h", 5400.0),
            ("2024-03-31", 86400.0),
            ("20240331", 86400.0),
            ("2024-03-30T01:00", 3600.0),
            ("20240330T0100", 3600.0),
            ("2024-03-29 23:00", -3600.0),
            ("20240331.0", 20240331.0),
            ("20240331 s", 20240331.0),
            ("99999999", 99999999.0),
        ],
    )
    def test_text(self, table, text, seconds):
        assert table(f"t\n{text}\n").times(FileColumn("t", TIME), TimeScale(ORIGIN)).tolist() == [seconds]

    def test_dates_of_parquet(self, table):
        day = ORIGIN + timedelta(days=1, milliseconds=5)
        for unit in ("ms", "us", "ns"):
            assert table({"t": pa.array([day], pa.timestamp(unit))}).times(
                FileColumn("t", TIME), TimeScale(ORIGIN)
            ).tolist() == [86400.005]
        assert table({"t": pa.array([day.date()])}).times(FileColumn("t", TIME), TimeScale(ORIGIN)).tolist() == [
            86400.0
        ]
        zoned = pa.array([day.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"))
        assert table({"t": zoned}).times(FileColumn("t", TIME), TimeScale(ORIGIN.replace(tzinfo=UTC))).tolist() == [
            86400.005
        ]
        assert table({"t": [20240331]}).times(FileColumn("t", TIME), TimeScale(ORIGIN)).tolist() == [86400.0]

    @pytest.mark.parametrize(
        ("cell", "scale", "problem"),
        [
            ("noon", TimeScale(ORIGIN), "not a time"),
            ("2 m", TimeScale(), "a value in m"),
            ("1,5", TimeScale(), "a decimal comma"),
            ("inf", TimeScale(), "not a time"),
            ("true", TimeScale(), "not a time"),
            ("2024-03-31", TimeScale(), "no origin"),
            ("2024-03-31T00:00Z", TimeScale(ORIGIN), "only one … time zone"),
            ("2 h", TimeScale(unit="rounds"), "not a number"),
            (datetime(2024, 3, 31), TimeScale(), "no origin"),
            (datetime(2024, 3, 31, tzinfo=UTC), TimeScale(ORIGIN), "only one … time zone"),
            (timedelta(seconds=3), TimeScale(unit="rounds"), "a value of type timedelta"),
            (True, TimeScale(), "a boolean"),
        ],
    )
    def test_other_cells_are_refused(self, table, cell, scale, problem):
        read = table(f't\n"{cell}"\n' if isinstance(cell, str) else {"t": [cell]})
        read.times(FileColumn("t", TIME), scale)
        assert_messages(faults(read), [f"t.{read.path.suffix[1:]}:{read.lines[0]}: column t: … {problem}"])


def test_errors_are_sorted_by_row_one_for_each_and_limited(table):
    read = table("a,b\n" + "x,y\n" * 30 + "1,y\n")
    read.numbers(NUMBERS["b"])
    read.numbers(NUMBERS["a"])
    messages = faults(read)
    assert len(messages) == 11
    assert_messages(messages[::10], ["t.csv:2: column b", "and 21 more errors"])


def test_separator_of_a_delivery_log_can_be_chosen(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("round;user\n1;0\n")
    assert read_csv(path, separators=",;").numbers(NUMBERS["round"]).tolist() == [1.0]


def test_csv_equals_parquet_of_the_same_table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=50), "k": rng.integers(-9, 9, 50), "u": rng.choice(["007", "7", "NA"], 50)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    csv, parquet = read_table(tmp_path / "t.csv"), read_table(tmp_path / "t.parquet")
    for name in ("x", "k"):
        assert (csv.numbers(NUMBERS[name]) == parquet.numbers(NUMBERS[name])).all()
    assert (csv.names(FileColumn("u", NAME)) == parquet.names(FileColumn("u", NAME))).all()


class TestTypesOfParquet:
    """Types of Parquet that hold what other types hold, and values that Python or 64 bits do not hold."""

    @pytest.mark.parametrize(
        "cells",
        [
            pa.array(["-100", "-90"], pa.string_view()),
            pa.array(["-100", "-90"], pa.large_string()),
            pa.array(["-100", "-90"]).dictionary_encode(),
            pa.array([-100, -90], pa.float16()),
            pa.array([Decimal("-100.0"), Decimal("-90.0")]),
        ],
    )
    def test_same_numbers(self, table, cells):
        assert table({"a": cells}).numbers(NUMBERS["a"]).tolist() == [-100, -90]

    def test_run_ends(self):
        """No Parquet file has them, but tables in memory do."""
        cells = pc.run_end_encode(pa.array([1.0, 1.0, 2.0]))
        assert _plain_column(cells).to_pylist() == [1, 1, 2]

    def test_users_of_64_bits_without_a_sign(self, table):
        read = table({"user": pa.array([3, 2**64 - 1, None], pa.uint64())})
        assert read.users(FileColumn("user", USER)).tolist() == [3, -1, -1]
        assert_messages(faults(read)[:1], ["t.parquet:2: column user: not the number of a user (18446744073709551615)"])

    def test_decimals_are_rounded_once(self, table):
        rng = random.Random(1)
        exact = [Decimal(rng.randint(-(10**36), 10**36)).scaleb(-20) for _ in range(500)]
        cells = pa.array(exact, pa.decimal128(38, 20))
        assert table({"a": cells}).numbers(NUMBERS["a"]).tolist() == [float(value) for value in exact]

    def test_text_of_any_length_is_rounded_once(self, table):
        texts = ["0.1000000000000000055511151231257827021181583404541015625000001", "9007199254740993.0000000000000001"]
        read = table("a\n" + "\n".join(texts) + "\n")
        assert read.numbers(NUMBERS["a"]).tolist() == [float(text) for text in texts]

    def test_text_that_is_not_utf_8_is_refused(self, tmp_path):
        bad = pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
        )
        pq.write_table(pa.table({"a": bad}), tmp_path / "t.parquet")
        assert_messages(refused(read_table, tmp_path / "t.parquet"), ["t.parquet cannot be read: … UTF8"])


class TestDatesOfAnyYear:
    @pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ms", "us"))])
    @pytest.mark.parametrize("year", [1, 1677, 2263, 2700, 9999])
    def test_parquet_gives_the_times_of_csv(self, table, kind, year):
        day = datetime(year, 12, 31)
        cells = pa.array([day.date() if pa.types.is_date(kind) else day], kind)
        column = FileColumn("t", TIME)
        scale = TimeScale(ORIGIN)
        expected = (day - ORIGIN).total_seconds()
        assert table({"t": cells}).times(column, scale).tolist() == [expected]
        assert table(f"t\n{day.isoformat()}\n").times(column, scale).tolist() == [expected]

    @pytest.mark.parametrize("cells", [pa.array([10**15], pa.timestamp("s")), pa.array([2**62], pa.timestamp("ms"))])
    def test_dates_that_python_lacks_are_refused(self, table, cells):
        read = table({"t": cells})
        read.times(FileColumn("t", TIME), TimeScale(ORIGIN))
        assert_messages(faults(read), ["t.parquet:1: column t: not a time from -1e13 to 1e13 s"])

    def test_nanoseconds_stay(self, table):
        cells = pa.array([1_711_756_800_000_000_007], pa.timestamp("ns"))  # 2024-03-30, and 7 ns
        (time_s,) = table({"t": cells}).times(FileColumn("t", TIME), TimeScale(ORIGIN))
        assert time_s == pytest.approx(7e-9, rel=1e-9)


class TestOrigin:
    @pytest.mark.parametrize("value", [20240330, "20240330", "2024-03-30", datetime(2024, 3, 30), date(2024, 3, 30)])
    def test_eight_digits_are_a_date(self, value):
        assert Calendar(file="x.csv", origin=value).origin == ORIGIN

    def test_seconds_since_1970_are_given_as_a_date(self):
        """1,711,756,800 s are 19,812 days of 86,400 s: 30 March 2024."""
        with pytest.raises(ScenarioError, match=r"write the date 2024-03-30T00:00:00\+00:00, if it counts seconds"):
            Calendar(file="x.csv", origin=1711756800)

    @pytest.mark.parametrize("value", [1711756800.5, "1711756800", 20241330, True, "noon"])
    def test_a_time_since_1970_is_no_origin(self, value):
        with pytest.raises(
            ScenarioError, match=r"origin: not a date in ISO 8601 .*; write a date such as 2024-03-30T00:00"
        ):
            Calendar(file="x.csv", origin=value)


class TestJson:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ('{"a": "\\ud800"}', r"a text has half of a character, \\ud800"),
            ('{"\\udfff": 1}', r"a text has half of a character, \\udfff"),
            ('{"a": ' + "9" * 310 + "}", "the number 99999999999999999999… of 310 digits is too large"),
            ('{"a": ' + "9" * 5000 + "}", "of 5000 digits is too large"),
            ('{"a": 1e400}', "the number 1e400 is too large"),
        ],
    )
    def test_values_that_no_other_file_holds_are_refused(self, text, problem):
        with pytest.raises(ValueError, match=problem):
            parse_json(text)

    def test_two_halves_are_a_character(self):
        assert parse_json('{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}') == {"a": "😀", "b": "\\ud800"}


def test_a_file_that_may_not_be_read_has_a_remedy():
    error = unreadable_file(Path("run/rounds.parquet"), PermissionError(13, "Permission denied"))
    assert str(error) == "run/rounds.parquet cannot be read: Permission denied; check the path and its permissions"
