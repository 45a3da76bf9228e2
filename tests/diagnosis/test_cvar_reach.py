"""What the tail of a conditional value at risk holds, against the objective itself."""

import numpy as np
import pytest

from netfl.diagnosis.rates import cvar_reach
from netfl.learning.objective.cvar import Cvar

RHO = np.array([0.4, 0.05, 0.3, 0.2, 0.05])


def held(alpha, losses):
    """The mass of the users of loss 1 that the tail holds: α CVaR, minimised over t by trying all losses."""
    value = min(Cvar(alpha=alpha, lr_t=1.0).value(losses, RHO, t) for t in np.unique(losses))
    return alpha * value


@pytest.mark.parametrize("alpha", [0.02, 0.05, 0.07, 0.1, 0.25, 0.6, 1.0])
def test_the_tail_holds_what_the_objective_holds(alpha):
    found = cvar_reach(RHO, [alpha])
    for few in range(1, 6):
        losses = np.zeros(5)
        losses[found.users[:few]] = 1.0
        whole = held(alpha, losses) == pytest.approx(found.alpha[few - 1])
        assert whole == (found.tails[0].whole >= few)
    worst = np.linspace(5, 1, 5)[np.argsort(found.users)]  # the rarer, the worse
    tail = found.tails[0]
    mass = (found.alpha[tail.whole - 1] if tail.whole else 0) + (
        tail.part * RHO[found.users[tail.whole]] if tail.whole < 5 else 0
    )
    assert mass == pytest.approx(alpha)
    assert held(alpha, worst) <= 5 * alpha + 1e-12


def test_users_that_are_never_heard_are_beyond_reach():
    found = cvar_reach(np.array([0.5, 0.0, 0.5]))
    assert found.beyond == (1,)
    assert found.users.tolist() == [0, 2]
    assert found.min_alpha == 0.5
