"""Export of the positions of users and nodes, at the start or over time, as a CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from netfl.access._builder import build_layout
from netfl.access.network import NetworkAccess
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.layout import Trajectories
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.scenario.scenario import load
from netfl.simulation.setup import streams_of
from netfl.types import AccessContext, NullRecorder

_AXES = ["x_m", "y_m"]


def write_positions(run: Run, path: Path, replica: int = 0, every_s: float | None = None) -> tuple[int, int]:
    """Write ``time_s``, ``node``, ``role``, ``x_m`` and ``y_m`` of all users and nodes.

    Args:
        run: a run whose users have positions.
        path: the CSV file.
        replica: the replica.
        every_s: interval between positions of moving users, until the last round closed; ``None`` for the start alone.

    Returns:
        The numbers of users and nodes, and of times.

    Raises:
        ScenarioError: there are no positions, or the users do not move.
    """
    users, nodes = _start_positions(run, replica)
    names = [f"user:{user}" for user in users["user"]]
    start = pd.DataFrame(
        {
            "time_s": 0.0,
            "node": names + nodes["node"].astype(str).tolist(),
            "role": ["user"] * len(users) + nodes["role"].astype(str).tolist(),
            **{axis: np.append(users[axis], nodes[axis]) for axis in _AXES},
        }
    )
    times = [0.0]
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        start.to_csv(file, index=False)
        if every_s is not None:
            paths, numbers = _trajectories(run, replica, users), np.arange(len(users))
            end_s = run.rounds.loc[run.rounds["replica"] == replica, "closed_s"].max()
            times = np.arange(0.0, 0.0 if np.isnan(end_s) else end_s, every_s).tolist() or times
            for time_s in times[1:]:
                x_m, y_m = paths.xy_m(numbers, time_s).T
                moved = start.iloc[: len(users)].assign(time_s=time_s, x_m=x_m, y_m=y_m)
                moved.to_csv(file, index=False, header=False)
    return len(start), len(times)


def _start_positions(run: Run, replica: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the users and nodes of a replica, with their positions at the start.

    Raises:
        ScenarioError: they have none.
    """
    users, nodes = run.users, run.nodes
    if users.empty:
        problem = f"{run.folder} has no users yet: it is {run.status}"
        raise ScenarioError([Fault("", problem, None, f"finish it with: netfl resume {run.folder}")])
    if not {*_AXES} <= {*users.columns}:
        problem = "its users have no places"
        raise ScenarioError([Fault("access", problem, None, "export a run whose access is a network")])
    recorded = sorted(users["replica"].unique().tolist())
    if nodes.empty:
        raise MachineError(f"{run.folder} has no nodes.parquet, which a network writes")
    if replica not in recorded:
        raise ScenarioError([Fault("--replica", "no such replica is recorded", replica, f"recorded are {recorded}")])
    return users[users["replica"] == replica], nodes[nodes["replica"] == replica]


def _trajectories(run: Run, replica: int, users: pd.DataFrame) -> Trajectories:
    """Draw the trajectories of the users of a replica again.

    Raises:
        ScenarioError: the users do not move.
        MachineError: the trajectories do not begin at the recorded positions.
    """
    scenario = load(run.folder / "scenario.yaml")
    access = scenario.access
    streams = streams_of(scenario, replica).at("access")
    context = AccessContext(
        scenario.users, scenario.steps, replica, streams, np.ones(scenario.users), 0.0, 0.0, NullRecorder()
    )
    layout = build_layout(access, context) if isinstance(access, NetworkAccess) else None
    if layout is None or layout.paths is None:
        raise ScenarioError(
            [Fault("--every", "has no effect: the users of this run stand still", None, "leave it out")]
        )
    if not np.array_equal(layout.user_xy_m, users[_AXES].to_numpy()):
        raise MachineError(f"the users of {run.folder} do not stand where its scenario puts them: has netfl changed?")
    return layout.paths
