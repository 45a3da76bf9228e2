"""Preparation of a run before its first round."""

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
@pytest.mark.parametrize(
    "local_work", [{"local_steps": 1}, {"local_steps": 10}, {"local_steps": 37}, {"local_epochs": 3}]
)
def test_training_time_counts_the_trained_samples(batch, local_work):
    learner = LearnerSpec.model_validate(
        {"objective": "erm", "aggregation": "relay", "lr": 0.1, "batch_size": batch} | local_work
    )
    sizes = np.array([1, 43, 65, 100])
    ones, users = np.zeros(4, np.int64), np.arange(4)
    batches = BatchSampler([Streams(1)]).draw(Cohort(ones, users, ones, ()), sizes, learner.local_work)
    trained = batches.counts.sum(axis=1)[np.argsort(batches.order)]
    assert _samples(learner, sizes.astype(float)).tolist() == trained.tolist()
    assert learner.local_work.examples(sizes.astype(float)).tolist() == trained.tolist()


def make_scenario(**changes):
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


@pytest.mark.parametrize("partition", ["natural", "iid"])
def test_users_have_the_names_of_the_data(tmp_path, partition):
    """Users in a file are numbered by their names; another partition deals their examples out to other users."""
    lines = ["a,b,label,site", *(f"{row},1,{row % 2},{'Ulm' if row % 3 else 'Bern'}" for row in range(60))]
    (tmp_path / "sites.csv").write_text("\n".join(lines))
    data = {"kind": "table", "file": str(tmp_path / "sites.csv"), "features": ["a", "b"], "labels": 2, "user": "site"}
    users = prepare_run(make_scenario(users=2, data=data, partition={"kind": partition})).users(0)
    assert ("name" in users) == (partition == "natural")
    assert partition == "iid" or users["name"].tolist() == ["Bern", "Ulm"]


def test_rare_class_without_test_examples_is_an_error():
    data = {"kind": "digits", "test_share": 0.01}
    counts = np.bincount(prepare_run(make_scenario(data=data)).dataset.test_y, minlength=10)
    missing_class = int(np.argmin(counts))
    assert counts[missing_class] == 0
    with pytest.raises(ScenarioError, match=f"data: the test set has no example of rare class {missing_class}"):
        run_dry(make_scenario(data=data, evaluate={"rare_classes": [missing_class]}))


def same_rows(first, second):
    """Return whether both arrays contain the same examples in any order."""
    return sorted(row.tobytes() for row in first) == sorted(row.tobytes() for row in second)


def test_validation_uses_a_share_of_each_users_examples():
    plain, split_off = (
        prepare_run(make_scenario(replicas=2, evaluate=evaluate)) for evaluate in ({}, {"validation": 0.15})
    )
    assert plain.validation == []
    data = plain.dataset
    for replica in range(2):
        validation = split_off.validation[replica]
        for user, (before, after) in enumerate(zip(plain.splits[replica], split_off.splits[replica], strict=True)):
            assert len(after) == len(before) - int(0.15 * len(before))
            assert set(after.tolist()) < set(before.tolist())
            validation_rows = sorted(set(before.tolist()) - set(after.tolist()))
            examples = validation.x[validation.user == user]
            assert same_rows(examples, data.train_x[validation_rows])
            assert (
                np.bincount(validation.y[validation.user == user], minlength=10).tolist()
                == np.bincount(data.train_y[validation_rows], minlength=10).tolist()
            )
        assert split_off.contexts[replica].held.tolist() == [len(rows) for rows in split_off.splits[replica]]


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
def test_validation_that_is_impossible_is_an_error(changes, problem):
    learner = make_scenario().learners["one"].model_dump()
    with pytest.raises(ScenarioError, match=problem):
        prepare_run(make_scenario(learners={"one": learner, "two": learner}, **changes))


def test_data_set_may_contain_validation_examples():
    setup = prepare_run(make_scenario(evaluate={"metrics": ["validation"]}, **SYNTHETIC))
    assert setup.validation[0] is setup.dataset.validation
    assert prepare_run(make_scenario(**SYNTHETIC)).validation == []
    pooled = prepare_run(
        make_scenario(evaluate={"metrics": ["validation"]}, **(SYNTHETIC | {"partition": {"kind": "iid"}}))
    )
    assert pooled.validation[0].user is None


def test_users_table_contains_the_rank_used_by_the_partition():
    access = {"kind": "stationary", "rho": [0.1, 0.4, 0.2, 0.3]}
    setup = prepare_run(make_scenario(access=access, partition={"kind": "rare_classes", "classes": [9], "users": 1}))
    assert setup.users(0)["rank"].tolist() == [3, 0, 2, 1]
    assert setup.users(0)["class:9"].argmax() == 0
    assert "rank" not in prepare_run(make_scenario()).users(0)


def test_subset_of_replicas_equals_those_of_all_replicas():
    all_replicas = prepare_run(make_scenario(replicas=4))
    later = prepare_run(make_scenario(replicas=4), replicas=range(2, 4))
    assert (all_replicas.replicas, later.replicas) == (range(4), range(2, 4))
    for replica in later.replicas:
        for name, column in all_replicas.users(replica).items():
            assert np.array_equal(column, later.users(replica)[name])
    assert [context.replica for context in later.contexts] == [2, 3]
    assert [context.streams for context in later.contexts] == [context.streams for context in all_replicas.contexts[2:]]
