"""The aggregation family: how deliveries become the next version of the global model.

An aggregation works on one lane at a time.  Models are flat vectors, ``[parameters + 1]``: θ and, last, the objective's
scalar t, which is treated like any other parameter.  What it must remember from round to round is an explicit
state, a mapping of names to tensors, which checkpoints hold; `step` is a pure function.

To write one: a file in this package, or a class in a package of your own, that derives from `Aggregation`.

- `open` gives the state before the first round, such as one row per user of what it last sent.
- `step` gets the state, the current version and the round's `Updates`; it returns the next version and the next state.
  It must not write into the version or the updates; the state belongs to it, and may be changed in place, which a row
  per user asks for.  ``updates.round`` tells how many rounds have passed.
- `idle` is called for a round without deliveries, in which most leave everything as it is.
- A schedule changes the users' step sizes: ``updates.rates`` are those of the updates, ``updates.now`` the newest.
- Changes since the base are ``updates.models - updates.bases``; their staleness is ``updates.round - 1 -
  updates.base_rounds``.  A user may be there more than once.
- What the server sends beside the version is its `message`; what users add to their gradients is the `drift`.
- `worth` says how much each user's updates count, for who reads the tables; `reported` which model is evaluated.
- Use methods and operators of tensors only; a file that needs torch itself imports it inside the method.
- `faults` says what does not go with the access, such as more than one delivery in a round; `misfits` what does not go
  with the rest of the learner; `memory` how much the state takes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault
from netfl.registry import Spec

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.spec import LearnerSpec

    State = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Updates:
    """The deliveries of one round to one lane, in the order of their arrival; never empty.

    Args:
        round: the index of the version that they make.
        users: who sent them, ``[k]``, int64.
        base_rounds: the versions that they started from, ``[k]``, int64.
        bases: those versions, ``[k, parameters + 1]``.
        models: what was sent, ``[k, parameters + 1]``.
        samples: how many examples each sender holds, ``[k]``, in the type of the models.
        steps: how many local steps each took, ``[k]``.
        rates: their step sizes on θ, and on t, ``[k, 2]``; 0 for a t that stays.
        now: the step sizes of a user that starts from the newest version, the one before *round*, ``[2]``.
        losses: the mean loss of its base over all examples that each sender holds, ``[k]``; where `wants_losses`.
        messages: what each was sent beside its base, ``[k, …]``; where there is a `message`.
    """

    round: int
    users: Tensor
    base_rounds: Tensor
    bases: Tensor
    models: Tensor
    samples: Tensor
    steps: Tensor
    rates: Tensor
    now: Tensor
    losses: Tensor | None = None
    messages: Tensor | None = None


class Aggregation(Spec):
    """The contract of an aggregation."""

    def informed(self, heard: NDArray[np.float64] | None) -> Self:
        """This rule in a replica in which users are heard in such shares of the rounds, ``[users]``, for who asks.

        ``None`` where the access does not state them; `Facts.heard_known` tells `faults` so.
        """
        return self

    def open(self, users: int, current: Tensor) -> State:
        """The state before the first round.

        Args:
            users: the number of users.
            current: version 0, ``[parameters + 1]``; new tensors are best made from it, for their type and device.
        """
        return {}

    @abstractmethod
    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The next version, ``[parameters + 1]``, and the next state."""

    def idle(self, state: State, current: Tensor, index: int, now: Tensor) -> tuple[Tensor, State]:
        """The next version and state after round *index*, in which nobody was heard: both as they are.

        Step sizes are *now* those in `Updates`.
        """
        return current, state

    def message(self, state: State) -> Tensor | None:
        """What the server sends beside its version; ``None`` for nothing.  It is kept as long as the version is."""
        return None

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """What *users*, ``[k]``, add to each gradient of θ and of t, ``[k, parameters + 1]``; ``None`` for nothing.

        Args:
            state: that of the server as the updates reach it.
            users: who trains.
            messages: what each was sent beside its base, ``[k, …]``.
        """
        return None

    def reported(self, state: State, current: Tensor) -> Tensor:
        """The model that is evaluated, ``[parameters + 1]``: the current version."""
        return current

    def worth(self, state: State) -> Tensor | None:
        """How much a change of each user would count next, ``[users]``; ``None`` where that is no figure of a user's.

        In units of a step that counts everyone the same, if that has a meaning: 1 is no more and no less than others.
        """
        return None

    @property
    def weighs(self) -> bool:
        """Whether it has a `worth`."""
        return type(self).worth is not Aggregation.worth

    @property
    def wants_losses(self) -> bool:
        """Whether it must know how well the version that users received does on their examples."""
        return False

    def memory(self, users: int, parameters: int) -> int:
        """How many numbers `open` keeps, beside a few; *parameters* are those of θ."""
        return 0

    def misfits(self, learner: LearnerSpec) -> Iterator[Fault]:
        """What in the rest of its *learner* it cannot work with; keys relative to the aggregation."""
        yield from ()
