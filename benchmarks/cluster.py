"""A sweep on a Ray cluster of three nodes compared with a local sweep: equal tables, even if a node is killed.

The nodes are processes of this machine, so the times show the overhead of the cluster, not its gain: with as many cores
as nodes the two engines would be about equally fast.  In the third row a node is killed once a quarter of the tasks is
done.

    python benchmarks/cluster.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ray.cluster_utils import Cluster as Nodes

import netfl
from netfl.scenario.scenario import Scenario, validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.workers.ray_cluster import Cluster
from netfl.sweeps import Engine, LocalEngine, Sweep, SweepObserver, TaskUpdate
from netfl.sweeps.ray_engine import RayEngine

TABLES = ("metrics", "final_metrics", "rounds", "deliveries", "events", "users")
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
PROBABILITIES, USERS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), (5, 10, 15, 20)


def scenario(rounds: int) -> Scenario:
    """Return a sweep of 24 tasks: two learners in two replicas."""
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 5}
    settings = {
        "name": "cluster",
        "users": 10,
        "rounds": rounds,
        "replicas": 2,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "blobs", "centers": [[0, 0], [2, 2], [0, 3]], "samples": 600},
        "partition": "iid",
        "model": {"kind": "mlp", "hidden": [16]},
        "learners": {"FedAvg": learner, "slow": learner | {"lr": 0.01}},
        "evaluate": {"every": 10},
        "sweep": {"access.probability": [*PROBABILITIES], "users": [*USERS]},
    }
    return validate(ScenarioDocument(settings, "cluster"))


class Counting(SweepObserver):
    """Counts how often each task ended and was restarted, and calls *act* once a quarter of the tasks is done."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.ended: dict[str, int] = {}
        self.progress: dict[str, int] = {}
        self.restarts = 0
        self._act = act

    def on_update(self, update: TaskUpdate) -> None:
        """Count the end or the progress of a task."""
        if not update.ended:
            self.restarts += update.round < self.progress.get(update.task, 0)
            self.progress[update.task] = update.round
            return
        self.ended[update.task] = self.ended.get(update.task, 0) + 1
        if len(self.ended) == len(PROBABILITIES) * len(USERS) // 4:
            self._act()


def run_sweep(folder: Path, rounds: int, engine: Engine, watch: Counting) -> tuple[Sweep, float]:
    """Run the sweep; return it and its duration in seconds."""
    begin = time.perf_counter()
    return netfl.sweep(scenario(rounds), folder, engine=engine, observer=watch), time.perf_counter() - begin


def print_row(name: str, seconds: float, found: Sweep, expected: Sweep, watch: Counting) -> bool:
    """Print a row; return whether all tasks are done once and all tables are equal."""
    same = [table for table in TABLES if found.table(table).equals(expected.table(table))]
    once = [*watch.ended.values()] == [1] * len(found.tasks)
    tables = "identical" if len(same) == len(TABLES) else f"only {', '.join(same) or 'none'} identical"
    done = (found.tasks["status"] == "done").sum()
    print(
        f"{name:28} {seconds:6.1f} s  {done}/{len(found.tasks)} tasks done, each reported "
        f"{'once' if once else 'NOT once'}, {watch.restarts} restarted; {len(found.metrics)} metrics, tables {tables}"
    )
    return once and done == len(found.tasks) and len(same) == len(TABLES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each task")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        watch, folder = Counting(), Path(root)
        expected, seconds = run_sweep(folder / "here", options.rounds, LocalEngine(2, "cpu"), watch)
        rows = [print_row("2 processes", seconds, expected, expected, watch)]
        nodes = Nodes(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        workers = [nodes.add_node(**NODE) for _ in range(2)]

        def kill() -> None:
            nodes.remove_node(workers.pop(), allow_graceful=False)

        engine = RayEngine(Cluster(nodes.address), device="cpu")
        for name, act in {"3 nodes": lambda: None, "3 nodes, of which one dies": kill}.items():
            watch = Counting(act)
            found, seconds = run_sweep(folder / name, options.rounds, engine, watch)
            rows.append(print_row(name, seconds, found, expected, watch))
        nodes.shutdown()
    print("all met" if all(rows) else "MISSED")
    raise SystemExit(not all(rows))


if __name__ == "__main__":
    main()
