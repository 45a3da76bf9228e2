'''Round family: when the server closes a round and aggregates the updates it has.

The server asks a policy at each delivered update whether the round is complete, and at the end of the round whether it
counts.  The network itself handles time, broadcasts, and what users do meanwhile.

To add a model, write a file in this package, or a class in your own package, that derives from `RoundPolicy`.  A
complete one, which waits for half of the selected users::

    class Half(RoundPolicy):
        """The server waits for half of the selected users.

        Example::

            kind: mylab.half:Half
        """

        def is_complete(self, delivered, users):
            return 2 * delivered >= users

All other members have defaults: `RoundPolicy.deadline_s`, which is read as a round opens, `RoundPolicy.is_valid`,
`RoundPolicy.max_updates` and the rest below.  A policy is frozen and sees no times: it decides by the number of updates
alone, so that a time from the first update on cannot be expressed.
'''

from __future__ import annotations

from abc import abstractmethod

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.types import Law


class RoundPolicy(Spec):
    """Base class of round policies.

    In all methods *users* is the number of users that are selected for the round.
    """

    @abstractmethod
    def is_complete(self, delivered: int, users: int) -> bool:
        """Return whether the round closes with so many *delivered* updates; called at each delivery."""

    def is_valid(self, delivered: int, users: int) -> bool:
        """Return whether a round that closes with *delivered* updates aggregates them; if not, they are discarded."""
        return True

    def max_updates(self, users: int) -> int:
        """Return the maximum number of updates that a round can aggregate."""
        return users

    @property
    def deadline_s(self) -> float | None:
        """Time from the opening of a round to its close at the latest; ``None`` without a deadline."""
        return None

    @property
    def knows_losses(self) -> bool:
        """``True`` if a round closes before its deadline when no update that would count can arrive any more.

        A round without a deadline always does.
        """
        return True

    @property
    def can_be_void(self) -> bool:
        """``True`` if `is_valid` may return ``False``."""
        return False

    @property
    def needs_disconnected(self) -> bool:
        """``True`` if a round waits for users that are disconnected when it opens."""
        return True

    @property
    def is_continuous(self) -> bool:
        """``True`` if a user gets the newest version as soon as its update is delivered, not in the next round."""
        return False

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("counts what arrives: nothing is drawn"),)


__getattr__ = exported_models(__name__)
