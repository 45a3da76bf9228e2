"""The users in the tail of the conditional value at risk (CVaR), compared with the objective."""

import numpy as np
import pytest

from netfl.diagnosis.rates import cvar_reach
from netfl.learning.objective.cvar import Cvar

RHO = np.array([0.4, 0.05, 0.3, 0.2, 0.05])


def tail_mass(alpha, losses):
    """Return the mass of the tail's users with loss 1: α CVaR, minimised over t by trying all losses."""
    value = min(Cvar(alpha=alpha, lr_t=1.0).value(losses, RHO, t) for t in np.unique(losses))
    return alpha * value


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.07, 0.1, 0.25, 0.6, 1.0])
def test_tail_matches_the_objective(alpha):
    reach = cvar_reach(RHO, [alpha])
    for count in range(1, 6):
        losses = np.zeros(5)
        losses[reach.users[:count]] = 1.0
        is_complete = tail_mass(alpha, losses) == pytest.approx(reach.alpha[count - 1])
        assert is_complete == (reach.tails[0].whole >= count)
    worst = np.linspace(5, 1, 5)[np.argsort(reach.users)]  # rarer users have larger losses
    tail = reach.tails[0]
    mass = (reach.alpha[tail.whole - 1] if tail.whole else 0) + (
        tail.part * RHO[reach.users[tail.whole]] if tail.whole < 5 else 0
    )
    assert mass == pytest.approx(alpha)
    assert tail_mass(alpha, worst) <= 5 * alpha + 1e-12


def test_users_without_deliveries_are_beyond_reach():
    reach = cvar_reach(np.array([0.5, 0.0, 0.5]))
    assert reach.beyond == (1,)
    assert reach.users.tolist() == [0, 2]
    assert reach.min_alpha == 0.5
