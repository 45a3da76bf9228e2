"""A sweep on a Ray cluster of three nodes beside the same sweep here: equal tables, also where a node is killed.

The nodes are processes of this machine, so the times say what the cluster costs, not what it would save: with as many
cores as nodes the two engines would be about as fast.  The third row kills a node, as if its plug were pulled, once a
quarter of the tasks is done.

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
    """A task for each of 24 worlds: two learners in two replicas."""
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 5}
    said = {
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
    return validate(ScenarioDocument(said, "cluster"))


class Counting(SweepObserver):
    """Counts how often each task ended and was set back, and does *act* once a quarter of them is done."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.ended: dict[str, int] = {}
        self.far: dict[str, int] = {}
        self.again = 0
        self._act = act

    def told(self, word: TaskUpdate) -> None:
        """A task is so far, or has ended."""
        if not word.ended:
            self.again += word.round < self.far.get(word.task, 0)
            self.far[word.task] = word.round
            return
        self.ended[word.task] = self.ended.get(word.task, 0) + 1
        if len(self.ended) == len(PROBABILITIES) * len(USERS) // 4:
            self._act()


def swept(folder: Path, rounds: int, engine: Engine, watch: Counting) -> tuple[Sweep, float]:
    """The sweep, and how many seconds it took."""
    begin = time.perf_counter()
    return netfl.sweep(scenario(rounds), folder, engine=engine, observer=watch), time.perf_counter() - begin


def say(name: str, seconds: float, found: Sweep, wanted: Sweep, watch: Counting) -> bool:
    """Print a row: whether all is there, once, and as it should be."""
    same = [table for table in TABLES if found.table(table).equals(wanted.table(table))]
    once = [*watch.ended.values()] == [1] * len(found.tasks)
    tables = "identical" if len(same) == len(TABLES) else f"only {', '.join(same) or 'none'} identical"
    done = (found.tasks["status"] == "done").sum()
    print(
        f"{name:28} {seconds:6.1f} s  {done}/{len(found.tasks)} tasks done, each told of "
        f"{'once' if once else 'NOT once'}, {watch.again} begun again; {len(found.metrics)} metrics, tables {tables}"
    )
    return once and done == len(found.tasks) and len(same) == len(TABLES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each task")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        watch, folder = Counting(), Path(root)
        wanted, seconds = swept(folder / "here", options.rounds, LocalEngine(2, "cpu"), watch)
        rows = [say("2 processes", seconds, wanted, wanted, watch)]
        nodes = Nodes(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        others = [nodes.add_node(**NODE) for _ in range(2)]

        def kill() -> None:
            nodes.remove_node(others.pop(), allow_graceful=False)

        engine = RayEngine(Cluster(nodes.address), device="cpu")
        for name, act in {"3 nodes": lambda: None, "3 nodes, of which one dies": kill}.items():
            watch = Counting(act)
            found, seconds = swept(folder / name, options.rounds, engine, watch)
            rows.append(say(name, seconds, found, wanted, watch))
        nodes.shutdown()
    print("all met" if all(rows) else "MISSED")
    raise SystemExit(not all(rows))


if __name__ == "__main__":
    main()
