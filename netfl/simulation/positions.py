"""Export of the positions of users and nodes, at the start or over time, as a CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from netfl.core.remedies import argument
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.layout import Trajectories
from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.scenario.scenario import load
from netfl.simulation.setup import access_context

_AXES = ["x_m", "y_m"]
_COLUMNS = ["time_s", "node", "role", *_AXES]


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
    end_s = float(run.rounds_of(replica)["closed_s"].max())
    if not {*_AXES} <= {*run.users.columns}:
        problem = "its users have no positions"
        raise ScenarioError([Fault("access", problem, None, "export a run whose access is a network")])
    users = run.users[run.users["replica"] == replica]
    nodes = run.nodes[run.nodes["replica"] == replica]
    names = [f"user:{user}" for user in users["user"]]
    user_rows = users.assign(time_s=0.0, node=names, role="user")[_COLUMNS]
    node_rows = nodes.assign(time_s=0.0)[_COLUMNS]
    times = [0.0]
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        user_rows.to_csv(file, index=False)
        node_rows.to_csv(file, index=False, header=False)
        if every_s is not None:
            paths = _trajectories(run, replica, users)
            numbers = np.arange(len(users))
            times += np.arange(0.0, end_s, every_s)[1:].tolist()
            for time_s in times[1:]:
                x_m, y_m = paths.xy_m(numbers, time_s).T
                moved = user_rows.assign(time_s=time_s, x_m=x_m, y_m=y_m)
                moved.to_csv(file, index=False, header=False)
    return len(user_rows) + len(node_rows), len(times)


def _trajectories(run: Run, replica: int, users: pd.DataFrame) -> Trajectories:
    """Draw the trajectories of the users of a replica again."""
    scenario = load(run.folder / "scenario.yaml")
    layout = scenario.access.layout(access_context(scenario, replica))
    if layout is None or layout.paths is None:
        problem = "has no effect: the users of this run do not move"
        raise ScenarioError([Fault(argument("every_s", "--every"), problem, None, "leave it out")])
    if not np.array_equal(layout.user_xy_m, users[_AXES].to_numpy()):
        raise MachineError(
            f"the positions of the users of {run.folder} differ from those of its scenario; "
            "use the version of netfl that wrote it"
        )
    return layout.paths
