"""Users that move as vehicles or persons of the traffic simulator SUMO."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netfl.errors import Fault, ScenarioError
from netfl.network._fcd_file import FcdFile
from netfl.network._tracks import (
    MAX_SPEED_M_S,
    Absence,
    Points,
    SpeedLimit,
    Stretches,
    Tracks,
    absence_warnings,
    gap_warnings,
    refuse_fast,
    refuse_other_start,
    stays_of,
)
from netfl.network.layout import Layout, Stays, Trajectories
from netfl.network.motion import Motion
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class SumoFcd(FcdFile, Motion):
    """Motion as in a file of SUMO's floating car data, ``sumo --fcd-output``, with coordinates in metres.

    Between two time steps a user moves straight at one speed.  It is in the network from a time step of the file that
    has it to the next one that has not; the last time step lasts as long as the one before.  In all other times the
    user is **away**: it neither sends nor receives, as under the outage ``availability``.  When it is in the file
    again, it begins another trip, and does not move there from the last one.  With ``absent: rest`` it is always in
    the network: it rests where it was last seen and, before its first time step, where it first appears.

    A vehicle that gets farther in a time step than twice the fastest speed that the file states was teleported by
    SUMO: it jumps, with a warning.  At time 0 a user must be at its position in the topology: ``placement`` has the
    same kind and keys.

    P. A. Lopez et al., "Microscopic traffic simulation using SUMO", IEEE ITSC 2018.

    Example::

        kind: sumo_fcd
        file: drive.fcd.xml
        begin: 0 s
    """

    absent: Absence = "away"
    """State of a user while it is not in the file: ``away``, as in an outage, or ``rest``, up and at rest."""
    max_speed: SpeedLimit = MAX_SPEED_M_S
    """Speed above which motion between two time steps is an error of the file."""

    @property
    def has_absences(self) -> bool:
        return self.absent == "away"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self._checked_points(facts.users)
        except ScenarioError as error:
            yield from error.faults

    def open(self, layout: Layout, streams: Streams) -> Trajectories:
        points = self._checked_points(layout.users)
        stays = None
        if self.has_absences:
            stays = self._stays(points, layout.users)
        paths = Tracks(points, layout.user_xy_m, stays=stays)
        remedy = "place users by placement: {kind: sumo_fcd} with the same keys"
        refuse_other_start(paths, layout, self.file, remedy)
        return paths

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def warnings(self, users: int, end_s: float) -> Iterator[str]:
        points = self.points(users)
        yield from self._jump_warnings(points)
        if not self.has_absences:
            return
        yield from gap_warnings(points, users, end_s, self._name_user)
        if self.has_times_within(end_s):  # else another warning says so
            yield from absence_warnings(self._stays(points, users), users, end_s, self._name_user)

    def has_times_within(self, end_s: float) -> bool:
        times_s = self.rows.times_s - self.begin
        return bool(np.any((times_s >= 0.0) & (times_s <= end_s)))

    def _checked_points(self, users: int) -> Points:
        """Return the points of *users* users.

        Raises:
            ScenarioError: as `points`, or a user is faster than ``max_speed``.
        """
        points = self.points(users)
        refuse_fast(points, self.max_speed, self.file, self._name_user)
        return points

    def _stays(self, points: Points, users: int) -> Stays:
        return stays_of(points, self.rows.steps_s - self.begin, users)

    def _name_user(self, user: int) -> str:
        ids = self.ids or self.rows.ids
        return f"user {user} ('{ids[user]}')"

    def _jump_warnings(self, points: Points) -> Iterator[str]:
        """Yield a warning about users that SUMO teleports from one time step to the next."""
        stretches = Stretches.of(points.users, points.times_s, points.xy_m)
        jumps = np.flatnonzero(points.is_jump[stretches.ends])
        if not jumps.size:
            return
        end = int(stretches.ends[jumps[0]])
        yield (
            f"{self.file.name}:{points.lines[end]}: {self._name_user(int(points.users[end]))} gets "
            f"{stretches.length_m[jumps[0]]:.6g} m in {stretches.span_s[jumps[0]]:.6g} s, more than twice as far as "
            f"the fastest speed in the file takes a vehicle ({len(jumps)} such time steps); it is taken for a teleport "
            "of SUMO, so that the user is at the new place at once; let SUMO run with --time-to-teleport -1 to have "
            "none"
        )
