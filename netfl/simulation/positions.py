"""Where users and nodes stand, at the start or as time goes on, as a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.access._builder import build_layout
from netfl.access.network import NetworkAccess
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.layout import Trajectories
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.scenario.scenario import load
from netfl.simulation.setup import streams_of
from netfl.types import AccessContext, NullRecorder

_PLACE = ["x_m", "y_m"]


def write_positions(run: Run, path: Path, replica: int = 0, every_s: float | None = None) -> tuple[int, int]:
    """Write ``time_s``, ``node``, ``role``, ``x_m`` and ``y_m`` of all: how many there are, and at how many times.

    Args:
        run: a run whose users have places.
        path: the CSV file.
        replica: which of its replicas.
        every_s: where users move, so often, until the last round closed; ``None`` for the start alone.

    Raises:
        ScenarioError: there are no places, or nobody moves.
    """
    users, nodes = _start(run, replica)
    names = [f"user:{user}" for user in users["user"]]
    start = pd.DataFrame(
        {
            "time_s": 0.0,
            "node": names + nodes["node"].astype(str).tolist(),
            "role": ["user"] * len(users) + nodes["role"].astype(str).tolist(),
            **{axis: np.append(users[axis], nodes[axis]) for axis in _PLACE},
        }
    )
    times = [0.0]
    if every_s is not None:
        paths = _paths(run, replica, users)
        closed_s = run.rounds.loc[run.rounds["replica"] == replica, "closed_s"].max()
        times = np.arange(0.0, closed_s if closed_s == closed_s else 0.0, every_s).tolist() or times  # noqa: PLR0124 - NaN
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        start.to_csv(file, index=False)
        if every_s is not None:
            for moved in _later(start.iloc[: len(users)], paths, times[1:]):
                moved.to_csv(file, index=False, header=False)
    return len(start), len(times)


def _start(run: Run, replica: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Users and nodes of a replica, with their places at the start.

    Raises:
        ScenarioError: they have none.
    """
    users, nodes = run.users, run.nodes
    if users.empty:
        problem = f"{run.folder} has no users yet: it is {run.status}"
        raise ScenarioError([Fault("", problem, None, f"finish it with: netfl resume {run.folder}")])
    if not {*_PLACE} <= {*users.columns}:
        problem = "its users have no places"
        raise ScenarioError([Fault("access", problem, None, "export a run whose access is a network")])
    there = sorted(users["replica"].unique().tolist())
    if nodes.empty:
        raise MachineError(f"{run.folder} has no nodes.parquet, which a network writes")
    if replica not in there:
        raise ScenarioError([Fault("--replica", "no such replica is recorded", replica, f"recorded are {there}")])
    return users[users["replica"] == replica], nodes[nodes["replica"] == replica]


def _paths(run: Run, replica: int, users: pd.DataFrame) -> Trajectories:
    """The paths that the users of a replica took, drawn again.

    Raises:
        ScenarioError: nobody moves.
        MachineError: they do not begin where the run has them.
    """
    scenario = load(run.folder / "scenario.yaml")
    access = scenario.access
    streams = streams_of(scenario, replica).at("access")
    setting = AccessContext(
        scenario.users, scenario.steps, replica, streams, np.ones(scenario.users), 0.0, 0.0, NullRecorder()
    )
    sites = build_layout(access, setting) if isinstance(access, NetworkAccess) else None
    if sites is None or sites.paths is None:
        raise ScenarioError(
            [Fault("--every", "has no effect: the users of this run stand still", None, "leave it out")]
        )
    if not np.array_equal(sites.user_xy_m, users[_PLACE].to_numpy()):
        raise MachineError(f"the users of {run.folder} do not stand where its scenario puts them: has netfl changed?")
    return sites.paths


def _later(users: pd.DataFrame, paths: Trajectories, times_s: Sequence[float]) -> Iterator[pd.DataFrame]:
    """Where the users are at each of some times."""
    numbers: NDArray[np.int64] = np.arange(len(users))
    for time_s in times_s:
        places = paths.xy_m(numbers, time_s)
        yield users.assign(time_s=time_s, x_m=places[:, 0], y_m=places[:, 1])
