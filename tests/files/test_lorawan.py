"""Logs of LoRaWAN network servers: counters, duplicates, recordings, and lines that are wrong."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from typer.testing import CliRunner

import netfl
from netfl.access.replay import Replay
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.files.lorawan import MAX_GAP, read_lorawan
from netfl.types import ScenarioFacts

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "scenarios/files/uplinks.jsonl"
FIRST, SECOND = "70b3d57ed0000001", "70b3d57ed0000002"
BEGIN = datetime(2024, 3, 30, 8, tzinfo=UTC)


def chirpstack(counter, time_s, *gateways, device="aa", **others):
    """Return an uplink of ChirpStack v4, with a counter of 0 left out; *gateways* are names, or names with SNRs."""
    receptions = [gateway if isinstance(gateway, tuple) else (gateway, 5.0) for gateway in gateways]
    event = {
        "time": (BEGIN + timedelta(seconds=time_s)).isoformat(),
        "deviceInfo": {"devEui": device},
        "rxInfo": [{"gatewayId": name, "rssi": -100, "snr": snr_db} for name, snr_db in receptions],
        "txInfo": {"frequency": 868100000, "modulation": {"lora": {"bandwidth": 125000, "spreadingFactor": 10}}},
    }
    if counter:
        event["fCnt"] = counter
    return event | others


def things_stack(counter, time_s, *gateways, **others):
    """Return an uplink of The Things Stack v3."""
    uplink = {
        "rx_metadata": [{"gateway_ids": {"gateway_id": name}, "rssi": -90, "snr": 7.25} for name in gateways],
        "settings": {"data_rate": {"lora": {"bandwidth": 250000, "spreading_factor": 7}}, "frequency": "868300000"},
        "received_at": f"{(BEGIN + timedelta(seconds=time_s)).isoformat().removesuffix('+00:00')}.123456789Z",
    }
    if counter:
        uplink["f_cnt"] = counter
    return {"end_device_ids": {"device_id": "d", "dev_eui": "BB"}, "uplink_message": uplink | others}


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a log of lines and reads it."""

    def read(*lines):
        path = tmp_path / "log.jsonl"
        path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        return read_lorawan(path)

    return read


def numbers(log, device="aa"):
    return [(frame.session, frame.number) for frame in log.frames[device]]


def test_example_has_two_devices_of_two_servers():
    log = read_lorawan(EXAMPLE)
    assert (log.devices, log.duplicates, log.other_lines) == ([FIRST, SECOND], 1, 1)
    assert [log.missing(device) for device in log.devices] == [1, 1]
    assert [log.sessions(device) for device in log.devices] == [2, 1]
    assert log.gateways == ["a84041000000000b", "a84041000000000a", "a84041000000000c"]


def test_table_has_a_row_for_each_counter():
    table = read_lorawan(EXAMPLE).table(FIRST)
    assert table["frame"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1]
    assert table["session"].tolist() == [0] * 9 + [1] * 2
    assert table["time_s"].dropna().tolist() == [600.0 * at for at in (0, 1, 2, 3, 5, 6, 7, 8, 10, 11)]
    lost = table.loc[4].drop(["session", "frame"])
    assert lost.isna().all()
    third = table.loc[3]  # the duplicate brings the third gateway
    assert third.filter(like="snr").tolist() == [1.0, 6.5, -5.8]
    assert third.filter(like="rssi").tolist() == [-109.0, -99.0, -117.0]
    assert (third["frequency_mhz"], third["data_rate"]) == (868.1, "SF7BW125")


def test_both_servers_are_read(log):
    read = log(chirpstack(7, 0.5, "g1"), things_stack(9, 10, "g1", "g2"), {"result": things_stack(10, 20, "g2")})
    (first,) = read.frames["aa"]
    second, third = read.frames["bb"]
    assert (first.counter, second.counter, third.counter) == (7, 9, 10)
    assert (first.spreading_factor, first.bandwidth_hz, first.frequency_hz) == (10, 125_000, 868_100_000)
    assert (second.data_rate, second.mode, second.frequency_hz) == ("SF7BW250", 5, 868_300_000)
    assert second.receptions["g2"].snr_db == 7.25
    assert (second.time - first.time).total_seconds() == pytest.approx(9.623456)  # nanoseconds are cut


