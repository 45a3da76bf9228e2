"""The figures of the page on CVaR are those of its script, and hold by an independent calculation."""

from pathlib import Path

import cvar_theory
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

PAGE = (Path(__file__).parents[1] / "docs/background/cvar.md").read_text()
TABLE = [line for line in PAGE.partition("| minimiser")[2].splitlines() if line.startswith("| ")]


def test_rows_over_users_are_on_the_page():
    rows = [*cvar_theory.rows_over_users()]
    assert TABLE[: len(rows)] == rows


@pytest.mark.slow
def test_rows_over_batches_are_on_the_page():
    rows = [*cvar_theory.rows_over_batches()]
    assert TABLE[len(TABLE) - len(rows) :] == rows


@pytest.mark.parametrize("weight", [0.02, 0.182, 0.5])
def test_the_closed_form_is_the_minimiser_of_the_expected_loss(weight):
    """The expected loss by quadrature, minimised without its closed form; the accuracies by drawing examples."""

    def expected(line, sign, mean):
        return quad(lambda x: np.logaddexp(0, sign * (line[0] * x + line[1])) * norm.pdf(x - mean), -9, 11)[0]

    def loss(line):
        return (1 - weight) * expected(line, 1, 0.0) + weight * expected(line, -1, 1.5)

    slope, bias = minimize(loss, [1.0, -1.0], method="BFGS", options={"gtol": 1e-8}).x
    found = cvar_theory.optimum_of_weight(weight)
    assert [found.slope, found.bias] == pytest.approx([slope, bias], abs=1e-4)
    draws = np.random.default_rng(2).normal(size=400_000)
    assert found.frequent == pytest.approx((slope * draws + bias < 0).mean(), abs=3e-3)
    assert found.rare == pytest.approx((slope * (draws + 1.5) + bias > 0).mean(), abs=3e-3)


def test_a_constant_model_answers_one_class():
    assert (cvar_theory.Line(0.0, -2.0).rare, cvar_theory.Line(0.0, -2.0).frequent) == (0, 1)


def test_larger_batches_are_nearer_to_users():
    """CVaR over users is the limit of large mini-batches: 256 examples lie between 16 and all."""
    of_batches = cvar_theory.optimum_over_batches(0.05, 16)
    assert 0.42 < of_batches.rare < 0.50 < cvar_theory.optimum_over_users(0.05).rare


def test_the_plot_marks_the_critical_levels():
    ax = cvar_theory.plot_bounds().axes[0]
    points = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert points == pytest.approx([0.4737, 0.1837, 0.0452], abs=1e-4)
