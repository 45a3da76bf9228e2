"""Objectives: weights compared with the papers' formulas, one job at a time."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from netfl.errors import ScenarioError
from netfl.learning.aggregation.relay import Relay
from netfl.learning.local_training import JobHyperparameters, batch_objectives
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.objective.proximal import Proximal
from netfl.learning.objective.tilted import Tilted
from netfl.learning.spec import LearnerSpec


def batch():
    """Return losses, shares and t of three jobs. Job 1 has two padding examples; the mean of job 2 equals its t."""
    losses = torch.tensor([[1.0, 2.0, 3.0, 6.0], [0.5, 0.7, 9.0, 9.0], [0.25, 0.75, 0.5, 0.5]], dtype=torch.float64)
    share = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [0.25] * 4], dtype=torch.float64)
    return losses, share, torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)


def test_erm_weights_all_examples_equally_and_keeps_t():
    losses, share, t = batch()
    weights, slopes = Erm.gradient_weights(losses, share, t, {})
    assert torch.equal(weights, share)
    assert torch.equal(slopes, torch.zeros(3, dtype=torch.float64))
    assert Erm().t_rate == 0
    assert Erm().t_rate == 0


def test_only_objectives_with_the_weights_of_erm_need_no_losses():
    class Doubled(Erm):
        @staticmethod
        def gradient_weights(losses, share, t, h):
            return 2 * share, t.new_zeros(t.shape)

    assert Erm().has_equal_weights
    assert Proximal(mu=1).has_equal_weights
    others = (Doubled(), Cvar(alpha=1, gamma=1, lr_t=1), Tilted(tau=1))
    assert not any(objective.has_equal_weights for objective in others)


def jobs(**hyper):
    """Return fields with one entry per job; a bool is the same for all."""
    return {
        name: values if isinstance(values, bool) else torch.tensor(values, dtype=torch.float64)
        for name, values in hyper.items()
    }


def hyper_of(*objectives):
    """Return the fields of one job for each of the objectives, which have the same bools."""
    fields = [objective.hyper() for objective in objectives]
    return jobs(**{name: value if isinstance(value, bool) else [each[name] for each in fields]
                   for name, value in fields[0].items()})  # fmt: skip


def test_cvar_equals_the_paper_for_each_job():
    losses, share, t = batch()
    levels = [(0.1, 0.1), (0.5, 0.0), (0.3, 0.4)]
    hyper = hyper_of(*(Cvar(alpha=alpha, gamma=gamma, lr_t=1) for alpha, gamma in levels))
    weights, slopes = Cvar.gradient_weights(losses, share, t, hyper)
    for job, (f, exceeds) in enumerate([(3.0, 1), (0.6, 0), (0.5, 0)]):
        assert float((losses[job] * share[job]).sum()) == pytest.approx(f)
        alpha, gamma = levels[job]
        factor = (1 - gamma) / alpha * exceeds + gamma
        assert weights[job].numpy() == pytest.approx(share[job].numpy() * factor, rel=1e-6)
        assert float(slopes[job]) == pytest.approx((1 - gamma) * (1 - exceeds / alpha), rel=1e-6)
    assert (weights[1, 2:] == 0).all()


def test_cvar_of_examples_compares_each_with_t():
    """Job 0 compares the batch mean, jobs 1 and 2 each example. Job 1 has padding with losses above t."""
    losses, share, _ = batch()
    t = torch.tensor([1.0, 0.6, 0.5], dtype=torch.float64)
    kinds = [Cvar(alpha=0.5, gamma=0.2, lr_t=1, per=per) for per in ("batch", "sample", "sample")]
    specs = [LearnerSpec(objective=kind, aggregation=Relay(), lr=1, batch_size=4, local_steps=1) for kind in kinds]
    objectives = batch_objectives(specs, losses)
    assert len(objectives) == 2
    weights, slopes = JobHyperparameters(3, t[:, None], t, objectives).weigh(losses, share, t)
    assert weights.tolist() == [
        pytest.approx([1.8 / 4] * 4),
        pytest.approx([0.2 / 2, 1.8 / 2, 0, 0]),
        pytest.approx([0.2 / 4, 1.8 / 4, 0.2 / 4, 0.2 / 4]),
    ]
    assert slopes.tolist() == pytest.approx([-0.8, 0.0, 0.8 * (1 - 0.25 / 0.5)], abs=1e-15)


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_learners_with_equal_weights_are_neutral_jobs_of_cvar(per):
    """Equal to the bit, also for losses that are not finite and for padding."""
    losses, share, t = batch()
    losses[2, 0] = torch.inf
    kinds = [Erm(), Cvar(alpha=0.3, gamma=0.2, lr_t=1, per=per), Proximal(mu=1)]
    specs = [LearnerSpec(objective=kind, aggregation=Relay(), lr=1, batch_size=4, local_steps=1) for kind in kinds]
    (together,) = batch_objectives(specs, losses)
    weights, slopes = together.gradient_weights(losses, share, t, together.hyper)
    (alone,) = batch_objectives(specs[1:2], losses)
    expected = alone.gradient_weights(losses[1:2], share[1:2], t[1:2], alone.hyper)
    assert torch.equal(weights, torch.stack([share[0], expected[0][0], share[2]]))
    assert torch.equal(slopes, torch.stack([t.new_zeros(()), expected[1][0], t.new_zeros(())]))


def test_two_other_kinds_or_weights_of_a_plugin_keep_separate_calls():
    class Doubled(Cvar):
        @staticmethod
        def gradient_weights(losses, share, t, h):
            return 2 * share, t

    losses, _, _ = batch()
    cvar, tilted = Cvar(alpha=0.3, lr_t=1), Tilted(tau=1)
    for kinds in ([Erm(), cvar, tilted], [Erm(), tilted], [Erm(), Doubled(alpha=0.3, lr_t=1)]):
        specs = [LearnerSpec(objective=kind, aggregation=Relay(), lr=1, batch_size=4, local_steps=1) for kind in kinds]
        assert len(batch_objectives(specs, losses)) == len(kinds)


def test_hyper_of_cvar_has_the_weights_above_and_below_t():
    weights = {"above": 2.0, "below": 0.0, "t_above": -1.0, "t_below": 1.0, "per_sample": False}
    assert Cvar(alpha=0.5, lr_t=1).hyper() == weights
    weights = {"above": 1.75, "below": 0.25, "t_above": -0.75, "t_below": 0.75, "per_sample": True}
    assert Cvar(alpha=0.5, gamma=0.25, lr_t=1, per="sample").hyper() == weights


def test_cvar_of_examples_is_the_derivative_of_its_mean():
    rng, step, t = np.random.default_rng(0), 1e-6, 0.5
    losses, share = rng.exponential(size=9), np.full(9, 1 / 9)
    objective = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1, per="sample")
    batch = (torch.tensor(values)[None] for values in (losses, share, t))
    weights, slopes = Cvar.gradient_weights(*batch, hyper_of(objective))

    def value(losses, t):
        return np.mean([Cvar(alpha=0.3, gamma=0.2, lr_t=1).value(np.array([loss]), np.ones(1), t) for loss in losses])

    by_losses = [(value(losses + shift, t) - value(losses - shift, t)) / (2 * step) for shift in step * np.eye(9)]
    assert weights[0].numpy() == pytest.approx(by_losses, abs=1e-8)
    assert float(slopes[0]) == pytest.approx((value(losses, t + step) - value(losses, t - step)) / (2 * step), abs=1e-8)


@pytest.mark.parametrize("tau", [3.0, 0.5, -0.5, -3.0])
def test_tilted_weights_are_the_derivatives_of_its_value(tau):
    losses, share, t = batch()
    weights, slopes = Tilted.gradient_weights(losses, share, t, jobs(tau=[tau] * 3))
    assert (slopes == 0).all()
    assert (weights[1, 2:] == 0).all()
    for job in range(3):
        unpadded = losses[job][share[job] > 0].numpy()

        def value(losses):
            return Tilted(tau=tau).value(losses, np.full(len(losses), 1 / len(losses)), 0.0)

        by_losses = [
            (value(unpadded + shift) - value(unpadded - shift)) / 2e-6 for shift in 1e-6 * np.eye(len(unpadded))
        ]
        assert weights[job, : len(unpadded)].numpy() == pytest.approx(by_losses, abs=1e-8)
        assert value(unpadded) == pytest.approx(np.log(np.exp(tau * unpadded).mean()) / tau, rel=1e-14)


@pytest.mark.parametrize("tau", [1e3, -1e3])
def test_tilted_does_not_overflow(tau):
    losses = torch.tensor([[1.0, 90.0, 90.0, 5.0]])
    share, h = torch.full((1, 4), 0.25), {"tau": torch.tensor([tau])}
    expected = [0, 0.5, 0.5, 0] if tau > 0 else [1, 0, 0, 0]
    assert Tilted.gradient_weights(losses, share, torch.zeros(1), h)[0][0].tolist() == expected
    value = Tilted(tau=tau).value(losses[0].double().numpy(), np.array([0.5, 0.25, 0.0, 0.25]), 0.0)
    assert value == pytest.approx((90.0 if tau > 0 else 1.0) + np.log(0.25 if tau > 0 else 0.5) / tau, rel=1e-12)


def test_users_without_deliveries_do_not_affect_the_tilted_value():
    case = Tilted(tau=-1e3), np.array([1e-3, 700.0, 3.0]), np.array([0.0, 0.5, 0.5])
    assert case[0].value(case[1], case[2], 0.0) == pytest.approx(3.0 + np.log(0.5) / -1e3, rel=1e-12)


def test_tilted_tends_to_erm():
    losses, share, t = batch()
    weights, _ = Tilted.gradient_weights(losses, share, t, jobs(tau=[1e-9] * 3))
    assert weights.numpy() == pytest.approx(share.numpy(), abs=1e-8)
    assert Tilted(tau=1e-6).value(losses[0].numpy(), share[0].numpy(), 0) == pytest.approx(3.0, abs=1e-5)


@pytest.mark.parametrize("tau", [0, float("nan")])
def test_tilted_needs_a_finite_tau_other_than_0(tau):
    with pytest.raises(ValidationError, match="a tilt of 0 is the mean loss" if tau == 0 else "finite"):
        Tilted.model_validate({"tau": tau})


def test_proximal_is_erm_with_a_proximal_term():
    losses, share, t = batch()
    for proximal, erm in zip(
        Proximal.gradient_weights(losses, share, t, {}), Erm.gradient_weights(losses, share, t, {}), strict=True
    ):
        assert torch.equal(proximal, erm)
    objective, users = Proximal(mu=0.3), (np.array([1.0, 2.0]), np.array([0.25, 0.75]), 0.0)
    assert (objective.pull, objective.t_rate, objective.value(*users)) == (0.3, 0, Erm().value(*users))
    assert Erm().pull == Cvar(alpha=1, lr_t=1).pull == 0
    with pytest.raises(ScenarioError):
        Proximal(mu=0)


def test_cvar_weights_are_the_derivatives_of_its_value():
    objective, step = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), 1e-6
    for f, t in ((0.9, 0.4), (0.3, 0.4)):
        loss = torch.tensor([[f]]).double()
        weights, slopes = Cvar.gradient_weights(
            loss, torch.ones_like(loss), torch.tensor([t]).double(), hyper_of(objective)
        )

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


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_cvar_with_alpha_1_or_gamma_1_weights_as_erm(per):
    losses, share, t = batch()
    for alpha, gamma, at in ((1, 0.25, torch.zeros_like(t)), (0.125, 1, t)):
        hyper = hyper_of(*[Cvar(alpha=alpha, gamma=gamma, lr_t=1, per=per)] * 3)
        weights, slopes = Cvar.gradient_weights(losses, share, at, hyper)
        assert torch.equal(weights, share)
        assert (slopes == 0).all()


@pytest.mark.parametrize(
    "settings",
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
def test_invalid_settings_are_errors(settings):
    with pytest.raises(ValidationError):
        Cvar.model_validate(settings)


def test_the_slope_of_t_is_exact_for_batch_means():
    """In float32, ten tenths do not sum to 1. A drift of t would change which losses exceed it."""
    share = torch.full((2, 10), 1 / 10)
    assert (share.sum(1) != 1).all()
    hyper = hyper_of(*[Cvar(alpha=0.1, gamma=0.1, lr_t=1)] * 2)
    _, slopes = Cvar.gradient_weights(torch.ones(2, 10), share, torch.tensor([0.5, 1.5]), hyper)
    assert slopes.tolist() == [0.9 - 0.9 / 0.1, 0.9]
