"""Schedules: factors by hand, and each update uses the step size of its base version."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support.learner_factory import a_round, learner, spec

from netfl.learning.aggregation.relay import Relay
from netfl.learning.objective.cvar import Cvar
from netfl.learning.schedule.constant import Constant
from netfl.learning.schedule.exponential import Exponential
from netfl.learning.schedule.halving import Halving
from netfl.learning.schedule.inverse import Inverse
from netfl.learning.schedule.step import Step
from netfl.types import ScenarioFacts


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (Constant(), [1, 1, 1, 1, 1, 1, 1]),
        (Halving(every=2), [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
        (Halving(every=1), [1, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 1 / 64]),
        (Step(milestones=(2, 3, 6), factor=0.1), [1, 1, 0.1, 0.01, 0.01, 0.01, 0.001]),
        (Step(milestones=(1,), factor=3), [1, 3, 3, 3, 3, 3, 3]),
        (Exponential(factor=0.5), [1, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 1 / 64]),
        (Exponential(factor=0.9), [1, 0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441]),
        (Inverse(half=2), [1, 2 / 3, 1 / 2, 2 / 5, 1 / 3, 2 / 7, 1 / 4]),
        (Inverse(half=1, hold=3), [1, 1, 1, 1, 1 / 2, 1 / 3, 1 / 4]),
    ],
    ids=repr,
)
def test_factors_by_hand(schedule, factors):
    assert schedule.factors(np.arange(7)) == pytest.approx(factors, rel=1e-15)
    assert schedule.factors(np.array([6, 0, 2])) == pytest.approx([factors[index] for index in (6, 0, 2)], rel=1e-15)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (Halving, {}),
        (Halving, {"every": 0}),
        (Step, {"milestones": []}),
        (Step, {"milestones": [0, 4]}),
        (Step, {"milestones": [4, 4]}),
        (Step, {"milestones": [5, 4]}),
        (Step, {"milestones": [4], "factor": 0}),
        (Exponential, {}),
        (Exponential, {"factor": 0}),
        (Exponential, {"factor": 1}),
        (Inverse, {}),
        (Inverse, {"half": 0}),
        (Inverse, {"half": 1, "hold": -1}),
    ],
)
def test_invalid_settings_are_errors(model, settings):
    with pytest.raises(ValidationError):
        model.model_validate(settings)


@pytest.mark.parametrize(
    ("schedule", "key", "value"),
    [
        (Halving(every=6), "every", ""),
        (Step(milestones=(6,)), "milestones", "[6]"),
        (Step(milestones=(2, 6, 9)), "milestones", "[6, 9]"),
        (Halving(every=5), None, ""),
        (Step(milestones=(1, 5)), None, ""),
        (Inverse(half=9, hold=5), "half", ""),
        (Inverse(half=9, hold=4), None, ""),
    ],
    ids=repr,
)
def test_steps_after_the_last_version_are_errors(schedule, key, value):
    """Users start from versions 0 to 5 in 6 rounds."""
    found = [*schedule.faults(ScenarioFacts(users=2, rounds=6))]
    assert [error.key for error in found] == ([] if key is None else [key])
    assert all(value in error.problem for error in found)


@pytest.mark.parametrize(
    ("rounds", "factor", "words"),
    [(1, 0.9, "no effect"), (3000, 0.5, "0 at version 2999"), (3000, 0.9998, ""), (2, 0.001, "")],
)
def test_exponential_steps_that_never_change_or_vanish_are_errors(rounds, factor, words):
    found = [*Exponential(factor=factor).faults(ScenarioFacts(users=2, rounds=rounds))]
    assert [error.key for error in found] == ["factor"] * bool(words)
    assert all(words in error.problem for error in found)


@pytest.mark.parametrize(
    ("schedule", "scheduler", "options"),
    [
        (Step(milestones=(2, 3, 6), factor=0.1), torch.optim.lr_scheduler.MultiStepLR, {"milestones": [2, 3, 6]}),
        (Exponential(factor=0.1), torch.optim.lr_scheduler.ExponentialLR, {}),
    ],
    ids=["step", "exponential"],
)
def test_factors_equal_the_schedule_of_pytorch(schedule, scheduler, options):
    parameter = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    reference = scheduler(optimiser, gamma=0.1, **options)
    expected = []
    for _ in range(9):
        expected.append(reference.get_last_lr()[0])
        optimiser.step()
        reference.step()
    assert schedule.factors(np.arange(9)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("local", [None, Cvar(alpha=0.5, gamma=0.2, lr_t=0.3)], ids=["erm", "cvar"])
def test_an_update_has_the_step_size_of_its_base(local):
    """Two users train from version 2 and deliver in rounds 3 and 6.

    The reference has the constant step size of version 2.
    """

    def versions(schedule, scale):
        objective = local and local.model_copy(update={"lr_t": local.lr_t * scale})
        batched = learner({"a": spec(objective, Relay(), lr=0.1 * scale).model_copy(update={"schedule": schedule})})
        shared = learner({"a": spec(local, Relay(), lr=0.1)})
        for index in (1, 2):
            shared.step([a_round(index, (3, index - 1))])
        batched.restore(shared.state())
        batched.step([a_round(3, (0, 2))])
        first = batched.version(0)
        for index in (4, 5):
            batched.step([a_round(index)])
        batched.step([a_round(6, (1, 2))])
        return first, batched.version(0)

    for scheduled, plain in zip(versions(Halving(every=2), 1), versions(Constant(), 0.5), strict=True):
        assert scheduled == pytest.approx(plain, rel=1e-13, abs=1e-15)
    assert np.abs(versions(Halving(every=2), 1)[1] - versions(Constant(), 1)[1]).max() > 1e-3


def test_the_fall_from_a_version_on_is_the_minimum_of_a_constant_and_an_inverse():
    """lr = min(c, a / (version + b)) has hold = a/c - b and half = a/c."""
    versions = np.arange(5000)
    expected = np.minimum(0.02, 40 / (versions + 1200))
    assert 0.02 * Inverse(half=2000, hold=800).factors(versions) == pytest.approx(expected, rel=1e-12)


def rates_of(**schedules):
    return spec(Cvar(alpha=0.5, lr_t=0.3), lr=0.1, **schedules).rates(np.array([0, 3, 8]))


def test_t_has_a_schedule_of_its_own():
    halved = [0.1, 0.05, 0.00625]
    falling = [0.3, 0.12, 0.06]
    both = rates_of(local_epochs=1, schedule=Halving(every=2), t_schedule=Inverse(half=2))
    assert both == pytest.approx(np.array([halved, falling]).T)
    only_t = rates_of(local_epochs=1, t_schedule=Inverse(half=2))
    assert only_t == pytest.approx(np.array([[0.1] * 3, falling]).T)
    held = rates_of(local_epochs=1, schedule=Halving(every=2), t_schedule=Constant())
    assert held == pytest.approx(np.array([halved, [0.3] * 3]).T)
    shared = rates_of(local_epochs=1, schedule=Inverse(half=2))
    assert shared == pytest.approx(np.array([[0.1, 0.04, 0.02], falling]).T)


def test_a_schedule_without_t_is_an_error():
    facts = ScenarioFacts(users=2, rounds=6)
    with_t = spec(Cvar(alpha=0.5, lr_t=0.3), local_epochs=1, t_schedule=Inverse(half=2))
    assert [*with_t.faults(facts)] == []
    (error,) = spec(local_epochs=1, t_schedule=Inverse(half=2)).faults(facts)
    assert error.key == "t_schedule"
    assert "because the objective 'erm' has no t" in error.problem


@pytest.mark.parametrize(
    ("schedule", "total"), [(Halving(every=1), 1 + 1 / 2 + 1 / 4 + 1 / 8), (Inverse(half=1), 1 + 1 / 2 + 1 / 3 + 1 / 4)]
)
def test_the_steps_of_t_fall_while_those_of_theta_are_constant(schedule, total):
    """All losses exceed t, which rises by ``lr_t (1-γ) (1/α - 1)`` in each step, and θ does not depend on it."""

    def last_version(**schedules):
        objective = Cvar(alpha=0.5, gamma=0.2, lr_t=0.1)
        batched = learner({"a": spec(objective, Relay(), lr=0.01, local_steps=1, **schedules)})
        for index in range(1, 5):
            batched.step([a_round(index, (index % 3, index - 1))])
        return batched.version(0)

    falling = last_version(t_schedule=schedule)
    assert falling[-1] == pytest.approx(0.1 * 0.8 * total, rel=1e-12)
    constant = last_version()
    assert falling[:-1] == pytest.approx(constant[:-1], rel=1e-13)
    assert constant[-1] == pytest.approx(0.1 * 0.8 * 4, rel=1e-12)


def test_comparisons_read_the_schedule_of_t():
    from netfl.results.comparison import comparison_state

    learners = {"A": {"lr": 0.1, "t_schedule": {"kind": "inverse", "half": 2}}, "B": {"lr": 0.1}}
    assert comparison_state({"learners": learners}, {}) == "settings as given, not tuned"
