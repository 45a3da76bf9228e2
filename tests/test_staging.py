"""What a run needs before its first round."""

import numpy as np
import pytest

from netfl.document import Document
from netfl.errors import ScenarioError
from netfl.learning.batches import Shuffles
from netfl.learning.settings import LearnerSpec
from netfl.learning.training import amount
from netfl.scenario import checked
from netfl.staging import _samples, rehearse, stage
from netfl.streams import Streams


@pytest.mark.parametrize("batch", [1, 5, 16, 64, 65, 100, 200, "full"])
@pytest.mark.parametrize("work", [{"local_steps": 1}, {"local_steps": 10}, {"local_steps": 37}, {"local_epochs": 3}])
def test_users_compute_for_what_they_train(batch, work):
    learner = LearnerSpec.model_validate(
        {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": batch} | work
    )
    held = np.array([1, 43, 65, 100])
    ones, users = np.zeros(4, np.int64), np.arange(4)
    batches = Shuffles([Streams(1)]).batches(ones, users, ones, held, amount(learner))
    trained = batches.counts.sum(axis=1)[np.argsort(batches.order)]
    assert _samples(learner, held.astype(float)).tolist() == trained.tolist()


def said(**changes):
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
    return checked(
        Document(
            {
                "name": "a",
                "users": 4,
                "rounds": 2,
                "access": {"kind": "bernoulli", "probability": 0.5},
                "data": {"kind": "digits"},
                "partition": {"kind": "iid"},
                "model": {"kind": "logistic"},
                "learners": {"one": learner},
            }
            | changes,
            "a",
        )
    )


def test_a_class_that_cannot_be_tested_is_a_fault():
    with pytest.raises(ScenarioError, match="data: the test set holds no example of class"):
        rehearse(said(data={"kind": "digits", "test_share": 0.01}))


def test_the_users_table_tells_the_order_that_the_partition_went_by():
    access = {"kind": "stationary", "rho": [0.1, 0.4, 0.2, 0.3]}
    staged = stage(said(access=access, partition={"kind": "rare_classes", "classes": [9], "users": 1}))
    assert staged.users(0)["rank"].tolist() == [3, 0, 2, 1]
    assert staged.users(0)["class:9"].argmax() == 0
    assert "rank" not in stage(said()).users(0)


def test_later_replicas_are_staged_as_they_are_among_all():
    everything = stage(said(replicas=4))
    later = stage(said(replicas=4), first=2)
    assert (everything.replicas, later.replicas) == (range(4), range(2, 4))
    for replica in later.replicas:
        for name, column in everything.users(replica).items():
            assert np.array_equal(column, later.users(replica)[name])
    assert [one.replica for one in later.settings] == [2, 3]
    assert [one.streams for one in later.settings] == [one.streams for one in everything.settings[2:]]
