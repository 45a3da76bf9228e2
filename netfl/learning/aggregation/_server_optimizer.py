"""Server optimisers, for which the step of another aggregation is the gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import field_validator

from netfl.core.family_members import FamilyMember
from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, LearnerOptions, State, Tensor, Updates
from netfl.learning.aggregation.average import Average
from netfl.types import Floats, Ints

_INNER = "inner."
"""Prefix of the inner aggregation's names in the state."""


class ServerOptimiser(Aggregation):
    """The version moves by ``x + move(Δ)``, where ``Δ = next(x) - x`` is the step of an inner aggregation.

    If the inner aggregation leaves the version as it is, as most do without deliveries, nothing moves.
    """

    inner: Annotated[Aggregation, FamilyMember()] = Average()
    """Inner aggregation whose step is Δ; it must report its own versions."""

    @field_validator("inner")
    @classmethod
    def _reports_versions(cls, inner: Aggregation) -> Aggregation:
        if type(inner).reported is not Aggregation.reported:
            raise ValueError("this aggregation reports a model that differs from its versions; use another one")
        return inner

    @abstractmethod
    def open_optimiser(self, current: Tensor) -> State:
        """Return the optimiser's own state before the first round, for versions like *current*."""

    @abstractmethod
    def move(self, state: State, change: Tensor) -> tuple[Tensor, State]:
        """Return the move of the version for Δ = *change*, ``[parameters + 1]``, and the optimiser's next state."""

    def with_participation(self, rates: Floats | None) -> Self:
        return self.model_copy(update={"inner": self.inner.with_participation(rates)})

    def with_examples(self, examples: Ints) -> Self:
        return self.model_copy(update={"inner": self.inner.with_examples(examples)})

    def open(self, users: int, current: Tensor) -> State:
        inner = self.inner.open(users, current)
        return {**self.open_optimiser(current), **_outer(inner)}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        following, inner = self.inner.step(_inner(state), current, updates)
        return self._moved(state, current, following, inner)

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        return self.inner.next_buffers(current, updates)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        following, inner = self.inner.idle(_inner(state), current, index, newest_rates)
        if following is current:  # no step
            return current, {**state, **_outer(inner)}
        return self._moved(state, current, following, inner)

    def message(self, state: State) -> Tensor | None:
        return self.inner.message(_inner(state))

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor | None:
        return self.inner.drift(_inner(state), users, messages)

    def user_weights(self, state: State) -> Tensor | None:
        return self.inner.user_weights(_inner(state))

    @property
    def has_user_weights(self) -> bool:
        return self.inner.has_user_weights

    @property
    def needs_losses(self) -> bool:
        return self.inner.needs_losses

    @property
    def accepts_parts(self) -> bool:
        return self.inner.accepts_parts

    @property
    def reads_parts(self) -> bool:
        return self.inner.reads_parts

    @property
    def reads_links(self) -> frozenset[str]:
        return self.inner.reads_links

    @property
    def needs_whole_models(self) -> bool:
        return self.inner.needs_whole_models

    @property
    def divides_by_steps(self) -> bool:
        return self.inner.divides_by_steps

    @property
    def divides_by_rates(self) -> bool:
        return self.inner.divides_by_rates

    def uplink_extra(self, parameters: int) -> int:
        return self.inner.uplink_extra(parameters)

    def downlink_extra(self, parameters: int) -> int:
        return self.inner.downlink_extra(parameters)

    @property
    def has_device_rows(self) -> bool:
        return self.inner.has_device_rows

    def memory(self, users: int, parameters: int) -> int:
        return self.inner.memory(users, parameters) + self.numbers_per_parameter * (parameters + 1)

    @property
    @abstractmethod
    def numbers_per_parameter(self) -> int:
        """Numbers that the optimiser keeps for each parameter."""

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        yield from (fault.under("inner") for fault in self.inner.learner_faults(learner))

    def _moved(self, state: State, current: Tensor, following: Tensor, inner: State) -> tuple[Tensor, State]:
        """Return the version moved for the step from *current* to *following*, and the next states of both."""
        before = {name: value for name, value in state.items() if not name.startswith(_INNER)}
        move, after = self.move(before, following - current)
        return current + move, {**after, **_outer(inner)}


def _inner(state: State) -> State:
    """Return the state of the inner aggregation."""
    return {name.removeprefix(_INNER): value for name, value in state.items() if name.startswith(_INNER)}


def _outer(state: State) -> State:
    """Return the *state* of an inner aggregation with the names that it has in the state of the optimiser."""
    return {_INNER + name: value for name, value in state.items()}
