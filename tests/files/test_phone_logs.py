"""Logs of phones: columns by heading and unit, forms of times, and rows that are wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.files.phone_logs import read_phone_log, to_trace

EXAMPLE = Path(__file__).parents[2] / "scenarios/files/gnettrack.csv"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log of lines and reads a quantity of it."""

    def read(*lines, quantity="rsrp", name="log.csv", **options):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return read_phone_log(path, quantity, **options)

    return read


def test_example_of_gnettrack_is_read():
    """Three rows have no RSRP, and a second occurs twice, of which the last row counts."""
    rsrp = read_phone_log(EXAMPLE, "rsrp")
    assert (rsrp.heading, rsrp.column, rsrp.missing, rsrp.repeated) == ("RSRP", "rsrp_dbm", 3, 1)
    assert (len(rsrp.values), rsrp.longest_gap_s, rsrp.is_absolute) == (57, 4.0, True)
    raw = pd.read_csv(EXAMPLE, na_values="-")
    kept = raw.drop_duplicates("Timestamp", keep="last")
    assert rsrp.values["value"].tolist() == kept["RSRP"].dropna().tolist()
    for direction, heading in (("down", "DL_bitrate"), ("up", "UL_bitrate")):
        rate = read_phone_log(EXAMPLE, "rate", direction=direction)
        assert rate.values["value"].tolist() == (1000.0 * kept[heading]).tolist()  # kbit/s
    assert read_phone_log(EXAMPLE, "snr").values["value"].tolist() == kept["SNR"].dropna().tolist()


@pytest.mark.parametrize(
    ("heading", "quantity", "options", "expected"),
    [
        ("rsrp(dBm)", "rsrp", {}, -90.0),
        ("RSRP_dBm", "rsrp", {}, -90.0),
        ("NR RSRP [dBm]", "rsrp", {}, -90.0),
        ("lte_rsrp", "rsrp", {}, -90.0),
        ("sinr_db", "snr", {}, -90.0),
        ("RATE(MBit/s)", "rate", {}, 90e6),
        ("dl_mbps", "rate", {}, 90e6),
        ("ul_kbps", "rate", {"direction": "up"}, 90e3),
        ("rx_bps", "rate", {}, 90.0),
        ("DL_bitrate", "rate", {}, 90e3),
        ("DL_bitrate", "rate", {"unit": "bit/s"}, 90.0),
        ("download", "rate", {"unit": "Gbit/s"}, 90e9),
        ("mine", "rsrp", {"column": "mine"}, -90.0),
        ("bytes", "rate", {"column": "bytes", "unit": "Mbps"}, 90e6),
    ],
)
def test_columns_and_units_are_those_of_the_heading(log, heading, quantity, options, expected):
    number = 90 if quantity == "rate" else -90
    read = log(f"time_s,{heading}", f"0,{number}", f"1,{number}", quantity=quantity, **options)
    assert read.values["value"].tolist() == [expected] * 2
    assert read.heading == heading


@pytest.mark.parametrize(
    ("heading", "times", "options", "is_absolute"),
    [
        ("Timestamp", ("2024.03.30_08.00.00", "2024.03.30_08.00.02"), {}, True),
        ("Time", ("Sat Mar 30 08:00:00 UTC 2024", "Sat Mar 30 08:00:02 UTC 2024"), {}, True),
        ("datetime", ("2024-03-30T08:00:00Z", "2024-03-30T10:00:02+02:00"), {}, True),
        ("date time", ("2024-03-30 08:00:00.500", "2024-03-30 08:00:02.500"), {}, True),
        ("timestamp", ("1711785600", "1711785602"), {}, True),
        ("timestamp", ("1711785600000", "1711785602000"), {}, True),
        ("timestamp_ms", ("1711785600000", "1711785602000"), {}, True),
        ("time_s", ("5.5", "7.5"), {}, False),
        ("t_ms", ("500", "2500"), {}, False),
        ("time", ("500", "2500"), {"time_unit": "ms"}, False),
        ("clock", ("3", "5"), {"time_column": "clock", "time_unit": "s"}, False),
    ],
)
def test_times_of_each_form_are_two_seconds_apart(log, heading, times, options, is_absolute):
    read = log(f"{heading},rsrp", f"{times[0]},-90", f"{times[1]},-91", **options)
    assert read.is_absolute == is_absolute
    assert to_trace([read])["time_s"].tolist() == [0.0, 2.0]
    if is_absolute:
        assert round(read.values["time_s"].iloc[0]) == 1711785600


def test_semicolons_and_tabs_separate_cells(log):
    for separator in ";\t":
        read = log(f"time_s{separator}rsrp", f"0{separator}-90", f"1{separator}-91")
        assert read.values["value"].tolist() == [-90.0, -91.0]


def test_rows_without_a_value_are_left_out(log):
    cells = ("-90", "-", "", "NaN", "0", "2147483647", "-95")
    read = log("time_s,rsrp", *(f"{second},{cell}" for second, cell in enumerate(cells)))
    assert (read.values["value"].tolist(), read.missing) == ([-90.0, -95.0], 5)
    assert read.longest_gap_s == 6.0
    rates = log("time_s,dl_kbps", "0,0", "1,-", "2,5", quantity="rate")
    assert (rates.values["value"].tolist(), rates.missing) == ([0.0, 5000.0], 1)  # a rate of 0 is a value


