"""One mistake in a scenario of measured channels, divided bands, lossy updates or policies is one error.

The error states the file, the line, the dotted key and the remedy, and `netfl check` and `netfl trace` print the same.
"""

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from support.exported_runs import call

STAR = """users: 4
rounds: 2
access:
  kind: network
  round: {kind: available, deadline: 10 s}
  topology: {kind: star, distance: 300 m}
  radio: {power: 23 dBm, bandwidth: 1 MHz, noise_figure: 5 dB}
  channel:
    - {kind: log_distance, exponent: 3.5, frequency: 868 MHz}
  reception: {kind: shannon, gap: 3 dB}
"""
CELL = (
    "\nname: cell\n"
    + STAR
    + """\
  mac: {kind: fdma}
  compute: {speed: 100, samples: 100}
  broadcast_rate: 1 Mbps
  update_size: 50 kB
  selection: {kind: uniform, m: 2}
"""
)
DRIVE = CELL.replace("{kind: log_distance, exponent: 3.5, frequency: 868 MHz}", "{kind: trace, file: drive.csv}")
DRIVE = DRIVE.replace("gap: 3 dB", "rate: 1 Mbps")
TRAFFIC = """
name: town
users: 3
duration: 20 s
access:
  kind: network
  topology: {kind: star, placement: {kind: sumo_fcd, file: town.fcd.xml}}
  motion: {kind: sumo_fcd, file: town.fcd.xml}
  radio: {power: 23 dBm, bandwidth: 1 MHz}
  channel:
    - {kind: radio_map, file: map.csv, relative: true}
  reception: {kind: snr_threshold, threshold: 3 dB, rate: 1 Mbps}
  mac: {kind: slotted_aloha, probability: 0.1}
  traffic: {kind: poisson, rate: 0.5, size: {distribution: fixed, mean: 1 kB}}
"""
LEARNING = (
    "\nname: parts\n"
    + STAR
    + """\
  mac: {kind: round_robin}
  compute: {speed: 100}
  broadcast_rate: 1 Mbps
  transport: {grain: packet, loss: erase}
data: digits
partition: iid
model: logistic
learners:
  FedAvg: {objective: erm, aggregation: average_received, lr: 0.1, batch_size: full, local_steps: 1}
"""
)
POLICY = '''
from typing import ClassVar
from netfl.access.selection import Selection, Selector
from netfl.types import Law
class Peeking(Selection):
    """A selection that reads the SNR, which it has not declared."""
    observes: ClassVar = ("check_in",)
    def open(self, population):
        return PeekingSelector()
    def laws(self):
        return (Law.none("draws nothing"),)
class PeekingSelector(Selector):
    def choose(self, moment):
        return moment.candidates[moment.snr_db[moment.candidates] > 0]
'''


