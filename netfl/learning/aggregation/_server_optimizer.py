"""Optimisers at the server: what another aggregation would add to the version is taken for a gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, Updates
from netfl.learning.aggregation.average import Average
from netfl.registry import FamilyMember
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State
    from netfl.learning.spec import LearnerSpec

_INNER = "of."
"""What the names in the state of the other aggregation begin with."""


class ServerOptimiser(Aggregation):
    """``Δ = next(x) - x`` by another aggregation, and ``x + move(Δ)`` in its place.

    A round that the other aggregation lets pass, as most do when nobody is heard, moves nothing.
    """

    of: Annotated[Aggregation, FamilyMember()] = Average()
    """The aggregation whose step is Δ: any that reports its own versions."""

    @field_validator("of")
    @classmethod
    def _reports_versions(cls, of: Aggregation) -> Aggregation:
        """One that reports another model makes it from versions that it does not get to see here."""
        if type(of).reported is not Aggregation.reported:
            raise ValueError("this aggregation reports a model made of its own versions; take another one")
        return of

    @abstractmethod
    def begin(self, current: Tensor) -> State:
        """The optimiser's own state before the first round, for versions like *current*."""

    @abstractmethod
    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        """What is added to the version where Δ is *change*, ``[parameters + 1]``, and the optimiser's next state."""

    def with_participation(self, heard: NDArray[np.float64] | None) -> Self:
        """With the other aggregation with_participation."""
        return self.model_copy(update={"of": self.of.with_participation(heard)})

    def open(self, users: int, current: Tensor) -> State:
        """That of both."""
        return {**self.begin(current), **_outer(self.of.open(users, current))}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """A move along the other aggregation's step."""
        return self._moved(state, current, *self.of.step(_inner(state), current, updates))

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """The same, if the other aggregation makes a step."""
        following, inner = self.of.idle(_inner(state), current, index, newest_rates)
        return (
            (current, {**state, **_outer(inner)})
            if following is current
            else self._moved(state, current, following, inner)
        )

    def message(self, state: State) -> Tensor | None:
        """The other aggregation's."""
        return self.of.message(_inner(state))

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """The other aggregation's."""
        return self.of.drift(_inner(state), users, messages)

    def user_weights(self, state: State) -> Tensor | None:
        """The other aggregation's."""
        return self.of.user_weights(_inner(state))

    @property
    def has_user_weights(self) -> bool:
        """Whether the other aggregation does."""
        return self.of.has_user_weights

    @property
    def needs_losses(self) -> bool:
        """Whether the other aggregation does."""
        return self.of.needs_losses

    def memory(self, users: int, parameters: int) -> int:
        """The other aggregation's, and what the optimiser keeps of each parameter."""
        return self.of.memory(users, parameters) + self.kept * (parameters + 1)

    @property
    @abstractmethod
    def kept(self) -> int:
        """How many numbers the optimiser keeps of each parameter."""

    def learner_faults(self, learner: LearnerSpec) -> Iterator[Fault]:
        """The other aggregation's."""
        yield from (fault.under("of") for fault in self.of.learner_faults(learner))

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an aggregation draws nothing; its versions are tested against the paper's, step by step"),)

    def _moved(self, state: State, current: Tensor, following: Tensor, inner: State) -> tuple[Tensor, State]:
        """A move from *current*, where the other aggregation goes to *following*."""
        own = {name: one for name, one in state.items() if not name.startswith(_INNER)}
        move, after = self.move(own, following - current)
        return current + move, {**after, **_outer(inner)}


def _inner(state: State) -> State:
    """The other aggregation's part of *state*."""
    return {name.removeprefix(_INNER): one for name, one in state.items() if name.startswith(_INNER)}


def _outer(state: State) -> State:
    """*state* of the other aggregation as a part of the whole."""
    return {_INNER + name: one for name, one in state.items()}
