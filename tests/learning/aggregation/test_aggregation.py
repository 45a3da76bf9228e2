"""Aggregations, each against its sum written out."""

import pytest
import torch

from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.types import ScenarioFacts

CURRENT = torch.tensor([1.0, 1.0, 0.5])


def updates(*models, samples):
    count = len(models)
    return Updates(
        round=4,
        users=torch.arange(count),
        base_rounds=torch.full((count,), 3),
        bases=CURRENT.expand(count, 3),
        models=torch.tensor(models),
        samples=torch.tensor(samples),
        steps=torch.ones(count),
        rates=torch.ones(count, 2),
        newest_rates=torch.ones(2),
    )


def test_relay_passes_on_the_model_and_its_t():
    following, _ = Relay().step({}, CURRENT, updates([3.0, 4.0, 0.25], samples=[9.0]))
    assert following.tolist() == [3.0, 4.0, 0.25]


def test_relay_refuses_to_choose():
    with pytest.raises(ValueError, match="round 4 delivered 2"):
        Relay().step({}, CURRENT, updates([3.0, 4.0, 0.0], [1.0, 2.0, 0.0], samples=[1.0, 1.0]))
    (fault,) = Relay().faults(ScenarioFacts(users=3, rounds=1, max_deliveries=2))
    assert "first: 1" in fault.remedy
    assert not [*Relay().faults(ScenarioFacts(users=3, rounds=1, max_deliveries=1))]


def test_average_weighs_by_size_or_equally_and_t_alike():
    told = updates([3.0, 0.0, 1.0], [1.0, 4.0, 0.0], samples=[3.0, 1.0])
    assert Average().step({}, CURRENT, told)[0].tolist() == [2.5, 1.0, 0.75]
    assert Average(weights="equal").step({}, CURRENT, told)[0].tolist() == [2.0, 2.0, 0.5]


def test_neither_writes_into_what_it_is_given():
    told = updates([3.0, 0.0, 1.0], samples=[3.0])
    kept = told.models.clone()
    for one in (Relay(), Average()):
        one.step(one.open(3, CURRENT), CURRENT, told)
    assert CURRENT.tolist() == [1.0, 1.0, 0.5]
    assert torch.equal(told.models, kept)


def test_average_steps_as_far_as_it_is_told_to_and_by_1_to_the_very_mean():
    current, mean = torch.tensor([1e3, 1e3, -1e3]), torch.tensor([1.0, 1e-7, 3.0])
    told = updates([1.0, 1e-7, 3.0], samples=[9.0])
    assert torch.equal(Average().step({}, current, told)[0], mean)
    for factor in (0.5, 2.0):
        following = Average(server_lr=factor).step({}, current, told)[0]
        assert following.tolist() == pytest.approx((current + factor * (mean - current)).tolist())
