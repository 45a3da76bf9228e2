"""Small files of users that were once read as something else: what each means, or the error that it deserves."""

import numpy as np
import pandas as pd
import pytest

import netfl

LEARNING = {
    "model": "logistic",
    "learners": {"F": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 2, "local_epochs": 1}},
}
DIRECT = {"kind": "stationary", "rho": [0.5, 0.5]}
NETWORK = {
    "kind": "network",
    "topology": {"kind": "star", "placement": {"kind": "disk", "radius": "1 km"}},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "5.5 kbps"},
    "mac": "round_robin",
    "compute": {"speed": 100, "samples": 10},
    "broadcast_rate": "11 kbps",
    "update_size": "1 kB",
    "round": {"kind": "first", "m": 1},
}


def run(folder, access, *, users=2, rounds=3, data="digits", partition="iid"):
    """Run a scenario whose files are in *folder*."""
    scenario = {"name": "misread", "users": users, "rounds": rounds, "access": access, "data": data}
    return netfl.run(scenario | {"partition": partition} | LEARNING, folder / "run")


def run_table(folder, name, users=3):
    data = {"kind": "table", "file": str(folder / name), "features": 1, "labels": 2, "label": "y", "user": "u"}
    access = {"kind": "stationary", "rho": [1 / users] * users}
    return run(folder, access, users=users, data=data | {"test_share": 0.34}, partition="natural")


