"""FedVARP: variance reduction with the last change of each user."""

from __future__ import annotations

from typing import Literal

from netfl.learning.aggregation import State, Tensor, Updates
from netfl.learning.aggregation._per_user_state import PerUserState, last_rows, store_rows


class Fedvarp(PerUserState):
    """The mean delivered change, corrected by the last changes: ``x + η (mean_k (Δ_k - y_k) + 1/N Σ_n y_n)``.

    The first mean is over the round's deliveries.  Δ_k is the change, model less base; y_n is the last change of user n
    before this round, 0 before its first; N is the number of users.  In a round without deliveries, for which the paper
    states nothing, the version moves by η times the mean of the y, or stays with ``empty_round: keep``.  Each delivery
    of a user in a round counts in the first mean, with the y of before the round; the last one is remembered.  Changes
    are stored as delivered: with a schedule, each y_n has the step size with which it was made.  The paper assumes a
    constant step size.

    Source: Jhunjhunwala et al., "FedVARP: tackling the variance due to partial client participation in federated
    learning", UAI 2022, algorithm 1.  The code of FedAU (Wang and Ji, ICLR 2024) and of FedAWE (Xiang et al., NeurIPS
    2024) keeps the version in an empty round.

    Example::

        kind: fedvarp
        server_lr: 1
    """

    empty_round: Literal["move", "keep"] = "move"
    """A round without deliveries moves the version by the mean of the last changes, or keeps it."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        changes = updates.models - updates.bases  # Δ_k
        last_changes = last_rows(state)[updates.users]  # y_k
        move = (changes - last_changes).mean(0) + state["mean"]
        following = current + self.server_lr * move
        return following, store_rows(state, updates.users, changes, updates.has_repeats)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        if self.empty_round == "keep":
            return current, state
        return current + self.server_lr * state["mean"], state
