"""Objectives: their weights against the paper's formulas, written out for one job at a time."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from netfl.errors import ScenarioError
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.objective.proximal import Proximal
from netfl.learning.objective.tilted import Tilted


def batch():
    """Three jobs; the last two examples of job 1 are padding; the mean of job 2 is exactly its t."""
    losses = torch.tensor([[1.0, 2.0, 3.0, 6.0], [0.5, 0.7, 9.0, 9.0], [0.25, 0.75, 0.5, 0.5]], dtype=torch.float64)
    share = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [0.25] * 4], dtype=torch.float64)
    return losses, share, torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)


def test_erm_counts_every_example_the_same_and_moves_no_t():
    losses, share, t = batch()
    weights, slopes = Erm.gradient_weights(losses, share, t, {})
    assert torch.equal(weights, share)
    assert torch.equal(slopes, torch.zeros(3, dtype=torch.float64))
    assert Erm().t_rate == 0
    assert Erm().t_rate == 0


def jobs(**hyper):
    """Fields as one entry for each job."""
    return {name: torch.tensor(own, dtype=torch.float64) for name, own in hyper.items()}


def test_cvar_is_the_formula_of_the_paper_job_by_job():
    losses, share, t = batch()
    hyper = {"alpha": [0.1, 0.5, 0.3], "gamma": [0.1, 0.0, 0.4]}
    weights, slopes = Cvar.gradient_weights(losses, share, t, jobs(**hyper, sample=[0, 0, 0]))
    for job, (f, exceeds) in enumerate([(3.0, 1), (0.6, 0), (0.5, 0)]):
        assert float((losses[job] * share[job]).sum()) == pytest.approx(f)
        alpha, gamma = (np.float32(hyper[name][job]) for name in ("alpha", "gamma"))
        factor = (1 - gamma) / alpha * exceeds + gamma
        assert weights[job].numpy() == pytest.approx(share[job].numpy() * factor, rel=1e-6)
        assert float(slopes[job]) == pytest.approx((1 - gamma) * (1 - exceeds / alpha), rel=1e-6)
    assert (weights[1, 2:] == 0).all()


def test_cvar_of_examples_compares_each_with_t():
    """Batch, sample and sample side by side: job 1 has padding, whose losses are above its t."""
    losses, share, _ = batch()
    h = jobs(alpha=[0.5] * 3, gamma=[0.2] * 3, sample=[0, 1, 1])
    weights, slopes = Cvar.gradient_weights(losses, share, torch.tensor([1.0, 0.6, 0.5], dtype=torch.float64), h)
    assert weights.tolist() == [
        pytest.approx([1.8 / 4] * 4),
        pytest.approx([0.2 / 2, 1.8 / 2, 0, 0]),
        pytest.approx([0.2 / 4, 1.8 / 4, 0.2 / 4, 0.2 / 4]),
    ]
    assert slopes.tolist() == pytest.approx([-0.8, 0.0, 0.8 * (1 - 0.25 / 0.5)], abs=1e-15)


def test_cvar_says_in_numbers_what_it_compares():
    assert Cvar(alpha=0.5, lr_t=1).hyper() == {"alpha": 0.5, "gamma": 0.0, "sample": 0.0}
    assert Cvar(alpha=0.5, gamma=0.1, lr_t=1, per="sample").hyper() == {"alpha": 0.5, "gamma": 0.1, "sample": 1.0}


def test_cvar_of_examples_is_the_derivative_of_its_mean():
    rng, step, t = np.random.default_rng(0), 1e-6, 0.5
    losses, share = rng.exponential(size=9), np.full(9, 1 / 9)
    objective = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1, per="sample")
    told = jobs(**{name: [one] for name, one in objective.hyper().items()})
    batch = (torch.tensor(one)[None] for one in (losses, share, t))
    weights, slopes = Cvar.gradient_weights(*batch, told)

    def value(losses, t):
        return np.mean([Cvar(alpha=0.3, gamma=0.2, lr_t=1).value(np.array([one]), np.ones(1), t) for one in losses])

    by_losses = [(value(losses + nudge, t) - value(losses - nudge, t)) / (2 * step) for nudge in step * np.eye(9)]
    assert weights[0].numpy() == pytest.approx(by_losses, abs=1e-8)
    assert float(slopes[0]) == pytest.approx((value(losses, t + step) - value(losses, t - step)) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("tau", [3.0, 0.5, -0.5, -3.0])
def test_tilted_weights_are_the_derivatives_of_its_value(tau):
    losses, share, t = batch()
    weights, slopes = Tilted.gradient_weights(losses, share, t, jobs(tau=[tau] * 3))
    assert (slopes == 0).all()
    assert (weights[1, 2:] == 0).all()
    for job in range(3):
        real = losses[job][share[job] > 0].numpy()

        def value(losses):
            return Tilted(tau=tau).value(losses, np.full(len(losses), 1 / len(losses)), 0.0)

        by_losses = [(value(real + nudge) - value(real - nudge)) / 2e-6 for nudge in 1e-6 * np.eye(len(real))]
        assert weights[job, : len(real)].numpy() == pytest.approx(by_losses, abs=1e-8)
        assert value(real) == pytest.approx(np.log(np.exp(tau * real).mean()) / tau, rel=1e-14)


@pytest.mark.parametrize("tau", [1e3, -1e3])
def test_tilted_does_not_overflow(tau):
    losses = torch.tensor([[1.0, 90.0, 90.0, 5.0]])
    share, h = torch.full((1, 4), 0.25), {"tau": torch.tensor([tau])}
    expected = [0, 0.5, 0.5, 0] if tau > 0 else [1, 0, 0, 0]
    assert Tilted.gradient_weights(losses, share, torch.zeros(1), h)[0][0].tolist() == expected
    value = Tilted(tau=tau).value(losses[0].double().numpy(), np.array([0.5, 0.25, 0.0, 0.25]), 0.0)
    assert value == pytest.approx((90.0 if tau > 0 else 1.0) + np.log(0.25 if tau > 0 else 0.5) / tau, rel=1e-12)


def test_a_user_who_was_never_heard_has_no_part_in_a_tilted_value():
    told = Tilted(tau=-1e3), np.array([1e-3, 700.0, 3.0]), np.array([0.0, 0.5, 0.5])
    assert told[0].value(told[1], told[2], 0.0) == pytest.approx(3.0 + np.log(0.5) / -1e3, rel=1e-12)


def test_tilted_tends_to_erm():
    losses, share, t = batch()
    weights, _ = Tilted.gradient_weights(losses, share, t, jobs(tau=[1e-9] * 3))
    assert weights.numpy() == pytest.approx(share.numpy(), abs=1e-8)
    assert Tilted(tau=1e-6).value(losses[0].numpy(), share[0].numpy(), 0) == pytest.approx(3.0, abs=1e-5)


@pytest.mark.parametrize("wrong", [0, "nan"])
def test_tilted_wants_a_tilt(wrong):
    with pytest.raises(ValidationError, match="use the objective 'erm'" if wrong == 0 else "finite"):
        Tilted.model_validate({"tau": wrong})


def test_proximal_is_erm_with_a_pull():
    losses, share, t = batch()
    for own, plain in zip(
        Proximal.gradient_weights(losses, share, t, {}), Erm.gradient_weights(losses, share, t, {}), strict=True
    ):
        assert torch.equal(own, plain)
    one, users = Proximal(mu=0.3), (np.array([1.0, 2.0]), np.array([0.25, 0.75]), 0.0)
    assert (one.pull, one.t_rate, one.value(*users)) == (0.3, 0, Erm().value(*users))
    assert Erm().pull == Cvar(alpha=1, lr_t=1).pull == 0
    with pytest.raises(ScenarioError):
        Proximal(mu=0)


def test_cvar_weights_are_the_derivatives_of_its_value():
    objective, step = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), 1e-6
    hyper = {name: torch.tensor([value], dtype=torch.float64) for name, value in objective.hyper().items()}
    for f, t in ((0.9, 0.4), (0.3, 0.4)):
        one = torch.tensor([[f]]).double()
        weights, slopes = Cvar.gradient_weights(one, torch.ones_like(one), torch.tensor([t]).double(), hyper)

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


@pytest.mark.parametrize("sample", [False, True])
def test_alpha_1_weighs_as_erm_while_the_hinge_is_active_and_gamma_1_always(sample):
    losses, share, t = batch()
    ones, zeros = torch.ones(3).double(), torch.zeros(3).double()
    per = {"sample": torch.tensor([0.0, 1.0, float(sample)]).double()}
    weights, slopes = Cvar.gradient_weights(losses, share, zeros, {"alpha": ones, "gamma": ones / 4} | per)
    assert torch.equal(weights, share)
    assert (slopes == 0).all()
    weights, slopes = Cvar.gradient_weights(losses, share, t, {"alpha": ones / 8, "gamma": ones} | per)
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
        {"alpha": 0.5, "lr_t": 1, "per": "user"},
    ],
)
def test_what_cvar_refuses(bad):
    with pytest.raises(ValidationError):
        Cvar.model_validate(bad)


def test_the_slope_of_t_is_exact_where_the_mean_counts():
    """In float32, where ten tenths are not 1: a t that drifts flips hinges."""
    share = torch.full((2, 10), 1 / 10)
    assert (share.sum(1) != 1).all()
    told = {name: torch.full((2,), value) for name, value in Cvar(alpha=0.1, gamma=0.1, lr_t=1).hyper().items()}
    _, slopes = Cvar.gradient_weights(torch.ones(2, 10), share, torch.tensor([0.5, 1.5]), told)
    rest = 1 - told["gamma"]
    assert torch.equal(slopes, torch.stack([rest[0] - rest[0] / told["alpha"][0], rest[1]]))