def run_arrays(folder, **arrays):
    rng = np.random.default_rng(0)
    usual = {"x": rng.standard_normal((20, 2)), "label": np.arange(20) % 2, "user": np.arange(20) // 10}
    np.savez(folder / "own.npz", **(usual | arrays))
    data = {"kind": "arrays", "file": str(folder / "own.npz"), "features": [2], "labels": 2, "test_share": 0.25}
    return run(folder, {"kind": "stationary", "rho": [0.5, 0.5]}, data=data, partition="natural")


def run_availability(folder, name, rounds):
    """Return the users of each round."""
    access = {"kind": "availability", "file": str(folder / name), "round_length": 1}
    found = run(folder, access, rounds=rounds)
    return found, [sorted(group) for _, group in found.deliveries.groupby("round")["user"]]


def run_network(folder, **changes):
    return run(folder, NETWORK | changes)


TABLES = {
    "one cell too many": ("a,y,u\n0,5,0,a\n1,5,1,a\n2,5,0,a\n", r"extra.csv:2: number of cells: 4 instead of 3"),
    "a column that occurs twice": ("a,y,u,y\n0,0,a,1\n1,1,a,0\n2,0,a,1\n", "column y occurs 2 times"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_can_be_read_in_two_ways_are_refused(name, tmp_path):
    text, problem = TABLES[name]
    (tmp_path / "extra.csv").write_text(text)
    with pytest.raises(netfl.ScenarioError, match=problem):
        run_table(tmp_path, "extra.csv")


@pytest.mark.parametrize(
    "names", [("007", "7", "07"), ("12e4", "120000", "1.2e5"), ("NA", "nan", "null"), ("1", "2", "3")]
)
def test_names_of_users_are_text_in_csv_and_in_parquet(names, tmp_path):
    rows = [(index / 8, index % 2, name) for name in names for index in range(4)]
    frame = pd.DataFrame(rows, columns=["a", "y", "u"])
    frame.to_csv(tmp_path / "users.csv", index=False)
    frame.to_parquet(tmp_path / "users.parquet")
    tables = []
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
        (tmp_path / f"users.{kind}").rename(tmp_path / kind / f"users.{kind}")
        found = run_table(tmp_path / kind, f"users.{kind}")
        tables.append(found.deliveries[["round", "user"]].to_numpy().tolist())
    assert tables[0] == tables[1]


def test_durations_are_seconds(tmp_path):
    """Their storage counts milliseconds."""
    rows = {"a": pd.to_timedelta(range(12), unit="s").astype("timedelta64[ms]"), "y": [0, 1] * 6, "u": [0, 1, 2] * 4}
    pd.DataFrame(rows).to_parquet(tmp_path / "durations.parquet")
    (tmp_path / "numbers").mkdir()
    pd.DataFrame(rows | {"a": np.arange(12.0)}).to_parquet(tmp_path / "numbers" / "numbers.parquet")
    found, expected = run_table(tmp_path, "durations.parquet"), run_table(tmp_path / "numbers", "numbers.parquet")
    assert found.metrics["value"].tolist() == expected.metrics["value"].tolist()


ARRAYS = {
    "complex numbers": ({"x": np.ones((20, 2)) + 1j}, "features: values of type complex128 instead of numbers"),
    "users that are no numbers": ({"user": np.full(20, np.nan)}, "users of type float64, such as nan"),
    "users in a matrix": (
        {"user": np.zeros((20, 1), int)},
        r"users of shape \[20, 1\] instead of one for each example",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_not_as_documented_are_refused(name, tmp_path):
    arrays, problem = ARRAYS[name]
    with pytest.raises(netfl.ScenarioError, match=problem):
        run_arrays(tmp_path, **arrays)


def test_values_that_32_bits_cannot_tell_apart_are_warned_of(tmp_path, caplog):
    run_arrays(tmp_path, x=1.7e9 + np.arange(40.0).reshape(20, 2))
    assert "numbers of 32 bits keep less than half of the different values of feature 0, 1" in caplog.text


INTERVALS = {
    "user,start,end": "user,start,end\n0,0,3\n1,1,5\n",
    "user,start_s,end_s": "user,start_s,end_s\n0,0,3\n1,1,5\n",
}


@pytest.mark.parametrize("heading", INTERVALS)
def test_intervals_of_availability(heading, tmp_path):
    (tmp_path / "intervals.csv").write_text(INTERVALS[heading])
    assert run_availability(tmp_path, "intervals.csv", 5)[1] == [[0], [0, 1], [0, 1], [1], [1]]


def test_intervals_of_availability_in_columns(tmp_path):
    pd.DataFrame({"user": [0, 1], "start": [0, 1], "end": [3.0, 5.0]}).to_parquet(tmp_path / "intervals.parquet")
    assert run_availability(tmp_path, "intervals.parquet", 5)[1] == [[0], [0, 1], [0, 1], [1], [1]]


def test_durations_of_availability_are_seconds(tmp_path):
    times = [[pd.Timedelta(3, "s").to_timedelta64()], [pd.Timedelta(5, "s").to_timedelta64()]]
    pd.DataFrame({"user": [0, 1], "start": [True, False], "times": times}).to_parquet(tmp_path / "times.parquet")
    assert run_availability(tmp_path, "times.parquet", 7)[1] == [[0], [0], [0], [1], [1]]


def test_availability_without_a_change_in_the_run_is_warned_of(tmp_path):
    (tmp_path / "unix.csv").write_text("user,start,times\n0,on,1600000000000\n1,off,1600000003000\n")
    found, users = run_availability(tmp_path, "unix.csv", 3)
    assert users == [[0]] * 3
    assert found.manifest["warnings"] == [
        "access.file: no change in unix.csv falls into the run, which ends at 3 s; check the unit of its times"
    ]


def test_a_key_of_availability_that_occurs_twice_is_refused(tmp_path):
    (tmp_path / "twice.json").write_text('[{"user":0,"start":true,"times":[3],"times":[6]},{"user":1,"times":[5]}]')
    with pytest.raises(netfl.ScenarioError, match="the key 'times' occurs 2 times"):
        run_availability(tmp_path, "twice.json", 3)


@pytest.mark.parametrize("rows", ["", "0,1711843200,1711929600\n"])
def test_a_calendar_without_an_outage_in_the_run_is_warned_of(rows, tmp_path):
    (tmp_path / "down.csv").write_text(f"node,start,end\n{rows}")
    found = run_network(tmp_path, outages=[{"kind": "calendar", "file": str(tmp_path / "down.csv")}])
    (warning,) = found.manifest["warnings"]
    assert warning.startswith("access.outages.0, calendar: no time in its file falls into the run")


def test_compact_dates_of_a_calendar(tmp_path):
    """The day after the origin is down: no round ends within it."""
    (tmp_path / "down.csv").write_text("node,start,end\n0,20240331,20240401\n1,20240331,20240401\n")
    outage = {"kind": "calendar", "file": str(tmp_path / "down.csv"), "origin": "2024-03-30"}
    found = run(
        tmp_path,
        NETWORK | {"outages": [outage], "round": {"kind": "first", "deadline": "12 h", "losses": "unknown"}},
        rounds=8,
    )
    delivered = found.rounds.set_index("opened_s")["delivered"]
    assert delivered[[0.0, 43200.0]].tolist() == [2, 2]
    assert delivered[[86400.0, 129600.0]].tolist() == [0, 0]


REFUSED = {
    "a calendar with two starts": (
        "down.csv",
        "node,start,start_s,end\n0,1 h,7200,3 h\n",
        lambda file: {"outages": [{"kind": "calendar", "file": file}]},
        "columns start and start_s, which mean the same",
    ),
    "a decimal comma in a trajectory": (
        "walk.csv",
        "user,time_s,x_m,y_m\n0,0,100,5,0\n1,0,50,0,0\n",
        lambda file: {"motion": {"kind": "trajectory", "file": file}},
        "walk.csv:2: number of cells: 5 instead of 4",
    ),
    "a column of a trajectory that occurs twice": (
        "walk.csv",
        "user,time_s,x_m,y_m,x_m\n0,0,100,0,7\n1,0,50,0,7\n",
        lambda file: {"motion": {"kind": "trajectory", "file": file}},
        "column x_m occurs 2 times",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_of_networks_that_can_be_read_in_two_ways_are_refused(name, tmp_path):
    file, text, section, problem = REFUSED[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(netfl.ScenarioError, match=problem):
        run_network(tmp_path, **section(str(tmp_path / file)))


NODES = (
    '"nodes": [{"id": "S", "role": "server", "x_m": 0, "y_m": 0}, {"id": "T", "role": "tower", "x_m": 1000, "y_m": 0}]'
)


SPEED = ("LinkSpeed", "LinkSpeedUnits")
"""Attributes of a link."""


def run_links(folder, link):
    """Run a network file with one link; return the delays of its updates."""
    (folder / "net.json").write_text(f'{{{NODES}, "links": [{{"source": "S", "target": "T", {link}}}]}}')
    topology = {"kind": "file", "file": str(folder / "net.json"), "placement": {"kind": "disk", "radius": "1 km"}}
    deliveries = run_network(folder, topology=topology).deliveries
    return (deliveries["arrived_s"] - deliveries["sent_s"]).tolist()


def test_the_delay_of_a_link_may_have_a_unit(tmp_path):
    (tmp_path / "other").mkdir()
    with_unit = run_links(tmp_path, '"rate_bps": 1000000000.0, "delay_s": "10 ms"')
    assert with_unit == run_links(tmp_path / "other", '"rate_bps": 1000000000.0, "delay_s": 0.01')
    assert min(with_unit) > 0.01


def test_a_key_of_a_network_file_that_occurs_twice_is_refused(tmp_path):
    with pytest.raises(netfl.ScenarioError, match="the key 'rate_bps' occurs 2 times"):
        run_links(tmp_path, '"rate_bps": 1000000, "rate_bps": 1000, "delay_s": 0.01')


def test_a_speed_without_its_unit_does_not_replace_the_rate(tmp_path):
    """In files of the Internet Topology Zoo, ``LinkSpeed`` is a number of its ``LinkSpeedUnits``."""
    keys = ["role", "Latitude", "Longitude"]
    heads = "".join(f'<key id="{key}" for="node" attr.name="{key}" attr.type="string"/>' for key in keys)
    heads += "".join(f'<key id="{key}" for="edge" attr.name="{key}" attr.type="string"/>' for key in SPEED)
    nodes = "".join(
        f'<node id="{name}"><data key="role">{role}</data><data key="Latitude">0</data>'
        f'<data key="Longitude">{place}</data></node>'
        for name, role, place in (("S", "server", 0.5), ("T", "tower", -0.5))
    )
    link = '<edge source="S" target="T"><data key="LinkSpeed">155</data><data key="LinkSpeedUnits"></data></edge>'
    text = f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{heads}<graph edgedefault="undirected">'
    (tmp_path / "net.graphml").write_text(f"{text}{nodes}{link}</graph></graphml>")
    topology = {"kind": "file", "file": str(tmp_path / "net.graphml"), "rate": "1 Gbps"}
    topology["placement"] = {"kind": "disk", "radius": "1 km"}
    deliveries = run_network(tmp_path, topology=topology, channel=[{"kind": "constant", "gain": "-60 dB"}]).deliveries
    assert (deliveries["arrived_s"] - deliveries["sent_s"]).max() < 3  # 8,000 bits at 155 bit/s take 52 s


def test_users_without_examples_of_leaf_are_refused(tmp_path):
    one = '{"x": [[1.0, 2.0], [2.0, 1.0], [0.0, 1.0]], "y": [0, 1, 2]}'
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.json").write_text(
            f'{{"users": ["a", "b", "c"], "num_samples": [5, 3, 3], "user_data": {{"a": {one}, "b": {one}}}}}'
        )
    data = {"kind": "leaf", "folder": str(tmp_path), "features": [2], "labels": 3}
    with pytest.raises(netfl.ScenarioError, match="users and user_data differ in c"):
        run(tmp_path, {"kind": "stationary", "rho": [0.5, 0.5]}, data=data, partition="natural")
