"""Objectives: their weights against the paper's formulas, written out for one job at a time."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm


def batch():
    """Three jobs; the last two examples of job 1 are padding; the mean of job 2 is exactly its t."""
    losses = torch.tensor([[1.0, 2.0, 3.0, 6.0], [0.5, 0.7, 9.0, 9.0], [0.25, 0.75, 0.5, 0.5]], dtype=torch.float64)
    share = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [0.25] * 4], dtype=torch.float64)
    return losses, share, torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)


def test_erm_counts_every_example_the_same_and_moves_no_t():
    losses, share, t = batch()
    weights, slopes = Erm.weights(losses, share, t, {})
    assert torch.equal(weights, share)
    assert torch.equal(slopes, torch.zeros(3, dtype=torch.float64))
    assert Erm().t_rate == 0
    assert not Erm().has_threshold


def test_cvar_is_the_formula_of_the_paper_job_by_job():
    losses, share, t = batch()
    hyper = {"alpha": [0.1, 0.5, 0.3], "gamma": [0.1, 0.0, 0.4]}
    weights, slopes = Cvar.weights(losses, share, t, {name: torch.tensor(h).double() for name, h in hyper.items()})
    for job, (f, exceeds) in enumerate([(3.0, 1), (0.6, 0), (0.5, 0)]):
        assert float((losses[job] * share[job]).sum()) == pytest.approx(f)
        alpha, gamma = (np.float32(hyper[name][job]) for name in ("alpha", "gamma"))
        factor = (1 - gamma) / alpha * exceeds + gamma
        assert weights[job].numpy() == pytest.approx(share[job].numpy() * factor, rel=1e-6)
        assert float(slopes[job]) == pytest.approx((1 - gamma) * (1 - exceeds / alpha), rel=1e-6)
    assert (weights[1, 2:] == 0).all()


def test_cvar_weights_are_the_derivatives_of_its_value():
    objective, step = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), 1e-6
    hyper = {name: torch.tensor([value], dtype=torch.float64) for name, value in objective.hyper().items()}
    for f, t in ((0.9, 0.4), (0.3, 0.4)):
        one = torch.tensor([[f]]).double()
        weights, slopes = Cvar.weights(one, torch.ones_like(one), torch.tensor([t]).double(), hyper)

        def value(f, t):
            return objective.value(np.array([f]), np.ones(1), t)

        by_f = (value(f + step, t) - value(f - step, t)) / (2 * step)
        by_t = (value(f, t + step) - value(f, t - step)) / (2 * step)
        assert float(weights[0, 0]) == pytest.approx(by_f, abs=1e-8)
        assert float(slopes[0]) == pytest.approx(by_t, abs=1e-8)


def test_values_over_users():
    losses, rho = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.3, 0.2])
    assert Erm().value(losses, rho, 7.0) == pytest.approx(0.5 + 0.6 + 0.8)
    tail = 1.5 + (0.3 * 0.5 + 0.2 * 2.5) / 0.4
    assert Cvar(alpha=0.4, gamma=0.25, lr_t=1).value(losses, rho, 1.5) == pytest.approx(0.75 * tail + 0.25 * 1.9)


def test_alpha_1_weighs_as_erm_while_the_hinge_is_active_and_gamma_1_always():
    losses, share, t = batch()
    ones, zeros = torch.ones(3).double(), torch.zeros(3).double()
    weights, slopes = Cvar.weights(losses, share, zeros, {"alpha": ones, "gamma": ones / 4})
    assert torch.equal(weights, share)
    assert (slopes == 0).all()
    weights, slopes = Cvar.weights(losses, share, t, {"alpha": ones / 8, "gamma": ones})
    assert torch.equal(weights, share)
    assert (slopes == 0).all()


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": 0, "lr_t": 1},
        {"alpha": 1.1, "lr_t": 1},
        {"alpha": 0.5, "gamma": -0.1, "lr_t": 1},
        {"alpha": 0.5, "gamma": 1.1, "lr_t": 1},
        {"alpha": 0.5, "lr_t": 0},
        {"alpha": 0.5},
        {"alpha": 0.5, "lr_t": 1, "beta": 1},
    ],
)
def test_what_cvar_refuses(bad):
    with pytest.raises(ValidationError):
        Cvar.model_validate(bad)
