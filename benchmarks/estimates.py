"""Compare the estimates of ``netfl check`` with runs: processor time, memory and disk.

    python benchmarks/estimates.py [NAME ...]

Each case is checked and run in processes of its own.  The time is that after the start of Python, the memory is the
maximum of the process, the disk is that of the tables and their streams at the end of the run.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import netfl
from netfl.scenario.scenario import Scenario
from netfl.simulation.dry_run import run_dry

CELL = {
    "kind": "network",
    "round": {"kind": "first", "m": 3, "deadline": "20 s"},
    "topology": {"kind": "star", "radius": "500 m"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "log_distance", "exponent": 3.5, "reference_distance": "1 m", "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": "50 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.08},
    "compute": {"speed": 100, "samples": 30},
    "update_size": "10 kbit",
    "broadcast_rate": "50 kbps",
}
TRAFFIC = {
    "kind": "network",
    "topology": {"kind": "star", "radius": "200 m"},
    "traffic": {"kind": "poisson", "rate": 20, "source": "towers"},
}
RECORDED = {"record": {"events": "all", "attempts": True}}
LEARNING = {
    "data": "digits",
    "partition": "iid",
    "model": {"kind": "mlp", "hidden": [64]},
    "learners": {
        name: {"objective": "erm", "aggregation": name, "lr": 0.05, "batch_size": 16, "local_epochs": 2}
        for name in ("average", "scaffold")
    },
    "evaluate": {"every": 10},
}
BERNOULLI = {"kind": "bernoulli", "probability": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "direct": {
        "users": 10,
        "rounds": 2_000_000,
        "access": {"kind": "stationary", "rho": {"zipf": 1}},
        "record": "none",
    },
    "direct, long": {
        "users": 10,
        "rounds": 8_000_000,
        "access": {"kind": "stationary", "rho": {"zipf": 1}},
        "record": "none",
    },
    "bernoulli": {"users": 50, "rounds": 100_000, "access": BERNOULLI, "record": "none"},
    "direct, events": {"users": 50, "rounds": 20_000, "access": BERNOULLI},
    "short replicas": {"users": 10, "rounds": 20, "replicas": 1000, "access": BERNOULLI, "record": "none"},
    "short replicas, events": {"users": 10, "rounds": 20, "replicas": 1000, "access": BERNOULLI},
    "short network replicas": {"users": 10, "rounds": 5, "replicas": 300, "access": CELL},
    "network": {"users": 30, "rounds": 2000, "access": CELL, "record": "none"},
    "network, recorded": {"users": 30, "rounds": 2000, "access": CELL, **RECORDED},
    "one long round": {
        "users": 200,
        "rounds": 2,
        "access": CELL | {"round": {"kind": "first", "m": 200, "deadline": "2 h"}, "update_size": "1 kbit"},
        **RECORDED,
    },
    "traffic": {"users": 50, "duration": "1 h", "access": TRAFFIC, "record": "none"},
    "traffic, recorded": {"users": 50, "duration": "1 h", "access": TRAFFIC, **RECORDED},
    "learning": {"users": 20, "rounds": 300, "access": BERNOULLI, **LEARNING},
    "learning, replicas": {"users": 20, "rounds": 20, "replicas": 40, "access": BERNOULLI, **LEARNING},
    "learning, versions": {
        "users": 20,
        "rounds": 300,
        "access": BERNOULLI,
        **LEARNING,
        "record": {"versions": True, "events": "all"},
    },
}
"""Scenarios of all kinds of runs whose estimates have different terms."""


def main() -> None:
    """Print a table of estimates and measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or [*CASES]
    if options.child is not None:
        scenario = netfl.load({"name": "estimate", **CASES[names[0]]})
        print(json.dumps(CHILDREN[options.child](scenario)))
        return
    print(f"{'case':24}" + "".join(f"{name:>30}" for name in ("time s", "memory MB", "disk MB")))
    for name in names:
        estimate, measured = (measure(name, kind) for kind in CHILDREN)
        cells = [
            f"{estimate[key] / unit:9.3g} /{measured[key] / unit:9.3g} ={estimate[key] / measured[key]:6.2f}"
            for key, unit in (("time_s", 1), ("memory", 1e6), ("disk", 1e6))
        ]
        print(f"{name:24}" + "".join(f"{cell:>30}" for cell in cells), flush=True)


def measure(name: str, kind: str) -> Mapping[str, float]:
    """Estimate or measure a case in a new process."""
    command = [sys.executable, __file__, name, "--child", kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    values: Mapping[str, float] = json.loads(done.stdout)
    return values


def estimate_case(scenario: Scenario) -> dict[str, float]:
    """Return what ``netfl check`` estimates."""
    dry_run = run_dry(scenario)
    return {
        "time_s": dry_run.seconds,
        "memory": dry_run.memory,
        "disk": dry_run.disk,
    }


def run_case(scenario: Scenario) -> dict[str, float]:
    """Run a scenario, and return its processor time in s, its memory and the most bytes of its files."""
    most_files = 0.0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal most_files
        if event == "os.rename" and str(arguments[0]).endswith("parquet.part"):
            most_files = max(most_files, size_of(Path(arguments[0]).parent))

    sys.addaudithook(watch)
    with TemporaryDirectory() as folder:
        started_s = time.process_time()
        netfl.run(scenario, Path(folder) / "run", progress=False, device="cpu")
        return {
            "time_s": time.process_time() - started_s,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
            "disk": max(most_files, size_of(Path(folder))),
        }


def size_of(folder: Path) -> float:
    """Return the bytes of the files below *folder*."""
    return float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


CHILDREN = {"estimate": estimate_case, "run": run_case}
"""Functions that a child process can call with a case, by name."""


if __name__ == "__main__":
    main()
