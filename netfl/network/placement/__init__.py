'''The placement family: positions of users at time 0, in any topology.

To write a placement, add a file to this package, or a class to a package of your own, that derives from `Placement`.
`Placement.open` returns the positions; ``laws`` states their distributions, which a test checks.

A complete placement, in which users are placed on a line::

    class Line(Placement):
        """Uniform on a line from the origin to the east.

        Example::

            kind: mylab.line:Line
            length: 1 km
        """

        length: Annotated[Metres, Field(gt=0)]
        """Length of the line."""

        def open(self, users, towers_xy_m, streams):
            x_m = self.length * streams.field("place").uniform(np.arange(users))
            return np.column_stack([x_m, np.zeros(users)])

        def laws(self):
            draw = lambda streams, size: self.open(size, np.zeros((1, 2)), streams)[:, 0]
            return (Law("distance in m", "uniform", draw, self.length / 2, self.length**2 / 12),)
'''

from __future__ import annotations

from abc import abstractmethod

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.streams import Streams
from netfl.types import Floats


class Placement(Spec):
    """The contract of a placement.

    The position of user u depends only on the streams and on u, so that more users do not move the others.  Tables,
    lists and lattices, which are laid out for a number of users, are exceptions.
    """

    @abstractmethod
    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        """Return the positions of *users* users in metres, ``[users, 2]``.

        Args:
            users: number of users.
            towers_xy_m: positions of the towers, ``[towers, 2]``.
            streams: this replica's random streams for the positions.

        Raises:
            netfl.errors.ScenarioError: the positions cannot be determined; keys relative to the placement.
        """


__getattr__ = exported_models(__name__)
