"""Short runs with known digests of the columns of their tables; ``python tests/golden.py`` updates the digests.

Numbers are rounded to `netfl.results.digests.DIGITS` digits first, so that the digests do not depend on the last bits
of a processor's logarithms.
"""

import json
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import netfl
from netfl.results import digests
from netfl.results.run_reader import open_run
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

ROOT = Path(__file__).parents[1]
KNOWN = Path(__file__).with_name("golden.json")
NETWORK = {
    "kind": "network",
    "round": {"kind": "first", "m": 2, "deadline": "2 min"},
    "topology": {"kind": "star", "radius": "1.2 km", "rate": "1 Mbps", "delay": "5 ms"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [
        {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
        {"kind": "lognormal_shadowing", "sigma": "3 dB"},
        {"kind": "rayleigh", "coherence": "2 s"},
    ],
    "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "20 kbps"},
    "unreachable": "keep",
    "mac": {"kind": "slotted_aloha", "probability": 0.15},
    "compute": {"speed": 10.0, "spread": 0.5, "samples": 50},
    "broadcast_rate": "50 kbps",
    "update_size": "10 kbit",
}
EXPONENTIAL = {"distribution": "exponential", "mean": "3 min"}
DIRECT = [
    "adversarial", "availability", "bernoulli", "bursty", "correlated", "cyclic", "drifting", "markov", "replay",
    "stationary", "time_varying",
]  # fmt: skip
"""Direct accesses, by the names of their files."""
NETWORKS = {
    "slotted aloha": {},
    "tdma": {"mac": {"kind": "tdma"}},
    "proportional fair": {"mac": {"kind": "proportional_fair", "window": 10}},
    "lorawan": {
        "reception": {"kind": "lora"}, "mac": {"kind": "lorawan", "max_attempts": 3}, "update_size": "30 B",
        "interference": "collide",
    },
    "packets and queues": {
        "topology": {"kind": "tree", "fanout": [1, 2], "ring": "400 m", "radius": "1 km", "rate": "20 kbps",
                     "delay": "10 ms"}, "queue": {"kind": "drop_tail", "capacity": 6},
        "transport": {"grain": "packet", "mtu": "200 B", "header": "20 B", "arq": {"timeout": "15 s", "retries": 3}},
        "mac": {"kind": "round_robin", "poll": "10 ms"},
    },
    "outages": {
        "outages": [
            {"kind": "renewal", "nodes": "users", "up": EXPONENTIAL,
             "down": {"distribution": "weibull", "mean": "1 min", "shape": 0.7}},
            {"kind": "regional", "center": [0, 0], "radius": "400 m", "up": EXPONENTIAL, "down": EXPONENTIAL},
        ],
    },
    "mobility": {"motion": {"kind": "random_waypoint", "radius": "1.2 km", "speed": [1, 3], "pause": [0, 30]}},
    "buffered": {"round": {"kind": "buffered", "size": 3}},
    "asynchronous": {"round": "asynchronous"},
}  # fmt: skip
"""Overrides of `NETWORK`."""
DCF = {
    "topology": {"kind": "star", "distance": "10 m"}, "mac": {"kind": "csma_ca", "standard": "802.11a"},
    "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1500 B"}, "destination": "tower"},
}  # fmt: skip
LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
LOOP = {
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 80}, "partition": "iid", "model": "logistic",
    "learners": {"FedAvg": LEARNER},
}  # fmt: skip


def make_scenario(name, access, **overrides):
    """Return a scenario of eight users."""
    return validate(
        ScenarioDocument({"name": name, "seed": 4, "users": 8, "rounds": 6, "access": access, **overrides}, name)
    )


def run_named(name, folder):
    """Run the scenario of this name below *folder* and return the run directory."""
    run_folder = folder / name
    if name in DIRECT:
        with chdir(ROOT):
            overrides = {"rounds": 30, "replicas": 1 if name == "replay" else 2}
            return netfl.trace(netfl.load(f"scenarios/access/{name}.yaml", overrides), run_folder).folder
    if name == "csma":
        access = {"kind": "network", **DCF}
        return netfl.trace(make_scenario(name, access, rounds=None, duration="0.2 s", record="all"), run_folder).folder
    if name == "closed loop, replayed":
        access = NETWORK | {"selection": {"kind": "power_of_choice", "d": 6, "m": 3}}
        live = netfl.run(make_scenario(name, access, **LOOP), folder / "live", device="cpu")
        return netfl.trace(make_scenario(name, {"kind": "replay", "run": str(live.folder)}), run_folder).folder
    return netfl.trace(make_scenario(name, NETWORK | NETWORKS[name], record="all"), run_folder).folder


NAMES = [*DIRECT, *NETWORKS, "csma", "closed loop, replayed"]


def table_digests(folder):
    """Return the number of rows of each table of a run, and the digest of each of its columns."""
    run = open_run(folder)
    tables = {}
    for path in sorted(folder.glob("*.parquet")):
        tables[path.stem] = {"rows": len(run.table(path.stem)), **digests.column_digests(path, digests.DIGITS)}
    return tables


def changes(before, now):
    """Yield scenario, table and column of each digest or number of rows that changed, and its values."""
    for name in sorted(before.keys() | now.keys()):
        old_tables, new_tables = before.get(name, {}), now.get(name, {})
        for table in sorted(old_tables.keys() | new_tables.keys()):
            old, new = old_tables.get(table, {}), new_tables.get(table, {})
            for column in sorted(old.keys() | new.keys()):
                if old.get(column) != new.get(column):
                    yield f"{name}: {table}: {column}", old.get(column, "none"), new.get(column, "none")


def main():
    """Update the digests and print the changed ones."""
    before = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        now = {name: table_digests(run_named(name, Path(folder))) for name in NAMES}
    for place, old, new in changes(before, now):
        sys.stdout.write(f"{place}: {old} before, {new} now\n")
    KNOWN.write_text(json.dumps(now, indent=1) + "\n")


if __name__ == "__main__":
    main()
