"""What a run needs before its first round."""

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.learning.cohort import Cohort
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LearnerSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.dry_run import run_dry
from netfl.simulation.setup import _samples, prepare_run
from netfl.streams import Streams


@pytest.mark.parametrize("batch", [1, 5, 16, 64, 65, 100, 200, "full"])
@pytest.mark.parametrize("work", [{"local_steps": 1}, {"local_steps": 10}, {"local_steps": 37}, {"local_epochs": 3}])
def test_users_compute_for_what_they_train(batch, work):
    learner = LearnerSpec.model_validate(
        {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": batch} | work
    )
    held = np.array([1, 43, 65, 100])
    ones, users = np.zeros(4, np.int64), np.arange(4)
    batches = BatchSampler([Streams(1)]).draw(Cohort(ones, users, ones, ()), held, learner.local_work)
    trained = batches.counts.sum(axis=1)[np.argsort(batches.order)]
    assert _samples(learner, held.astype(float)).tolist() == trained.tolist()
    assert learner.local_work.examples(held.astype(float)).tolist() == trained.tolist()


def said(**changes):
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
    return validate(
        ScenarioDocument(
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


def test_a_rare_class_that_cannot_be_tested_is_a_fault():
    few = {"kind": "digits", "test_share": 0.01}
    tested = np.bincount(prepare_run(said(data=few)).dataset.test_y, minlength=10)
    lacking = int(np.argmin(tested))
    assert tested[lacking] == 0
    with pytest.raises(ScenarioError, match=f"data: the test set has no example of rare class {lacking}"):
        run_dry(said(data=few, evaluate={"rare_classes": [lacking]}))


def same_rows(some, others):
    """Whether both hold the same examples, in any order."""
    return sorted(one.tobytes() for one in some) == sorted(one.tobytes() for one in others)


def test_a_share_of_each_users_examples_is_kept_to_validate_with():
    plain, kept = (prepare_run(said(replicas=2, evaluate=evaluate)) for evaluate in ({}, {"validation": 0.15}))
    assert plain.validation == []
    data = plain.dataset
    for replica in range(2):
        own = kept.validation[replica]
        for user, (before, after) in enumerate(zip(plain.splits[replica], kept.splits[replica], strict=True)):
            assert len(after) == len(before) - int(0.15 * len(before))
            assert set(after.tolist()) < set(before.tolist())
            apart = sorted(set(before.tolist()) - set(after.tolist()))
            mine = own.x[own.user == user]
            assert same_rows(mine, data.train_x[apart])
            assert (
                np.bincount(own.y[own.user == user], minlength=10).tolist()
                == np.bincount(data.train_y[apart], minlength=10).tolist()
            )
        assert kept.contexts[replica].held.tolist() == [len(rows) for rows in kept.splits[replica]]


SYNTHETIC = {"data": {"kind": "synthetic", "users": 4}, "partition": {"kind": "natural"}}
PAIR = {"learners": ["one", "two"], "per": "user"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"evaluate": {"metrics": ["validation"]}}, "evaluate: these data have no validation examples"),
        ({"evaluate": {"validation": 0.001}}, "evaluate.validation: no user has a validation example"),
        ({"evaluate": {"validation": 0.2}} | SYNTHETIC, "evaluate.validation: has no effect because these data have"),
        (
            {"evaluate": {"choose": {"best": PAIR}}} | SYNTHETIC | {"partition": {"kind": "iid"}},
            "evaluate.choose.best.per: the validation examples belong to no user",
        ),
    ],
)
def test_what_cannot_be_validated_is_a_fault(changes, problem):
    learner = said().learners["one"].model_dump()
    with pytest.raises(ScenarioError, match=problem):
        prepare_run(said(learners={"one": learner, "two": learner}, **changes))


def test_data_with_validation_examples_bring_their_own():
    setup = prepare_run(said(evaluate={"metrics": ["validation"]}, **SYNTHETIC))
    assert setup.validation[0] is setup.dataset.validation
    assert prepare_run(said(**SYNTHETIC)).validation == []
    anyone = prepare_run(said(evaluate={"metrics": ["validation"]}, **(SYNTHETIC | {"partition": {"kind": "iid"}})))
    assert anyone.validation[0].user is None


def test_the_users_table_tells_the_order_that_the_partition_went_by():
    access = {"kind": "stationary", "rho": [0.1, 0.4, 0.2, 0.3]}
    setup = prepare_run(said(access=access, partition={"kind": "rare_classes", "classes": [9], "users": 1}))
    assert setup.users(0)["rank"].tolist() == [3, 0, 2, 1]
    assert setup.users(0)["class:9"].argmax() == 0
    assert "rank" not in prepare_run(said()).users(0)


def test_later_replicas_are_staged_as_they_are_among_all():
    everything = prepare_run(said(replicas=4))
    later = prepare_run(said(replicas=4), replicas=range(2, 4))
    assert (everything.replicas, later.replicas) == (range(4), range(2, 4))
    for replica in later.replicas:
        for name, column in everything.users(replica).items():
            assert np.array_equal(column, later.users(replica)[name])
    assert [one.replica for one in later.contexts] == [2, 3]
    assert [one.streams for one in later.contexts] == [one.streams for one in everything.contexts[2:]]
