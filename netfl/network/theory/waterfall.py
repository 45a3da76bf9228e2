"""Packet errors of the waterfall bound under Rayleigh fading, alone and with interference of other cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special

from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.interference.sinr import Sinr
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.mac.tdma import Tdma
from netfl.network.reception.waterfall import Waterfall as WaterfallReception
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import (
    FULL_POWER,
    NO_FADING,
    NO_OUTAGES,
    ONE_RADIO,
    OWN_TOWER,
    SATURATED,
    budgets_db,
    find_random_channel,
)
from netfl.network.theory.slotted_aloha import LEAVES_AT_TOWER
from netfl.types import Floats
from netfl.units import db_to_linear

_NODES = 4001
"""Nodes of the integral over the fading of a signal."""
_MAX_EXPONENT = 700.0
"""Exponent of e below which a probability counts as zero."""


def _waterfall(case: TheoryCase) -> WaterfallReception:
    reception = case.network.reception
    assert isinstance(reception, WaterfallReception)
    return reception


def _has_rate(case: TheoryCase) -> bool:
    return isinstance(case.network.reception, WaterfallReception) and not case.network.reception.follows_snr


def _sends_once(case: TheoryCase) -> bool:
    mac = case.network.mac
    return isinstance(mac, Tdma | RoundRobin) and mac.max_attempts == 1


def _has_block_fading_at_most(case: TheoryCase) -> bool:
    if NO_FADING.holds(case):
        return True
    fading = find_random_channel(case, Rayleigh)
    return fading is not None and fading.coherence is not None


def _has_one_user_in_each_cell(case: TheoryCase) -> bool:
    if not case.network.shared_air:
        return True
    return bool(np.all(np.bincount(case.layout.tower_at_start, minlength=len(case.layout.towers)) == 1))


def _adds_interference(case: TheoryCase) -> bool:
    return not case.network.shared_air or isinstance(case.network.interference, Sinr)


class Waterfall(Theory):
    """A frame under the waterfall bound is lost with probability E[1 - exp(-m (1 + Σ i_j) / s)].

    m is the threshold, s the SNR of the frame and i_j that of the user of each other cell at the same tower.  Their
    means s̄ and ī_j are those of the link budget; with a = m / s̄ and z = 2 √a a frame gets through

    - under Rayleigh fading without interference with probability z K_1(z), K_1 a modified Bessel function;
    - with cells that share the air, of which all signals fade, ∫ exp(-x - a / x) Π_j 1 / (1 + a ī_j / x) dx over
      x > 0, because E[exp(-b y)] = 1 / (1 + b) for the gain y of an interferer; by the trapezoidal rule;
    - with ``reception.fading: rayleigh``, in which the interference is constant, z' K_1(z') with
      z' = 2 √(a (1 + Σ ī_j));
    - without fading, exp(-a (1 + Σ ī_j)).

    A frame that is lost has collided if it would have got through alone, for the same draw.  M. Chen et al., IEEE
    Trans. Wireless Commun. 20(1), 2021, eq. (8); the integral ∫ exp(-x - a / x) dx = 2 √a K_1(2 √a): I. S. Gradshteyn
    and I. M. Ryzhik, "Table of Integrals, Series, and Products", 7th ed., 2007, 3.324.

    For saturated users that send each frame once.  With ``shared_air`` each cell has one user, so that frames of equal
    length overlap with exactly one frame of every other cell.

    Example::

        kind: waterfall
    """

    conditions = (
        Condition("reception", "waterfall with a rate", _has_rate),
        Condition("mac", "tdma or round_robin with max_attempts: 1", _sends_once),
        SATURATED,
        LEAVES_AT_TOWER,
        Condition("motion", "users that do not move", lambda case: case.network.motion is None),
        ONE_RADIO,
        OWN_TOWER,
        FULL_POWER,
        Condition(
            "channel",
            "a fixed path loss, alone or with rayleigh fading with coherence",
            _has_block_fading_at_most,
        ),
        Condition("topology", "one user in each cell, as the air is shared", _has_one_user_in_each_cell),
        Condition("interference", "sinr, as the air is shared", _adds_interference),
        NO_OUTAGES,
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        reception = _waterfall(case)
        budgets = db_to_linear(budgets_db(case))
        inverse = db_to_linear(reception.threshold) / budgets  # a of each user
        if reception.averages_fading or find_random_channel(case, Rayleigh) is not None:
            alone = _mean_over_fading(inverse)
        else:
            alone = np.exp(-inverse)
        received = alone
        if case.network.shared_air:
            received = self._received_in_cells(case, inverse)
        collided = float((alone - received).mean())
        faded = float((1.0 - alone).mean())
        return {
            "loss_ratio_theory": collided + faded,
            "collision_probability_theory": collided,
            "fade_probability_theory": faded / (1.0 - collided),  # of the attempts that have not collided
        }

    def _received_in_cells(self, case: TheoryCase, inverse: Floats) -> Floats:
        """Return the probability that each user gets through, over the user of each other cell, ``[users]``."""
        received = np.empty(len(inverse))
        for user, tower in enumerate(case.layout.tower_at_start.tolist()):
            powers = db_to_linear(budgets_db(case, case.layout.towers[tower]))
            others = np.delete(powers, user)
            a = float(inverse[user])
            if _waterfall(case).averages_fading:
                received[user] = _mean_over_fading(np.array([a * (1.0 + others.sum())]))[0]
            elif find_random_channel(case, Rayleigh) is not None:
                received[user] = _mean_over_interference(a, others)
            else:
                received[user] = np.exp(-a * (1.0 + others.sum()))
        return received


def _mean_over_fading(a: Floats) -> Floats:
    """Return E[exp(-a / x)] = z K_1(z) with z = 2 √a, for x exponential with mean 1."""
    z = 2.0 * np.sqrt(a)
    return np.asarray(z * special.k1(z))


def _mean_over_interference(a: float, others: Floats) -> float:
    """Return ∫ exp(-x - a / x) Π_j 1 / (1 + a i_j / x) dx over x > 0, for the mean interference i_j of each other.

    With x = √a e^t the exponent is -z cosh t, z = 2 √a.  The integrand is then smooth and falls twice exponentially,
    so that the trapezoidal rule converges as fast as rounding allows.
    """
    root = np.sqrt(a)
    if 2.0 * root >= _MAX_EXPONENT:
        return 0.0
    end = np.arccosh(_MAX_EXPONENT / (2.0 * root))
    x = root * np.exp(np.linspace(-end, end, _NODES))
    weights = np.exp(-x - a / x) * x  # dx = x dt
    passed = np.prod(x / (x + a * others[:, None]), axis=0)
    return float((weights * passed).sum() * 2.0 * end / (_NODES - 1))