def test_phones_in_a_column_are_users(log):
    read = log("imei,time_s,rsrp", "b,0,-90", "a,0,-80", "b,1,-91", "a,2,-82", user_column="imei")
    trace = to_trace([read])
    assert trace["user"].tolist() == [0, 0, 1, 1]  # in the order of their names
    assert trace["rsrp_dbm"].tolist() == [-80.0, -82.0, -90.0, -91.0]


def test_common_clock_begins_where_all_have_a_value(log):
    first = log("timestamp,rsrp", "1711785600,-90", "1711785610,-91", name="a.csv")
    second = log("timestamp,rsrp", "1711785604,-80", "1711785609,-81", name="b.csv")
    assert to_trace([first, second], align="clock")["time_s"].tolist() == [-4.0, 6.0, 0.0, 5.0]
    assert to_trace([first, second])["time_s"].tolist() == [0.0, 10.0, 0.0, 5.0]
    late = log("timestamp,rsrp", "1711785700,-80", "1711785709,-81", name="c.csv")
    with pytest.raises(ScenarioError, match="align: a log ends 90 s before another begins"):
        to_trace([first, late], align="clock")
    relative = log("time_s,rsrp", "0,-80", "1,-81", name="d.csv")
    with pytest.raises(ScenarioError, match="align: times are not since 1970"):
        to_trace([first, relative], align="clock")
    with pytest.raises(ScenarioError, match="different quantities: rate_bps, rsrp_dbm"):
        to_trace([first, log("time_s,rate_bps", "0,1", quantity="rate", name="e.csv")])


def problems(log, *lines, **options):
    with pytest.raises(ScenarioError) as error:
        log(*lines, **options)
    return [str(fault) for fault in error.value.faults]


@pytest.mark.parametrize(
    ("lines", "options", "pattern"),
    [
        (["time_s,rsrp,snr", "0,-90,3", "1,-9"], {}, "log.csv:3: number of cells: 2 instead of 3"),
        (["time_s,rsrp", "0,-90", "1,90"], {}, "log.csv:3: column rsrp: not an RSRP from -160 to -20 dBm ('90') … ASU"),
        (["time_s,rsrp", "0,-90", "1,weak"], {}, "log.csv:3: column rsrp: not a number … ('weak')"),
        (["time_s;rsrp", "0;-90", "1;-90,5"], {}, "log.csv:3: column rsrp: … decimal comma ('-90,5')"),
        (["time_s,dl_kbps", "0,5", "1,-5"], {"quantity": "rate"}, "log.csv:3: column dl_kbps: not a bit rate … ('-5')"),
        (["time_s,rsrp", "0,-"], {}, "log.csv has no value of rsrp in 1 rows"),
        (["time_s,rsrp"], {}, "log.csv has no value of rsrp in 0 rows"),
        (["time_s,power", "0,-90"], {}, "log.csv has no heading of rsrp; name one as column; there are: time_s, power"),
        (["time_s,rsrp,nr_rsrp", "0,-90,-95"], {}, "log.csv has several headings of rsrp: rsrp, nr_rsrp; name one of"),
        (["time_s,dl", "0,9"], {"quantity": "rate"}, "log.csv: the heading dl has no unit; give one as unit: bps"),
        (["time_s,dl(MB/s)", "0,9"], {"quantity": "rate"}, "log.csv: the unit of dl(MB/s) is not known ('mb/s')"),
        (["time_s,dl_mbps", "0,9"], {"quantity": "rate", "unit": "kbps"}, "unit: the heading dl_mbps states another"),
        (["time_s,dl", "0,9"], {"quantity": "rate", "unit": "MB/s"}, "unit: not a unit of rate ('MB/s'); write bps"),
        (["time_s,rsrp", "0,-90"], {"column": "rspr"}, "column: log.csv has no such heading ('rspr'); did you mean"),
        (["when,rsrp", "0,-90"], {}, "log.csv has no heading of the time; name one as time_column"),
        (["time,timestamp,rsrp", "0,0,-90"], {}, "log.csv has several headings of the time: time, timestamp"),
        (["time,rsrp", "0,-90", "5,-90"], {}, "log.csv: the heading time has no unit (0.0); give one as time_unit"),
        (["time,rsrp", "2024-03-30T08:00Z,-90"], {"time_unit": "s"}, "time_unit: has no effect: the times … ('s')"),
        (["timestamp_s,rsrp", "1711785600000,-90"], {}, "log.csv: times in s would be after the year 40000"),
        (["timestamp,rsrp", "1711785600000,-90", "1711785601,-90"], {},
         "log.csv:3: column timestamp: seconds and milliseconds are mixed: the first row is in milliseconds"),
        (["timestamp,rsrp", "1711785600,-90", "1711785601000,-90"], {},
         "log.csv:3: column timestamp: seconds and milliseconds are mixed: the first row is in seconds"),
        (["timestamp,rsrp", "1711785600,-90", "2024-03-30T08:00Z,-90"], {},
         "log.csv:3: column timestamp: not a number as the time of the first row … one form"),
        (["time,rsrp", "2024-03-30T08:00Z,-90", "30.3.2024 8:01,-90"], {},
         "log.csv:3: column time: not a time ('30.3.2024 8:01'); write seconds"),
        (["time,rsrp", "2024-03-30T08:00Z,-90", "2024-03-30T08:01,-90"], {},
         "log.csv:3: column time: only one of this time and the first has a time zone"),
        (["time,rsrp", "Sat Mar 30 08:00:00 CET 2024,-90"], {}, "log.csv:2: column time: not a time"),
        (["time_s,rsrp", "5,-90", "4,-90"], {}, "log.csv:3: the time is 1 s before that of log.csv:2; split the file"),
        (["time_s,imei,rsrp", "0,a,-90", "1,b,-90"], {},
         "log.csv:3: column imei: another phone than a ('b'); split the file, or give user_column imei"),
    ],
)  # fmt: skip
def test_wrong_log_is_one_located_error(log, lines, options, pattern):
    assert_messages(problems(log, *lines, **options), [pattern])


