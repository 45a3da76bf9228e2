'''The round family: when the server stops waiting, and makes the next version of what came.

A rule is asked at every arrival, and again as the round closes; the clock, the broadcasts and what users do meanwhile
are the network's.

To write one: a file in this package, or a class in a package of your own, that derives from `Rule`.  A complete one,
which waits for half of those who may try::

    class Half(Rule):
        """The server waits for half of the users who may try.

        Example::

            kind: mylab.half:Half
        """

        def enough(self, heard, users):
            return 2 * heard >= users

        def laws(self):
            return (Law.none("draws nothing"),)
'''

from __future__ import annotations

from abc import abstractmethod

from netfl.registry import Spec


class RoundPolicy(Spec):
    """The contract of a rule of rounds."""

    @abstractmethod
    def enough(self, heard: int, users: int) -> bool:
        """Whether the round closes, *heard* updates having come, of *users* who may try; asked at each arrival."""

    def counts(self, heard: int, users: int) -> bool:
        """Whether a round that closes with *heard* updates makes a version of them; if not, they are discarded."""
        return True

    def most(self, users: int) -> int:
        """The largest number of updates that a round can bring, of *users*."""
        return users

    @property
    def deadline_s(self) -> float | None:
        """How long after its opening a round closes at the latest; ``None`` for no such time."""
        return None

    @property
    def voids(self) -> bool:
        """Whether `counts` may say no."""
        return False

    @property
    def waits(self) -> bool:
        """Whether users are waited for who are cut off as the round opens."""
        return True

    @property
    def continuous(self) -> bool:
        """Whether users begin anew whenever they have been heard, with the newest version, and not with each round."""
        return False
