"""Aggregations, each compared with its sum."""

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


def test_relay_returns_the_model_and_t():
    following, _ = Relay().step({}, CURRENT, updates([3.0, 4.0, 0.25], samples=[9.0]))
    assert following.tolist() == [3.0, 4.0, 0.25]


def test_relay_rejects_two_deliveries():
    with pytest.raises(ValueError, match="round 4 delivered 2"):
        Relay().step({}, CURRENT, updates([3.0, 4.0, 0.0], [1.0, 2.0, 0.0], samples=[1.0, 1.0]))
    (error,) = Relay().faults(ScenarioFacts(users=3, rounds=1, max_deliveries=2))
    assert "first: 1" in error.remedy
    assert not [*Relay().faults(ScenarioFacts(users=3, rounds=1, max_deliveries=1))]


def test_average_weights_by_size_or_equally():
    given = updates([3.0, 0.0, 1.0], [1.0, 4.0, 0.0], samples=[3.0, 1.0])
    assert Average().step({}, CURRENT, given)[0].tolist() == [2.5, 1.0, 0.75]
    assert Average(weights="equal").step({}, CURRENT, given)[0].tolist() == [2.0, 2.0, 0.5]


def test_rules_do_not_change_their_arguments():
    given = updates([3.0, 0.0, 1.0], samples=[3.0])
    kept = given.models.clone()
    for rule in (Relay(), Average()):
        rule.step(rule.open(3, CURRENT), CURRENT, given)
    assert CURRENT.tolist() == [1.0, 1.0, 0.5]
    assert torch.equal(given.models, kept)


def test_average_uses_the_server_step_size():
    current, mean = torch.tensor([1e3, 1e3, -1e3]), torch.tensor([1.0, 1e-7, 3.0])
    given = updates([1.0, 1e-7, 3.0], samples=[9.0])
    assert torch.equal(Average().step({}, current, given)[0], mean)
    for factor in (0.5, 2.0):
        following = Average(server_lr=factor).step({}, current, given)[0]
        assert following.tolist() == pytest.approx((current + factor * (mean - current)).tolist())
