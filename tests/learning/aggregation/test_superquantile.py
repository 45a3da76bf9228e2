"""Δ-FL: which deliveries a round averages, by hand and beside the quantile of the authors' program."""

import numpy as np
import pytest
from support import paper_algorithms as papers
from support.error_messages import assert_messages
from support.loss_traces import play_beside, updates_of

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.superquantile import Superquantile
from netfl.types import ScenarioFacts

ALPHAS = (0.1, 0.2, 0.29, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_versions_equal_the_authors_program(alpha):
    """The level of the program is a decimal number, so that 1 - α is rounded to one."""
    for found, expected, _ in play_beside(
        Superquantile(alpha=alpha), papers.Superquantile(round(1 - alpha, 2)), seed=3
    ):
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)


def averaged(alpha, losses, samples):
    """Return the deliveries of a round that are averaged."""
    count = len(losses)
    updates = updates_of(
        1, np.arange(count), np.zeros(count, int), np.zeros((count, count)), np.eye(count), np.array(samples), losses
    )
    following, _ = Superquantile(alpha=alpha).step({}, updates.bases[0], updates)
    weights = following.numpy()
    counts = np.where(weights > 0, samples, 0)
    assert weights == pytest.approx(counts / counts.sum(), abs=1e-15)
    return np.flatnonzero(weights).tolist()


def test_the_worst_users_by_hand():
    """100 examples; the user at the quantile counts whole, and equal losses count together."""
    losses, samples = [0.5, 3.0, 1.0, 2.0], [40, 10, 29, 21]
    assert averaged(1.0, losses, samples) == [0, 1, 2, 3]
    assert averaged(0.61, losses, samples) == [0, 1, 2, 3]
    assert averaged(0.59, losses, samples) == [1, 2, 3]
    assert averaged(0.32, losses, samples) == [1, 2, 3]
    assert averaged(0.3, losses, samples) == [1, 3]
    assert averaged(0.1, losses, samples) == [1, 3]  # 90 examples have at most the loss 2
    assert averaged(0.09, losses, samples) == [1]
    assert averaged(0.01, [2.0, 1.0, 2.0], [1, 1, 1]) == [0, 2]


def test_a_share_without_an_exact_binary_form():
    """29 of 100 examples are the share 0.29, which is a little less than 0.29 as a number of the machine."""
    assert 0.29 * 100 < 29
    assert averaged(0.29, [2.0, 1.0], [29, 71]) == [0, 1]
    assert averaged(0.28, [2.0, 1.0], [29, 71]) == [0]


def test_one_delivery_or_all_users_are_the_average():
    for found, expected, _ in play_beside(Superquantile(alpha=1), papers.Average(), seed=1):
        assert found == pytest.approx(expected, rel=1e-12)
    assert averaged(0.01, [0.1], [5]) == [0]


def test_buffers_are_those_of_the_averaged_deliveries():
    losses, samples = [0.5, 3.0, 1.0], np.array([5, 10, 5])
    updates = updates_of(
        1, np.arange(3), np.zeros(3, int), np.zeros((3, 2)), np.array([[9.0, 9], [2, 4], [8, 1]]), samples, losses
    )
    buffers = Superquantile(alpha=0.6).next_buffers(updates.bases[0], updates)
    assert buffers.tolist() == pytest.approx([(20 + 40) / 15, (40 + 5) / 15])
    everybody = Superquantile(alpha=1).next_buffers(updates.bases[0], updates)
    assert everybody.tolist() == pytest.approx(Average().next_buffers(updates.bases[0], updates).tolist())


def test_an_access_with_one_delivery_in_a_round_is_refused():
    rule = Superquantile(alpha=0.5)
    assert [fault.key for fault in rule.faults(ScenarioFacts(users=6, rounds=1, max_deliveries=1))] == ["alpha"]
    assert not [*rule.faults(ScenarioFacts(users=6, rounds=1, max_deliveries=2))]
    scenario = {
        "name": "one",
        "users": 4,
        "rounds": 3,
        "access": {"kind": "bernoulli", "probability": 0.5, "deliveries": 1},
        "data": "digits",
        "partition": "iid",
        "model": "logistic",
        "learners": {
            "worst": {
                "objective": "erm",
                "aggregation": {"kind": "superquantile", "alpha": 0.5},
                "lr": 0.1,
                "batch_size": 8,
                "local_steps": 1,
            }
        },
    }
    with pytest.raises(ScenarioError) as caught:
        netfl.load(scenario)
    assert_messages(
        str(caught.value).splitlines(),
        ["learners.worst.aggregation.alpha: has no effect … delivers one update in a round … or 'average'"],
    )
