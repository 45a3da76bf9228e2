"""Fake run directories for the tests of reports: a network with two learners."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from ruamel.yaml import YAML

from netfl import report
from netfl.core.formats import FORMAT
from netfl.results.run_reader import Run, open_run
from netfl.results.tables import SCHEMAS
from netfl.types import OUTCOMES

RARE_USERS = 3


TWO_LEARNERS = {
    "data": {"kind": "blobs", "centers": [[0, 0], [1, 1], [0, 1]], "samples": 90, "std": 0.5},
    "partition": "by_class", "model": "logistic",
    "learners": {
        "A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2},
        "B": {"objective": {"kind": "cvar", "alpha": 0.5, "gamma": 0.1, "lr_t": 0.01}, "aggregation": "average",
              "lr": 0.1, "batch_size": 8, "local_steps": 2},
    },
}  # fmt: skip
"""Sections of a small scenario with learners A and B."""


def make_run(
    folder: Path,
    *,
    users: int = 30,
    rounds: int = 120,
    replicas: int = 3,
    learners: tuple[str, ...] = ("FedAvg", "FED-CVaR-AVG"),
    network: bool = True,
    plane: bool = False,
    swing: float = 0.01,
    gap: float = 0.3,
    name: str = "rural_outage",
    status: str = "done",
    seed: int = 5,
    attempts: int = 40,
) -> Run:
    """Write a fake run directory with the requested tables; the last users are rare and seldom delivered."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    scenario = {
        "name": name,
        "description": "Thirty users over a rural area; a storm takes out a region.",
        "users": users,
        "rounds": rounds,
        "replicas": replicas,
        "learners": {learner: {} for learner in learners},
        "evaluate": {"every": 5, "rare_classes": [8, 9]},
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False
    with (folder / "scenario.yaml").open("w") as file:
        yaml.dump(scenario, file)
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": status, "seed": seed}))
    write = TableFolder(folder)
    rho = np.concatenate([np.linspace(3, 1, users - RARE_USERS), np.full(RARE_USERS, 0.05)])
    rho[-1] = 0.0
    delivered = rng.choice(users, (replicas, rounds), p=rho / rho.sum())
    closed = np.cumsum(rng.gamma(4.0, 30.0, (replicas, rounds)), axis=1)
    write("rounds", rounds_table(closed))
    write("deliveries", deliveries_table(delivered, closed, rng))
    write("users", users_table(users, replicas, network, rng))
    if not network:
        write("events", SCHEMAS["events"].empty_table().to_pandas())
    else:
        write("events", events_table(delivered, closed, users, rng, attempts))
        write("nodes", nodes_table(replicas))
    if learners:
        write("metrics", metrics_table(learners, closed, users, swing=swing, gap=gap, rng=rng))
    if plane:
        write("regions", regions_table(learners))
        write("points", pd.DataFrame({"x": rng.normal(size=90), "y": rng.normal(size=90), "label": np.arange(90) % 3}))
    return open_run(folder)