def write_trace(name, users, end_s=120, column="gain_db"):
    times_s = np.arange(end_s + 1)
    parts = [pd.DataFrame({"user": user, "time_s": times_s, column: -90.0}) for user in range(users)]
    pd.concat(parts).to_csv(name, index=False)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with measured links of four users, the ways of three vehicles, and a policy."""
    monkeypatch.chdir(tmp_path)
    write_trace("drive.csv", 4)
    write_trace("three.csv", 3)
    write_trace("short.csv", 3, end_s=5)
    write_trace("power.csv", 4, column="power")
    x_m, y_m = np.meshgrid([-100, 0, 100], [-100, 0, 100], indexing="ij")
    grid = pd.DataFrame({"x_m": x_m.ravel(), "y_m": y_m.ravel(), "gain_db": -90.0})
    grid.to_csv("map.csv", index=False)
    grid.iloc[:-1].to_csv("holes.csv", index=False)
    vehicles = "".join(f'<vehicle id="car.{number}" x="{10 * number}" y="0"/>' for number in range(3))
    (tmp_path / "town.fcd.xml").write_text(f'<fcd-export><timestep time="0">{vehicles}</timestep></fcd-export>')
    (tmp_path / "peeking.py").write_text(POLICY)
    return tmp_path


@pytest.mark.parametrize(
    ("scenario", "old", "new", "error"),
    [
        # measured worlds
        (DRIVE, "drive.csv", "three.csv", "s.yaml:11: access.channel.0.file: three.csv has no line for user 3; give a"),
        (
            DRIVE,
            "drive.csv",
            "power.csv",
            "s.yaml:11: access.channel.0.file: power.csv has the column power, … known: gain_db, snr_db, rsrp_dbm",
        ),
        (DRIVE, "file: drive.csv", "path: drive.csv", "s.yaml:11: access.channel.0.path: unknown key; … 'file'"),
        (
            DRIVE,
            "{kind: trace, file: drive.csv}",
            "{kind: trace, file: drive.csv}\n    - {kind: log_distance, exponent: 6, frequency: 868 MHz}",
            "s.yaml:10: access.channel: users that can never be received … trace and log_distance … keep one of them",
        ),
        (
            TRAFFIC,
            "map.csv",
            "holes.csv",
            "s.yaml:11: access.channel.0.file: holes.csv has no line for x_m 100, y_m 100",
        ),
        (
            TRAFFIC,
            "users: 3",
            "users: 4",
            "s.yaml:7: access.topology.placement.file: 3 vehicles for 4 users; set users: 3",
        ),
        (
            TRAFFIC,
            "{kind: radio_map, file: map.csv, relative: true}",
            "{kind: trace, file: short.csv}",
            "s.yaml:11: access.channel.0.after_end: the trace of user 0 ends at 5 s, before the end of the run at 20 s",
        ),
        # bands
        (
            CELL,
            "{kind: fdma}",
            "{kind: fdma, division: given, shares: [0.5, 0.5, 0.5, 0.1]}",
            "s.yaml:13: access.mac.shares: the shares of the users of tower:0 add up to more than the band (1.6)",
        ),
        (
            CELL,
            "{kind: fdma}",
            "{kind: fdma, bandwidth: 1 MHz}",
            "s.yaml:13: access.mac.bandwidth: … access.radio.band",
        ),
        (
            CELL,
            "noise_figure: 5 dB",
            "noise_figure: {distribution: normal, mean: 3, std: 1}",
            "s.yaml:9: access.radio.noise_figure.distribution: unknown value ('normal'); did you mean 'uniform'",
        ),
        (
            CELL,
            "noise_figure: 5 dB",
            "noise_figure: 5 dB, tower: {noise_figure: 3 dB}",
            "s.yaml:9: access.radio.noise_figure: has no effect beside radio.tower.noise_figure … or give the downlink",
        ),
        # policies
        (
            CELL,
            "{kind: uniform, m: 2}",
            "'peeking:Peeking'",
            "s.yaml:17: access.selection.observe.snr_db: the policy reads snr_db, but declares check_in; add snr_db",
        ),
        (
            CELL,
            "{kind: uniform, m: 2}",
            "{kind: uniform, m: 2, observe: {snr_db: check_in}}",
            "s.yaml:17: access.selection.observe.snr_db: has no effect: this selection does not use it; leave it out",
        ),
        (
            CELL,
            "{kind: uniform, m: 2}",
            "{kind: oort, m: 2}",
            "s.yaml:17: access.selection: depends on the learners, but there are none; add data, a model and learners",
        ),
        (
            CELL,
            "{kind: uniform, m: 2}",
            "{kind: by_size, m: 2}",
            "s.yaml:17: access.selection: depends on the users' amounts of data, but there are no data; add data",
        ),
        # updates in part
        (
            LEARNING,
            "average_received",
            "average",
            "s.yaml:21: learners.FedAvg.aggregation: cannot take updates of which the access erases parts ('average')",
        ),
        (
            LEARNING,
            "loss: erase",
            "loss: erase, fec: {data: 4, parity: 2}",
            "s.yaml:16: access.transport.fec.parity: unknown key; did you mean 'total'? (n, all packets of a block)",
        ),
    ],
)
def test_one_mistake_is_one_located_error(scenario, old, new, error, folder):
    assert old in scenario
    (folder / "s.yaml").write_text(scenario.replace(old, new, 1))
    code, output = call("check", "s.yaml")
    output = output.removeprefix("s.yaml: valid keys\n")  # before a dry run, which finds the mistake
    assert code == 2
    assert_messages(output.splitlines(), [error])
    assert call("trace", "s.yaml", "--out", "run", "-q") == (code, output)
