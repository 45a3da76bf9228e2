"""Declared columns of files: ranges, values that stand for no measurement, and the errors that they give."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.error_messages import assert_messages

from netfl.errors import ScenarioError
from netfl.files import schema
from netfl.files.schema import FileColumn, FileSchema, sentinels, value_doubts
from netfl.files.tables import read_table

IMPOSSIBLE = {
    "PATH_GAIN": [0.0, 2147483647, -1073741824, 99, 1e300, -300.5],
    "SNR": [1e9, 2147483647, -1073741824, 150.5, -101],
    "RECEIVED_POWER": [2147483647, -1073741824, 61, 1e300],
    "RATE": [-1, 1e300, 1e14],
    "POSITION": [2147483647, -1073741824, 1e300],
    "SPEED": [-1, 3.1e8, 2147483647],
    "ENERGY": [-1, 1e300],
    "DATA": [-1, 1e300],
    "TIME": [1e300, -1e14],
    "SPAN": [-1, 1e300],
    "COUNT": [-1],
}
POSSIBLE = {
    "PATH_GAIN": [-1e-6, -300],
    "SNR": [-100, 150],
    "RECEIVED_POWER": [-300, 60],
    "RATE": [0, 1e13],
    "POSITION": [-1e9, 1e9],
    "SPEED": [0, 3e8],
    "ENERGY": [0, 1e12],
    "DATA": [0],
    "TIME": [-1e13, 1e13],
    "SPAN": [0],
    "COUNT": [0, 2**52],
}


def read(folder, values, column):
    """Write *values* as Parquet, and return them as numbers with their errors."""
    path = folder / "t.parquet"
    pq.write_table(pa.table({column.name: values}), path)
    table = read_table(path)
    return table.numbers(column), [str(fault) for fault in table.faults]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_values_are_refused_with_their_rows(tmp_path, name):
    quantity = getattr(schema, name)
    values = [*map(float, [*POSSIBLE[name], *IMPOSSIBLE[name]])]
    read_values, faults = read(tmp_path, values, FileColumn("x", quantity))
    first = len(POSSIBLE[name])
    assert read_values[:first].tolist() == POSSIBLE[name]
    for row, fault in enumerate(faults, start=first):
        assert fault.startswith(
            f"t.parquet:{row + 1}: column x: not {quantity.name} {quantity.range} ({values[row]!r}); "
        )
    assert len(faults) == len(IMPOSSIBLE[name])


@pytest.mark.parametrize("name", sorted(IMPOSSIBLE.keys() - {"TIME", "SPAN"}))
@pytest.mark.parametrize("cells", [pa.array([-100], pa.duration("s")), pa.array([100], pa.timestamp("s"))])
def test_durations_and_dates_are_times_alone(tmp_path, name, cells):
    _, faults = read(tmp_path, cells, FileColumn("x", getattr(schema, name)))
    assert_messages(faults, ["t.parquet:1: column x: a value of type … instead of a number"])


def test_every_quantity_of_numbers_with_a_unit_is_limited():
    """A value that no file can mean is refused; numbers without a unit are the user's own."""
    quantities = [value for value in vars(schema).values() if isinstance(value, schema.Quantity)]
    assert [each.name for each in quantities if each.unit and not np.isfinite([each.lowest, each.highest]).all()] == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, -81, -82, 0, -83, -84.5], [0]),
        ([-81, 255, 255, -82, -83], [255]),
        ([5, 7, 99, 12.5, 99, 20], [99]),
        ([-140.5, -80, -82, -85, -140.5], [-140.5]),
        ([-999, -999, -80, -82, -85, 255, 255], [-999, 255]),
        ([-90, -90, 0, 0], [0]),  # two values: only a number that programs write
        ([-90, -90, -60, -60], []),
        ([-81, -81, -82, -83, -84, -84], []),  # whole numbers repeat
        ([0, -81, -82, -83], []),  # does not repeat
        ([-50, -75, -50, -82, -110], []),  # the best link of a file, without a gap
        ([7, 7], []),
        ([], []),
    ],
)
def test_sentinels_repeat_at_the_edge_and_lie_apart(values, expected):
    assert sentinels(np.array(values, float)) == expected


def test_doubts_name_the_key_and_end_with_a_list():
    column = FileColumn("rsrp_dbm", schema.RECEIVED_POWER, missing_key="missing")
    values = np.array([0.0, 0.0, -81.0, -82.0, -83.0])
    assert_messages([*value_doubts(column, values, None)], ["rsrp_dbm is 0 in 2 rows, … missing: [0]; … missing: []"])
    assert [*value_doubts(column, values, ())] == []


def test_headings_are_those_of_the_schema(tmp_path):
    (tmp_path / "t.csv").write_text("user,x,start_s,start,why\n0,1,2,3,4\n")
    table = read_table(tmp_path / "t.csv")
    start = FileColumn("start", schema.TIME, other_names=("start_s",))
    for columns, problem in [
        ([FileColumn("node", schema.NAME)], "t.csv has no column node; its columns: user, x, start_s, start, why"),
        ([start], "t.csv has the columns start and start_s, which mean the same"),
        ([FileColumn("user", schema.USER)], "t.csv has the column x, which is not read; rename or remove it"),
    ]:
        with pytest.raises(ScenarioError, match=problem):
            table.check_headings(FileSchema("test", *columns, others="refused"))


def test_suggestions_leave_out_columns_that_the_file_has(tmp_path):
    """A column y is no y_m beside y_m."""
    (tmp_path / "t.csv").write_text("x_m,y_m,y,gain_db\n0,1,2,3\n")
    columns = [FileColumn(name, schema.POSITION) for name in ("x_m", "y_m")]
    columns += [FileColumn(name, schema.SNR, is_needed=False) for name in ("gain_db", "snr_db")]
    with pytest.raises(ScenarioError) as caught:
        read_table(tmp_path / "t.csv").check_headings(FileSchema("test", *columns, others="refused"))
    assert "the column y, which is not read; rename or remove it; known: snr_db" in str(caught.value)


def test_rows_that_are_no_measurement_can_be_taken_out(tmp_path):
    (tmp_path / "t.csv").write_text("x\n-80\n0\n-81\n255\n")
    table = read_table(tmp_path / "t.csv")
    column = FileColumn("x", schema.SNR)
    kept = table.take(~table.is_missing(column, (0, 255)))
    assert (kept.numbers(column).tolist(), kept.lines.tolist()) == ([-80, -81], [2, 4])
    assert table.numbers(column, empty=-200.0, missing=(0, 255)).tolist() == [-80, -200, -81, -200]