def test_fields_that_are_left_out_are_zero(log):
    event = chirpstack(0, 0, "g1")
    del event["rxInfo"][0]["snr"]
    del event["txInfo"]
    (frame,) = log(event).frames["aa"]
    assert (frame.counter, frame.receptions["g1"].snr_db, frame.data_rate) == (0, 0.0, "other")


def test_times_of_gateways_are_taken_without_one_of_the_event(log):
    event = chirpstack(1, 0, "g1")
    del event["time"]
    event["rxInfo"][0]["nsTime"] = "2024-03-30T08:00:07+00:00"
    assert log(event).frames["aa"][0].time == BEGIN + timedelta(seconds=7)


def test_duplicates_are_one_frame(log):
    """The higher SNR of a gateway counts, whichever line it is in."""
    read = log(
        chirpstack(1, 0, ("g1", -3.0), ("g1", -1.0)),
        chirpstack(1, 2, ("g1", -5.0), ("g2", 2.0)),
        chirpstack(2, 9, "g1"),
    )
    first, second = read.frames["aa"]
    assert {name: reception.snr_db for name, reception in first.receptions.items()} == {"g1": -1.0, "g2": 2.0}
    assert (read.duplicates, second.counter, numbers(read)) == (1, 2, [(0, 1), (0, 2)])


def test_late_copy_of_an_earlier_frame_belongs_to_it(log):
    read = log(chirpstack(4, 0, "g1"), chirpstack(5, 60, "g1"), chirpstack(4, 70, "g2"))
    assert [sorted(frame.receptions) for frame in read.frames["aa"]] == [["g1", "g2"], ["g1"]]
    assert numbers(read) == [(0, 4), (0, 5)]


def test_lines_are_in_the_order_of_time(log):
    read = log(chirpstack(5, 600, "g1"), chirpstack(4, 0, "g1"), chirpstack(6, 1200, "g1"))
    assert numbers(read) == [(0, 4), (0, 5), (0, 6)]


def test_wrapped_counter_goes_on(log):
    """The frame 0 after 65,535 is the next one, and 2 after 65,534 is the fourth."""
    read = log(chirpstack(65_534, 0, "g1"), chirpstack(65_535, 600, "g1"), chirpstack(2, 1800, "g1"))
    assert numbers(read) == [(0, 65_534), (0, 65_535), (0, 65_538)]
    assert (read.sessions("aa"), read.missing("aa")) == (1, 2)


def test_counter_of_32_bits_does_not_wrap_at_16(log):
    read = log(chirpstack(65_535, 0, "g1"), chirpstack(65_536, 600, "g1"), chirpstack(65_540, 1200, "g1"))
    assert numbers(read) == [(0, 65_535), (0, 65_536), (0, 65_540)]
    assert log(chirpstack(70_000, 0, "g1"), chirpstack(3, 600, "g1")).sessions("aa") == 2


def test_counter_that_starts_over_begins_a_session(log):
    read = log(chirpstack(100, 0, "g1"), chirpstack(2, 600, "g1"), chirpstack(3, 1200, "g1"), chirpstack(3, 9000, "g1"))
    assert numbers(read) == [(0, 100), (1, 2), (1, 3), (2, 3)]
    assert read.missing("aa") == 0  # nothing tells how many frames a new session has lost


def test_step_that_no_server_accepts_begins_a_session(log):
    assert log(chirpstack(1, 0, "g1"), chirpstack(1 + MAX_GAP, 600, "g1")).missing("aa") == MAX_GAP - 1
    assert log(chirpstack(1, 0, "g1"), chirpstack(2 + MAX_GAP, 600, "g1")).sessions("aa") == 2


def test_recording_of_gateways_is_that_of_the_table(tmp_path):
    """Gateways are users and counters are rounds: a lost frame is a round without deliveries."""
    log = read_lorawan(EXAMPLE)
    recording = log.recording_of_gateways(FIRST)
    recording.write(tmp_path / "recorded")
    table = log.table(FIRST)
    received = table.filter(like="snr_db").notna().to_numpy()
    replay = Replay(run=tmp_path / "recorded")
    assert not [*replay.faults(ScenarioFacts(users=3, rounds=11))]
    scenario = {"name": "log", "users": 3, "rounds": 11, "access": {"kind": "replay", "run": str(replay.run)}}
    run = netfl.trace(scenario, tmp_path / "run")
    replayed = np.zeros((11, 3), bool)
    replayed[run.deliveries["round"] - 1, run.deliveries["user"]] = True
    assert (replayed == received).all()
    assert run.rounds["opened_s"].tolist() == [600.0 * at for at in (*range(9), 10, 11)]
    assert run.rounds["closed_s"].iloc[-1] == 7200.0
    links = pd.read_parquet(tmp_path / "recorded/links.parquet")
    assert links["snr_db"].tolist() == [
        value for row in table.filter(like="snr_db").to_numpy() for value in row if not np.isnan(value)
    ]
    assert set(links["mode"]) == {5}


