"""FedAWE: changes that are echoed by the rounds since the last participation, on versions that users keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, LearnerOptions, State, Tensor, Updates


class Fedawe(Aggregation):
    """The version is the mean of what the round's users hold, with echoed changes: ``x = 1/A Σ_k (b_k + η g_k Δ_k)``.

    The sum is over the A users that deliver in round r.  b_k is the version that the last delivered update of user k
    helped to make, version 0 before its first, and Δ_k its change from there: the learner needs ``base:
    last_participation``.  ``g_k = r - b_k`` counts the rounds since then: 1 for a user that delivered in the round
    before.  The present version does not occur in it.  The model that is evaluated is the mean over all users of the
    versions that they hold.  A round without deliveries changes nothing.  A user with several deliveries in a round
    participates once, with the sum of its changes.  t is treated as θ.

    Source: Xiang et al., "Efficient federated learning against heterogeneous and non-stationary client unavailability",
    NeurIPS 2024, algorithm 1.  Users get the new version at the end of the round there; here the network sends versions
    as it does for all learners.  The authors' program limits the norm of the mean change, see ``clip``.

    Example::

        kind: fedawe
        server_lr: 1
        clip: 0.5
    """

    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """Largest norm of the mean of all ``η g_k Δ_k``, which is scaled down to it; by default there is no limit, as in
    the paper.  The authors' program has 0.5."""

    def open(self, users: int, current: Tensor) -> State:
        """Return the mean of the versions that users hold, and the share of one user in it."""
        return {"mean": current.clone(), "share": current.new_full((), 1.0 / users)}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        gaps = (updates.round - updates.base_rounds).to(updates.models)  # g_k
        echoed = gaps[:, None] * (updates.models - updates.bases)
        bases, changes = _by_user(updates, echoed)
        move = self.server_lr * changes.mean(0)
        if self.clip is not None:
            move = move * (self.clip / move.norm()).clamp(max=1.0)
        following = bases.mean(0) + move

        # these users hold the next version in place of their bases
        mean = state["mean"] + state["share"] * (following - bases).sum(0)
        return following, {"mean": mean, "share": state["share"]}

    def reported(self, state: State, current: Tensor) -> Tensor:
        return state["mean"]

    def memory(self, users: int, parameters: int) -> int:
        return parameters + 2

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        if learner.base != "last_participation":
            problem = "needs users that start from the version of their last participation"
            yield Fault("", problem, "fedawe", "write base: last_participation beside it")


def _by_user(updates: Updates, changes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the base of each user and the sum of its *changes*, ``[users of the round, parameters + 1]`` each."""
    if not updates.has_repeats:
        return updates.bases, changes
    users, places = updates.users.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    sums = changes.new_zeros(len(users), changes.shape[1]).index_add_(0, places, changes)
    bases = changes.new_zeros(sums.shape)
    bases[places] = updates.bases  # those of a user are equal
    return bases, sums
