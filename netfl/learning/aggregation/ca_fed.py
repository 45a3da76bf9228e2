"""CA-Fed: weights users by their availability, and leaves out those that are rarely there or correlated in time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field

from netfl.core.rates import ZipfChances, chances_of
from netfl.core.spec import ByForm, OnlyWith
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.learning.aggregation._last_losses import with_last
from netfl.types import Floats, ScenarioFacts

_Probabilities = Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)]
_Correlation = Annotated[float, Field(ge=-1, le=1)]
_Correlations = Annotated[tuple[_Correlation, ...], Field(min_length=1)]
_Losses = Annotated[tuple[float, ...], Field(min_length=1)]


class CaFed(Aggregation):
    """Changes are weighted by the inverse availability of users that are kept: ``x + η Σ_k q_k (θ_k - base_k)``.

    The sum is over the round's deliveries, and the users that deliver in a round are those that are available in it.
    q_k is ``1 / (N π_k)`` for a user that is kept, and 0 for one that is left out; N is the number of users.  The
    weights are not normalised.  π_k is the share of rounds in which user k delivers, and λ_k the second eigenvalue of
    its two-state chain.

    In each round the server decides again which users it keeps.  It begins with all, and tries to leave out one after
    another, first in the order of falling ``|λ_k|``, then in that of rising π_k.  A user is left out if the error E
    falls by at least ``tolerance``::

        E = mean_K (F_k - F*_k) + b max_n (F_n - F*_n) (1 - K/N)²

    The mean is over the K users that are kept, and the maximum over all.  The weights of the paper, ``w_k = π_k q_k``
    over their sum, are 1/K for users that are kept, and 1 - K/N is their total variation from 1/N.  The last user is
    kept.

    F_k is the estimated loss of user k.  In the first round with deliveries it is the mean loss of base_k over the
    user's examples, and for the other users the mean of these.  Later it is ``s F_k + (1-s)`` times this loss for the
    users that deliver.  F*_k is the least loss of a user alone; 0 unless ``optimum`` is given.

    After t rounds, the estimates of ``estimate: counts`` are ``π_k = deliveries/t`` and ``λ_k = stays/t - 1``, where
    stays are the rounds in which user k was delivered, or was not, as in the round before; no user was before the
    first.  So ``|λ_k|`` is the share of the rounds in which the user came or went.  With ``estimate: prior``, known
    values count for n rounds: ``π_k = (deliveries + n p_k)/(t + n)``, ``λ_k = (stays + n (1 + c_k))/(t + n) - 1``.
    With ``estimate: known`` they are ``probability`` p_k and ``correlation`` c_k themselves.

    Each delivery of a user in a round counts in the sum; for π, λ and F the user is there once, with its last delivery.
    Rounds without deliveries count in t, and keep the version.

    Source: Rodio, Faticanti, Marfoq, Neglia and Leonardi, "Federated learning under heterogeneous and correlated client
    availability", INFOCOM 2023, as in the authors' program (``clients_sampler.py``, ``activity_estimator.py``), which
    counts transitions as shares of all rounds.  There users that are left out do not train.  Here the server ignores
    their updates, which have been sent: a round has the airtime, bits and energy of `average`.  All users have the
    weight 1/N in the objective, because a rule knows the amounts of data of delivered users only.  The program has
    momentum at the server: use `fedavgm` with ``inner: ca_fed``.

    Example::

        kind: ca_fed
        server_lr: 0.3
        s: 0.2
    """

    needs_losses: ClassVar[bool] = True
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""
    b: Annotated[float, Field(ge=0)] = 1.0
    """Weight b of the bias in E; the larger, the fewer users are left out."""
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Smallest fall of E for which a user is left out, in units of the loss."""
    s: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Weight s of former losses in F_k."""
    optimum: Annotated[_Losses | float, ByForm(), PerUser("one number for all")] = 0.0
    """Loss F*_k of the model that is best for user k alone: one for each user, or one for all."""
    estimate: Literal["counts", "prior", "known"] = "counts"
    """``counts``: π_k and λ_k are estimated from deliveries; ``prior``: known values count for some rounds;
    ``known``: they are known."""
    probability: Annotated[
        Annotated[_Probabilities | ZipfChances, ByForm()] | None,
        OnlyWith("estimate", "prior", "known"),
        PerUser("{zipf: 1.0}"),
    ] = None
    """Shares p_k of the rounds in which users deliver, one for each user, or ``{zipf: s}`` as in the access
    `bernoulli`; by default those that the access states."""
    correlation: Annotated[
        Annotated[_Correlations | _Correlation, ByForm()] | None,
        OnlyWith("estimate", "prior", "known", needed=True),
        PerUser("one number for all"),
    ] = None
    """Second eigenvalues c_k of the users' chains, one for each user, or one for all; 0 if rounds are independent."""
    prior_rounds: Annotated[float, Field(gt=0), OnlyWith("estimate", "prior")] = 100.0
    """Number n of rounds for which the known values count."""

    def with_participation(self, rates: Floats | None) -> Self:
        if self.estimate == "counts" or self.probability is not None or rates is None:
            return self
        return self.model_copy(update={"probability": tuple(rates.tolist())})

    def open(self, users: int, current: Tensor) -> State:
        """Return the counts of rounds, deliveries and stays, the users of the last round, F_k, and known values."""
        zeros = current.new_zeros(users).long()
        state = {
            "rounds": zeros.sum(),
            "deliveries": zeros,
            "stays": zeros,
            "present": zeros.bool(),
            "losses": zeros.double(),
        }
        if self.estimate == "counts":
            return state
        if self.probability is None:
            problem = "the probabilities are not known: an outer aggregation must forward the call to"
            raise ValueError(f"{problem} 'with_participation'")
        state["probability"] = state["losses"].new_tensor(chances_of(self.probability, users))
        state["correlation"] = state["losses"].new_tensor(_of_users(self.correlation or 0.0, users))
        return state

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        users = updates.users
        present = state["present"].new_zeros(len(state["present"])).index_fill_(0, users, 1)
        losses = self._losses(state, present, users, cast("Tensor", updates.losses).double())
        state = {**_add_round(state, present), "losses": losses}

        availability, correlation = self._estimates(state)
        is_kept = self._choose(losses, availability, correlation)
        weights = (1.0 / (len(present) * availability)).where(is_kept & (availability > 0), 0.0)  # q_k
        change = weights[users].to(current) @ (updates.models - updates.bases)
        return current + self.server_lr * change, state

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        nobody = state["present"].new_zeros(len(state["present"]))
        return current, _add_round(state, nobody)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        for key in ("optimum", "probability", "correlation"):
            values = getattr(self, key)
            if isinstance(values, tuple) and len(values) != facts.users:
                yield Fault(key, f"{len(values)} values for {facts.users} users", remedy="give one for each user")
        if self.estimate != "counts" and self.probability is None and not facts.participation_known:
            problem = "missing; this access does not state the participation rate of each user"
            yield Fault("probability", problem, None, "give a list, or use estimate: counts")

    def _losses(self, state: State, present: Tensor, users: Tensor, reported: Tensor) -> Tensor:
        """Return the estimates F_k, ``[all users]``, after deliveries of *users* with the losses *reported*."""
        last = with_last(state["losses"], users, reported)
        smoothed = self.s * state["losses"] + (1 - self.s) * last
        later = smoothed.where(present, state["losses"])
        mean = last.where(present, 0.0).sum() / present.sum()
        first = last.where(present, mean)
        return later.where(state["deliveries"].any(), first)

    def _estimates(self, state: State) -> tuple[Tensor, Tensor]:
        """Return π_k and λ_k, ``[users]`` each."""
        if self.estimate == "known":
            return state["probability"], state["correlation"]
        rounds = state["rounds"].double()
        deliveries = state["deliveries"].double()
        stays = state["stays"].double()
        if self.estimate == "prior":
            rounds = rounds + self.prior_rounds
            deliveries = deliveries + self.prior_rounds * state["probability"]
            stays = stays + self.prior_rounds * (1 + state["correlation"])
        return deliveries / rounds, stays / rounds - 1

    def _choose(self, losses: Tensor, availability: Tensor, correlation: Tensor) -> Tensor:
        """Return whether each user is kept, ``[users]``.

        Each decision depends on those before it, so they are made on the host, in double precision.
        """
        users = len(losses)
        optimum = losses.new_tensor(_of_users(self.optimum, users))
        by_correlation = correlation.abs().argsort(descending=True, stable=True)
        by_availability = availability.argsort(stable=True)
        order = [*by_correlation.tolist(), *by_availability.tolist()]
        is_kept = kept_users((losses - optimum).tolist(), order, self.b, self.tolerance)
        return correlation.new_tensor(is_kept).bool()