class TableFolder:
    """Writes tables as a run does, with categories for repeated words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, table: pd.DataFrame) -> None:
        words = [key for key in ("kind", "node", "detail", "learner", "metric", "group") if key in table]
        table.astype(dict.fromkeys(words, "category")).to_parquet(self.folder / f"{name}.parquet")


def rounds_table(closed):
    replicas, rounds = closed.shape
    opened = np.hstack([np.zeros((replicas, 1)), closed[:, :-1]])
    return pd.DataFrame(
        {
            "replica": np.repeat(np.arange(replicas), rounds),
            "round": np.tile(np.arange(1, rounds + 1), replicas),
            "opened_s": opened.ravel(),
            "closed_s": closed.ravel(),
            "delivered": 1,
            "oldest": np.tile(np.arange(rounds), replicas),
            "uplink_bits": 1e6,
            "energy_J": np.nan,
            "downlink_bits": 1e6,
        }
    )


def deliveries_table(delivered, closed, rng):
    replicas, rounds = delivered.shape
    return pd.DataFrame(
        {
            "replica": np.repeat(np.arange(replicas), rounds),
            "round": np.tile(np.arange(1, rounds + 1), replicas),
            "user": delivered.ravel(),
            "base": np.tile(np.arange(rounds), replicas),
            "sent_s": closed.ravel() - 5,
            "arrived_s": closed.ravel(),
            "attempts": rng.integers(1, 5, delivered.size),
        }
    )


def users_table(users, replicas, network, rng):
    parts = []
    for replica in range(replicas):
        table = {"replica": replica, "user": np.arange(users), "samples": 100}
        if network:
            xy = rng.uniform(-7500, 7500, (users, 2))
            table |= {"x_m": xy[:, 0], "y_m": xy[:, 1], "distance_m": np.linalg.norm(xy, axis=1)}
        rare = np.arange(users) >= users - RARE_USERS
        table |= {f"class:{label}": np.where(rare == (label >= 8), 12, 0) for label in range(10)}
        parts.append(pd.DataFrame(table))
    return pd.concat(parts, ignore_index=True)


def nodes_table(replicas):
    nodes = pd.DataFrame(
        {
            "node": ["server", "router:0", "tower:0", "tower:1", "tower:2"],
            "role": ["server", "router", "tower", "tower", "tower"],
            "x_m": [0.0, 500.0, -4000.0, 4500.0, 500.0],
            "y_m": [0.0, -500.0, -3000.0, -2500.0, 4500.0],
        }
    )
    return pd.concat([nodes.assign(replica=replica) for replica in range(replicas)], ignore_index=True)


def events_table(delivered, closed, users, rng, attempts):
    parts = []
    shares = np.array([0.05, 0.05, 0.0, 0.0, 0.0, 0.0, 0.06, 0.24, 0.6, 0.0, 0.0])
    for replica, times in enumerate(closed):
        rounds = len(times)
        number = 8 * rounds
        at = rng.integers(1, rounds + 1, number)
        parts.append(
            pd.DataFrame(
                {
                    "kind": rng.choice(OUTCOMES[: len(shares)], number, p=shares),
                    "round": at,
                    "user": rng.integers(0, users, number),
                }
            )
        )
        tries = attempts * rounds
        at = rng.integers(1, rounds + 1, tries)
        cause = rng.choice(["collided", "faded", "lost"], tries, p=[0.6, 0.3, 0.1])
        parts.append(
            pd.DataFrame({"kind": "failed", "round": at, "detail": cause, "user": rng.integers(0, users, tries)})
        )
        parts.append(pd.DataFrame({"kind": "sent", "round": 1, "user": np.arange(users)}))
        parts[-1]["node"] = [f"tower:{user % 3}" for user in range(users)]
        parts += [outages(rng, times[-1], user=user) for user in range(0, users, 2)]
        parts.append(outages(rng, times[-1], node="tower:1"))
        for part in parts:
            part["replica"] = part.get("replica", replica)
            if "time_s" not in part:
                part["time_s"] = times[part["round"].to_numpy() - 1]
    table = pd.concat(parts, ignore_index=True).fillna({"node": "", "detail": "", "user": -1, "round": 1})
    table["value"] = np.nan
    table["user"] = table["user"].astype(int)
    columns = ["replica", "time_s", "kind", "user", "node", "round", "value", "detail"]
    return table[columns].sort_values(["replica", "time_s"], kind="stable", ignore_index=True)


def outages(rng, end, **columns):
    times = np.cumsum(rng.exponential(end / 8, 8))
    kinds = np.where(np.arange(8) % 2 == 0, "down", "up")
    return pd.DataFrame({"kind": kinds, "time_s": times, "round": 1, **columns})[times < end]


def metrics_table(learners, closed, users, *, swing, gap, rng):
    replicas, rounds = closed.shape
    rounds_ = np.unique(np.append(np.arange(0, rounds + 1, 5), rounds))
    parts = []

    def put(metric, group, learner, replica, value):
        times_s = np.where(rounds_ > 0, closed[replica][np.maximum(rounds_, 1) - 1], 0.0)
        names = {"learner": learner, "replica": replica, "metric": metric, "group": group}
        parts.append(pd.DataFrame({**names, "round": rounds_, "time_s": times_s, "value": value}))

    for index, learner in enumerate(learners):
        better = gap * index / max(1, len(learners) - 1)
        for replica in range(replicas):
            rise = 1 - np.exp(-rounds_ / (rounds / 5))

            def noisy(level, scale=swing, rise=rise):
                return np.clip(level * rise + rng.normal(0, scale, len(rounds_)), 0, 1)

            rare = noisy(0.5 + better + rng.normal(0, 0.01), 2 * swing)
            put("accuracy", "", learner, replica, noisy(0.85 + 0.05 * better))
            put("rare_accuracy", "", learner, replica, rare)
            put("loss", "", learner, replica, 2.3 - 2 * rise)
            for label in range(10):
                put("accuracy", f"class:{label}", learner, replica, rare if label >= 8 else noisy(0.9 - 0.01 * label))
            for user in range(users):
                put(
                    "accuracy",
                    f"user:{user}",
                    learner,
                    replica,
                    noisy(0.9 if user < users - RARE_USERS else 0.5 + better),
                )
            for name, level in (
                ("mean", 0.85),
                ("worst10", 0.45 + better),
                ("best10", 0.97),
                ("jain", 0.93 + 0.05 * better),
            ):
                put(f"accuracy_users_{name}", "", learner, replica, noisy(level))
            put("accuracy_users_variance", "", learner, replica, 0.03 * (1 - better) * np.ones(len(rounds_)))
            if index:
                put("t", "", learner, replica, 1.5 * rise * np.exp(-rounds_ / rounds))
                put("objective", "", learner, replica, 2.5 - 2 * rise)
                put("cvar", "alpha:0.3", learner, replica, 3.5 - 2.4 * rise)
    return pd.concat(parts, ignore_index=True)


def regions_table(learners):
    x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-3, 3, 60), np.linspace(-3, 3, 50)))
    parts = []
    for index, learner in enumerate(learners):
        label = np.where(y > x, 0, 1) + (index * (x > 1))
        parts.append(pd.DataFrame({"learner": learner, "replica": 0, "x": x, "y": y, "label": label}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="session", name="make_run")
def _make_run():
    """Return `make_run`."""
    return make_run


@pytest.fixture
def make(tmp_path):
    """Return a function that writes a fake run with the given options of `make_run`."""
    return lambda **options: make_run(tmp_path / "run", **options)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The page of a run with everything that a report can show."""
    run = make_run(tmp_path_factory.mktemp("whole") / "run", plane=True, users=12, rounds=60)
    return report.write(run).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def filmed(tmp_path_factory):
    """A run of thirty users over 300 rounds, with its report."""
    run = make_run(tmp_path_factory.mktemp("filmed") / "run", rounds=300, replicas=2, attempts=20)
    report.write(run)
    return run


@pytest.fixture
def sketched(monkeypatch):
    """Skip the rendering of plots as SVG, which takes most of the time."""
    rendered = Figure.savefig

    def savefig(self, out, *, format, **options):
        if format == "svg":
            out.write('<svg height="1pt" viewBox="0 0 1 1" width="1pt"></svg>')
        else:
            rendered(self, out, format=format, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
