"""The least time in which all users deliver within a budget of energy."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network._band_division import divide_in_proportion
from netfl.network.allocation import Allocation, AllocationRequest, Decision, full_power
from netfl.network.allocation._tradeoff import (
    Tradeoff,
    least_deadline_s,
    least_energy_of_sending_j,
    shares_within_budget,
)
from netfl.types import Law
from netfl.units import Joules


class LeastTime(Allocation):
    """Shares, powers and frequencies with which all users deliver as early as possible, each within its budget.

    Minimise T subject to c_i / φ_i + t_i ≤ T, f_i + e_i φ_i² + ρ_i w_i t_i ≤ budget, t_i s_i B log2(1 + ρ_i γ_i / s_i)
    ≥ b_i, Σ s_i ≤ 1, shares that the radios can use, and fractions φ and ρ of at most 1: e_i is the energy of the
    cycles of a training of c_i s at full frequency, f_i its energy at any frequency, and w_i the power of sending at
    full power.  T is found by bisection: for each T, the smallest share of every user follows from the upload time that
    leaves the most energy where it is needed, and T is feasible if these shares fit into the band.  Energy while idle
    and while receiving is not counted.

    A user whose budget less f is below w b ln 2 / (B γ), the limit for long uploads at low power, has no share and
    takes no part in the round.

    The model is that of `least_energy`.

    Example::

        kind: least_time
        budget: 0.5 J
    """

    budget: Annotated[Joules, Field(gt=0)]
    """Energy of each user for the training and the upload of a round."""

    @property
    def observes(self) -> tuple[str, ...]:
        return ("snr_db",)

    @property
    def needs_energy(self) -> bool:
        return True

    @property
    def follows_capacity(self) -> bool:
        return True

    def allocate(self, request: AllocationRequest) -> Decision:
        decision = full_power(np.zeros(request.users))
        budget_j = self.budget - request.fixed_j
        possible_users = np.flatnonzero(least_energy_of_sending_j(request) < budget_j)
        if not possible_users.size:
            return decision
        part = request.select(possible_users)
        budget_j = budget_j[possible_users]
        deadline_s = least_deadline_s(part, budget_j)
        share = shares_within_budget(part, deadline_s, budget_j)
        share = divide_in_proportion(share, part.limits)
        decision.assign(possible_users, Tradeoff(part, deadline_s).decide(share))
        return decision

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)
