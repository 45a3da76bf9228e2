"""The least energy of all users that meet a deadline."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network._band_division import BandRequest, finish_together
from netfl.network.allocation import Allocation, AllocationRequest, Decision, full_power
from netfl.network.allocation._tradeoff import Tradeoff, least_energy_shares
from netfl.types import Law
from netfl.units import Seconds


class LeastEnergy(Allocation):
    """Shares, powers and frequencies with which all users meet a deadline at the least sum of their energies.

    Minimise Σ (e_i φ_i² + ρ_i w_i t_i) subject to c_i / φ_i + t_i ≤ T, t_i s_i B log2(1 + ρ_i γ_i / s_i) ≥ b_i, Σ s_i ≤
    1, shares that the radios can use, and fractions φ and ρ of at most 1: e_i is the energy of a training of c_i s at
    full frequency, w_i the power of sending at full power.  The problem is a geometric program, and so has one minimum.
    It is found by bisection for the upload times t_i, and a search for the multiplier of Σ s_i = 1.  Energy while idle
    and while receiving is not in the sum.

    Users whose training alone takes longer than T, or that could not send in time with the whole band, or with all that
    their radio can use of it, have no share and take no part in the round.  If the others need more than the band, T
    cannot be met: they have full power, full frequency, and the shares with which uploads that begin together end
    together, as early as possible.

    The model of Z. Yang, M. Chen, W. Saad, C. S. Hong and M. Shikh-Bahaei, "Energy efficient federated learning over
    wireless communication networks", IEEE Trans. Wireless Commun. 20(3), 2021, problem (11), in one round.

    Example::

        kind: least_energy
        deadline: 10 s
    """

    deadline: Annotated[Seconds, Field(gt=0)]
    """T, the time from the start of the trainings to the end of the uploads."""

    @property
    def observes(self) -> tuple[str, ...]:
        return ("snr_db",)

    @property
    def needs_energy(self) -> bool:
        return True

    @property
    def follows_capacity(self) -> bool:
        return True

    @property
    def deadline_s(self) -> float | None:
        return self.deadline

    def allocate(self, request: AllocationRequest) -> Decision:
        decision = full_power(np.zeros(request.users))
        needed_shares = Tradeoff(request, self.deadline).least_shares()
        possible_users = np.flatnonzero(needed_shares <= request.limits)
        if not possible_users.size:
            return decision
        part = request.select(possible_users)
        needed_shares = needed_shares[possible_users]
        if needed_shares.sum() >= 1.0:  # all of them in time is more than the band
            bands = BandRequest(10.0 * np.log10(part.snr), part.bits, part.limits)
            decision.share[possible_users] = finish_together(bands)
            return decision
        tradeoff = Tradeoff(part, self.deadline)
        share = least_energy_shares(tradeoff, needed_shares)
        decision.assign(possible_users, tradeoff.decide(share))
        return decision

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)