def kept_users(gaps: Sequence[float], order: Sequence[int], b: float, tolerance: float) -> list[bool]:
    """Return whether each user is kept, if those in *order* are left out as long as the error E falls.

    Args:
        gaps: differences F_k - F*_k of all users.
        order: users to leave out, one after another; a user may occur again.
        b: weight of the bias in E.
        tolerance: smallest fall of E.
    """
    users = len(gaps)
    bias = b * max(gaps)
    is_kept = [True] * users
    kept = users  # K
    total = math.fsum(gaps)
    error = total / users  # E with all users
    for user in order:
        if not is_kept[user]:
            continue
        if kept == 1:
            break
        fewer = kept - 1
        next_error = (total - gaps[user]) / fewer + bias * (1 - fewer / users) ** 2
        if error - next_error >= tolerance:
            is_kept[user] = False
            kept = fewer
            total -= gaps[user]
            error = next_error
    return is_kept


def _add_round(state: State, present: Tensor) -> dict[str, Tensor]:
    """Return the counts after a round in which the users in the mask *present* deliver, ``[users]``."""
    return {
        **state,
        "rounds": state["rounds"] + 1,
        "deliveries": state["deliveries"] + present,
        "stays": state["stays"] + (present == state["present"]),
        "present": present,
    }


def _of_users(values: Sequence[float] | float, users: int) -> list[float]:
    """Return the value of each of the *users*, from a list or from one number for all."""
    if isinstance(values, float | int):
        return [float(values)] * users
    return [*values]