def test_recording_of_devices_has_windows_of_time(log):
    """Two frames in a window are one delivery, with the first frame and its best SNR."""
    read = log(
        chirpstack(1, 0, ("g1", -2.0), ("g2", 3.0)),
        chirpstack(2, 300, "g1"),
        chirpstack(1, 599.5, "g1", device="cc"),
        chirpstack(4, 1800, "g1"),
    )
    recording = read.recording_of_devices(600.0)
    assert (recording.names, recording.rounds) == (["aa", "cc"], 4)
    assert recording.round.tolist() == [1, 1, 4]
    assert recording.user.tolist() == [0, 1, 0]
    assert recording.arrived_s.tolist() == [0.0, 599.5, 1800.0]
    assert recording.snr_db.tolist() == [3.0, 5.0, 5.0]
    assert recording.rates.tolist() == [0.5, 0.25]


def problems(log, *lines):
    with pytest.raises(ScenarioError) as error:
        log(*lines)
    return [str(fault) for fault in error.value.faults]


def changed(path, value):
    """Return an uplink with another value below the keys *path*; ``None`` leaves the key out."""
    event = chirpstack(3, 0, "g1")
    inside = event
    for key in path[:-1]:
        inside = inside[key]
    if value is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return event


GOOD = chirpstack(1, 0, "g1")


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        (json.dumps(GOOD)[:80], "log.jsonl:2: not JSON: … remove the line if it is cut"),
        (f"[{json.dumps(GOOD)},", "log.jsonl:2: not JSON: … write one object in each line, as jq -c '.[]' does"),
        (json.dumps([GOOD]), "log.jsonl:2: not an object of JSON … jq"),
        ('{"fCnt": 1, "fCnt": 2}', "log.jsonl:2: not JSON: the key 'fCnt' occurs 2 times"),
        ({"applicationID": "1", "devEUI": "AQ=="}, "log.jsonl:2: an event of ChirpStack v3; only ChirpStack v4"),
        (changed(["time"], None), "log.jsonl:2: time is missing; write a time such as"),
        (changed(["time"], 1711785600), "log.jsonl:2: time is not a time in ISO 8601 (1711785600); write"),
        (changed(["time"], "30.3.2024 8:00"), "log.jsonl:2: time is not a time in ISO 8601 ('30.3.2024 8:00')"),
        (changed(["time"], "2024-03-30T08:00:00"), "log.jsonl:2: time has no time zone"),
        (changed(["fCnt"], -1), "log.jsonl:2: fCnt is not a frame counter (-1); a counter is a whole number"),
        (changed(["fCnt"], 1.5), "log.jsonl:2: fCnt is not a frame counter (1.5)"),
        (changed(["fCnt"], 1 << 32), "log.jsonl:2: fCnt is not a frame counter (4294967296)"),
        (changed(["fCnt"], "many"), "log.jsonl:2: fCnt is not a number ('many')"),
        (changed(["rxInfo"], []), "log.jsonl:2: no gateway has received this uplink; remove the line"),
        (changed(["rxInfo"], {}), "log.jsonl:2: rxInfo is not a list of objects"),
        (changed(["rxInfo", 0, "gatewayId"], None), "log.jsonl:2: rxInfo.gatewayId is missing"),
        (changed(["rxInfo", 0, "rssi"], -1000), "log.jsonl:2: rssi is not a number from -200 to 50 (-1000)"),
        (changed(["rxInfo", 0, "snr"], True), "log.jsonl:2: snr is not a number from -50 to 50 (True)"),
        (changed(["deviceInfo", "devEui"], None), "log.jsonl:2: deviceInfo.devEui is missing"),
        (changed(["txInfo", "modulation", "lora", "spreadingFactor"], 13), "log.jsonl:2: spreadingFactor … 5 to 12"),
        (things_stack(1, 0), "log.jsonl:2: no gateway has received this uplink"),
        (things_stack(1, 0, "g", settings=7), "log.jsonl:2: settings is not an object (7)"),
    ],
)  # fmt: skip
def test_wrong_line_is_one_located_error(log, line, pattern):
    assert_messages(problems(log, GOOD, line, chirpstack(9, 600, "g1")), [pattern])


