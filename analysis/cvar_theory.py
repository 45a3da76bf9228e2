"""Figures of the page on CVaR: bounds of weights, and the optima of two Gaussians by users, mini-batches and examples.

Write the plot, and print the table of the page, in about two minutes::

    python analysis/cvar_theory.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from reproduction import ROOT
from scipy.optimize import minimize
from scipy.special import logit
from scipy.stats import norm

from netfl.learning.performance import cvar
from netfl.learning.user_weights import CvarLevel, critical_alpha, fedau_weights
from netfl.plots import style
from netfl.types import Floats

PLOT = ROOT / "docs/background/cvar.png"
GAMMA = 0.1
USERS = 20
"""Number N of users of the two Gaussians."""
SHARE = 0.02
"""Share ρ of the rare user, which alone has the second class."""
DISTANCE = 1.5
"""Distance μ of the means of the two classes, in standard deviations."""
LEVELS = (0.1, 0.05, 0.02)
CUTOFF = 50
_FREQUENT_BATCHES = 15_000
_RARE_BATCHES = 3_000
"""Mini-batches that stand for all of their users, weighted by the users' shares."""
_EXAMPLES = 100_000
"""Examples of the frequent users where each example is compared with t; a fifth of it of the rare one."""


@dataclass(frozen=True, slots=True)
class Line:
    """A logistic model ``P(1 | x) = 1 / (1 + exp(-(slope x + bias)))``."""

    slope: float
    bias: float

    @property
    def rare(self) -> float:
        """Accuracy on the rare class, N(μ, 1): 0 or 1 for a constant model."""
        return self._share_above(DISTANCE)

    @property
    def frequent(self) -> float:
        """Accuracy on the class of all other users, N(0, 1)."""
        return 1 - self._share_above(0.0)

    def _share_above(self, mean: float) -> float:
        """Return the share of N(*mean*, 1) for which the model answers 1."""
        if abs(self.slope) < 0.01:  # all but constant: the boundary is far from all examples
            return float(self.bias > 0)
        return float(norm.cdf((self.slope * mean + self.bias) / abs(self.slope)))


def optimum_of_weight(weight: float) -> Line:
    """Return the model that minimises the mean loss with a *weight* of the rare class.

    The log-odds of two Gaussians of equal variance are linear: ``μ x - μ²/2 + logit(w)``.
    """
    return Line(DISTANCE, float(logit(weight)) - DISTANCE**2 / 2)


def optimum_over_users(alpha: float) -> Line:
    """Return the model that minimises CVaR over users; by symmetry both losses are equal at the weight 1/2."""
    return optimum_of_weight(CvarLevel(alpha, GAMMA).two_block_weight(SHARE, equalising=0.5))


def optimum_over_batches(alpha: float, size: int, seed: int = 1) -> Line:
    """Return the model that minimises CVaR over users and their mini-batches of *size* examples.

    A sample average: with a size of 16 an accuracy has a standard error of about half a point.
    """
    draws = np.random.default_rng(seed)
    frequent_count, rare_count = _FREQUENT_BATCHES, _RARE_BATCHES
    if size == 1:
        frequent_count, rare_count = _EXAMPLES, _EXAMPLES // 5
    frequent = draws.normal(size=(frequent_count, size))
    rare = draws.normal(size=(rare_count, size)) + DISTANCE
    rho = np.concatenate(
        [np.full(frequent_count, (1 - SHARE) / frequent_count), np.full(rare_count, SHARE / rare_count)]
    )

    def objective(line: Floats) -> float:
        slope, bias = line
        losses = np.concatenate(
            [np.logaddexp(0, slope * frequent + bias).mean(1), np.logaddexp(0, -(slope * rare + bias)).mean(1)]
        )
        return float((1 - GAMMA) * cvar(losses, rho, alpha) + GAMMA * rho @ losses)

    options = {"xatol": 1e-4, "fatol": 1e-9, "maxiter": 400}
    slope, bias = minimize(objective, [1.0, -1.0], method="Nelder-Mead", options=options).x
    return Line(float(slope), float(bias))


def rows_over_users() -> Iterator[str]:
    """Yield the rows of the page's table that closed forms give."""
    known = 1 / USERS
    fedau = float(fedau_weights(np.array([SHARE] * USERS), CUTOFF)[0])
    others = (1 - SHARE) / (USERS - 1)
    of_others = float(fedau_weights(np.array([others] * USERS), CUTOFF)[0])
    fedau /= fedau + (USERS - 1) * of_others  # its weights have a sum below 1
    for name, weight in (("FedAvg", SHARE), (f"FedAU, K = {CUTOFF}", fedau), ("1/N: known p, MIFA, FedAU", known)):
        yield _row(name, weight, optimum_of_weight(weight))
    for alpha in LEVELS:
        weight = CvarLevel(alpha, GAMMA).two_block_weight(SHARE, equalising=0.5)
        yield _row(f"CVaR {alpha:g} over users", weight, optimum_over_users(alpha))


def rows_over_batches() -> Iterator[str]:
    """Yield the rows of the page's table that are sample averages."""
    for alpha in LEVELS:
        yield _row(f"CVaR {alpha:g} over mini-batches of 16", None, optimum_over_batches(alpha, 16))
    yield _row("CVaR 0.05 over examples (`per: sample`)", None, optimum_over_batches(0.05, 1))


def _row(name: str, weight: float | None, line: Line) -> str:
    shown = "" if weight is None else f"{weight:.3f}"
    digits = 0 if weight is None else 1  # of what a sample average knows
    return f"| {name} | {shown} | {100 * line.rare:.{digits}f} | {100 * line.frequent:.{digits}f} |"


def plot_bounds() -> Figure:
    """Plot the largest weight of users over α, in units of 1/N, for N = 10."""
    users = 10
    alphas = np.geomspace(0.002, 1, 400)
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.add_subplot()
    for share in (0.2, 0.1, 0.05, 0.02, 0.005):
        rho = np.array([share])
        highest = [users * CvarLevel(alpha, GAMMA).highest(rho)[0] for alpha in alphas]
        (curve,) = ax.plot(alphas, highest, label=f"{users * share:g}")
        critical = critical_alpha(rho, users, GAMMA)[0]
        if critical < 1:
            ax.plot(critical, 1, "o", color=curve.get_color())
    ax.axhline(1, color="0.4", linewidth=0.8)
    ax.text(0.0021, 1.06, "importance weighting, 1/N", color="0.3")
    ax.set(xscale="log", yscale="log", xlabel="α", ylabel="largest weight × N")
    ax.set_xticks([0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], minor=False)
    ax.set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 9], minor=False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    ax.legend(title="N ρ", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def main() -> None:
    """Write the plot and print the rows of the table."""
    with style.theme():
        plot_bounds().savefig(PLOT, dpi=150)
    for row in (*rows_over_users(), *rows_over_batches()):
        print(row, flush=True)


if __name__ == "__main__":
    main()