def call(*words):
    result = CliRunner().invoke(app, ["import", "phone", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


SCENARIO = {
    "name": "phone", "users": 1, "rounds": 3, "record": {"attempts": True},
    "access": {
        "kind": "network", "round": {"kind": "available", "deadline": "10 s"}, "mac": {"kind": "round_robin"},
        "topology": {"kind": "star", "distance": "300 m"}, "compute": {"speed": 100, "samples": 100},
        "radio": {"power": "23 dBm", "bandwidth": "180 kHz", "noise_figure": "5 dB"},
        "reception": {"kind": "shannon", "rate": "360 kbps"}, "broadcast_rate": "1 Mbps", "update_size": "50 kB",
    },
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_command_writes_a_trace_that_a_channel_reads(tmp_path, suffix):
    """The SNR of each frame follows from the RSRP in the log at its start."""
    out = tmp_path / f"drive.{suffix}"
    code, output = call(EXAMPLE, "--out", out)
    assert code == 0
    assert "user 0, 57 values of RSRP, 3 rows without one, 1 rows of a repeated time" in output
    channel = {"kind": "trace", "file": str(out), "reference_power": "18 dBm", "interpolation": "linear"}
    run = netfl.trace({**SCENARIO, "access": {**SCENARIO["access"], "channel": [channel]}}, tmp_path / "run")
    attempts = run.attempts.query("outcome != 'unfinished'")
    values = read_phone_log(EXAMPLE, "rsrp").values
    rsrp_dbm = np.interp(attempts["start_s"], values["time_s"] - values["time_s"].iloc[0], values["value"])
    noise_dbm = -174 + 10 * np.log10(180e3) + 5
    assert len(attempts) >= 3
    assert np.allclose(attempts["snr_db"], rsrp_dbm - 18 + 23 - noise_dbm, atol=0.05)


def test_heading_of_the_times_can_be_named(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("began_s,time_s,rsrp\n0,5,-90\n2,7,-91\n")
    out = tmp_path / "drive.csv"
    assert call(log, "--time-column", "began_s", "--out", out)[0] == 0
    assert pd.read_csv(out)["time_s"].tolist() == [0.0, 2.0]
    code, output = call(log, "--time-column", "begun", "--out", tmp_path / "other.csv")
    assert code == 2
    assert "--time-column: log.csv has no such heading ('begun')" in output


def test_command_reads_several_logs_as_users(tmp_path):
    out = tmp_path / "rates.csv"
    code, output = call(EXAMPLE, EXAMPLE, "--quantity", "rate", "--direction", "up", "--align", "clock", "--out", out)
    assert code == 0
    assert "rate_bps of 2 users" in output
    assert pd.read_csv(out).groupby("user").size().tolist() == [60, 60]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quantity", "rsrq"], "--quantity: no such word ('rsrq'); write one of: rsrp, snr, rate"),
        (["--align", "end"], "--align: no such word ('end')"),
        (["--time-unit", "h"], "--time-unit: no such word ('h')"),
        (["--direction", "up"], "--direction: has no effect: only rates have one ('up')"),
        (["--column", "RSRPP"], "--column: gnettrack.csv has no such heading ('RSRPP'); did you mean 'RSRP'?"),
        (["--time-unit", "s"], "--time-unit: has no effect: the times of gnettrack.csv are no numbers ('s')"),
    ],
)
def test_wrong_options_are_errors(tmp_path, words, message):
    code, output = call(EXAMPLE, "--out", tmp_path / "drive.csv", *words)
    assert code == 2
    assert message in output
    assert not (tmp_path / "drive.csv").exists()


def test_file_is_not_overwritten(tmp_path):
    out = tmp_path / "drive.csv"
    out.write_text("mine")
    code, output = call(EXAMPLE, "--out", out)
    assert (code, "--out: there is a file or folder of this name" in output) == (2, True)
    assert out.read_text() == "mine"