def test_all_wrong_lines_are_reported_up_to_ten(log):
    assert len(problems(log, *["{"] * 30)) == 1  # another kind of file
    lines = problems(log, GOOD, *["{"] * 30)
    assert len(lines) == 11
    assert "and 20 more errors of this kind" in lines[-1]


def test_log_without_uplinks_is_an_error(log):
    assert_messages(
        problems(log, {"deviceInfo": {"devEui": "aa"}}), ["log.jsonl has no uplinks in 1 lines; name a file"]
    )
    assert_messages(problems(log), ["log.jsonl has no uplinks in 0 lines"])


def test_second_device_is_a_located_error(log):
    read = log(chirpstack(1, 0, "g1"), chirpstack(2, 9, "g1"), chirpstack(1, 3, "g1", device="cc"))
    with pytest.raises(ScenarioError) as error:
        read.table()
    assert_messages(
        [str(fault) for fault in error.value.faults],
        ["log.jsonl:3: another device than aa … ('cc'); name one as device"],
    )
    with pytest.raises(ScenarioError, match=r"device: not in log.jsonl \('ca'\); known: aa, cc"):
        read.table("ca")


def test_too_many_rounds_are_an_error(log):
    lines = [chirpstack(16_000 * at, 600 * at, "g1") for at in range(70)]
    read = log(*lines)
    with pytest.raises(ScenarioError, match="span 1104001 frames, more than 1000000"):
        read.recording_of_gateways()
    with pytest.raises(ScenarioError, match=r"round_s: the log has \d+ windows"):
        read.recording_of_devices(0.001)


def call(*words):
    result = CliRunner().invoke(app, ["import", "lorawan", str(EXAMPLE), *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_command_writes_a_recording_that_learners_and_the_diagnosis_read(tmp_path):
    code, output = call("--device", FIRST, "--out", tmp_path / "recorded")
    assert code == 0
    assert "10 frames, 1 missing counters, 2 sessions" in output
    assert "11 rounds of 3 users, 21 deliveries" in output
    assert "lost frame, or one that the device counted and did not send" in output
    assert len(pd.read_csv(tmp_path / "recorded/frames.csv")) == 11
    scenario = {
        "name": "log",
        "users": 3,
        "rounds": 11,
        "access": {"kind": "replay", "run": str(tmp_path / "recorded")},
    }
    assert len(netfl.trace(scenario, tmp_path / "run").deliveries) == 21
    result = CliRunner().invoke(app, ["ram", str(tmp_path / "recorded")])
    assert result.exit_code == 0
    assert "11 rounds of 3 users" in result.output


def test_command_takes_devices_as_users(tmp_path):
    code, output = call("--users", "devices", "--round", "20 min", "--out", tmp_path / "recorded")
    assert code == 0
    assert "6 rounds of 2 users, 10 deliveries" in output
    assert "may be a loss, or a time in which it sent nothing" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "uplinks.jsonl:7: another device than 70b3d57ed0000001"),
        (["--users", "towers"], "--users: not a kind of users ('towers'); write gateways or devices"),
        (["--users", "devices"], "--round: devices have no common counter"),
        (["--round", "1 min"], "--round: has no effect: a frame is a round ('1 min')"),
        (["--users", "devices", "--device", "x"], "--device: has no effect: all devices are users ('x')"),
        (["--users", "devices", "--round", "soon"], "--round: "),
        (["--users", "devices", "--round", "0 s"], "--round: not a duration above 0 ('0 s')"),
        (["--device", "70b3d57ed000000"], "--device: not in uplinks.jsonl ('70b3d57ed000000'); did you mean"),
    ],
)
def test_wrong_options_are_errors(tmp_path, words, message):
    code, output = call("--out", tmp_path / "recorded", *words)
    assert code == 2
    assert message in output
    assert not (tmp_path / "recorded").exists()


def test_folder_with_files_is_not_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    code, output = call("--device", FIRST, "--out", tmp_path)
    assert (code, "--out: the folder is not empty" in output) == (2, True)
    code, output = call("--device", FIRST, "--out", tmp_path / "mine.txt")
    assert (code, "--out: not a folder" in output) == (2, True)
