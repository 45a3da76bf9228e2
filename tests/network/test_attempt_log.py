"""The record of attempts over the air: rows of the table, events, and counts by user and outcome."""

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages
from support.mixed_cell import build_simulation, packets
from support.recorders import Memory
from support.run_invariants import Tables, check_attempts

import netfl
from netfl.core.columns import columns_of
from netfl.errors import ScenarioError
from netfl.network.attempt_log import Attempt, AttemptLog
from netfl.network.layout import NodeId
from netfl.network.radio.transmission import Frames, Transmission
from netfl.results.tables import SCHEMAS

NETWORK = {
    "kind": "network",
    "round": {"kind": "first", "m": 2, "deadline": 20.0},
    "topology": {"kind": "star", "radius": "1 km"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": 1}],
    "reception": {"kind": "snr_threshold", "threshold": "10 dB", "rate": "10 kbps"},
    "unreachable": "keep",
    "mac": {"kind": "slotted_aloha", "probability": 0.3, "max_attempts": 3},
    "compute": {"speed": 10, "spread": 0.5, "samples": 20},
    "broadcast_rate": "1 Mbps",
    "update_size": "10 kbit",
}


def trace(tmp_path, record, rounds=12, users=10, **overrides):
    """Trace the network with *overrides* and return the run."""
    scenario = {"name": "attempts", "users": users, "rounds": rounds, "record": record, "access": NETWORK | overrides}
    return netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)


def check_sums(run):
    """Check that events, attempts, users and metrics of a run of one replica agree."""
    tables = run.rounds, run.deliveries, run.events, run.energy, run.final_metrics_of([0])[0], run.users, run.attempts
    check_attempts(Tables(*tables))


def part_of(recorder):
    """Return the rows that a recorder has received, with words as strings."""
    return pd.concat([pd.DataFrame(part) for part in recorder.attempts], ignore_index=True)


def test_columns_are_those_declared():
    recorder = Memory("attempts")
    simulation = build_simulation(recorder, packets([0.0]), [np.inf])
    simulation.env.run(until=5.0)
    simulation.event_log.attempts.flush()
    [part] = recorder.attempts
    names = [column.name for column in columns_of(Attempt)]
    assert [*part] == names
    assert ["replica", *names] == SCHEMAS["attempts"].names


def test_rows_of_updates_and_packets():
    """An update of 2 s fails twice; a packet of 1 s, ready later, follows it on the same channel."""
    recorder = Memory()
    simulation = build_simulation(recorder, packets([1.5]), [1.0], busy=lambda end_s: end_s < 6.0)
    simulation.tower.schedule_broadcast(4, 0.0)
    simulation.env.run(until=10.0)
    simulation.event_log.attempts.flush()
    rows = part_of(recorder)
    assert rows["start_s"].tolist() == [1.0, 3.0, 5.0, 7.0]
    assert (rows["end_s"] - rows["start_s"]).tolist() == rows["airtime_s"].tolist() == [2.0, 2.0, 2.0, 1.0]
    assert rows["bits"].tolist() == [2.0, 2.0, 2.0, 1.0]
    assert rows["outcome"].tolist() == ["collided", "collided", "received", "received"]
    assert rows["base"].tolist() == [4, 4, 4, -1]
    assert rows[["round", "user", "channel", "mode"]].drop_duplicates().to_numpy().tolist() == [[1, 0, 0, 0]]
    assert rows["node"].unique().tolist() == ["tower:0"]
    failed = [(row[1], row[6]) for row in recorder.rows if row[0] == "failed"]
    assert failed == [(3.0, "collided"), (5.0, "collided")]
    assert [row[1] for row in recorder.rows if row[0] == "sent"] == [1.0, 3.0, 5.0, 7.0]


def test_attempt_of_a_replaced_update_is_an_event_and_a_row():
    """Version 1 arrives while the update from version 0 is on the air, in vain."""
    recorder = Memory()
    simulation = build_simulation(recorder, packets([]), [1.0], busy=lambda end_s: end_s < 4.0)
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.tower.schedule_broadcast(1, 2.0)
    simulation.env.run(until=8.0)
    simulation.event_log.attempts.flush()
    rows = part_of(recorder)
    assert rows[["base", "outcome"]].to_numpy().tolist() == [[0, "collided"], [1, "received"]]
    assert [(row[0], row[1], row[6]) for row in recorder.rows if row[0] in {"failed", "superseded"}] == [
        ("failed", 3.0, "collided"),
        ("superseded", 3.0, ""),
    ]


def test_nothing_is_kept_without_a_request():
    recorder = Memory("delivered")
    simulation = build_simulation(recorder, packets([0.0]), [np.inf])
    log = simulation.event_log.attempts
    assert not log.records_starts
    assert not log.records_ends
    simulation.env.run(until=5.0)
    log.flush()
    assert recorder.attempts == []
    assert sum(simulation.cell.transmit_path.counts[""]) == 1


def test_failures_of_a_transmission_are_those_of_its_lost_frames():
    """Of three simultaneous frames the first is received."""
    recorder = Memory("failed")
    users = np.array([4, 5, 6])
    frames = Frames(users, 1000.0, None)
    transmission = Transmission(frames, users, range(3), NodeId("tower:0", 10), 0, 0.0, 1.0, 0, None, None)
    AttemptLog(recorder).end(transmission, ["", "collided", "faded"], np.array([20.0, 3.0, 1.0]), 1.0)
    failed = [(user, snr_db, cause) for _, _, _, user, _, snr_db, cause in recorder.rows]
    assert failed == [(5, 3.0, "collided"), (6, 1.0, "faded")]


