"""Further test sets: their metrics equal a calculation with NumPy, and readers of metrics accept their names."""

import numpy as np
import pandas as pd
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.blobs import Blobs
from netfl.learning.evaluation_sets import load_test_sets, set_faults, thin_tests, vary_data
from netfl.report import sections
from netfl.results.formatting import learner_metrics
from netfl.streams import Streams

CENTERS = [[0, 0], [1, 1], [2, 0]]
SCENARIO = {
    "name": "sets",
    "seed": 5,
    "replicas": 2,
    "users": 3,
    "rounds": 12,
    "access": {"kind": "bernoulli", "probability": 0.8},
    "data": {"kind": "blobs", "centers": CENTERS, "std": 0.3, "samples": 60},
    "partition": {"kind": "dirichlet", "concentration": 1},
    "model": "logistic",
    "learners": {
        name: {"objective": "erm", "aggregation": "average", "lr": lr, "batch_size": 10, "local_steps": 3}
        for name, lr in (("A", 0.3), ("B", 0.03))
    },
    "evaluate": {"every": 4, "rare_classes": [2], "sets": {"wide": {"std": 1.0}, "narrow": {"std": 0.1}}},
    "record": {"events": "none", "versions": 12},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return netfl.run(SCENARIO, tmp_path_factory.mktemp("runs") / "sets", progress=False)


def loaded(std):
    return Blobs(centers=CENTERS, std=std, samples=60).load(Streams(5).at("data"))


def last_value(run, learner, replica, metric, group=""):
    rows = run.metrics[(run.metrics["round"] == 12) & (run.metrics["replica"] == replica)]
    (value,) = rows[(rows["learner"] == learner) & (rows["metric"] == metric) & (rows["group"] == group)]["value"]
    return value


@pytest.mark.parametrize(("name", "std"), [("", 0.3), ("@wide", 1.0), ("@narrow", 0.1)])
def test_metrics_on_a_set_equal_those_of_numpy(run, name, std):
    data = loaded(std)
    for learner in ("A", "B"):
        for replica in range(2):
            weight, bias = run.versions(learner, replica)[12].values()
            scores = data.test_x @ weight.T + bias
            correct = scores.argmax(1) == data.test_y
            loss = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(scores)), data.test_y]
            by_class = [correct[data.test_y == label].mean() for label in range(3)]
            held = run.users[run.users["replica"] == replica]
            counts = held[[f"class:{label}" for label in range(3)]].to_numpy()
            by_user = counts @ by_class / counts.sum(1)
            expected = {
                ("accuracy", ""): correct.mean(),
                ("accuracy", "class:1"): by_class[1],
                ("accuracy", "user:2"): by_user[2],
                ("loss", ""): loss.mean(),
                ("rare_accuracy", ""): by_class[2],
                ("accuracy_users_variance", ""): by_user.var(),
            }
            for (metric, group), value in expected.items():
                found = last_value(run, learner, replica, f"{metric}{name}", group)
                assert found == pytest.approx(value, abs=1e-5), (metric, group)


def test_training_and_the_test_set_of_the_data_are_unchanged(run, tmp_path):
    alone = netfl.run(SCENARIO | {"evaluate": {"every": 4, "rare_classes": [2]}}, tmp_path / "run", progress=False)
    rest = run.metrics[~run.metrics["metric"].astype(str).str.contains("@")]
    columns = ["replica", "round", "learner", "metric", "group", "value"]
    frames = [table[columns].astype({"learner": str, "metric": str, "group": str}).reset_index(drop=True)
              for table in (rest, alone.metrics)]  # fmt: skip
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.slow
def test_readers_of_metrics_accept_test_sets(run):
    assert run.test_sets == ("wide", "narrow")
    assert "±" not in run.learner_cells["accuracy@wide"][0]  # of two replicas
    assert "accuracy_users_jain@wide" not in run.learner_cells
    mean = np.mean([run.final_metrics_of([replica])[0]["A.accuracy@wide.last_tenth"] for replica in range(2)])
    assert run.summary["A.accuracy@wide.last_tenth"] == pytest.approx(mean)
    table = netfl.compare(run, ["accuracy", "accuracy@wide"])
    assert table[table["metric"] == "accuracy@wide"]["mean"].iloc[0] == pytest.approx(mean)
    assert "accuracy on wide" in table.to_latex()
    assert "Accuracy on wide" in sections.write(run).read_text()
    assert learner_metrics(["wide"])[-4:-1] == ["accuracy@wide", "rare_accuracy@wide", "accuracy_users_worst10@wide"]


def test_choices_have_the_metrics_of_the_test_set_alone(tmp_path):
    choose = {"best": {"learners": ["A", "B"], "per": "user"}}
    evaluate = {**SCENARIO["evaluate"], "validation": 0.2, "choose": choose}
    run = netfl.run(SCENARIO | {"evaluate": evaluate}, tmp_path / "run", progress=False)
    of_choice = run.metrics[run.metrics["learner"] == "best"]["metric"]
    assert "accuracy" in set(of_choice)
    assert not of_choice.str.contains("@").any()
    for user in range(3):
        group = f"user:{user}"
        chosen = "AB"[int(last_value(run, "best", 0, "chosen", group))]
        own, of_chosen = (last_value(run, name, 0, "accuracy", group) for name in ("best", chosen))
        assert own == of_chosen


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"a": {"sdt": 1.0}}, "evaluate.sets.a.sdt: unknown key"),
        ({"a": {"std": -1}}, "evaluate.sets.a.std"),
        ({"a": {}}, "evaluate.sets.a: has no option"),
        ({"a": {"centers": [[0, 0], [1, 1]]}}, "evaluate.sets.a: changes the classes of the examples from 3 to 2"),
        ({"a@b": {"std": 1.0}}, "evaluate.sets.a@b"),
    ],
)
def test_wrong_sets_are_located(sets, message):
    with pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO | {"evaluate": {"sets": sets}})
    assert message in str(error.value)


def test_set_of_other_shape_is_an_error(tmp_path):
    file = tmp_path / "x.npz"
    np.savez(file, x=np.zeros((4, 2), np.float32), label=np.array([0, 1, 0, 1]))
    data = Arrays(file=str(file), features=(2,), labels=2)
    (fault,) = set_faults(data, {"a": {"features": [2, 1]}})
    assert str(fault).startswith("a: changes the shape of the examples from (2,) to (2, 1), but the model is the same")


def test_set_without_effect_is_an_error(tmp_path):
    with pytest.raises(ScenarioError, match=r"evaluate\.sets\.same: has no effect") as error:
        netfl.run(SCENARIO | {"evaluate": {"sets": {"same": {"std": 0.3}}}}, tmp_path / "run", progress=False)
    assert "give a key that changes them" in str(error.value)


def test_sets_are_thinned_with_the_test_set():
    data = Blobs(centers=CENTERS, std=0.3, samples=60)
    assert [*set_faults(data, {"wide": {"std": 1.0}})] == []
    whole = load_test_sets(data, {"wide": {"std": 1.0}}, loaded(0.3), Streams(5).at("data"))
    thin = thin_tests(whole, 5)
    np.testing.assert_array_equal(thin.test_sets["wide"].x, loaded(1.0).test_x[::5])
    np.testing.assert_array_equal(thin.test_y, whole.test_y[::5])
    assert vary_data(data, {"std": 1.0}).std == 1.0
