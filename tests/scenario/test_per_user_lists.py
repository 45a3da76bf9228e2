"""Remedies for one value in place of a list with an entry for each user, and for keys that are numbers."""

import pytest

import netfl
from netfl.errors import ScenarioError

LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}


def scenario(**changes):
    return {
        "name": "lists",
        "users": 3,
        "rounds": 2,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 60},
        "partition": "iid",
        "model": "logistic",
        "learners": {"FedAvg": LEARNER},
        **changes,
    }


def faults_of(settings):
    """Return the errors of a scenario; none if it is valid."""
    try:
        netfl.load(settings)
    except ScenarioError as error:
        return error.faults
    return ()


KNOWN = {**LEARNER, "aggregation": {"kind": "known_participation", "probability": 0.5}}
PER_USER = {
    "rho": (scenario(access={"kind": "stationary", "rho": 0.4}), ["access", "rho"], [0.5, 0.25, 0.25]),
    "probability": (scenario(learners={"A": KNOWN}), ["learners", "A", "aggregation", "probability"], [0.5, 0.2, 0.1]),
    "classes": (scenario(partition={"kind": "by_class", "classes": 1}), ["partition", "classes"], [[0], [1], [0, 1]]),
}


@pytest.mark.parametrize("name", PER_USER)
def test_one_value_for_all_users_has_a_remedy_that_is_accepted(name):
    settings, keys, value = PER_USER[name]
    (fault,) = faults_of(settings)
    assert fault.key == ".".join(keys)
    assert fault.problem == "not a list"
    assert fault.remedy.startswith("give a list with one entry for each user")
    section = settings
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    assert faults_of(settings) == ()
    if "zipf" in fault.remedy:
        section[keys[-1]] = {"zipf": 1.0}
        assert faults_of(settings) == ()
    if "random_simplex" in fault.remedy:
        section[keys[-1]] = "random_simplex"
        assert faults_of(settings) == ()


@pytest.mark.parametrize("kind", ["placement/listed", "topology/star", "mac/fdma"])
def test_other_lists_with_an_entry_for_each_user_are_marked(kind):
    from netfl.core.family_members import base_of, find_model
    from netfl.core.spec_errors import PerUser

    family, _, name = kind.partition("/")
    model = find_model(base_of(f"network/{family}"), name)
    marked = [key for key, field in model.model_fields.items() if any(isinstance(m, PerUser) for m in field.metadata)]
    assert marked == {"listed": ["positions"], "star": ["distances"], "fdma": ["shares"]}[name]


def test_a_list_that_is_not_per_user_keeps_its_remedy():
    (fault,) = faults_of(scenario(evaluate={"targets": 0.8}))
    assert fault.remedy == "write [0.8]"
    assert faults_of(scenario(evaluate={"targets": [0.8]})) == ()


def test_rates_of_zero_are_not_divided_by_their_sum():
    (fault,) = faults_of(scenario(access={"kind": "stationary", "rho": [0, 0, 0]}))
    assert (fault.problem, fault.remedy) == ("all rates are 0", "give a user a rate above 0")


def test_a_number_as_a_key_is_the_end_of_a_decimal_number_only_without_a_value():
    text = "name: keys\nusers: 3\nrounds: 2\naccess: {kind: bernoulli, probability: 0,5}\n"
    remedy = "write a decimal point, as in 0.5: a comma begins the next key"
    assert [fault.remedy for fault in faults_of(text) if fault.key == "access.5"] == [remedy]
    text = "name: keys\nusers: 3\nrounds: 2\naccess: {kind: bernoulli, probability: 0.5, 1: 2}\n"
    (fault,) = faults_of(text)
    assert fault.key == "access.1"
    assert fault.remedy.startswith("known: ")
    (fault,) = faults_of(scenario(access={"kind": "bernoulli", "probability": {1: 2}}))
    assert "decimal" not in fault.remedy
