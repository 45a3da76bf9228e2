"""SCAFFOLD: users correct their gradients with control variates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions, State, Tensor, Updates
from netfl.learning.aggregation._per_user_state import PerUserState, last_rows, pseudo_gradients, store_rows


class Scaffold(PerUserState):
    """Gradients are corrected, ``g + c - c_k``; the version moves by the mean change: ``x + η mean_k (θ_k - base_k)``.

    c_k is the control variate of user k, an estimate of its gradient.  c is the mean over all N users, which the server
    sends beside its version; all start at 0.  An update of K steps of size lr gives ``c_k⁺ = c_k - c + (base - θ_k) /
    (K lr)`` (option II of the paper), with the c that came with the base.  t has entries in c and c_k as θ does, with
    its own step size; a constant t has none.  An update with a step size of 0 leaves c_k as it is.

    An update holds the change of c_k beside the model, and a broadcast holds c: both have twice the size of a model.
    Users compute c_k⁺ from the model that they have trained, so a codec of updates is refused.

    The server knows c_k from the last delivery of user k: a lost update loses its c_k, too.  Several deliveries of a
    user in one round are all trained with the c_k of before the round; the last c_k⁺ is stored.

    Source: Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", ICML 2020,
    algorithm 1.

    Example::

        kind: scaffold
        server_lr: 1
    """

    needs_whole_models: ClassVar[bool] = True
    divides_by_steps: ClassVar[bool] = True
    divides_by_rates: ClassVar[bool] = True

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        changes = updates.models - updates.bases
        before = last_rows(state)[updates.users]  # c_k
        server_variates = cast("Tensor", updates.messages)  # c
        variates = pseudo_gradients(changes, updates.rates) / updates.steps[:, None]  # (base - θ_k) / (K lr)
        variates += before
        variates -= server_variates
        variates = variates.where(updates.rates[:, :1] > 0, before)
        following = current + self.server_lr * changes.mean(0)
        return following, store_rows(state, updates.users, variates, updates.has_repeats)

    def message(self, state: State) -> Tensor:
        return state["mean"]

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor:
        return cast("Tensor", messages) - last_rows(state)[users]

    def uplink_extra(self, parameters: int) -> int:
        """Return the size of ``c_k⁺ - c_k``, which a user sends with the change of its model."""
        return parameters

    def downlink_extra(self, parameters: int) -> int:
        """Return the size of c, which the server sends with its version."""
        return parameters

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        if learner.momentum:
            problem = "scaffold computes a user's mean gradient from its change, which momentum distorts"
            remedy = "leave momentum out, or use it at the server: 'fedavgm' with inner: scaffold"
            yield Fault("kind", problem, "scaffold", remedy)