def test_many_attempts_are_recorded_in_parts(monkeypatch):
    monkeypatch.setattr("netfl.network.attempt_log._CHUNK", 4)
    recorder = Memory("attempts")
    simulation = build_simulation(recorder, packets([*np.arange(10.0)]), [np.inf])
    simulation.env.run(until=20.0)
    assert [len(part["user"]) for part in recorder.attempts] == [4, 4]
    simulation.event_log.attempts.flush()
    assert part_of(recorder)["start_s"].tolist() == [*np.arange(10.0)]


ALL = {"events": "all", "attempts": True}


class TestSums:
    """Counts by user and outcome add up to the metrics, whatever a frame carries and wherever it is sent."""

    @pytest.mark.parametrize(
        "overrides",
        [
            {},
            {"exempt": {"contention": [0, 4], "fading": 2}},
            {"topology": {"kind": "tree", "fanout": [1, 3], "ring": "500 m", "radius": "1 km"}},
            {"transport": {"grain": "packet", "mtu": "500 B", "header": "20 B", "arq": {"timeout": 5, "retries": 2}}},
            {"traffic": {"kind": "poisson", "rate": 0.1, "size": {"mean": "100 B"}}},
            {"mac": {"kind": "tdma"}, "on_new_version": "finish"},
            {
                "outages": [{
                    "kind": "renewal", "nodes": "users", "up": {"distribution": "exponential", "mean": 20},
                    "down": {"distribution": "exponential", "mean": 5},
                }],
            },
        ],
        ids=["plain", "isolated cells", "towers", "packets", "traffic", "schedule", "outages"],
    )  # fmt: skip
    @pytest.mark.quick_first
    def test_of_networks(self, tmp_path, overrides):
        run = trace(tmp_path, ALL, **overrides)
        check_sums(run)
        assert run.summary["attempts"] > 20

    def test_of_a_run_that_ends_with_frames_on_the_air(self, tmp_path):
        run = trace(tmp_path, ALL, 1, round={"kind": "first", "m": 10, "deadline": 9.5})
        check_sums(run)
        unfinished = run.attempts[run.attempts["outcome"] == "unfinished"]
        assert len(unfinished) > 0
        assert (unfinished["end_s"] >= run.rounds["closed_s"].max()).all()
        assert run.attempts["bits"].sum() == run.rounds["uplink_bits"].sum()


class TestRecord:
    """`record` chooses which attempts are stored."""

    def test_attempts_are_not_stored_by_default(self, tmp_path):
        run = trace(tmp_path, "all")
        assert not (run.folder / "attempts.parquet").exists()
        assert run.attempts.empty
        assert run.attempts.columns.tolist() == SCHEMAS["attempts"].names
        assert run.users["attempts"].sum() == run.summary["attempts"]

    def test_attempts_without_events(self, tmp_path):
        run = trace(tmp_path, {"events": "none", "attempts": True})
        assert run.events.empty
        assert len(run.attempts) >= run.summary["attempts"] > 0

    @pytest.mark.slow
    def test_some_users_and_rounds(self, tmp_path):
        whole = trace(tmp_path / "whole", {"attempts": True}).attempts
        run = trace(tmp_path / "some", {"attempts": True, "users": [1, 7], "every": 3})
        kept = whole[whole["user"].isin([1, 7]) & (whole["round"] % 3 == 1)].reset_index(drop=True)
        pd.testing.assert_frame_equal(run.attempts, kept, check_categorical=False)
        assert run.users["attempts"].sum() == run.summary["attempts"] > len(run.attempts) > 0

    def test_attempts_of_an_access_without_air(self):
        scenario = {"name": "x", "users": 3, "rounds": 2, "record": {"attempts": True}}
        with pytest.raises(ScenarioError) as error:
            netfl.load(scenario | {"access": {"kind": "bernoulli", "probability": 0.5}})
        assert_messages(str(error.value).splitlines(), ["record.attempts: … nothing is sent"])

    def test_simulation_has_the_tables(self):
        scenario = {"name": "x", "users": 4, "rounds": 3, "record": {"attempts": True}, "access": NETWORK}
        with netfl.Simulation(scenario) as simulation:
            simulation.step()
            assert "attempts" not in simulation.snapshot()["users"]
            simulation.finish()
            tables = simulation.snapshot()
        assert tables["users"]["attempts"].sum() == (tables["attempts"]["outcome"] != "unfinished").sum() > 0


@pytest.mark.parametrize(
    ("reception", "names"),
    [
        ({"kind": "lora"}, {"SF7", "SF8", "SF9", "SF10", "SF11", "SF12"}),
        ({"kind": "mcs", "standard": "802.11a"}, {"BPSK 1/2", "QPSK 3/4", "64-QAM 3/4"}),
        ({"kind": "mcs", "standard": "lte"}, {"CQI 1", "CQI 15"}),
        ({"kind": "mcs", "table": [{"kind": "modulation", "scheme": "16qam", "code_rate": 0.75}]}, {"16qam 0.75"}),
        ({"kind": "snr_threshold", "threshold": "0 dB", "rate": 1000}, {""}),
    ],
)
def test_names_of_modes(reception, names):
    model = netfl.load({"name": "x", "users": 2, "rounds": 1, "access": NETWORK | {"reception": reception}})
    reception = model.access.reception
    assert names <= {reception.mode_name(mode) for mode in range(reception.modes)}
