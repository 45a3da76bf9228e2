"""The schedule family: step sizes of local training as a function of the model's version.

To add one, derive a class from `Schedule` in a file of this package, or in a module of your own.  This one is
complete::

    class Fading(Schedule):
        \"\"\"The step sizes fall as ``1 / sqrt(1 + version / half)``.\"\"\"

        half: float = 500

        def factors(self, versions):
            return (1 + versions / self.half) ** -0.5

Where other nodes than the server merge, *version* means the time of a version in rounds of the server
(`netfl.types.VersionRef.round`): edges that aggregate often in a round do not train with smaller steps for that.  The
server's own versions are numbered by it.
"""

from __future__ import annotations

from abc import abstractmethod

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.types import Floats, Ints, Law


class Schedule(Spec):
    """Base class of all schedules."""

    @abstractmethod
    def factors(self, versions: Ints) -> Floats:
        """Return the positive factors of the step sizes, ``[n]``: of those on θ and t, or on one of them.

        Args:
            versions: the base of each user, ``[n]``, as its time in rounds of the server; 0 before the first round.  A
                late update has the step size of its own base.
        """

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a schedule draws nothing"),)


__getattr__ = exported_models(__name__)
