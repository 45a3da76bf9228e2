'''The association family: which tower serves a user, from the start of a run on.

To write an association, add a file to this package, or a class to a package of your own, that derives from
`Association`.  `Association.open` returns a `TowerChoice`.  Its ``choose(users, serving, time_s)`` returns the tower
that each user should have; the network moves users there as soon as `Association.moves` permits it.  An answer depends
on the arguments alone, whatever was asked before.  `TowerLinks` gives distances and mean signals of pairs of a user and
a tower.

Optional parts: the users that may ever come to a tower (`TowerChoice.visitors`), which saves memory; whether it asks
for signals (`Association.follows_signal`) or follows positions alone (`Association.follows_position`); and the times
in which users have no tower at all (`Association.has_absences`, `Association.stays`).

A complete association, by which users stay with a tower as long as they are near it::

    class KeepWithin(Association):
        """Stay with a tower within a radius, and beyond it take the nearest one.

        Example::

            kind: mylab.keep_within:KeepWithin
            radius: 500 m
        """

        radius: Annotated[Metres, Field(gt=0)]
        """Distance up to which a user keeps its tower."""

        def open(self, links):
            return _KeepWithin(self.radius, links)

    class _KeepWithin(TowerChoice):
        def __init__(self, radius_m, links):
            self._radius_m = radius_m
            self._links = links

        def choose(self, users, serving, time_s):
            nearest = self._links.nearest(users, time_s)
            has_tower = np.flatnonzero(serving >= 0)  # nobody at the start
            distance_m = self._links.distances_m(users[has_tower], serving[has_tower], time_s)
            stays = has_tower[distance_m <= self._radius_m]
            nearest[stays] = serving[stays]
            return nearest

        def next_s(self, time_s):
            return time_s + 1.0
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Literal

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import OnlyWith, Spec
from netfl.network.layout import Stays
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints, Law


class TowerChoice(Overridable, ABC):
    """The towers that the users of one network should have, by their indices in `Layout.towers`."""

    @abstractmethod
    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        """Return the tower that each of *users* should have at *time_s*, ``[n]``.

        Args:
            users: the users.
            serving: the tower that each of them has; -1 at the start, when nobody has one, ``[n]``.
            time_s: the time.
        """

    @abstractmethod
    def next_s(self, time_s: float) -> float:
        """Return the first time after *time_s* at which an answer may be another one; infinity if there is none.

        With ``moves: any_time`` the network asks again at that time.
        """

    def visitors(self, tower: int) -> Ints | None:
        """Return the users that may ever have *tower*, in rising order; ``None`` for all."""
        return None


class Association(Spec):
    """Base class of all associations."""

    moves: Literal["when_idle", "any_time"] = "when_idle"
    """Time of a move.  ``when_idle``: as a version is about to be sent to a user that has nothing under way; one that
    trains or sends keeps its tower.  ``any_time``: at once; a user that sends, or to which a version is on its way,
    moves at the end of that."""
    on_move: Annotated[Literal["carry", "drop"], OnlyWith("moves", "any_time")] = "carry"
    """Update that waits to be sent when its user moves: it goes along (``carry``), or ends as ``left`` (``drop``).  A
    training continues."""

    @property
    def can_move(self) -> bool:
        """True if users can change their towers."""
        return True

    @property
    def follows_signal(self) -> bool:
        """True if it asks for mean signals, so that the network needs a radio."""
        return False

    @property
    def follows_position(self) -> bool:
        """True if its answers change only as users move, so that it has no effect on users that stay."""
        return False

    @property
    def follows_reception(self) -> bool:
        """True if it asks which towers have heard the users, `TowerLinks.last_heard`."""
        return False

    @property
    def has_absences(self) -> bool:
        """True if it states when users have no tower at all, by `stays`."""
        return False

    @property
    def stays(self) -> Stays | None:
        """Times in which users have a tower, at least one of each user; ``None`` if all always have one."""
        return None

    def has_times_within(self, end_s: float) -> bool:
        """Return whether the file of this association, if it reads one, has a time in a run that ends at *end_s*."""
        return True

    @abstractmethod
    def open(self, links: TowerLinks) -> TowerChoice:
        """Return the choice for one network, whose users and towers *links* knows."""

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


__getattr__ = exported_models(__name__)
