"""Places of errors in overrides of learners: the option as a shell reads it, with the name and the value as given."""

import shlex

import pytest

import netfl
from netfl.core.remedies import command_line
from netfl.errors import ScenarioError

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}
SCENARIO = {
    "name": "places",
    "users": 3,
    "rounds": 2,
    "access": {"kind": "bernoulli", "probability": 0.5},
    "data": "digits",
    "partition": "iid",
    "model": "logistic",
    "learners": {"FedAvg": LEARNER, "FedAvg, 2 x step": LEARNER},
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learners.fedavg.lr", 0.2),  # no such learner
        ("learners.FedAvg.lrr", 0.2),
        ("learners.FedAvg, 2 x step.lr", -1),
        ("learners.fedavg, 2 x step.lr", 0.5),
    ],
)
def test_the_place_of_an_error_is_the_option_that_was_given(key, value):
    with command_line(), pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO, {key: value})
    (fault,) = error.value.faults
    assert shlex.split(fault.where) == ["--set", f"{key}={value}"]


@pytest.mark.parametrize("key", ["learners.FedAvg.lrr", "learners.fedavg.lr"])
def test_the_place_of_an_error_in_python_is_the_argument(key):
    with pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO, {key: 0.2})
    (fault,) = error.value.faults
    assert fault.where == f"overrides={{{key!r}: 0.2}}"


def test_what_is_left_out_of_a_value_is_no_reason_for_quotes():
    with command_line(), pytest.raises(ScenarioError) as error:
        netfl.load(SCENARIO, {"learners.fedavg": {"lr": 0.2, "objectiv": "erm"}, "learners.fedavg.batch": {"a": 1}})
    assert error.value.faults[0].where == "--set learners.fedavg.batch=…"
