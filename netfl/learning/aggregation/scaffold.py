"""SCAFFOLD: users correct their gradients by how the gradients of all differ from their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from netfl.errors import Fault
from netfl.learning.aggregation._per_user_state import PerUserState, pseudo_gradients, store_rows

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.aggregation import State, Updates
    from netfl.learning.spec import LearnerSpec


class Scaffold(PerUserState):
    """Gradients are corrected, ``g + c - c_k``; the version moves by the mean change: ``x + η mean_k (θ_k - base_k)``.

    c_k is user k's control variate, an estimate of its gradient, and c their mean over all N users, which the server
    sends beside its version; all start at 0.  With an update of K steps of size lr that starts from a base, option II
    of the paper has ``c_k⁺ = c_k - c + (base - θ_k) / (K lr)``, c the one that came with that base.  t has entries in c
    and c_k as θ does, with its own step size; a t that stays has none.

    A user's c_k is what the server knows from its last delivery: of an update that is lost, c_k is lost with it.  A
    user that is heard twice in one round has trained both updates with the c_k of before it; the later c_k⁺ stays.

    Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020, algorithm 1.

    Example::

        kind: scaffold
        server_lr: 1
    """

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """The mean change; and new control variates for those heard."""
        changes = updates.models - updates.bases
        own = pseudo_gradients(changes, updates.rates) / updates.steps[:, None]
        own += state["last"][updates.users]
        own -= cast("Tensor", updates.messages)
        return current + self.server_lr * changes.mean(0), store_rows(state, updates.users, own)

    def message(self, state: State) -> Tensor:
        """What is called c above."""
        return state["mean"]

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor:
        """``c - c_k``."""
        return cast("Tensor", messages) - state["last"][users]

    def learner_faults(self, learner: LearnerSpec) -> Iterator[Fault]:
        """Steps that are not the gradient alone."""
        if learner.momentum:
            problem = "scaffold reads a user's mean gradient from its change, which momentum makes another"
            remedy = "leave momentum out, or take it at the server: 'fedavgm' with of: scaffold"
            yield Fault("kind", problem, "scaffold", remedy)
