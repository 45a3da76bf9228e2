"""Built-in recordings of real LoRaWAN devices: their names, figures, and how a run reads them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from real_recordings import read_recording
from support.error_messages import assert_messages
from typer.testing import CliRunner

import netfl
from netfl.access._built_in import FOLDER, recording_folder, recording_names
from netfl.access.replay import Replay
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.files.recordings import recorded_names
from netfl.types import ScenarioFacts

ROOT = Path(__file__).parents[2]
NAMES = {"real/saint_eynard": (8, 13_854), "real/tour_perret": (12, 20_321)}
"""Users and rounds of each recording."""
MAX_BYTES = 320_000


def received(name):
    """Return which user delivers in which round, ``[rounds, users]``, from the table alone."""
    users, rounds = NAMES[name]
    table = pd.read_parquet(FOLDER / name / "deliveries.parquet")
    delivered = np.zeros((rounds, users), bool)
    delivered[table["round"] - 1, table["user"]] = True
    return delivered


def test_names_are_those_of_the_folders():
    assert recording_names() == [*NAMES]
    assert re.findall(r"real/\w+", (FOLDER / "LICENSE.txt").read_text().splitlines()[0]) == [*NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_recording_is_possible_and_small(name):
    users, rounds = NAMES[name]
    assert not [*Replay(run=name).faults(ScenarioFacts(users=users, rounds=rounds))]
    assert len(recorded_names(FOLDER / name)) == users
    assert sum(path.stat().st_size for path in (FOLDER / name).iterdir()) < MAX_BYTES


def test_rates_of_saint_eynard_are_those_of_the_data_set():
    """The shares were computed from the logs of CampusIoT, before the recording was made."""
    delivered = received("real/saint_eynard")
    rates = delivered.mean(axis=0)
    assert rates[:6].round(3).tolist() == [0.974, 0.950, 0.861, 0.823, 0.535, 0.516]
    assert delivered.any(axis=1).mean().round(4) == 0.9937
    assert delivered[:, :6].any(axis=1).mean().round(4) == 0.9937
    assert 1.0 - np.prod(1.0 - rates[:6]) > 0.99995  # independent gateways would receive nearly all


def test_users_of_tour_perret_are_apart_since_copies_were_bought():
    """Of the frames that a gateway has, 96 % are at one only: a common cause, and no radio."""
    delivered = received("real/tour_perret")
    copies = delivered.sum(axis=1)
    assert delivered.sum() == 17_112
    assert (copies[copies > 0] == 1).mean().round(3) == 0.959


def test_links_have_the_snr_of_each_delivery():
    for name in NAMES:
        table = pd.read_parquet(FOLDER / name / "links.parquet")
        assert table["snr_db"].between(-25, 15).all()
        assert set(table["mode"]) == {{"real/saint_eynard": 5, "real/tour_perret": 0}[name]}  # SF7 and SF12
    assert Replay(run="real/saint_eynard").info.link_values == {"snr_db", "mode"}


def test_name_is_the_same_on_each_machine():
    replay = Replay(run="real/saint_eynard")
    assert replay.model_dump(mode="json")["run"] == "real/saint_eynard"
    assert replay.folder == recording_folder(replay.run) == FOLDER / "real/saint_eynard"
    assert Replay.model_validate(replay.model_dump(mode="json")) == replay


def test_a_folder_of_this_name_is_written_with_a_dot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Replay(run="./real/tour_perret").folder == tmp_path / "real/tour_perret"
    assert Replay(run=tmp_path / "real/x").folder == tmp_path / "real/x"
    assert Replay(run="real").folder == tmp_path / "real"


@pytest.mark.parametrize("run", ["real/tour_peret", "real/mine", "real/../saint_eynard"])
def test_unknown_name_lists_those_that_exist(run):
    with pytest.raises(ScenarioError) as error:
        Replay(run=run)
    (fault,) = error.value.faults
    assert fault.problem == "no such built-in recording"
    assert "there are: real/saint_eynard, real/tour_perret" in fault.remedy
    assert f"./{run}" in fault.remedy


def test_too_few_users_is_one_error(make_context):
    (fault,) = Replay(run="real/saint_eynard").faults(ScenarioFacts(users=7, rounds=10))
    assert_messages([str(fault)], ["run: 8 users are recorded, the scenario has 7; set users: 8"])


def test_users_that_are_not_recorded_are_a_warning(make_context):
    (note,) = Replay(run="real/saint_eynard").warnings(make_context(users=10))
    assert "users 8 to 9 never deliver" in note
    assert not [*Replay(run="real/saint_eynard").warnings(make_context(users=8))]


def test_too_many_rounds_is_an_error():
    (fault,) = Replay(run="real/saint_eynard").faults(ScenarioFacts(users=8, rounds=13_855))
    assert "13854 rounds are recorded" in str(fault)


def test_replay_has_the_deliveries_of_the_table(make_context):
    rounds = [*Replay(run="real/saint_eynard").rounds(make_context(users=8, rounds=40))]
    delivered = received("real/saint_eynard")[:40]
    for round_, expected in zip(rounds, delivered, strict=True):
        assert [delivery.user for delivery in round_.deliveries] == np.flatnonzero(expected).tolist()
        assert all(delivery.base == round_.index - 1 for delivery in round_.deliveries)
    assert [round_.opened_s for round_ in rounds[:4]] == [0.0, 602.1, 1206.2, 1816.2]
    assert rounds[0].closed_s == rounds[1].opened_s


SOURCE = """\
frame,time_s,frequency_mhz,data_rate,rssi_dbm_gw0,snr_db_gw0,rssi_dbm_gw1,snr_db_gw1
0,0.0,868.1,SF12BW125,-100,-4,,
1,,,,,,,
2,20.0,868.3,SF11BW125,-101,2.2,-120,-14.199999809265137
3,31.0,868.3,SF11BW125,,,-119,-3
"""


def test_script_reads_frames_as_rounds(tmp_path):
    """A lost frame has no time, and gets one between its neighbours."""
    (tmp_path / "source.csv").write_text(SOURCE)
    recording = read_recording(tmp_path / "source.csv")
    assert recording.opened_s.tolist() == [0.0, 10.0, 20.0, 31.0]
    assert recording.closed_s.tolist() == [10.0, 20.0, 31.0, 41.0]  # the last round is as long as the median
    assert recording.round.tolist() == [1, 3, 3, 4]
    assert recording.user.tolist() == [0, 0, 1, 1]
    assert recording.mode.tolist() == [0, 1, 1, 1]
    assert recording.snr_db.tolist() == [-4.0, 2.2, -14.2, -3.0]
    assert recording.rates.tolist() == [0.5, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize(("override", "users"), [((), 8), (("tour_perret",), 12)])
def test_shipped_scenario_learns_from_any_folder(override, users, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scenario = netfl.load("access/real", {"rounds": 60}, override)
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    name = scenario.access.run.as_posix()
    expected = received(name)[:60]
    assert run.deliveries.groupby("user").size().to_dict() == {
        user: int(count) for user, count in enumerate(expected.sum(axis=0)) if count
    }
    assert set(run.metrics["learner"]) == {"FedAvg", "FED-CVaR-AVG"}
    assert len(expected.T) == users
    again = netfl.trace(netfl.load(run.folder / "scenario.yaml"), tmp_path / "again")
    pd.testing.assert_frame_equal(again.deliveries, run.deliveries)


@pytest.mark.slow
def test_ram_reads_a_name():
    result = CliRunner().invoke(app, ["ram", "real/saint_eynard", "--rounds", "2000"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "8 users" in result.output
    assert "every 8 rounds" in result.output
    assert "gw7" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--users", "8"], "a recording stores its own value"),
        (["--rounds", "20000"], "only 13854 rounds are recorded"),
        (["--replica", "1"], "a recording has one replica"),
    ],
)
def test_ram_refuses_options_of_tables(words, message):
    result = CliRunner().invoke(app, ["ram", "real/saint_eynard", *words])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.slow
def test_script_states_its_use():
    done = subprocess.run(
        [sys.executable, ROOT / "analysis/real_recordings.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "source" in done.stdout
