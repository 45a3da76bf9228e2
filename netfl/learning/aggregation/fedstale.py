"""FedStale: the last change of each user beside its new one, weighted by inverse participation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from netfl.core.rates import Probabilities, ZipfChances, chances_of
from netfl.core.spec import ByForm
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.learning.aggregation import State, Tensor, Updates
from netfl.learning.aggregation._intervals import add_round, delivered_users, mean_intervals, open_intervals
from netfl.learning.aggregation._per_user_state import PerUserState, last_rows, store_rows
from netfl.learning.aggregation._user_shares import UserShares
from netfl.types import Floats, ScenarioFacts


class Fedstale(PerUserState, UserShares):
    """The version moves by new and remembered changes: ``x + η (β Σ_n α_n h_n + Σ_k (α_k / p_k) (Δ_k - β h_k))``.

    The first sum is over all users, the second one over the round's deliveries.  Δ_k is the change, model less base;
    h_n is the last change of user n before this round, 0 before its first; α_n is the user's share in the objective,
    see ``weights``; p_k is the probability that it participates in a round.  With the right p_k, the mean move over who
    participates is η Σ_n α_n Δ_n for any β.  With β = 0 there is no memory: with equal weights, this is
    `known_participation`, or `fedau` if p_k is estimated.  With β = 1 it is `fedvarp` for users with unequal p_k.

    p_k is estimated by default: 1/p_k is the mean interval between the participations of user k, as in `fedau` without
    a cutoff, 1 before the end of the first.  Rounds without deliveries count in the intervals, also if they keep the
    version.  A factor 1/p_k multiplies h_k as well, so that rare users bring much noise.

    Each delivery of a user in a round counts in the second sum, with the h of before the round; the last one is
    remembered.  Changes are stored as delivered: with a schedule, each h_n has the step size with which it was made.

    Source: Rodio and Neglia, "FedStale: leveraging stale client updates in federated learning", 2024, arXiv 2405.04171,
    and the authors' program, which keeps the version in a round without deliveries.

    Example::

        kind: fedstale
        beta: 0.5
        server_lr: 1
    """

    beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Weight β of the remembered changes."""
    probability: Annotated[
        Literal["estimated", "known"] | Probabilities | ZipfChances,
        ByForm(),
        PerUser("{zipf: 1.0}, or known, or estimated"),
    ] = "estimated"
    """Participation probabilities p_k.  ``estimated``: by mean intervals; ``known``: those that the access states, as
    for `known_participation`; or a list with one for each user, or ``{zipf: s}`` as in the access `bernoulli`."""
    empty_round: Literal["move", "keep"] = "move"
    """A round without deliveries moves the version by the remembered changes, η β Σ_n α_n h_n, as the formula does and
    as the mean over all rounds needs it; or it keeps the version, as the authors' program does."""

    def with_participation(self, rates: Floats | None) -> Self:
        if self.probability != "known" or rates is None:
            return self
        return self.model_copy(update={"probability": tuple(rates.tolist())})

    def open(self, users: int, current: Tensor) -> State:
        """Return rows of ``N α_k h_k`` and their mean, N α_k, and 1/p_k or the intervals that estimate it."""
        shares = current.new_tensor(self.relative_shares(users))
        state = {**PerUserState.open(self, users, current), "shares": shares}
        if self.probability == "estimated":
            return {**state, **open_intervals(users, current)}
        return {**state, "inverse": current.new_tensor(self._inverse_probabilities(users))}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        users = updates.users
        shares = state["shares"]  # N α
        changes = shares[users, None] * (updates.models - updates.bases)  # N α_k Δ_k
        news = changes - self.beta * last_rows(state)[users]
        move = self.beta * state["mean"] + _inverse(state)[users] @ news / len(shares)
        following = current + self.server_lr * move
        after = {**state, **store_rows(state, users, changes, updates.has_repeats)}
        return following, _with_round(after, delivered_users(users, shares))

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        after = _with_round(state, state["shares"].new_zeros(len(state["shares"])).bool())
        if self.empty_round == "keep":
            return current, after
        return current + self.server_lr * self.beta * state["mean"], after

    def user_weights(self, state: State) -> Tensor:
        """Return ``N α_k / p_k``."""
        return state["shares"] * _inverse(state)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return ``η (β + (1-β) Σ α_k / p_k)`` over the D users of the largest; ``None`` if these are not known."""
        if self.beta == 1:
            return self.server_lr
        if self.weights == "size" or isinstance(self.probability, str):
            return None
        weights = np.sort(self.relative_shares(users) * self._inverse_probabilities(users))[::-1] / users
        return self.server_lr * (self.beta + (1 - self.beta) * float(weights[:deliveries].sum()))

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from UserShares.faults(self, facts)
        if self.probability == "known" and not facts.participation_known:
            problem = "this access does not state the participation rate of each user"
            yield Fault("probability", problem, "known", "give a list, or leave it out: they are then estimated")
        elif isinstance(self.probability, tuple) and len(self.probability) != facts.users:
            problem = f"{len(self.probability)} probabilities for {facts.users} users"
            yield Fault("probability", problem, remedy="give one for each user, or leave it out")

    def _inverse_probabilities(self, users: int) -> Floats:
        """Return 1/p_k, ``[users]``; 0 for a user that never participates."""
        if isinstance(self.probability, tuple | ZipfChances):
            chances = chances_of(self.probability, users)
            return np.divide(1.0, chances, out=np.zeros(users), where=chances > 0)
        problem = "the probabilities are not known: an outer aggregation must forward the call to"
        raise ValueError(f"{problem} 'with_participation'")


def _inverse(state: State) -> Tensor:
    """Return 1/p_k, known or estimated before the present round, ``[users]``."""
    if "inverse" in state:
        return state["inverse"]
    return mean_intervals(state).to(state["shares"])


def _with_round(state: State, delivered: Tensor) -> State:
    """Return *state* after a round in which the users in the mask *delivered* participate."""
    if "inverse" in state:
        return state
    return {**state, **add_round(state, delivered)}
