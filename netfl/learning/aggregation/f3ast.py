"""F3AST: weights users by their share of the data over the running rate at which they are used."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from netfl.learning.aggregation import State, Tensor, Updates
from netfl.learning.aggregation._intervals import delivered_users
from netfl.learning.aggregation._user_shares import UserShares


class F3ast(UserShares):
    """Changes are weighted by a running rate of participation: ``x + η/M Σ_k (p_k / r_k) (θ_k - base_k)``.

    The sum is over the round's deliveries.  p_k is the user's share in the objective, by default of the examples, see
    ``weights``.  r_k is the rate at which the server uses the updates of user k: ``r ← (1 - β) r + β 1{delivered}`` for
    all users in each round, and the weight has the r_k that this round has updated.  Rounds without deliveries keep the
    version, and count.  A user with several deliveries in a round participates once, with the sum of its changes.  M is
    1 in the paper; the authors' program divides by its number of clients in a round, which is ``divisor``.

    The selection `f3ast` has the rates of users that it selects.  Both are equal, with one β and a start from the
    shares, if each selected user delivers in the round in which it is selected.  If some fail, or come late, these are
    the rates of what arrives.

    The rate of a user that is absent for n rounds falls as (1 - β)^n.  Nothing bounds it, but at the return of the user
    r_k is at least β, so that its weight grows to p_k/β at most: with the default, 1,000 times its share.

    With m users in each round, the rates tend to about m/N from a start at about 1/N.  So, without a divisor, steps are
    up to m times as long in the first 1/β rounds as later.  With a divisor of m, they are at first about the mean of
    the deliveries, and later an m-th of it.

    Source: Ribero, Vikalo and de Veciana, "Federated learning under intermittent client availability and time-varying
    communication constraints", IEEE J. Sel. Topics Signal Process. 17(1), 2023, algorithm 1, and the authors' program.
    Server optimisers are `fedavgm` and `fedadam` with this rule as ``inner``.

    Example::

        kind: f3ast
        beta: 0.001
        server_lr: 1
    """

    beta: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Step β of the running rates: what happened 1/β rounds ago has mostly been forgotten."""
    start: Literal["share", "equal"] = "share"
    """Rates before the first round. ``share``: r_k = p_k, as in the selection; ``equal``: r_k = 1/N of N users."""
    divisor: Annotated[float, Field(gt=0)] | None = None
    """Number M by which the sum is divided; by default 1, as in the paper."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def open(self, users: int, current: Tensor) -> State:
        """Return the shares p and the rates r of all users, in double precision as in the selection."""
        shares = current[:0].double().new_tensor(self.relative_shares(users) / users)
        rates = shares.clone()
        if self.start == "equal":
            rates.fill_(1 / users)
        return {"shares": shares, "rates": rates}

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        users = updates.users
        rates = self._next_rates(state["rates"], delivered_users(users, state["rates"]))
        weights = (state["shares"][users] / rates[users]).to(current)  # p_k / r_k
        change = weights @ (updates.models - updates.bases)
        return current + self.server_lr / (self.divisor or 1.0) * change, {**state, "rates": rates}

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        return current, {**state, "rates": self._next_rates(state["rates"], state["rates"].new_zeros(()))}

    def user_weights(self, state: State) -> Tensor:
        """Return ``N p_k / (M r_k)`` of users that deliver in the next round."""
        shares = state["shares"]
        rates = self._next_rates(state["rates"], shares.new_ones(()))
        return len(shares) / (self.divisor or 1.0) * shares / rates

    def _next_rates(self, rates: Tensor, delivered: Tensor) -> Tensor:
        """Return ``(1 - β) r + β 1{delivered}``."""
        return (1.0 - self.beta) * rates + self.beta * delivered.to(rates)
