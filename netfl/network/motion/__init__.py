'''The motion family: positions of users over time, from those of the topology at time 0.

To write a motion, add a file to this package, or a class to a package of your own, that derives from `Motion`.
`Motion.open` returns `netfl.network.layout.Trajectories`.  Its ``xy_m(users, time_s)`` returns positions, ``[n, 2]``;
the answers must not depend on the order of the calls.  ``laws`` states the distributions of what is drawn, which a
test checks.

A complete motion, in which users drive east::

    class Drive(Motion):
        """Each user moves east at a constant speed.

        Example::

            kind: mylab.drive:Drive
            speed: 10
        """

        speed: Annotated[Speed, Field(gt=0)]
        """Speed in m/s."""

        def open(self, layout, streams):
            return _Drive(self.speed, layout.user_xy_m)

        def laws(self):
            return (Law.none("draws nothing"),)

    class _Drive(Trajectories):
        def __init__(self, speed_m_s, start_m):
            self._speed_m_s, self._start_m = speed_m_s, start_m

        def xy_m(self, users, time_s):
            east_m = np.broadcast_to(self._speed_m_s * np.asarray(time_s, float), users.shape)
            return self._start_m[users] + np.column_stack([east_m, np.zeros(len(users))])
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.network.layout import Layout, Trajectories
from netfl.streams import Streams


class Motion(Spec):
    """The contract of a motion.

    Trajectories are functions of (user, time); at time 0 each user is at ``layout.user_xy_m``.
    """

    @abstractmethod
    def open(self, layout: Layout, streams: Streams) -> Trajectories:
        """Return the trajectories of one replica.

        Args:
            layout: the layout at time 0.
            streams: this replica's random streams for the motion.

        Raises:
            netfl.errors.ScenarioError: the motion does not fit the positions; keys relative to the motion.
        """

    @property
    def has_absences(self) -> bool:
        """True if this motion takes users out of the network, so that its trajectories have `Trajectories.stays`."""
        return False

    def warnings(self, users: int, end_s: float) -> Iterator[str]:
        """Yield warnings about the motion of *users* users in a run that ends at *end_s*; infinity if that is open."""
        yield from ()

    def has_times_within(self, end_s: float) -> bool:
        """Return whether the file of this motion, if it reads one, has a time in a run that ends at *end_s*."""
        return True


__getattr__ = exported_models(__name__)
