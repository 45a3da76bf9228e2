"""MIFA: the server lets everybody's last change count, also of those whom it did not hear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.aggregation._memory import remember
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State


class Mifa(Aggregation):
    """The version moves by the mean of all users' last changes: ``x + η/N Σ_n m_n``, in every round.

    m_n is the change, model less base, that user n last sent, and 0 before its first; N is the number of all users.  A
    round in which nobody is heard moves the version by the changes that are remembered.  Of a user that is heard twice
    in one round, the later change stays.  Changes are remembered as they were sent, so with a schedule each keeps the
    step size that it was made with.

    Gu et al., "Fast federated learning in the presence of arbitrary device unavailability", NeurIPS 2021, algorithm 1;
    it begins with a round in which everybody is heard, which an access may not grant.

    Example::

        kind: mifa
        server_lr: 1
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """The global step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """No change of anybody, and their sum."""
        return {"last": current.new_zeros(users, len(current)), "sum": current.new_zeros(len(current))}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The mean of the memory, in which the new changes are."""
        last = state["last"]
        total = state["sum"] + remember(last, updates.users, updates.models - updates.bases)
        return current + self.server_lr / len(last) * total, {"last": last, "sum": total}

    def idle(self, state: State, current: Tensor, index: int) -> tuple[Tensor, State]:
        """The mean of the memory as it is."""
        return current + self.server_lr / len(state["last"]) * state["sum"], state

    def memory(self, users: int, parameters: int) -> int:
        """A row for each user, and their sum."""
        return (users + 1) * (parameters + 1)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its versions are tested against algorithm 1, step by step"),)
