"""Tables of times, and run directories."""

import numpy as np
import pandas as pd
import pytest
from support.error_messages import assert_messages

import netfl
from netfl.diagnosis.timeout import advise, read_log, read_run
from netfl.diagnosis.timeout.trials import ScenarioTrials, TimeoutRule
from netfl.errors import ScenarioError

SCENARIO = {
    "name": "small", "users": 6, "rounds": 10, "replicas": 4,
    "access": {
        "kind": "network", "round": {"kind": "quorum", "quorum": 1, "deadline": "1 h"},
        "topology": {"kind": "star", "radius": "100 m"},
        "radio": {"power": "14 dBm", "bandwidth": "1 MHz"},
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "500 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.2}, "broadcast_rate": "100 kbps", "update_size": "10 kB",
        "compute": {"speed": 50, "samples": 100, "jitter": 0.5},
    },
}  # fmt: skip


def written(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def errors_of(path):
    with pytest.raises(ScenarioError) as raised:
        read_log(path)
    return [str(fault) for fault in raised.value.faults]


def test_parts_add_up_and_failures_do_not_arrive(tmp_path):
    log = """\
round,user,download_s,training_s,upload_s,outcome,attempts
1,ann,1,2,3,delivered,2
1,bob,1,1,,lost,1
2,ann,1,4,3,delivered,1
2,bob,1,2,2,failed,1
2,cy,1,1,1,delivered,5
"""
    arrivals = read_log(written(tmp_path, log))
    assert arrivals.names == ["ann", "bob", "cy"]
    assert arrivals.round.tolist() == [0, 1, 1]
    assert arrivals.user.tolist() == [0, 0, 2]
    assert arrivals.arrived_s.tolist() == [6.0, 8.0, 3.0]
    assert arrivals.sizes.tolist() == [2, 3]
    assert arrivals.over_s.tolist() == [np.inf, 8.0]  # of bob's first update the server learns nothing
    assert arrivals.attempts.tolist() == [2, 1, 5]


def test_forms_of_a_table_are_read_alike(tmp_path):
    table = pd.DataFrame({"round": [3, 3, 3, 8], "user": [7, 9, 11, 7], "total_s": [1.5, 2.0, np.nan, 4.0]})
    table.to_csv(tmp_path / "a.csv", index=False, sep=";")
    table.to_parquet(tmp_path / "a.parquet")
    first = read_log(tmp_path / "a.csv")
    second = read_log(tmp_path / "a.parquet")
    for arrivals in (first, second):
        assert arrivals.names == ["11", "7", "9"]
        assert arrivals.arrived_s.tolist() == [1.5, 2.0, 4.0]
        assert arrivals.sizes.tolist() == [3, 1]


def test_replicas_have_rounds_of_their_own(tmp_path):
    log = "replica,round,user,total_s\n0,1,a,1\n0,1,b,2\n1,1,a,3\n1,1,b,4\n"
    assert read_log(written(tmp_path, log)).sizes.tolist() == [2, 2]


def test_wrong_rows_are_located(tmp_path):
    log = """\
round,user,training_s,upload_s,outcome
1,a,3,2,delivered
1,b,-3,2,delivered
1,c,nan,2,delivered
2,a,3,,delivered
2,b,x,2,failed
2,b,1,2,failed
2,,1,2,failed
1.5,d,1,2,failed
"""
    patterns = [
        "log.csv:3: column training_s: not a duration … check its unit",
        "log.csv:4: column training_s: not a number … leave the cell empty",
        "log.csv:5: a delivered update without a time; fill it in",
        "log.csv:6: column training_s: not a number ('x')",
        "log.csv:7: user b occurs twice in round 2",
        "log.csv:8: column user: an empty cell",
        "log.csv:9: column round: not a whole number",
    ]
    assert_messages(errors_of(written(tmp_path, log)), patterns)


@pytest.mark.parametrize(
    ("log", "pattern"),
    [
        ("user,total_s\na,1\n", "log.csv has no column round"),
        ("round,user\n1,a\n", "log.csv has no column of times; add total_s, or some of download_s"),
        ("round,user,total_ms\n1,a,3\n", "log.csv has the column total_ms … write seconds … 'total_s'"),
        ("round,user,training_s,upload_min\n1,a,3,1\n", "log.csv has the column upload_min … write seconds"),
        ("round,user,total_s,upload_s\n1,a,3,2000\n", "log.csv:2: total_s is less … 2000 s … all are in seconds"),
        ("round,user,total_s,outcome\n1,a,3,ok\n", "log.csv: column outcome: no update is 'delivered' ('ok'); write"),
    ],
)
def test_wrong_columns_are_named(tmp_path, log, pattern):
    assert_messages(errors_of(written(tmp_path, log)), [pattern])


@pytest.mark.slow
def test_log_and_run_and_scenario_agree(tmp_path):
    """A run of the scenario, its table of times as a log, and the scenario simulated again give the same advice."""
    scenario = netfl.load(SCENARIO)
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    table = run.deliveries.merge(run.rounds, on=["replica", "round"])
    table["total_s"] = table["arrived_s"] - table["opened_s"]
    table[["replica", "round", "user", "total_s", "attempts"]].to_csv(tmp_path / "log.csv", index=False)
    of_run = advise(read_run(tmp_path / "run"))
    of_scenario = advise(ScenarioTrials(scenario, 40).arrivals(TimeoutRule(3600.0)))
    of_log = advise(read_log(tmp_path / "log.csv"))
    for other in (of_scenario, of_log):
        assert other.best.rule == of_run.best.rule
        assert other.best.time_s == pytest.approx(of_run.best.time_s, rel=1e-9)
        assert other.max_attempts == of_run.max_attempts


def test_runs_without_all_arrivals_are_refused(tmp_path):
    first = netfl.load(SCENARIO, {"access.round": {"kind": "first", "m": 2}, "replicas": 1})
    netfl.trace(first, tmp_path / "first", progress=False)
    with pytest.raises(ScenarioError, match=r"close before all updates arrive.*scenario.yaml"):
        read_run(tmp_path / "first")
