"""Schedules: factors by hand, and each update uses the step size of its base version."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support.learner_factory import a_round, learner, spec

from netfl.learning.aggregation.relay import Relay
from netfl.learning.objective.cvar import Cvar
from netfl.learning.schedule.constant import Constant
from netfl.learning.schedule.halving import Halving
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
    ],
    ids=repr,
)
def test_steps_after_the_last_version_are_errors(schedule, key, value):
    """Users start from versions 0 to 5 in 6 rounds."""
    found = [*schedule.faults(ScenarioFacts(users=2, rounds=6))]
    assert [error.key for error in found] == ([] if key is None else [key])
    assert all(value in error.problem for error in found)


def test_step_equals_the_schedule_of_pytorch():
    parameter = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    reference = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones=[2, 3, 6], gamma=0.1)
    expected = []
    for _ in range(9):
        expected.append(reference.get_last_lr()[0])
        optimiser.step()
        reference.step()
    assert Step(milestones=(2, 3, 6), factor=0.1).factors(np.arange(9)) == pytest.approx(expected, rel=1e-12)


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
