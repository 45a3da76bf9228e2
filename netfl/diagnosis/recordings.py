"""Participation from recordings: those that come with netfl, and those that ``netfl import`` writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from netfl.access.replay import read_recording
from netfl.core.remedies import argument
from netfl.diagnosis.participation import Participation, from_table
from netfl.errors import Fault, ScenarioError
from netfl.files.recordings import recorded_names


def participation_of_recording(
    folder: Path, *, replica: int | None = None, users: int | None = None, rounds: int | None = None
) -> Participation:
    """Return participation in a recording, with the names of its users.

    Args:
        folder: the recording.
        replica: the number of a replica; a recording has replica 0 alone.
        users: a number of users, which a recording has itself.
        rounds: the number of first rounds to read; by default all.

    Raises:
        ScenarioError: a table cannot be read, its values are impossible, or an option does not fit.
    """
    if replica:
        raise ScenarioError([Fault(argument("replica"), "a recording has one replica", replica, "leave it out")])
    if users is not None:
        problem = "has no effect: a recording stores its own value"
        raise ScenarioError([Fault(argument("users"), problem, users, "leave it out")])
    table, deliveries = read_recording(folder)
    if rounds is None:
        rounds = len(table)
    if rounds > len(table):
        problem = f"only {len(table)} rounds are recorded"
        raise ScenarioError([Fault(argument("rounds"), problem, rounds, "give fewer")])
    names = recorded_names(folder)
    is_read = deliveries["round"] <= rounds
    first_deliveries = deliveries.loc[is_read, ["round", "user"]].reset_index(drop=True)
    closed_s = table["closed_s"].to_numpy(float)[:rounds]
    participation = from_table(first_deliveries, users=len(names), rounds=rounds, closed_s=closed_s)
    return replace(participation, names=tuple(names))
